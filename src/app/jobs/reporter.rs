//! Who a job tells how it goes, and how it ends before its end.

use std::sync::Arc;

use super::engine::Engine;
use super::extract::{Event, out_of_memory};
use super::{Cancel, Unit};
use crate::app::user_error::UserError;
use crate::model::data::Dataset;

/// How a job ends before its end.
pub enum JobError {
    /// It was asked to.
    Cancelled,
    /// It could not be done.
    Failed(anyhow::Error),
}

impl JobError {
    /// An error that a job's own words cannot improve on.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(error.into())
    }

    /// What a job came to; nothing where it was ended.
    ///
    /// # Errors
    /// If it could not be done.
    pub fn unless_cancelled<T>(result: Result<T, Self>) -> anyhow::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Self::Cancelled) => Ok(None),
            Err(Self::Failed(error)) => Err(error),
        }
    }

    /// What one part of a job came to, where a part that failed is an answer, too.
    ///
    /// # Errors
    /// If the job is to end.
    pub fn answer<T>(part: Result<T, Self>) -> Result<Result<Arc<T>, UserError>, Self> {
        match part {
            Ok(value) => Ok(Ok(Arc::new(value))),
            Err(Self::Failed(error)) => Ok(Err(UserError::from_error(error))),
            Err(Self::Cancelled) => Err(Self::Cancelled),
        }
    }
}

impl From<UserError> for JobError {
    fn from(error: UserError) -> Self {
        Self::Failed(error.into())
    }
}

/// Who a job tells how it goes, and who may end it.
pub trait Reporter {
    /// What is told next has just begun: its time is counted from now.
    fn begin(&mut self) {}

    /// So much is done of `what`.
    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit);

    /// Something to know; the job goes on.
    fn warn(&mut self, text: String);

    /// Something about the tokens of a dataset that are taken: as progress and warnings, where nobody has more
    /// room for it. What cannot be read is counted by who asked.
    fn extract(&mut self, event: &Event<'_>, _dataset: &Dataset) {
        tell_extract(self, event);
    }

    /// The flag that ends the job, for whoever works on other threads.
    fn cancel(&self) -> &Cancel;

    /// Between two steps of a long job: whoever owns the thread may do something else with the engine.
    /// What the job has borrowed of it is to be asked for again.
    ///
    /// # Errors
    /// If the job is to end.
    fn pause(&mut self, _engine: &mut Engine) -> Result<(), JobError> {
        self.cancel().check()
    }
}

/// What of an event about tokens that are taken is progress, or a warning.
pub fn tell_extract<R: Reporter + ?Sized>(reporter: &mut R, event: &Event<'_>) {
    match event {
        Event::Verifying { read, total } => {
            reporter.progress("Reading kept tokens", *read, Some(*total), Unit::Bytes);
        }
        Event::Progress(progress) => {
            let (done, total) = (progress.done as u64, progress.total as u64);
            reporter.progress("Taking tokens", done, Some(total), Unit::Files);
        }
        Event::Damaged(damage) => reporter.warn(format!("Taken again: {damage}")),
        Event::OutOfMemory { images } => reporter.warn(out_of_memory(*images)),
        Event::Looked(_)
        | Event::Adopted { .. }
        | Event::Compared(_)
        | Event::Changed { .. }
        | Event::Unknown { .. }
        | Event::Unreadable { .. }
        | Event::Done(_)
        | Event::Stopped { .. } => {}
    }
}
