//! The compute thread: it owns the [`Engine`] and every tensor in it, and runs one job after the other. Between two
//! steps of a long job it runs the short ones that have arrived in the meantime.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::event_sender::{EventSender, JobEvents};
use super::task_queue::TaskQueue;
use super::train_report::TrainReporter;
use crate::app::jobs::engine::{BackboneSpec, Engine};
use crate::app::jobs::extract::{self, ExtractError, Messages};
use crate::app::jobs::train::{self, TimeSpec, TrainSpec, TrainingError};
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::ON_CPU;
use crate::app::jobs::{
    BackboneId, Cancel, Compute, Event, JobError, JobId, ProbeId, Reporter, Unit, report_extract,
};
use crate::model::data::Dataset;

/// A message to the thread.
pub(super) enum Task {
    Run(Job),
    /// The job's flag is set already: this wakes a paused training, and ends a deferred job.
    Cancel(JobId),
    Pause(JobId, bool),
    CloseBackbone(BackboneId),
    CloseProbe(ProbeId),
}

/// A job, and the flag that ends it.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) kind: Kind,
    pub(super) cancel: Cancel,
}

/// What a job computes: a request as it came, or one that the fetch thread has prepared.
pub(super) enum Kind {
    Compute(Compute),
    OpenBackbone(BackboneSpec),
    Time(Box<TimeSpec>),
    Train(Box<TrainSpec>),
}

impl Kind {
    /// Whether short jobs are run between its steps; it is itself never run inside another job.
    fn is_long(&self) -> bool {
        match self {
            Self::Time(_) | Self::Train(_) => true,
            Self::Compute(request) => request.is_long(),
            Self::OpenBackbone(_) => false,
        }
    }

    /// The name of the device that it uses, if any.
    fn device(&self, engine: &Engine) -> Option<String> {
        match self {
            Self::OpenBackbone(spec) => Some(spec.device.clone()),
            Self::Train(spec) => Some(spec.plan.settings.device.clone()),
            Self::Time(spec) => Some(spec.plan.settings.device.clone()),
            Self::Compute(request) => engine.device().filter(|_| request.needs_device()).map(str::to_owned),
        }
    }
}

/// The state of the thread: waiting tasks, and the sender of events.
pub(super) struct Queue {
    sender: EventSender,
    /// Set when the worker shuts down: no more tasks are begun.
    closing: Cancel,
    tasks: Arc<TaskQueue<Task>>,
    /// Long jobs that came while another was running.
    deferred: VecDeque<Job>,
    paused: HashSet<JobId>,
}

impl Queue {
    pub(super) fn new(sender: EventSender, closing: Cancel, tasks: Arc<TaskQueue<Task>>) -> Self {
        Self { sender, closing, tasks, deferred: VecDeque::new(), paused: HashSet::new() }
    }

    /// Handles tasks until the worker shuts down.
    pub(super) fn run(mut self, mut engine: Engine) {
        loop {
            let deferred = self.deferred.pop_front().map(Task::Run);
            match deferred.or_else(|| self.tasks.recv()) {
                Some(task) if !self.closing.is_cancelled() => self.handle(&mut engine, task),
                _ => return,
            }
        }
    }

    fn handle(&mut self, engine: &mut Engine, task: Task) {
        match task {
            Task::Run(job) => self.run_job(engine, job),
            Task::Cancel(job) => {
                let index = self.deferred.iter().position(|deferred| deferred.id == job);
                if let Some(job) = index.and_then(|index| self.deferred.remove(index)) {
                    self.run_job(engine, job);
                }
            }
            Task::Pause(job, true) => drop(self.paused.insert(job)),
            Task::Pause(job, false) => drop(self.paused.remove(&job)),
            Task::CloseBackbone(entry) => engine.close_backbone(entry),
            Task::CloseProbe(entry) => engine.close_probe(entry),
        }
    }

