//! Training as the window sees it: the form, what it would come to, the one that runs, runs that are open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;

use super::jobs::{JobKind, Severity};
use super::settings::remember;
use super::undo::Change;
use super::{ColumnState, State};
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::train::{Estimate, Preflight, TrainForm};
use crate::app::jobs::training::{Reading, TrainDelta, TrainEvent};
use crate::app::jobs::{Fetch, JobId, Request};
use crate::app::user_error::UserError;

/// Training, all of it.
#[derive(Default)]
pub struct Training {
    /// What is filled in for the next one.
    pub draft: TrainForm,
    /// What that would come to.
    pub outlook: Outlook,
    /// The draft the outlook is of.
    planned: Option<TrainForm>,
    /// The one that runs in this window.
    pub live: Option<ActiveRun>,
    /// Runs that are open, by folder.
    pub runs: IndexMap<PathBuf, Followed>,
}

/// What a training would come to.
#[derive(Clone, Debug, Default)]
pub enum Outlook {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// The worker is finding out.
    Asked(JobId),
    /// This.
    Ready {
        /// What it comes to.
        facts: Arc<Preflight>,
        /// How long its parts take; absent until they were tried.
        estimate: Option<Estimate>,
        /// The job that tries them.
        timing: Option<JobId>,
    },
    /// It cannot begin; why.
    Failed(UserError),
}

/// A training under way in this window.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveRun {
    /// Its job.
    pub job: JobId,
    /// Its folder, where training has begun; before that tokens are taken.
    pub folder: Option<PathBuf>,
    /// Whether it is asked to rest.
    pub pausing: bool,
    /// Whether it rests.
    pub paused: bool,
    /// Images a second.
    pub rate: f64,
    /// Time left.
    pub left: Duration,
}

/// A run that is open.
#[derive(Clone, Debug)]
pub struct Followed {
    /// How it goes.
    pub course: TrainHistory,
    /// Where it stands.
    pub phase: Phase,
    /// Its probes, and when each was written as the library has it.
    probes: HashMap<PathBuf, SystemTime>,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// It runs in this window.
    Live,
    /// It has not come to its end, as its folder says; another program may be at it.
    Open {
        /// Whether its folder has changed since it was opened.
        growing: bool,
    },
    /// It was stopped in this window, and saved.
    Stopped,
    /// It has come to its end.
    Done,
    /// It failed in this window.
    Failed(UserError),
}

impl Training {
    /// Whether the outlook is of another draft than the one filled in, or of none.
    pub fn outdated(&self) -> bool {
        self.planned.as_ref().is_none_or(|planned| !planned.same_plan(&self.draft))
    }

    /// Puts the draft and the runs of a workspace in the place of these, but for the one that is
    /// trained; answers with what asks for the courses.
    pub(super) fn restore(&mut self, draft: TrainForm, runs: Vec<PathBuf>) -> Option<Request> {
        (self.draft, self.planned, self.outlook) = (draft.bounded(), None, Outlook::Unknown);
        let live = self.live.as_ref().and_then(|live| live.folder.clone());
        self.runs.retain(|folder, _| Some(folder) == live.as_ref());
        (!runs.is_empty()).then_some(Request::Follow(runs))
    }

    /// Whether what is filled in was planned and can begin.
    pub fn can_start(&self) -> bool {
        self.live.is_none() && matches!(self.outlook, Outlook::Ready { .. }) && !self.outdated()
    }

    /// The run that is trained in this window.
    pub fn live_run(&self) -> Option<&Followed> {
        self.runs.get(self.live.as_ref()?.folder.as_ref()?)
    }
}

impl State {
    pub(super) fn set_draft(&mut self, draft: TrainForm) {
        let draft = TrainForm { taking: self.backbone_options.taking(), ..draft.bounded() };
        if let Some(data) = draft.data.clone().filter(|data| Some(data) != self.training.draft.data.as_ref())
        {
            remember(&mut self.settings.recent.datasets, data);
        }
        self.training.draft = draft;
    }

    /// Asks what the draft comes to, unless that is known.
    pub(super) fn plan_training(&mut self) -> Vec<Request> {
        let training = &self.training;
        if training.live.is_some() || training.draft.missing().is_some() || !training.outdated() {
            return Vec::new();
        }
        let draft = training.draft.clone();
        let mut requests = self.stop_planning();
        let job = self.begin(JobKind::Plan, "Planning a training");
        self.training.planned = Some(draft.clone());
        self.training.outlook = Outlook::Asked(job);
        requests.push(Request::Fetch(job, Fetch::Plan(Box::new(draft))));
        requests
    }

    /// What is asked for no more.
    fn stop_planning(&mut self) -> Vec<Request> {
        let (Outlook::Asked(job) | Outlook::Ready { timing: Some(job), .. }) = self.training.outlook else {
            return Vec::new();
        };
        self.jobs.shift_remove(&job);
        vec![Request::Cancel(job)]
    }

