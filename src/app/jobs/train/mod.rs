//! A training from beginning to end: tokens of a dataset, then every seed's heads on them, into a
//! run's folder. The command line and the window's worker run this same code and listen to its
//! [`Event`]s; either may stop it between two steps, and what was stopped or killed goes on.

mod error;
pub mod heads;
mod manifest;
mod plan;
mod preflight;
pub mod resume;
mod settings;
mod split;
mod step_timing;
pub mod sweep;
mod token_source;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::tensor::Device;

pub use self::error::TrainingError;
use self::manifest::{manifest, truth};
pub use self::plan::TrainPlan;
pub use self::preflight::{Estimate, Preflight, preflight};
pub use self::settings::{COUNTS, MOST_SEEDS, TrainSettings};
pub use self::split::{Parts, labelled};
pub use self::step_timing::{TimeSpec, time};
use super::extract::{self, ExtractError, Plan};
use crate::app::rate::{Pace, Progress};
use crate::model::data::Dataset;
use crate::model::data::token_cache::{self, TokenSource};
use crate::model::device::{Choice, DeviceError};
use crate::model::io::array::Arrays;
use crate::model::probe::Probe;
use crate::model::probe::head::{self, Dims};
use crate::model::train::classifier::Model;
use crate::model::train::run::checkpoint::Checkpoint;
use crate::model::train::run::{Manifest, Outcome, ProbeCheckpoint, Run, RunError, Variant};
use crate::model::train::{self, HeadTrainer, Saved, Task, TrainCursor, train};

/// How often a training is saved within an epoch.
const CHECKPOINT_INTERVAL: Duration = Duration::from_mins(10);

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
        trainers: &'a [HeadTrainer],
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
        trainers: &'a [HeadTrainer],
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
    pub plan: TrainPlan,
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
    let TrainSpec { plan, out, resume } = spec;
    let settings = &plan.settings;
    let before = match out.join("run.json").exists() {
        true if !*resume => return Err(RunError::Exists { folder: out.clone() }.into()),
        true => {
            let run = Run::open(out)?;
            Some((run.claim()?, run))
        }
        false => None,
    };
    let dataset = plan.dataset()?;
    let parts = Parts::of(&dataset, settings.selection)?;
    let mut token_plan = Plan::new(plan.tokens(), &dataset)?;
    plan.check_cls(&token_plan)?;
    let choice = open(&settings.device)?;
    token_source::allowed(plan, &token_plan, &parts, &dataset, &choice.device)?;
    if let Some((_, run)) = &before {
        let begun = &run.manifest.tokens;
        if settings.tokens.verify && begun.dataset != token_plan.source.dataset {
            let mut tell = |event: extract::Event<'_>| tell(Event::Extract { event, dataset: &dataset });
            token_plan = token_plan.as_of(begun, &dataset, &mut tell)?.unwrap_or(token_plan);
        }
        resume::compare(run, &manifest(plan, &dataset, &token_plan, &parts, 0, &choice.found.name), false)?;
    }
    let steps = parts.train.images.len().div_ceil(settings.batch) * settings.epochs;
    // Heads are built before the backbone runs: a wrong setting is told at once.
    let dims = Dims {
        width: token_plan.backbone.hidden_size,
        grid: token_plan.grid,
        classes: dataset.classes.len(),
    };
    plan.check()?;
    fresh(plan, dims, 0, &choice.device)?;
    if tell(Event::Plan { tokens: &token_plan, dataset: &dataset, steps: steps * settings.seeds }).is_break()
    {
        return Err(ExtractError::Stopped { done: token_plan.done, images: token_plan.images }.into());
    }
    let run = before.as_ref().map(|(_, run)| run);
    let tokens = token_source::supply(plan, &token_plan, run, &dataset, &choice.device, &mut |event| {
        tell(Event::Extract { event, dataset: &dataset })
    })?;
    let parts = parts.readable(&*tokens)?;
    let unreadable: Vec<usize> = (0..token_plan.images).filter(|&image| !tokens.readable(image)).collect();
    let manifest = manifest(plan, &dataset, &token_plan, &parts, unreadable.len(), &choice.found.name);
    let (claim, run) = match before {
        Some((claim, mut run)) => {
            resume::compare(&run, &manifest, true)?;
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
    if settings.recompute {
        run.keep_unreadable(&unreadable)?;
    }
    let summary = Training { plan, dims, run, tokens, parts, choice }.go(tell);
    drop(claim); // held until the last file is written
    summary
}

/// Everything at hand.
struct Training<'a> {
    plan: &'a TrainPlan,
    dims: Dims,
    run: Run,
    tokens: Box<dyn TokenSource>,
    parts: Parts,
    choice: Choice,
}

