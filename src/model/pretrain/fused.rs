//! Operations of a transformer layer on the CPU with hand-written gradients: forward and backward are one vectorised pass each,
//! where burn's own make several, each into a new tensor. A pass runs on one core; parts of a step run on others in parallel.

use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

use crate::model::backbone::activation::tail;
use crate::model::ops::cpu::{as_f32, from_f32};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::simd::{add, add_product, exp_single, largest, sum, vectorised};

/// Added to the variance by layer norm.
pub(super) const EPSILON: f64 = 1e-12;

/// `x (1 + erf(x / sqrt 2)) / 2`, value by value (Hendrycks and Gimpel, 2016).
pub(super) fn gelu(x: Tensor<3>) -> Tensor<3> {
    apply::<Flex, _, 1, 3>(Gelu, [x.into_dispatch()])
}

/// The softmax along the last axis.
pub(super) fn softmax(x: Tensor<4>) -> Tensor<4> {
    apply::<Flex, _, 1, 4>(Softmax, [x.into_dispatch()])
}

/// Layer norm along the last axis, with gain and offset.
pub(super) fn layer_norm(x: Tensor<3>, gain: Tensor<1>, offset: Tensor<1>) -> Tensor<3> {
    apply::<Flex, _, 3, 3>(LayerNorm, [x.into_dispatch(), gain.into_dispatch(), offset.into_dispatch()])
}

fn shape(x: &FlexTensor) -> Vec<usize> {
    x.layout().shape().to_vec()
}

struct Gelu;

impl CustomOp<Flex, 1> for Gelu {
    /// The derivative at every value.
    type Saved = Vec<f32>;

    fn forward(self, [x]: [FlexTensor; 1], _: bool) -> (FlexTensor, Vec<f32>) {
        let mut values = as_f32(&x.to_contiguous()).to_vec();
        let mut slopes = vec![0.0; values.len()];
        gelu_and_slope(&mut values, &mut slopes);
        (from_f32(values, &shape(&x)), slopes)
    }

    fn vjp(slopes: &Vec<f32>, cotangent: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut grad = vec![0.0; slopes.len()];
        add_product(as_f32(&cotangent.to_contiguous()), slopes, &mut grad);
        [Some(from_f32(grad, &shape(&cotangent)))]
    }
}

vectorised! {
    /// Replaces every value by its GELU, and writes the derivative to `slopes`.
    fn gelu_and_slope<const FUSED: bool>(values: &mut [f32], slopes: &mut [f32]) {
        const PEAK: f32 = 0.398_942_3; // 1 / sqrt(2 pi)
        for (value, slope) in values.iter_mut().zip(slopes) {
            let x = *value;
            let [upper, bell] = tail::<FUSED>(x);
            let cdf = if x < 0.0 { upper } else { 1.0 - upper };
            *value = x * cdf;
            *slope = cdf + x * bell * PEAK;
        }
    }
}

struct Softmax;

impl CustomOp<Flex, 1> for Softmax {
    /// The softmax (empty if gradients are not needed), and the length of its rows.
    type Saved = (Vec<f32>, usize);

    fn forward(self, [x]: [FlexTensor; 1], keep: bool) -> (FlexTensor, Self::Saved) {
        let shape = shape(&x);
        let row = *shape.last().expect("an axis");
        let mut weights = as_f32(&x.to_contiguous()).to_vec();
        softmax_rows(&mut weights, row);
        let saved = if keep { weights.clone() } else { Vec::new() };
        (from_f32(weights, &shape), (saved, row))
    }

    fn vjp((weights, row): &Self::Saved, cotangent: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut grad = as_f32(&cotangent.to_contiguous()).to_vec();
        softmax_backward(&mut grad, weights, *row);
        [Some(from_f32(grad, &shape(&cotangent)))]
    }
}

