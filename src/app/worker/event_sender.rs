//! The way back: events, each followed by a wake-up, and how a job ends.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::Waker;
use crate::app::jobs::{Cancel, Event, JobError, JobId, Progress, Reporter, Unit};
use crate::app::log;
use crate::app::user_error::UserError;
use crate::model::io::catch_panic::contain;

#[derive(Clone)]
pub(super) struct EventSender {
    sender: SyncSender<Event>,
    waker: Waker,
}

impl EventSender {
    pub(super) fn new(sender: SyncSender<Event>, waker: Waker) -> Self {
        Self { sender, waker }
    }

    /// Tells an event; waits while there is no room for it. A window that is gone hears nothing.
    pub(super) fn tell(&self, event: Event) {
        if self.sender.send(event).is_ok() {
            self.wake();
        }
    }

    /// Tells an event if there is room for it: for a thread that must not wait.
    pub(super) fn try_tell(&self, event: Event) {
        let _ = self.sender.try_send(event);
        self.wake();
    }

    pub(super) fn wake(&self) {
        (self.waker)();
    }

    /// Runs a job from `Started` to its one end. A panic is a fault of that job alone; what it said
    /// is returned, for whoever has to clean up.
    pub(super) fn job(
        &self,
        job: JobId,
        cancel: &Cancel,
        work: impl FnOnce(JobEvents) -> Result<(), JobError>,
    ) -> Result<(), UserError> {
        if cancel.is_cancelled() {
            self.tell(Event::Cancelled(job));
            return Ok(());
        }
        self.tell(Event::Started(job));
        let events = JobEvents::new(self, job, cancel);
        match contain(|| work(events)) {
            Ok(Ok(())) => self.tell(Event::Finished(job)),
            Ok(Err(JobError::Cancelled)) => self.tell(Event::Cancelled(job)),
            Ok(Err(JobError::Failed(error))) => {
                let error = UserError::from_error(error);
                log::note(&format!("job {} failed: {error}", job.0));
                self.tell(Event::Failed(job, error));
            }
            Err(said) => return Err(UserError::from_panic(said)),
        }
        Ok(())
    }
}

/// What is told of one job.
#[derive(Clone)]
pub(super) struct JobEvents {
    pub(super) outbox: EventSender,
    pub(super) job: JobId,
    cancel: Cancel,
    /// When what is told of began.
    begun: Instant,
}

impl JobEvents {
    pub(super) fn new(outbox: &EventSender, job: JobId, cancel: &Cancel) -> Self {
        Self { outbox: outbox.clone(), job, cancel: cancel.clone(), begun: Instant::now() }
    }

    pub(super) fn progress(&self, what: impl Into<String>, done: u64, total: Option<u64>, unit: Unit) {
        let progress = Progress { what: what.into(), done, total, unit, elapsed: self.begun.elapsed() };
        self.outbox.tell(Event::Progress(self.job, progress));
    }

    pub(super) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        log::note(&format!("job {} warned: {text}", self.job.0));
        self.outbox.tell(Event::Warning { job: self.job, text });
    }
}

/// Of a job that has its thread to itself.
impl Reporter for JobEvents {
    fn begin(&mut self) {
        self.begun = Instant::now();
    }

    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit) {
        Self::progress(self, what, done, total, unit);
    }

    fn warn(&mut self, text: String) {
        Self::warn(self, text);
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}
