//! One program at a time trains into a run's folder: two would write over each other's checkpoints. On one machine the
//! system's locks see to it, which end with their program; among machines that share the folder a file with a sign of life.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{Run, RunError, error};
use crate::model::io::atomic_file;
use crate::model::io::file_lock::{self, Tried};
use crate::model::io::host_lock::{HostLock, LockAttempt, STILL};

/// The right to write into a run's folder; it ends when this is dropped, or its program, however that
/// ends.
#[derive(Debug)]
pub struct RunLock {
    among_machines: HostLock,
    _on_this_one: Locked,
}

/// A locked file. A child process that another thread starts holds every open file for a moment, and with it the lock:
/// closing alone would leave it there.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock(); // a file system without locks
    }
}

impl RunLock {
    /// Shows other machines, now and then, that this program is at work.
    ///
    /// # Errors
    /// If another has taken over, because this one showed nothing for minutes; if the disk refuses.
    pub fn beat(&self) -> Result<(), RunError> {
        self.among_machines.beat().map_err(error::io("keep", self.among_machines.path()))
    }
}

impl RunLock {
    /// Claims a run's folder for as long as the answer lives. Where another machine had it, this may take minutes: until it
    /// has shown life or is known to be gone.
    ///
    /// # Errors
    /// While another program has it, or if the lock's file cannot be made.
    pub fn claim(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join("state/lock");
        let lock = open(&path)?;
        let alone = match file_lock::try_lock(&lock).map_err(error::io("lock", &path))? {
            Tried::Ours => true,
            Tried::NoLocks => false,
            Tried::Anothers => return Err(RunError::Claimed { folder: folder.to_owned(), host: None }),
        };
        Self::among_machines(folder, lock, "state/owner.json", alone, false)
    }

    /// The same among all machines, for who has it on this one.
    fn among_machines(
        folder: &Path,
        lock: File,
        name: &str,
        alone: bool,
        patient: bool,
    ) -> Result<Self, RunError> {
        let path = folder.join(name);
        let asked: io::Result<LockAttempt> = HostLock::ask(&path, alone, STILL, patient);
        match asked.map_err(error::io("lock", &path))? {
            LockAttempt::Taken(among_machines) => Ok(Self { among_machines, _on_this_one: Locked(lock) }),
            LockAttempt::Held(host) => Err(RunError::Claimed { folder: folder.to_owned(), host: Some(host) }),
        }
    }
}

impl Run {
    /// Claims the folder, as [`RunLock::claim`] does.
    pub fn claim(&self) -> Result<RunLock, RunError> {
        RunLock::claim(self.folder())
    }

    /// Waits for the right to change what was found out about the run: a moment's work, whoever trains.
    ///
    /// # Errors
    /// If the lock's file cannot be made.
    pub fn turn(&self) -> Result<RunLock, RunError> {
        let path = self.folder().join("state/evaluation.lock");
        let lock = open(&path)?;
        let alone = file_lock::lock(&lock).map_err(error::io("lock", &path))?;
        RunLock::among_machines(self.folder(), lock, "state/evaluation-owner.json", alone, true)
    }
}

fn open(path: &Path) -> Result<File, RunError> {
    // The folder may have gone, and the run is begun anew.
    let lock = atomic_file::make_folder(path.parent().unwrap_or(path)).and_then(|()| {
        atomic_file::step(|| File::options().write(true).create(true).truncate(false).open(path))
    });
    lock.map_err(error::io("open", path))
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
        let (inherited, claimed) = (file.try_clone().expect("as fork does"), Locked(file));
        assert!(matches!(RunLock::claim(folder.path()), Err(RunError::Claimed { host: None, .. })));
        drop(claimed);
        RunLock::claim(folder.path()).expect("nobody has it any more");
        drop(inherited);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_run_on_a_file_system_without_locks_has_one_owner() {
        use crate::model::io::failpoint;
        let folder = tempfile::tempdir().expect("a folder");
        failpoint::locks(Some(libc::ENOLCK));
        let claimed = RunLock::claim(folder.path()).expect("nobody has it");
        claimed.beat().expect("it is kept");
        let refused = RunLock::claim(folder.path());
        assert!(matches!(refused, Err(RunError::Claimed { host: Some(_), .. })), "{refused:?}");
        drop(claimed);
        drop(RunLock::claim(folder.path()).expect("nobody has it any more"));
        failpoint::locks(None);
    }
}
