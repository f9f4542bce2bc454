//! Sinkhorn on the CPU: each image is a [`Transport`] in float64, images in parallel on all cores; the
//! backward pass reads the potentials, about 2 x iterations x N per image, that the forward pass saved.

use burn::backend::Flex;
use burn::tensor::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::noise::table;
use super::operation::{PlansOp, Task, TokenWeightsOp};
use super::transport::{Numerics, Transport};
use crate::model::ops::cpu::{from_f64, to_f64};
use crate::model::ops::custom_op::CustomOp;
use crate::model::probe::router::Routed;

impl CustomOp<Flex, 2> for TokenWeightsOp {
    /// The scores, the iterations of every image, the gain, and the weights of every image.
    type Saved = (Values, Vec<Transport>, Values, Vec<Vec<f64>>);

    fn forward(self, [scores, gain]: [FlexTensor; 2], keep: bool) -> (FlexTensor, Self::Saved) {
        let (batch, gain) = (Values::from_tensor(scores), Values::from_tensor(gain));
        let weigh = |transport: Transport| (transport.weights(&gain.data), keep.then_some(transport));
        let (weights, images): (Vec<_>, Vec<_>) = self.0.run(&batch, weigh).into_iter().unzip();
        let output = batch.with(weights.concat());
        (output, (batch, images.into_iter().flatten().collect(), gain, weights))
    }

    fn vjp(saved: &Self::Saved, grad_weights: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let grad_weights = Values::from_tensor(grad_weights);
        let (batch, images, gain, weights) = saved;
        let vjp = |((image, weights), grad_weights): ((&Transport, &Vec<f64>), &[f64])| {
            image.vjp(&gain.data, weights, grad_weights)
        };
        let (grad_scores, grad_gain): (Vec<_>, Vec<_>) =
            images.par_iter().zip(weights).zip(grad_weights.rows()).map(vjp).unzip();
        let mut total = vec![0.0; gain.data.len()];
        grad_gain.iter().for_each(|grad| total.iter_mut().zip(grad).for_each(|(sum, x)| *sum += x));
        [batch.with(grad_scores.concat()), gain.with(total)].map(Some)
    }
}

impl CustomOp<Flex, 1> for PlansOp {
    type Saved = (Values, Vec<Transport>);

    fn forward(self, [scores]: [FlexTensor; 1], keep: bool) -> (FlexTensor, Self::Saved) {
        let batch = Values::from_tensor(scores);
        let write = |transport: Transport| (transport.plan(), keep.then_some(transport));
        let (plans, images): (Vec<_>, Vec<_>) = self.0.run(&batch, write).into_iter().unzip();
        let tables = [plans.len(), batch.width(), batch.width()];
        (from_f64(plans.concat(), &tables, batch.dtype), (batch, images.into_iter().flatten().collect()))
    }

    fn vjp((batch, images): &Self::Saved, grad_plans: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let grad_plans = Values::from_tensor(grad_plans);
        let tables = grad_plans.data.par_chunks((batch.width() * batch.width()).max(1));
        let vjp = |(image, grad_plan): (&Transport, &[f64])| image.plan_vjp(grad_plan);
        let grad_scores: Vec<_> = images.par_iter().zip(tables).map(vjp).collect();
        [Some(batch.with(grad_scores.concat()))]
    }
}

impl Task {
    /// Runs the iterations of every image in parallel; returns what `read` makes of each.
    fn run<T: Send>(&self, batch: &Values, read: impl Fn(Transport) -> T + Sync) -> Vec<T> {
        let run = |(image, scores): (usize, &[f64])| {
            let noise = self.noise.as_ref().map(|noise| table(noise.image_seeds[image], scores.len()));
            read(self.sinkhorn.transport(scores, noise.unwrap_or_default(), Numerics::Double))
        };
        batch.rows().enumerate().map(run).collect()
    }
}

/// A tensor's values in float64, with its shape and original precision.
pub(super) struct Values {
    data: Vec<f64>,
    shape: Vec<usize>,
    dtype: DType,
}

impl Values {
    fn from_tensor(tensor: FlexTensor) -> Self {
        let (shape, dtype) = (tensor.layout().shape().to_vec(), tensor.dtype());
        Self { data: to_f64(tensor), shape, dtype }
    }

    /// Length of the last axis.
    fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Its vectors along the last axis.
    fn rows(&self) -> rayon::slice::Chunks<'_, f64> {
        self.data.par_chunks(self.width().max(1))
    }

    /// A tensor of this shape and precision that holds `data`.
    fn with(&self, data: Vec<f64>) -> FlexTensor {
        from_f64(data, &self.shape, self.dtype)
    }
}
