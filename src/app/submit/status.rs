//! How the tasks go: from the exit codes they leave, and from whoever runs them.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::flags::SubmitTarget;
use super::plan::{Plan, Task};
use super::{SlurmError, local, slurm};
use crate::app::jobs::tasks::plan_file;
use crate::model::io::atomic_file;

/// No exit code is longer, in bytes.
const MAX_STATE_BYTES: u64 = 64;
/// Bytes of a log that its tail is looked for in.
const TAIL_BYTES: u64 = 1 << 14;
/// What a local task leaves until it ends.
pub const RUNNING: &str = "running";
/// Exit codes of a task that was told to stop, and saved: its own, and that of a script whose waiting a signal ended.
const STOPPED: [i32; 3] = [130, 138, 143];

/// How a task goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// Nobody was asked to run it, or it was taken back.
    NotHandedIn,
    /// It waits.
    Waiting {
        /// For what, in Slurm's word.
        reason: String,
    },
    /// It runs.
    Running {
        /// Time left, in Slurm's word.
        left: String,
    },
    /// It is done.
    Done,
    /// It was told to stop; what it did is kept.
    Stopped,
    /// It came to an end with another exit code than 0.
    Failed {
        /// Which.
        code: i32,
    },
    /// Whoever ran it does so no longer, and it left no exit code.
    Lost {
        /// What Slurm's accounting says of it.
        why: Option<String>,
    },
}

impl State {
    /// Whether it will come to an end by itself.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Running { .. })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHandedIn => f.write_str("not handed in"),
            Self::Waiting { reason } if reason.is_empty() || reason == "None" => f.write_str("waiting"),
            Self::Waiting { reason } => write!(f, "waiting ({reason})"),
            Self::Running { left } if left.is_empty() => f.write_str("running"),
            Self::Running { left } => write!(f, "running, {left} left"),
            Self::Done => f.write_str("done"),
            Self::Stopped => f.write_str("stopped"),
            Self::Failed { code } => write!(f, "failed with exit code {code}"),
            Self::Lost { why: Some(why) } => write!(f, "ended in the middle ({why})"),
            Self::Lost { why: None } => f.write_str("ended in the middle"),
        }
    }
}

/// How every task goes, in the order of [`Plan::tasks`].
///
/// # Errors
/// If Slurm does not answer.
pub fn states(plan: &Plan) -> Result<Vec<(Task, State)>, SlurmError> {
    let queue = match plan.place {
        SubmitTarget::Slurm if !plan.handed_in.is_empty() => slurm::queue()?,
        _ => Vec::new(),
    };
    let cancelled = plan.is_cancelled();
    // The plan is written as tasks are handed in: a log that is older is of a turn before.
    let written = |path: PathBuf| path.metadata().and_then(|about| about.modified()).ok();
    let handed_in = written(plan_file(&plan.folder));
    let began =
        |task: Task| written(plan.log(task)).is_some_and(|log| handed_in.is_none_or(|then| log >= then));
    let alive = plan.place == SubmitTarget::Local && local::is_running(plan);
    let state = |task: Task| {
        // The queue is asked first: a task that ended since has left its code.
        let left = left(plan, task);
        let left = left.as_deref().map(str::trim);
        match (left.and_then(|left| left.parse::<i32>().ok()), plan.place) {
            (Some(0), _) => State::Done,
            (code, SubmitTarget::Local) => match (code, left == Some(RUNNING), alive) {
                (Some(code), ..) => ended(code),
                (None, true, true) => State::Running { left: String::new() },
                (None, false, true) => State::Waiting { reason: String::new() },
                (None, true, false) => State::Lost { why: None },
                (None, false, false) => State::NotHandedIn,
            },
            (code, SubmitTarget::Slurm) => {
                let Some(array) = plan.array(task) else { return State::NotHandedIn };
                let number = plan.number_in(array, task);
                let queued = queue.iter().find(|queued| queued.id == array.id && queued.number == number);
                match (queued, code) {
                    (Some(queued), _) if matches!(&*queued.state, "RUNNING" | "COMPLETING" | "SUSPENDED") => {
                        State::Running { left: queued.left.clone() }
                    }
                    (Some(queued), _) => State::Waiting { reason: queued.reason.clone() },
                    (None, Some(code)) => ended(code),
                    // It was taken back before it began.
                    (None, None) if cancelled && !began(task) => State::NotHandedIn,
                    (None, None) => State::Lost { why: None },
                }
            }
        }
    };
    let mut states: Vec<(Task, State)> = plan.tasks().into_iter().map(|task| (task, state(task))).collect();
    // What waited for a task that failed was taken out of the queue, and never began.
    let done = |stage: usize| {
        states.iter().filter(|(task, _)| plan.waits(stage, task.stage)).all(|(_, s)| *s == State::Done)
    };
    let whole: Vec<bool> = (0..plan.stages.len()).map(done).collect();
    for (task, state) in &mut states {
        if matches!(state, State::Lost { .. }) && !whole[task.stage] {
            *state = State::NotHandedIn;
        }
    }
    // Accounting is asked once, and of nothing else.
    let lost = states.iter().filter(|(_, state)| matches!(state, State::Lost { .. }));
    let known = slurm::ended(&lost.filter_map(|(task, _)| Some(plan.array(*task)?.id.as_str())).collect());
    for (task, state) in &mut states {
        if let State::Lost { why } = state {
            *why = plan.slurm_id(*task).and_then(|id| {
                let group = id.trim_end_matches(char::is_numeric);
                known.get(&id).or_else(|| known.get(group)).cloned()
            });
        }
    }
    Ok(states)
}

/// Whether every task has left that it is done; Slurm is not asked.
pub fn are_done(plan: &Plan) -> bool {
    plan.tasks().into_iter().all(|task| left(plan, task).is_some_and(|code| code.trim() == "0"))
}

/// What a task has left of how it goes: [`RUNNING`], or its exit code.
fn left(plan: &Plan, task: Task) -> Option<String> {
    atomic_file::text(&plan.state(task), MAX_STATE_BYTES).ok()
}

fn ended(code: i32) -> State {
    if STOPPED.contains(&code) { State::Stopped } else { State::Failed { code } }
}

/// The last lines that a task printed, at most so many.
pub fn tail(plan: &Plan, task: Task, lines: usize) -> Vec<String> {
    let path = plan.log(task);
    let length = path.metadata().map_or(0, |about| about.len());
    let bytes = read_from(&path, length.saturating_sub(TAIL_BYTES)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
}

fn read_from(path: &std::path::Path, at: u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
