//! Who a job tells how it goes, and how it ends before its end.

use std::path::Path;

use super::engine::Engine;
use super::{Cancel, Unit};
use crate::app::user_error::UserError;

/// How a job ends before its end.
pub enum JobError {
    /// It was asked to.
    Cancelled,
    /// It could not be done.
    Failed(anyhow::Error),
}

impl JobError {
    /// An error that a job's own words cannot improve on.
    pub fn of(error: impl Into<anyhow::Error>) -> Self {
        Self::Failed(error.into())
    }

    /// The fault of a file, with what to do if it has vanished.
    pub fn of_file(path: &Path, error: impl Into<anyhow::Error>) -> UserError {
        let fault = UserError::from_error(error);
        match path.try_exists() {
            Ok(false) => fault.remedy("The file is no longer there: put it back, or close its entry"),
            _ => fault,
        }
    }
}

impl From<UserError> for JobError {
    fn from(fault: UserError) -> Self {
        Self::Failed(fault.into())
    }
}

/// Who a job tells how it goes, and who may end it.
pub trait Reporter {
    /// What is told next has just begun: its time is counted from now.
    fn begin(&mut self);

    /// So much is done of `what`.
    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit);

    /// Something to know; the job goes on.
    fn warn(&mut self, text: String);

    /// The flag that ends the job, for whoever works on other threads.
    fn cancel(&self) -> &Cancel;

    /// Between two steps of a long job: whoever owns the thread may do something else with the engine.
    /// What the job has borrowed of it is to be asked for again.
    ///
    /// # Errors
    /// If the job is to end.
    fn pause(&mut self, engine: &mut Engine) -> Result<(), JobError>;
}
