//! What tasks there are, as plain data, in a file from which everybody goes on: who hands them in, who shows how they
//! go, who hands in again what failed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::flags::{SlurmFlags, SubmitTarget};
use crate::app::jobs::part::{Part, part_folder};
use crate::app::jobs::tasks::plan_file;
use crate::app::user_error::Usage;
use crate::model::io::atomic_file;

/// The version of the file.
const FORMAT: u64 = 1;
/// No plan is longer, in bytes.
const MAX_PLAN_BYTES: u64 = 1 << 24;
/// No plan has more tasks.
const MAX_TASKS: u64 = 1_000_000;
/// The stage of trainings, each into a folder of its own.
pub const TRAIN: &str = "train";
/// The last stage.
pub const JOIN: &str = "join";

/// All tasks of one piece of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    format: u64,
    /// The folder that everything ends in; `tasks` lies in it.
    #[serde(skip)]
    pub folder: PathBuf,
    /// This program: not the one that a file names.
    #[serde(skip)]
    pub program: PathBuf,
    /// The folder in which its words are read.
    pub directory: PathBuf,
    /// Who runs the tasks.
    pub place: SubmitTarget,
    /// What Slurm is told.
    pub slurm: SlurmFlags,
    /// Most tasks of one array, where there are arrays.
    pub largest_array: usize,
    /// The stages, each of which waits for the one before.
    pub stages: Vec<Stage>,
    /// What was handed in to Slurm, in order.
    #[serde(default)]
    pub handed_in: Vec<Array>,
}

/// Tasks that wait for nothing but the stage before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// `tokens`, `train`, `eval`, `join`.
    pub name: String,
    /// The command line, after the program.
    pub words: Vec<String>,
    /// Into how many parts it is cut, each called by `--part I/N`; absent where it is one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<usize>,
    /// The folder below the plan's that it ends in; absent where it is the plan's own. Stages of one folder are a chain: each
    /// waits for the one before, and for none of another chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Its stage.
    pub stage: usize,
    /// Its place in the stage, from 0.
    pub index: usize,
}

/// Tasks that were handed in together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// What Slurm calls it.
    pub id: String,
    /// Their stage.
    pub stage: usize,
    /// Slurm counts its tasks from 1; this many tasks of the stage come before.
    pub before: usize,
    /// Which tasks of the stage.
    pub tasks: Vec<usize>,
}

impl Stage {
    /// One task.
    pub fn whole(name: &str, words: Vec<String>) -> Self {
        Self { name: name.to_owned(), words, parts: None, out: None }
    }

    /// As many tasks as `parts`.
    pub fn cut(name: &str, words: Vec<String>, parts: usize) -> Self {
        Self { name: name.to_owned(), words, parts: Some(parts), out: None }
    }

    /// What tells it from every other: its name, and its folder where it has one.
    pub fn id(&self) -> String {
        match &self.out {
            Some(out) => format!("{}-{out}", self.name),
            None => self.name.clone(),
        }
    }

    /// How many tasks.
    pub fn tasks(&self) -> usize {
        self.parts.unwrap_or(1)
    }
}

impl Plan {
    /// Of these stages, in `folder`.
    ///
    /// # Errors
    /// If nobody could read it again; if nobody knows where this program lies, or where it was called.
    pub fn new(
        folder: &Path,
        place: SubmitTarget,
        slurm: SlurmFlags,
        stages: Vec<Stage>,
    ) -> anyhow::Result<Self> {
        let program = program()?;
        let directory = std::env::current_dir().context("the current folder cannot be told")?;
        let folder = std::path::absolute(folder).context("the current folder cannot be told")?;
        let (format, largest_array, handed_in) = (FORMAT, usize::MAX, Vec::new());
        let plan =
            Self { format, folder, program, directory, place, slurm, largest_array, stages, handed_in };
        match plan.fault() {
            None => Ok(plan),
            Some(found) => {
                Err(Usage(format!("{}: {found}; ask for fewer by --tasks", plan.folder.display())).into())
            }
        }
    }

