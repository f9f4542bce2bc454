//! `ssmprobe jobs`: shows, awaits, resubmits, cancels and joins submitted tasks.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::app::cli::prelude::*;
use crate::app::jobs::tasks::{PlannedStage, plan_file};
use crate::app::paths;
use crate::app::submit::script::script;
use crate::app::submit::status::{State, are_done, hold_note, query_interval, states, summary, tail};
use crate::app::submit::{Plan, SlurmError, Stage, SubmitFlags, SubmitTarget, Task, join, local, submission};

/// Number of log lines shown of a failed task.
const LOG_LINES: usize = 8;
/// Time between two polls of tasks on this machine.
const LOCAL_INTERVAL: Duration = Duration::from_millis(200);
/// How long to wait for the exit code of a Slurm task that left the queue: a shared file system may show it a minute later.
const LOST_TIMEOUT: Duration = Duration::from_secs(80);
/// How long Slurm may fail to answer, for example while it restarts.
const MAX_SILENCE: Duration = Duration::from_mins(5);
/// Delays before the next attempts to submit after Slurm's limit was reached: they double from the first to the second.
const SUBMIT_DELAYS: [Duration; 2] = [Duration::from_secs(2), Duration::from_mins(1)];

/// Show, wait for, retry or cancel tasks submitted with --submit.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub struct Jobs {
    /// Folder that the tasks' results go to; without it, all folders with tasks here and in ~/ssmprobe-runs are listed.
    #[arg(value_name = "RUN")]
    folder: Option<PathBuf>,
    /// Wait until everything is joined; Ctrl-C leaves the tasks running.
    #[arg(long, requires = "folder", conflicts_with_all = ["cancel", "join", "work"])]
    wait: bool,
    /// Resubmit tasks that failed, were stopped or got lost, and those that waited for them. Their progress is kept.
    #[arg(long, requires = "folder", conflicts_with_all = ["cancel", "join", "work"])]
    retry: bool,
    /// Cancel all tasks. Their progress is kept; --retry continues from it.
    #[arg(long, requires = "folder", conflicts_with_all = ["join", "work"])]
    cancel: bool,
    /// Join the parts of a training into RUN, as the last task does; with several backbones, those of the run in
    /// RUN/NAME.
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        requires = "folder",
        conflicts_with = "work"
    )]
    join: Option<String>,
    /// Run the tasks in this process, as --submit local does in a separate one.
    #[arg(long, requires = "folder")]
    work: bool,
    /// Print one JSON document to standard output.
    #[arg(long, requires = "folder", conflicts_with_all = ["wait", "retry", "cancel", "join", "work"])]
    json: bool,
}

const LONG: &str =
    "RUN/tasks holds everything about the tasks: plan.json, the scripts for sbatch (STAGE.sh), log/STAGE-N.txt, \
and the run of each part until they are joined.

Exit codes: 0 done, 1 failed, or an awaited task failed, 2 wrong usage, 130 Ctrl-C.";

