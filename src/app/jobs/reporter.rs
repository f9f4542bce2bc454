//! How a job reports its progress, and how it ends early.

use std::sync::Arc;

use super::engine::Engine;
use super::extract::{Event, ExtractError, out_of_memory};
use super::{Cancel, Unit};
use crate::app::jobs::user_error::UserError;
use crate::model::data::{DataError, Dataset};

/// Why a job ended early.
pub enum JobError {
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed(anyhow::Error),
}

impl JobError {
    /// The result of a job; `None` if it was cancelled.
    pub fn unless_cancelled<T>(result: Result<T, Self>) -> anyhow::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Self::Cancelled) => Ok(None),
            Err(Self::Failed(error)) => Err(error),
        }
    }

    /// The result of one part of a job, in which a failed part is an answer, not an error.
    pub fn answer<T>(part: Result<T, Self>) -> Result<Result<Arc<T>, UserError>, Self> {
        match part {
            Ok(value) => Ok(Ok(Arc::new(value))),
            Err(Self::Failed(error)) => Ok(Err(UserError::from_error(error))),
            Err(Self::Cancelled) => Err(Self::Cancelled),
        }
    }
}

/// `?` makes any error the job's failure, except that of a stopped extraction or listing, which only cancelling it stops.
impl<E: Into<anyhow::Error>> From<E> for JobError {
    fn from(error: E) -> Self {
        let error = error.into();
        let is_stopped = matches!(error.downcast_ref(), Some(ExtractError::Stopped { .. }))
            || matches!(error.downcast_ref(), Some(DataError::Stopped { .. }));
        if is_stopped { Self::Cancelled } else { Self::Failed(error) }
    }
}

/// Receives a job's progress and warnings, and may cancel it.
pub trait Reporter {
    /// Starts the clock of the progress that is reported next; `done` is what was done before.
    fn begin(&mut self, _done: u64) {}

    /// Reports how much of `what` is done.
    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit);

    /// Reports a warning; the job continues.
    fn warn(&mut self, text: String);

    /// Reports an event of token extraction, by default as progress and warnings. The caller counts images
    /// that cannot be read.
    fn extract(&mut self, event: &Event<'_>, _dataset: &Dataset) {
        report_extract(self, event);
    }

    /// The flag that cancels the job, for its other threads.
    fn cancel(&self) -> &Cancel;

    /// A point between two steps of a long job at which other jobs may use the engine. What the job had
    /// borrowed from it must be looked up again.
    ///
    /// # Errors
    /// If the job is cancelled.
    fn pause(&mut self, _engine: &mut Engine) -> Result<(), JobError> {
        self.cancel().check()
    }
}

/// Reports an event of token extraction as progress or a warning.
pub fn report_extract<R: Reporter + ?Sized>(reporter: &mut R, event: &Event<'_>) {
    match event {
        Event::Verifying { read, total } => {
            reporter.progress("Reading cached tokens", *read, Some(*total), Unit::Bytes);
        }
        Event::Progress(progress) => {
            let (done, total) = (progress.done as u64, progress.total as u64);
            reporter.progress("Extracting tokens", done, Some(total), Unit::Items);
        }
        Event::Damaged(damage) => reporter.warn(format!("Extracted again: {damage}")),
        Event::Leak(text) => reporter.warn(text.clone()),
        Event::OutOfMemory { images } => reporter.warn(out_of_memory(*images)),
        Event::Waiting { why, first: true } => reporter.warn(why.waited_for()),
        Event::Checked(_)
        | Event::Adopted { .. }
        | Event::Compared(_)
        | Event::Changed { .. }
        | Event::Unknown { .. }
        | Event::Unreadable { .. }
        | Event::LeftOut { .. } // evaluations report them themselves
        | Event::Waiting { .. }
        | Event::Done(_)
        | Event::Stopped(_) => {}
    }
}

/// A reporter of a test: what it was told, and whether the first progress cancels the job.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) begun: Vec<u64>,
    pub(super) warned: Vec<String>,
    pub(super) cancel: Cancel,
    pub(super) cancels: bool,
}

#[cfg(test)]
impl Reporter for Recorder {
    fn begin(&mut self, done: u64) {
        self.begun.push(done);
    }

    fn progress(&mut self, _: &str, _: u64, _: Option<u64>, _: Unit) {
        if self.cancels {
            self.cancel.cancel();
        }
    }

    fn warn(&mut self, text: String) {
        self.warned.push(text);
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_extraction_is_no_failure() {
        assert!(matches!(JobError::from(ExtractError::Stopped { done: 1, images: 2 }), JobError::Cancelled));
        assert!(matches!(JobError::from(ExtractError::NoCache), JobError::Failed(_)));
    }
}
