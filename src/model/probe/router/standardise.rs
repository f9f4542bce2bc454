//! Scores of an image without their level and spread: on the host, and of a batch on tensors; on GPUs a launch each way, a
//! workgroup an image, where tensors take eight and twenty.

use burn::backend::{Cube, TensorMetadata};
use burn::tensor::Tensor;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::fold::{Fold, fold};
use crate::model::ops::gpu::{arg, empty, takes};

/// Beside the deviation.
const EPSILON: f64 = 1e-6;
/// Threads of a workgroup.
const UNITS: usize = 128;

/// `(s - mean) / (std + 1e-6)` with the population standard deviation (docs/definitions.md, section 1).
pub fn standardise(scores: &[f64]) -> Vec<f64> {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let variance = scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
    scores.iter().map(|s| (s - mean) / (variance.sqrt() + EPSILON)).collect()
}

/// The gradient of the raw `scores`, given that of the [standardised](standardise).
pub fn standardise_vjp(scores: &[f64], by_standardised: &[f64]) -> Vec<f64> {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let deviation = (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n).sqrt();
    let scale = 1.0 / (deviation + EPSILON);
    let along: f64 = scores.iter().zip(by_standardised).map(|(s, by)| (s - mean) * by).sum();
    // Where all scores are equal no direction changes the deviation.
    let spread = if deviation > 0.0 { along * scale * scale / (n * deviation) } else { 0.0 };
    let level = by_standardised.iter().sum::<f64>() * scale / n;
    scores.iter().zip(by_standardised).map(|(s, by)| scale * by - spread * (s - mean) - level).collect()
}

/// [`standardise`] for every row of a batch, `[B, N]`.
pub fn standardise_batch(scores: Tensor<2>) -> Tensor<2> {
    let [_, n] = scores.dims();
    if takes(&scores, UNITS, 3 * n.div_ceil(UNITS)) {
        return apply::<Cube, _, 1, 2>(StandardiseOp, [scores.into_dispatch()]);
    }
    let centred = scores.clone() - scores.mean_dim(1); // [B, N]
    let deviation = centred.clone().powi_scalar(2).mean_dim(1).sqrt(); // [B, 1]
    centred / (deviation + EPSILON)
}

struct StandardiseOp;

impl CustomOp<CubeBackend, 1> for StandardiseOp {
    /// The scores.
    type Saved = CubeTensor;

    fn forward(self, [scores]: [CubeTensor; 1], _: bool) -> (CubeTensor, CubeTensor) {
        let scores = into_contiguous(scores);
        let [images, n] = scores.shape().dims();
        let standardised = empty(&scores, [images, n]);
        let (cubes, units) = workgroups(images);
        forward::launch(&scores.client, cubes, units, arg(&scores), arg(&standardised), n);
        (standardised, scores)
    }

    fn vjp(scores: &CubeTensor, by_standardised: CubeTensor) -> [Option<CubeTensor>; 1] {
        let [images, n] = scores.shape().dims();
        let by_scores = empty(scores, [images, n]);
        let (cubes, units) = workgroups(images);
        let by = into_contiguous(by_standardised);
        backward::launch(&scores.client, cubes, units, arg(scores), arg(&by), arg(&by_scores), n);
        [Some(by_scores)]
    }
}

fn workgroups(images: usize) -> (CubeCount, CubeDim) {
    (CubeCount::Static(images as u32, 1, 1), CubeDim::new_1d(UNITS as u32))
}

#[cube(launch)]
fn forward(scores: &[f32], standardised: &mut [f32], n: usize) {
    let first = CUBE_POS * n;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(scores, &mut lanes, n);
    let mut i = UNIT_POS as usize;
    while i < n {
        standardised[first + i] =
            (scores[first + i] - moments.mean) / (moments.deviation + comptime!(EPSILON as f32));
        i += UNITS;
    }
}

