//! The loss of a batch: the mean over images of `ln sum_c exp(z_c) - z_y` for logits `z` and the true class `y`; and the number
//! of correct images, whose largest logit is that of `y`.
//!
//! One pass over the logits computes both and the gradient, `(softmax(z) - e_y) / B`, where tensor operations take some thirty. It
//! also adds the bias, so that the backward pass starts before it.

mod cpu;
mod gpu;

use burn::backend::{Cube, Flex};
use burn::tensor::{Gradients, Tensor};

use super::batches::Labels;
use crate::model::ops::cpu::on_cpu;
use crate::model::ops::custom_op::apply;

/// The loss of the logits `products + bias`, `[B, C]` and `[C]`, with the number of correct images, `[2]`, detached from the
/// graph; and the gradients of the loss.
pub(super) fn loss_and_gradients(
    products: Tensor<2>,
    bias: Tensor<1>,
    labels: &Labels,
) -> (Tensor<1>, Gradients) {
    let inputs = [products.clone().into_dispatch(), bias.clone().into_dispatch()];
    let classes = labels.index.clone();
    let (loss_and_right, root) = if on_cpu(&products.device()) {
        let (loss_and_right, root) = cpu::pass(products, bias, classes);
        (Tensor::from_primitive::<Flex>(loss_and_right), apply::<Flex, _, 2, 1>(root, inputs))
    } else {
        let (loss_and_right, root) = gpu::pass(products, bias, classes);
        (Tensor::from_primitive::<Cube>(loss_and_right), apply::<Cube, _, 2, 1>(root, inputs))
    };
    (loss_and_right, root.backward())
}

/// Root of the graph in place of the loss, whose gradient with respect to the logits is known: its cotangent is always 1, and its
/// value, `[1]`, is never read.
struct Root<T> {
    grad_logits: T,
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::close::assert_close;

    /// The bias, `[C]`.
    fn bias(count: usize) -> Vec<f32> {
        (0..count).map(|at| (at % 5) as f32 / 4.0).collect()
    }

    /// Products of `images` images and `count` classes, and the classes of the images; three logits of the first image are the largest.
    fn case(images: usize, count: usize) -> (Vec<f32>, Vec<usize>) {
        let value = |at: usize| ((at * 7919) % 1013) as f32 / 20.0 - 25.0;
        let mut products: Vec<f32> = (0..images * count).map(value).collect();
        for at in [0, (count - 1) / gpu::UNITS * gpu::UNITS, count - 1] {
            products[at] = 30.0 - bias(count)[at];
        }
        (products, (0..images).map(|image| image * 7 % count).collect())
    }

    /// Loss and number of correct images; the gradients of products and bias.
    pub(super) fn run([images, count]: [usize; 2], device: &Device) -> [Vec<f32>; 3] {
        let (products, classes) = case(images, count);
        let products = TensorData::new(products, [images, count]);
        let products = Tensor::<2>::from_data(products, device).autodiff().require_grad();
        let bias = Tensor::<1>::from_data(&bias(count)[..], device).autodiff().require_grad();
        let labels = Labels::new(&classes, device);
        let (loss_and_right, gradients) = loss_and_gradients(products.clone(), bias.clone(), &labels);
        let grad_products = products.grad(&gradients).expect("a gradient").into_data();
        let grad_bias = bias.grad(&gradients).expect("a gradient").into_data();
        [loss_and_right.into_data(), grad_products, grad_bias]
            .map(|values| values.try_into_vec::<f32>().expect("float32"))
    }

    /// The same in float64, by the formula.
    fn expected([images, count]: [usize; 2]) -> [Vec<f64>; 3] {
        let (products, classes) = case(images, count);
        let (mut loss_and_right, mut grad_products) = (vec![0.0; 2], Vec::new());
        let mut grad_bias = vec![0.0; count];
        for (products, class) in products.chunks(count).zip(classes) {
            let logits: Vec<f64> =
                products.iter().zip(bias(count)).map(|(x, bias)| f64::from(*x) + f64::from(bias)).collect();
            let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
            let first_largest = (0..count).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            loss_and_right[0] += (total.ln() - logits[class]) / images as f64;
            loss_and_right[1] += f64::from(first_largest == Some(class));
            for (at, logit) in logits.iter().enumerate() {
                let gradient = (logit.exp() / total - f64::from(at == class)) / images as f64;
                grad_products.push(gradient);
                grad_bias[at] += gradient;
            }
        }
        [loss_and_right, grad_products, grad_bias]
    }

    #[test]
    fn it_is_the_formula() {
        for sizes in [[1, 1], [3, 2], [5, 127], [40, 1000]] {
            let found = run(sizes, &Device::flex());
            for ((what, found), expected) in
                ["loss", "products", "bias"].iter().zip(found).zip(expected(sizes))
            {
                let largest = expected.iter().fold(1.0_f64, |largest, x| largest.max(x.abs()));
                assert_close(format!("{what} of {sizes:?}"), found, expected, 1e-6 * largest);
            }
        }
    }

    #[test]
    fn logits_that_are_no_numbers_make_a_loss_that_is_none() {
        let device = Device::flex();
        for broken in [f32::NAN, f32::INFINITY] {
            let products = Tensor::<2>::from_data([[0.0, broken, 1.0], [0.0, 1.0, 2.0]], &device).autodiff();
            let bias = Tensor::<1>::from_data([0.0, 0.0, 0.0], &device).autodiff().require_grad();
            let (loss_and_right, _) = loss_and_gradients(products, bias, &Labels::new(&[0, 1], &device));
            let loss = loss_and_right.into_data().iter::<f32>().next().expect("a loss");
            assert!(!loss.is_finite(), "{broken}");
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::Device;

    use super::gpu::{MAX_UNROLLED, UNITS};
    use super::tests::run;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn on_a_gpu_it_is_the_processors() {
        for (name, gpu) in gpus() {
            for sizes in [[1, 1], [3, 2], [5, 127], [4, 1000], [2, MAX_UNROLLED * UNITS + 5]] {
                let [loss_and_right, grad_products, grad_bias] = run(sizes, &gpu);
                let [expected, expected_grad_products, expected_grad_bias] = run(sizes, &Device::flex());
                let scale = expected[0].max(1e-3);
                assert_close(&name, [loss_and_right[0] / scale], [expected[0] / scale], 1e-5);
                assert_eq!(loss_and_right[1], expected[1], "{sizes:?} on {name}");
                assert_close(&name, grad_products, expected_grad_products, 1e-6);
                assert_close(&name, grad_bias, expected_grad_bias, 1e-6);
            }
        }
    }
}
