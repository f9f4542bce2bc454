//! The plan: all stages and tasks as plain data, in a file that submitting, showing and retrying share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use super::flags::{SlurmFlags, SubmitTarget};
use super::slurm;
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::tasks::plan_file;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::paths::{self, make_folder, program};
use crate::model::io::{Format, atomic_file};

const MAX_PLAN_BYTES: u64 = 1 << 24;
const MAX_TASKS: u64 = 1_000_000;
/// The name of the stage whose tasks train, each into a folder of its own.
pub const TRAIN: &str = "train";
/// The name of the last stage.
pub const JOIN: &str = "join";

/// All tasks of one submitted command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    format: Format<1>,
    /// The folder of the results; `tasks` lies in it.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The executable of this process, whichever one wrote the file.
    #[serde(skip)]
    pub program: PathBuf,
    /// The working directory of the tasks' command lines.
    pub directory: PathBuf,
    /// Who runs the tasks.
    pub place: SubmitTarget,
    /// Options for Slurm.
    pub slurm: SlurmFlags,
    /// Most tasks of one array, where there are arrays.
    pub largest_array: usize,
    /// The stages; each depends on the one before it in its chain.
    pub stages: Vec<Stage>,
    /// The arrays that were submitted to Slurm, in order.
    #[serde(default, rename = "handed_in")] // as plan files have it
    pub submitted: Vec<Array>,
}

/// Tasks that depend on nothing but the stage before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// `tokens`, `train`, `eval`, `join`.
    pub name: String,
    /// The arguments of the program.
    pub words: Vec<String>,
    /// The number of parts it is cut into, each run with `--part I/N`; absent if it is a single task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<usize>,
    /// The folder of its results below the plan's; absent if it is the plan's own. Stages of one folder form a chain: each
    /// depends on the one before, and on none of another chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

/// A task: a stage, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// The index of its stage.
    pub stage: usize,
    /// Its index in the stage, from 0.
    pub index: usize,
}

/// Tasks of one stage that were submitted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Slurm's job id.
    pub id: String,
    /// The index of their stage.
    pub stage: usize,
    /// The number of tasks of the stage before the array's task 1.
    pub before: usize,
    /// The indices of the tasks in their stage.
    pub tasks: Vec<usize>,
}

impl Stage {
    /// A stage of a single task.
    pub fn single(name: &str, words: Vec<String>) -> Self {
        Self { name: name.to_owned(), words, parts: None, out: None }
    }

    /// A stage that is cut into `parts` tasks.
    pub fn cut(name: &str, words: Vec<String>, parts: usize) -> Self {
        Self { name: name.to_owned(), words, parts: Some(parts), out: None }
    }

    /// Its unique id in the plan: its name, followed by its folder if it has one.
    pub fn id(&self) -> String {
        match &self.out {
            Some(out) => format!("{}-{out}", self.name),
            None => self.name.clone(),
        }
    }

    /// The number of its tasks.
    pub fn tasks(&self) -> usize {
        self.parts.unwrap_or(1)
    }
}

