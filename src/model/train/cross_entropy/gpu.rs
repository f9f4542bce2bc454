//! The loss on GPUs: one kernel, with one workgroup per image.

use burn::tensor::{Int, Shape};

use super::Root;
use crate::model::ops::bias::{Activation, Biased};
use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
pub(super) const UNITS: usize = 128;
/// Maximum number of logits per thread for which loops are unrolled; beyond it the kernel would be too long.
pub(super) const MAX_UNROLLED: usize = 32;

/// The loss and the number of correct images, `[2]`; and the gradient of the loss with respect to the logits, `[B, C]`.
pub(super) fn pass(
    products: Tensor<2>,
    bias: Tensor<1>,
    classes: Tensor<1, Int>,
) -> (CubeTensor, Root<CubeTensor>) {
    let [products, bias] = [cube(products), cube(bias)].map(into_contiguous);
    let classes =
        into_contiguous(classes.try_into_primitive::<Cube>().expect("classes where the logits are"));
    let [images, count] = products.shape().dims();
    let (grad_logits, loss_and_right) = (empty(&products, [images, count]), empty(&products, [images, 2]));
    cross_entropy::launch(
        &products.client,
        CubeCount::Static(images as u32, 1, 1),
        CubeDim::new_1d(UNITS as u32),
        arg(&products),
        arg(&bias),
        arg(&classes),
        arg(&grad_logits),
        arg(&loss_and_right),
        1.0 / images as f32,
        count,
        count.div_ceil(UNITS),
    );
    let sums = CubeBackend::float_reshape(CubeBackend::float_sum_dim(loss_and_right, 0), Shape::new([2]));
    (sums, Root { grad_logits })
}

impl CustomOp<CubeBackend, 2> for Root<CubeTensor> {
    /// The gradient with respect to the logits.
    type Saved = CubeTensor;

    fn forward(self, [products, _]: [CubeTensor; 2], _: bool) -> (CubeTensor, CubeTensor) {
        (empty(&products, [1]), self.grad_logits)
    }

    fn vjp(grad_logits: &CubeTensor, _: CubeTensor, wanted: [bool; 2]) -> [Option<CubeTensor>; 2] {
        <Biased as CustomOp<CubeBackend, 2>>::vjp(&(Activation::None, None), grad_logits.clone(), wanted)
    }
}

/// One image per workgroup: writes its part of the loss and whether it is correct (1 or 0), `loss_and_right` `[B, 2]`, and its row of
/// `grad_logits` `[B, C]`. `share` is 1 / B, `count` is C. A thread has `per_thread` logits, loaded together if unrolled.
#[cube(launch)]
fn cross_entropy(
    products: &[f32],
    bias: &[f32],
    classes: &[i32],
    grad_logits: &mut [f32],
    loss_and_right: &mut [f32],
    share: f32,
    count: usize,
    #[comptime] per_thread: usize,
) {
    let (image, unit) = (CUBE_POS, UNIT_POS as usize);
    let first = image * count;
    let class = usize::cast_from(classes[image]);
    let class_logit = products[first + class] + bias[class];
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut logits = Array::<f32>::new(per_thread);
    #[unroll(per_thread <= MAX_UNROLLED)]
    for next in 0..per_thread {
        // Past the end the last logit is repeated, at a place larger than its own, which the fold does not pick.
        let at = usize::min(unit + next * UNITS, count - 1);
        logits[next] = products[first + at] + bias[at];
    }

    // The largest logit, and its first place, as a float32, which is exact up to 16 million.
    let mut own = logits[0];
    let mut place = unit;
    #[unroll(per_thread <= MAX_UNROLLED)]
    for next in 1..per_thread {
        if logits[next] > own {
            own = logits[next];
            place = unit + next * UNITS;
        }
    }
    let largest = fold(own, &mut lanes, Fold::Largest, UNITS);
    let place = if own == largest { f32::cast_from(place) } else { f32::cast_from(count) };
    let best = usize::cast_from(fold(place, &mut lanes, Fold::Least, UNITS));

    let mut sum = 0.0f32;
    #[unroll(per_thread <= MAX_UNROLLED)]
    for next in 0..per_thread {
        logits[next] = (logits[next] - largest).exp();
        if unit + next * UNITS < count {
            sum += logits[next];
        }
    }
    let sum = fold(sum, &mut lanes, Fold::Sum, UNITS);

    #[unroll(per_thread <= MAX_UNROLLED)]
    for next in 0..per_thread {
        let at = unit + next * UNITS;
        if at < count {
            let right = if at == class { 1.0f32 } else { 0.0f32 };
            grad_logits[first + at] = (logits[next] / sum - right) * share;
        }
    }
    if unit == 0 {
        loss_and_right[2 * image] = (sum.ln() + largest - class_logit) * share;
        loss_and_right[2 * image + 1] = if best == class { 1.0f32 } else { 0.0f32 };
    }
}
