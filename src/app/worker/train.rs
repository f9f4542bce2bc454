//! Training on the compute thread. Between two steps the thread answers what waits: a look never
//! waits for longer than a step takes. A training that rests gives no steps and answers on.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::compute::Compute;
use super::event_sender::{EventSender, JobExit, JobReporter, failed, go_on};
use crate::app::format;
use crate::app::jobs::extract::{self, ExtractError};
use crate::app::jobs::history::{Failure, Steps, disk};
use crate::app::jobs::train::{self, Estimate, StepTiming, TrainPlan, TrainingError};
use crate::app::jobs::training::{TrainDelta, TrainEvent, TrainRequest, Tried};
use crate::app::jobs::{Cancel, Event, JobId, Progress, Unit};
use crate::app::rate;
use crate::model::train::run::{Metric, ProbeCheckpoint};
use crate::model::train::{HeadTrainer, Running, TrainCursor};

/// How often the window hears of steps.
const TOLD: Duration = Duration::from_millis(80);
/// Unreadable images told one by one; the others are counted.
const UNREADABLE: usize = 5;
/// Images a step is tried on at most, so that trying takes no minute where a step does.
const BATCH: usize = 256;

impl Compute {
    pub(super) fn training(
        &mut self,
        clock: &JobReporter<'_>,
        ask: TrainRequest,
        cancel: &Cancel,
    ) -> Result<(), JobExit> {
        match ask {
            TrainRequest::Time(tried) => self.time(clock, &tried, cancel),
            TrainRequest::Train { order, out, resume } => {
                let mut report = Report::new(clock, &order);
                let open = self.world.device;
                let ended = train::start_on(open, &order, &out, resume, &mut |event| {
                    report.hear(event);
                    self.breathe(clock.job, cancel)
                });
                report.flush();
                let summary = match ended {
                    Err(TrainingError::Extract(ExtractError::Stopped { .. })) => {
                        return Err(JobExit::Cancelled);
                    }
                    ended => ended.map_err(failed)?,
                };
                report.probes(disk::probes(&out));
                let failures = summary.outcomes.iter().filter_map(|outcome| {
                    let (head, seed) = (outcome.head.clone(), outcome.seed);
                    Some(Failure { head, seed, why: outcome.failure.clone()? })
                });
                let (finished, failures) = (summary.finished, failures.collect());
                report.tell(TrainEvent::Ended { finished, failures });
                if finished { Ok(()) } else { Err(JobExit::Cancelled) }
            }
            TrainRequest::Plan(_) | TrainRequest::Begin(_) | TrainRequest::Resume { .. } => Ok(()),
        }
    }

    /// Tries steps and images to say how long a training takes.
    fn time(&mut self, clock: &JobReporter<'_>, tried: &Tried, cancel: &Cancel) -> Result<(), JobExit> {
        let Tried { order, facts, plan, samples } = tried;
        let choice = (self.world.device)(&order.device).map_err(failed)?;
        let job = clock.job;
        let image = match samples.is_empty() {
            true => None,
            false => plan.time(samples, &choice.device).map_err(failed)?,
        };
        let mut trial = {
            self.between(job, cancel)?;
            let images = order.protocol.batch.min(facts.train).min(BATCH);
            StepTiming::new(order, facts.dims, images, &choice.device).map_err(failed)?
        };
        trial.prepare();
        self.between(job, cancel)?;
        let step = trial.step();
        self.between(job, cancel)?;
        let estimate = Estimate { image, step, evaluation: trial.evaluation(), tried: trial.images() };
        go_on(cancel)?;
        clock.outbox.tell(Event::Training { job, news: TrainEvent::Timed(estimate) });
        Ok(())
    }

    fn between(&mut self, job: JobId, cancel: &Cancel) -> Result<(), JobExit> {
        match self.breathe(job, cancel) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(JobExit::Cancelled),
        }
    }

    /// Answers what waits; breaks where the job is to end. A job that rests stays here.
    fn breathe(&mut self, job: JobId, cancel: &Cancel) -> ControlFlow<()> {
        let mut rested = false;
        loop {
            if cancel.is_cancelled() || self.closing.is_cancelled() {
                return ControlFlow::Break(());
            }
            let rests = self.rests(job);
            if rests != rested {
                rested = rests;
                self.outbox.tell(Event::Training { job, news: TrainEvent::Paused(rests) });
            }
            if !self.serve(rests) {
                return ControlFlow::Continue(());
            }
        }
    }
}

/// Tells the window how a training goes, not more often than anyone looks.
struct Report<'a> {
    clock: &'a JobReporter<'a>,
    outbox: EventSender,
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