impl Plan {
    /// A plan with its results in `folder`.
    ///
    /// # Errors
    /// If it is not valid, as with too many tasks; if this executable or the working directory cannot be determined, or a
    /// path is not Unicode, as the file and the scripts are, or Slurm cannot write logs there.
    pub fn new(
        folder: &Path,
        place: SubmitTarget,
        slurm: SlurmFlags,
        stages: Vec<Stage>,
    ) -> anyhow::Result<Self> {
        let program = program()?;
        let directory = std::env::current_dir().context("the current folder cannot be determined")?;
        let folder = std::path::absolute(folder).context("the current folder cannot be determined")?;
        if let Some(path) = [&directory, &folder, &program].into_iter().find(|path| path.to_str().is_none()) {
            let why = "is not valid Unicode; submit from and into a folder whose path is";
            refuse!("{}: {why}", path.display());
        }
        let is_odd = |c: char| c == '\\' || c.is_control();
        if place == SubmitTarget::Slurm && folder.to_str().is_some_and(|path| path.contains(is_odd)) {
            let why = "Slurm takes a backslash in the path of a log for an escape, and a line break or tab for its end, and the tasks \
                       would fail; choose a folder without them";
            refuse!("{}: {why}", folder.display());
        }
        let largest_array = match place {
            SubmitTarget::Slurm => slurm::largest_array(),
            SubmitTarget::Local => usize::MAX,
        };
        let (format, submitted) = (Format, Vec::new());
        let plan =
            Self { format, folder, program, directory, place, slurm, largest_array, stages, submitted };
        let refused = |found| Usage(format!("{}: {found}; choose fewer with --tasks", plan.folder.display()));
        plan.check().map_err(refused)?;
        Ok(plan)
    }