    /// Begins what was planned.
    pub(super) fn start_training(&mut self) -> Vec<Request> {
        let Outlook::Ready { facts, .. } = &self.training.outlook else { return Vec::new() };
        if !self.training.can_start() {
            return Vec::new();
        }
        let mut draft = self.training.draft.clone();
        // What was shown is where it goes.
        draft.out.get_or_insert(facts.out.clone());
        let title = format!("Training on {}", facts.dataset);
        let mut requests = self.stop_planning();
        requests.extend(self.train(title, Fetch::Begin(Box::new(draft))));
        // The folder is another one next time.
        self.training.draft.out = None;
        self.training.planned = None;
        self.training.outlook = Outlook::Unknown;
        requests
    }

    /// Goes on with a run that was stopped.
    pub(super) fn resume_training(&mut self, folder: PathBuf) -> Vec<Request> {
        if self.training.live.is_some() {
            return Vec::new();
        }
        let mut requests = self.stop_planning();
        let name = self.training.runs.get(&folder).map(|run| run.course.about.name()).unwrap_or_default();
        let TrainForm { device, cache, .. } = self.training.draft.clone();
        let device = Some(device).filter(|device| device != "auto"); // else where it began
        requests.extend(self.train(format!("Training {name}"), Fetch::Resume { folder, device, cache }));
        (self.training.planned, self.training.outlook) = (None, Outlook::Unknown);
        requests
    }

    fn train(&mut self, title: String, ask: Fetch) -> Vec<Request> {
        let job = self.begin(JobKind::Train, title);
        let (folder, pausing, paused, rate, left) = (None, false, false, 0.0, Duration::ZERO);
        self.training.live = Some(ActiveRun { job, folder, pausing, paused, rate, left });
        vec![Request::Fetch(job, ask)]
    }

    /// Lets the training rest, or go on.
    pub(super) fn pause_training(&mut self, rest: bool) -> Vec<Request> {
        let Some(live) = &mut self.training.live else { return Vec::new() };
        live.pausing = rest;
        vec![Request::Pause(live.job, rest)]
    }

    /// Takes a run away; its folder and its probes stay.
    pub(super) fn close_run(&mut self, folder: &Path) -> Vec<Request> {
        let live = self.training.live.as_ref().and_then(|live| live.folder.as_deref());
        match self.training.runs.get(folder) {
            Some(run) if live != Some(folder) => self.change(
                format!("Close the run {}", run.course.about.name()),
                Change::RunOut(folder.to_owned()),
            ),
            _ => Vec::new(),
        }
    }

    /// The runs to follow on disk: those that may still change.
    pub(super) fn follow_runs(&self) -> Request {
        let open = self.training.runs.iter().filter(|(_, run)| matches!(run.phase, Phase::Open { .. }));
        Request::Follow(open.map(|(folder, _)| folder.clone()).collect())
    }

    /// What the worker says of a training.
    pub(super) fn hear(&mut self, job: JobId, news: TrainEvent) -> Vec<Request> {
        match (news, &mut self.training) {
            (TrainEvent::Planned(facts), training) => {
                if matches!(training.outlook, Outlook::Asked(asked) if asked == job) {
                    let (facts, estimate, timing) = (Arc::new(*facts), None, Some(job));
                    training.outlook = Outlook::Ready { facts, estimate, timing };
                }
                Vec::new()
            }
            (TrainEvent::Timed(timed), training) => {
                match &mut training.outlook {
                    Outlook::Ready { estimate, timing, .. } if *timing == Some(job) => {
                        *estimate = Some(timed);
                    }
                    _ => {}
                }
                Vec::new()
            }
            (news, training) => match &mut training.live {
                Some(live) if live.job == job => self.hear_live(news),
                _ => Vec::new(),
            },
        }
    }

    fn hear_live(&mut self, news: TrainEvent) -> Vec<Request> {
        let Some(live) = &mut self.training.live else { return Vec::new() };
        match news {
            TrainEvent::Begun(reading) => {
                let folder = reading.about.folder.clone();
                live.folder = Some(folder.clone());
                remember(&mut self.settings.recent.runs, folder.clone());
                let run = self.training.runs.entry(folder).or_insert_with(|| Followed::of(&reading));
                run.take(&reading);
                run.phase = Phase::Live;
                vec![self.follow_runs()]
            }
            TrainEvent::Paused(paused) => {
                live.paused = paused;
                Vec::new()
            }
            TrainEvent::Went(went) => {
                let TrainDelta { steps, epochs, failures, rate, left } = *went;
                (live.rate, live.left) = (rate, left);
                if let Some(run) = live.folder.as_ref().and_then(|folder| self.training.runs.get_mut(folder))
                {
                    steps.iter().for_each(|steps| run.course.step(steps));
                    run.course.epochs(&epochs);
                    run.course.failures(&failures);
                }
                Vec::new()
            }
            TrainEvent::Probes(probes) => {
                let Some(folder) = live.folder.clone() else { return Vec::new() };
                self.refresh_probes(&folder, probes)
            }
            TrainEvent::Ended { finished, failures } => {
                let Some(folder) = live.folder.clone() else { return Vec::new() };
                let Some(run) = self.training.runs.get_mut(&folder) else { return Vec::new() };
                run.course.failures(&failures);
                run.phase = if finished { Phase::Done } else { Phase::Stopped };
                let said = if finished { "has come to its end" } else { "was stopped and saved" };
                let text = format!("{} {said}; its probes are in the library", run.course.about.name());
                self.note(Severity::Info, text);
                Vec::new()
            }
            TrainEvent::Planned(_) | TrainEvent::Timed(_) => Vec::new(),
        }
    }

