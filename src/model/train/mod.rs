//! The paper's protocol: many heads train on one pass of frozen tokens, each with its own AdamW, so that no
//! head's gradient reaches another (paper, Algorithm 1).
//!
//! A head's initial values, batches and updates depend on (seed, head) alone, so training it alone or
//! with others gives the same bits. [`HeadTrainer`] and [`TrainCursor`] hold the whole state of a run; a
//! caller that saves both can be killed at any moment.

mod batches;
pub mod classifier;
mod cross_entropy;
mod evaluate;
#[cfg(test)]
mod gpus_alone;
pub mod losses;
pub mod optim;
mod pending_step;
pub mod protocol;
mod recorded;
mod redraw;
pub mod run;
mod saved;
mod solo_steps;
mod step;

use std::ops::ControlFlow;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::model::backbone::preprocess::augment::Augmentation;
use crate::model::data::token_cache::{TokenSource, TokenSourceError};
use crate::model::io::array::Arrays;
use crate::model::probe::params::Params;
use crate::model::train::classifier::Model;
use crate::model::train::optim::Optimizer;
use crate::model::train::protocol::Protocol;
pub use batches::Labels;
use batches::{LayerBatch, epoch_order, give_back, layer_batches};
pub use evaluate::{accuracy, logits};
use evaluate::{close_epoch, evaluate_within_epoch};
use losses::Losses;
use recorded::RecordedStep;
pub use saved::Saved;
use solo_steps::SoloSteps;
pub use step::step_all;
use step::step_all_overlapping;

/// How all heads are trained (paper, "Optimization").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images per step.
    pub batch: usize,
    /// Peak learning rate, at the start of the cosine.
    pub rate: f64,
    /// Optimiser and schedule.
    #[serde(default, skip_serializing_if = "Protocol::is_paper")]
    pub protocol: Protocol,
    /// Steps between evaluations within an epoch; `None` to evaluate only after each epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<usize>,
    /// Augmentation of training images.
    #[serde(default, skip_serializing_if = "Augmentation::is_none")]
    pub augment: Augmentation,
}

impl Default for TrainConfig {
    fn default() -> Self {
        let (protocol, augment) = (Protocol::Paper, Augmentation::None);
        Self { epochs: 100, batch: 256, rate: 1e-3, protocol, evaluate_every: None, augment }
    }
}

impl TrainConfig {
    /// A sentence for the user on what the protocol does and this run does not; `None` if nothing.
    pub fn left_out(&self) -> Option<String> {
        let lacks_crops = !self.protocol.is_paper() && self.augment != Augmentation::Crop;
        lacks_crops.then(|| {
            format!(
                "{} trains on a random crop of every image in every epoch and flips half of them, which this \
                 run does not; use --augment crop for it",
                self.protocol.name()
            )
        })
    }
}

/// Some images of a dataset and their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Indices into the dataset, and so into the token source.
    pub images: Vec<usize>,
    /// The class of each.
    pub classes: Vec<usize>,
}

/// A training task: tokens, splits and settings.
pub struct Task<'a> {
    /// Tokens of all images, of one layer or of several.
    pub tokens: &'a dyn TokenSource,
    /// The training split.
    pub train: &'a Labelled,
    /// The selection split, which picks the best epoch.
    pub select: &'a Labelled,
    /// The test split, whose accuracy is reported; often the same as `select`.
    pub test: &'a Labelled,
    /// Optimiser, schedule and batch size.
    pub config: &'a TrainConfig,
    /// Where the heads are trained.
    pub device: &'a Device,
    /// Seed of the batch order and the initial values.
    pub seed: u64,
    /// Whether the patch tokens of an image are permuted anew at every pass.
    pub redrawn: bool,
}

/// Metrics of one head after an epoch, or within one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Number of the epoch, from 1.
    pub epoch: usize,
    /// Training steps done since the start of training, if the epoch is not at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Mean training loss over the epoch so far.
    pub loss: f64,
    /// Training accuracy over the epoch so far, in percent.
    pub train: f64,
    /// Accuracy on the selection split, in percent.
    pub select: f64,
    /// Accuracy on the test split, in percent.
    pub test: f64,
}

/// One head under training.
pub struct HeadTrainer {
    /// Its name in the run: its head id, or a variant's name.
    pub name: String,
    /// Its head and classifier, with parameters.
    pub model: Model,
    /// Index, among the task's layers, of the one whose tokens it reads, from 0.
    pub layer: usize,
    /// Its peak learning rate; `None` for the task's.
    pub rate: Option<f64>,
    /// Its optimiser.
    pub optimizer: Optimizer,
    /// Its history and current sums.
    pub progress: HeadProgress,
    /// The parameters before the last step, whose loss was finite.
    last_finite: Option<Params>,
    /// Times of its first steps on a GPU.
    solo: SoloSteps,
    /// Its step as recorded on a GPU.
    recorded: Option<Box<RecordedStep>>,
}

/// What a head's training has yielded so far; a checkpoint keeps all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadProgress {
    /// Its finished epochs.
    pub history: Vec<Epoch>,
    /// Evaluations within epochs, which do not pick the best epoch.
    pub between: Vec<Epoch>,
    /// Its state after the best epoch on the selection split.
    pub best: Option<Snapshot>,
    /// Predicted class of every test image after the last epoch.
    pub predictions: Vec<u32>,
    /// Why it stopped early, if it did; its parameters are then the last that gave a finite loss.
    pub failure: Option<String>,
    /// Sums over the current epoch.
    pub running: Running,
    /// Its training losses within epochs, thinned.
    pub losses: Losses,
    /// Time of its own steps, in seconds, without reading tokens and evaluation; where heads share a step, its share.
    pub seconds: f64,
}

