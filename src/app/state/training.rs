//! Training as the window sees it: what is filled in, what it would come to, and the one that runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use super::State;
use super::jobs::{JobKind, Severity};
use super::recent::RecentItem;
use super::tasks::TaskPlan;
use super::watched_run::{Phase, WatchedRun};
use crate::app::jobs::detached::Detached;
use crate::app::jobs::tasks::TrainPlace;
use crate::app::jobs::train::{Estimate, Preflight, TrainSettings};
use crate::app::jobs::training::{TrainDelta, TrainEvent};
use crate::app::jobs::{Fetch, JobId, Request};
use crate::app::user_error::UserError;

/// Training, all of it.
#[derive(Default)]
pub struct Training {
    /// What is filled in for the next one.
    pub form: TrainSettings,
    /// What that would come to.
    pub preflight: PreflightState,
    /// The form the preflight is of.
    planned: Option<TrainSettings>,
    /// The one that runs in this window.
    pub active: Option<ActiveRun>,
    /// Runs that are open, by folder.
    pub runs: IndexMap<PathBuf, WatchedRun>,
    /// Whether tasks can be handed to Slurm where it is computed, as the last plan said.
    pub(super) slurm: bool,
    /// Which tasks the next one would be.
    pub tasks: TaskPlan,
    /// What those are of.
    pub(super) tasks_of: Option<(Vec<String>, PathBuf)>,
    /// The job that hands in.
    pub handing_in: Option<JobId>,
    /// The run that was handed in last in this window.
    pub handed_in: Option<PathBuf>,
}

/// What a training would come to.
#[derive(Clone, Debug, Default)]
pub enum PreflightState {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// The worker is finding out.
    Asked(JobId),
    /// This.
    Ready {
        /// What it comes to.
        preflight: Arc<Preflight>,
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
    /// Whether it is a process of its own: it rests not, and goes on where the window closes.
    pub detached: bool,
    /// Whether it is asked to rest.
    pub pausing: bool,
    /// Whether it rests.
    pub paused: bool,
    /// Images a second.
    pub rate: f64,
    /// Time left.
    pub left: Duration,
}

impl Training {
    /// Whether the preflight is of another form than the one filled in, or of none.
    pub fn outdated(&self) -> bool {
        self.planned.as_ref().is_none_or(|planned| !planned.same_plan(&self.form))
    }

    /// Puts the form and the runs of a workspace in the place of all of this, but for the one that is
    /// trained; answers with what asks for the history, and for that of no other run.
    pub(super) fn restore(&mut self, form: TrainSettings, runs: Vec<PathBuf>) -> Request {
        let (active, mut known) = (self.active.take(), std::mem::take(&mut self.runs));
        let folder = active.as_ref().and_then(|active| active.folder.as_ref());
        known.retain(|run, _| Some(run) == folder);
        *self = Self { form: form.bounded(), active, runs: known, ..Self::default() };
        Request::Follow(runs)
    }

    /// Whether what is filled in was planned and can begin.
    pub fn can_start(&self) -> bool {
        self.active.is_none() && matches!(self.preflight, PreflightState::Ready { .. }) && !self.outdated()
    }

    /// The run that is trained in this window.
    pub fn active_run(&self) -> Option<&WatchedRun> {
        self.runs.get(self.active.as_ref()?.folder.as_ref()?)
    }
}

impl State {
    pub(super) fn set_train_form(&mut self, form: TrainSettings) {
        self.training.form = form.bounded();
    }

    /// Asks what the form comes to, unless that is known; again where that failed.
    pub(super) fn plan_training(&mut self) -> Vec<Request> {
        let training = &self.training;
        let known = !training.outdated() && !matches!(training.preflight, PreflightState::Failed(_));
        if training.active.is_some() || training.form.missing().is_some() || known {
            return Vec::new();
        }
        let form = training.form.clone();
        let mut requests = self.stop_planning();
        let job = self.begin(JobKind::Plan, "Planning a training");
        self.training.planned = Some(form.clone());
        self.training.preflight = PreflightState::Asked(job);
        requests.push(Request::Fetch(job, Fetch::Plan(Box::new(form))));
        requests
    }

    /// What is asked for no more.
    fn stop_planning(&mut self) -> Vec<Request> {
        let (PreflightState::Asked(job) | PreflightState::Ready { timing: Some(job), .. }) =
            self.training.preflight
        else {
            return Vec::new();
        };
        vec![self.replace_job(job)]
    }

