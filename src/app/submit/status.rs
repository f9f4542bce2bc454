//! The states of the tasks: from the exit codes they leave, and from Slurm or the local background process.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::flags::SubmitTarget;
use super::plan::{Plan, Task};
use super::{local, slurm};
use crate::app::jobs::tasks::{self, plan_file};
use crate::model::io::atomic_file;

const MAX_STATE_BYTES: u64 = 64;
/// Bytes at the end of a log in which its last lines are looked for.
const TAIL_BYTES: u64 = 1 << 14;
/// The shortest and the longest time between two queries of the states: other users need Slurm's controller, too.
const QUERY_INTERVALS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];
/// The state file of a local task until it ends.
pub const RUNNING: &str = "running";
/// Exit codes of a stopped task that saved: its own (130), and those of a script signalled by SIGUSR1 (138) or SIGTERM (143).
const STOPPED: [i32; 3] = [130, 138, 143];

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// It was not submitted, or it was cancelled before it started.
    #[serde(rename = "not-handed-in")] // as documents of `jobs --json` have it
    NotSubmitted,
    /// It waits in the queue.
    Waiting {
        /// Why, in Slurm's word; empty for a local task.
        reason: String,
    },
    /// It runs.
    Running {
        /// Time left until its limit, in Slurm's notation; empty for a local task.
        left: String,
    },
    /// It is done.
    Done,
    /// It was asked to stop; what it did is kept.
    Stopped,
    /// It ended with an exit code other than 0.
    Failed {
        /// The exit code.
        code: i32,
    },
    /// It runs no longer, and left no exit code.
    Lost {
        /// Its final state in Slurm's accounting, if known.
        why: Option<String>,
    },
}

impl State {
    /// Whether it waits or runs.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Running { .. })
    }

    /// Whether it is neither done nor active, so that it has to be submitted for the work to be done.
    pub fn needs_submission(&self) -> bool {
        *self != Self::Done && !self.is_active()
    }

    /// Whether it waits until somebody releases it: `JobHeldUser`, `JobHoldMaxRequeue`, `launch failed requeued held`.
    pub fn is_held(&self) -> bool {
        let holds = |reason: &str| reason.contains("held") || reason.contains("hold");
        matches!(self, Self::Waiting { reason } if holds(&reason.to_lowercase()))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSubmitted => f.write_str("not submitted"),
            Self::Waiting { reason } if reason.is_empty() || reason == "None" => f.write_str("waiting"),
            Self::Waiting { reason } => write!(f, "waiting ({reason})"),
            Self::Running { left } if left.starts_with(|c: char| c.is_ascii_digit()) => {
                write!(f, "running, {left} left")
            }
            Self::Running { .. } => f.write_str("running"), // UNLIMITED
            Self::Done => f.write_str("done"),
            Self::Stopped => f.write_str("stopped"),
            Self::Failed { code } => write!(f, "failed with exit code {code}"),
            Self::Lost { why: Some(why) } => write!(f, "ended early ({why})"),
            Self::Lost { why: None } => f.write_str("ended early"),
        }
    }
}

