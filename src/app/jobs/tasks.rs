//! A training divided into tasks, as the window sees it: where it runs, the form of Slurm's options, the planned tasks, and the status of
//! submitted ones. `app::submit` submits and polls them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::format::counted;
use crate::app::value_parser::whole_number;

/// Where a training runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainPlace {
    /// In this process.
    #[default]
    Here,
    /// In a separate process on the machine that computes.
    Detached,
    /// As Slurm tasks.
    Slurm,
}

/// The form of Slurm's options; an empty field leaves the choice to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskForm {
    /// Number of tasks; one for each seed if empty.
    pub tasks: String,
    /// Partition of the cluster.
    pub partition: String,
    /// Account to charge.
    pub account: String,
    /// Time limit of a task.
    pub time: String,
    /// GPUs of a task.
    pub gpus: String,
    /// Processor cores of a task.
    pub cpus: String,
    /// Memory of a task.
    pub memory: String,
    /// Most tasks of an array that run at a time.
    pub array_limit: String,
    /// Other options of `sbatch`: `KEY=VALUE`, separated by spaces.
    pub others: String,
}

/// The remembered choice where trainings run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainPlaceSettings {
    /// Where to run, if it is available.
    pub place: TrainPlace,
    /// Slurm's options.
    pub slurm: TaskForm,
}

impl TaskForm {
    /// The equivalent flags of `ssmprobe train`.
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

    /// What is wrong with the fields, each after the name of its field; empty if nothing is.
    pub fn faults(&self) -> Vec<String> {
        let counts = [("Tasks", &self.tasks), ("At a time", &self.array_limit), ("CPUs", &self.cpus)];
        let counts = counts.map(|(name, text)| (name, text, whole_number(1_u32..)(text.trim()).err()));
        let time = [("Time", &self.time, time_limit(self.time.trim()).err())];
        let given = time.into_iter().chain(counts).filter(|(_, text, _)| !text.trim().is_empty());
        given.filter_map(|(name, _, fault)| Some(format!("{name}: {}", fault?))).collect()
    }
}

/// The shortest time limit of a task in seconds: Slurm signals it up to three minutes before, and it has yet to start.
const MIN_SECONDS: u64 = 300;

/// Parses a time limit in one of Slurm's formats: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or a word or 0 for none.
pub fn time_limit(text: &str) -> Result<String, String> {
    let (days, clock) = text.split_once('-').map_or((None, text), |(days, clock)| (Some(days), clock));
    let units = match (days, clock.split(':').count()) {
        (Some(_), 1..=3) => Some([86_400, 3600, 60, 1]),
        (None, 3) => Some([3600, 60, 1, 0]),
        (None, 1 | 2) => Some([60, 1, 0, 0]),
        _ => None,
    };
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
    let seconds = |(field, unit)| Some(u64::from(number(field)?) * unit);
    let fields = days.into_iter().chain(clock.split(':'));
    let is_endless = ["unlimited", "infinite"].iter().any(|word| text.eq_ignore_ascii_case(word));
    match units.and_then(|units| fields.zip(units).map(seconds).sum()) {
        Some(0 | MIN_SECONDS..) => Ok(text.to_owned()),
        None if is_endless => Ok(text.to_owned()),
        Some(seconds) => Err(format!(
            "that is {seconds} s, and two minutes before its limit a task saves and is queued again: expected at least \
             {MIN_SECONDS} s (4:00 is four minutes, 4:00:00 four hours)"
        )),
        None => Err("expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS".to_owned()),
    }
}

/// A stage of tasks that depend only on earlier stages, as it would be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStage {
    /// Name of the stage.
    pub name: String,
    /// Number of tasks.
    pub tasks: usize,
    /// The script for `sbatch`.
    pub script: String,
}

impl PlannedStage {
    /// What its tasks do.
    pub fn about(&self) -> &'static str {
        match self.name.as_str() {
            "tokens" => "Each extracts the tokens of some of the images",
            "all-tokens" => "Extracts the tokens that are still missing",
            "train" if self.tasks == 1 => "Trains all heads with all seeds",
            "train" => "Each trains some of the seeds, or some of the heads with one seed",
            "join" => "Joins their results into the run",
            _ => "",
        }
    }
}

