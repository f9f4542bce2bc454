//! A training from beginning to end: tokens of a dataset, then every seed's heads on them, into a
//! run's folder. The command line and the window's worker run this same code and listen to its
//! [`Event`]s; either may stop it between two steps, and what was stopped or killed goes on.

mod error;
mod form;
mod manifest;
pub mod plan;
mod preflight;
pub mod settings;
mod split;
mod step_timing;
pub mod sweep;
mod token_source;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::tensor::Device;

pub use self::error::TrainingError;
pub use self::form::{MOST_SEEDS, TrainForm};
use self::manifest::{manifest, truth};
pub use self::plan::TrainPlan;
pub use self::preflight::{Estimate, Preflight, outlook};
pub use self::split::{Parts, labelled};
pub use self::step_timing::{TimeSpec, time};
use super::extract::{self, ExtractError, Plan};
use crate::app::rate::{Pace, Progress};
use crate::model::data::token_cache::{self, TokenSource};
use crate::model::data::{self, Dataset};
use crate::model::device::{Choice, DeviceError};
use crate::model::io::array::Arrays;
use crate::model::probe::head::{self, Dims};
use crate::model::probe::{Classifier, Probe};
use crate::model::train::classifier::Model;
use crate::model::train::run::checkpoint::Checkpoint;
use crate::model::train::run::{Manifest, Outcome, ProbeCheckpoint, Run, RunError, Variant};
use crate::model::train::{self, HeadTrainer, Saved, Task, TrainCursor, train};

/// How often a training is saved within an epoch.
const OFTEN: Duration = Duration::from_mins(10);

/// Told while a training runs. Breaking stops it after the running batch or step, saved.
pub enum Event<'a> {
    /// What it will come to, before anything is done.
    Plan {
        /// Tokens.
        tokens: &'a Plan,
        /// Of which images.
        dataset: &'a Dataset,
        /// Steps of all seeds together.
        steps: usize,
    },
    /// Tokens are taken.
    Extract {
        /// What happened.
        event: extract::Event<'a>,
        /// Of which images.
        dataset: &'a Dataset,
    },
    /// Tokens are there, and the run's folder; training begins or goes on.
    Begin {
        /// Its folder.
        run: &'a Run,
        /// Where it is computed.
        device: &'a str,
    },
    /// A step of all heads is done.
    Step {
        /// The seed under way.
        seed: u64,
        /// Where it stands.
        position: TrainCursor,
        /// Steps of an epoch.
        steps: usize,
        /// All heads.
        learners: &'a [HeadTrainer],
        /// Images trained on, over all seeds.
        progress: Progress,
    },
    /// A batch of an evaluation is done.
    Evaluation,
    /// An epoch of all heads is done, evaluated and saved.
    Epoch {
        /// The seed under way.
        seed: u64,
        /// Where it stands.
        position: TrainCursor,
        /// All heads.
        learners: &'a [HeadTrainer],
    },
    /// A seed is done: its probes lie in the run's folder.
    Seed(u64),
}

/// What a training has come to.
#[derive(Debug)]
pub struct Summary {
    /// Its folder.
    pub run: Run,
    /// What came out, seed by seed and head by head; of a stopped training, what there is.
    pub outcomes: Vec<Outcome>,
    /// Whether it ran to its end.
    pub finished: bool,
}

/// A training.
pub struct TrainSpec {
    /// What is to be trained.
    pub order: TrainPlan,
    /// The run's folder.
    pub out: PathBuf,
    /// Whether it goes on where there is a run.
    pub resume: bool,
}