    /// Whether what is filled in was planned, tasks included where it is cut into some, and can begin.
    pub fn can_start_training(&self) -> bool {
        let tasks = self.train_place() != TrainPlace::Slurm || self.tasks_are_planned();
        self.training.can_start() && tasks
    }

    /// Begins what was planned.
    pub(super) fn start_training(&mut self) -> Vec<Request> {
        let PreflightState::Ready { preflight, .. } = &self.training.preflight else { return Vec::new() };
        if !self.can_start_training() {
            return Vec::new();
        }
        let mut form = self.training.form.clone();
        // What was shown is where it goes.
        let out = form.out.get_or_insert(preflight.out.clone()).clone();
        let title = format!("Training on {}", preflight.dataset);
        let ask = match self.train_place() {
            TrainPlace::Detached => Fetch::Detached(Detached { words: form.words(), out, again: false }),
            TrainPlace::Here => Fetch::Begin(Box::new(form)),
            TrainPlace::Slurm => return self.hand_in(title, out),
        };
        let mut requests = self.stop_planning();
        requests.extend(self.train(title, ask));
        self.forget_plan();
        requests
    }

    /// What was filled in is under way: the folder is another one next time.
    pub(super) fn forget_plan(&mut self) {
        self.training.form.out = None;
        self.training.planned = None;
        self.training.preflight = PreflightState::Unknown;
    }

    /// Goes on with a run that was stopped.
    pub(super) fn resume_training(&mut self, folder: PathBuf) -> Vec<Request> {
        if self.training.active.is_some() {
            return Vec::new();
        }
        let mut requests = self.stop_planning();
        let name = self.training.runs.get(&folder).map(|run| run.history.about.name()).unwrap_or_default();
        let TrainSettings { device, tokens, .. } = self.training.form.clone();
        let cache = tokens.cache;
        let device = Some(device).filter(|device| device != "auto"); // else where it began
        let ask = match self.train_place() == TrainPlace::Detached || self.connection.host().is_some() {
            true => {
                let device = device.map(|device| format!("--device={device}"));
                let cache = cache.map(|cache| format!("--cache={}", cache.display()));
                let words = [Some("--resume".to_owned()), device, cache].into_iter().flatten().collect();
                Fetch::Detached(Detached { words, out: folder, again: false })
            }
            false => Fetch::Resume { folder, device, cache },
        };
        requests.extend(self.train(format!("Training {name}"), ask));
        (self.training.planned, self.training.preflight) = (None, PreflightState::Unknown);
        requests
    }

    fn train(&mut self, title: String, ask: Fetch) -> Vec<Request> {
        let job = self.begin(JobKind::Train, title);
        let (folder, pausing, paused, rate, left) = (None, false, false, 0.0, Duration::ZERO);
        let detached = matches!(ask, Fetch::Detached(_));
        self.training.active = Some(ActiveRun { job, folder, detached, pausing, paused, rate, left });
        vec![Request::Fetch(job, ask)]
    }

    /// Lets the training rest, or go on.
    pub(super) fn pause_training(&mut self, rest: bool) -> Vec<Request> {
        let active = self.training.active.as_mut().filter(|active| !active.detached);
        let Some(active) = active else { return Vec::new() };
        active.pausing = rest;
        vec![Request::Pause(active.job, rest)]
    }

    /// What the worker says of a training.
    pub(super) fn training_event(&mut self, job: JobId, news: TrainEvent) -> Vec<Request> {
        match (news, &mut self.training) {
            (TrainEvent::Planned(preflight), training) => {
                if matches!(training.preflight, PreflightState::Asked(asked) if asked == job) {
                    training.slurm = preflight.slurm;
                    let (preflight, estimate, timing) = (Arc::new(*preflight), None, Some(job));
                    training.preflight = PreflightState::Ready { preflight, estimate, timing };
                    let data = training.planned.as_ref().and_then(|form| form.data.clone());
                    self.remember_used(data.into_iter().map(RecentItem::Dataset).collect());
                }
                Vec::new()
            }
            (TrainEvent::Timed(timed), training) => {
                match &mut training.preflight {
                    PreflightState::Ready { estimate, timing, .. } if *timing == Some(job) => {
                        *estimate = Some(timed);
                    }
                    _ => {}
                }
                Vec::new()
            }
            (TrainEvent::TasksPlanned(stages), _) => {
                self.tasks_planned(job, stages);
                Vec::new()
            }
            (TrainEvent::HandedIn(folder), _) => self.handed_in(job, folder),
            (TrainEvent::Retried(tasks), _) => {
                let s = if tasks == 1 { "" } else { "s" };
                self.note(Severity::Info, format!("{tasks} task{s} handed in again"));
                Vec::new()
            }
            (news, training) => match &mut training.active {
                Some(active) if active.job == job => self.active_run_event(news),
                _ => Vec::new(),
            },
        }
    }

