//! `P q` for a batch as one operation on the CPU, with its own gradient: no N x N tensor is ever made.
//!
//! Each image is a [`Transport`] in float64, images side by side on all cores; the way back re-reads
//! its 2 x iterations x N potentials. The plain tensors are the tested reference.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Tensor, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::transport::Transport;

/// `P q` for a batch, as [`super::Router::token_weights`]. The tensors must be on the CPU.
pub(super) fn token_weights(
    scores: Tensor<2>,
    gain: Tensor<1>,
    temperature: f64,
    iterations: usize,
) -> Tensor<2> {
    let (scores, gain) = (scores.into_dispatch(), gain.into_dispatch());
    Tensor::from_dispatch(<Dispatch as TokenWeights>::token_weights(scores, gain, temperature, iterations))
}

#[backend_extension(Autodiff, Flex)]
trait TokenWeights: Backend {
    fn token_weights(
        scores: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        temperature: f64,
        iterations: usize,
    ) -> FloatTensor<Self>;
}

impl TokenWeights for Flex {
    fn token_weights(
        scores: FlexTensor,
        gain: FlexTensor,
        temperature: f64,
        iterations: usize,
    ) -> FlexTensor {
        let (batch, gain) = (Values::of(scores), Values::of(gain));
        let weigh = |scores: &[f64]| Transport::run(scores, temperature, iterations).weights(&gain.data);
        batch.with(batch.rows().flat_map_iter(weigh).collect())
    }
}

impl<C: CheckpointStrategy> TokenWeights for Autodiff<Flex, C> {
    fn token_weights(
        scores: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        temperature: f64,
        iterations: usize,
    ) -> FloatTensor<Self> {
        match WayBack.prepare::<C>([scores.node(), gain.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let gain = Values::of(gain.primitive().clone());
                let batch = Values::of(scores.primitive().clone());
                let images: Vec<Image> = batch
                    .rows()
                    .map(|scores| {
                        let transport = Transport::run(scores, temperature, iterations);
                        Image { weights: transport.weights(&gain.data), transport }
                    })
                    .collect();
                let weights = batch.with(images.iter().flat_map(|image| &image.weights).copied().collect());
                prep.finish(Arc::new(Forward { images, gain }), weights)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::token_weights(
                scores.into_primitive(),
                gain.into_primitive(),
                temperature,
                iterations,
            )),
        }
    }
}

/// The gradient of the operation.
#[derive(Debug)]
struct WayBack;

impl Backward<Flex, 2> for WayBack {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = Values::of(grads.consume::<Flex>(&ops.node));
        let Forward { images, gain } = &*ops.state;
        let back = |(image, cotangent): (&Image, &[f64])| {
            image.transport.backward(&gain.data, &image.weights, cotangent)
        };
        let (by_scores, by_gain): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
            images.par_iter().zip(cotangent.rows()).map(back).unzip();
        let [scores_node, gain_node] = ops.parents;
        if let Some(node) = scores_node {
            grads.register::<Flex>(node.id, cotangent.with(by_scores.concat()));
        }
        if let Some(node) = gain_node {
            let mut total = vec![0.0; gain.data.len()];
            by_gain.iter().for_each(|one| total.iter_mut().zip(one).for_each(|(sum, x)| *sum += x));
            grads.register::<Flex>(node.id, gain.with(total));
        }
    }
}

/// What the way back needs.
struct Forward {
    images: Vec<Image>,
    gain: Values,
}

/// One image's iterations and result.
struct Image {
    transport: Transport,
    weights: Vec<f64>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} images)", self.images.len())
    }
}

/// A tensor's values in float64, and what it takes to make another like it.
struct Values {
    data: Vec<f64>,
    shape: Vec<usize>,
    dtype: burn::tensor::DType,
}

impl Values {
    fn of(tensor: FlexTensor) -> Self {
        let data = tensor.into_data();
        Self { data: data.iter::<f64>().collect(), shape: data.shape().to_vec(), dtype: data.dtype() }
    }

    /// The last axis, vector by vector.
    fn rows(&self) -> rayon::slice::Chunks<'_, f64> {
        self.data.par_chunks(self.shape.last().copied().unwrap_or(1).max(1))
    }

    /// A tensor of this shape and precision.
    fn with(&self, data: Vec<f64>) -> FlexTensor {
        FlexTensor::from_data(TensorData::new::<f64, _>(data, self.shape.clone()).convert_dtype(self.dtype))
    }
}
