//! The softmax of attention over tokens: on GPUs a launch each way, where tensors take five and nine.

use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{Shape, Tensor, activation};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::custom_op::{CustomOp, apply, optional};
use super::gpu::fold::{Fold, fold};
use super::gpu::{arg, empty, takes, workgroups};

/// Threads of a workgroup.
const UNITS: usize = 128;

/// `exp(scale l_i) / (exp(b) + sum_j exp(scale l_j))` along the last axis of the logits `[B, Q, N]`, where `b` is one logit more of
/// every query, `[Q]`, that takes a share and is not told; without it, it takes none.
pub fn softmax(logits: Tensor<3>, scale: f64, beside: Option<Tensor<1>>) -> Tensor<3> {
    let [images, queries, n] = logits.dims();
    if takes(&logits, UNITS, 3 * n.div_ceil(UNITS)) {
        let op = SoftmaxOp { scale: scale as f32, beside: beside.is_some() };
        let beside = optional(beside, &logits.device());
        return apply::<Cube, _, 2, 3>(op, [logits.into_dispatch(), beside]);
    }
    let logits = if scale == 1.0 { logits } else { logits * scale };
    let Some(beside) = beside else { return activation::softmax(logits, 2) };
    let beside = beside.reshape([1, queries, 1]).expand([images, queries, 1]);
    activation::softmax(Tensor::cat(vec![beside, logits], 2), 2).narrow(2, 1, n)
}

struct SoftmaxOp {
    scale: f32,
    /// Whether the second input is one.
    beside: bool,
}