vectorised! {
    /// Replaces every row of length `row` by its softmax.
    fn softmax_rows<const FUSED: bool>(values: &mut [f32], row: usize) {
        for row in values.chunks_exact_mut(row) {
            let max = largest(row);
            row.iter_mut().for_each(|x| *x = exp_single::<FUSED>(*x - max));
            let scale = 1.0 / sum(row);
            row.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

vectorised! {
    /// Turns the cotangents of `weights`, a softmax, into the gradients of its logits, in place.
    fn softmax_backward<const FUSED: bool>(grad: &mut [f32], weights: &[f32], row: usize) {
        for (row, weights) in grad.chunks_exact_mut(row).zip(weights.chunks_exact(row)) {
            row.iter_mut().zip(weights).for_each(|(grad, weight)| *grad *= weight);
            let sum = sum(row);
            row.iter_mut().zip(weights).for_each(|(grad, weight)| *grad -= sum * weight);
        }
    }
}

struct LayerNorm;

/// What layer norm saves for its backward pass.
struct Normed {
    /// The values, normalised to mean 0 and variance 1 along every row.
    values: Vec<f32>,
    /// The inverse standard deviation of every row.
    scales: Vec<f32>,
    gain: Vec<f32>,
}

impl CustomOp<Flex, 3> for LayerNorm {
    type Saved = Normed;

    fn forward(self, [x, gain, offset]: [FlexTensor; 3], _: bool) -> (FlexTensor, Normed) {
        let [gain, offset] = [gain, offset].map(|tensor| as_f32(&tensor.to_contiguous()).to_vec());
        let mut values = as_f32(&x.to_contiguous()).to_vec();
        let mut scales = vec![0.0; values.len() / gain.len()];
        let mut out = vec![0.0; values.len()];
        normalise(&mut values, &mut scales, &gain, &offset, &mut out);
        (from_f32(out, &shape(&x)), Normed { values, scales, gain })
    }

    fn vjp(
        Normed { values, scales, gain }: &Normed,
        cotangent: FlexTensor,
        _: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let (width, shape) = (gain.len(), shape(&cotangent));
        let mut grad = as_f32(&cotangent.to_contiguous()).to_vec();
        let (mut grad_gain, mut grad_offset) = (vec![0.0; width], vec![0.0; width]);
        for (cotangent, values) in grad.chunks_exact(width).zip(values.chunks_exact(width)) {
            add_product(cotangent, values, &mut grad_gain);
            add(cotangent, &mut grad_offset);
        }
        normalise_backward(&mut grad, values, scales, gain);
        let [grad_gain, grad_offset] = [grad_gain, grad_offset].map(|grad| Some(from_f32(grad, &[width])));
        [Some(from_f32(grad, &shape)), grad_gain, grad_offset]
    }
}

vectorised! {
    /// Normalises `values` in place, row by row, and writes them with gain and offset applied to `out`.
    fn normalise<const FUSED: bool>(
        values: &mut [f32], scales: &mut [f32], gain: &[f32], offset: &[f32], out: &mut [f32],
    ) {
        let width = gain.len();
        let rows = values.chunks_exact_mut(width).zip(out.chunks_exact_mut(width));
        for ((row, out), scale) in rows.zip(scales) {
            let mean = sum(row) / width as f32;
            row.iter_mut().for_each(|x| *x -= mean);
            out.iter_mut().zip(&*row).for_each(|(out, x)| *out = x * x);
            *scale = 1.0 / (sum(out) / width as f32 + EPSILON as f32).sqrt();
            row.iter_mut().for_each(|x| *x *= *scale);
            for (((out, x), gain), offset) in out.iter_mut().zip(&*row).zip(gain).zip(offset) {
                *out = x * gain + offset;
            }
        }
    }
}

vectorised! {
    /// Turns the cotangents of the output into the gradients of the input, in place.
    fn normalise_backward<const FUSED: bool>(grad: &mut [f32], values: &[f32], scales: &[f32], gain: &[f32]) {
        let width = gain.len();
        let mut products = vec![0.0; width];
        let rows = grad.chunks_exact_mut(width).zip(values.chunks_exact(width));
        for ((grad, values), scale) in rows.zip(scales) {
            grad.iter_mut().zip(gain).for_each(|(grad, gain)| *grad *= gain);
            let mean = sum(grad) / width as f32;
            products.iter_mut().zip(&*grad).zip(values).for_each(|((product, grad), x)| *product = grad * x);
            let slope = sum(&products) / width as f32;
            grad.iter_mut().zip(values).for_each(|(grad, x)| *grad = scale * (*grad - mean - x * slope));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData, activation, module};

    use super::*;
    use crate::close::assert_close;
    use crate::model::ops::cpu::host;

    /// Asserts that two operations, ours and burn's own, have the same values and gradients.
    fn same<const D: usize, const N: usize>(
        shapes: [Vec<usize>; N],
        operations: [&dyn Fn([Tensor<1>; N]) -> Tensor<D>; 2],
    ) {
        let device = Device::flex();
        let [ours, theirs] = operations.map(|operation| {
            let leaf = |(k, shape): (usize, &Vec<usize>)| {
                let count: usize = shape.iter().product();
                let value = |i: usize| ((i * 7919 + k * 31) % 1013) as f32 / 170.0 - 3.0;
                let data = TensorData::new((0..count).map(value).collect::<Vec<_>>(), [count]);
                Tensor::<1>::from_data(data, &device).autodiff().require_grad()
            };
            let leaves: Vec<Tensor<1>> = shapes.iter().enumerate().map(leaf).collect();
            let leaves: [Tensor<1>; N] = leaves.try_into().expect("as many");
            let out = operation(leaves.clone());
            let count = out.shape().num_elements();
            let cotangent: Vec<f32> = (0..count).map(|i| ((i * 31) % 17) as f32 / 8.0 - 1.0).collect();
            let cotangent = Tensor::<1>::from_data(TensorData::new(cotangent, [count]), &device).autodiff();
            let gradients = (out.clone().reshape([count]) * cotangent).sum().backward();
            let grads = leaves.map(|leaf| host(leaf.grad(&gradients).expect("a gradient")));
            (host(out), grads)
        });
        assert_close("values", ours.0, theirs.0, 3e-6);
        for (ours, theirs) in ours.1.into_iter().zip(theirs.1) {
            let largest = theirs.iter().fold(1.0_f32, |largest, x| largest.max(x.abs()));
            assert_close("gradient", ours, theirs, f64::from(largest) * 3e-6);
        }
    }

    #[test]
    fn values_and_gradients_are_those_of_burns_own_operations() {
        let cube = |x: Tensor<1>| x.reshape([3, 5, 64]);
        same([vec![3 * 5 * 64]], [&|[x]| gelu(cube(x)), &|[x]| activation::gelu(cube(x))]);
        let four = |x: Tensor<1>| x.reshape([2, 2, 5, 17]);
        same([vec![2 * 2 * 5 * 17]], [&|[x]| softmax(four(x)), &|[x]| activation::softmax(four(x), 3)]);
        same(
            [vec![3 * 5 * 64], vec![64], vec![64]],
            [&|[x, gain, offset]| layer_norm(cube(x), gain, offset), &|[x, gain, offset]| {
                module::layer_norm(cube(x), gain, Some(offset), EPSILON)
            }],
        );
    }
}
