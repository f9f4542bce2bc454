//! DeepSets on the CPU as one operation with its own gradient, in which no token meets the second layer.
//!
//! That layer is linear and the norm behind it too, but for one number a token. With `V` and `c` the
//! second layer's weight `[d, H]` and bias `[d]` less their means over the channels, a token's hidden
//! values `h` come to `y = V h + c`, already centred, with `|y|^2 = h . (q + g) + c . c`, `q = V^T y = (V^T V) h + g`,
//! `g = V^T c`: the norm's `s = (|y|^2 / d + 1e-5)^(-1/2)` needs products with `V^T V` `[H, H]` alone, and the
//! mean of `s y` is `V mean(s h) + c mean(s)`. Back, where each `s y` of an image has the gradient `e`, centred, and
//! `u = V^T e`: with `w = s^3 (u . h + e . c) / d` that of the hidden values is `s u - w q`, the weight
//! `e (sum s h)^T - V (sum w h h^T) - c (sum w h)^T` and the bias `e sum s - V (sum w h) - c sum w`. With `d = 4 H`
//! that is less than half the operations of going through the layer token by token.
//!
//! Some tokens of an image are taken at a time, so that what lies between the layers stays in a core's
//! cache. Kept for the way back are hidden values and norms.

use burn::backend::{DispatchTensor, Flex};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::vectors::{centred, hidden_vjp, sum};
use crate::model::ops::cpu::{as_f32, flex, from_f32};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::pooling::token_batch::Tokens;
use crate::model::ops::simd::{add, add_scaled, dot};

/// Tokens taken together.
const TOKENS_PER_BLOCK: usize = 128;
/// Parts a batch is cut into, each with gradients of its own, summed in order at the end.
const PARTS: usize = 16;
/// Images whose means are made together.
const IMAGES_PER_PRODUCT: usize = 16;

/// `mean_i normalise(W2 relu(W1 t_i + b1) + b2)`, `[B, d]`, for tokens `[B, N, d]` on the CPU. `layers`: weight
/// and bias of the inner layer, `[hidden, d]` and `[hidden]`, then of the outer, `[d, hidden]` and `[d]`.
pub(super) fn mean(tokens: &Tensor<3>, layers: [DispatchTensor; 4]) -> Tensor<2> {
    apply(DeepSetsOp { tokens: Tokens::new(&flex(tokens.clone())) }, layers)
}

/// The mean of these tokens, of the weights as [`mean`] has them.
struct DeepSetsOp {
    tokens: Tokens,
}

impl CustomOp<Flex, 4> for DeepSetsOp {
    type Saved = (Network, Vec<Seen>);

    fn forward(self, layers: [FlexTensor; 4], keep: bool) -> (FlexTensor, Self::Saved) {
        let network = Network::new(self.tokens, layers);
        let (mean, seen) = network.forward(keep);
        (mean, (network, seen))
    }

    fn vjp((network, seen): &Self::Saved, by_mean: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let gradients = network.backward(seen, as_f32(&by_mean.to_contiguous()));
        let mut shapes = network.layers.iter().map(|layer| layer.layout().shape());
        gradients.map(|values| shapes.next().map(|shape| from_f32(values, shape)))
    }
}

/// What is known of an image on the way back.
#[derive(Default)]
struct Seen {
    /// `h`, `[N, H]`, after the ReLU.
    hidden: Vec<f32>,
    /// `s`, `[N]`.
    norms: Vec<f32>,
    /// `sum s h`, `[H]`.
    sum: Vec<f32>,
}

struct Network {
    tokens: Tokens,
    /// Weight and bias of the inner layer, then of the outer.
    layers: [FlexTensor; 4],
    outer: Outer,
}

/// The outer layer, centred.
struct Outer {
    /// `V`, `[d, H]`.
    weight: Vec<f32>,
    /// `c`, `[d]`.
    bias: Vec<f32>,
    /// `V^T V`, `[H, H]`.
    square: Vec<f32>,
    /// `g`, `[H]`.
    along: Vec<f32>,
    /// `c . c`.
    level: f32,
}

impl Outer {
    fn new(weight: &[f32], bias: &[f32]) -> Self {
        let (width, hidden) = (bias.len(), weight.len() / bias.len());
        let mut mean = vec![0.0; hidden];
        weight.chunks_exact(hidden).for_each(|row| add(row, &mut mean));
        mean.iter_mut().for_each(|x| *x /= width as f32);
        let mut weight = weight.to_vec();
        weight.chunks_exact_mut(hidden).for_each(|row| row.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m));
        let bias = centred(bias);
        let (mut square, mut along) = (vec![0.0; hidden * hidden], vec![0.0; hidden]);
        let matrix = Matrix::new(&weight, hidden);
        matrix.transposed().times(matrix, &mut square);
        matrix.transposed().times(Matrix::new(&bias, 1), &mut along);
        let level = dot(&bias, &bias);
        Self { weight, bias, square, along, level }
    }
}

