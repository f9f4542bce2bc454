//! What the window hears of a training, not more often than anyone looks.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::event_sender::JobEvents;
use crate::app::format;
use crate::app::jobs::extract;
use crate::app::jobs::history::{Failure, Steps, disk};
use crate::app::jobs::train::{self, Summary};
use crate::app::jobs::training::{TrainDelta, TrainEvent};
use crate::app::jobs::{Event, JobError, Progress, Unit};
use crate::app::rate;
use crate::model::train::run::{Metric, ProbeCheckpoint};
use crate::model::train::{HeadTrainer, Running, TrainCursor};

/// How often the window hears of steps.
const MIN_INTERVAL: Duration = Duration::from_millis(80);
/// Unreadable images told one by one; the others are counted.
const UNREADABLE: usize = 5;

/// Tells the window how a training goes, not more often than anyone looks.
pub(super) struct Report {
    events: JobEvents,
    epochs: usize,
    /// Sums of every head as they were told last, and where that was, in epochs.
    before: Vec<Running>,
    from: f64,
    /// What is to be told.
    went: TrainDelta,
    progress: Option<Progress>,
    told: Instant,
    unreadable: usize,
}

impl Report {
    pub(super) fn new(events: JobEvents, epochs: usize) -> Self {
        Self {
            events,
            epochs,
            before: Vec::new(),
            from: 0.0,
            went: nothing(),
            progress: None,
            told: Instant::now(),
            unreadable: 0,
        }
    }

    pub(super) fn hear(&mut self, event: train::Event<'_>) {
        match event {
            train::Event::Plan { tokens, .. } if !tokens.complete() => {
                let what = format!("Taking tokens, {}", format::bytes(tokens.missing()));
                self.events.progress(what, tokens.done as u64, Some(tokens.images as u64), Unit::Files);
            }
            train::Event::Extract { event: extract::Event::Progress(progress), .. } => {
                self.advance("Taking tokens".into(), progress);
            }
            train::Event::Extract { event: extract::Event::Looked(progress), .. } => {
                self.advance("Looking at the images".into(), progress);
            }
            train::Event::Extract { event: extract::Event::Verifying { read, total }, .. } => {
                self.events.progress("Reading kept tokens", read, Some(total), Unit::Bytes);
            }
            train::Event::Extract { event: extract::Event::Damaged(damage), .. } => {
                self.events.warn(format!("Taken again: {damage}"));
            }
            train::Event::Extract { event: extract::Event::Unreadable { sample, why }, dataset } => {
                self.unreadable += 1;
                match self.unreadable {
                    ..=UNREADABLE => {
                        let name = dataset.samples[sample].source.name();
                        self.events.warn(format!("Left out: {name}: {why}"));
                    }
                    count if count == UNREADABLE + 1 => self.events.warn("More images are left out"),
                    _ => {}
                }
            }
            train::Event::Begin { run, .. } => {
                self.flush();
                // What cannot be read again will be told by the training itself.
                if let Ok(snapshot) = disk::read(run.folder()) {
                    self.tell(TrainEvent::Begun(snapshot.into()));
                }
            }
            train::Event::Step { seed, position, steps, trainers, progress } => {
                let what = format!("Seed {seed}, epoch {} of {}", position.epoch + 1, self.epochs);
                self.step(seed, position, steps, trainers);
                self.advance(what, progress);
            }
            train::Event::Between { seed, trainers } => {
                for trainer in trainers.iter().filter(|trainer| trainer.progress.failure.is_none()) {
                    let (head, epoch) = (trainer.name.clone(), trainer.progress.between.last().cloned());
                    self.went.epochs.extend(epoch.map(|epoch| Metric { head, seed, epoch }));
                }
                self.flush_now_and_then();
            }
            train::Event::Epoch { seed, trainers, .. } => {
                self.epoch(seed, trainers);
                self.flush_now_and_then();
            }
            train::Event::Evaluation => self.flush_now_and_then(),
            train::Event::Seed(_) => self.flush(),
            // What is left: the end of taking tokens, and comparing images, which the window does not ask for.
            train::Event::Plan { .. } | train::Event::Extract { .. } => {}
        }
    }