    /// A run's folder was read.
    pub(super) fn read_run(&mut self, folder: PathBuf, run: Result<Arc<Reading>, UserError>) -> Vec<Request> {
        let reading = match run {
            Ok(reading) => reading,
            Err(fault) => {
                if let Some(run) = self.training.runs.get_mut(&folder) {
                    run.phase = Phase::Failed(fault.clone());
                }
                self.note(Severity::Warning, fault.lines.join(": "));
                return vec![self.follow_runs()];
            }
        };
        let Some(run) = self.training.runs.get_mut(&folder) else {
            self.training.runs.insert(folder, Followed::of(&reading));
            return vec![self.follow_runs()];
        };
        if !matches!(run.phase, Phase::Open { .. }) {
            return Vec::new(); // what it says is known already, or comes late
        }
        let before = run.course.clone();
        run.take(&reading);
        let growing = run.course != before || run.phase == Phase::Open { growing: true };
        run.phase = if run.course.finished() { Phase::Done } else { Phase::Open { growing } };
        let done = run.phase == Phase::Done;
        let mut requests = self.refresh_probes(&folder, reading.probes.clone());
        requests.extend(done.then(|| self.follow_runs()));
        requests
    }

    /// Opens the probes of a run that are new, and again those that were written again.
    fn refresh_probes(&mut self, folder: &Path, probes: Vec<(PathBuf, SystemTime)>) -> Vec<Request> {
        let Some(run) = self.training.runs.get_mut(folder) else { return Vec::new() };
        let changed =
            probes.into_iter().filter(|(path, time)| run.probes.insert(path.clone(), *time) != Some(*time));
        let changed: Vec<PathBuf> = changed.map(|(path, _)| path).collect();
        let mut requests = Vec::new();
        for path in changed {
            let known = self.library.probes.iter().find(|(_, probe)| probe.path == path).map(|(id, _)| *id);
            let Some(id) = known else {
                requests.extend(self.open_probes(vec![path]));
                continue;
            };
            for column in self.columns.values_mut().filter(|column| column.probe == id) {
                // What it shows is of the file as it was.
                (column.shown, column.key) = (ColumnState::Waiting(column.shown.trace().cloned()), None);
            }
            requests.extend(self.load_probe(id));
        }
        requests
    }

    /// A job of training is over: `fault` says why it failed, nothing that it was ended early.
    pub(super) fn end_training(&mut self, job: JobId, fault: Option<&UserError>) {
        let training = &mut self.training;
        match &mut training.outlook {
            Outlook::Asked(asked) if *asked == job => {
                self.jobs.shift_remove(&job); // the panel says it
                training.outlook = fault.map_or(Outlook::Unknown, |fault| Outlook::Failed(fault.clone()));
            }
            Outlook::Ready { timing, .. } if *timing == Some(job) => *timing = None,
            _ => {}
        }
        let Some(live) = training.live.take_if(|live| live.job == job) else { return };
        let run = live.folder.as_ref().and_then(|folder| training.runs.get_mut(folder));
        match (run, fault) {
            (Some(run), Some(fault)) => run.phase = Phase::Failed(fault.clone()),
            (Some(run), None) if run.phase == Phase::Live => run.phase = Phase::Stopped,
            (Some(_) | None, None) => {}
            (None, Some(fault)) => {
                // The draft it was begun with stays, to be put right.
                training.planned = Some(training.draft.clone());
                training.outlook = Outlook::Failed(fault.clone());
            }
        }
    }
}

impl Followed {
    fn of(reading: &Reading) -> Self {
        let probes = reading.probes.iter().cloned().collect();
        let mut run = Self {
            course: TrainHistory::new(reading.about.clone()),
            phase: Phase::Open { growing: false },
            probes,
        };
        run.take(reading);
        if run.course.finished() {
            run.phase = Phase::Done;
        }
        run
    }

    /// Takes what its folder holds.
    fn take(&mut self, reading: &Reading) {
        if self.course.about != reading.about {
            self.course = TrainHistory::new(reading.about.clone()); // another run has taken its place
        }
        self.course.epochs(&reading.epochs);
        reading.losses.iter().for_each(|losses| self.course.losses(losses));
        self.course.failures(&reading.failures);
    }
}
