//! Training in the window: the form, its preflight, and the active run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use super::answers::Answers;
use super::jobs::{JobKind, Severity};
use super::recent::RecentItem;
use super::watched_run::{Phase, WatchedRun};
use super::{Requested, State};
use crate::app::format::counted;
use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::tasks::{PlannedStage, TrainPlace};
use crate::app::jobs::train::{Estimate, Preflight, TrainSettings};
use crate::app::jobs::train_event::{TrainDelta, TrainEvent};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Fetch, JobId, Request, TrainCommand};

/// The state of training.
#[derive(Default)]
pub struct Training {
    /// The form of the next training.
    pub form: TrainSettings,
    /// By the [plan](TrainSettings::planned) of the form.
    preflights: Answers<TrainSettings, Preflight, 1>,
    /// The estimated time of the latest preflight, once it was measured.
    pub estimate: Option<Estimate>,
    /// The training that runs in this window.
    pub active: Option<ActiveRun>,
    /// The form that it was begun with.
    begun: Option<TrainSettings>,
    /// The open runs, by folder.
    pub runs: IndexMap<PathBuf, WatchedRun>,
    /// The runs of the workspace that were not read yet.
    pub(super) unread: Vec<PathBuf>,
    /// Whether the worker's machine has Slurm, once a preflight has told.
    pub(super) slurm: Option<bool>,
    /// The tasks that trainings would be cut into, by the commands that submit them.
    pub(super) tasks: Answers<TrainCommand, Vec<PlannedStage>, 1>,
    /// The job that submits tasks, and the command that it runs.
    pub submitting: Option<(JobId, TrainCommand)>,
    /// The run that last began, was submitted as tasks, or was opened in this window, and the job that did so.
    pub latest: Option<(JobId, PathBuf)>,
}

/// A training under way in this window.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveRun {
    /// Its job.
    pub job: JobId,
    /// Its folder, once training has begun; before, tokens are extracted.
    pub folder: Option<PathBuf>,
    /// Whether it is a process of its own: it cannot be paused, and goes on when the window closes.
    pub detached: bool,
    /// Whether a pause was requested.
    pub pausing: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// Images a second.
    pub rate: f64,
    /// Estimated time left.
    pub left: Duration,
}

impl Training {
    /// The preflight of the current form, its plan and size, and the job that plans it, or then estimates its time.
    pub fn preflight(&self) -> Requested<'_, Preflight> {
        self.preflights.requested(&self.form.planned())
    }

    /// Replaces all but the active run by the form and the runs of a workspace. Returns the request to watch these runs alone.
    pub(super) fn restore(&mut self, form: TrainSettings, runs: Vec<PathBuf>) -> Request {
        let (active, mut known) = (self.active.take(), std::mem::take(&mut self.runs));
        let folder = active.as_ref().and_then(|active| active.folder.as_ref());
        known.retain(|run, _| Some(run) == folder);
        let unread = runs.iter().filter(|run| !known.contains_key(*run)).cloned().collect();
        *self = Self { form: form.bounded(), active, runs: known, unread, ..Self::default() };
        Request::Follow(runs)
    }

    /// Whether the current form was planned and can begin.
    pub fn can_start(&self) -> bool {
        self.active.is_none() && matches!(self.preflight(), (Some(Ok(_)), _))
    }

    /// Whether a training runs in this program, with which it would end.
    pub fn runs_here(&self) -> bool {
        self.active.as_ref().is_some_and(|run| !run.detached)
    }

    /// The run that is trained in this window.
    pub fn active_run(&self) -> Option<&WatchedRun> {
        self.runs.get(self.active.as_ref()?.folder.as_ref()?)
    }
}

impl State {
    /// The form as requests carry it: tokens in the canonical form for its backbone, if that is open. An order chosen for an open
    /// ViT-MAE is thus not requested of another family.
    pub(super) fn train_settings(&self) -> TrainSettings {
        let mut form = self.training.form.clone();
        if let Some(info) = self.library.open_backbone_from(&form.backbone) {
            let token_spec = &mut form.tokens.token_spec;
            *token_spec = token_spec.canonical(info.layers, &info.model_type);
        }
        form
    }

    /// Requests the preflight of the form, unless it is known or under way; again if it failed.
    pub(super) fn plan_training(&mut self) -> Vec<Request> {
        let (training, planned) = (&self.training, self.training.form.planned());
        let known = matches!(training.preflights.requested(&planned), (Some(Ok(_)), _) | (_, Some(_)));
        if training.active.is_some() || training.form.missing().is_some() || known {
            return Vec::new();
        }
        let form = self.train_settings();
        let mut requests = self.forget_plan();
        let job = self.begin(JobKind::Plan, "Planning a training");
        self.training.preflights.begin(job, planned);
        requests.push(Request::Fetch(job, Fetch::Plan(Box::new(form))));
        requests
    }

