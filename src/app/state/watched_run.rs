//! Open runs: each with its history, from the events of this window's training or read from its folder.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::jobs::Severity;
use super::{ColumnState, State};
use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::history::{About, TrainHistory};
use crate::app::jobs::tasks::Tasks;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{JobId, Request};

/// An open run.
#[derive(Clone, Debug)]
pub struct WatchedRun {
    /// Its epochs and failures so far; shared, so that what is drawn of it knows when it changes.
    pub history: Arc<TrainHistory>,
    /// Its state.
    pub phase: Phase,
    /// Its tasks, if it is cut into some.
    pub tasks: Option<Tasks>,
    /// Its probe files, each with the modification time of the version in the library; `None` if its folder was never read.
    probes: Option<HashMap<PathBuf, SystemTime>>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It runs in this window.
    Running,
    /// It is not finished according to its folder; another process may be training it.
    Open {
        /// Whether a process trains it; where that is not known, whether it has progressed since it was opened.
        growing: bool,
    },
    /// It was stopped in this window, with its state saved.
    Stopped,
    /// It is finished.
    Done,
    /// It failed in this window.
    Failed(UserError),
    /// Its folder cannot be read, as where a disk is away: it is watched until it can be.
    Missing(UserError),
}

impl WatchedRun {
    /// A run as its folder holds it.
    pub(super) fn new(snapshot: &RunSnapshot) -> Self {
        let mut run = Self {
            history: Arc::new(TrainHistory::new(snapshot.about.clone())),
            phase: Phase::Open { growing: snapshot.trained == Some(true) },
            tasks: None,
            probes: Some(snapshot.probes.iter().cloned().collect()),
        };
        run.update(snapshot);
        if run.is_over() {
            run.phase = Phase::Done;
        }
        run
    }

    /// Whether it is finished, and its tasks are done if it has some.
    fn is_over(&self) -> bool {
        self.history.finished() && self.tasks.as_ref().is_none_or(Tasks::are_done)
    }

    /// Updates the history and the tasks from its folder.
    pub(super) fn update(&mut self, snapshot: &RunSnapshot) {
        let history = Arc::make_mut(&mut self.history);
        if history.about != snapshot.about {
            *history = TrainHistory::new(snapshot.about.clone()); // another run is in the folder now
        }
        history.update(snapshot);
        self.tasks.clone_from(&snapshot.tasks);
    }
}

impl State {
    /// Closes a run, unless it is active; its folder and its probes stay.
    pub(super) fn close_run(&mut self, folder: &Path) -> Vec<Request> {
        let active = self.training.active.as_ref().and_then(|active| active.folder.as_deref());
        match self.training.runs.get(folder) {
            Some(run) if active != Some(folder) => {
                let runs = [(folder.to_owned(), None)].into_iter().collect();
                let text = format!("Close the run {}", run.history.about.name());
                self.change(text, |p| p.runs = runs)
            }
            _ => Vec::new(),
        }
    }

    /// The request to watch the folders of runs that may still change.
    pub(super) fn follow_runs(&self) -> Request {
        let is_open = |run: &WatchedRun| matches!(run.phase, Phase::Open { .. } | Phase::Missing(_));
        let open = self.training.runs.iter().filter(|(_, run)| is_open(run));
        Request::Follow(open.map(|(folder, _)| folder).chain(&self.training.unread).cloned().collect())
    }

    /// Applies the content of a run's folder, read by the `job` that opens it, or by the watcher after a change.
    pub(super) fn read_run(
        &mut self,
        job: Option<JobId>,
        folder: PathBuf,
        snapshot: Result<Arc<RunSnapshot>, UserError>,
    ) -> Vec<Request> {
        let unread = self.training.unread.iter().position(|run| *run == folder);
        unread.map(|at| self.training.unread.remove(at));
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(error) => {
                if unread.is_some() {
                    let about = About { folder: folder.clone(), ..About::default() };
                    let nothing = RunSnapshot { about, ..RunSnapshot::default() };
                    let unread = WatchedRun { probes: None, ..WatchedRun::new(&nothing) };
                    self.training.runs.insert(folder.clone(), unread);
                }
                let missing = Phase::Missing(error.clone());
                let run = self.training.runs.get_mut(&folder);
                match run.map(|run| std::mem::replace(&mut run.phase, missing)) {
                    // The events of this window's own training are newer.
                    Some(Phase::Running) => {
                        self.training.runs[&folder].phase = Phase::Running;
                        return Vec::new();
                    }
                    Some(Phase::Missing(_)) if job.is_none() => {} // already reported
                    _ => self.note(Severity::Warning, error.one_line()),
                }
                return vec![self.follow_runs()];
            }
        };
        if let Some(job) = job {
            self.training.latest = Some((job, folder.clone()));
        }
        let Some(run) = self.training.runs.get_mut(&folder) else {
            if job.is_none() && unread.is_none() {
                return Vec::new(); // it was closed meanwhile
            }
            self.training.runs.insert(folder, WatchedRun::new(&snapshot));
            return vec![self.follow_runs()];
        };
        match run.phase {
            Phase::Open { .. } => {}
            Phase::Stopped | Phase::Done | Phase::Failed(_) if job.is_none() => return Vec::new(),
            Phase::Running => return Vec::new(), // the events of this window's training are newer
            // It was opened again, as another process may have resumed it, or its disk is back.
            _ => {
                let known = run.probes.take();
                *run = WatchedRun::new(&snapshot);
                run.probes = known.or(run.probes.take()); // those of a run that was never read were not open, or were closed
                let mut requests = self.refresh_probes(&folder, snapshot.probes.clone());
                requests.push(self.follow_runs());
                return requests;
            }
        }
        let before = run.history.clone();
        run.update(&snapshot);
        // A worker of an earlier version does not say.
        let grows = || run.history != before || run.phase == Phase::Open { growing: true };
        let growing = snapshot.trained.unwrap_or_else(grows);
        run.phase = if run.is_over() { Phase::Done } else { Phase::Open { growing } };
        let done = run.phase == Phase::Done;
        let mut requests = self.refresh_probes(&folder, snapshot.probes.clone());
        requests.extend(done.then(|| self.follow_runs()));
        requests
    }

    /// Opens the probes of a run that are new, and reopens those whose file has changed.
    pub(super) fn refresh_probes(
        &mut self,
        folder: &Path,
        probes: Vec<(PathBuf, SystemTime)>,
    ) -> Vec<Request> {
        let Some(run) = self.training.runs.get_mut(folder) else { return Vec::new() };
        let known = run.probes.get_or_insert_default();
        let changed =
            probes.into_iter().filter(|(path, time)| known.insert(path.clone(), *time) != Some(*time));
        let changed: Vec<PathBuf> = changed.map(|(path, _)| path).collect();
        let (mut requests, mut new) = (Vec::new(), Vec::new());
        for path in changed {
            let Some(id) = self.library.probe_at(&path) else {
                new.push(path);
                continue;
            };
            for column in self.columns.values_mut().filter(|column| column.probe == id) {
                // Its trace is of the earlier file.
                (column.shown, column.key) = (ColumnState::Waiting(column.shown.trace().cloned()), None);
            }
            // Also one that is being opened: it may have been read before the change.
            requests.extend(self.load_probe(id));
        }
        requests.extend(self.open_run_probes(new, false));
        requests
    }
}
