//! The compute thread: it owns the [`Engine`] and every tensor in it, and does one job after the other. In
//! the middle of a long one, between two steps, it does the short ones that have come meanwhile.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::Receiver;

use super::event_sender::{EventSender, JobEvents};
use super::train_report::Report;
use crate::app::jobs::engine::{BackboneSpec, Engine};
use crate::app::jobs::extract::{self, ExtractError, Line, Messages};
use crate::app::jobs::train::{self, TimeSpec, TrainSpec, TrainingError};
use crate::app::jobs::training::TrainEvent;
use crate::app::jobs::{
    BackboneId, Cancel, Compute, Event, JobError, JobId, ProbeId, Reporter, Unit, tell_extract,
};
use crate::app::user_error::ON_CPU;
use crate::model::data::Dataset;

/// What the thread is asked.
pub(super) enum Task {
    Do(Job),
    /// The flag of the job is set already: this wakes a training that rests, and ends one that waits.
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

/// What jobs there are: what was asked of this thread, and what another has made ready for it.
pub(super) enum Kind {
    Asked(Compute),
    OpenBackbone(BackboneSpec),
    Time(Box<TimeSpec>),
    Train(Box<TrainSpec>),
}

impl Kind {
    /// Whether it takes so long that others are done in its middle, and it never in theirs.
    fn is_long(&self) -> bool {
        match self {
            Self::Time(_) | Self::Train(_) => true,
            Self::Asked(asked) => asked.is_long(),
            Self::OpenBackbone(_) => false,
        }
    }

    /// The device it is computed on, by name.
    fn device(&self, engine: &Engine) -> Option<String> {
        match self {
            Self::OpenBackbone(spec) => Some(spec.device.clone()),
            Self::Train(spec) => Some(spec.plan.settings.device.clone()),
            Self::Time(spec) => Some(spec.plan.settings.device.clone()),
            Self::Asked(asked) => engine.device().filter(|_| asked.needs_device()).map(str::to_owned),
        }
    }
}

/// What waits for the thread, and the way back.
pub(super) struct Queue {
    outbox: EventSender,
    /// Set once no more tasks are to be begun.
    closing: Cancel,
    /// Nothing only wakes.
    tasks: Receiver<Option<Task>>,
    /// Long jobs that came while another was under way.
    later: VecDeque<Job>,
    /// Trainings that are to rest.
    resting: HashSet<JobId>,
}

impl Queue {
    pub(super) fn new(outbox: EventSender, closing: Cancel, tasks: Receiver<Option<Task>>) -> Self {
        Self { outbox, closing, tasks, later: VecDeque::new(), resting: HashSet::new() }
    }

    /// Works until the other ends of the queue are gone, or it is closed.
    pub(super) fn run(mut self, mut engine: Engine) {
        loop {
            let task = match self.later.pop_front() {
                Some(job) => Ok(Some(Task::Do(job))),
                None => self.tasks.recv(),
            };
            match task {
                Ok(_) if self.closing.is_cancelled() => return,
                Ok(task) => task.into_iter().for_each(|task| self.begin(&mut engine, task)),
                Err(_) => return,
            }
        }
    }

    fn begin(&mut self, engine: &mut Engine, task: Task) {
        match task {
            Task::Do(job) => self.perform(engine, job),
            Task::Cancel(job) => {
                let waits = self.later.iter().position(|waits| waits.id == job);
                if let Some(job) = waits.and_then(|at| self.later.remove(at)) {
                    self.perform(engine, job);
                }
            }
            Task::Pause(job, true) => drop(self.resting.insert(job)),
            Task::Pause(job, false) => drop(self.resting.remove(&job)),
            Task::CloseBackbone(entry) => engine.close_backbone(entry),
            Task::CloseProbe(entry) => engine.close_probe(entry),
        }
        self.outbox.wake();
    }

