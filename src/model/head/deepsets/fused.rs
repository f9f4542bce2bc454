//! DeepSets on the CPU as one operation with its own gradient: some tokens of an image at a time, so
//! that what lies between the layers stays in a core's cache and is never held for the whole batch.
//! Kept for the way back are the hidden values alone; the second layer is computed again.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::model::pooling::tensor;
use crate::model::product::Matrix;
use crate::model::vectorise::{add, vectorised};

/// Tokens taken together.
const TOKENS: usize = 128;
/// Parts a batch is cut into, each with gradients of its own, summed in order at the end.
const PARTS: usize = 16;

/// The weights of both layers: `[hidden, d]`, `[hidden]`, `[d, hidden]`, `[d]`.
pub(super) struct Layers {
    pub inner: Tensor<2>,
    pub inner_bias: Tensor<1>,
    pub outer: Tensor<2>,
    pub outer_bias: Tensor<1>,
}

/// `mean_i normalise(W2 relu(W1 t_i + b1) + b2)`, `[B, d]`, for tokens `[B, N, d]` on the CPU.
pub(super) fn mean(tokens: &Tensor<3>, layers: Layers) -> Tensor<2> {
    let Layers { inner, inner_bias, outer, outer_bias } = layers;
    Tensor::from_dispatch(<Dispatch as Seeing>::mean(
        tokens.clone().into_dispatch(),
        inner.into_dispatch(),
        inner_bias.into_dispatch(),
        outer.into_dispatch(),
        outer_bias.into_dispatch(),
    ))
}

#[backend_extension(Autodiff, Flex)]
trait Seeing: Backend {
    fn mean(
        tokens: FloatTensor<Self>,
        inner: FloatTensor<Self>,
        inner_bias: FloatTensor<Self>,
        outer: FloatTensor<Self>,
        outer_bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

impl Seeing for Flex {
    fn mean(
        tokens: FlexTensor,
        inner: FlexTensor,
        inner_bias: FlexTensor,
        outer: FlexTensor,
        outer_bias: FlexTensor,
    ) -> FlexTensor {
        Network::new(&tokens, [inner, inner_bias, outer, outer_bias]).forward(false).0
    }
}

impl<C: CheckpointStrategy> Seeing for Autodiff<Flex, C> {
    fn mean(
        tokens: FloatTensor<Self>,
        inner: FloatTensor<Self>,
        inner_bias: FloatTensor<Self>,
        outer: FloatTensor<Self>,
        outer_bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let layers = [inner, inner_bias, outer, outer_bias];
        let nodes = layers.each_ref().map(<FloatTensor<Self>>::node);
        let network = Network::new(&tokens.into_primitive(), layers.map(<FloatTensor<Self>>::into_primitive));
        match BackFromMean.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (mean, hidden) = network.forward(true);
                prep.finish(Arc::new(Forward { network, hidden }), mean)
            }
            OpsKind::UnTracked(prep) => prep.finish(network.forward(false).0),
        }
    }
}

/// What the way back needs.
struct Forward {
    network: Network,
    /// `[N, hidden]` of each image, after the ReLU.
    hidden: Vec<Vec<f32>>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} images)", self.hidden.len())
    }
}

/// The gradient of the mean.
#[derive(Debug)]
struct BackFromMean;

impl Backward<Flex, 4> for BackFromMean {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<Flex>(&ops.node).to_contiguous();
        let Forward { network, hidden } = &*ops.state;
        let found = network.backward(hidden, cotangent.as_slice::<f32>().expect("float32 gradients"));
        for ((node, values), layer) in ops.parents.into_iter().zip(found).zip(&network.layers) {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, tensor(values, layer.layout().shape()));
            }
        }
    }
}

/// Tokens and weights on the host.
struct Network {
    tokens: FlexTensor,
    /// Weight and bias of the inner layer, then of the outer.
    layers: [FlexTensor; 4],
    images: usize,
    count: usize,
    width: usize,
}

impl Network {
    fn new(tokens: &FlexTensor, layers: [FlexTensor; 4]) -> Self {
        let shape: &[usize] = tokens.layout().shape();
        let &[images, count, width] = shape else { unreachable!("tokens have three axes") };
        let layers = layers.map(|layer| layer.to_contiguous());
        Self { tokens: tokens.to_contiguous(), layers, images, count, width }
    }

    fn layer(&self, at: usize) -> &[f32] {
        self.layers[at].as_slice::<f32>().expect("float32 weights")
    }

    fn image(&self, image: usize) -> &[f32] {
        let size = self.count * self.width;
        &self.tokens.as_slice::<f32>().expect("float32 tokens")[image * size..(image + 1) * size]
    }

    /// `x W^T + b` into `into`.
    fn apply(&self, at: usize, x: &[f32], inputs: usize, into: &mut [f32]) {
        let bias = self.layer(at + 1);
        into.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
        Matrix::new(x, inputs).times(Matrix::new(self.layer(at), inputs).transposed(), into);
    }