impl Training<'_> {
    /// Trains what the checkpoint leaves to be done.
    fn go(self, tell: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<Summary, TrainingError> {
        let Checkpoint { seeds_done, mut position, trainers: mut saved } = self.run.checkpoint()?;
        let (seeds, config) = (self.plan.seeds(), self.plan.settings.config());
        let mut outcomes = self.run.outcomes_of(&seeds[..seeds_done.min(seeds.len())])?;
        let images = self.parts.train.images.len();
        let of_seed = images * config.epochs;
        let mut pace = None;
        if tell(Event::Begin { run: &self.run, device: &self.choice.found.name }).is_break() {
            return Ok(Summary { run: self.run, outcomes, finished: false });
        }
        for (index, &seed) in seeds.iter().enumerate().skip(seeds_done) {
            let mut trainers = self.trainers(seed, std::mem::take(&mut saved))?;
            let done = |position: TrainCursor| {
                let of_epoch = (position.step * config.batch).min(images);
                index * of_seed + position.epoch * images + of_epoch
            };
            let pace = pace.get_or_insert_with(|| Pace::new(seeds.len() * of_seed, done(position)));
            let task = Task {
                tokens: &*self.tokens,
                train: &self.parts.train,
                select: &self.parts.select,
                test: &self.parts.test,
                config: &config,
                device: &self.choice.device,
                seed,
            };
            let mut failed = None;
            let (mut last, mut kept) = (position, Instant::now());
            let end = train(&task, &mut trainers, position, &mut |event| match event {
                train::Event::Step { position, steps, trainers } => {
                    let progress = pace.at(done(position));
                    last = position;
                    // An epoch may take hours: a kill costs minutes.
                    if kept.elapsed() > CHECKPOINT_INTERVAL {
                        if let Err(error) = self.run.save(&checkpoint(index, position, trainers)) {
                            failed = Some(error.into());
                            return ControlFlow::Break(());
                        }
                        kept = Instant::now();
                    }
                    match all_failed(trainers) {
                        true => ControlFlow::Break(()),
                        // Who listens may do other work meanwhile.
                        false => {
                            pace.without(|| tell(Event::Step { seed, position, steps, trainers, progress }))
                        }
                    }
                }
                train::Event::Evaluation => pace.without(|| tell(Event::Evaluation)),
                train::Event::Epoch { position, trainers } => {
                    if let Err(error) = self.close_epoch(index, position, trainers, &outcomes) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                    (last, kept) = (position, Instant::now());
                    tell(Event::Epoch { seed, position, trainers })
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let end = match end {
                Ok(end) => end,
                Err(error) => {
                    self.run.save(&checkpoint(index, last, &trainers))?;
                    return Err(error.into());
                }
            };
            let finished = end.epoch >= config.epochs || all_failed(&trainers);
            self.write_probes(seed, &trainers)?;
            self.write_losses(seed, &trainers)?;
            for trainer in &trainers {
                let outcome = Outcome::from_trainer(trainer, seed);
                self.run.write_outcome(&outcome)?;
                outcomes.push(outcome);
            }
            self.run.write_tables(&outcomes)?;
            if !finished {
                self.run.save(&checkpoint(index, end, &trainers))?;
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
    fn trainers(&self, seed: u64, saved: Vec<(String, Saved)>) -> Result<Vec<HeadTrainer>, TrainingError> {
        let fresh = fresh(self.plan, self.dims, seed, &self.choice.device)?;
        if saved.is_empty() {
            return Ok(fresh);
        }
        let mut saved: std::collections::HashMap<String, Saved> = saved.into_iter().collect();
        let restored = fresh.into_iter().map(|trainer| {
            let name = trainer.name.clone();
            let own = saved.remove(&name);
            own.and_then(|saved| trainer.restore(saved, &self.choice.device))
                .ok_or(TrainingError::Checkpoint { path: self.run.checkpoint_path(), name })
        });
        restored.collect()
    }

    /// Writes the tables, then the checkpoint.
    fn close_epoch(
        &self,
        seed_index: usize,
        position: TrainCursor,
        trainers: &[HeadTrainer],
        before: &[Outcome],
    ) -> Result<(), TrainingError> {
        let seed = self.plan.seeds()[seed_index];
        let now = trainers.iter().map(|trainer| Outcome::from_trainer(trainer, seed));
        let outcomes: Vec<Outcome> = before.iter().cloned().chain(now).collect();
        self.run.write_tables(&outcomes)?;
        self.write_losses(seed, trainers)?;
        Ok(self.run.save(&checkpoint(seed_index, position, trainers))?)
    }

    /// Writes the losses of the steps so far.
    fn write_losses(&self, seed: u64, trainers: &[HeadTrainer]) -> Result<(), TrainingError> {
        let heads =
            trainers.iter().map(|trainer| (trainer.name.as_str(), &trainer.progress.losses.points[..]));
        Ok(self.run.write_losses(seed, heads)?)
    }

    /// Writes both probes of every head that has finished an epoch.
    fn write_probes(&self, seed: u64, trainers: &[HeadTrainer]) -> Result<(), TrainingError> {
        for trainer in trainers {
            let Some(best) = &trainer.progress.best else { continue };
            let last = trainer.model.params().to_arrays();
            let places = [
                (ProbeCheckpoint::Best, best.epoch, &best.arrays),
                (ProbeCheckpoint::Last, trainer.progress.history.len() - 1, &last),
            ];
            for (which, epoch, arrays) in places {
                let probe = self.probe(seed, trainer, epoch, arrays.clone());
                probe.save(self.run.probe(&trainer.name, seed, which))?;
            }
        }
        Ok(())
    }

    /// A head as it was after one epoch. No time of day and no duration is in it: the same training
    /// writes the same bytes.
    fn probe(&self, seed: u64, trainer: &HeadTrainer, epoch: usize, arrays: Arrays) -> Probe {
        let Manifest { backbone, dataset, config, selection, program, tokens, size, .. } = &self.run.manifest;
        // Not of which images they were: file times are no part of a probe.
        let token_cache::TokenKey { weights, preprocessing, layer, precision, .. } = tokens;
        let training = serde_json::json!({
            "program": program,
            "variant": trainer.name,
            "dataset": dataset.name,
            "tokens": {
                "weights": weights,
                "preprocessing": preprocessing,
                "layer": layer,
                "precision": precision,
            },
            "size": size,
            "seed": seed,
            "protocol": config,
            "selection": selection,
            "epoch": trainer.progress.history[epoch],
            "failure": trainer.progress.failure,
        });
        trainer.model.probe_of(arrays, backbone.clone(), dataset.classes.clone(), Some(training))
    }
}

/// All heads at their start.
fn fresh(
    plan: &TrainPlan,
    dims: Dims,
    seed: u64,
    device: &Device,
) -> Result<Vec<HeadTrainer>, TrainingError> {
    let build = |variant: &Variant| {
        let kind =
            head::find(&variant.head).ok_or_else(|| TrainingError::UnknownHead(variant.head.clone()))?;
        Ok(HeadTrainer::new(&variant.name, Model::start(kind, &variant.config, dims, seed, device)?))
    };
    plan.heads.iter().map(build).collect()
}

/// Whether there is nothing left to train.
fn all_failed(trainers: &[HeadTrainer]) -> bool {
    trainers.iter().all(|trainer| trainer.progress.failure.is_some())
}

fn checkpoint(seeds_done: usize, position: TrainCursor, trainers: &[HeadTrainer]) -> Checkpoint {
    let trainers = trainers.iter().map(|trainer| (trainer.name.clone(), trainer.save())).collect();
    Checkpoint { seeds_done, position, trainers }
}