    /// Reads the plan of the results' folder.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = plan_file(folder);
        let shown = path.display();
        let refused = |why: std::io::Error| {
            Usage(format!("{shown}: cannot be read: {why}; check the path and its permissions"))
        };
        if !atomic_file::is_there(&path).map_err(refused)? {
            let evaluation = folder.join("evaluation");
            let remedy = match plan_file(&evaluation).exists() {
                true => format!("those of its evaluation are in {}", evaluation.display()),
                false => {
                    "train, sweep, extract and eval (in RUN/evaluation) create some with --submit".to_owned()
                }
            };
            let folder = folder.display();
            refuse!("{folder} has no tasks ({shown} does not exist); {remedy}");
        }
        let bytes =
            atomic_file::read(&path, MAX_PLAN_BYTES).with_context(|| format!("{shown}: cannot be read"))?;
        let plan: Self = serde_json::from_slice(&bytes)
            .with_context(|| format!("{shown}: is not a task plan of this version"))?;
        let invalid = |found| anyhow!("{shown}: {found}; submit the work again, into another folder");
        plan.check().map_err(invalid)?;
        Ok(Self { folder: std::path::absolute(folder)?, program: program()?, ..plan })
    }

    /// Whether the plan is valid; the error says why not.
    fn check(&self) -> Result<(), String> {
        let plain =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        if let Some(stage) = self.stages.iter().find(|stage| !plain(&stage.name)) {
            return Err(format!("`{}` is not a stage name", stage.name));
        }
        let is_subfolder = |out: &&String| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
            !out.is_empty() && !out.starts_with(['.', '-']) && out.bytes().all(plain)
        };
        if let Some(out) =
            self.stages.iter().filter_map(|stage| stage.out.as_ref()).find(|out| !is_subfolder(out))
        {
            return Err(format!("`{out}` is not a folder name"));
        }
        if let Some(array) = self.submitted.iter().find(|array| !slurm::is_job(&array.id)) {
            return Err(format!("`{}` is not the number of a job of Slurm", array.id));
        }
        let tasks = self.stages.iter().fold(0_u64, |sum, stage| sum.saturating_add(stage.tasks() as u64));
        if tasks > MAX_TASKS {
            return Err(format!("it has {tasks} tasks, and a plan has at most {MAX_TASKS}"));
        }
        let has_tasks = self.largest_array > 0 && self.stages.iter().all(|stage| stage.tasks() > 0);
        let is_valid = |array: &Array| {
            let stage = self.stages.get(array.stage);
            let is_task =
                |task: &usize| stage.is_some_and(|stage| *task < stage.tasks() && *task >= array.before);
            array.tasks.iter().all(is_task)
        };
        match has_tasks && self.submitted.iter().all(is_valid) {
            true => Ok(()),
            false => Err("its stages and arrays do not match".to_owned()),
        }
    }

    /// Writes the plan file, making the folders of the tasks.
    pub fn save(&self) -> anyhow::Result<()> {
        let path = plan_file(&self.folder);
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain data serialises");
        bytes.push(b'\n');
        for folder in [self.home(), self.home().join("state"), self.home().join("log")] {
            make_folder(&folder)?;
        }
        paths::write(&path, &bytes)
    }

    /// The folder of the plan, the scripts, states and logs.
    pub fn home(&self) -> PathBuf {
        self.folder.join("tasks")
    }

    /// All tasks, in the order they may run.
    pub fn tasks(&self) -> Vec<Task> {
        let tasks_of = |stage: usize| (0..self.stages[stage].tasks()).map(move |index| Task { stage, index });
        (0..self.stages.len()).flat_map(tasks_of).collect()
    }

    /// The array that each task was last submitted with; those that never were have none.
    pub fn arrays(&self) -> HashMap<Task, &Array> {
        let tasks = self.submitted.iter().flat_map(|array| {
            array.tasks.iter().map(move |&index| (Task { stage: array.stage, index }, array))
        });
        tasks.collect()
    }

    /// A task's number in the array it was submitted with, from 1; `None` if its stage is a single task.
    pub fn number_in(&self, array: &Array, task: Task) -> Option<usize> {
        self.stages[task.stage].parts.map(|_| task.index + 1 - array.before)
    }

    /// Slurm's id of a task that was submitted with `array`: `12_3`, the third of an array, or `12`.
    pub fn slurm_id(&self, array: &Array, task: Task) -> String {
        let number = self.number_in(array, task).map_or_else(String::new, |number| format!("_{number}"));
        format!("{}{number}", array.id)
    }

    /// A task's name: the id of its stage, and its number from 1 if the stage is cut.
    pub fn name(&self, task: Task) -> String {
        let stage = &self.stages[task.stage];
        match stage.parts {
            Some(_) => format!("{}-{}", stage.id(), task.index + 1),
            None => stage.id(),
        }
    }

    /// The arguments of the program for a task.
    pub fn words(&self, task: Task) -> Vec<String> {
        let stage = &self.stages[task.stage];
        let part = stage.parts.map(|of| format!("--part={}", Part { index: task.index, of }));
        stage.words.iter().cloned().chain(part).collect()
    }

    /// The state file of a task: its exit code once it has ended.
    pub fn state(&self, task: Task) -> PathBuf {
        self.home().join("state").join(self.name(task))
    }

    /// Whether the tasks were cancelled, and none was submitted since.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled().exists()
    }

    /// Marks the tasks as cancelled.
    pub fn mark_cancelled(&self) -> anyhow::Result<()> {
        paths::write(&self.cancelled(), b"")
    }

    /// Removes the mark of [`mark_cancelled`](Self::mark_cancelled).
    pub fn forget_cancelled(&self) {
        let _ = std::fs::remove_file(self.cancelled()); // it may not exist
    }

    fn cancelled(&self) -> PathBuf {
        self.home().join("state/.cancel")
    }

    /// The log file of a task.
    pub fn log(&self, task: Task) -> PathBuf {
        self.home().join("log").join(format!("{}.txt", self.name(task)))
    }

    /// The folder of the results of a chain.
    pub fn out(&self, chain: Option<&str>) -> PathBuf {
        chain.map_or_else(|| self.folder.clone(), |out| self.folder.join(out))
    }

    /// Whether the stage `later` depends on the stage `earlier`.
    pub fn waits(&self, later: usize, earlier: usize) -> bool {
        earlier < later && self.stages[earlier].out == self.stages[later].out
    }

    /// The tasks that train the parts to be joined, each with its folder.
    pub fn parts(&self) -> Vec<(Task, PathBuf)> {
        let trains = |task: &Task| self.stages[task.stage].name == TRAIN;
        let folder = |task: Task| part_folder(&self.out(self.stages[task.stage].out.as_deref()), task.index);
        self.tasks().into_iter().filter(trains).map(|task| (task, folder(task))).collect()
    }
}
