//! A training in a process of its own: its heartbeat, and the names of its files in the run's folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::io::host_lock::HostLock;

/// How often [`Heartbeat`] checks whether a heartbeat is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The verb that [`TrainCommand::words`](super::fetch::TrainCommand::words) begins with if it is not `train`.
pub const SWEEP: &str = "sweep";

/// Log files of standard error and standard output, in the run's folder.
pub const LOGS: [&str; 2] = ["train.log", "train.out"];

/// What the progress counts of a training that is followed through its files.
pub const EPOCHS: &str = "Epochs of all heads";

/// How the cause begins that quotes the log of a training that ended early, which has been sent line by line before.
pub const LAST_OUTPUT: &str = "its last output:";

/// The flag that names the heartbeat file.
pub const OWNER_FILE: &str = "--owner-file";

/// Keeps the heartbeat of a [`HostLock`] that was handed to this process, until dropped.
pub struct Heartbeat {
    // Its end ends the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts the heartbeat of the lock in `file`.
    pub fn new(file: &Path) -> io::Result<Self> {
        let (end, ended) = sync_channel(0);
        let right = HostLock::handed(file);
        let show = move || {
            while ended.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let _ = right.beat(); // the run's own lock stops what another machine has taken over
            }
        };
        let thread = Builder::new().name("heartbeat".into()).spawn(show)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// The file that the process keeps locked while it runs.
pub fn lock(out: &Path) -> PathBuf {
    out.join("train.lock")
}

/// The process that runs a detached training, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Process id on the machine that computes.
    pub pid: u32,
    /// Name of that machine; empty in files of earlier versions.
    #[serde(default)]
    pub host: String,
    /// Its arguments, as in [`TrainCommand::words`](super::fetch::TrainCommand::words).
    pub words: Vec<String>,
}

impl Started {
    /// The file that holds this, in the run's folder.
    pub fn path(out: &Path) -> PathBuf {
        out.join("train.json")
    }
}

/// A line that a training printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedLine {
    /// Its text.
    pub line: String,
    /// Index of its file in [`LOGS`].
    pub log: usize,
    /// Its byte offset there, which identifies a line that is sent twice.
    pub at: u64,
}
