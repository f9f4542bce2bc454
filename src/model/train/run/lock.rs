//! One program at a time trains into a run's folder: two would write over each other's checkpoints.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use super::{Run, RunError, error};
use crate::model::io::atomic_file;

/// The right to write into a run's folder; it ends when this is dropped, or its program, however that
/// ends.
#[derive(Debug)]
pub struct RunLock {
    _lock: File,
}

impl Run {
    /// Claims the folder for as long as the answer lives.
    ///
    /// # Errors
    /// While another program has it, or if the lock's file cannot be made. On a file system without
    /// locks everybody gets it.
    pub fn claim(&self) -> Result<RunLock, RunError> {
        let path = self.folder().join("state/lock");
        let lock = open(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(RunLock { _lock: lock }),
            Err(TryLockError::Error(why)) if why.kind() == ErrorKind::Unsupported => {
                Ok(RunLock { _lock: lock })
            }
            Err(TryLockError::Error(why)) => Err(error::io("lock", &path)(why)),
            Err(TryLockError::WouldBlock) => Err(RunError::Claimed { folder: self.folder().to_owned() }),
        }
    }

    /// Waits for the right to change what was found out about the run: a moment's work, whoever trains.
    ///
    /// # Errors
    /// If the lock's file cannot be made. On a file system without locks everybody gets it.
    pub fn turn(&self) -> Result<RunLock, RunError> {
        let path = self.folder().join("state/evaluation.lock");
        let lock = open(&path)?;
        match lock.lock() {
            Err(why) if why.kind() != ErrorKind::Unsupported => Err(error::io("lock", &path)(why)),
            _ => Ok(RunLock { _lock: lock }),
        }
    }
}

fn open(path: &Path) -> Result<File, RunError> {
    // The folder may have gone, and the run is begun anew.
    let lock = atomic_file::make_folder(path.parent().unwrap_or(path)).and_then(|()| {
        atomic_file::step(|| File::options().write(true).create(true).truncate(false).open(path))
    });
    lock.map_err(error::io("open", path))
}
