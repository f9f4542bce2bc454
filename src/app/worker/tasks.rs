//! Trainings as tasks, for the worker's threads: planning and submitting them by running this program's own `train` with
//! the flags that a person would type, and reading their states.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::app::jobs::TrainCommand;
use crate::app::jobs::tasks::{PlannedStage, TaskPhase, TaskStatus, Tasks, plan_file};
use crate::app::paths::{expanded, program};
use crate::app::submit::status::{State, states, tail};
use crate::app::submit::{Plan, SubmitTarget, Task};

/// Last lines of a failed task's log that are shown.
const MAX_LINES: usize = 8;

/// The stages that a training would be cut into, by a dry run of `ssmprobe train`.
///
/// # Errors
/// Those of `ssmprobe train`: if it cannot be trained or cut in this way.
pub(super) fn plan(request: &TrainCommand) -> anyhow::Result<Vec<PlannedStage>> {
    let printed = run_train(request, &absolute(&request.out)?, &["--dry-run", "--json"])?;
    serde_json::from_str(&printed).context("this program printed no plan")
}

/// Submits the tasks of a training; returns the folder of the run. A repeated request submits nothing twice.
///
/// # Errors
/// Those of `ssmprobe train`, or of Slurm.
pub(super) fn begin(request: &TrainCommand) -> anyhow::Result<PathBuf> {
    let folder = absolute(&request.out)?;
    let known = |plan: Plan| plan.place == SubmitTarget::Local || !plan.submitted.is_empty();
    let is_submitted = || request.again && Plan::open(&folder).is_ok_and(known);
    if !is_submitted() {
        let submitted = run_train(request, &folder, &[]);
        // It may be refused because what the earlier request began has submitted them meanwhile.
        if !is_submitted() {
            submitted?;
        }
    }
    Ok(folder)
}

/// The states of the tasks in a folder, if it has any, and whether they run on this machine; if they cannot be read, those of
/// `before` with the reason.
pub(super) fn read(folder: &Path, before: Option<&Tasks>) -> Option<(Tasks, bool)> {
    if !plan_file(folder).exists() {
        return None;
    }
    let all = Plan::open(folder).and_then(|plan| {
        let status = |(task, state): (Task, State)| status(&plan, task, &state);
        Ok((states(&plan)?.into_iter().map(status).collect(), plan.place == SubmitTarget::Local))
    });
    Some(match all {
        Ok((all, is_local)) => (Tasks { all, problem: None }, is_local),
        Err(error) => {
            let all = before.map(|tasks| tasks.all.clone()).unwrap_or_default();
            (Tasks { all, problem: Some(format!("{error:#}")) }, false)
        }
    })
}

/// When the plan of the tasks in a folder was last written, and when one of them last left an exit code or was cancelled.
pub(super) fn marks(folder: &Path) -> [Option<SystemTime>; 2] {
    let plan = plan_file(folder);
    [plan.with_file_name("state"), plan].map(|path| path.metadata().and_then(|about| about.modified()).ok())
}

fn status(plan: &Plan, task: Task, state: &State) -> TaskStatus {
    let (phase, lines) = match state {
        State::NotSubmitted | State::Stopped => (TaskPhase::Idle, 0),
        State::Waiting { .. } => (TaskPhase::Waiting, 0),
        State::Running { .. } => (TaskPhase::Running, 1),
        State::Done => (TaskPhase::Done, 0),
        State::Failed { .. } | State::Lost { .. } => (TaskPhase::Failed, MAX_LINES),
    };
    let last_lines = if lines == 0 { Vec::new() } else { tail(plan, task, lines) };
    TaskStatus { name: plan.name(task), phase, state: state.to_string(), said: last_lines }
}

/// The absolute path of a requested folder.
pub(super) fn absolute(requested: &Path) -> anyhow::Result<PathBuf> {
    let folder = requested.to_str().map_or_else(|| requested.to_owned(), expanded);
    std::path::absolute(&folder).with_context(|| folder.display().to_string())
}

/// The standard output of `ssmprobe train` with the request's flags and `more`.
fn run_train(request: &TrainCommand, folder: &Path, more: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program()?);
    command.arg("train").args(&request.words).args(more).arg("--out").arg(folder).stdin(Stdio::null());
    let output = command.output().context("the tasks cannot be submitted: this program cannot be started")?;
    if !output.status.success() {
        bail!("{}", refusal(&String::from_utf8_lossy(&output.stderr), &output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The error message in a verb's standard error, without clap's hint.
pub(super) fn refusal(stderr: &str, status: &str) -> String {
    // Slurm's own messages have the word within a line.
    let why = stderr.rsplit_once("\nerror: ").map(|(_, why)| why).or(stderr.strip_prefix("error: "));
    let why = why.unwrap_or(stderr);
    let lines = why.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.collect();
    if lines.is_empty() { format!("it printed no message and ended with {status}") } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_what_the_verb_says_without_its_frame() {
        let stderr =
            "note: x\nerror: invalid value 'many' for '--cpus <N>'\n\nFor more information, try '--help'.\n";
        assert_eq!(refusal(stderr, "exit code 2"), "invalid value 'many' for '--cpus <N>'");
        let stderr = "error: nothing was submitted: sbatch failed: sbatch: error: invalid partition\n";
        let why = "nothing was submitted: sbatch failed: sbatch: error: invalid partition";
        assert_eq!(refusal(stderr, "1"), why);
        assert!(refusal("", "signal: 9").contains("signal: 9"));
    }

    #[test]
    fn a_folder_without_tasks_has_none_and_a_damaged_plan_is_a_problem_that_keeps_what_was_known() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), None), None);
        let plan = plan_file(folder.path());
        crate::model::io::atomic_file::make_folder(plan.parent().unwrap()).unwrap();
        crate::model::io::atomic_file::write(&plan, b"{").unwrap();
        let known = TaskStatus {
            name: "join".into(),
            phase: TaskPhase::Done,
            state: "done".into(),
            said: Vec::new(),
        };
        let before = Tasks { all: vec![known], problem: None };
        let (now, _) = read(folder.path(), Some(&before)).unwrap();
        assert_eq!(now.all, before.all);
        assert!(now.problem.unwrap().contains("plan.json"));
    }
}
