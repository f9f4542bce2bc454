//! Sinkhorn for a batch as one operation on the CPU, with its own gradient: no N x N tensor of an
//! iteration is ever made, and for `P q` none at all.
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
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::Sinkhorn;
use super::transport::Transport;

/// `P q` for a batch, as [`super::Router::token_weights`]. The tensors must be on the CPU.
pub(super) fn token_weights(scores: Tensor<2>, gain: Tensor<1>, task: Task) -> Tensor<2> {
    let (scores, gain) = (scores.into_dispatch(), gain.into_dispatch());
    Tensor::from_dispatch(<Dispatch as Routing>::token_weights(scores, gain, task))
}

/// P for a batch, as [`super::Router::plans`]. The tensor must be on the CPU.
pub(super) fn plans(scores: Tensor<2>, task: Task) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as Routing>::plans(scores.into_dispatch(), task))
}

/// What to do with a batch.
pub(super) struct Task {
    /// Temperature and iterations.
    pub sinkhorn: Sinkhorn,
    /// What is added to L, `[B, N, N]`; empty for nothing.
    pub noise: Vec<f32>,
}

impl Task {
    /// The iterations of every image, each read by `read`.
    fn run<T: Send>(&self, batch: &Values, read: impl Fn(Transport) -> T + Sync) -> Vec<T> {
        let Sinkhorn { temperature, iterations } = self.sinkhorn;
        let table = batch.width() * batch.width();
        let noise = |image: usize| self.noise.get(image * table..(image + 1) * table).unwrap_or(&[]);
        let run =
            |(image, scores)| read(Transport::run(scores, temperature, iterations.max(1), noise(image)));
        batch.rows().enumerate().map(run).collect()
    }
}

#[backend_extension(Autodiff, Flex)]
trait Routing: Backend {
    fn token_weights(scores: FloatTensor<Self>, gain: FloatTensor<Self>, task: Task) -> FloatTensor<Self>;
    fn plans(scores: FloatTensor<Self>, task: Task) -> FloatTensor<Self>;
}

impl Routing for Flex {
    fn token_weights(scores: FlexTensor, gain: FlexTensor, task: Task) -> FlexTensor {
        let (batch, gain) = (Values::of(scores), Values::of(gain));
        batch.with(task.run(&batch, |transport| transport.weights(&gain.data)).concat())
    }

    fn plans(scores: FlexTensor, task: Task) -> FlexTensor {
        let batch = Values::of(scores);
        batch.with_tables(task.run(&batch, |transport| transport.plan()))
    }
}

impl<C: CheckpointStrategy> Routing for Autodiff<Flex, C> {
    fn token_weights(scores: FloatTensor<Self>, gain: FloatTensor<Self>, task: Task) -> FloatTensor<Self> {
        match BackFromWeights.prepare::<C>([scores.node(), gain.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let gain = Values::of(gain.into_primitive());
                let batch = Values::of(scores.into_primitive());
                let weigh = |transport: Transport| (transport.weights(&gain.data), transport);
                let (weights, images): (Vec<_>, Vec<_>) = task.run(&batch, weigh).into_iter().unzip();
                let result = batch.with(weights.concat());
                prep.finish(Arc::new(Forward { batch, images, gain, weights }), result)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(Flex::token_weights(scores.into_primitive(), gain.into_primitive(), task))
            }
        }
    }

    fn plans(scores: FloatTensor<Self>, task: Task) -> FloatTensor<Self> {
        match BackFromPlans.prepare::<C>([scores.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let batch = Values::of(scores.into_primitive());
                let write = |transport: Transport| (transport.plan(), transport);
                let (plans, images): (Vec<_>, Vec<_>) = task.run(&batch, write).into_iter().unzip();
                let result = batch.with_tables(plans);
                prep.finish(
                    Arc::new(Forward { batch, images, gain: Values::none(), weights: vec![] }),
                    result,
                )
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::plans(scores.into_primitive(), task)),
        }
    }
}

/// What the way back needs.
struct Forward {
    batch: Values,
    images: Vec<Transport>,
    gain: Values,
    weights: Vec<Vec<f64>>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} images)", self.images.len())
    }
}

/// The gradient of `P q`.
#[derive(Debug)]
struct BackFromWeights;

impl Backward<Flex, 2> for BackFromWeights {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = Values::of(grads.consume::<Flex>(&ops.node));
        let Forward { batch, images, gain, weights } = &*ops.state;
        let one = |((image, weights), cotangent): ((&Transport, &Vec<f64>), &[f64])| {
            image.backward_of_weights(&gain.data, weights, cotangent)
        };
        let (by_scores, by_gain): (Vec<_>, Vec<_>) =
            images.par_iter().zip(weights).zip(cotangent.rows()).map(one).unzip();
        let [scores_node, gain_node] = ops.parents;
        if let Some(node) = scores_node {
            grads.register::<Flex>(node.id, batch.with(by_scores.concat()));
        }
        if let Some(node) = gain_node {
            let mut total = vec![0.0; gain.data.len()];
            by_gain.iter().for_each(|one| total.iter_mut().zip(one).for_each(|(sum, x)| *sum += x));
            grads.register::<Flex>(node.id, gain.with(total));
        }
    }
}

/// The gradient of P.
#[derive(Debug)]
struct BackFromPlans;

impl Backward<Flex, 1> for BackFromPlans {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = Values::of(grads.consume::<Flex>(&ops.node));
        let Forward { batch, images, .. } = &*ops.state;
        let tables = cotangent.data.par_chunks((batch.width() * batch.width()).max(1));
        let one = |(image, cotangent): (&Transport, &[f64])| image.backward_of_plan(cotangent);
        let by_scores: Vec<_> = images.par_iter().zip(tables).map(one).collect();
        if let [Some(node)] = ops.parents {
            grads.register::<Flex>(node.id, batch.with(by_scores.concat()));
        }
    }
}

/// A tensor's values in float64, and what it takes to make another like it.
struct Values {
    data: Vec<f64>,
    shape: Vec<usize>,
    dtype: DType,
}

impl Values {
    fn of(tensor: FlexTensor) -> Self {
        let data = tensor.into_data();
        Self { data: data.iter::<f64>().collect(), shape: data.shape().to_vec(), dtype: data.dtype() }
    }

    fn none() -> Self {
        Self { data: vec![], shape: vec![0], dtype: DType::F32 }
    }

    /// Length of the last axis.
    fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The last axis, vector by vector.
    fn rows(&self) -> rayon::slice::Chunks<'_, f64> {
        self.data.par_chunks(self.width().max(1))
    }

    /// A tensor of this shape and precision.
    fn with(&self, data: Vec<f64>) -> FlexTensor {
        tensor(data, self.shape.clone(), self.dtype)
    }

    /// A tensor of this precision with a square table for every row.
    fn with_tables(&self, tables: Vec<Vec<f64>>) -> FlexTensor {
        tensor(tables.concat(), vec![tables.len(), self.width(), self.width()], self.dtype)
    }
}

fn tensor(data: Vec<f64>, shape: Vec<usize>, dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(data, shape).convert_dtype(dtype))
}
