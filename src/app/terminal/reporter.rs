//! The reporter of a verb's job: progress goes to standard error, and Ctrl-C cancels the job.

use super::interrupt;
use super::progress::Display;
use crate::app::jobs::extract;
use crate::app::jobs::{Cancel, Clock, JobError, Reporter, Unit};
use crate::model::data::Dataset;

pub struct TerminalReporter {
    /// The bar and the lines.
    pub display: Display,
    clock: Clock,
}

impl TerminalReporter {
    pub fn new() -> Self {
        Self { display: Display::new(), clock: Clock::start(0) }
    }

    /// Removes the bar and returns the result of a job: `None` if it was cancelled, its error if it failed.
    pub fn end<T>(&self, result: Result<T, JobError>) -> anyhow::Result<Option<T>> {
        self.display.clear();
        JobError::unless_cancelled(result)
    }
}

impl Reporter for TerminalReporter {
    fn begin(&mut self, done: u64) {
        self.clock = Clock::start(done);
        self.display.begin();
    }

    fn progress(&mut self, what: &str, done: u64, total: Option<u64>, unit: Unit) {
        self.display.count(&self.clock.progress(what, done, total, unit));
    }

    fn warn(&mut self, text: String) {
        self.display.say(&format!("warning: {text}"));
    }

    fn extract(&mut self, event: &extract::Event<'_>, dataset: &Dataset) {
        self.display.extract(event, dataset);
    }

    fn cancel(&self) -> &Cancel {
        interrupt::cancel()
    }
}
