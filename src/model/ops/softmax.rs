//! The softmax of attention over tokens. On GPUs one kernel launch forward and one backward; burn's operations take 5 and 9.

use burn::tensor::{Shape, activation};

use super::custom_op::optional;
use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 128;

/// `exp(scale l_i) / (exp(b) + sum_j exp(scale l_j))` along the last axis of the logits `[B, Q, N]`: `[B, Q, N]`. The `extra` logit
/// `b` of every query, `[Q]`, takes a share that is not part of the output; without it the term `exp(b)` is missing.
pub fn softmax(logits: Tensor<3>, scale: f64, extra: Option<Tensor<1>>) -> Tensor<3> {
    let [images, queries, n] = logits.dims();
    if supports(&logits, UNITS, 3 * n.div_ceil(UNITS)) {
        let op = SoftmaxOp { scale: scale as f32, has_extra: extra.is_some() };
        let extra = optional(extra, &logits.device());
        return apply::<Cube, _, 2, 3>(op, [logits.into_dispatch(), extra]);
    }
    let logits = if scale == 1.0 { logits } else { logits * scale };
    let Some(extra) = extra else { return activation::softmax(logits, 2) };
    let extra = extra.reshape([1, queries, 1]).expand([images, queries, 1]);
    activation::softmax(Tensor::cat(vec![extra, logits], 2), 2).narrow(2, 1, n)
}

struct SoftmaxOp {
    scale: f32,
    /// Whether the second input is an extra logit, not a placeholder.
    has_extra: bool,
}

