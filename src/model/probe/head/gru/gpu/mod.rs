//! Both directions of the GRU on GPUs: one launch per pass, where tensors take some seventy per token. CubeCL kernels for wgpu and CUDA.

mod kernels;

use super::{GATES, HIDDEN};
use crate::model::ops::gpu;
use crate::model::ops::gpu::prelude::*;
use crate::model::ops::matmul::PreciseMatmul as _;

/// Whether the kernels can process inputs `[B, N, 2, 384]`.
pub(super) fn supports(inputs: &Tensor<4>) -> bool {
    let [_, n, ..] = inputs.dims();
    gpu::supports(inputs, kernels::UNITS, kernels::rounds(n))
}

/// The last states, `[B, 256]`, of arguments as [`recurrence`](super::recurrence) takes them, in float32.
pub(super) fn last_states(inputs: Tensor<4>, from_state: Tensor<3>, bias: Tensor<2>) -> Tensor<2> {
    apply::<Cube, _, 3, 2>(GruOp, [inputs.into_dispatch(), from_state.into_dispatch(), bias.into_dispatch()])
}

struct GruOp;

/// What the backward pass needs: buffers of [`kernels::forward()`], and the weights of the state.
struct Saved {
    gates: CubeTensor,
    before: CubeTensor,
    recurrent_new: CubeTensor,
    from_state: CubeTensor,
}

impl CustomOp<CubeBackend, 3> for GruOp {
    type Saved = Saved;

    fn forward(self, inputs: [CubeTensor; 3], keep: bool) -> (CubeTensor, Saved) {
        let [inputs, from_state, bias] = inputs.map(into_contiguous);
        let [images, n, ..] = inputs.shape().dims::<4>();
        let last = empty(&inputs, [images, 2 * HIDDEN]);
        let saved_rows = if keep { images * n } else { 1 };
        let gates = empty(&inputs, [saved_rows, 2 * GATES]);
        let [before, recurrent_new] = [(); 2].map(|()| empty(&inputs, [2, saved_rows, HIDDEN]));
        let transposed = into_contiguous(cube(tensor::<3>(from_state.clone()).swap_dims(1, 2)));
        kernels::forward::launch(
            &inputs.client,
            cubes(images),
            CubeDim::new_1d(kernels::UNITS as u32),
            arg(&inputs),
            arg(&transposed),
            arg(&bias),
            arg(&last),
            arg(&gates),
            arg(&before),
            arg(&recurrent_new),
            n,
            keep,
        );
        (last, Saved { gates, before, recurrent_new, from_state })
    }

    fn vjp(saved: &Saved, grad_last: CubeTensor, _: [bool; 3]) -> [Option<CubeTensor>; 3] {
        let Saved { gates, before, recurrent_new, from_state } = saved;
        let grad_last = into_contiguous(grad_last);
        let ([images, _], [rows, _]) = (grad_last.shape().dims(), gates.shape().dims());
        let n = rows / images;
        let grad_inputs = empty(gates, [images, n, 2, GATES]);
        let grad_recurrent = empty(gates, [2, rows, GATES]);
        kernels::backward::launch(
            &gates.client,
            cubes(images),
            CubeDim::new_1d(kernels::UNITS as u32),
            arg(gates),
            arg(before),
            arg(recurrent_new),
            arg(from_state),
            arg(&grad_last),
            arg(&grad_inputs),
            arg(&grad_recurrent),
            n,
        );
        let grad_recurrent = tensor::<3>(grad_recurrent);
        let ones = Tensor::<3>::ones([1, 1, 1], &grad_recurrent.device()).expand([1, 1, rows]);
        let grad_bias = ones.precise_matmul(grad_recurrent.clone()).squeeze_dim::<2>(1);
        let grad_weights = grad_recurrent.swap_dims(1, 2).precise_matmul(tensor(before.clone())); // [2, 384, 128]
        [grad_inputs, cube(grad_weights), cube(grad_bias)].map(Some)
    }
}

/// Workgroups for `images` images in two directions.
fn cubes(images: usize) -> CubeCount {
    CubeCount::Static(2 * images.div_ceil(kernels::IMAGES) as u32, 1, 1)
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, TensorData};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::recurrence;
    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;

    #[test]
    fn nan_stays_in_its_own_state() {
        let mut inputs = vec![0.5_f32; 2 * 3 * 2 * GATES];
        inputs[GATES + 7] = f32::NAN; // the first image's token that the backward direction reads last
        for (name, gpu) in gpus() {
            let inputs = Tensor::<4>::from_data(TensorData::new(inputs.clone(), [2, 3, 2, GATES]), &gpu);
            let zeros = |shape: [usize; 3]| Tensor::<3>::zeros(shape, &gpu);
            let bias = zeros([1, 2, GATES]).squeeze_dim(0);
            let last = last_states(inputs, zeros([2, GATES, HIDDEN]), bias).into_data();
            let found = last.iter::<f32>().enumerate().filter(|(_, state)| state.is_nan());
            assert_eq!(found.map(|(at, _)| at).collect::<Vec<_>>(), [HIDDEN + 7], "{name}");
        }
    }

    #[test]
    fn states_and_gradients_agree_with_elementary_operations() {
        for [images, n] in [[1, 1], [3, 7], [9, 49], [4, 196]] {
            let mut rng = ChaCha8Rng::seed_from_u64(images as u64);
            let mut draw = |shape: &[usize], most: f32| {
                let values = (0..shape.iter().product()).map(|_| rng.random_range(-most..most));
                TensorData::new(values.collect::<Vec<_>>(), shape.to_vec())
            };
            let (inputs, from_state) = (draw(&[images, n, 2, GATES], 2.0), draw(&[2, GATES, HIDDEN], 0.2));
            let (bias, by) = (draw(&[2, GATES], 0.5), draw(&[images, 2 * HIDDEN], 1.0));
            assert_like_processor(gpus(), format!("{images} x {n}"), &[1e-5; 4], |device, dtype| {
                let on = (device, dtype);
                let inputs = Tensor::<4>::from_data(inputs.clone(), on).require_grad();
                let from_state = Tensor::<3>::from_data(from_state.clone(), on).require_grad();
                let bias = Tensor::<2>::from_data(bias.clone(), on).require_grad();
                assert_eq!(supports(&inputs), dtype == DType::F32);
                let last = match dtype {
                    DType::F32 => last_states(inputs.clone(), from_state.clone(), bias.clone()),
                    _ => recurrence(&inputs, from_state.clone(), bias.clone()),
                };
                let gradients = (last.clone() * Tensor::from_data(by.clone(), on)).sum().backward();
                let grad_inputs = inputs.grad(&gradients).expect("a gradient").into_data();
                let grad_from_state = from_state.grad(&gradients).expect("a gradient").into_data();
                let grad_bias = bias.grad(&gradients).expect("a gradient").into_data();
                vec![last.into_data(), grad_inputs, grad_from_state, grad_bias]
            });
        }
    }
}