/// What the way back needs.
struct Saved {
    op: SoftmaxOp,
    /// `[B, Q, N]`.
    shares: CubeTensor,
    /// What is not told, `[B, Q]`.
    rest: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for SoftmaxOp {
    type Saved = Saved;

    fn forward(self, [logits, beside]: [CubeTensor; 2], _: bool) -> (CubeTensor, Saved) {
        let [images, queries, n] = logits.shape().dims();
        let shares = empty(&logits, [images, queries, n]);
        let rest = empty(&logits, [images, queries]);
        let [batch_step, row_step, step] = logits.meta.strides()[..] else { unreachable!("three axes") };
        forward::launch(
            &logits.client,
            workgroups(images * queries),
            CubeDim::new_1d(UNITS as u32),
            arg(&logits),
            arg(&into_contiguous(beside)),
            arg(&shares),
            arg(&rest),
            self.scale,
            batch_step,
            row_step,
            step,
            images * queries,
            queries,
            n,
            self.beside,
        );
        (shares.clone(), Saved { op: self, shares, rest })
    }

    fn vjp(
        Saved { op, shares, rest }: &Saved,
        by_shares: CubeTensor,
        _: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let [images, queries, n] = shares.shape().dims();
        let by_logits = empty(shares, [images, queries, n]);
        let by_beside = empty(shares, [images, queries]);
        backward::launch(
            &shares.client,
            workgroups(images * queries),
            CubeDim::new_1d(UNITS as u32),
            arg(shares),
            arg(rest),
            arg(&into_contiguous(by_shares)),
            arg(&by_logits),
            arg(&by_beside),
            op.scale,
            images * queries,
            n,
        );
        let by_beside = op.beside.then(|| CubeBackend::float_sum_dim(by_beside, 0));
        [Some(by_logits), by_beside.map(|by| CubeBackend::float_reshape(by, Shape::new([queries])))]
    }
}

#[cube(launch)]
fn forward(
    logits: &[f32],
    beside: &[f32],
    shares: &mut [f32],
    rest: &mut [f32],
    scale: f32,
    batch_step: usize,
    row_step: usize,
    step: usize,
    rows: usize,
    queries: usize,
    n: usize,
    #[comptime] has_beside: bool,
) {
    let row = usize::min(CUBE_POS, rows - 1);
    let query = row % queries;
    let first = row / queries * batch_step + query * row_step;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;

    let mut own = logits[first + unit % n * step] * scale;
    if comptime!(has_beside) {
        own = max(own, beside[query]);
    }
    let mut at = unit;
    while at < n {
        own = max(own, logits[first + at * step] * scale);
        at += UNITS;
    }
    let largest = fold(own, &mut lanes, Fold::Largest, UNITS);

    let mut sum = 0.0f32;
    at = unit;
    while at < n {
        sum += (logits[first + at * step] * scale - largest).exp();
        at += UNITS;
    }
    let mut total = fold(sum, &mut lanes, Fold::Sum, UNITS);
    if comptime!(has_beside) {
        let untold = (beside[query] - largest).exp();
        total += untold;
        if unit == 0 {
            rest[row] = untold / total;
        }
    }

    at = unit;
    while at < n {
        shares[row * n + at] = (logits[first + at * step] * scale - largest).exp() / total;
        at += UNITS;
    }
}

/// `p_i (by_i - sum_j p_j by_j)`, what is not told with nothing owed to it.
#[cube(launch)]
fn backward(
    shares: &[f32],
    rest: &[f32],
    by_shares: &[f32],
    by_logits: &mut [f32],
    by_beside: &mut [f32],
    scale: f32,
    rows: usize,
    n: usize,
) {
    let row = usize::min(CUBE_POS, rows - 1);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut own = 0.0f32;
    let mut at = row * n + UNIT_POS as usize;
    while at < (row + 1) * n {
        own += shares[at] * by_shares[at];
        at += UNITS;
    }
    let mean = fold(own, &mut lanes, Fold::Sum, UNITS);
    at = row * n + UNIT_POS as usize;
    while at < (row + 1) * n {
        by_logits[at] = shares[at] * (by_shares[at] - mean) * scale;
        at += UNITS;
    }
    if UNIT_POS == 0 {
        by_beside[row] = -rest[row] * mean;
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device, TensorData};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::close::assert_close_to_largest;
    use crate::gpus::gpus;

    #[test]
    fn it_is_the_processors_and_so_are_its_gradients() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for (name, device) in gpus() {
            for (shape, scale, has_beside, apart) in [
                ([3, 1, 49], 1.0, false, false),
                ([2, 5, 196], 0.3, false, true),
                ([3, 4, 300], 1.0, true, true),
                ([2, 3, 1], 5.0, true, false),
                ([1, 2, 130], 6.0, true, false),
            ] {
                let [images, queries, n] = shape;
                let mut draw =
                    |count: usize| (0..count).map(|_| rng.random_range(-3.0_f32..3.0)).collect::<Vec<_>>();
                let (logits, beside, by) =
                    (draw(images * queries * n), draw(queries), draw(images * queries * n));
                let of = |device: &Device, dtype: DType| {
                    let put = |values: &[f32], shape| {
                        Tensor::<3>::from_data(
                            TensorData::new(values.to_vec(), shape),
                            (&device.clone().autodiff(), dtype),
                        )
                    };
                    let laid = if apart { [images, n, queries] } else { shape };
                    let asked = put(&logits, laid).require_grad();
                    let side = put(&beside, [1, 1, queries]).require_grad();
                    let given = if apart { asked.clone().swap_dims(1, 2) } else { asked.clone() };
                    let found = softmax(given, scale, has_beside.then(|| side.clone().reshape([queries])));
                    let gradients = (found.clone() * put(&by, shape)).sum().backward();
                    let mut made =
                        vec![found.into_data(), asked.grad(&gradients).expect("a gradient").into_data()];
                    made.extend(side.grad(&gradients).map(Tensor::into_data));
                    made.into_iter().map(|data| data.iter::<f64>().collect::<Vec<_>>()).collect::<Vec<_>>()
                };
                let (found, expected) = (of(&device, DType::F32), of(&Device::flex(), DType::F64));
                assert_eq!(found.len(), 2 + usize::from(has_beside));
                for (found, expected) in found.into_iter().zip(expected) {
                    let what = format!("{shape:?} by {scale}, beside {has_beside}, on {name}");
                    assert_close_to_largest(what, found, expected, 1e-5);
                }
            }
        }
    }
}
