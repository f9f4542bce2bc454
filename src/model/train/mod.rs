//! The paper's protocol: many heads on one pass of frozen tokens, each with its own AdamW, so that no
//! head's gradient touches another (paper, Algorithm 1).
//!
//! A head's start, its batches and its updates depend on (seed, head) alone, so training it alone or
//! beside others gives the same bits. Everything a run needs to go on lives in [`HeadTrainer`] and
//! [`TrainCursor`]; a caller that saves both can be killed at any moment.

mod alone;
mod batches;
pub mod classifier;
mod cross_entropy;
mod evaluate;
#[cfg(test)]
mod gpus_alone;
pub mod losses;
pub mod optim;
pub mod protocol;
mod recorded;
mod redraw;
pub mod run;
mod saved;
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
use alone::Alone;
pub use batches::Labels;
use batches::{Turn, epoch_order, turns};
pub use evaluate::accuracy;
use evaluate::{between, close_epoch};
use losses::Losses;
use recorded::RecordedStep;
pub use saved::Saved;
pub use step::step_all;
use step::step_all_and;

/// How all heads are trained (paper, "Optimization").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// Passes over the training images.
    pub epochs: usize,
    /// Images a step.
    pub batch: usize,
    /// Learning rate at the start of the cosine.
    pub rate: f64,
    /// Optimiser and schedule.
    #[serde(default, skip_serializing_if = "Protocol::is_paper")]
    pub protocol: Protocol,
    /// Steps between two evaluations within an epoch; none where heads are evaluated after epochs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<usize>,
    /// How an image is changed every time it is trained on.
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
    /// What of its protocol is not done, in words.
    pub fn left_out(&self) -> Option<String> {
        let misses = !self.protocol.is_paper() && self.augment != Augmentation::Crop;
        misses.then(|| {
            format!(
                "{} reads a random crop of every training image in every epoch and mirrors half of them, which is not done \
                 here; --augment crop does it",
                self.protocol.name()
            )
        })
    }
}

/// Some images of a dataset and their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Indices into the dataset, and so into what supplies the tokens.
    pub images: Vec<usize>,
    /// The class of each.
    pub classes: Vec<usize>,
}

/// What is trained on what.
pub struct Task<'a> {
    /// Tokens of all images, of one layer or of several.
    pub tokens: &'a dyn TokenSource,
    /// What is trained on.
    pub train: &'a Labelled,
    /// What picks the best epoch.
    pub select: &'a Labelled,
    /// What the reported accuracy is taken on; often the same.
    pub test: &'a Labelled,
    /// How.
    pub config: &'a TrainConfig,
    /// Where.
    pub device: &'a Device,
    /// Seed of order and start.
    pub seed: u64,
    /// Whether the patch tokens of an image lie in another random order at every pass.
    pub redrawn: bool,
}

/// One epoch of one head, or as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Epochs done, from 1; the one under way counts.
    pub epoch: usize,
    /// Steps of the training done, where the epoch is not at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Mean training loss over the epoch.
    pub loss: f64,
    /// Training accuracy over the epoch, in percent.
    pub train: f64,
    /// Accuracy on the selection split, in percent.
    pub select: f64,
    /// Accuracy on the test split, in percent.
    pub test: f64,
}

/// One head under training.
pub struct HeadTrainer {
    /// What it is called in the run: its head id, or a variant's name.
    pub name: String,
    /// Its head, with parameters.
    pub model: Model,
    /// Which of the layers it reads that the task's tokens are of, from 0.
    pub layer: usize,
    /// Its learning rate at the start; that of the task where it has none of its own.
    pub rate: Option<f64>,
    /// Its optimiser.
    pub optimizer: Optimizer,
    /// How far it has come.
    pub progress: HeadProgress,
    /// The parameters that gave the last finite loss.
    last_finite: Option<Params>,
    /// Its first steps on a GPU.
    alone: Alone,
    /// Its step as a GPU keeps it.
    recorded: Option<Box<RecordedStep>>,
}

/// How far a head has come: what a checkpoint keeps of it as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadProgress {
    /// Its epochs so far.
    pub history: Vec<Epoch>,
    /// What it was asked between their ends. Nothing is picked by these.
    pub between: Vec<Epoch>,
    /// What it was at its best on the selection split.
    pub best: Option<Snapshot>,
    /// Predicted class of every test image after the last epoch.
    pub predictions: Vec<u32>,
    /// Why it stopped before the end, if it did; its parameters are the last finite ones.
    pub failure: Option<String>,
    /// Loss sum, right answers and images of the epoch under way.
    pub running: Running,
    /// Losses of its steps, thinned.
    pub losses: Losses,
    /// Time its own steps took, in seconds, without reading tokens, without evaluation: where heads share a step, its share.
    pub seconds: f64,
}

/// A head after one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its place in the history, from 0.
    pub epoch: usize,
    /// Effective values, classifier included.
    pub arrays: Arrays,
    /// Predicted class of every test image.
    pub predictions: Vec<u32>,
}

