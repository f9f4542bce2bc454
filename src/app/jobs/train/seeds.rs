//! Trains the seeds of a run one after the other, starting from its checkpoint: runs the steps, saves
//! checkpoints, and writes the files due at the end of each epoch and seed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use serde_json::{Value, json};

use super::{Event, Parts, Summary, TrainPlan, TrainingError, heads};
use crate::app::rate::RateMeter;
use crate::model::data::token_cache::{self, TokenSource};
use crate::model::device::Choice;
use crate::model::io::array::Arrays;
use crate::model::probe::Probe;
use crate::model::probe::head::Dims;
use crate::model::train::classifier::Model;
use crate::model::train::run::checkpoint::Checkpoint;
use crate::model::train::run::{Manifest, Outcome, ProbeCheckpoint, Run, RunLock, Variant};
use crate::model::train::{self, HeadProgress, HeadTrainer, Saved, Task, TrainConfig, TrainCursor, train};

/// How often a training is saved within an epoch.
const CHECKPOINT_INTERVAL: Duration = Duration::from_mins(10);

/// A prepared training: its plan, open run, tokens, parts of the dataset, device and lock.
pub(super) struct Training<'a> {
    pub(super) plan: &'a TrainPlan,
    pub(super) dims: Dims,
    pub(super) run: Run,
    pub(super) tokens: Box<dyn TokenSource>,
    pub(super) parts: Parts,
    pub(super) choice: Choice,
    pub(super) lock: &'a RunLock,
}

