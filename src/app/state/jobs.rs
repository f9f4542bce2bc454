//! Jobs under way or failed, short notes, and the log.

use super::State;
use crate::app::jobs::{Event, JobId, Progress};
use crate::app::user_error::UserError;

/// Notes shown at once; older ones are in the log.
const TOASTS: usize = 5;
/// Entries of the log that are kept.
const LOGGED: usize = 1000;

/// Something the worker does, or failed to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// What, as a person reads it.
    pub title: String,
    /// What kind of thing.
    pub kind: JobKind,
    /// Whether the worker has begun.
    pub started: bool,
    /// How far it is.
    pub progress: Option<Progress>,
    /// Why it failed.
    pub fault: Option<UserError>,
    /// Whether it was asked to end early.
    pub cancelling: bool,
}

/// What kind of thing a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Opens something of the library.
    Open,
    /// Lists or recognises files.
    List,
    /// Explains the columns.
    Look,
    /// Says what a training would come to.
    Plan,
    /// Trains.
    Train,
    /// Asks probes about a dataset.
    Survey,
    /// Measures how stable an order is.
    Stability,
}

/// How much a note weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something failed.
    Error,
}

/// A short note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// Its number.
    pub id: u64,
    /// How much it weighs.
    pub weight: Severity,
    /// What it says.
    pub text: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// How much it weighs.
    pub weight: Severity,
    /// What it says, all of it.
    pub text: String,
}

impl State {
    /// The log as text, the oldest entry first.
    pub fn log_text(&self) -> String {
        let word = |weight| match weight {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        self.log.iter().map(|entry| format!("{}: {}\n", word(entry.weight), entry.text)).collect()
    }

    /// Begins a job. That the same failed before is no longer news.
    pub(super) fn begin(&mut self, kind: JobKind, title: impl Into<String>) -> JobId {
        let id = JobId(self.fresh());
        let (title, started, progress, fault, cancelling) = (title.into(), false, None, None, false);
        self.jobs.retain(|_, job| job.fault.is_none() || job.title != title);
        self.jobs.insert(id, Job { title, kind, started, progress, fault, cancelling });
        id
    }

    /// Notes something, for a moment and in the log.
    pub fn note(&mut self, weight: Severity, text: impl Into<String>) {
        let text = text.into();
        self.record(weight, text.clone());
        if self.toasts.len() >= TOASTS {
            self.toasts.remove(0);
        }
        let id = self.fresh();
        self.toasts.push(Toast { id, weight, text });
    }

    /// Notes something in the log alone.
    pub(super) fn record(&mut self, weight: Severity, text: String) {
        if self.log.len() >= LOGGED {
            self.log.drain(..LOGGED / 10);
        }
        self.log.push(Logged { weight, text });
    }

    /// What an event says of its job.
    pub(super) fn follow(&mut self, event: &Event) {
        match event {
            Event::Started(job) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.started = true;
                }
            }
            Event::Progress(job, progress) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.progress = Some(progress.clone());
                }
            }
            Event::Finished(job) | Event::Cancelled(job) => {
                self.jobs.shift_remove(job);
            }
            Event::Failed(job, fault) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.fault = Some(fault.clone());
                    let text = format!("{}: {fault}", job.title);
                    self.record(Severity::Error, text);
                }
            }
            Event::Warning { text, .. } => self.note(Severity::Warning, text.clone()),
            _ => {}
        }
    }
}
