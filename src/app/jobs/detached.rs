//! A training that runs as a process of its own, whoever asked for it: what is asked, and the names of its files in the
//! run's folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is to be trained apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// What `ssmprobe train` is told, but for the folder of the run; or `sweep`, and what that is told.
    pub words: Vec<String>,
    /// That folder; `~/` begins at the user's own.
    pub out: PathBuf,
    /// Whether this was asked before, and the answer was lost: what has begun is not begun again.
    pub again: bool,
}

impl Detached {
    /// Whether it goes on with a run.
    pub fn resumes(&self) -> bool {
        self.words.iter().any(|word| word == "--resume")
    }
}

/// The verb that is named, as it is not the usual one.
pub const SWEEP: &str = "sweep";

/// What it says of its work, and what of its results.
pub const LOGS: [&str; 2] = ["train.log", "train.out"];

/// The file that is locked as long as it runs.
pub fn lock(out: &Path) -> PathBuf {
    out.join("train.lock")
}

/// Who runs it, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its process there.
    pub pid: u32,
    /// What it was told.
    pub words: Vec<String>,
}

impl Started {
    /// The file that says so.
    pub fn path(out: &Path) -> PathBuf {
        out.join("train.json")
    }
}

/// A line of a training's own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// It.
    pub line: String,
    /// Which of [`LOGS`] it stands in.
    pub log: usize,
    /// The bytes before it there: one that is told again is known by that.
    pub at: u64,
}
