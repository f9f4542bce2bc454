//! Trains the seeds of a run one after the other, starting from its checkpoint: runs the steps, saves
//! checkpoints, and writes the files due at the end of each epoch and seed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use serde_json::{Value, json};

use super::{Event, Parts, Summary, TrainPlan, TrainingError, heads};
use crate::app::jobs::extract::Retries;
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
        if tell(Event::Begin { run: &self.run, device: &self.choice.found.name }).is_break() {
            return Ok(Summary { run: self.run, outcomes, finished: false });
        }
        let all = self.images_done(seeds.len(), TrainCursor::default());
        let mut pace = RateMeter::new(all, self.images_done(seeds_done, position));
        for (index, &seed) in seeds.iter().enumerate().skip(seeds_done) {
            let mut trainers = self.trainers(seed, std::mem::take(&mut saved))?;
            let end = self.train_seed((index, seed), position, &mut trainers, &outcomes, &mut pace, tell)?;
            let finished = end.epoch >= config.epochs || all_failed(&trainers);
            outcomes.extend(trainers.iter().map(|trainer| Outcome::from_trainer(trainer, seed)));
            let state = || checkpoint(index, end, &trainers);
            let files = || -> Result<(), TrainingError> {
                self.write_seed(seed, &trainers, end, &outcomes)?;
                let done = || Checkpoint { seeds_done: index + 1, ..Checkpoint::default() };
                Ok(self.run.save(&if finished { done() } else { state() })?)
            };
            self.write(&state, &files, tell)?;
            if !finished {
                return Ok(Summary { run: self.run, outcomes, finished });
            }
            position = TrainCursor::default();
            if pace.without(|| tell(Event::Seed)).is_break() && index + 1 < seeds.len() {
                return Ok(Summary { run: self.run, outcomes, finished: false });
            }
        }
        Ok(Summary { run: self.run, outcomes, finished: true })
    }

    /// Number of images trained on up to a position within the seed number `index`, from 0.
    fn images_done(&self, index: usize, position: TrainCursor) -> usize {
        let (images, config) = (self.parts.train.images.len(), self.plan.settings.config());
        let of_epoch = (position.step * config.batch).min(images);
        (index * config.epochs + position.epoch) * images + of_epoch
    }

    /// Trains the heads of a seed, whose number `index` counts from 0, from the position `last` on, until they are done or the callback
    /// stops them; returns the position reached. `before` are the outcomes of the seeds before. Tokens whose disk does not answer are
    /// waited for: the heads go on from their last step.
    fn train_seed(
        &self,
        (index, seed): (usize, u64),
        mut last: TrainCursor,
        trainers: &mut [HeadTrainer],
        before: &[Outcome],
        pace: &mut RateMeter,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<TrainCursor, TrainingError> {
        let config = self.plan.settings.config();
        let task = self.task(&config, seed);
        let (mut kept, mut retries, mut asked) = (Instant::now(), Retries::default(), String::new());
        loop {
            let begun = last;
            let mut receive = |event: train::Event| -> Result<ControlFlow<()>, TrainingError> {
                self.lock.beat()?;
                Ok(match event {
                    train::Event::Step { position, steps, trainers } => {
                        let progress = pace.at(self.images_done(index, position));
                        last = position;
                        // An epoch may take hours; a kill should cost minutes.
                        if kept.elapsed() > CHECKPOINT_INTERVAL {
                            let state = || checkpoint(index, position, trainers);
                            self.write(&state, &|| Ok(self.run.save(&state())?), tell)?;
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
                        let tables = || self.write_tables(seed, trainers, before);
                        self.write(&|| checkpoint(index, last, trainers), &tables, tell)?;
                        pace.without(|| tell(Event::Between { seed, trainers }))
                    }
                    train::Event::Epoch { position, trainers } => {
                        let state = || checkpoint(index, position, trainers);
                        let files = || -> Result<(), TrainingError> {
                            self.write_tables(seed, trainers, before)?;
                            self.write_losses(seed, trainers)?;
                            Ok(self.run.save(&state())?)
                        };
                        self.write(&state, &files, tell)?;
                        (last, kept) = (position, Instant::now());
                        pace.without(|| tell(Event::Epoch { seed, position, trainers }))
                    }
                })
            };
            let mut failed = None;
            let end = train(&task, trainers, begun, &mut |event| {
                receive(event).unwrap_or_else(|error| {
                    failed = Some(error);
                    ControlFlow::Break(())
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            let error = match end {
                Ok(end) => return Ok(end),
                Err(error) => TrainingError::from(error),
            };
            let why = error.to_string(); // the same at every evaluation, which begin with the same image
            if last != begun || why != asked {
                (retries, asked) = (Retries::default(), why);
            }
            match self.wait(&mut retries, &error, tell)? {
                ControlFlow::Continue(true) => {}
                ControlFlow::Continue(false) => {
                    let state = || checkpoint(index, last, trainers);
                    self.write(&state, &|| Ok(self.run.save(&state())?), tell)?;
                    return Err(error);
                }
                ControlFlow::Break(()) => return Ok(last),
            }
        }
    }

    /// Writes files of the run by `write`, again and again while it waits for their disk. If they cannot be written, saves at least the
    /// `state`, from which a resumed training writes them.
    fn write(
        &self,
        state: &dyn Fn() -> Checkpoint,
        write: &dyn Fn() -> Result<(), TrainingError>,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), TrainingError> {
        let mut retries = Retries::default();
        while let Err(why) = write() {
            if self.wait(&mut retries, &why, tell)? != ControlFlow::Continue(true) {
                let _ = self.run.save(&state()); // `why` says what to do, whether or not it is saved
                return Err(why);
            }
        }
        Ok(())
    }

    /// Waits a moment if what failed because of `why` may succeed then, and returns whether to try again; breaks if the callback stops.
    fn wait(
        &self,
        retries: &mut Retries,
        why: &TrainingError,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), bool>, TrainingError> {
        self.lock.beat()?; // if another machine has taken over, nothing more may be written
        if !why.may_pass() {
            return Ok(ControlFlow::Continue(false));
        }
        let first = retries.is_new();
        Ok(tell(Event::Waiting { why, first }).map_continue(|()| retries.pause()))
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

    /// Writes the files of a seed whose training has ended at the position `end`; `outcomes` are those of all seeds so far.
    fn write_seed(
        &self,
        seed: u64,
        trainers: &[HeadTrainer],
        end: TrainCursor,
        outcomes: &[Outcome],
    ) -> Result<(), TrainingError> {
        self.write_probes(seed, trainers, end)?;
        self.write_losses(seed, trainers)?;
        let mut own = outcomes.iter().filter(|outcome| outcome.seed == seed);
        own.try_for_each(|outcome| self.run.write_outcome(outcome))?;
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