impl<'a> Report<'a> {
    fn new(clock: &'a JobReporter<'a>, order: &TrainPlan) -> Self {
        Self {
            clock,
            outbox: clock.outbox.clone(),
            epochs: order.protocol.epochs,
            before: Vec::new(),
            from: 0.0,
            went: nothing(),
            progress: None,
            told: Instant::now(),
            unreadable: 0,
        }
    }

    fn hear(&mut self, event: train::Event<'_>) {
        match event {
            train::Event::Plan { tokens, .. } if !tokens.complete() => {
                let what = format!("Taking tokens, {}", format::bytes(tokens.missing()));
                self.clock.progress(what, tokens.done as u64, Some(tokens.images as u64), Unit::Files);
            }
            train::Event::Extract { event: extract::Event::Progress(progress), .. } => {
                self.advance("Taking tokens".into(), progress);
            }
            train::Event::Extract { event: extract::Event::Looked(progress), .. } => {
                self.advance("Looking at the images".into(), progress);
            }
            train::Event::Extract { event: extract::Event::Verifying { read, total }, .. } => {
                self.clock.progress("Reading kept tokens", read, Some(total), Unit::Bytes);
            }
            train::Event::Extract { event: extract::Event::Damaged(damage), .. } => {
                self.clock.warn(format!("Taken again: {damage}"));
            }
            train::Event::Extract { event: extract::Event::Unreadable { sample, why }, dataset } => {
                self.unreadable += 1;
                match self.unreadable {
                    ..=UNREADABLE => {
                        let name = dataset.samples[sample].source.name();
                        self.clock.warn(format!("Left out: {name}: {why}"));
                    }
                    count if count == UNREADABLE + 1 => self.clock.warn("More images are left out"),
                    _ => {}
                }
            }
            train::Event::Begin { run, .. } => {
                self.flush();
                // What cannot be read again will be told by the training itself.
                if let Ok(reading) = disk::read(run.folder()) {
                    self.tell(TrainEvent::Begun(reading.into()));
                }
            }
            train::Event::Step { seed, position, steps, learners, progress } => {
                let what = format!("Seed {seed}, epoch {} of {}", position.epoch + 1, self.epochs);
                self.step(seed, position, steps, learners);
                self.advance(what, progress);
            }
            train::Event::Epoch { seed, learners, .. } => {
                self.epoch(seed, learners);
                self.flush_now_and_then();
            }
            train::Event::Evaluation => self.flush_now_and_then(),
            train::Event::Seed(_) => self.flush(),
            // What is left: the end of taking tokens, and comparing images, which the window does not ask for.
            train::Event::Plan { .. } | train::Event::Extract { .. } => {}
        }
    }

    /// Adds the steps since the window heard of some, once it is to hear again.
    fn step(&mut self, seed: u64, position: TrainCursor, steps: usize, learners: &[HeadTrainer]) {
        let at = position.epoch as f64 + position.step as f64 / steps as f64;
        if self.before.len() != learners.len() || at < self.from {
            self.before = vec![Running::default(); learners.len()];
            self.from = position.epoch as f64;
        }
        // The end of an epoch is told: its sums begin anew.
        if self.told.elapsed() < TOLD && position.step < steps {
            return;
        }
        let running = || learners.iter().map(|learner| learner.running);
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

    fn epoch(&mut self, seed: u64, learners: &[HeadTrainer]) {
        for learner in learners {
            let head = learner.name.clone();
            match (&learner.failure, learner.history.last()) {
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
        if self.told.elapsed() >= TOLD {
            self.flush();
        }
    }

    /// Tells what waits to be told.
    fn flush(&mut self) {
        self.told = Instant::now();
        if let Some(progress) = self.progress.take() {
            self.outbox.tell(Event::Progress(self.clock.job, progress));
        }
        let TrainDelta { rate, left, .. } = self.went;
        let went = std::mem::replace(&mut self.went, TrainDelta { rate, left, ..nothing() });
        if went.steps.is_some() || !went.epochs.is_empty() || !went.failures.is_empty() {
            self.tell(TrainEvent::Went(Box::new(went)));
        }
    }

    /// A stopped or finished training has written these.
    fn probes(&self, mut probes: Vec<(std::path::PathBuf, std::time::SystemTime)>) {
        // The best of a head first: it is what one looks at.
        let last = |path: &std::path::Path| {
            path.file_stem()
                .is_some_and(|stem| stem.to_string_lossy().ends_with(ProbeCheckpoint::Last.name()))
        };
        probes.sort_by_key(|(path, _)| last(path));
        self.tell(TrainEvent::Probes(probes));
    }

    fn tell(&self, news: TrainEvent) {
        self.outbox.tell(Event::Training { job: self.clock.job, news });
    }
}

fn nothing() -> TrainDelta {
    let (steps, epochs, failures) = (None, Vec::new(), Vec::new());
    TrainDelta { steps, epochs, failures, rate: 0.0, left: Duration::ZERO }
}