    /// Adds the steps since the window heard of some, once it is to hear again.
    fn step(&mut self, seed: u64, position: TrainCursor, steps: usize, trainers: &[HeadTrainer]) {
        let at = position.epoch as f64 + position.step as f64 / steps as f64;
        if self.before.len() != trainers.len() || at < self.from {
            self.before = vec![Running::default(); trainers.len()];
            self.from = position.epoch as f64;
        }
        // The end of an epoch is told: its sums begin anew.
        if self.told.elapsed() < MIN_INTERVAL && position.step < steps {
            return;
        }
        let running = || trainers.iter().map(|trainer| trainer.progress.running);
        let losses = running().zip(&self.before).map(|(now, before)| now.loss_since(before)).collect();
        self.wait(Steps { seed, at: f64::midpoint(self.from, at), losses });
        (self.before, self.from) = (running().collect(), at);
    }

    /// Steps that wait to be told are told before others join them.
    fn wait(&mut self, steps: Steps) {
        if self.went.steps.is_some() {
            self.flush();
        }
        self.went.steps = Some(steps);
    }

    fn epoch(&mut self, seed: u64, trainers: &[HeadTrainer]) {
        for trainer in trainers {
            let head = trainer.name.clone();
            match (&trainer.progress.failure, trainer.progress.history.last()) {
                (Some(why), _) => self.went.failures.push(Failure { head, seed, why: why.clone() }),
                (None, Some(epoch)) => self.went.epochs.push(Metric { head, seed, epoch: epoch.clone() }),
                (None, None) => {}
            }
        }
    }

    fn advance(&mut self, what: String, now: rate::Progress) {
        let rate::Progress { done, total, rate, left } = now;
        (self.went.rate, self.went.left) = (rate, left);
        // The time all of it would have taken at this speed, so that what is left follows from it.
        let elapsed = Duration::try_from_secs_f64(done as f64 / rate.max(1e-9)).unwrap_or_default();
        let (done, total) = (done as u64, Some(total as u64));
        self.progress = Some(Progress { what, done, total, unit: Unit::Files, elapsed });
        self.flush_now_and_then();
    }

    fn flush_now_and_then(&mut self) {
        if self.told.elapsed() >= MIN_INTERVAL {
            self.flush();
        }
    }

    /// Tells what waits to be told.
    pub(super) fn flush(&mut self) {
        self.told = Instant::now();
        if let Some(progress) = self.progress.take() {
            self.events.outbox.tell(Event::Progress(self.events.job, progress));
        }
        let TrainDelta { rate, left, .. } = self.went;
        let went = std::mem::replace(&mut self.went, TrainDelta { rate, left, ..nothing() });
        if went.steps.is_some() || !went.epochs.is_empty() || !went.failures.is_empty() {
            self.tell(TrainEvent::Went(Box::new(went)));
        }
    }

    /// The training is over: what came of it, in the folder `out`.
    pub(super) fn end(&self, summary: &Summary, out: &Path) -> Result<(), JobError> {
        self.probes(disk::probes(out));
        let failures = summary.outcomes.iter().filter_map(|outcome| {
            let (head, seed) = (outcome.head.clone(), outcome.seed);
            Some(Failure { head, seed, why: outcome.failure.clone()? })
        });
        let (finished, failures) = (summary.finished, failures.collect());
        self.tell(TrainEvent::Ended { finished, failures });
        if finished { Ok(()) } else { Err(JobError::Cancelled) }
    }

    /// A stopped or finished training has written these.
    fn probes(&self, mut probes: Vec<(PathBuf, SystemTime)>) {
        // The best of a head first: it is what one looks at.
        let last = |path: &Path| {
            path.file_stem()
                .is_some_and(|stem| stem.to_string_lossy().ends_with(ProbeCheckpoint::Last.name()))
        };
        probes.sort_by_key(|(path, _)| last(path));
        self.tell(TrainEvent::Probes(probes));
    }

    fn tell(&self, news: TrainEvent) {
        self.events.outbox.tell(Event::Training { job: self.events.job, news });
    }
}

fn nothing() -> TrainDelta {
    let (steps, epochs, failures) = (None, Vec::new(), Vec::new());
    TrainDelta { steps, epochs, failures, rate: 0.0, left: Duration::ZERO }
}