impl Training<'_> {
    /// Trains all seeds, epochs and steps that the run's checkpoint does not already cover.
    pub(super) fn run(
        self,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Summary, TrainingError> {
        let Checkpoint { seeds_done, mut position, trainers: mut saved } = self.run.checkpoint()?;
        let (seeds, config) = (self.plan.seeds(), self.plan.settings.config());
        let mut outcomes = Vec::new();
        for &seed in seeds.iter().take(seeds_done) {
            for head in &self.plan.heads {
                outcomes.push(self.run.outcome(&head.name, seed)?); // without it, the tables would lose its row
            }
        }
        let images = self.parts.train.images.len();
        let of_seed = images * config.epochs;
        let done = |index: usize, position: TrainCursor| {
            let of_epoch = (position.step * config.batch).min(images);
            index * of_seed + position.epoch * images + of_epoch
        };
        if tell(Event::Begin { run: &self.run, device: &self.choice.found.name }).is_break() {
            return Ok(Summary { run: self.run, outcomes, finished: false });
        }
        let mut pace = RateMeter::new(seeds.len() * of_seed, done(seeds_done, position));
        for (index, &seed) in seeds.iter().enumerate().skip(seeds_done) {
            let mut trainers = self.trainers(seed, std::mem::take(&mut saved))?;
            let task = self.task(&config, seed);
            let (mut last, mut kept) = (position, Instant::now());
            let mut receive = |event: train::Event| -> Result<ControlFlow<()>, TrainingError> {
                self.lock.beat()?;
                Ok(match event {
                    train::Event::Step { position, steps, trainers } => {
                        let progress = pace.at(done(index, position));
                        last = position;
                        // An epoch may take hours; a kill should cost minutes.
                        if kept.elapsed() > CHECKPOINT_INTERVAL {
                            self.run.save(&checkpoint(index, position, trainers))?;
                            kept = Instant::now();
                        }
                        match all_failed(trainers) {
                            true => ControlFlow::Break(()),
                            // The callback may do other work, or be paused; its time does not count.
                            false => pace
                                .without(|| tell(Event::Step { seed, position, steps, trainers, progress })),
                        }
                    }
                    train::Event::Evaluation => pace.without(|| tell(Event::Evaluation)),
                    train::Event::Between { trainers } => {
                        self.write_tables(seed, trainers, &outcomes)?;
                        pace.without(|| tell(Event::Between { seed, trainers }))
                    }
                    train::Event::Epoch { position, trainers } => {
                        self.write_tables(seed, trainers, &outcomes)?;
                        self.write_losses(seed, trainers)?;
                        self.run.save(&checkpoint(index, position, trainers))?;
                        (last, kept) = (position, Instant::now());
                        pace.without(|| tell(Event::Epoch { seed, position, trainers }))
                    }
                })
            };
            let mut failed = None;
            let end = train(&task, &mut trainers, position, &mut |event| {
                receive(event).unwrap_or_else(|error| {
                    failed = Some(error);
                    ControlFlow::Break(())
                })
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
            self.write_seed(seed, &trainers, end, &mut outcomes)?;
            if !finished {
                self.run.save(&checkpoint(index, end, &trainers))?;
                return Ok(Summary { run: self.run, outcomes, finished });
            }
            position = TrainCursor::default();
            self.run.save(&Checkpoint { seeds_done: index + 1, ..Checkpoint::default() })?;
            if pace.without(|| tell(Event::Seed)).is_break() && index + 1 < seeds.len() {
                return Ok(Summary { run: self.run, outcomes, finished: false });
            }
        }
        Ok(Summary { run: self.run, outcomes, finished: true })
    }

    /// The training of all heads with a seed.
    fn task<'t>(&'t self, config: &'t TrainConfig, seed: u64) -> Task<'t> {
        Task {
            tokens: &*self.tokens,
            train: &self.parts.train,
            select: &self.parts.select,
            test: &self.parts.test,
            config,
            device: &self.choice.device,
            seed,
            redrawn: self.run.manifest.redraws(),
        }
    }

    /// The heads of a seed: newly initialised if `saved` is empty, otherwise restored from it.
    fn trainers(&self, seed: u64, saved: Vec<(String, Saved)>) -> Result<Vec<HeadTrainer>, TrainingError> {
        let fresh = fresh(self.plan, self.dims, seed, &self.choice.device)?;
        if saved.is_empty() {
            return Ok(fresh);
        }
        let mut saved: HashMap<String, Saved> = saved.into_iter().collect();
        let restored = fresh.into_iter().map(|trainer| {
            let name = trainer.name.clone();
            let own = saved.remove(&name);
            own.and_then(|saved| trainer.restore(saved, &self.choice.device))
                .ok_or(TrainingError::Checkpoint { path: self.run.checkpoint_path(), name })
        });
        restored.collect()
    }

    /// Writes the tables: `before` (outcomes of finished seeds), then the current state of `trainers`.
    fn write_tables(
        &self,
        seed: u64,
        trainers: &[HeadTrainer],
        before: &[Outcome],
    ) -> Result<(), TrainingError> {
        let now = trainers.iter().map(|trainer| Outcome::from_trainer(trainer, seed));
        let outcomes: Vec<Outcome> = before.iter().cloned().chain(now).collect();
        Ok(self.run.write_tables(&outcomes)?)
    }

    /// Writes the losses of the steps so far.
    fn write_losses(&self, seed: u64, trainers: &[HeadTrainer]) -> Result<(), TrainingError> {
        let heads =
            trainers.iter().map(|trainer| (trainer.name.as_str(), &trainer.progress.losses.points[..]));
        Ok(self.run.write_losses(seed, heads)?)
    }

    /// Writes the files of a seed whose training has ended at the position `end`, and adds its outcomes to those of the seeds before.
    fn write_seed(
        &self,
        seed: u64,
        trainers: &[HeadTrainer],
        end: TrainCursor,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), TrainingError> {
        self.write_probes(seed, trainers, end)?;
        self.write_losses(seed, trainers)?;
        for trainer in trainers {
            let outcome = Outcome::from_trainer(trainer, seed);
            self.run.write_outcome(&outcome)?;
            outcomes.push(outcome);
        }
        Ok(self.run.write_tables(outcomes)?)
    }

    /// Writes the best and the last probe of every head that has finished an epoch, at the position `end`.
    fn write_probes(
        &self,
        seed: u64,
        trainers: &[HeadTrainer],
        end: TrainCursor,
    ) -> Result<(), TrainingError> {
        for trainer in trainers {
            let HeadProgress { best, history, failure, .. } = &trainer.progress;
            let Some(best) = best else { continue };
            let last = trainer.model.params().to_arrays();
            // Within an epoch it is not the one whose accuracy is known.
            let last_epoch = match end.step == 0 && failure.is_none() {
                true => json!(history.last()),
                false => json!({ "epoch": history.len() + 1 }),
            };
            let places = [
                (ProbeCheckpoint::Best, json!(history[best.epoch]), &best.arrays),
                (ProbeCheckpoint::Last, last_epoch, &last),
            ];
            for (which, epoch, arrays) in places {
                let probe = self.probe(seed, trainer, &epoch, arrays.clone());
                probe.save(self.run.probe_path(&trainer.name, seed, which))?;
            }
        }
        Ok(())
    }

    /// The probe of a head with the parameters `arrays` and the metrics of its `epoch`. It holds no timestamp and
    /// no duration, so the same training writes the same bytes.
    fn probe(&self, seed: u64, trainer: &HeadTrainer, epoch: &Value, arrays: Arrays) -> Probe {
        let manifest = &self.run.manifest;
        let Manifest { backbone, dataset, selection, program, size, .. } = manifest;
        let variant = manifest.heads.iter().find(|variant| variant.name == trainer.name);
        let variant = variant.expect("what is trained is in the manifest");
        let tokens = manifest.tokens_of(variant);
        let rate = variant.rate.unwrap_or(manifest.config.rate);
        let config = TrainConfig { rate, ..manifest.config.clone() };
        // The key's dataset part is left out: file times do not belong in a probe.
        let token_cache::TokenKey { weights, preprocessing, layer, precision, .. } = &tokens;
        let training = json!({
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
            "epoch": epoch,
            "failure": trainer.progress.failure,
        });
        trainer.model.probe_of(arrays, backbone.clone(), dataset.classes.clone(), Some(training))
    }
}

/// All heads of `plan`, initialised from `seed`.
pub(super) fn fresh(
    plan: &TrainPlan,
    dims: Dims,
    seed: u64,
    device: &Device,
) -> Result<Vec<HeadTrainer>, TrainingError> {
    let layers = plan.layers();
    let build = |variant: &Variant| {
        let mut model = Model::start(heads::find(&variant.head)?, &variant.config, dims, seed, device)?;
        if let Some(deviation) = plan.settings.protocol.classifier_start() {
            model = model.with_normal_classifier(deviation, seed);
        }
        let layer = layers.iter().position(|layer| *layer == plan.layer_of(variant));
        let layer = layer.expect("the layers are those of the heads");
        let mut trainer = HeadTrainer::new(&variant.name, model);
        (trainer.layer, trainer.rate) = (layer, variant.rate);
        trainer.optimizer = plan.settings.protocol.optimizer();
        Ok(trainer)
    };
    plan.heads.iter().map(build).collect()
}

/// Whether every head has failed, so that nothing is left to train.
fn all_failed(trainers: &[HeadTrainer]) -> bool {
    trainers.iter().all(|trainer| trainer.progress.failure.is_some())
}

fn checkpoint(seeds_done: usize, position: TrainCursor, trainers: &[HeadTrainer]) -> Checkpoint {
    let trainers = trainers.iter().map(|trainer| (trainer.name.clone(), trainer.save())).collect();
    Checkpoint { seeds_done, position, trainers }
}