    /// Whether the current form was planned, with its tasks if it runs as some, and can begin.
    pub fn can_start_training(&self) -> bool {
        let are_planned = || matches!(self.planned_tasks(), (Some(Ok(_)), _));
        self.training.can_start() && (self.train_place() != TrainPlace::Slurm || are_planned())
    }

    pub(super) fn start_training(&mut self) -> Vec<Request> {
        let Some(Ok(preflight)) = self.training.preflight().0 else { return Vec::new() };
        if !self.can_start_training() {
            return Vec::new();
        }
        let mut form = self.train_settings();
        // The run goes to the folder that the preflight showed.
        let out = form.out.get_or_insert(preflight.out.clone()).clone();
        let title = format!("Training on {}", preflight.dataset);
        let request = match self.train_place() {
            TrainPlace::Detached => Fetch::Detached(TrainCommand { words: form.words(), out, again: false }),
            TrainPlace::Here => Fetch::Begin(Box::new(form)),
            TrainPlace::Slurm => return self.submit_tasks(title),
        };
        let mut requests = self.forget_plan();
        requests.extend(self.train(title, request, None));
        self.training.begun = Some(self.training.form.clone());
        self.training.form.out = None; // the next one goes to another folder
        requests
    }

    /// Forgets the preflight; cancels it or its timing, if under way.
    pub(super) fn forget_plan(&mut self) -> Vec<Request> {
        self.training.estimate = None;
        let job = self.training.preflights.clear();
        job.map(|job| self.replace_job(job)).into_iter().collect()
    }

    /// Resumes a run that was stopped.
    pub(super) fn resume_training(&mut self, folder: PathBuf) -> Vec<Request> {
        if self.training.active.is_some() {
            return Vec::new();
        }
        let mut requests = self.forget_plan();
        let name = self.training.runs.get(&folder).map(|run| run.history.about.name()).unwrap_or_default();
        let TrainSettings { device, tokens, .. } = self.training.form.clone();
        let cache = tokens.cache;
        let device = Some(device).filter(|device| device != "auto"); // else the device it began on
        let request = match self.train_place() == TrainPlace::Detached || self.connection.host().is_some() {
            true => {
                let device = device.map(|device| format!("--device={device}"));
                let cache = cache.map(|cache| format!("--cache={}", cache.display()));
                let words = [Some("--resume".to_owned()), device, cache].into_iter().flatten().collect();
                Fetch::Detached(TrainCommand { words, out: folder.clone(), again: false })
            }
            false => Fetch::Resume { folder: folder.clone(), device, cache },
        };
        requests.extend(self.train(format!("Training {name}"), request, Some(folder)));
        requests
    }

    /// Adds the active run of a training request, which may resume a run.
    fn train(&mut self, title: String, request: Fetch, resumed: Option<PathBuf>) -> Vec<Request> {
        let job = self.begin(JobKind::Train, title);
        self.jobs[&job].run = resumed;
        let (folder, pausing, paused, rate, left) = (None, false, false, 0.0, Duration::ZERO);
        let detached = matches!(request, Fetch::Detached(_));
        self.training.active = Some(ActiveRun { job, folder, detached, pausing, paused, rate, left });
        self.training.begun = None;
        vec![Request::Fetch(job, request)]
    }

    /// The training of a run under way, also while a run that is resumed has not begun.
    pub fn active_on(&self, folder: &Path) -> Option<&ActiveRun> {
        let active = self.training.active.as_ref()?;
        let resumed = || self.jobs.get(&active.job)?.run.as_deref();
        (active.folder.as_deref().or_else(resumed) == Some(folder)).then_some(active)
    }

    /// Pauses or continues the training.
    pub(super) fn pause_training(&mut self, pause: bool) -> Vec<Request> {
        let active = self.training.active.as_mut().filter(|active| !active.detached);
        let Some(active) = active else { return Vec::new() };
        active.pausing = pause;
        vec![Request::Pause(active.job, pause)]
    }

    /// Applies an event of a training, a preflight or its tasks.
    pub(super) fn training_event(&mut self, job: JobId, event: TrainEvent) -> Vec<Request> {
        let training = &mut self.training;
        match event {
            TrainEvent::Planned(preflight) => {
                if let Some(form) = training.preflights.asked(job) {
                    let data = form.data.clone();
                    training.slurm = Some(preflight.slurm);
                    training.preflights.answered(job, Ok(Arc::new(*preflight)), |_| true);
                    self.remember_used(data.into_iter().map(RecentItem::Dataset).collect());
                }
            }
            TrainEvent::Timed(timed) => {
                if training.preflights.asked(job).is_some() {
                    training.estimate = Some(timed);
                }
            }
            TrainEvent::TasksPlanned(stages) => training.tasks.answered(job, Ok(Arc::new(stages)), |_| true),
            TrainEvent::TasksSubmitted(folder) => return self.tasks_submitted(job, folder),
            TrainEvent::Retried(tasks) => {
                self.note(Severity::Info, format!("{} resubmitted", counted(tasks, "task", "tasks")));
            }
            event => {
                if training.active.as_ref().is_some_and(|active| active.job == job) {
                    return self.active_run_event(event);
                }
            }
        }
        Vec::new()
    }

