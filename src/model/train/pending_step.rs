//! The step of a head that a GPU still computes.

use burn::tensor::{DType, Tensor, TensorData};
use burn_cubecl::cubecl::client::Client;

use super::HeadTrainer;
use super::batches::Labels;
use super::step::{Step, on_host};
use crate::model::ops::gpu::copy_to_host;
use crate::model::probe::head::Batch;
use crate::model::probe::params::Params;
use crate::model::train::classifier::Model;
use crate::model::train::optim::Optimizer;

/// A head's step whose launches, update included, a GPU has received.
pub(super) struct PendingStep<'a> {
    trainer: &'a mut HeadTrainer,
    /// Its loss and the number of correct images, `[2]`, on the device.
    pub(super) loss_and_right: Tensor<1>,
    /// The state before its update.
    before: (Model, Optimizer, Option<Params>),
}

impl<'a> PendingStep<'a> {
    /// Launches the step without waiting.
    pub(super) fn new(trainer: &'a mut HeadTrainer, batch: &Batch, labels: &Labels, rate: f64) -> Self {
        let mut recorded = trainer.recorded.take();
        let mut fitting = recorded.as_mut().filter(|recorded| recorded.load_batch(batch, labels).is_some());
        if let Some(recorded) = &mut fitting {
            recorded.adopt(trainer);
        }
        let HeadTrainer { model, optimizer, last_finite, .. } = &*trainer;
        let before = (model.clone(), optimizer.clone(), last_finite.clone());
        let loss_and_right = match fitting {
            Some(recorded) => recorded.replay(trainer, rate),
            None => {
                let mut step = Step::new(trainer);
                let (loss_and_right, backward) = step.forward_and_backward(batch, labels, None);
                step.update(backward, None, rate);
                loss_and_right
            }
        };
        trainer.recorded = recorded;
        Self { trainer, loss_and_right, before }
    }

    /// Adds its loss and the number of correct images to the sums, and restores the state before the step if the loss is not finite.
    pub(super) fn finish(self, outcome: (f64, usize), labels: &Labels) -> &'a mut HeadTrainer {
        let Self { trainer, before, .. } = self;
        if !outcome.0.is_finite() {
            (trainer.model, trainer.optimizer, trainer.last_finite) = before;
        }
        trainer.count(outcome, labels);
        trainer
    }
}

/// Enqueues the copy of every step's loss and number of correct images to the host, behind these steps alone: a later copy would
/// also wait for the next batch's upload. The result waits for the copies.
pub(super) fn read_outcomes<'a>(
    gpu: &'a Client,
    pending: &[PendingStep],
) -> impl FnOnce() -> Vec<(f64, usize)> + use<'a> {
    let copies: Vec<_> = pending.iter().map(|step| copy_to_host(step.loss_and_right.clone())).collect();
    let read = (!copies.is_empty()).then(|| gpu.read_tensor_async(copies));
    || {
        let read = read.map(|read| pollster::block_on(read).unwrap_or_else(|error| panic!("{error:?}")));
        let pair = |bytes| TensorData::from_bytes(bytes, [2], DType::F32);
        read.into_iter().flatten().map(|bytes| on_host(pair(bytes))).collect()
    }
}