/// The state of every task, in the order of [`Plan::tasks`].
///
/// # Errors
/// If Slurm does not say, or on this machine the lock of the process that runs them.
pub fn states(plan: &Plan) -> anyhow::Result<Vec<(Task, State)>> {
    if are_done(plan) {
        return Ok(plan.tasks().into_iter().map(|task| (task, State::Done)).collect());
    }
    let queue = match plan.place {
        SubmitTarget::Slurm if !plan.submitted.is_empty() => slurm::queue(&plan_file(&plan.folder))?,
        _ => Vec::new(),
    };
    let (cancelled, arrays) = (plan.is_cancelled(), plan.arrays());
    // The plan is saved whenever tasks are submitted: an older log is of an earlier submission.
    let modified = |path: PathBuf| path.metadata().and_then(|about| about.modified()).ok();
    let submitted = modified(plan_file(&plan.folder));
    let began =
        |task: Task| modified(plan.log(task)).is_some_and(|log| submitted.is_none_or(|then| log >= then));
    let alive = plan.place == SubmitTarget::Local && local::is_running(plan)?;
    let state = |task: Task| {
        // Read after the queue was queried: a task that ended in between has left its exit code.
        let content = read_state(plan, task);
        let content = content.as_deref().map(str::trim);
        match (content.and_then(|content| content.parse::<i32>().ok()), plan.place) {
            (Some(0), _) => State::Done,
            (code, SubmitTarget::Local) => match (code, content == Some(RUNNING), alive) {
                (Some(code), ..) => exit_state(code),
                (None, true, true) => State::Running { left: String::new() },
                (None, false, true) => State::Waiting { reason: String::new() },
                (None, true, false) => State::Lost { why: None },
                (None, false, false) => State::NotSubmitted,
            },
            (code, SubmitTarget::Slurm) => {
                let Some(array) = arrays.get(&task) else { return State::NotSubmitted };
                let number = plan.number_in(array, task);
                let queued = queue.iter().find(|queued| queued.id == array.id && queued.number == number);
                match (queued, code) {
                    // It was cancelled, and is ending.
                    (Some(queued), _) if cancelled && queued.state == "COMPLETING" => State::Stopped,
                    (Some(queued), _) if matches!(&*queued.state, "RUNNING" | "COMPLETING" | "SUSPENDED") => {
                        State::Running { left: queued.left.clone() }
                    }
                    (Some(queued), _) => State::Waiting { reason: queued.reason.clone() },
                    (None, Some(code)) => exit_state(code),
                    // It was cancelled before it started.
                    (None, None) if cancelled && !began(task) => State::NotSubmitted,
                    (None, None) => State::Lost { why: None },
                }
            }
        }
    };
    let mut states: Vec<(Task, State)> = plan.tasks().into_iter().map(|task| (task, state(task))).collect();
    // Slurm removes tasks from the queue whose dependencies failed: they never started.
    let mut unfinished = HashMap::new(); // the first stage of each chain that is
    for (task, _) in states.iter().filter(|(_, state)| *state != State::Done) {
        unfinished.entry(&plan.stages[task.stage].out).or_insert(task.stage);
    }
    for (task, state) in &mut states {
        if matches!(state, State::Lost { .. }) && unfinished[&plan.stages[task.stage].out] < task.stage {
            *state = State::NotSubmitted;
        }
    }
    // Accounting is queried once, for lost tasks alone.
    let lost = states.iter().filter(|(_, state)| matches!(state, State::Lost { .. }));
    let known = slurm::final_states(&lost.filter_map(|(task, _)| Some(&*arrays.get(task)?.id)).collect());
    for (task, state) in &mut states {
        if let State::Lost { why } = state {
            *why = arrays.get(task).and_then(|array| {
                let id = plan.slurm_id(array, *task);
                let group = id.trim_end_matches(char::is_numeric);
                known.get(&id).or_else(|| known.get(group)).cloned()
            });
        }
    }
    Ok(states)
}

/// The number of tasks in each state: `2 of 5 tasks done, 1 running, 2 waiting`.
pub fn summary(all: &[(Task, State)]) -> String {
    let word = |state: &State| match state {
        State::Done => "done",
        State::Running { .. } => "running",
        State::Waiting { .. } if state.is_held() => "held",
        State::Waiting { .. } => "waiting",
        State::Stopped => "stopped",
        State::Failed { .. } | State::Lost { .. } => "failed",
        State::NotSubmitted => "not submitted",
    };
    let count = |wanted: &str| all.iter().filter(|(_, state)| word(state) == wanted).count();
    let others = ["running", "waiting", "held", "stopped", "failed", "not submitted"];
    tasks::summary(count("done"), all.len(), &others.map(|other| (count(other), other)))
}

/// What to do about tasks that Slurm holds until somebody releases them; `None` if it holds none.
pub fn hold_note(plan: &Plan, states: &[(Task, State)]) -> Option<String> {
    let held: Vec<&(Task, State)> = states.iter().filter(|(_, state)| state.is_held()).collect();
    let (task, state) = held.first()?;
    let arrays = plan.arrays();
    let ids: BTreeSet<&str> = held.iter().filter_map(|(task, _)| Some(&*arrays.get(task)?.id)).collect();
    let ids = ids.into_iter().collect::<Vec<_>>().join(",");
    let name = plan.name(*task);
    Some(format!(
        "note: Slurm holds tasks, {name} first: {state}; `scontrol release {ids}` lets them start once the cause is fixed"
    ))
}

