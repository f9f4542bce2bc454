//! One AdamW step of all parameters of a head on a GPU in one launch, where tensor operations take thirteen per parameter.

use super::{BETA_1, BETA_2, EPSILON};
use crate::model::ops::gpu::multi_tensor::{STRIDE, Share, launch_each};
use crate::model::ops::gpu::prelude::*;

/// Buffers of a parameter.
const BUFFERS: usize = 7;

/// For every parameter, the updated values and moments from values, gradient and both moments.
/// `rates` are an update's [`to_f32`](super::Update::to_f32).
pub(super) fn step(inputs: Vec<[Tensor<1>; 4]>, rates: Tensor<1>) -> Vec<[Tensor<1>; 3]> {
    let (buffers, outputs): (Vec<_>, Vec<_>) = inputs
        .into_iter()
        .map(|inputs| {
            let inputs = inputs.map(|tensor| into_contiguous(cube(tensor)));
            let [value, ..] = &inputs;
            let outputs = [(); 3].map(|()| empty(value, [value.shape().num_elements()]));
            ((inputs, outputs.clone()), outputs)
        })
        .unzip();
    let rates = cube(rates);
    launch_each(
        &rates.client,
        &buffers,
        [BUFFERS, 1],
        |([value, ..], _)| value.shape().num_elements(),
        |([value, gradient, mean, variance], [new_value, new_mean, new_variance]), share| {
            ParameterLaunch::new(
                arg(value),
                arg(gradient),
                arg(mean),
                arg(variance),
                arg(new_value),
                arg(new_mean),
                arg(new_variance),
                share,
            )
        },
        |cubes, units, parameters| advance::launch(&rates.client, cubes, units, parameters, arg(&rates)),
    );
    outputs.into_iter().map(|outputs| outputs.map(tensor)).collect()
}

#[derive(CubeType, CubeLaunch)]
struct Parameter {
    value: Box<[f32]>,
    gradient: Box<[f32]>,
    mean: Box<[f32]>,
    variance: Box<[f32]>,
    new_value: Box<[f32]>,
    new_mean: Box<[f32]>,
    new_variance: Box<[f32]>,
    share: Share,
}

/// AdamW's formula. `rates`: the factor of the variance, and the learning rate over `1 - beta_1^t`.
#[cube(launch)]
fn advance(parameters: &mut Sequence<Parameter>, rates: &[f32]) {
    let (correction, rate) = (rates[0], rates[1]);
    #[unroll]
    for index in 0..parameters.len() {
        let parameter = parameters.index_mut(index);
        if parameter.share.is_own() {
            let (first, end) = parameter.share.numbers(parameter.new_value.len());
            for at in range_stepped(first, end, STRIDE) {
                let grad = parameter.gradient[at];
                let mean =
                    parameter.mean[at] * comptime!(BETA_1 as f32) + grad * comptime!((1.0 - BETA_1) as f32);
                let variance = parameter.variance[at] * comptime!(BETA_2 as f32)
                    + grad * grad * comptime!((1.0 - BETA_2) as f32);
                let spread = (variance * correction).sqrt() + comptime!(EPSILON as f32);
                parameter.new_value[at] = parameter.value[at] - mean / spread * rate;
                parameter.new_mean[at] = mean;
                parameter.new_variance[at] = variance;
            }
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{Device, TensorData};

    use super::super::{Update, plain_step};
    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn it_is_the_plain_step_of_the_processor_for_every_parameter() {
        let update = Update { correction: 0.003, rate: 0.01 };
        for (name, gpu) in gpus() {
            // More than some adapters bind at once.
            let counts = [1_usize, 257, 300_000, 2, 1024, 1025, 5, 3, 70, 4, 6, 90, 8];
            let given = |device: &Device| {
                counts.map(|count| {
                    [(1.0, -1.0), (0.5, -0.3), (0.1, 0.0), (0.2, 0.0)].map(|(scale, shift)| {
                        let value = |i: usize| ((i * 7919 + count) % 1013) as f32 / 506.0 * scale + shift;
                        let values = (0..count).map(value).collect();
                        Tensor::<1>::from_data(TensorData::new::<f32, _>(values, [count]), device)
                    })
                })
            };
            let found = step(given(&gpu).to_vec(), update.on(&gpu));
            for (found, given) in found.into_iter().zip(given(&Device::flex())) {
                for (found, plain) in found.into_iter().zip(plain_step(given, &update)) {
                    let [found, plain] =
                        [found, plain].map(|made| made.into_data().try_into_vec::<f32>().expect("float32"));
                    assert_close(&name, found, plain, 1e-6);
                }
            }
        }
    }
}