    fn active_run_event(&mut self, news: TrainEvent) -> Vec<Request> {
        let Some(active) = &mut self.training.active else { return Vec::new() };
        match news {
            TrainEvent::Begun(snapshot) => {
                let folder = snapshot.about.folder.clone();
                active.folder = Some(folder.clone());
                self.remember_used(vec![RecentItem::Run(folder.clone())]);
                let run = self.training.runs.entry(folder).or_insert_with(|| WatchedRun::new(&snapshot));
                run.take(&snapshot);
                run.phase = Phase::Running;
                vec![self.follow_runs()]
            }
            TrainEvent::Paused(paused) => {
                active.paused = paused;
                Vec::new()
            }
            TrainEvent::Went(went) => {
                let TrainDelta { steps, epochs, failures, rate, left } = *went;
                (active.rate, active.left) = (rate, left);
                if let Some(run) =
                    active.folder.as_ref().and_then(|folder| self.training.runs.get_mut(folder))
                {
                    steps.iter().for_each(|steps| run.history.step(steps));
                    run.history.epochs(&epochs);
                    run.history.failures(&failures);
                }
                Vec::new()
            }
            TrainEvent::Probes(probes) => {
                let Some(folder) = active.folder.clone() else { return Vec::new() };
                self.refresh_probes(&folder, probes)
            }
            TrainEvent::Ended { finished, failures } => {
                let Some(folder) = active.folder.clone() else { return Vec::new() };
                let Some(run) = self.training.runs.get_mut(&folder) else { return Vec::new() };
                run.history.failures(&failures);
                run.phase = if finished { Phase::Done } else { Phase::Stopped };
                let said = if finished { "has come to its end" } else { "was stopped and saved" };
                let text = format!("{} {said}; its probes are in the library", run.history.about.name());
                self.note(Severity::Info, text);
                Vec::new()
            }
            TrainEvent::Detached { folder, pid, began } => {
                let name = self.machine_name();
                let (what, folder) = (if began { "started" } else { "found" }, folder.display());
                let text = format!(
                    "The training is {what} as process {pid} of {name}, into {folder}: it goes on there whatever becomes of this window"
                );
                self.note(Severity::Info, text);
                Vec::new()
            }
            TrainEvent::Planned(_)
            | TrainEvent::Timed(_)
            | TrainEvent::TasksPlanned(_)
            | TrainEvent::HandedIn(_)
            | TrainEvent::Retried(_)
            | TrainEvent::Said(_) => Vec::new(),
        }
    }

    /// Somebody else is asked from now on: a training apart is no longer followed. It goes on.
    pub fn let_training_go(&mut self) {
        if let Some(active) = self.training.active.take_if(|active| active.detached) {
            self.jobs.shift_remove(&active.job);
        }
    }

    /// A job of training is over: `error` says why it failed, nothing that it was ended early.
    pub(super) fn end_training(&mut self, job: JobId, error: Option<&UserError>) {
        self.end_handing_in(job, error);
        let training = &mut self.training;
        match &mut training.preflight {
            PreflightState::Asked(asked) if *asked == job => {
                self.jobs.shift_remove(&job); // the panel says it
                let called_off = || UserError::new("Planning was cancelled");
                training.preflight = PreflightState::Failed(error.cloned().unwrap_or_else(called_off));
            }
            PreflightState::Ready { timing, .. } if *timing == Some(job) => *timing = None,
            _ => {}
        }
        let Some(active) = training.active.take_if(|active| active.job == job) else { return };
        let run = active.folder.as_ref().and_then(|folder| training.runs.get_mut(folder));
        match (run, error) {
            (Some(run), Some(error)) => run.phase = Phase::Failed(error.clone()),
            (Some(run), None) if run.phase == Phase::Running => run.phase = Phase::Stopped,
            (Some(_) | None, None) => {}
            (None, Some(error)) => {
                // The form it was begun with stays, to be put right.
                training.planned = Some(training.form.clone());
                training.preflight = PreflightState::Failed(error.clone());
            }
        }
    }
}
