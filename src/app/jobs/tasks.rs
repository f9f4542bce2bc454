//! A training cut into tasks, as a window sees it: where it is computed, what Slurm is told as it is filled in, which tasks
//! it would be, and how those go that were handed in. Who hands in and looks is `app::submit`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where a training is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainPlace {
    /// In this program.
    #[default]
    Here,
    /// In a process of its own on the machine that computes.
    Detached,
    /// In tasks that Slurm runs.
    Slurm,
}

/// What Slurm is told, as it is filled in; what is empty is left to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskForm {
    /// Into how many tasks the training is cut; one for each seed where empty.
    pub tasks: String,
    /// Partition of the cluster.
    pub partition: String,
    /// Account that is charged.
    pub account: String,
    /// Most time of a task.
    pub time: String,
    /// GPUs of a task.
    pub gpus: String,
    /// Processor cores of a task.
    pub cpus: String,
    /// Memory of a task.
    pub memory: String,
    /// Most tasks of one array at a time.
    pub array_limit: String,
    /// Other options of `sbatch`, `KEY=VALUE` with spaces between them.
    pub others: String,
}

/// Where trainings are computed, as it is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainPlaceSettings {
    /// Where, if it can be had.
    pub place: TrainPlace,
    /// What Slurm is told.
    pub slurm: TaskForm,
}

impl TaskForm {
    /// The flags of `ssmprobe train` that say the same.
    pub fn words(&self) -> Vec<String> {
        let Self { tasks, partition, account, time, gpus, cpus, memory, array_limit, others } = self;
        let flags = [
            ("tasks", tasks),
            ("partition", partition),
            ("account", account),
            ("time", time),
            ("gpus", gpus),
            ("cpus", cpus),
            ("memory", memory),
            ("array-limit", array_limit),
        ];
        let flags = flags.into_iter().map(|(flag, value)| (flag, value.trim()));
        let others = others.split_whitespace().map(|pair| ("slurm", pair));
        let given = flags.chain(others).filter(|(_, value)| !value.is_empty());
        given.map(|(flag, value)| format!("--{flag}={value}")).collect()
    }
}

/// A training that is to be handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// What `ssmprobe train` is told, where to hand it in included, but for the folder of the run.
    pub words: Vec<String>,
    /// That folder; `~/` begins at the user's own.
    pub out: PathBuf,
    /// Whether this was asked before, and the answer was lost: what was handed in is not handed in again.
    pub again: bool,
}

/// Tasks that wait for nothing but those before, as they would be handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStage {
    /// What they are called.
    pub name: String,
    /// How many they are.
    pub tasks: usize,
    /// What `sbatch` would get.
    pub script: String,
}

impl PlannedStage {
    /// What its tasks do.
    pub fn about(&self) -> &'static str {
        match self.name.as_str() {
            "tokens" => "Each takes the tokens of some of the images",
            "all-tokens" => "Takes the tokens that are still missing",
            "train" if self.tasks == 1 => "Trains all heads with all seeds",
            "train" => "Each trains some of the seeds, or some of the heads with one seed",
            "join" => "Joins what they made into the run",
            _ => "",
        }
    }
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// Nobody runs it: it was not handed in, or stopped and kept.
    Idle,
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Running,
    /// It is done.
    Done,
    /// It came to another end.
    Failed,
}

/// How a task goes that was handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// What it is called.
    pub name: String,
    /// How far it is.
    pub phase: TaskPhase,
    /// The same as `ssmprobe jobs` says it.
    pub state: String,
    /// The last it printed, of one that failed some lines.
    pub said: Vec<String>,
}

/// The tasks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// All of them, in the order they may run; none where that is not known yet.
    pub all: Vec<TaskStatus>,
    /// Why it is not known how they go now.
    pub problem: Option<String>,
}