/// Does what `spec` says, on a device that `open` opens by its name.
pub fn run(
    open: fn(&str) -> Result<Choice, DeviceError>,
    spec: &TrainSpec,
    tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Summary, TrainingError> {
    let TrainSpec { order, out, resume } = spec;
    let before = match out.join("run.json").exists() {
        true if !*resume => return Err(RunError::Exists { folder: out.clone() }.into()),
        true => {
            let run = Run::open(out)?;
            Some((run.claim()?, run))
        }
        false => None,
    };
    let dataset = data::open(&order.data)?;
    let parts = Parts::of(&dataset, order.selection)?;
    let mut plan = Plan::new(order.tokens.clone(), &dataset)?;
    order.check_cls(&plan)?;
    let choice = open(&order.device)?;
    token_source::allowed(order, &plan, &parts, &dataset, &choice.device)?;
    if let Some((_, run)) = &before {
        let begun = &run.manifest.tokens;
        if order.tokens.verify && begun.dataset != plan.source.dataset {
            let mut tell = |event: extract::Event<'_>| tell(Event::Extract { event, dataset: &dataset });
            plan = plan.as_of(begun, &dataset, &mut tell)?.unwrap_or(plan);
        }
        plan::compare(run, &manifest(order, &dataset, &plan, &parts, 0, &choice.found.name), false)?;
    }
    let steps = parts.train.images.len().div_ceil(order.protocol.batch) * order.protocol.epochs;
    // Heads are built before the backbone runs: a wrong setting is told at once.
    let dims = Dims { width: plan.backbone.hidden_size, grid: plan.grid, classes: dataset.classes.len() };
    order.check()?;
    fresh(order, dims, 0, &choice.device)?;
    if tell(Event::Plan { tokens: &plan, dataset: &dataset, steps: steps * order.seeds.len() }).is_break() {
        return Err(ExtractError::Stopped { done: plan.done, images: plan.images }.into());
    }
    let run = before.as_ref().map(|(_, run)| run);
    let tokens = token_source::supply(order, &plan, run, &dataset, &choice.device, &mut |event| {
        tell(Event::Extract { event, dataset: &dataset })
    })?;
    let parts = parts.readable(&*tokens)?;
    let unreadable: Vec<usize> = (0..plan.images).filter(|&image| !tokens.readable(image)).collect();
    let manifest = manifest(order, &dataset, &plan, &parts, unreadable.len(), &choice.found.name);
    let (claim, run) = match before {
        Some((claim, mut run)) => {
            plan::compare(&run, &manifest, true)?;
            run.tidy()?;
            if run.manifest.seeds != manifest.seeds {
                run.grow(&manifest.seeds)?;
            }
            (claim, run)
        }
        None => {
            let run = Run::create(out, manifest, &truth(&dataset, &parts))?;
            (run.claim()?, run)
        }
    };
    if order.recompute {
        run.keep_unreadable(&unreadable)?;
    }
    let summary = Training { order, dims, run, tokens, parts, choice }.go(tell);
    drop(claim); // held until the last file is written
    summary
}

/// Everything at hand.
struct Training<'a> {
    order: &'a TrainPlan,
    dims: Dims,
    run: Run,
    tokens: Box<dyn TokenSource>,
    parts: Parts,
    choice: Choice,
}