/// What is summed over images on the way back.
struct Sums {
    inner: Vec<f32>,
    inner_bias: Vec<f32>,
    /// `sum e (sum s h)^T`, `[d, H]`, and `sum e sum s`, `[d]`.
    outer: Vec<f32>,
    outer_bias: Vec<f32>,
    /// `sum w h h^T`, `[H, H]`, `sum w h`, `[H]`, and `sum w`, one value.
    squares: Vec<f32>,
    firsts: Vec<f32>,
    weights: Vec<f32>,
}

impl Sums {
    fn new(width: usize, hidden: usize) -> Self {
        let zeros = |count: usize| vec![0.0; count];
        Self {
            inner: zeros(hidden * width),
            inner_bias: zeros(hidden),
            outer: zeros(width * hidden),
            outer_bias: zeros(width),
            squares: zeros(hidden * hidden),
            firsts: zeros(hidden),
            weights: zeros(1),
        }
    }

    fn all(&mut self) -> [&mut Vec<f32>; 7] {
        let Self { inner, inner_bias, outer, outer_bias, squares, firsts, weights } = self;
        [inner, inner_bias, outer, outer_bias, squares, firsts, weights]
    }
}

impl Network {
    fn new(tokens: Tokens, layers: [FlexTensor; 4]) -> Self {
        let layers = layers.map(|layer| layer.to_contiguous());
        let outer = Outer::new(as_f32(&layers[2]), as_f32(&layers[3]));
        Self { tokens, layers, outer }
    }

    fn image(&self, image: usize) -> &[f32] {
        let size = self.tokens.count * self.tokens.width;
        &self.tokens.as_f32()[image * size..(image + 1) * size]
    }

    /// `q` of some tokens, `[n, H]`, given their `h`.
    fn project(&self, hidden: &[f32], into: &mut [f32]) {
        let Outer { square, along, .. } = &self.outer;
        into.chunks_exact_mut(along.len()).for_each(|row| row.copy_from_slice(along));
        Matrix::new(hidden, along.len()).times(Matrix::new(square, along.len()), into);
    }

    /// What the way back needs of an image, and `sum s`; the hidden values only to `keep`.
    fn see(&self, image: usize, keep: bool) -> (Seen, f32) {
        let Outer { along, level, .. } = &self.outer;
        let (inner, bias) = (as_f32(&self.layers[0]), as_f32(&self.layers[1]));
        let (width, count) = (self.tokens.width, bias.len());
        let mut seen = Seen { sum: vec![0.0; count], ..Seen::default() };
        let size = TOKENS_PER_BLOCK.min(self.tokens.count) * count;
        let (mut hidden, mut projected) = (vec![0.0; size], vec![0.0; size]);
        for tokens in self.image(image).chunks(TOKENS_PER_BLOCK * width) {
            let size = tokens.len() / width * count;
            let (hidden, projected) = (&mut hidden[..size], &mut projected[..size]);
            hidden.chunks_exact_mut(count).for_each(|row| row.copy_from_slice(bias));
            Matrix::new(tokens, width).times(Matrix::new(inner, width).transposed(), hidden);
            hidden.iter_mut().for_each(|x| *x = x.max(0.0));
            self.project(hidden, projected);
            for (hidden, projected) in hidden.chunks_exact(count).zip(projected.chunks_exact(count)) {
                let square = dot(hidden, projected) + dot(hidden, along) + level;
                let norm = 1.0 / (square.max(0.0) / width as f32 + 1e-5).sqrt();
                add_scaled(norm, hidden, &mut seen.sum);
                seen.norms.push(norm);
            }
            if keep {
                seen.hidden.extend_from_slice(hidden);
            }
        }
        let norms = sum(&seen.norms);
        (seen, norms)
    }