/// What the backward pass needs.
struct Saved {
    op: SoftmaxOp,
    /// The output, `[B, Q, N]`.
    shares: CubeTensor,
    /// The share of the extra logit, `[B, Q]`; unset without one.
    extra_share: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for SoftmaxOp {
    type Saved = Saved;

    fn forward(self, [logits, extra]: [CubeTensor; 2], _: bool) -> (CubeTensor, Saved) {
        let [images, queries, n] = logits.shape().dims();
        let shares = empty(&logits, [images, queries, n]);
        let extra_share = empty(&logits, [images, queries]);
        let [batch_stride, query_stride, stride] = logits.meta.strides()[..] else {
            unreachable!("three axes")
        };
        forward::launch(
            &logits.client,
            workgroups(images * queries),
            CubeDim::new_1d(UNITS as u32),
            arg(&logits),
            arg(&into_contiguous(extra)),
            arg(&shares),
            arg(&extra_share),
            self.scale,
            batch_stride,
            query_stride,
            stride,
            images * queries,
            queries,
            n,
            self.has_extra,
        );
        (shares.clone(), Saved { op: self, shares, extra_share })
    }

    fn vjp(
        Saved { op, shares, extra_share }: &Saved,
        grad_shares: CubeTensor,
        _: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let [images, queries, n] = shares.shape().dims();
        let grad_logits = empty(shares, [images, queries, n]);
        let grad_extra = empty(shares, [images, queries]);
        backward::launch(
            &shares.client,
            workgroups(images * queries),
            CubeDim::new_1d(UNITS as u32),
            arg(shares),
            arg(extra_share),
            arg(&into_contiguous(grad_shares)),
            arg(&grad_logits),
            arg(&grad_extra),
            op.scale,
            images * queries,
            n,
        );
        let grad_extra = op.has_extra.then(|| CubeBackend::float_sum_dim(grad_extra, 0));
        [Some(grad_logits), grad_extra.map(|grad| CubeBackend::float_reshape(grad, Shape::new([queries])))]
    }
}

/// One workgroup per row of logits: the largest logit, the sum of exponentials, the shares.
#[cube(launch)]
fn forward(
    logits: &[f32],
    extra: &[f32],
    shares: &mut [f32],
    extra_share: &mut [f32],
    scale: f32,
    batch_stride: usize,
    query_stride: usize,
    stride: usize,
    rows: usize,
    queries: usize,
    n: usize,
    #[comptime] has_extra: bool,
) {
    let row = usize::min(CUBE_POS, rows - 1);
    let query = row % queries;
    let first = row / queries * batch_stride + query * query_stride;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;

    let mut own = logits[first + unit % n * stride] * scale;
    if comptime!(has_extra) {
        own = max(own, extra[query]);
    }
    let mut at = unit;
    while at < n {
        own = max(own, logits[first + at * stride] * scale);
        at += UNITS;
    }
    let largest = fold(own, &mut lanes, Fold::Largest, UNITS);

    let mut sum = 0.0f32;
    at = unit;
    while at < n {
        sum += (logits[first + at * stride] * scale - largest).exp();
        at += UNITS;
    }
    let mut total = fold(sum, &mut lanes, Fold::Sum, UNITS);
    if comptime!(has_extra) {
        let extra_exp = (extra[query] - largest).exp();
        total += extra_exp;
        if unit == 0 {
            extra_share[row] = extra_exp / total;
        }
    }

    at = unit;
    while at < n {
        shares[row * n + at] = (logits[first + at * stride] * scale - largest).exp() / total;
        at += UNITS;
    }
}

/// `scale p_i (g_i - sum_j p_j g_j)`, where `g` is the gradient of the shares `p`; that of the extra share is 0.
#[cube(launch)]
fn backward(
    shares: &[f32],
    extra_share: &[f32],
    grad_shares: &[f32],
    grad_logits: &mut [f32],
    grad_extra: &mut [f32],
    scale: f32,
    rows: usize,
    n: usize,
) {
    let row = usize::min(CUBE_POS, rows - 1);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut own = 0.0f32;
    let mut at = row * n + UNIT_POS as usize;
    while at < (row + 1) * n {
        own += shares[at] * grad_shares[at];
        at += UNITS;
    }
    let mean = fold(own, &mut lanes, Fold::Sum, UNITS);
    at = row * n + UNIT_POS as usize;
    while at < (row + 1) * n {
        grad_logits[at] = shares[at] * (grad_shares[at] - mean) * scale;
        at += UNITS;
    }
    if UNIT_POS == 0 {
        grad_extra[row] = -extra_share[row] * mean;
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::TensorData;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;

    #[test]
    fn values_and_gradients_agree_with_the_cpu() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for (shape, scale, has_extra, transposed) in [
            ([3, 1, 49], 1.0, false, false),
            ([2, 5, 196], 0.3, false, true),
            ([3, 4, 300], 1.0, true, true),
            ([2, 3, 1], 5.0, true, false),
            ([1, 2, 130], 6.0, true, false),
        ] {
            let [images, queries, n] = shape;
            let mut draw = |shape: [usize; 3]| {
                let values = (0..shape.iter().product()).map(|_| rng.random_range(-3.0_f32..3.0));
                TensorData::new(values.collect::<Vec<_>>(), shape)
            };
            let memory_shape = if transposed { [images, n, queries] } else { shape };
            let (logits, extra, cotangent) = (draw(memory_shape), draw([1, 1, queries]), draw(shape));
            let what = format!("{shape:?} by {scale}, extra {has_extra}");
            let shares = vec![1e-5; 2 + usize::from(has_extra)];
            assert_like_processor(gpus(), what, &shares, |device, dtype| {
                let put = |data: &TensorData| Tensor::<3>::from_data(data.clone(), (device, dtype));
                let (input, side) = (put(&logits).require_grad(), put(&extra).require_grad());
                let logits = if transposed { input.clone().swap_dims(1, 2) } else { input.clone() };
                let found = softmax(logits, scale, has_extra.then(|| side.clone().reshape([queries])));
                let gradients = (found.clone() * put(&cotangent)).sum().backward();
                let grad_input = input.grad(&gradients).expect("a gradient");
                [found, grad_input].into_iter().chain(side.grad(&gradients)).map(Tensor::into_data).collect()
            });
        }
    }
}