    /// The mean for every image, `[B, d]`; with `keep`, the hidden values.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<Vec<f32>>) {
        let (width, hidden_width) = (self.width, self.layer(1).len());
        let one = |image: usize| {
            let mut mean = vec![0.0; width];
            let mut all = Vec::new();
            let mut seen = vec![0.0; TOKENS.min(self.count) * width];
            for tokens in self.image(image).chunks(TOKENS * width) {
                let mut hidden = vec![0.0; tokens.len() / width * hidden_width];
                self.apply(0, tokens, width, &mut hidden);
                hidden.iter_mut().for_each(|x| *x = x.max(0.0));
                let seen = &mut seen[..tokens.len()];
                self.apply(2, &hidden, hidden_width, seen);
                for row in seen.chunks_exact_mut(width) {
                    normalise(row);
                    add(row, &mut mean);
                }
                if keep {
                    all.extend(hidden);
                }
            }
            mean.iter_mut().for_each(|x| *x /= self.count as f32);
            (mean, all)
        };
        let (means, hidden): (Vec<_>, Vec<_>) = (0..self.images).into_par_iter().map(one).unzip();
        (tensor(means.concat(), &[self.images, width]), hidden)
    }

    /// The gradients of the layers, given that of the mean, `[B, d]`.
    fn backward(&self, hidden: &[Vec<f32>], cotangent: &[f32]) -> [Vec<f32>; 4] {
        let images: Vec<usize> = (0..self.images).collect();
        let part = self.images.div_ceil(PARTS).max(1);
        let parts: Vec<[Vec<f32>; 4]> = images
            .par_chunks(part)
            .map(|images| {
                let mut sums = [0, 1, 2, 3].map(|at| vec![0.0; self.layer(at).len()]);
                for &image in images {
                    let by_mean = &cotangent[image * self.width..(image + 1) * self.width];
                    self.back_through(image, &hidden[image], by_mean, &mut sums);
                }
                sums
            })
            .collect();
        let mut total = [0, 1, 2, 3].map(|at| vec![0.0; self.layer(at).len()]);
        for part in &parts {
            total.iter_mut().zip(part).for_each(|(total, part)| add(part, total));
        }
        total
    }

    /// Adds what one image contributes to the gradients of the layers.
    fn back_through(&self, image: usize, hidden: &[f32], by_mean: &[f32], sums: &mut [Vec<f32>; 4]) {
        let (width, hidden_width) = (self.width, self.layer(1).len());
        let by_each: Vec<f32> = by_mean.iter().map(|x| x / self.count as f32).collect();
        let [by_inner, by_inner_bias, by_outer, by_outer_bias] = sums;
        let mut seen = vec![0.0; TOKENS.min(self.count) * width];
        let blocks = self.image(image).chunks(TOKENS * width).zip(hidden.chunks(TOKENS * hidden_width));
        for (tokens, hidden) in blocks {
            let seen = &mut seen[..tokens.len()];
            self.apply(2, hidden, hidden_width, seen);
            for row in seen.chunks_exact_mut(width) {
                let scale = normalise(row);
                pull_normalised(scale, &by_each, row); // now the gradient of the second layer
                add(row, by_outer_bias);
            }
            let by_seen = Matrix::new(seen, width);
            by_seen.transposed().times(Matrix::new(hidden, hidden_width), by_outer);
            let mut by_hidden = vec![0.0; hidden.len()];
            by_seen.times(Matrix::new(self.layer(2), hidden_width), &mut by_hidden);
            let dead = by_hidden.iter_mut().zip(hidden).filter(|(_, hidden)| **hidden <= 0.0);
            dead.for_each(|(by, _)| *by = 0.0);
            by_hidden.chunks_exact(hidden_width).for_each(|row| add(row, by_inner_bias));
            Matrix::new(&by_hidden, hidden_width).transposed().times(Matrix::new(tokens, width), by_inner);
        }
    }
}

/// Lanes that sums are kept in until the end.
const LANES: usize = 16;

vectorised! {
    /// `a . b`.
    fn dot<const FUSED: bool>(a: &[f32], b: &[f32]) -> f32 {
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (a, b) in a.iter().zip(b) {
            (0..LANES).for_each(|lane| sums[lane] += a[lane] * b[lane]);
        }
        sums.into_iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    }
}

vectorised! {
    /// The sum.
    fn sum<const FUSED: bool>(values: &[f32]) -> f32 {
        let (blocks, rest) = values.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for block in blocks {
            (0..LANES).for_each(|lane| sums[lane] += block[lane]);
        }
        sums.into_iter().sum::<f32>() + rest.iter().sum::<f32>()
    }
}

/// `(x - mean) / sqrt(variance + 1e-5)` in place; returns what the centred values were multiplied with.
fn normalise(row: &mut [f32]) -> f32 {
    let count = row.len() as f32;
    let mean = sum(row) / count;
    row.iter_mut().for_each(|x| *x -= mean);
    let scale = 1.0 / (dot(row, row) / count + 1e-5).sqrt();
    row.iter_mut().for_each(|x| *x *= scale);
    scale
}

/// From the normalised values in `row` to the gradient of those before, given that of the normalised.
fn pull_normalised(scale: f32, by: &[f32], row: &mut [f32]) {
    let count = row.len() as f32;
    let (mean, along) = (sum(by) / count, dot(by, row) / count);
    row.iter_mut().zip(by).for_each(|(x, by)| *x = scale * (by - mean - *x * along));
}