    /// The mean for every image, `[B, d]`; with `keep`, what the way back needs.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<Seen>) {
        let Outer { weight, bias, along, .. } = &self.outer;
        let seen: Vec<(Seen, f32)> =
            (0..self.tokens.images).into_par_iter().map(|image| self.see(image, keep)).collect();
        let mut means = vec![0.0; self.tokens.images * self.tokens.width];
        means
            .par_chunks_mut(IMAGES_PER_PRODUCT * self.tokens.width.max(1))
            .zip(seen.par_chunks(IMAGES_PER_PRODUCT))
            .for_each(|(means, seen)| {
                let sums: Vec<f32> = seen.iter().flat_map(|(seen, _)| seen.sum.iter().copied()).collect();
                Matrix::new(&sums, along.len()).times(Matrix::new(weight, along.len()).transposed(), means);
                for (mean, (_, norms)) in means.chunks_exact_mut(self.tokens.width).zip(seen) {
                    add_scaled(*norms, bias, mean);
                    mean.iter_mut().for_each(|x| *x /= self.tokens.count as f32);
                }
            });
        (
            from_f32(means, &[self.tokens.images, self.tokens.width]),
            seen.into_iter().map(|(seen, _)| seen).collect(),
        )
    }

    /// The gradients of the layers, given that of the mean, `[B, d]`.
    fn backward(&self, seen: &[Seen], cotangent: &[f32]) -> [Vec<f32>; 4] {
        let Outer { weight, bias, along, .. } = &self.outer;
        let (width, count) = (self.tokens.width, along.len());
        let images: Vec<usize> = (0..self.tokens.images).collect();
        let part = self.tokens.images.div_ceil(PARTS).max(1);
        let parts: Vec<Sums> =
            images.par_chunks(part).map(|images| self.back_through(images, seen, cotangent)).collect();
        let mut total = Sums::new(width, count);
        for mut part in parts {
            total.all().into_iter().zip(part.all()).for_each(|(total, part)| add(part, total));
        }
        let Sums { inner, inner_bias, mut outer, mut outer_bias, mut squares, mut firsts, weights } = total;
        squares.iter_mut().chain(&mut firsts).for_each(|x| *x = -*x);
        let matrix = Matrix::new(weight, count);
        matrix.times(Matrix::new(&squares, count), &mut outer);
        Matrix::new(bias, 1).times(Matrix::new(&firsts, count), &mut outer);
        matrix.times(Matrix::new(&firsts, 1), &mut outer_bias);
        add_scaled(-weights[0], bias, &mut outer_bias);
        [inner, inner_bias, outer, outer_bias]
    }

    fn back_through(&self, images: &[usize], seen: &[Seen], cotangent: &[f32]) -> Sums {
        let Outer { weight, bias, along, .. } = &self.outer;
        let (width, count) = (self.tokens.width, along.len());
        let mut sums = Sums::new(width, count);
        let by_means: Vec<f32> = images
            .iter()
            .flat_map(|image| {
                let by_mean = &cotangent[image * width..(image + 1) * width];
                centred(&by_mean.iter().map(|x| x / self.tokens.count as f32).collect::<Vec<_>>())
            })
            .collect(); // e, [images, d]
        let mut back = vec![0.0; images.len() * count]; // u, [images, H]
        Matrix::new(&by_means, width).times(Matrix::new(weight, count), &mut back);
        let totals: Vec<f32> = images.iter().flat_map(|&image| seen[image].sum.iter().copied()).collect();
        let by_means_transposed = Matrix::new(&by_means, width).transposed();
        by_means_transposed.times(Matrix::new(&totals, count), &mut sums.outer);
        let norms: Vec<f32> = images.iter().map(|&image| sum(&seen[image].norms)).collect();
        by_means_transposed.times(Matrix::new(&norms, 1), &mut sums.outer_bias);

        let size = TOKENS_PER_BLOCK.min(self.tokens.count) * count;
        let (mut projected, mut weighed) = (vec![0.0; size], vec![0.0; size]);
        for (at, &image) in images.iter().enumerate() {
            let u = &back[at * count..(at + 1) * count];
            let level = dot(&by_means[at * width..(at + 1) * width], bias);
            let Seen { hidden, norms, .. } = &seen[image];
            let blocks = self
                .image(image)
                .chunks(TOKENS_PER_BLOCK * width)
                .zip(hidden.chunks(TOKENS_PER_BLOCK * count));
            for ((tokens, hidden), norms) in blocks.zip(norms.chunks(TOKENS_PER_BLOCK)) {
                let (projected, weighed) = (&mut projected[..hidden.len()], &mut weighed[..hidden.len()]);
                self.project(hidden, projected);
                let rows = hidden.chunks_exact(count).zip(projected.chunks_exact_mut(count));
                for (((h, q), weighed), &s) in rows.zip(weighed.chunks_exact_mut(count)).zip(norms) {
                    let w = s.powi(3) * (dot(u, h) + level) / width as f32;
                    sums.weights[0] += w;
                    hidden_vjp(s, w, u, h, q, weighed);
                    add(q, &mut sums.inner_bias);
                    add(weighed, &mut sums.firsts);
                }
                let hidden = Matrix::new(hidden, count);
                Matrix::new(weighed, count).transposed().times(hidden, &mut sums.squares);
                let by_hidden = Matrix::new(projected, count).transposed();
                by_hidden.times(Matrix::new(tokens, width), &mut sums.inner);
            }
        }
        sums
    }
}