    /// Applies an event of the active run.
    fn active_run_event(&mut self, event: TrainEvent) -> Vec<Request> {
        let Some(active) = &mut self.training.active else { return Vec::new() };
        match event {
            TrainEvent::Begun(snapshot) => {
                let folder = snapshot.about.folder.clone();
                active.folder = Some(folder.clone());
                self.jobs.get_mut(&active.job).into_iter().for_each(|job| job.run = None); // the run has its errors now
                self.training.latest = Some((active.job, folder.clone()));
                self.remember_used(vec![RecentItem::Run(folder.clone())]);
                // Without the probes of the snapshot, which are opened as they are reported.
                let new = || WatchedRun::new(&RunSnapshot::default());
                let run = self.training.runs.entry(folder).or_insert_with(new);
                run.update(&snapshot);
                run.phase = Phase::Running;
                return vec![self.follow_runs()];
            }
            TrainEvent::Paused(paused) => active.paused = paused,
            TrainEvent::Progressed(delta) => {
                let TrainDelta { steps, epochs, failures, rate, left } = *delta;
                (active.rate, active.left) = (rate, left);
                if let Some(run) =
                    active.folder.as_ref().and_then(|folder| self.training.runs.get_mut(folder))
                {
                    let history = Arc::make_mut(&mut run.history);
                    steps.iter().for_each(|steps| history.step(steps));
                    history.epochs(&epochs);
                    history.failures(&failures);
                }
            }
            TrainEvent::Probes(probes) => {
                let Some(folder) = active.folder.clone() else { return Vec::new() };
                return self.refresh_probes(&folder, probes);
            }
            TrainEvent::Ended { finished, failures } => {
                let run = active.folder.as_ref().and_then(|folder| self.training.runs.get_mut(folder));
                let Some(run) = run else { return Vec::new() };
                Arc::make_mut(&mut run.history).failures(&failures);
                run.phase = if finished { Phase::Done } else { Phase::Stopped };
                let outcome = if finished { "has finished" } else { "was stopped and saved" };
                let text = format!("{} {outcome}; its probes are in the library", run.history.about.name());
                self.note(Severity::Info, text);
            }
            TrainEvent::Detached { folder, pid, began, host } => {
                let name = host.as_deref().unwrap_or_else(|| self.machine_name());
                let (what, folder) = (if began { "started" } else { "found" }, folder.display());
                let text = format!(
                    "The training was {what} as process {pid} on {name}, in {folder}: it keeps running there if this window closes"
                );
                self.note(Severity::Info, text);
            }
            TrainEvent::Planned(_)
            | TrainEvent::Timed(_)
            | TrainEvent::TasksPlanned(_)
            | TrainEvent::TasksSubmitted(_)
            | TrainEvent::Retried(_)
            | TrainEvent::Printed(_) => {}
        }
        Vec::new()
    }

    /// The worker is replaced by another one: a detached training is no longer followed, and goes on.
    pub fn unfollow_training(&mut self) {
        if let Some(active) = self.training.active.take_if(|active| active.detached) {
            self.jobs.shift_remove(&active.job);
        }
    }

    /// A job of training has ended: it failed with `error`, or was cancelled or finished if there is none.
    pub(super) fn end_training(&mut self, job: JobId, error: Option<&UserError>) {
        self.end_task_job(job, error);
        let training = &mut self.training;
        if let Some(form) = training.preflights.end(job)
            && training.preflights.get(&form).is_none()
        {
            self.jobs.shift_remove(&job); // the panel shows it
            let cancelled = || UserError::new("Planning was cancelled");
            training.preflights.keep(form, Err(error.cloned().unwrap_or_else(cancelled)));
        }
        let Some(active) = training.active.take_if(|active| active.job == job) else { return };
        let run = active.folder.as_ref().and_then(|folder| training.runs.get_mut(folder));
        match (run, error) {
            (Some(run), Some(error)) => run.phase = Phase::Failed(error.clone()),
            (Some(run), None) if run.phase == Phase::Running => run.phase = Phase::Stopped,
            (Some(_), None) => {}
            (None, error) => {
                // It has not begun: the form is as it was, with an error as its own, to be corrected. That of a resumed run is its job's.
                let Some(begun) = training.begun.take() else { return };
                training.form.out = training.form.out.take().or_else(|| begun.out.clone());
                if let Some(error) = error {
                    training.preflights.keep(begun.planned(), Err(error.clone()));
                }
            }
        }
    }
}
