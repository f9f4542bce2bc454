//! The loss of a batch: the mean over images of `ln sum_c exp(z_c) - z_y` for logits `z` and the true class `y`; and the number
//! of correct images, whose largest logit is that of `y`.
//!
//! On GPUs one kernel computes both and the gradient, `(softmax(z) - e_y) / B`, with one workgroup per image, where tensor
//! operations take some thirty launches. It also adds the bias, so that the backward pass starts before it.

use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{Gradients, Shape, Tensor, loss};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::batches::Labels;
use crate::model::ops::bias::{Activation, Biased, biased};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::fold::{Fold, fold};
use crate::model::ops::gpu::{arg, cube, empty, tensor};

/// Threads of a workgroup.
const UNITS: usize = 128;
/// Maximum number of logits per thread for which loops are unrolled; beyond it the kernel would be too long.
const MAX_UNROLLED: usize = 32;

/// The loss of the logits `products + bias`, `[B, C]` and `[C]`, with the number of correct images, `[2]`, detached from the
/// graph; and the gradients of the loss.
pub(super) fn loss_and_gradients(
    products: Tensor<2>,
    bias: Tensor<1>,
    labels: &Labels,
) -> (Tensor<1>, Gradients) {
    if let Some(target) = &labels.target {
        let logits = biased(products, bias, Activation::None);
        let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(labels.index.clone());
        let loss = loss::cross_entropy_with_logits(logits, target.clone());
        let gradients = loss.backward();
        return (Tensor::cat(vec![loss.inner(), right.float().sum()], 0), gradients);
    }
    let classes = labels.index.clone().try_into_primitive::<Cube>().expect("classes where the logits are");
    let (loss_and_right, grad_logits) = on_gpu(cube(products.clone()), cube(bias.clone()), classes);
    let root = apply::<Cube, _, 2, 1>(Root { grad_logits }, [products.into_dispatch(), bias.into_dispatch()]);
    (tensor(loss_and_right), root.backward())
}

/// The loss and the number of correct images, `[2]`; and the gradient of the loss with respect to the logits, `[B, C]`.
fn on_gpu(products: CubeTensor, bias: CubeTensor, classes: CubeTensor) -> (CubeTensor, CubeTensor) {
    let products = into_contiguous(products);
    let [images, count] = products.shape().dims();
    let (grad_logits, loss_and_right) = (empty(&products, [images, count]), empty(&products, [images, 2]));
    cross_entropy::launch(
        &products.client,
        CubeCount::Static(images as u32, 1, 1),
        CubeDim::new_1d(UNITS as u32),
        arg(&products),
        arg(&into_contiguous(bias)),
        arg(&into_contiguous(classes)),
        arg(&grad_logits),
        arg(&loss_and_right),
        1.0 / images as f32,
        count,
        count.div_ceil(UNITS),
    );
    (CubeBackend::float_reshape(CubeBackend::float_sum_dim(loss_and_right, 0), Shape::new([2])), grad_logits)
}

/// Root of the graph in place of the loss, whose gradient with respect to the logits is known: its cotangent is always 1, and its
/// value, `[1]`, is never read.
struct Root {
    grad_logits: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for Root {
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

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn on_a_gpu_it_is_the_processors() {
        for (name, gpu) in gpus() {
            for (images, classes) in [(1, 1), (3, 2), (5, 127), (4, 1000), (2, MAX_UNROLLED * UNITS + 5)] {
                let run = |device: &Device| {
                    let value = |at: usize| ((at * 7919) % 1013) as f32 / 20.0 - 25.0;
                    let mut values: Vec<f32> = (0..images * classes).map(value).collect();
                    let bias: Vec<f32> = (0..classes).map(|at| (at % 5) as f32 / 4.0).collect();
                    // Of equal logits the first counts, whichever threads read the others.
                    for at in [0, (classes - 1) / UNITS * UNITS, classes - 1] {
                        values[at] = 30.0 - bias[at];
                    }
                    let right: Vec<usize> = (0..images).map(|image| image * 7 % classes).collect();
                    let data = TensorData::new(values, [images, classes]);
                    let products = Tensor::<2>::from_data(data, device).autodiff().require_grad();
                    let bias = Tensor::<1>::from_data(&bias[..], device).autodiff().require_grad();
                    let labels = Labels::new(&right, classes, device);
                    let (loss_and_right, gradients) =
                        loss_and_gradients(products.clone(), bias.clone(), &labels);
                    let grad_products = products.grad(&gradients).expect("a gradient").into_data();
                    let grad_bias = bias.grad(&gradients).expect("a gradient").into_data();
                    [loss_and_right.into_data(), grad_products, grad_bias]
                        .map(|values| values.try_into_vec::<f32>().expect("float32"))
                };
                let [loss_and_right, grad_products, grad_bias] = run(&gpu);
                let [expected, expected_grad_products, expected_grad_bias] = run(&Device::flex());
                assert!(
                    (loss_and_right[0] / expected[0].max(1e-3) - expected[0] / expected[0].max(1e-3)).abs()
                        < 1e-5
                );
                assert_eq!(loss_and_right[1], expected[1], "{images} x {classes} on {name}");
                assert_close(&name, grad_products, expected_grad_products, 1e-6);
                assert_close(&name, grad_bias, expected_grad_bias, 1e-6);
            }
        }
    }
}