    /// Begins one more task in the middle of a long job, `waiting` for one if need be; whether there
    /// was one. Another long job comes later.
    fn serve(&mut self, engine: &mut Engine, waiting: bool) -> bool {
        let task = if waiting { self.tasks.recv().ok() } else { self.tasks.try_recv().ok() };
        match task {
            Some(Some(Task::Do(job))) if job.kind.is_long() && !job.cancel.is_cancelled() => {
                self.later.push_back(job);
            }
            Some(Some(task)) if !self.closing.is_cancelled() => self.begin(engine, task),
            Some(_) => {}
            None => {
                // Nobody is left to wait for.
                self.resting.clear();
                return false;
            }
        }
        true
    }

    fn perform(&mut self, engine: &mut Engine, Job { id, kind, cancel }: Job) {
        let (outbox, device) = (self.outbox.clone(), kind.device(engine));
        let verb = matches!(kind, Kind::Asked(Compute::Eval(_) | Compute::Extract(_)));
        let words = verb.then(Messages::default);
        let done = outbox
            .job(id, &cancel, |events| run(engine, kind, &mut QueueReporter { queue: self, events, words }));
        self.resting.remove(&id);
        if let Err(error) = done {
            // What runs on a device may leave it lost.
            let remedy = match device.as_deref() {
                Some("cpu") | None => {
                    "The program goes on. Try again; if it comes back, copy the log and report it"
                }
                Some(_) => ON_CPU,
            };
            if device.is_some() {
                engine.recover();
            }
            outbox.tell(Event::Failed(id, error.remedy(remedy)));
        }
    }
}

/// Does a job and tells what it found.
fn run(engine: &mut Engine, kind: Kind, reporter: &mut QueueReporter<'_>) -> Result<(), JobError> {
    let job = reporter.events.job;
    let found = match kind {
        Kind::OpenBackbone(spec) => {
            let entry = spec.entry;
            Event::BackboneOpened { job, entry, info: engine.open_backbone(spec, reporter)? }
        }
        Kind::Asked(asked) => {
            let outbox = reporter.events.outbox.clone();
            return asked.run(job, engine, reporter, &|event| {
                outbox.tell(event);
                Ok(())
            });
        }
        Kind::Time(spec) => {
            let estimate = train::time(engine, &spec, reporter)?;
            Event::Training { job, news: TrainEvent::Timed(estimate) }
        }
        Kind::Train(spec) => {
            let mut report = Report::new(reporter.events.clone(), spec.plan.settings.epochs);
            let summary = train::run(engine.env.device, &spec, &mut |event| {
                report.hear(event);
                match reporter.pause(engine) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            report.flush();
            let summary = summary.map_err(|error| match error {
                TrainingError::Extract(ExtractError::Stopped { .. }) => JobError::Cancelled,
                other => JobError::failed(other),
            });
            return report.end(&summary?, &spec.out);
        }
    };
    reporter.events.outbox.tell(found);
    Ok(())
}

/// Tells the window how a job goes, and answers it between two steps.
struct QueueReporter<'a> {
    queue: &'a mut Queue,
    events: JobEvents,
    /// What was said of tokens that are taken, to a verb: it hears it nowhere else.
    words: Option<Messages>,
}

impl Reporter for QueueReporter<'_> {
    fn begin(&mut self) {
        self.events.begin();
    }

    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit) {
        self.events.progress(what, done, total, unit);
    }

    fn warn(&mut self, text: String) {
        self.events.warn(text);
    }

    fn extract(&mut self, event: &extract::Event<'_>, dataset: &Dataset) {
        let name = |sample: usize| dataset.samples[sample].source.name();
        match self.words.as_mut().and_then(|words| words.of(event, name)) {
            Some(Line::Warning(text) | Line::Note(text) | Line::End(text)) => self.events.warn(text),
            None => tell_extract(self, event),
        }
    }

    fn cancel(&self) -> &Cancel {
        self.events.cancel()
    }

    /// Answers what waits. A job that rests stays here.
    fn pause(&mut self, engine: &mut Engine) -> Result<(), JobError> {
        let (mut rested, job) = (false, self.events.job);
        loop {
            self.events.cancel().check()?;
            self.queue.closing.check()?;
            let rests = self.queue.resting.contains(&job);
            if rests != rested {
                rested = rests;
                self.events.outbox.tell(Event::Training { job, news: TrainEvent::Paused(rests) });
            }
            if !self.queue.serve(engine, rests) {
                return Ok(());
            }
        }
    }
}
