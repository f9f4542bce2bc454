//! One AdamW step on a GPU in one launch, where tensor operations take thirteen.

use burn::backend::TensorMetadata;
use burn::tensor::Tensor;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use cubecl::prelude::*;

use super::{BETA_1, BETA_2, EPSILON, Update};
use crate::model::ops::gpu::{arg, cube, empty, tensor};

/// Threads of a workgroup.
const UNITS: u32 = 256;
/// Most workgroups: enough for every GPU; of more values than that a thread takes several.
const MAX_CUBES: usize = 1024;

/// The moved value and its moments.
pub(super) fn step(
    value: Tensor<1>,
    gradient: Tensor<1>,
    [mean, variance]: [Tensor<1>; 2],
    update: &Update,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    let given = [value, gradient, mean, variance].map(|tensor| into_contiguous(cube(tensor)));
    let count = given[0].shape().num_elements();
    let made = [(); 3].map(|()| empty(&given[0], [count]));
    let cubes = count.div_ceil(UNITS as usize).clamp(1, MAX_CUBES);
    let [value, gradient, mean, variance] = given.each_ref().map(arg);
    let [moved, new_mean, new_variance] = made.each_ref().map(arg);
    advance::launch(
        &given[0].client,
        CubeCount::Static(cubes as u32, 1, 1),
        CubeDim::new_1d(UNITS),
        value,
        gradient,
        mean,
        variance,
        moved,
        new_mean,
        new_variance,
        (1.0 / update.correction) as f32,
        update.rate as f32,
        cubes * UNITS as usize,
    );
    let [moved, mean, variance] = made.map(tensor);
    (moved, [mean, variance])
}

/// The formula; a thread takes every value that is `stride` behind its last. `correction`: what the variance is multiplied with.
#[cube(launch)]
fn advance(
    value: &[f32],
    gradient: &[f32],
    mean: &[f32],
    variance: &[f32],
    moved: &mut [f32],
    new_mean: &mut [f32],
    new_variance: &mut [f32],
    correction: f32,
    rate: f32,
    stride: usize,
) {
    let mut at = ABSOLUTE_POS;
    while at < value.len() {
        let by = gradient[at];
        let own_mean = mean[at] * comptime!(BETA_1 as f32) + by * comptime!((1.0 - BETA_1) as f32);
        let own_variance =
            variance[at] * comptime!(BETA_2 as f32) + by * by * comptime!((1.0 - BETA_2) as f32);
        let spread = (own_variance * correction).sqrt() + comptime!(EPSILON as f32);
        moved[at] = value[at] - own_mean / spread * rate;
        new_mean[at] = own_mean;
        new_variance[at] = own_variance;
        at += stride;
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::super::plain_step;
    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn it_is_the_plain_step_of_the_processor() {
        for (name, gpu) in gpus() {
            for count in [1_usize, 257, 300_000] {
                let run = |device: &Device, step: fn(_, _, _, &Update) -> (Tensor<1>, [Tensor<1>; 2])| {
                    let tensor = |scale: f32, shift: f32| {
                        let values =
                            (0..count).map(|i| ((i * 7919) % 1013) as f32 / 506.0 * scale + shift).collect();
                        Tensor::<1>::from_data(TensorData::new::<f32, _>(values, [count]), device)
                    };
                    let moments = [tensor(0.1, 0.0), tensor(0.2, 0.0)];
                    let update = Update { correction: 0.003, rate: 0.01 };
                    let (moved, [mean, variance]) =
                        step(tensor(1.0, -1.0), tensor(0.5, -0.3), moments, &update);
                    [moved, mean, variance]
                        .map(|made| made.into_data().try_into_vec::<f32>().expect("float32"))
                };
                let (found, plain) = (run(&gpu, step), run(&Device::flex(), plain_step));
                for (found, plain) in found.into_iter().zip(plain) {
                    assert_close(&name, found, plain, 1e-6);
                }
            }
        }
    }
}
