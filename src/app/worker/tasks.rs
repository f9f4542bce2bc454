//! Trainings as tasks, for who must not wait: which they would be, handing them in by the very command line that a person
//! types, and how they go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::app::jobs::tasks::{PlannedStage, TaskPhase, TaskRequest, TaskStatus, Tasks, plan_file};
use crate::app::paths::expanded;
use crate::app::submit::status::{State, states, tail};
use crate::app::submit::{Plan, SubmitTarget, Task, hand_in};

/// Lines of what a failed task printed that are told.
const LINES: usize = 8;

/// Which tasks it would be.
///
/// # Errors
/// As the verb: where nothing can be trained so, or cut so.
pub(super) fn plan(asked: &TaskRequest) -> anyhow::Result<Vec<PlannedStage>> {
    let printed = train(asked, &folder(asked)?, &["--dry-run", "--json"])?;
    serde_json::from_str(&printed).context("this program has printed no plan")
}

/// Hands them in: the folder that they end in.
///
/// # Errors
/// As the verb, in its words; Slurm's own where it refuses.
pub(super) fn begin(asked: &TaskRequest) -> anyhow::Result<PathBuf> {
    let folder = folder(asked)?;
    let known = |plan: Plan| plan.place == SubmitTarget::Local || !plan.handed_in.is_empty();
    if !(asked.again && Plan::open(&folder).is_ok_and(known)) {
        train(asked, &folder, &[])?;
    }
    Ok(folder)
}

/// Hands in what is neither done nor under way: how many.
///
/// # Errors
/// As [`hand_in::again`].
pub(super) fn retry(folder: &Path) -> anyhow::Result<usize> {
    hand_in::again(&mut Plan::open(folder)?)
}

/// Ends all that are not done.
///
/// # Errors
/// As [`hand_in::end`].
pub(super) fn end(folder: &Path) -> anyhow::Result<()> {
    hand_in::end(&Plan::open(folder)?)
}

/// How the tasks in a folder go, if it holds any; `before` is what was known of them.
pub(super) fn look(folder: &Path, before: Option<&Tasks>) -> Option<Tasks> {
    if !plan_file(folder).exists() {
        return None;
    }
    let all = Plan::open(folder).and_then(|plan| {
        let status = |(task, state): (Task, State)| status(&plan, task, &state);
        Ok(states(&plan)?.into_iter().map(status).collect())
    });
    Some(match all {
        Ok(all) => Tasks { all, problem: None },
        Err(error) => Tasks {
            all: before.map(|tasks| tasks.all.clone()).unwrap_or_default(),
            problem: Some(format!("{error:#}")),
        },
    })
}

fn status(plan: &Plan, task: Task, state: &State) -> TaskStatus {
    let (phase, lines) = match state {
        State::NotHandedIn | State::Stopped => (TaskPhase::Idle, 0),
        State::Waiting { .. } => (TaskPhase::Waiting, 0),
        State::Running { .. } => (TaskPhase::Running, 1),
        State::Done => (TaskPhase::Done, 0),
        State::Failed { .. } | State::Lost { .. } => (TaskPhase::Failed, LINES),
    };
    let said = if lines == 0 { Vec::new() } else { tail(plan, task, lines) };
    TaskStatus { name: plan.name(task), phase, state: state.to_string(), said }
}

/// Where the run goes.
fn folder(asked: &TaskRequest) -> anyhow::Result<PathBuf> {
    let out = asked.out.to_str().map_or_else(|| asked.out.clone(), expanded);
    std::path::absolute(&out).with_context(|| out.display().to_string())
}

/// What `ssmprobe train` prints.
fn train(asked: &TaskRequest, folder: &Path, more: &[&str]) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("this program does not know where it lies")?;
    let mut command = Command::new(program);
    command.arg("train").args(&asked.words).args(more).arg("--out").arg(folder).stdin(Stdio::null());
    let output = command.output().context("the tasks cannot be handed in: this program cannot be started")?;
    if !output.status.success() {
        bail!("{}", refusal(&String::from_utf8_lossy(&output.stderr), &output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why a verb does nothing, in its words.
fn refusal(said: &str, status: &str) -> String {
    let why = said.rsplit_once("error: ").map_or(said, |(_, why)| why);
    let lines = why.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.collect();
    if lines.is_empty() { format!("it says nothing, and ends with {status}") } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_what_the_verb_says_without_its_frame() {
        let said =
            "note: x\nerror: invalid value 'many' for '--cpus <N>'\n\nFor more information, try '--help'.\n";
        assert_eq!(refusal(said, "exit code 2"), "invalid value 'many' for '--cpus <N>'");
        let said = "error: nothing was handed in: sbatch refuses: sbatch: invalid partition\n";
        assert_eq!(refusal(said, "1"), "nothing was handed in: sbatch refuses: sbatch: invalid partition");
        assert!(refusal("", "signal: 9").contains("signal: 9"));
    }

    #[test]
    fn a_folder_without_tasks_has_none_and_a_damaged_plan_is_a_problem_that_keeps_what_was_known() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(look(folder.path(), None), None);
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
        let now = look(folder.path(), Some(&before)).unwrap();
        assert_eq!(now.all, before.all);
        assert!(now.problem.unwrap().contains("plan.json"));
    }
}