impl Tasks {
    /// Whether all of them are done.
    pub fn are_done(&self) -> bool {
        !self.all.is_empty() && self.count(TaskPhase::Done) == self.all.len()
    }

    /// Whether one of them will come to an end by itself.
    pub fn are_active(&self) -> bool {
        self.count(TaskPhase::Running) + self.count(TaskPhase::Waiting) > 0
    }

    /// Whether some are to be handed in again before it comes to its end.
    pub fn can_retry(&self) -> bool {
        self.count(TaskPhase::Failed) + self.count(TaskPhase::Idle) > 0
    }

    /// How many are in a phase.
    pub fn count(&self, phase: TaskPhase) -> usize {
        self.all.iter().filter(|task| task.phase == phase).count()
    }

    /// How many are in which phase, in words.
    pub fn summary(&self) -> String {
        let mut text = format!("{} of {} tasks done", self.count(TaskPhase::Done), self.all.len());
        for (phase, name) in [
            (TaskPhase::Running, "running"),
            (TaskPhase::Waiting, "waiting"),
            (TaskPhase::Failed, "failed"),
            (TaskPhase::Idle, "not under way"),
        ] {
            if self.count(phase) > 0 {
                text += &format!(", {} {name}", self.count(phase));
            }
        }
        text
    }
}

/// The file that says which tasks a run's folder holds.
pub fn plan_file(folder: &Path) -> PathBuf {
    folder.join("tasks/plan.json")
}

/// The folders of the parts of a run that are not joined yet, in order.
pub fn part_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("tasks")).into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<usize>().ok();
    let mut parts: Vec<usize> = entries.filter_map(number).collect();
    parts.sort_unstable();
    parts.into_iter().map(|part| folder.join("tasks").join(part.to_string())).collect()
}

/// Whether tasks can be handed to Slurm from this machine.
pub fn has_slurm() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("sbatch").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(phase: TaskPhase) -> TaskStatus {
        TaskStatus { name: "train-1".into(), phase, state: String::new(), said: Vec::new() }
    }

    #[test]
    fn what_is_filled_in_becomes_flags_and_what_is_empty_is_left_out() {
        let form = TaskForm {
            tasks: " 4 ".into(),
            partition: "gpu".into(),
            array_limit: "2".into(),
            others: "comment=x  exclusive".into(),
            ..TaskForm::default()
        };
        let expected =
            ["--tasks=4", "--partition=gpu", "--array-limit=2", "--slurm=comment=x", "--slurm=exclusive"];
        assert_eq!(form.words(), expected);
        assert!(TaskForm::default().words().is_empty());
    }

    #[test]
    fn tasks_are_counted_and_are_done_only_where_all_are() {
        use TaskPhase::{Done, Failed, Idle, Running, Waiting};
        let mut tasks = Tasks::default();
        assert!(!tasks.are_done() && !tasks.are_active() && !tasks.can_retry());
        tasks.all = [Done, Running, Waiting, Waiting].map(task).into();
        assert_eq!(tasks.summary(), "1 of 4 tasks done, 1 running, 2 waiting");
        assert!(tasks.are_active() && !tasks.can_retry() && !tasks.are_done());
        tasks.all = [Done, Failed, Idle].map(task).into();
        assert_eq!(tasks.summary(), "1 of 3 tasks done, 1 failed, 1 not under way");
        assert!(!tasks.are_active() && tasks.can_retry());
        tasks.all = vec![task(Done)];
        assert!(tasks.are_done() && !tasks.can_retry());
    }

    #[test]
    fn parts_come_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tasks/10", "tasks/2", "tasks/log", "tasks/3.damaged-1"] {
            crate::model::io::atomic_file::make_folder(&folder.path().join(name)).unwrap();
        }
        assert_eq!(
            part_folders(folder.path()),
            ["2", "10"].map(|part| folder.path().join("tasks").join(part))
        );
        assert!(part_folders(&folder.path().join("none")).is_empty());
    }
}