impl Jobs {
    /// Does what the flags ask for, or lists the tasks.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(folder) = self.folder else { return list_all() };
        let mut plan = Plan::open(&folder)?;
        if self.work {
            if local::work(&plan)? {
                return Ok(ExitCode::SUCCESS);
            }
            print_list(&plan)?;
            return Ok(ExitCode::FAILURE);
        }
        if let Some(chain) = &self.join {
            let chain = Some(chain.as_str()).filter(|chain| !chain.is_empty());
            for note in join::join(&plan, chain)? {
                say!("warning: {note}");
            }
            let folder = chain.map_or_else(|| folder.clone(), |chain| folder.join(chain));
            say!("the run is in {}", folder.display());
            return Ok(ExitCode::SUCCESS);
        }
        if self.cancel {
            if are_done(&plan) {
                say!("nothing to cancel: all tasks are done");
                return Ok(ExitCode::SUCCESS);
            }
            submission::cancel(&plan)?;
            say!("cancelled; `ssmprobe jobs {} --retry` continues", shell_path(&folder));
            return Ok(ExitCode::SUCCESS);
        }
        if self.retry {
            match submission::retry(&mut plan) {
                Ok(0) => say!("nothing to submit"),
                Ok(tasks) => say!("submitted {}", counted(tasks, "task", "tasks")),
                Err(error) if self.wait && rest_follows(&plan, &error) => say!("note: {error:#}"),
                Err(error) => return Err(error),
            }
        }
        if self.wait {
            return wait(&mut plan);
        }
        if self.json {
            stdout::json(&document(&plan)?)?;
        } else {
            print_list(&plan)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Submits `stages` whose results go to `folder`; with `--dry-run` prints their scripts instead, as JSON if `json`, else with
/// `json` the tasks as [`Jobs`] does, on one line, and again after `--wait`.
pub fn submit(
    folder: &Path,
    place: SubmitTarget,
    flags: &SubmitFlags,
    stages: Vec<Stage>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::new(folder, place, flags.slurm.clone(), stages)?;
    if flags.dry_run && json {
        let planned = |stage: &Stage| PlannedStage {
            name: stage.name.clone(),
            tasks: stage.tasks(),
            script: script(&plan, stage),
        };
        stdout::json(&plan.stages.iter().map(planned).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if flags.dry_run {
        for stage in &plan.stages {
            stdout::text(format_args!("# tasks/{}.sh\n{}\n", stage.id(), script(&plan, stage)))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match submission::submit_all(&mut plan) {
        Err(error) if flags.wait && rest_follows(&plan, &error) => say!("note: {error:#}"),
        submitted => {
            submitted?;
            let stages = describe(&plan.stages);
            say!("submitted: {stages}; `ssmprobe jobs {}` shows their progress", shell_path(folder));
        }
    }
    let print = |plan: &Plan| if json { stdout::line(document(plan)?) } else { Ok(()) };
    print(&plan)?;
    if !flags.wait {
        return Ok(ExitCode::SUCCESS);
    }
    let code = wait(&mut plan)?;
    print(&plan)?;
    Ok(code)
}

/// The stages of each chain: `3 x tokens, then all-tokens, then 4 x train, then join`.
fn describe(stages: &[Stage]) -> String {
    let named = |stage: &Stage| match stage.parts {
        Some(parts) => format!("{parts} x {}", stage.name),
        None => stage.name.clone(),
    };
    let chain = |stages: &[Stage]| {
        let words = stages.iter().map(named).collect::<Vec<_>>().join(", then ");
        match &stages[0].out {
            Some(out) => format!("{out}: {words}"),
            None => words,
        }
    };
    stages.chunk_by(|one, next| one.out == next.out).map(chain).collect::<Vec<_>>().join("; ")
}

/// Waits until all tasks are done, or those that are not need `--retry`.
fn wait(plan: &mut Plan) -> anyhow::Result<ExitCode> {
    interrupt::listen();
    let mut watch = Watch {
        display: Display::new(),
        summary: String::new(),
        changed: Instant::now(),
        idle_since: None,
        submit_delay: None,
    };
    let mut silent_since: Option<Instant> = None;
    loop {
        // Another process may have submitted tasks, or again.
        *plan = Plan::open(&plan.folder).unwrap_or_else(|_| plan.clone());
        let polled = states(plan).and_then(|tasks| watch.update(plan, &tasks));
        match polled {
            Err(error)
                if is_refusal(plan, &error)
                    && silent_since.is_none_or(|since| since.elapsed() < MAX_SILENCE) =>
            {
                if silent_since.is_none() {
                    watch.display.say(&format!("note: {error:#}; retrying"));
                    silent_since = Some(Instant::now());
                }
            }
            polled => {
                silent_since = None;
                if let Some(done) = polled? {
                    return Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
                }
            }
        }
        if interrupt::pause(watch.interval(plan)).is_break() {
            watch.display.clear();
            let folder = shell_path(&plan.folder);
            say!("the tasks keep running; `ssmprobe jobs {folder}` shows them, --wait waits for them again");
            return Ok(interrupt::code());
        }
    }
}

/// The state of [`wait`].
struct Watch {
    display: Display,
    /// The summary printed last, and when it changed.
    summary: String,
    changed: Instant,
    /// When a poll first found no active task.
    idle_since: Option<Instant>,
    /// When Slurm's limit was last reached, and the delay before the next attempt to submit.
    submit_delay: Option<(Instant, Duration)>,
}

impl Watch {
    fn interval(&self, plan: &Plan) -> Duration {
        match plan.place {
            SubmitTarget::Local => LOCAL_INTERVAL,
            SubmitTarget::Slurm => query_interval(self.changed.elapsed()),
        }
    }

    /// Submits what Slurm's limit held back and prints a changed summary. Once waiting ends, returns whether all are done.
    fn update(&mut self, plan: &mut Plan, tasks: &[(Task, State)]) -> anyhow::Result<Option<bool>> {
        let held_back = has_held_back(plan, tasks);
        if held_back && self.submit_delay.is_none_or(|(since, delay)| since.elapsed() >= delay) {
            self.submit(plan, tasks)?;
        }
        let summary = summary(tasks);
        if summary != self.summary {
            self.display.milestone(&summary, true);
            hold_note(plan, tasks).iter().for_each(|note| self.display.say(note));
            (self.summary, self.changed) = (summary, Instant::now());
        }
        let done = tasks.iter().all(|(_, state)| *state == State::Done);
        let active = held_back || tasks.iter().any(|(_, state)| state.is_active());
        let lost = plan.place == SubmitTarget::Slurm
            && tasks.iter().any(|(_, state)| matches!(state, State::Lost { .. }));
        // A second poll must find the same.
        let timeout = if lost { LOST_TIMEOUT } else { Duration::ZERO };
        let is_idle = !active && self.idle_since.is_some_and(|since| since.elapsed() >= timeout);
        self.idle_since = if active { None } else { self.idle_since.or(Some(Instant::now())) };
        if !done && !is_idle {
            return Ok(None);
        }
        self.display.clear();
        tasks.iter().for_each(|(task, state)| report_failure(plan, *task, state));
        if !done {
            say!("`ssmprobe jobs {} --retry` submits what is not done", shell_path(&plan.folder));
        }
        Ok(Some(done))
    }

    /// Submits what Slurm takes now; each attempt in a row at which it takes nothing doubles the delay.
    fn submit(&mut self, plan: &mut Plan, tasks: &[(Task, State)]) -> anyhow::Result<()> {
        let before = plan.submitted.len();
        self.submit_delay = match submission::submit_rest(plan, tasks) {
            Err(error) if rest_follows(plan, &error) => {
                let last = self.submit_delay.filter(|_| plan.submitted.len() == before);
                let [first, longest] = SUBMIT_DELAYS;
                let delay = last.map_or(first, |(_, delay)| longest.min(2 * delay));
                Some((Instant::now(), delay))
            }
            rest => {
                rest?;
                None
            }
        };
        Ok(())
    }
}

/// Whether Slurm's limit held back tasks that are still to be submitted: none failed, and the plan is not cancelled.
fn has_held_back(plan: &Plan, tasks: &[(Task, State)]) -> bool {
    let failed = |state: &State| matches!(state, State::Failed { .. } | State::Lost { .. } | State::Stopped);
    plan.place == SubmitTarget::Slurm
        && !plan.is_cancelled()
        && !tasks.iter().any(|(_, state)| failed(state))
        && plan.arrays().len() < tasks.len()
}

/// Whether a command of Slurm failed, or the disk with the lock of the tasks on this machine, which may answer later.
fn is_refusal(plan: &Plan, error: &anyhow::Error) -> bool {
    match plan.place {
        SubmitTarget::Slurm => matches!(error.downcast_ref(), Some(SlurmError::Refused { .. })),
        SubmitTarget::Local => error.is::<std::io::Error>(),
    }
}

/// Whether Slurm has ever accepted tasks, and refuses others because its limit is reached: while waiting, the rest is submitted
/// as it takes it.
fn rest_follows(plan: &Plan, error: &anyhow::Error) -> bool {
    !plan.submitted.is_empty() && error.downcast_ref::<SlurmError>().is_some_and(SlurmError::is_limit)
}

/// Prints a line for each folder with tasks: in the current folder and in the one for the window's runs.
fn list_all() -> anyhow::Result<ExitCode> {
    let places: Vec<PathBuf> =
        [Some(std::env::current_dir()?), paths::runs()].into_iter().flatten().collect();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    // Files are skipped by their kind, so that a folder of many images costs nothing.
    let below = |place: &PathBuf| {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        entries.filter(|entry| !is_file(entry)).map(|entry| entry.path())
    };
    let runs = places.iter().flat_map(below).chain(places.clone());
    let folders =
        runs.flat_map(|run| [run.join("evaluation"), run]).filter(|folder| plan_file(folder).exists());
    let folders: BTreeSet<PathBuf> = folders.collect();
    if folders.is_empty() {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let why = "there are no tasks; name the folder that was passed as --out, or for an evaluation RUN/evaluation";
        refuse!("{}: {why}", places.join(", "));
    }
    for folder in folders {
        let summary = Plan::open(&folder).and_then(|plan| Ok(summary(&states(&plan)?)));
        let text = summary.unwrap_or_else(|error| format!("{error:#}"));
        stdout::line(format_args!("{}: {text}", shell_path(&folder)))?;
    }
    say!("`ssmprobe jobs RUN` lists the tasks of one folder");
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each task, with the last line of its log unless it waits.
fn print_list(plan: &Plan) -> anyhow::Result<()> {
    let tasks = states(plan)?;
    let width = tasks.iter().map(|(task, _)| plan.name(*task).len()).fold(12, usize::max);
    for (task, state) in &tasks {
        // That of a task which is queued again says how to resume it by hand.
        let last = if matches!(state, State::Waiting { .. }) { None } else { tail(plan, *task, 1).pop() };
        let last = last.unwrap_or_default();
        let (name, state) = (plan.name(*task), state.to_string());
        stdout::line(format!("{name:<width$} {state:<28} {last}").trim_end())?;
    }
    tasks.iter().for_each(|(task, state)| report_failure(plan, *task, state));
    say!("{}", summary(&tasks));
    hold_note(plan, &tasks).iter().for_each(|note| say!("{note}"));
    if tasks.iter().any(|(_, state)| state.needs_submission()) {
        say!("`ssmprobe jobs {} --retry` submits what is not done", shell_path(&plan.folder));
    }
    Ok(())
}

/// The same as a JSON document.
fn document(plan: &Plan) -> anyhow::Result<Value> {
    let task = |(task, state): &(Task, State)| {
        let last = tail(plan, *task, 1).pop();
        json!({"task": plan.name(*task), "how": state, "last": last, "log": plan.log(*task).display().to_string()})
    };
    let tasks: Vec<_> = states(plan)?.iter().map(task).collect();
    Ok(json!({"folder": plan.folder.display().to_string(), "place": plan.place, "tasks": tasks}))
}

/// Prints the last lines of the log of a task that failed.
fn report_failure(plan: &Plan, task: Task, state: &State) {
    if !matches!(state, State::Failed { .. } | State::Lost { .. }) {
        return;
    }
    let (name, log) = (plan.name(task), plan.log(task));
    if log.exists() {
        say!("{name} {state}; {} ends with:", log.display());
    } else {
        say!("{name} {state}; it printed nothing");
    }
    tail(plan, task, LOG_LINES).iter().for_each(|line| say!("  {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::submit::SlurmFlags;

    #[test]
    fn two_polls_in_a_row_must_find_that_nothing_is_active() {
        let folder = tempfile::tempdir().unwrap();
        let stages = vec![Stage::single("eval", vec!["eval".into()])];
        let mut plan = Plan::new(folder.path(), SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        let task = plan.tasks()[0];
        let (display, summary, changed) = (Display::new(), String::new(), Instant::now());
        let mut watch = Watch { display, summary, changed, idle_since: None, submit_delay: None };
        let (running, stopped) = (State::Running { left: String::new() }, State::Stopped);
        let polled = [&running, &stopped, &running, &stopped, &stopped]
            .map(|state| watch.update(&mut plan, &[(task, state.clone())]).unwrap());
        assert_eq!(polled, [None, None, None, None, Some(false)]);
    }
}
