//! The loss of a batch: the mean over images of `ln sum_c exp(z_c) - z_y` for logits `z` and the true class `y`; and how many
//! images have their largest logit there.
//!
//! On GPUs one kernel makes both and the gradient, `(softmax(z) - e_y) / B`, a workgroup an image, where tensor operations
//! take some thirty launches; it adds the bias, too, and the gradients begin behind it.

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
/// Logits of a thread that it has in registers; more would make it too long a kernel.
const UNROLLED: usize = 32;

/// The loss of the logits `products + bias`, `[B, C]` and `[C]`, and how many images are right, as `[2]` without a graph; and the
/// gradients of the loss.
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
    let (told, by_logits) = on_gpu(cube(products.clone()), cube(bias.clone()), classes);
    let root = apply::<Cube, _, 2, 1>(Root { by_logits }, [products.into_dispatch(), bias.into_dispatch()]);
    (tensor(told), root.backward())
}

/// The loss and how many images are right, `[2]`; and the gradient of the loss by the logits, `[B, C]`.
fn on_gpu(products: CubeTensor, bias: CubeTensor, classes: CubeTensor) -> (CubeTensor, CubeTensor) {
    let products = into_contiguous(products);
    let [images, count] = products.shape().dims();
    let (by_logits, told) = (empty(&products, [images, count]), empty(&products, [images, 2]));
    cross_entropy::launch(
        &products.client,
        CubeCount::Static(images as u32, 1, 1),
        CubeDim::new_1d(UNITS as u32),
        arg(&products),
        arg(&into_contiguous(bias)),
        arg(&into_contiguous(classes)),
        arg(&by_logits),
        arg(&told),
        1.0 / images as f32,
        count,
        count.div_ceil(UNITS),
    );
    (CubeBackend::float_reshape(CubeBackend::float_sum_dim(told, 0), Shape::new([2])), by_logits)
}

/// Where the gradients begin. It stands for the loss, and what is owed to it is 1, which nothing need be multiplied by.
struct Root {
    by_logits: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for Root {
    type Saved = CubeTensor;

    fn forward(self, [products, _]: [CubeTensor; 2], _: bool) -> (CubeTensor, CubeTensor) {
        (empty(&products, [1]), self.by_logits)
    }

    fn vjp(by_logits: &CubeTensor, _: CubeTensor, wanted: [bool; 2]) -> [Option<CubeTensor>; 2] {
        <Biased as CustomOp<CubeBackend, 2>>::vjp(&(Activation::None, None), by_logits.clone(), wanted)
    }
}

/// Of the image that this workgroup takes: its share of the loss and whether it is right, `told` `[B, 2]`; its share of the gradient.
/// A thread has `each` logits, which memory is asked for at once where they are not too many.
#[cube(launch)]
fn cross_entropy(
    products: &[f32],
    bias: &[f32],
    classes: &[i32],
    by_logits: &mut [f32],
    told: &mut [f32],
    share: f32,
    count: usize,
    #[comptime] each: usize,
) {
    let (image, unit) = (CUBE_POS, UNIT_POS as usize);
    let first = image * count;
    let class = usize::cast_from(classes[image]);
    let of_class = products[first + class] + bias[class];
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut logits = Array::<f32>::new(each);
    #[unroll(each <= UNROLLED)]
    for next in 0..each {
        // Past the end the last one stands again, at a place that is never the least.
        let at = usize::min(unit + next * UNITS, count - 1);
        logits[next] = products[first + at] + bias[at];
    }

    // The largest logit, and the first place that has it: counted in float32, which holds 16 million.
    let mut own = logits[0];
    let mut place = unit;
    #[unroll(each <= UNROLLED)]
    for next in 1..each {
        if logits[next] > own {
            own = logits[next];
            place = unit + next * UNITS;
        }
    }
    let largest = fold(own, &mut lanes, Fold::Largest, UNITS);
    let place = if own == largest { f32::cast_from(place) } else { f32::cast_from(count) };
    let best = usize::cast_from(fold(place, &mut lanes, Fold::Least, UNITS));

    let mut sum = 0.0f32;
    #[unroll(each <= UNROLLED)]
    for next in 0..each {
        logits[next] = (logits[next] - largest).exp();
        if unit + next * UNITS < count {
            sum += logits[next];
        }
    }
    let sum = fold(sum, &mut lanes, Fold::Sum, UNITS);

    #[unroll(each <= UNROLLED)]
    for next in 0..each {
        let at = unit + next * UNITS;
        if at < count {
            let right = if at == class { 1.0f32 } else { 0.0f32 };
            by_logits[first + at] = (logits[next] / sum - right) * share;
        }
    }
    if unit == 0 {
        told[2 * image] = (sum.ln() + largest - of_class) * share;
        told[2 * image + 1] = if best == class { 1.0f32 } else { 0.0f32 };
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
            for (images, classes) in [(1, 1), (3, 2), (5, 127), (4, 1000), (2, UNROLLED * UNITS + 5)] {
                let run = |device: &Device| {
                    let value = |at: usize| ((at * 7919) % 1013) as f32 / 20.0 - 25.0;
                    let mut values: Vec<f32> = (0..images * classes).map(value).collect();
                    let bias: Vec<f32> = (0..classes).map(|at| (at % 5) as f32 / 4.0).collect();
                    // Of equal ones the first counts, whoever reads the others.
                    for at in [0, (classes - 1) / UNITS * UNITS, classes - 1] {
                        values[at] = 30.0 - bias[at];
                    }
                    let right: Vec<usize> = (0..images).map(|image| image * 7 % classes).collect();
                    let data = TensorData::new(values, [images, classes]);
                    let products = Tensor::<2>::from_data(data, device).autodiff().require_grad();
                    let bias = Tensor::<1>::from_data(&bias[..], device).autodiff().require_grad();
                    let labels = Labels::new(&right, classes, device);
                    let (told, gradients) = loss_and_gradients(products.clone(), bias.clone(), &labels);
                    let by_products = products.grad(&gradients).expect("a gradient").into_data();
                    let by_bias = bias.grad(&gradients).expect("a gradient").into_data();
                    [told.into_data(), by_products, by_bias]
                        .map(|values| values.try_into_vec::<f32>().expect("float32"))
                };
                let [told, by_products, by_bias] = run(&gpu);
                let [expected, expected_by_products, expected_by_bias] = run(&Device::flex());
                assert!((told[0] / expected[0].max(1e-3) - expected[0] / expected[0].max(1e-3)).abs() < 1e-5);
                assert_eq!(told[1], expected[1], "{images} x {classes} on {name}");
                assert_close(&name, by_products, expected_by_products, 1e-6);
                assert_close(&name, by_bias, expected_by_bias, 1e-6);
            }
        }
    }
}