/// How long to wait before states that have been `unchanged` for this long are queried again: a tenth of that, within bounds.
pub fn query_interval(unchanged: Duration) -> Duration {
    let [shortest, longest] = QUERY_INTERVALS;
    (unchanged / 10).clamp(shortest, longest)
}

/// Whether every task has left the exit code 0; Slurm is not queried.
pub fn are_done(plan: &Plan) -> bool {
    plan.tasks().into_iter().all(|task| read_state(plan, task).is_some_and(|code| code.trim() == "0"))
}

/// The content of a task's state file: [`RUNNING`], or its exit code.
fn read_state(plan: &Plan, task: Task) -> Option<String> {
    atomic_file::text(&plan.state(task), MAX_STATE_BYTES).ok()
}

/// The state of a task with an exit code other than 0.
fn exit_state(code: i32) -> State {
    if STOPPED.contains(&code) { State::Stopped } else { State::Failed { code } }
}

/// The last non-empty lines of a task's log, at most `lines`.
pub fn tail(plan: &Plan, task: Task, lines: usize) -> Vec<String> {
    let text = end_of(&plan.log(task), TAIL_BYTES);
    let all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
}

/// The last bytes of a log, at most `most`, as text; drivers print there, too. Empty if it cannot be read.
pub fn end_of(path: &Path, most: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = atomic_file::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::submit::flags::SlurmFlags;
    use crate::app::submit::plan::{JOIN, Stage, TRAIN};
    use crate::app::{paths, processor_time};

    #[test]
    fn of_a_long_log_the_end_alone_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(end_of(&log, 4), "");
        crate::model::io::atomic_file::write(&log, b"begun\nend\n").unwrap();
        assert_eq!((end_of(&log, 4), end_of(&log, 99)), ("end\n".into(), "begun\nend\n".into()));
    }

    #[test]
    fn a_plan_of_many_stages_is_gone_through_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut stages = vec![Stage::single(TRAIN, Vec::new()); 200_000];
        stages.push(Stage::single(JOIN, Vec::new()));
        let plan = Plan::new(folder.path(), SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        let done = Task { stage: 0, index: 0 }; // all but the last have one name
        paths::make_folder(plan.state(done).parent().unwrap()).unwrap();
        paths::write(&plan.state(done), b"0").unwrap();
        let before = processor_time::of_thread();
        let states = states(&plan).unwrap();
        let took = processor_time::of_thread().saturating_sub(before);
        assert_eq!(summary(&states), "200000 of 200,001 tasks done, 1 not submitted");
        assert!(took < Duration::from_secs(20), "{took:?}"); // it took minutes
    }

    #[cfg(unix)]
    #[test]
    fn tasks_whose_lock_cannot_be_looked_at_are_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let stages = vec![Stage::single(TRAIN, Vec::new())];
        let plan = Plan::new(folder.path(), SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        paths::make_folder(&plan.home().join("state")).unwrap();
        for (name, content) in [("train", RUNNING), (".lock", "")] {
            paths::write(&plan.home().join("state").join(name), content.as_bytes()).unwrap();
        }
        let ask = |errno| {
            crate::model::io::failpoint::locks(errno);
            states(&plan)
        };
        let refused = format!("{:#}", ask(Some(libc::EIO)).unwrap_err());
        assert!(refused.contains(".lock: cannot be locked: "), "{refused}");
        assert_eq!(ask(None).unwrap()[0].1, State::Lost { why: None });
    }

    #[test]
    fn of_a_task_without_a_time_limit_no_time_is_left() {
        let state = |left: &str| State::Running { left: left.to_owned() }.to_string();
        let shown = ["1-02:00:00", "9:57", "UNLIMITED", ""].map(state);
        assert_eq!(shown, ["running, 1-02:00:00 left", "running, 9:57 left", "running", "running"]);
    }

    #[test]
    fn what_does_not_change_is_asked_for_ever_more_seldom() {
        let interval = |seconds| query_interval(Duration::from_secs(seconds)).as_secs();
        assert_eq!([0, 20, 100, 3600].map(interval), [2, 2, 10, 30]);
    }
}