impl Training<'_> {
    /// Trains what the checkpoint leaves to be done.
    fn go(self, tell: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<Summary, TrainingError> {
        let Checkpoint { seeds_done, mut position, learners: mut saved } = self.run.checkpoint()?;
        let seeds = &self.order.seeds;
        let mut outcomes = self.run.outcomes_of(&seeds[..seeds_done.min(seeds.len())])?;
        let images = self.parts.train.images.len();
        let of_seed = images * self.order.protocol.epochs;
        let mut pace = None;
        if tell(Event::Begin { run: &self.run, device: &self.choice.found.name }).is_break() {
            return Ok(Summary { run: self.run, outcomes, finished: false });
        }
        for (index, &seed) in seeds.iter().enumerate().skip(seeds_done) {
            let mut learners = self.learners(seed, std::mem::take(&mut saved))?;
            let done = |position: TrainCursor| {
                let of_epoch = (position.step * self.order.protocol.batch).min(images);
                index * of_seed + position.epoch * images + of_epoch
            };
            let pace = pace.get_or_insert_with(|| Pace::new(seeds.len() * of_seed, done(position)));
            let task = Task {
                tokens: &*self.tokens,
                train: &self.parts.train,
                select: &self.parts.select,
                test: &self.parts.test,
                protocol: &self.order.protocol,
                device: &self.choice.device,
                seed,
            };
            let mut failed = None;
            let (mut last, mut kept) = (position, Instant::now());
            let end = train(&task, &mut learners, position, &mut |event| match event {
                train::Event::Step { position, steps, learners } => {
                    let progress = pace.at(done(position));
                    last = position;
                    // An epoch may take hours: a kill costs minutes.
                    if kept.elapsed() > OFTEN {
                        if let Err(error) = self.run.save(&checkpoint(index, position, learners)) {
                            failed = Some(error.into());
                            return ControlFlow::Break(());
                        }
                        kept = Instant::now();
                    }
                    match all_failed(learners) {
                        true => ControlFlow::Break(()),
                        // Who listens may do other work meanwhile.
                        false => {
                            pace.without(|| tell(Event::Step { seed, position, steps, learners, progress }))
                        }
                    }
                }
                train::Event::Evaluation => pace.without(|| tell(Event::Evaluation)),
                train::Event::Epoch { position, learners } => {
                    if let Err(error) = self.close_epoch(index, position, learners, &outcomes) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                    (last, kept) = (position, Instant::now());
                    tell(Event::Epoch { seed, position, learners })
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let end = match end {
                Ok(end) => end,
                Err(error) => {
                    self.run.save(&checkpoint(index, last, &learners))?;
                    return Err(error.into());
                }
            };
            let finished = end.epoch >= self.order.protocol.epochs || all_failed(&learners);
            self.write_probes(seed, &learners)?;
            self.write_losses(seed, &learners)?;
            for learner in &learners {
                let outcome = Outcome::from_trainer(learner, seed);
                self.run.write_outcome(&outcome)?;
                outcomes.push(outcome);
            }
            self.run.write_tables(&outcomes)?;
            if !finished {
                self.run.save(&checkpoint(index, end, &learners))?;
                return Ok(Summary { run: self.run, outcomes, finished });
            }
            position = TrainCursor::default();
            self.run.save(&Checkpoint { seeds_done: index + 1, ..Checkpoint::default() })?;
            if tell(Event::Seed(seed)).is_break() && index + 1 < seeds.len() {
                return Ok(Summary { run: self.run, outcomes, finished: false });
            }
        }
        Ok(Summary { run: self.run, outcomes, finished: true })
    }

    /// The heads of a seed: fresh, or as they were saved.
    fn learners(&self, seed: u64, saved: Vec<(String, Saved)>) -> Result<Vec<HeadTrainer>, TrainingError> {
        let fresh = fresh(self.order, self.dims, seed, &self.choice.device)?;
        if saved.is_empty() {
            return Ok(fresh);
        }
        let mut saved: std::collections::HashMap<String, Saved> = saved.into_iter().collect();
        let restored = fresh.into_iter().map(|learner| {
            let name = learner.name.clone();
            let own = saved.remove(&name);
            own.and_then(|saved| learner.restore(saved, &self.choice.device))
                .ok_or(TrainingError::Checkpoint { path: self.run.checkpoint_path(), name })
        });
        restored.collect()
    }

    /// Writes the tables, then the checkpoint.
    fn close_epoch(
        &self,
        seed_index: usize,
        position: TrainCursor,
        learners: &[HeadTrainer],
        before: &[Outcome],
    ) -> Result<(), TrainingError> {
        let seed = self.order.seeds[seed_index];
        let now = learners.iter().map(|learner| Outcome::from_trainer(learner, seed));
        let outcomes: Vec<Outcome> = before.iter().cloned().chain(now).collect();
        self.run.write_tables(&outcomes)?;
        self.write_losses(seed, learners)?;
        Ok(self.run.save(&checkpoint(seed_index, position, learners))?)
    }

    /// Writes the losses of the steps so far.
    fn write_losses(&self, seed: u64, learners: &[HeadTrainer]) -> Result<(), TrainingError> {
        let heads = learners.iter().map(|learner| (learner.name.as_str(), &learner.losses.points[..]));
        Ok(self.run.write_losses(seed, heads)?)
    }

    /// Writes both probes of every head that has finished an epoch.
    fn write_probes(&self, seed: u64, learners: &[HeadTrainer]) -> Result<(), TrainingError> {
        for learner in learners {
            let Some(best) = &learner.best else { continue };
            let last = learner.model.params().to_arrays();
            let places = [
                (ProbeCheckpoint::Best, best.epoch, &best.arrays),
                (ProbeCheckpoint::Last, learner.history.len() - 1, &last),
            ];
            for (which, epoch, arrays) in places {
                let probe = self.probe(seed, learner, epoch, arrays.clone());
                probe.save(self.run.probe(&learner.name, seed, which))?;
            }
        }
        Ok(())
    }

    /// A head as it was after one epoch. No time of day and no duration is in it: the same training
    /// writes the same bytes.
    fn probe(&self, seed: u64, learner: &HeadTrainer, epoch: usize, mut arrays: Arrays) -> Probe {
        let Manifest { backbone, dataset, protocol, selection, program, tokens, size, .. } =
            &self.run.manifest;
        // Not of which images they were: file times are no part of a probe.
        let token_cache::TokenKey { weights, preprocessing, layer, precision, .. } = tokens;
        let training = serde_json::json!({
            "program": program,
            "variant": learner.name,
            "dataset": dataset.name,
            "tokens": {
                "weights": weights,
                "preprocessing": preprocessing,
                "layer": layer,
                "precision": precision,
            },
            "size": size,
            "seed": seed,
            "protocol": protocol,
            "selection": selection,
            "epoch": learner.history[epoch],
            "failure": learner.failure,
        });
        let now = learner.model.to_probe(backbone.clone(), dataset.classes.clone(), Some(training));
        let mut take = |name| arrays.shift_remove(name).expect("a model has a classifier").data;
        let classifier = Classifier { weight: take("classifier.weight"), bias: take("classifier.bias") };
        Probe::new(now.meta, arrays, classifier)
    }
}

/// All heads at their start.
fn fresh(
    order: &TrainPlan,
    dims: Dims,
    seed: u64,
    device: &Device,
) -> Result<Vec<HeadTrainer>, TrainingError> {
    let build = |variant: &Variant| {
        let kind = head::find(&variant.head)
            .ok_or_else(|| TrainingError::UnknownHead { found: variant.head.clone() })?;
        Ok(HeadTrainer::new(&variant.name, Model::start(kind, &variant.config, dims, seed, device)?))
    };
    order.heads.iter().map(build).collect()
}

/// Whether there is nothing left to train.
fn all_failed(learners: &[HeadTrainer]) -> bool {
    learners.iter().all(|learner| learner.failure.is_some())
}

fn checkpoint(seeds_done: usize, position: TrainCursor, learners: &[HeadTrainer]) -> Checkpoint {
    let learners = learners.iter().map(|learner| (learner.name.clone(), learner.save())).collect();
    Checkpoint { seeds_done, position, learners }
}