    /// That of `folder`.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
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
                    "--submit of train, sweep, extract and eval (in RUN/evaluation) makes some".to_owned()
                }
            };
            let folder = folder.display();
            return Err(Usage(format!("{folder} holds no tasks ({shown} is not there); {remedy}")).into());
        }
        let bytes =
            atomic_file::read(&path, MAX_PLAN_BYTES).with_context(|| format!("{shown}: cannot be read"))?;
        let plan: Self =
            serde_json::from_slice(&bytes).with_context(|| format!("{shown}: it is no plan of tasks"))?;
        if plan.format != FORMAT {
            bail!(
                "{shown}: `format` is {}; this program reads {FORMAT}, use the one that wrote it",
                plan.format
            );
        }
        if let Some(found) = plan.fault() {
            bail!("{shown}: {found}; hand the work in anew, into another folder");
        }
        Ok(Self { folder: std::path::absolute(folder)?, program: program()?, ..plan })
    }

    /// What is wrong with one that was read.
    fn fault(&self) -> Option<String> {
        let plain =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        if let Some(stage) = self.stages.iter().find(|stage| !plain(&stage.name)) {
            return Some(format!("`{}` is no name of a stage", stage.name));
        }
        let below = |out: &&String| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
            !out.is_empty() && !out.starts_with(['.', '-']) && out.bytes().all(plain)
        };
        if let Some(out) = self.stages.iter().filter_map(|stage| stage.out.as_ref()).find(|out| !below(out)) {
            return Some(format!("`{out}` is no name of a folder"));
        }
        let tasks = self.stages.iter().fold(0_u64, |sum, stage| sum.saturating_add(stage.tasks() as u64));
        if tasks > MAX_TASKS {
            return Some(format!("it has {tasks} tasks, and no plan has more than {MAX_TASKS}"));
        }
        let some = self.largest_array > 0 && self.stages.iter().all(|stage| stage.tasks() > 0);
        let own = |array: &Array| {
            let stage = self.stages.get(array.stage);
            let known =
                |task: &usize| stage.is_some_and(|stage| *task < stage.tasks() && *task >= array.before);
            array.tasks.iter().all(known)
        };
        match some && self.handed_in.iter().all(own) {
            true => None,
            false => Some("its stages and arrays do not fit".to_owned()),
        }
    }

    /// Writes it where it is opened.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn save(&self) -> anyhow::Result<()> {
        let path = plan_file(&self.folder);
        let mut bytes = serde_json::to_vec_pretty(self).expect("plain data serialises");
        bytes.push(b'\n');
        for folder in [self.home(), self.home().join("state"), self.home().join("log")] {
            atomic_file::make_folder(&folder).with_context(|| folder.display().to_string())?;
        }
        atomic_file::write(&path, &bytes).with_context(|| path.display().to_string())
    }

    /// The folder of everything about the tasks.
    pub fn home(&self) -> PathBuf {
        self.folder.join("tasks")
    }

    /// All tasks, in the order they may run.
    pub fn tasks(&self) -> Vec<Task> {
        let of = |stage: usize| (0..self.stages[stage].tasks()).map(move |index| Task { stage, index });
        (0..self.stages.len()).flat_map(of).collect()
    }

    /// The array that a task was handed in with last.
    pub fn array(&self, task: Task) -> Option<&Array> {
        self.handed_in.iter().rfind(|array| array.stage == task.stage && array.tasks.contains(&task.index))
    }

    /// A task's number in the array it was handed in with, from 1; nothing where its stage is a single task.
    pub fn number_in(&self, array: &Array, task: Task) -> Option<usize> {
        self.stages[task.stage].parts.map(|_| task.index + 1 - array.before)
    }

    /// What Slurm calls a task that was handed in: `12_3`, the third of an array, or `12`.
    pub fn slurm_id(&self, task: Task) -> Option<String> {
        let array = self.array(task)?;
        let number = self.number_in(array, task).map_or_else(String::new, |number| format!("_{number}"));
        Some(format!("{}{number}", array.id))
    }

    /// A task's name: that of its stage, and its number where there are several.
    pub fn name(&self, task: Task) -> String {
        let stage = &self.stages[task.stage];
        match stage.parts {
            Some(_) => format!("{}-{}", stage.id(), task.index + 1),
            None => stage.id(),
        }
    }

    /// The command line of a task, after the program.
    pub fn words(&self, task: Task) -> Vec<String> {
        let stage = &self.stages[task.stage];
        let part = stage.parts.map(|of| format!("--part={}", Part { index: task.index, of }));
        stage.words.iter().cloned().chain(part).collect()
    }

    /// Where a task's exit code lies once it has come to an end.
    pub fn state(&self, task: Task) -> PathBuf {
        self.home().join("state").join(self.name(task))
    }

    /// Whether all tasks were ended, and none was handed in since.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled().exists()
    }

    /// Says that all tasks were ended.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn mark_cancelled(&self) -> anyhow::Result<()> {
        let path = self.cancelled();
        atomic_file::write(&path, b"").with_context(|| path.display().to_string())
    }

    /// Says so no more.
    pub fn forget_cancelled(&self) {
        let _ = std::fs::remove_file(self.cancelled()); // it may not be there
    }

    fn cancelled(&self) -> PathBuf {
        self.home().join("state/.cancel")
    }

    /// What a task printed.
    pub fn log(&self, task: Task) -> PathBuf {
        self.home().join("log").join(format!("{}.txt", self.name(task)))
    }

    /// The folder that a chain ends in.
    pub fn out(&self, chain: Option<&str>) -> PathBuf {
        chain.map_or_else(|| self.folder.clone(), |out| self.folder.join(out))
    }

    /// Whether the stage `later` waits for the stage `earlier`.
    pub fn waits(&self, later: usize, earlier: usize) -> bool {
        earlier < later && self.stages[earlier].out == self.stages[later].out
    }

    /// The tasks whose runs are joined, and their folders.
    pub fn parts(&self) -> Vec<(Task, PathBuf)> {
        let trains = |task: &Task| self.stages[task.stage].name == TRAIN;
        let folder = |task: Task| part_folder(&self.out(self.stages[task.stage].out.as_deref()), task.index);
        self.tasks().into_iter().filter(trains).map(|task| (task, folder(task))).collect()
    }
}

/// Where this program lies.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("where this program lies is not known")
}
