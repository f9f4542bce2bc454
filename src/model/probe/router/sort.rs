//! Ranks for the sorting routers, on the host and on tensors.
//!
//! On tensors, sorting is a product with the permutation matrix of the ranks, and ranks are counted
//! by comparing all pairs: every device has these operations, and the gradient of the product goes
//! through the same permutation. Tied tokens stay in the order of their indices.

use burn::tensor::{Device, Tensor, TensorData};

/// The sorting permutation, detached from the graph: 1 where token `i` has rank `k`, else 0.
/// `scores`: `[B, N]`; returns `[B, N, N]`.
pub fn permutation(scores: Tensor<2>) -> Tensor<3> {
    let [_, n] = scores.dims();
    let (device, dtype) = (scores.device(), scores.dtype());
    let scores = scores.detach();
    let own = scores.clone().unsqueeze_dim::<3>(2); // [B, N, 1]: s_i
    let other = scores.unsqueeze_dim::<3>(1); // [B, 1, N]: s_j
    let earlier = (0..n * n).map(|at| f32::from(at % n < at / n)).collect();
    let earlier = Tensor::<3>::from_data(TensorData::new::<f32, _>(earlier, [1, n, n]), &device);
    let before = other.clone().lower(own.clone()).float(); // [B, N (i), N (j)]: s_j < s_i
    let tied = other.equal(own).float() * earlier; // [B, N, N]: s_j = s_i and j < i
    let rank = (before + tied).sum_dim(2); // [B, N, 1]
    (rank - positions(n, &device)).abs().lower_scalar(0.5).float().cast(dtype) // [B, N, N]
}

/// `0, 1, ..., N-1` as `[1, 1, N]`.
pub fn positions(n: usize, device: &Device) -> Tensor<3> {
    let data = (0..n).map(|k| k as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(data, [1, 1, n]), device)
}

/// The scores in ascending order, differentiable: `places^T s`. `[B, N]` and `[B, N, N]` to `[B, N]`.
pub fn sorted(scores: Tensor<2>, places: Tensor<3>) -> Tensor<2> {
    (places * scores.unsqueeze_dim(2)).sum_dim(1).squeeze_dim(1)
}