/// A head after one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its index in the history, from 0.
    pub epoch: usize,
    /// Effective values of the parameters, classifier included.
    pub arrays: Arrays,
    /// Predicted class of every test image.
    pub predictions: Vec<u32>,
}

/// Sums over the training images of the current epoch: losses, correct predictions, images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Running {
    loss: f64,
    right: usize,
    images: usize,
}

impl Running {
    /// Mean training loss so far; absent before the first step.
    pub fn loss(&self) -> Option<f64> {
        (self.images > 0).then(|| self.loss / self.images as f64)
    }

    /// Training accuracy so far, in percent; absent before the first step.
    pub fn accuracy(&self) -> Option<f64> {
        (self.images > 0).then(|| 100.0 * self.right as f64 / self.images as f64)
    }

    /// Mean training loss of the steps of this epoch since these sums were `before`; absent if there were none.
    pub fn loss_since(&self, before: &Self) -> Option<f64> {
        let images = self.images.saturating_sub(before.images); // a damaged checkpoint may claim more
        (images > 0).then(|| (self.loss - before.loss) / images as f64)
    }
}

impl HeadTrainer {
    /// A head before its first step, with the paper's optimiser.
    pub fn new(name: impl Into<String>, model: Model) -> Self {
        let (optimizer, progress) = (Protocol::Paper.optimizer(), HeadProgress::default());
        Self {
            name: name.into(),
            model,
            layer: 0,
            rate: None,
            optimizer,
            progress,
            last_finite: None,
            solo: SoloSteps::default(),
            recorded: None,
        }
    }

    /// Ends its training because of `what`, and restores the parameters before the last step.
    fn fail(&mut self, what: &str) {
        let epoch = self.progress.history.len() + 1;
        self.progress.failure = Some(format!("{what} in epoch {epoch}"));
        if let Some(last_finite) = self.last_finite.take() {
            self.model = self.model.clone().with_params(last_finite);
        }
        self.recorded = None; // frees the memory that it computes in
    }
}

/// The position of a run: the next step is `step` of epoch `epoch`, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainCursor {
    /// Epochs done.
    pub epoch: usize,
    /// Steps done of the current epoch.
    pub step: usize,
}

/// A report of [`train`]'s progress.
pub enum Event<'a> {
    /// A step of all heads is done.
    Step {
        /// Where the run stands.
        position: TrainCursor,
        /// Steps per epoch.
        steps: usize,
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
    /// A batch of an evaluation is done. Breaking abandons the evaluation, which a resumed run repeats.
    Evaluation,
    /// All heads were evaluated within an epoch.
    Between {
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
    /// An epoch of all heads is done and evaluated: a good time to save.
    Epoch {
        /// Where the run stands.
        position: TrainCursor,
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
}

/// Trains `trainers` from `position` on, until done or `on_event` breaks; returns the position reached.
///
/// # Errors
/// If the tokens of a batch cannot be read; `trainers` are then as the last reported step left them.
pub fn train(
    task: &Task,
    trainers: &mut [HeadTrainer],
    mut position: TrainCursor,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<TrainCursor, TokenSourceError> {
    let TrainConfig { epochs, batch, rate, protocol, evaluate_every, .. } = *task.config;
    let steps = task.train.images.len().div_ceil(batch);
    let parts = losses::parts(epochs, steps);
    while position.epoch < epochs {
        let order = epoch_order(task.train.images.len(), task.seed, position.epoch);
        let (mut batches, mut next) = (layer_batches(task, &order, position), None);
        for (step, chunk) in order.chunks(batch).enumerate().skip(position.step) {
            let done = position.epoch * steps + step;
            // Before this step, not after the last: a run stopped between the two is evaluated when resumed.
            let is_due = step > 0 && evaluate_every.is_some_and(|every| done.is_multiple_of(every));
            if is_due && evaluate_within_epoch(task, trainers, done, on_event)?.is_break() {
                return Ok(position);
            }
            let classes: Vec<usize> = chunk.iter().map(|&i| task.train.classes[i]).collect();
            let labels = Labels::new(&classes, task.device);
            loop {
                let layer_batch = next.take().or_else(|| batches.next());
                let LayerBatch { layer, is_last, batch } = layer_batch.expect("a batch for every step")?;
                let own = trainers.iter_mut().filter(|trainer| trainer.layer == layer);
                let rate =
                    |trainer: &HeadTrainer| protocol.rate(trainer.rate.unwrap_or(rate), done, steps, epochs);
                step_all_overlapping(own, &batch, &labels, rate, || next = batches.next());
                give_back(task, batch);
                if is_last {
                    break;
                }
            }
            position.step = step + 1;
            for trainer in trainers.iter_mut().filter(|trainer| trainer.progress.failure.is_none()) {
                let HeadProgress { losses, running, .. } = &mut trainer.progress;
                losses.take(*running, [position.epoch, step + 1], steps, parts);
            }
            if on_event(Event::Step { position, steps, trainers }).is_break() {
                return Ok(position);
            }
        }
        if close_epoch(task, trainers, (position.epoch + 1) * steps, on_event)?.is_break() {
            return Ok(position);
        }
        position = TrainCursor { epoch: position.epoch + 1, step: 0 };
        if on_event(Event::Epoch { position, trainers }).is_break() {
            return Ok(position);
        }
    }
    Ok(position)
}
