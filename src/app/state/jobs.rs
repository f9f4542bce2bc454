//! Jobs under way or failed, short notes, and the log.

use std::path::PathBuf;

use super::State;
use super::recent::Recently;
use crate::app::jobs::{Event, JobId, Progress, Request};
use crate::app::user_error::UserError;

/// Notes shown at once; older ones are in the log.
const MAX_TOASTS: usize = 5;
/// Entries of the log that are kept.
const MAX_LOG: usize = 1000;

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
    pub error: Option<UserError>,
    /// Whether it was asked to end early.
    pub cancelling: bool,
    /// Whether the first image it lists becomes the current one: not once another was chosen.
    pub(super) selects: bool,
    /// What is remembered as used once it has come to its end.
    pub(super) recent: Vec<Recently>,
}

/// What kind of thing a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Opens something of the library.
    Open,
    /// Lists or recognises files.
    List,
    /// Looks into a folder.
    Browse,
    /// Explains the columns.
    Explain,
    /// Explains the images of a contact sheet.
    Sheet,
    /// Says what a training would come to.
    Plan,
    /// Trains.
    Train,
    /// Hands in tasks, or ends them.
    Tasks,
    /// Evaluates probes on a dataset.
    Evaluate,
    /// Measures how stable an order is.
    Stability,
    /// Removes the tokens of an image.
    Removal,
    /// Makes the images of a dataset ready to be compared.
    Similarity,
    /// Writes findings to files.
    Share,
}

/// How serious a note is.
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
    /// How serious it is.
    pub severity: Severity,
    /// What it says.
    pub text: String,
    /// What was written, for whoever wants to open it.
    pub file: Option<PathBuf>,
}

/// The note of what could not be opened.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    toast: u64,
    count: usize,
    /// Why the first of them could not.
    first: String,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// How serious it is.
    pub severity: Severity,
    /// What it says, all of it.
    pub text: String,
}

impl State {
    /// The log as text, the oldest entry first.
    pub fn log_text(&self) -> String {
        let word = |severity| match severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        self.log.iter().map(|entry| format!("{}: {}\n", word(entry.severity), entry.text)).collect()
    }

    /// How far a job is, in words. One that rests has no time left to tell.
    pub fn amounts(&self, id: JobId) -> Option<String> {
        let progress = self.jobs.get(&id)?.progress.as_ref()?;
        let rests = self.training.active.as_ref().is_some_and(|run| run.job == id && run.pausing);
        Some(if rests { format!("{}, paused", progress.counts()) } else { progress.amounts() })
    }

    /// Begins a job. That the same failed before is no longer news.
    pub(super) fn begin(&mut self, kind: JobKind, title: impl Into<String>) -> JobId {
        let id = JobId(self.fresh());
        let (title, started, progress, error) = (title.into(), false, None, None);
        self.jobs.retain(|_, job| job.error.is_none() || job.title != title);
        let (cancelling, selects, recent) = (false, true, Vec::new());
        self.jobs.insert(id, Job { title, kind, started, progress, error, cancelling, selects, recent });
        id
    }

    /// Ends a job in whose place another one comes.
    pub(super) fn replace_job(&mut self, old: JobId) -> Request {
        self.jobs.shift_remove(&old);
        Request::Cancel(old)
    }

    /// Asks the worker to end a job early.
    pub(super) fn cancel(&mut self, id: JobId) -> Option<Request> {
        if let Some(sharing) = self.sharing.take_if(|sharing| sharing.job == id) {
            self.jobs.shift_remove(&id);
            return sharing.asking().map(Request::Cancel);
        }
        let job = self.jobs.get_mut(&id).filter(|job| job.error.is_none())?;
        job.cancelling = true;
        Some(Request::Cancel(id))
    }

    /// Notes something, for a moment and in the log.
    pub fn note(&mut self, severity: Severity, text: impl Into<String>) {
        let text = text.into();
        self.record(severity, text.clone());
        if self.toasts.len() >= MAX_TOASTS {
            self.toasts.remove(0);
        }
        let id = self.fresh();
        self.toasts.push(Toast { id, severity, text, file: None });
    }

    /// Notes what could not be opened, with what to do; several in a row in one note.
    fn note_failure(&mut self, error: &UserError) {
        let reason = error.lines.join(": ");
        let remedy = error.remedy.as_deref().unwrap_or("Choose another one, or see what Jobs and log says");
        let known = self.failure.take().filter(|known| self.toasts.iter().any(|t| t.id == known.toast));
        let failure = known.map_or_else(
            || {
                let toast = self.fresh();
                if self.toasts.len() >= MAX_TOASTS {
                    self.toasts.remove(0);
                }
                let (severity, text) = (Severity::Error, format!("Could not be opened: {reason}\n{remedy}"));
                self.toasts.push(Toast { id: toast, severity, text, file: None });
                Failure { toast, count: 1, first: reason.clone() }
            },
            |known| Failure { count: known.count + 1, ..known },
        );
        if failure.count > 1
            && let Some(toast) = self.toasts.iter_mut().find(|toast| toast.id == failure.toast)
        {
            let Failure { count, first, .. } = &failure;
            toast.text =
                format!("{count} could not be opened; the first: {first}\nJobs and log has all of them");
        }
        self.failure = Some(failure);
    }

    /// Notes something in the log alone.
    pub(super) fn record(&mut self, severity: Severity, text: String) {
        if self.log.len() >= MAX_LOG {
            self.log.drain(..MAX_LOG / 10);
        }
        self.log.push(LogEntry { severity, text });
    }

    /// What an event says of its job.
    pub(super) fn job_event(&mut self, event: &Event) {
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
            Event::Finished(job) => {
                let done = self.jobs.shift_remove(job).map(|job| job.recent).unwrap_or_default();
                // Of images those are remembered that were listed.
                let done = done.into_iter().filter(|what| !matches!(what, Recently::Image(_)));
                self.remember_used(done.collect());
            }
            Event::Cancelled(job) => {
                self.jobs.shift_remove(job);
            }
            Event::ImagesListed { job, paths } => self.remember_listed(*job, paths),
            Event::Failed(job, error) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.error = Some(error.clone());
                    let text = format!("{}: {error}", job.title);
                    let kind = job.kind;
                    self.record(Severity::Error, text);
                    if matches!(kind, JobKind::Open | JobKind::List) {
                        self.note_failure(error);
                    }
                }
            }
            Event::Warning { text, .. } => self.note(Severity::Warning, text.clone()),
            _ => {}
        }
    }
}
