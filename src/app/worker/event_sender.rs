//! Sending events from the worker's threads to the front end, each followed by a wake-up, and the life cycle of a job.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::Waker;
use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Cancel, Clock, Event, JobError, JobId, Reporter, Unit};
use crate::app::log;
use crate::model::io::catch_panic::catch_own;

/// The sending end of the event queue, and the wake-up of its reader.
#[derive(Clone)]
pub(super) struct EventSender {
    sender: SyncSender<Event>,
    waker: Waker,
    /// Whether events go over a connection, on which a long one holds up the others.
    is_remote: bool,
}

impl EventSender {
    pub(super) fn new(sender: SyncSender<Event>, waker: Waker, is_remote: bool) -> Self {
        Self { sender, waker, is_remote }
    }

    /// How long a run is left alone after this reading of it.
    pub(super) fn reread_delay(&self, snapshot: &RunSnapshot) -> Duration {
        if self.is_remote { snapshot.reread_delay() } else { Duration::ZERO }
    }

    /// Sends an event; blocks while the queue is full. Does nothing if the receiver was dropped.
    pub(super) fn send(&self, event: Event) {
        if self.sender.send(event).is_ok() {
            (self.waker)();
        }
    }

    /// Sends an event if the queue has room, else drops it: for a thread that must not block.
    pub(super) fn try_send(&self, event: Event) {
        let _ = self.sender.try_send(event);
        (self.waker)();
    }

    /// Runs a job and sends [`Event::Started`] and its end: finished, failed or cancelled. If it panics, returns the error
    /// without sending an end: the caller sends it after cleaning up.
    pub(super) fn run_job(
        &self,
        job: JobId,
        cancel: &Cancel,
        work: impl FnOnce(JobEvents) -> Result<(), JobError>,
    ) -> Result<(), UserError> {
        if cancel.is_cancelled() {
            self.send(Event::Cancelled(job));
            return Ok(());
        }
        self.send(Event::Started(job));
        let events = JobEvents::new(self, job, cancel);
        match catch_own(|| work(events)) {
            Ok(Ok(())) => self.send(Event::Finished(job)),
            Ok(Err(JobError::Cancelled)) => self.send(Event::Cancelled(job)),
            Ok(Err(JobError::Failed(error))) => {
                self.fail(job, UserError::from_error(error));
            }
            Err(message) => return Err(UserError::from_panic(message)),
        }
        Ok(())
    }

    /// Ends a job with an error, which a crash report shows, too.
    pub(super) fn fail(&self, job: JobId, error: UserError) {
        log::note(&format!("job {} failed: {error}", job.0));
        self.send(Event::Failed(job, error));
    }
}

#[derive(Clone)]
pub(super) struct JobEvents {
    pub(super) sender: EventSender,
    pub(super) job: JobId,
    cancel: Cancel,
    pub(super) clock: Clock,
}

impl JobEvents {
    pub(super) fn new(sender: &EventSender, job: JobId, cancel: &Cancel) -> Self {
        Self { sender: sender.clone(), job, cancel: cancel.clone(), clock: Clock::start(0) }
    }

    /// Sends an event of a training, or of its preflight or tasks.
    pub(super) fn training(&self, event: TrainEvent) {
        self.sender.send(Event::Training { job: self.job, event });
    }
}

/// For a job that has its thread to itself, which answers no requests in its middle.
impl Reporter for JobEvents {
    fn begin(&mut self, done: u64) {
        self.clock = Clock::start(done);
    }

    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit) {
        self.sender.send(Event::Progress(self.job, self.clock.progress(what, done, total, unit)));
    }

    fn warn(&mut self, text: String) {
        log::note(&format!("job {} warned: {text}", self.job.0));
        self.sender.send(Event::Warning { job: self.job, text });
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_job_that_was_cancelled_before_its_turn_does_not_begin() {
        let (sender, events) = sync_channel(4);
        let (sender, cancel) = (EventSender::new(sender, Arc::new(|| ()), false), Cancel::default());
        cancel.cancel();
        assert!(sender.run_job(JobId(1), &cancel, |_| panic!("it began")).is_ok());
        assert!(matches!(events.try_iter().collect::<Vec<_>>()[..], [Event::Cancelled(JobId(1))]));
    }
}
