//! A training that runs as a process of its own, whoever asked for it: what is asked, and the names of its files in the
//! run's folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::io::host_lock::HostLock;

/// How often it is looked whether a sign of life is due.
const LOOK: Duration = Duration::from_secs(1);

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

/// The flag that names the file by which it shows life, where the folder's file system has no locks.
pub const OWNER_FILE: &str = "--owner-file";

/// Shows, as long as this is kept, that this process has the right that was handed to it.
pub struct SignOfLife {
    // Its end ends the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignOfLife {
    /// Of the file that says whose the right is.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn new(file: &Path) -> io::Result<Self> {
        let (end, ended) = sync_channel(0);
        let right = HostLock::handed(file);
        let show = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let _ = right.beat(); // the run's own lock stops what another machine has taken over
            }
        };
        let thread = Builder::new().name("sign of life".into()).spawn(show)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(JoinHandle::join);
    }
}

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
