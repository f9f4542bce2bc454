//! One process at a time trains into a run's folder: two would overwrite each other's checkpoints. On one machine a file lock
//! ensures that, released when its process ends; among machines that share the folder an owner file ([`HostLock`]).

use std::fs::{DirEntry, File};
use std::io;
use std::path::Path;

use super::{Run, RunError};
use crate::model::io::atomic_file;
use crate::model::io::file_lock::{self, LockedFile, TryLock};
use crate::model::io::host_lock::{HostLock, LockAttempt, STALE_AFTER};

/// The lock file, below the folder.
pub const LOCK: &str = "state/lock";
/// The owner file, below the folder.
const OWNER: &str = "state/owner.json";

/// The exclusive right to write into a run's folder; released on drop, or when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    host_lock: HostLock,
    _file_lock: LockedFile,
}

impl RunLock {
    /// Sends a heartbeat to other machines, if one is due ([`HostLock::beat`]).
    ///
    /// # Errors
    /// If another machine has taken over, because this one sent none for minutes; if the file cannot be written.
    pub fn beat(&self) -> Result<(), RunError> {
        self.host_lock.beat().map_err(RunError::io("keep", self.host_lock.path()))
    }

    /// Locks a run's folder until the result is dropped. If a process of another machine had it, this may take minutes, until
    /// that sends a heartbeat or is taken for dead.
    ///
    /// # Errors
    /// If another process holds it; if the lock file cannot be created or locked.
    pub fn take(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(LOCK);
        let lock = open(&path)?;
        let alone = match file_lock::try_lock(&lock).map_err(RunError::io("lock", &path))? {
            TryLock::Acquired => true,
            TryLock::Unsupported => false,
            TryLock::Held => return Err(RunError::InUse { folder: folder.to_owned(), host: None }),
        };
        Self::among_machines(folder, lock, OWNER, alone, false)
    }

    /// Whether a living process trains in a run's folder, by the owner file, as [`HostLock::is_held`]: the lock itself is not tried, or
    /// a training that begins at that moment would be refused.
    pub fn is_held(folder: &Path) -> io::Result<bool> {
        HostLock::is_held(&folder.join(OWNER), false, STALE_AFTER)
    }

    /// Whether a folder holds nothing but the lock of a training that was stopped before it began: another process may have opened the file,
    /// so it stays.
    pub fn is_alone_in(folder: &Path) -> bool {
        let holds_only = |folder: &Path, name: &str| {
            let named = |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| entry.file_name() == name);
            folder.read_dir().is_ok_and(|mut entries| entries.all(named))
        };
        holds_only(folder, "state") && holds_only(&folder.join("state"), "lock")
    }

    /// The machine that trains in a run's folder, or did, as [`HostLock::other_machine`].
    pub fn other_machine(folder: &Path) -> Option<String> {
        HostLock::other_machine(&folder.join(OWNER))
    }

    /// Takes the owner file called `name`, for a process that holds the file lock of this machine if `alone`.
    fn among_machines(
        folder: &Path,
        lock: File,
        name: &str,
        alone: bool,
        patient: bool,
    ) -> Result<Self, RunError> {
        let path = folder.join(name);
        let attempt: io::Result<LockAttempt> = HostLock::take(&path, alone, STALE_AFTER, patient);
        match attempt.map_err(RunError::io("lock", &path))? {
            LockAttempt::Taken(host_lock) => Ok(Self { host_lock, _file_lock: LockedFile(lock) }),
            LockAttempt::Held(host) => Err(RunError::InUse { folder: folder.to_owned(), host: Some(host) }),
        }
    }
}

impl Run {
    /// Waits for the lock under which evaluations of the run are changed, held for moments and independent of training.
    pub fn evaluation_lock(&self) -> Result<RunLock, RunError> {
        let path = self.folder().join("state/evaluation.lock");
        let lock = open(&path)?;
        let alone = file_lock::lock(&lock).map_err(RunError::io("lock", &path))?;
        RunLock::among_machines(self.folder(), lock, "state/evaluation-owner.json", alone, true)
    }
}

fn open(path: &Path) -> Result<File, RunError> {
    // The folder may have been removed: then the run starts anew.
    let lock = atomic_file::make_folder(path.parent().unwrap_or(path)).and_then(|()| {
        // Opened for reading too: opening a pipe only for writing would wait for a reader.
        atomic_file::step(|| File::options().read(true).write(true).create(true).truncate(false).open(path))
    });
    lock.map_err(RunError::io("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_free_while_a_child_process_still_holds_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        atomic_file::make_folder(&folder.path().join("state")).expect("a folder");
        let file = open(&folder.path().join("state/lock")).expect("a file");
        file.try_lock().expect("nobody has it");
        let (inherited, lock) = (file.try_clone().expect("as fork does"), LockedFile(file));
        assert!(matches!(RunLock::take(folder.path()), Err(RunError::InUse { host: None, .. })));
        drop(lock);
        RunLock::take(folder.path()).expect("nobody has it any more");
        drop(inherited);
        assert!(RunLock::is_alone_in(folder.path()));
        File::create(folder.path().join("state/checkpoint.safetensors")).expect("a file");
        assert!(!RunLock::is_alone_in(folder.path()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_for_a_lock_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        atomic_file::make_folder(&folder.path().join("state")).expect("a folder");
        let pipe = std::process::Command::new("mkfifo").arg(folder.path().join(LOCK)).status();
        assert!(pipe.expect("a program").success());
        drop(RunLock::take(folder.path()).expect("nobody has it"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_run_on_a_file_system_without_locks_has_one_owner() {
        use crate::model::io::failpoint;
        let folder = tempfile::tempdir().expect("a folder");
        failpoint::locks(Some(libc::ENOLCK));
        let lock = RunLock::take(folder.path()).expect("nobody has it");
        lock.beat().expect("it is kept");
        let refused = RunLock::take(folder.path());
        assert!(matches!(refused, Err(RunError::InUse { host: Some(_), .. })), "{refused:?}");
        drop(lock);
        drop(RunLock::take(folder.path()).expect("nobody has it any more"));
        failpoint::locks(None);
    }
}