    /// Handles one task inside a long job, waiting for it if `blocking`; returns whether there was one. Defers long jobs.
    fn handle_next(&mut self, engine: &mut Engine, blocking: bool) -> bool {
        let timeout = if blocking { Duration::MAX } else { Duration::ZERO };
        match self.tasks.recv_timeout(timeout) {
            Ok(Task::Run(job)) if job.kind.is_long() && !job.cancel.is_cancelled() => {
                self.deferred.push_back(job);
            }
            Ok(task) if !self.closing.is_cancelled() => self.handle(engine, task),
            Ok(_) => {}
            Err(_) => return false,
        }
        true
    }

    fn run_job(&mut self, engine: &mut Engine, Job { id, kind, cancel }: Job) {
        let (sender, device) = (self.sender.clone(), kind.device(engine));
        let is_verb = matches!(&kind, Kind::Compute(request) if request.is_verb());
        let messages = is_verb.then(Messages::default);
        let done = sender.run_job(id, &cancel, |events| {
            run(engine, kind, &mut QueueReporter { queue: self, events, messages })
        });
        self.paused.remove(&id);
        if let Err(error) = done {
            // A panic on a device may leave the device unusable.
            let remedy = match device.as_deref() {
                Some("cpu") | None => {
                    "The program keeps running. Try again; if it happens again, copy the log and report it"
                }
                Some(_) => ON_CPU,
            };
            if device.is_some() {
                engine.recover();
            }
            sender.fail(id, error.remedy(remedy));
        }
    }
}

/// Runs a job and sends its result.
fn run(engine: &mut Engine, kind: Kind, reporter: &mut QueueReporter<'_>) -> Result<(), JobError> {
    let job = reporter.events.job;
    let found = match kind {
        Kind::OpenBackbone(spec) => {
            let entry = spec.entry;
            Event::BackboneOpened { job, entry, info: engine.open_backbone(spec, reporter)? }
        }
        Kind::Compute(request) => {
            let sender = reporter.events.sender.clone();
            return request.run(job, engine, reporter, &|event| {
                sender.send(event);
                Ok(())
            });
        }
        Kind::Time(spec) => {
            let estimate = train::time(engine, &spec, reporter)?;
            Event::Training { job, event: TrainEvent::Timed(estimate) }
        }
        Kind::Train(spec) => {
            let mut report = TrainReporter::new(reporter.events.clone(), spec.plan.settings.epochs);
            let summary = train::run(engine.env.device, &spec, &mut |event| {
                report.receive(event);
                if reporter.pause(engine).is_err() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            report.flush();
            let summary = summary.map_err(|error| match error {
                TrainingError::Extract(ExtractError::Stopped { .. }) => JobError::Cancelled,
                other => other.into(),
            });
            return report.end(&summary?, &spec.out);
        }
    };
    reporter.events.sender.send(found);
    Ok(())
}

/// Reports the progress of a job on the compute thread, and handles other tasks between its steps.
struct QueueReporter<'a> {
    queue: &'a mut Queue,
    events: JobEvents,
    /// Messages about token extraction, for jobs of the command line, which gets them in no other way.
    messages: Option<Messages>,
}

impl Reporter for QueueReporter<'_> {
    fn begin(&mut self, done: u64) {
        self.events.begin(done);
    }

    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit) {
        self.events.progress(what, done, total, unit);
    }

    fn warn(&mut self, text: String) {
        self.events.warn(text);
    }

    fn extract(&mut self, event: &extract::Event<'_>, dataset: &Dataset) {
        match &mut self.messages {
            Some(messages) => messages.tell(&mut self.events, event, dataset),
            None => report_extract(&mut self.events, event),
        }
    }

    fn cancel(&self) -> &Cancel {
        self.events.cancel()
    }

    /// Handles the waiting tasks. Does not return while the job is paused.
    fn pause(&mut self, engine: &mut Engine) -> Result<(), JobError> {
        let mut was_paused = false;
        loop {
            self.events.cancel().check()?;
            self.queue.closing.check()?;
            let is_paused = self.queue.paused.contains(&self.events.job);
            if is_paused != was_paused {
                was_paused = is_paused;
                self.events.training(TrainEvent::Paused(is_paused));
            }
            if !self.queue.handle_next(engine, is_paused) && !is_paused {
                return Ok(());
            }
        }
    }
}
