//! The loss of a batch: the mean over images of `ln sum_c exp(z_c) - z_y` for logits `z` and the true class `y`; and how many
//! images have their largest logit there.
//!
//! On GPUs one kernel makes both and the gradient, `(softmax(z) - e_y) / B`, a workgroup an image, where tensor operations
//! take some thirty launches.

use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{Shape, Tensor, loss};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::batches::Labels;
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::fold::{Fold, fold};
use crate::model::ops::gpu::{arg, empty, workgroups};

/// Threads of a workgroup.
const UNITS: usize = 128;

/// The loss, differentiable in `logits` `[B, C]`, and how many images are right, which no gradient comes of, as `[2]`.
pub(super) fn loss_and_right(logits: Tensor<2>, labels: &Labels) -> Tensor<1> {
    if let Some(target) = &labels.target {
        let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(labels.index.clone());
        let right = right.float().sum().autodiff();
        return Tensor::cat(vec![loss::cross_entropy_with_logits(logits, target.clone()), right], 0);
    }
    let classes = labels.index.clone().try_into_primitive::<Cube>().expect("classes where the logits are");
    apply::<Cube, _, 1, 1>(CrossEntropyOp { classes }, [logits.into_dispatch()])
}

struct CrossEntropyOp {
    /// The true classes, `[B]`.
    classes: CubeTensor,
}

impl CustomOp<CubeBackend, 1> for CrossEntropyOp {
    /// The gradient of the loss by the logits, `[B, C]`.
    type Saved = CubeTensor;

    fn forward(self, [logits]: [CubeTensor; 1], _: bool) -> (CubeTensor, CubeTensor) {
        let logits = into_contiguous(logits);
        let [images, classes] = logits.shape().dims();
        let (by_logits, told) = (empty(&logits, [images, classes]), empty(&logits, [images, 2]));
        cross_entropy::launch(
            &logits.client,
            CubeCount::Static(images as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            arg(&logits),
            arg(&into_contiguous(self.classes)),
            arg(&by_logits),
            arg(&told),
            1.0 / images as f32,
            classes,
        );
        (CubeBackend::float_reshape(CubeBackend::float_sum_dim(told, 0), Shape::new([2])), by_logits)
    }

    fn vjp(by_logits: &CubeTensor, by_output: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let [images, classes] = by_logits.shape().dims();
        let scaled = empty(by_logits, [images, classes]);
        let count = (images * classes).div_ceil(UNITS);
        let units = CubeDim::new_1d(UNITS as u32);
        scale::launch(
            &scaled.client,
            workgroups(count),
            units,
            arg(by_logits),
            arg(&into_contiguous(by_output)),
            arg(&scaled),
        );
        [Some(scaled)]
    }
}

/// Of the image that this workgroup takes: its share of the loss and whether it is right, `told` `[B, 2]`; its share of the gradient.
#[cube(launch)]
fn cross_entropy(
    logits: &[f32],
    classes: &[i32],
    by_logits: &mut [f32],
    told: &mut [f32],
    share: f32,
    count: usize,
) {
    let (image, unit) = (CUBE_POS, UNIT_POS as usize);
    let first = image * count;
    let class = usize::cast_from(classes[image]);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);

    // The largest logit, and the first place that has it: counted in float32, which holds 16 million.
    let mut own = logits[first + unit % count];
    let mut place = unit % count;
    let mut at = unit;
    while at < count {
        if logits[first + at] > own {
            own = logits[first + at];
            place = at;
        }
        at += UNITS;
    }
    let largest = fold(own, &mut lanes, Fold::Largest, UNITS);
    let place = if own == largest { f32::cast_from(place) } else { f32::cast_from(count) };
    let best = usize::cast_from(fold(place, &mut lanes, Fold::Least, UNITS));

    let mut sum = 0.0f32;
    let mut at = unit;
    while at < count {
        sum += (logits[first + at] - largest).exp();
        at += UNITS;
    }
    let sum = fold(sum, &mut lanes, Fold::Sum, UNITS);

    let mut at = unit;
    while at < count {
        let right = if at == class { 1.0f32 } else { 0.0f32 };
        by_logits[first + at] = ((logits[first + at] - largest).exp() / sum - right) * share;
        at += UNITS;
    }
    if unit == 0 {
        told[2 * image] = (sum.ln() + largest - logits[first + class]) * share;
        told[2 * image + 1] = if best == class { 1.0f32 } else { 0.0f32 };
    }
}

/// The gradient of the loss times what is owed to the loss, the first of `by_output`.
#[cube(launch)]
fn scale(by_logits: &[f32], by_output: &[f32], scaled: &mut [f32]) {
    if ABSOLUTE_POS < scaled.len() {
        scaled[ABSOLUTE_POS] = by_logits[ABSOLUTE_POS] * by_output[0];
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn on_a_gpu_it_is_the_processors() {
        for (name, gpu) in gpus() {
            for (images, classes) in [(1, 1), (3, 2), (5, 127), (4, 1000)] {
                let run = |device: &Device| {
                    let value = |at: usize| ((at * 7919) % 1013) as f32 / 20.0 - 25.0;
                    let mut values: Vec<f32> = (0..images * classes).map(value).collect();
                    // Of equal ones the first counts, whoever reads the others.
                    for at in [0, (classes - 1) / UNITS * UNITS, classes - 1] {
                        values[at] = 30.0;
                    }
                    let right: Vec<usize> = (0..images).map(|image| image * 7 % classes).collect();
                    let data = TensorData::new(values, [images, classes]);
                    let logits = Tensor::<2>::from_data(data, device).autodiff().require_grad();
                    let told = loss_and_right(logits.clone(), &Labels::new(&right, classes, device));
                    let owed = Tensor::<1>::from_data([3.0_f32, 7.0], device).autodiff(); // to the count nothing comes of it
                    let gradients = (told.clone() * owed).sum().backward();
                    let host = |values: TensorData| values.try_into_vec::<f32>().expect("float32");
                    (
                        host(told.inner().into_data()),
                        host(logits.grad(&gradients).expect("a gradient").into_data()),
                    )
                };
                let ((told, by_logits), (expected, expected_by_logits)) = (run(&gpu), run(&Device::flex()));
                assert!((told[0] / expected[0].max(1e-3) - expected[0] / expected[0].max(1e-3)).abs() < 1e-5);
                assert_eq!(told[1], expected[1], "{images} x {classes} on {name}");
                assert_close(&name, by_logits, expected_by_logits, 1e-6);
            }
        }
    }
}