/// As [`standardise_vjp`].
#[cube(launch)]
fn backward(scores: &[f32], by_standardised: &[f32], by_scores: &mut [f32], n: usize) {
    let first = CUBE_POS * n;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(scores, &mut lanes, n);
    let mut along = 0.0f32;
    let mut level = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < n {
        let by = by_standardised[first + i];
        along += (scores[first + i] - moments.mean) * by;
        level += by;
        i += UNITS;
    }
    let count = f32::cast_from(n);
    let scale = 1.0f32 / (moments.deviation + comptime!(EPSILON as f32));
    let level = fold(level, &mut lanes, Fold::Sum, UNITS) * scale / count;
    let along = fold(along, &mut lanes, Fold::Sum, UNITS) * scale * scale / count;
    let mut spread = 0.0f32;
    if moments.deviation > 0.0 {
        spread = along / moments.deviation;
    }
    i = UNIT_POS as usize;
    while i < n {
        let at = first + i;
        by_scores[at] = scale * by_standardised[at] - spread * (scores[at] - moments.mean) - level;
        i += UNITS;
    }
}

#[derive(CubeType)]
struct Moments {
    mean: f32,
    deviation: f32,
}

/// Those of the scores of this workgroup's image.
#[cube]
fn moments(scores: &[f32], lanes: &mut [f32], n: usize) -> Moments {
    let first = CUBE_POS * n;
    let count = f32::cast_from(n);
    let mut sum = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < n {
        sum += scores[first + i];
        i += UNITS;
    }
    let mean = fold(sum, lanes, Fold::Sum, UNITS) / count;
    let mut squares = 0.0f32;
    i = UNIT_POS as usize;
    while i < n {
        let apart = scores[first + i] - mean;
        squares += apart * apart;
        i += UNITS;
    }
    let deviation = (fold(squares, lanes, Fold::Sum, UNITS) / count).sqrt();
    Moments { mean, deviation }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::close::assert_close_to_largest;
    use crate::gpus::gpus;

    #[test]
    fn of_a_batch_it_is_that_of_the_host_and_so_is_its_gradient() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let devices = gpus().into_iter().chain([("cpu".to_owned(), burn::tensor::Device::flex())]);
        for (name, device) in devices {
            for (images, n) in [(1, 3), (3, 49), (5, 196), (2, 1025)] {
                let mut random =
                    || -> Vec<f32> { (0..images * n).map(|_| rng.random_range(-2.0..3.0)).collect() };
                let (scores, by) = (random(), random());
                let put = |values: &[f32]| {
                    let data = TensorData::new(values.to_vec(), [images, n]);
                    Tensor::<2>::from_data(data, &device.clone().autodiff())
                };
                let asked = put(&scores).require_grad();
                let found = standardise_batch(asked.clone());
                let gradients = (found.clone() * put(&by)).sum().backward();
                let host = |data: TensorData| data.try_into_vec::<f32>().expect("float32");
                let by_asked = host(asked.grad(&gradients).expect("a gradient").into_data());
                let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                let (mut expected, mut by_expected) = (Vec::new(), Vec::new());
                for (scores, by) in scores.chunks(n).zip(by.chunks(n)) {
                    expected.extend(standardise(&wide(scores)));
                    by_expected.extend(standardise_vjp(&wide(scores), &wide(by)));
                }
                assert_close_to_largest(&name, wide(&host(found.into_data())), expected, 3e-6);
                assert_close_to_largest(&name, wide(&by_asked), by_expected, 5e-6);
            }
        }
    }

    #[test]
    fn scores_that_are_all_equal_owe_nothing_that_is_no_number() {
        for (name, device) in gpus() {
            let data = TensorData::new(vec![0.25_f32; 4], [1, 4]);
            let asked = Tensor::<2>::from_data(data, &device.autodiff()).require_grad();
            let found = standardise_batch(asked.clone());
            let gradients = found.clone().slice([0..1, 0..1]).sum().backward();
            let by_asked = asked.grad(&gradients).expect("a gradient").into_data().try_into_vec::<f32>();
            let expected = standardise_vjp(&[0.25; 4], &[1.0, 0.0, 0.0, 0.0]);
            assert_close_to_largest(&name, by_asked.expect("float32"), expected, 1e-6);
            assert_eq!(found.into_data().try_into_vec::<f32>().expect("float32"), [0.0; 4], "{name}");
        }
    }
}
