//! Running and failed jobs, notes to the user (toasts), and the log.

use std::path::PathBuf;
use std::time::Duration;

use super::State;
use super::recent::RecentItem;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Event, JobId, Progress, Request};

/// Most notes shown at once; older ones are in the log.
const MAX_TOASTS: usize = 5;
/// Most entries of the log.
const MAX_LOG: usize = 1000;
/// Work that took at least this long may have been left unattended.
pub const LONG_WORK: Duration = Duration::from_secs(10);

/// A job of the worker, running or failed.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its title for the user.
    pub title: String,
    /// Its kind.
    pub kind: JobKind,
    /// Whether the worker has begun.
    pub started: bool,
    /// Its progress, once reported.
    pub progress: Option<Progress>,
    /// Why it failed, if it did.
    pub error: Option<UserError>,
    /// Whether its cancellation was requested.
    pub cancelling: bool,
    /// How long the longest of its parts that are done took.
    longest: Duration,
    /// Whether the first image it lists becomes the current one; cleared when another image is selected.
    pub(super) selects: bool,
    /// The folder of the run that it resumes, until that has begun, or whose tasks it submits again or cancels.
    pub run: Option<PathBuf>,
    /// What is remembered as recently used once it has finished.
    pub(super) recent: Vec<RecentItem>,
}

impl Job {
    /// The word on its button: to stop or cancel it, or that this is under way.
    pub fn cancel_text(&self) -> &'static str {
        match (self.kind == JobKind::Train, self.cancelling) {
            (true, false) => "Stop",
            (true, true) => "Stopping…",
            (false, false) => "Cancel",
            (false, true) => "Cancelling…",
        }
    }
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Opens something of the library.
    Open,
    /// Lists or recognises files.
    List,
    /// Lists a folder for the folder browser.
    Browse,
    /// Explains the columns.
    Explain,
    /// Explains the images of a contact sheet.
    Sheet,
    /// Plans a training.
    Plan,
    /// Trains.
    Train,
    /// Submits or cancels tasks.
    Tasks,
    /// Evaluates probes on a dataset.
    Evaluate,
    /// Measures how stable an order is.
    Stability,
    /// Computes the removal curves of an image.
    Removal,
    /// Prepares the images of a dataset for comparison.
    Similarity,
    /// Explains findings and writes them to files.
    Share,
}

/// How serious a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Information.
    Info,
    /// A problem that does not stop the work.
    Warning,
    /// A failure.
    Error,
}

/// A note that is shown for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    /// Its id.
    pub id: u64,
    /// How serious it is.
    pub severity: Severity,
    /// Its text.
    pub text: String,
    /// A file that was written, which the user may open.
    pub file: Option<PathBuf>,
}

/// The note about entries that could not be opened, which collects several.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    toast: u64,
    count: usize,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// How serious it is.
    pub severity: Severity,
    /// Its full text.
    pub text: String,
}

impl LogEntry {
    /// How serious it is, and its text.
    pub fn line(&self) -> String {
        let word = match self.severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        format!("{word}: {}", self.text)
    }
}

impl State {
    /// The log as text, the oldest entry first.
    pub fn log_text(&self) -> String {
        self.log.iter().map(|entry| entry.line() + "\n").collect()
    }

    /// The progress of a job as text; a paused one without its remaining time.
    pub fn amounts(&self, id: JobId) -> Option<String> {
        let progress = self.jobs.get(&id)?.progress.as_ref()?;
        let is_paused = self.training.active.as_ref().is_some_and(|run| run.job == id && run.pausing);
        Some(if is_paused { format!("{}, paused", progress.counts()) } else { progress.amounts() })
    }

    /// Adds a job; earlier failed jobs of the same title are removed, and failed explanations, which the columns showed until now.
    pub(super) fn begin(&mut self, kind: JobKind, title: impl Into<String>) -> JobId {
        let id = JobId(self.fresh());
        let (title, started, progress, error) = (title.into(), false, None, None);
        let over = |job: &Job| job.title == title || job.kind == kind && kind == JobKind::Explain;
        self.jobs.retain(|_, job| job.error.is_none() || !over(job));
        let (cancelling, longest, selects, run, recent) = (false, Duration::ZERO, true, None, Vec::new());
        let job = Job { title, kind, started, progress, error, cancelling, longest, selects, run, recent };
        self.jobs.insert(id, job);
        id
    }

    /// Cancels a job that another one replaces.
    pub(super) fn replace_job(&mut self, old: JobId) -> Request {
        self.jobs.shift_remove(&old);
        Request::Cancel(old)
    }

    /// A request, and before it the cancellation of the older job whose place its own takes.
    pub(super) fn send_instead(&mut self, older: Option<JobId>, request: Request) -> Vec<Request> {
        let cancelled = older.map(|older| self.replace_job(older));
        cancelled.into_iter().chain([request]).collect()
    }

    /// Cancels a job, if it has not failed already.
    pub(super) fn cancel(&mut self, id: JobId) -> Option<Request> {
        if let Some(sharing) = self.sharing.take_if(|sharing| sharing.job == id) {
            self.jobs.shift_remove(&id);
            return sharing.explaining().map(Request::Cancel);
        }
        let job = self.jobs.get_mut(&id).filter(|job| job.error.is_none())?;
        job.cancelling = true;
        Some(Request::Cancel(id))
    }

