//! Where the next training runs, and trainings as tasks: planning, submitting, retrying and cancelling them.

use std::path::{Path, PathBuf};

use super::connection::Host;
use super::jobs::{JobKind, Severity};
use super::recent::RecentItem;
use super::watched_run::WatchedRun;
use super::{Requested, State};
use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::tasks::{PlannedStage, Tasks, TrainPlace};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Fetch, JobId, Request, TrainCommand};

impl State {
    /// Where the next training can run. With a remote worker it must outlive the connection, so it cannot run in the worker.
    pub fn train_places(&self) -> Vec<TrainPlace> {
        let here = self.connection.host().is_none();
        // If Slurm was chosen last time, it is offered before a plan confirms it.
        let slurm = self.training.slurm.unwrap_or(self.settings.training.place == TrainPlace::Slurm);
        let places = [(TrainPlace::Here, here), (TrainPlace::Detached, true), (TrainPlace::Slurm, slurm)];
        places.into_iter().filter_map(|(place, can)| can.then_some(place)).collect()
    }

    /// Where the next training runs: the place in the settings if it is available, else the first that is.
    pub fn train_place(&self) -> TrainPlace {
        let places = self.train_places();
        let chosen = Some(self.settings.training.place).filter(|place| places.contains(place));
        chosen.or(places.first().copied()).unwrap_or_default()
    }

    /// The name of the machine on which a detached training runs.
    pub fn machine_name(&self) -> &str {
        self.connection.host().filter(|host| !host.is_here()).map_or("this machine", Host::name)
    }

    /// The command that submits the tasks that the form describes; `None` without a preflight.
    fn wanted_tasks(&self) -> Option<TrainCommand> {
        let Some(Ok(preflight)) = self.training.preflight().0 else { return None };
        let form = self.train_settings();
        let mut words = form.words();
        words.push("--submit=slurm".to_owned());
        words.extend(self.settings.training.slurm.words());
        let out = form.out.unwrap_or_else(|| preflight.out.clone());
        Some(TrainCommand { words, out, again: false })
    }

    /// The tasks that the current form would be cut into, and the job that plans them.
    pub fn planned_tasks(&self) -> Requested<'_, Vec<PlannedStage>> {
        self.wanted_tasks().map(|command| self.training.tasks.requested(&command)).unwrap_or_default()
    }

    /// Requests the tasks of the current form, unless they are known or under way; again if planning failed.
    pub(super) fn plan_tasks(&mut self) -> Vec<Request> {
        let Some(command) = self.wanted_tasks() else { return Vec::new() };
        if let (Some(Ok(_)), _) | (_, Some(_)) = self.training.tasks.requested(&command) {
            return Vec::new();
        }
        let job = self.begin(JobKind::Plan, "Splitting a training into tasks");
        self.training.tasks.forget_failures();
        let older = self.training.tasks.begin(job, command.clone());
        self.send_instead(older, Request::Fetch(job, Fetch::PlanTasks(command)))
    }

    /// Submits the planned tasks.
    pub(super) fn submit_tasks(&mut self, title: String) -> Vec<Request> {
        let Some(command) = self.wanted_tasks().filter(|_| self.training.submitting.is_none()) else {
            return Vec::new();
        };
        let job = self.begin(JobKind::Tasks, title);
        self.training.submitting = Some((job, command.clone()));
        vec![Request::Fetch(job, Fetch::SubmitTasks(command))]
    }

    /// The tasks were submitted to Slurm: their folder is watched from now on, as that of any run.
    pub(super) fn tasks_submitted(&mut self, job: JobId, folder: PathBuf) -> Vec<Request> {
        let text = format!(
            "The tasks are submitted and write to {}: they keep running if this window closes",
            folder.display()
        );
        self.note(Severity::Info, text);
        self.remember_used(vec![RecentItem::Run(folder.clone())]);
        if self.training.submitting.as_ref().is_none_or(|(own, _)| *own != job) {
            return Vec::new(); // another workspace was opened meanwhile
        }
        let mut requests = self.forget_plan();
        self.training.form.out = None; // the next one goes to another folder
        let planning = self.training.tasks.clear();
        requests.extend(planning.map(|job| self.replace_job(job)));
        self.training.runs.insert(folder.clone(), WatchedRun::new(&RunSnapshot::waiting(&folder)));
        self.training.latest = Some((job, folder));
        requests.push(self.follow_runs());
        requests
    }

    /// A job about tasks has ended; `error` says why it failed.
    pub(super) fn end_task_job(&mut self, job: JobId, error: Option<&UserError>) {
        let planned = self.training.tasks.end(job);
        if planned.is_some() {
            self.jobs.shift_remove(&job); // the panel shows it
        }
        // If they were not submitted, the form stays as it is, to be corrected.
        let submitted = self.training.submitting.take_if(|(own, _)| *own == job).map(|(_, command)| command);
        if let (Some(command), Some(error)) = (planned.or(submitted), error) {
            self.training.tasks.keep(command, Err(error.clone()));
        }
    }

    /// Sends a request about the tasks of a run, unless one is under way.
    pub(super) fn request_for_tasks(
        &mut self,
        folder: &Path,
        what: &str,
        request: impl Fn(PathBuf) -> Fetch,
    ) -> Vec<Request> {
        let known = self.training.runs.get(folder).is_some_and(|run| run.tasks.is_some());
        if !known || self.is_changing_tasks() {
            return Vec::new();
        }
        let job = self.begin(JobKind::Tasks, format!("{what} of {}", folder.display()));
        self.jobs[&job].run = Some(folder.to_owned());
        vec![Request::Fetch(job, request(folder.to_owned()))]
    }

    /// How many open runs have tasks that wait or run.
    pub fn runs_in_tasks(&self) -> usize {
        self.training.runs.values().filter(|run| run.tasks.as_ref().is_some_and(Tasks::are_active)).count()
    }

    /// Whether tasks are being submitted, resubmitted or cancelled now.
    pub fn is_changing_tasks(&self) -> bool {
        self.jobs.values().any(|job| job.kind == JobKind::Tasks && job.error.is_none())
    }
}
