//! The way back: events, each followed by a wake-up, and how a job ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::Waker;
use crate::app::jobs::{Cancel, Event, JobId, Progress, Unit};
use crate::app::user_error::UserError;

/// How a job ends before its end.
pub(super) enum JobExit {
    /// It was asked to.
    Cancelled,
    /// It could not be done.
    Failed(UserError),
}

impl From<UserError> for JobExit {
    fn from(fault: UserError) -> Self {
        Self::Failed(fault)
    }
}

/// An error that a job's own words cannot improve on.
pub(super) fn failed(error: impl Into<anyhow::Error>) -> JobExit {
    JobExit::Failed(UserError::of(error))
}

/// Ends a job that was asked to.
pub(super) fn go_on(cancel: &Cancel) -> Result<(), JobExit> {
    if cancel.is_cancelled() { Err(JobExit::Cancelled) } else { Ok(()) }
}

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
        work: impl FnOnce(&JobReporter<'_>) -> Result<(), JobExit>,
    ) -> Result<(), UserError> {
        if cancel.is_cancelled() {
            self.tell(Event::Cancelled(job));
            return Ok(());
        }
        self.tell(Event::Started(job));
        let clock = JobReporter::new(self, job);
        match guard(|| work(&clock)) {
            Ok(Ok(())) => self.tell(Event::Finished(job)),
            Ok(Err(JobExit::Cancelled)) => self.tell(Event::Cancelled(job)),
            Ok(Err(JobExit::Failed(fault))) => self.tell(Event::Failed(job, fault)),
            Err(panic) => return Err(UserError::of_panic(&*panic)),
        }
        Ok(())
    }
}

/// Runs `work`; a panic ends it alone.
pub(super) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    // What a panic leaves half done is thrown away by who called, so nothing torn is seen.
    catch_unwind(AssertUnwindSafe(work))
}

/// Tells how far a job is.
pub(super) struct JobReporter<'a> {
    pub(super) outbox: &'a EventSender,
    pub(super) job: JobId,
    begun: Instant,
}

impl<'a> JobReporter<'a> {
    pub(super) fn new(outbox: &'a EventSender, job: JobId) -> Self {
        Self { outbox, job, begun: Instant::now() }
    }

    pub(super) fn progress(&self, what: impl Into<String>, done: u64, total: Option<u64>, unit: Unit) {
        let progress = Progress { what: what.into(), done, total, unit, elapsed: self.begun.elapsed() };
        self.outbox.tell(Event::Progress(self.job, progress));
    }

    pub(super) fn warn(&self, text: impl Into<String>) {
        self.outbox.tell(Event::Warning { job: self.job, text: text.into() });
    }
}