    /// Cancels all jobs, and an evaluation that waits for some.
    pub(super) fn cancel_all(&mut self) -> Vec<Request> {
        self.evaluations.deferred = None;
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        jobs.into_iter().filter_map(|job| self.cancel(job)).collect()
    }

    /// Shows a note and adds it to the log.
    pub fn note(&mut self, severity: Severity, text: impl Into<String>) {
        let text = text.into();
        self.record(severity, text.clone());
        self.toast(severity, text);
    }

    /// Notes that a file or folder was written, which the note opens.
    pub fn note_written(&mut self, path: PathBuf) {
        self.note(Severity::Info, format!("Wrote {}", path.display()));
        if let Some(toast) = self.toasts.last_mut() {
            toast.file = Some(path);
        }
    }

    /// Shows a note alone; returns its id.
    pub(super) fn toast(&mut self, severity: Severity, text: String) -> u64 {
        if self.toasts.len() >= MAX_TOASTS {
            // Errors stay until they are dismissed.
            let passing = self.toasts.iter().position(|shown| shown.severity != Severity::Error);
            self.toasts.remove(passing.unwrap_or(0));
        }
        let id = self.fresh();
        self.toasts.push(Toast { id, severity, text, file: None });
        id
    }

    /// Removes a note; it stays in the log.
    pub(super) fn dismiss_toast(&mut self, id: u64) {
        self.toasts.retain(|shown| shown.id != id);
    }

    /// Notes that something could not be opened, with a remedy; several failures share one note while it is shown,
    /// which gives the last: earlier ones may concern what was opened before.
    fn note_failure(&mut self, error: &UserError) {
        let reason = error.one_line();
        if let Some(Failure { toast, count }) = &mut self.failure
            && let Some(toast) = self.toasts.iter_mut().find(|shown| shown.id == *toast)
        {
            *count += 1;
            toast.text =
                format!("{count} could not be opened; the last: {reason}\nJobs and log lists all of them");
            return;
        }
        let remedy = error.remedy.as_deref().unwrap_or("Choose another one, or see Jobs and log");
        let toast = self.toast(Severity::Error, format!("Could not be opened: {reason}\n{remedy}"));
        self.failure = Some(Failure { toast, count: 1 });
    }

    /// Removes the note about what could not be opened once nothing of it is left: it was closed, or is opened again.
    pub(super) fn drop_settled_failure(&mut self) {
        let failed = |job: &Job| job.kind == JobKind::List && job.error.is_some();
        let is_settled = |_: &mut Failure| !self.library.has_failed() && !self.jobs.values().any(failed);
        if let Some(Failure { toast, .. }) = self.failure.take_if(is_settled) {
            self.dismiss_toast(toast);
        }
    }

    /// Adds an entry to the log alone.
    pub(super) fn record(&mut self, severity: Severity, text: String) {
        if self.log.len() >= MAX_LOG {
            self.log.drain(..MAX_LOG / 10);
        }
        self.warnings += usize::from(severity == Severity::Warning);
        self.log.push(LogEntry { severity, text });
    }

    /// Applies an event to its job.
    pub(super) fn job_event(&mut self, event: &Event) {
        match event {
            Event::Started(job) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.started = true;
                }
            }
            Event::Progress(job, progress) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    if progress.total == Some(progress.done) {
                        job.longest = job.longest.max(progress.elapsed);
                    }
                    job.progress = Some(progress.clone());
                }
            }
            // What arrived of it was damaged: its error stays.
            Event::Finished(job) if self.jobs.get(job).is_some_and(|job| job.error.is_some()) => {}
            Event::Finished(job) => {
                let Some(Job { title, kind, progress, longest, recent, .. }) = self.jobs.shift_remove(job)
                else {
                    return;
                };
                let longest = longest.max(progress.map_or(Duration::ZERO, |progress| progress.elapsed));
                let has_result = match kind {
                    // Nobody waits for a lookup of stored results.
                    JobKind::Evaluate => self.evaluations.job() == Some(*job),
                    JobKind::Stability => self.stabilities.has_result(*job),
                    JobKind::Removal => self.removals.has_result(*job),
                    JobKind::Similarity => self.similarities.has_result(*job),
                    _ => false,
                };
                if has_result && longest >= LONG_WORK {
                    self.note(Severity::Info, format!("Finished: {title}"));
                }
                // Images were remembered when they were listed.
                let done = recent.into_iter().filter(|what| !matches!(what, RecentItem::Image(_)));
                self.remember_used(done.collect());
            }
            Event::Cancelled(job) => {
                self.jobs.shift_remove(job);
            }
            Event::ImagesListed { job, paths } => self.remember_listed(*job, paths),
            Event::Failed(job, error) => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.error = Some(error.clone());
                    let (line, kind) = (format!("{}: {error}", job.title), job.kind);
                    self.record(Severity::Error, line);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_however_many_notes_follow() {
        let mut state = State::default();
        state.note(Severity::Error, "not saved");
        (0..9).for_each(|at| state.note(Severity::Info, format!("note {at}")));
        let texts: Vec<&str> = state.toasts.iter().map(|toast| toast.text.as_str()).collect();
        assert_eq!(texts, ["not saved", "note 5", "note 6", "note 7", "note 8"]);
    }
}