/// The phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// Not submitted, or stopped with its results kept.
    Idle,
    /// Waiting to run.
    Waiting,
    /// Running.
    Running,
    /// Finished.
    Done,
    /// Ended without finishing.
    Failed,
}

/// The status of a submitted task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: TaskPhase,
    /// Its state in the words of `ssmprobe jobs`.
    pub state: String,
    /// The last line it printed, or several of a failed task.
    pub said: Vec<String>,
}

/// The status of a run's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// All tasks, in the order they may run; empty while that is unknown.
    pub all: Vec<TaskStatus>,
    /// Why their current status is unknown.
    pub problem: Option<String>,
}

impl Tasks {
    /// Whether all tasks are done.
    pub fn are_done(&self) -> bool {
        !self.all.is_empty() && self.count(TaskPhase::Done) == self.all.len()
    }

    /// Whether any task is waiting or running.
    pub fn are_active(&self) -> bool {
        self.count(TaskPhase::Running) + self.count(TaskPhase::Waiting) > 0
    }

    /// Whether tasks have to be submitted again for the run to finish.
    pub fn can_retry(&self) -> bool {
        self.count(TaskPhase::Failed) + self.count(TaskPhase::Idle) > 0
    }

    /// Number of tasks in a phase.
    pub fn count(&self, phase: TaskPhase) -> usize {
        self.all.iter().filter(|task| task.phase == phase).count()
    }

    /// The number of tasks in each phase, in words.
    pub fn summary(&self) -> String {
        let others = [
            (self.count(TaskPhase::Running), "running"),
            (self.count(TaskPhase::Waiting), "waiting"),
            (self.count(TaskPhase::Failed), "failed"),
            (self.count(TaskPhase::Idle), "inactive"),
        ];
        summary(self.count(TaskPhase::Done), self.all.len(), &others)
    }
}

/// Tasks by their states, in words: `2 of 5 tasks done, 1 running`; `others` without tasks are left out.
pub fn summary(done: usize, all: usize, others: &[(usize, &str)]) -> String {
    let others = others.iter().filter(|(number, _)| *number > 0);
    let others: String = others.map(|(number, name)| format!(", {number} {name}")).collect();
    format!("{done} of {} done{others}", counted(all, "task", "tasks"))
}

/// The file that lists the tasks of a run's folder.
pub fn plan_file(folder: &Path) -> PathBuf {
    folder.join("tasks/plan.json")
}

/// The folders of a run's parts that are not joined yet, in order.
pub fn part_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("tasks")).into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<usize>().ok();
    let mut parts: Vec<usize> = entries.filter_map(number).collect();
    parts.sort_unstable();
    parts.into_iter().map(|part| folder.join("tasks").join(part.to_string())).collect()
}

/// Whether tasks can be submitted to Slurm from this machine.
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
    fn a_time_limit_has_a_format_of_slurm() {
        for text in ["0", "5", "90:30", "0:05:00", "4:00:00", "0-0:5", "1-12", "1-12:30:00", "UNLIMITED"] {
            assert_eq!(time_limit(text).as_deref(), Ok(text));
        }
        for text in ["", "foo", "4h", "-1", "1-", ":30", "1:2:3:4", "1-2:3:4:5", "1-2-3", "4:00:00 ", "+90"] {
            assert!(time_limit(text).unwrap_err().contains("D-HH:MM:SS"), "{text}");
        }
        for text in ["4", "4:00", "4:59", "0:04:59", "0-0:4"] {
            assert!(time_limit(text).unwrap_err().contains("expected at least 300 s"), "{text}");
        }
    }

    #[test]
    fn a_field_that_is_wrong_is_named_and_an_empty_one_is_not() {
        let form =
            TaskForm { tasks: " 4 ".into(), time: "4h".into(), cpus: "0".into(), ..TaskForm::default() };
        let [time, cpus] = &form.faults()[..] else { panic!("{:?}", form.faults()) };
        assert!(time.starts_with("Time: expected minutes") && cpus == "CPUs: expected a whole number from 1");
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
        assert_eq!(tasks.summary(), "1 of 3 tasks done, 1 failed, 1 inactive");
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