/// Sums over the epoch under way.
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

    /// Mean training loss of the steps since these sums were `before`, in this epoch; absent where
    /// there was none.
    pub fn loss_since(&self, before: &Self) -> Option<f64> {
        let before = if before.images > self.images { Self::default() } else { *before };
        let images = self.images - before.images;
        (images > 0).then(|| (self.loss - before.loss) / images as f64)
    }
}

impl HeadTrainer {
    /// A head at its start.
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
            alone: Alone::default(),
            recorded: None,
        }
    }

    /// The same that reads the tokens of this layer of the task's, from 0, and learns at this rate, where it has one of its
    /// own.
    pub fn at(self, layer: usize, rate: Option<f64>) -> Self {
        Self { layer, rate, ..self }
    }

    /// The same with an optimiser of its own.
    pub fn with(self, optimizer: Optimizer) -> Self {
        Self { optimizer, ..self }
    }

    /// Ends its training because of `what`, and takes back the step that led to it.
    fn fail(&mut self, what: &str) {
        let epoch = self.progress.history.len() + 1;
        self.progress.failure = Some(format!("{what} in epoch {epoch}"));
        if let Some(last_finite) = self.last_finite.take() {
            self.model = self.model.clone().with_params(last_finite);
        }
        self.recorded = None; // with all the memory that its step computes in
    }
}

/// Where a run stands: the next step is `step` of epoch `epoch`, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainCursor {
    /// Epochs done.
    pub epoch: usize,
    /// Steps done of the epoch under way.
    pub step: usize,
}

/// What a run tells as it goes.
pub enum Event<'a> {
    /// A step of all heads is done.
    Step {
        /// Where the run stands.
        position: TrainCursor,
        /// Steps of an epoch.
        steps: usize,
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
    /// A batch of the evaluation at the end of an epoch is done. Breaking leaves the epoch open.
    Evaluation,
    /// All heads were evaluated between two steps.
    Between {
        /// Where the run stands.
        position: TrainCursor,
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
    /// An epoch of all heads is done and evaluated: a good moment to save.
    Epoch {
        /// Where the run stands.
        position: TrainCursor,
        /// All heads.
        trainers: &'a [HeadTrainer],
    },
}

/// Trains `heads` from `position` on, until done or `tell` breaks; returns where it stands.
///
/// # Errors
/// If there are no tokens for a batch; `heads` are as the last step that was told of left them.
pub fn train(
    task: &Task,
    trainers: &mut [HeadTrainer],
    mut position: TrainCursor,
    tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<TrainCursor, TokenSourceError> {
    let TrainConfig { epochs, batch, rate, protocol, evaluate_every, .. } = *task.config;
    let names = trainers.first().map_or(0, |trainer| trainer.model.dims().classes);
    let steps = task.train.images.len().div_ceil(batch);
    let parts = losses::parts(epochs, steps);
    while position.epoch < epochs {
        let order = epoch_order(task.train.images.len(), task.seed, position.epoch);
        let (mut turns, mut next) = (turns(task, &order, position), None);
        for (step, chunk) in order.chunks(batch).enumerate().skip(position.step) {
            let done = position.epoch * steps + step;
            // Before the step and not after the one before: what was stopped between the two is evaluated then.
            if step > 0 && evaluate_every.is_some_and(|every| done.is_multiple_of(every)) {
                match between(task, trainers, done, tell)? {
                    ControlFlow::Continue(true)
                        if tell(Event::Between { position, trainers }).is_continue() => {}
                    ControlFlow::Continue(false) => {}
                    ControlFlow::Continue(true) | ControlFlow::Break(()) => return Ok(position),
                }
            }
            let classes: Vec<usize> = chunk.iter().map(|&i| task.train.classes[i]).collect();
            let labels = Labels::new(&classes, names, task.device);
            loop {
                let turn = next.take().or_else(|| turns.next());
                let Turn { layer, is_last, batch } = turn.expect("a batch for every step")?;
                let own = trainers.iter_mut().filter(|trainer| trainer.layer == layer);
                let rate =
                    |trainer: &HeadTrainer| protocol.rate(trainer.rate.unwrap_or(rate), done, steps, epochs);
                step_all_and(own, &batch, &labels, rate, || next = turns.next());
                if is_last {
                    break;
                }
            }
            position.step = step + 1;
            for trainer in trainers.iter_mut().filter(|trainer| trainer.progress.failure.is_none()) {
                trainer.progress.losses.take(
                    trainer.progress.running,
                    [position.epoch, step + 1],
                    steps,
                    parts,
                );
            }
            if tell(Event::Step { position, steps, trainers }).is_break() {
                return Ok(position);
            }
        }
        if close_epoch(task, trainers, (position.epoch + 1) * steps, tell)?.is_break() {
            return Ok(position);
        }
        position = TrainCursor { epoch: position.epoch + 1, step: 0 };
        if tell(Event::Epoch { position, trainers }).is_break() {
            return Ok(position);
        }
    }
    Ok(position)
}
