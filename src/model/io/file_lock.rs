//! The operating system's file locks, which are released when their process ends, however it ends. Not every file system
//! supports them: some network file systems do not, or their lock service is down, and others lock for one machine alone. There an
//! owner file ([`HostLock`]) serves.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::atomic_file::is_refused;
use super::failpoint;
use super::host_lock::{HostLock, LockAttempt, STALE_AFTER};

/// How long a lock is waited for that another process may hold only to test it, over a slow network file system.
const TEST_TIME: Duration = Duration::from_millis(100);

/// The longest pause between two attempts, each of which is a round trip over a network.
const MAX_PAUSE: Duration = Duration::from_millis(32);

/// The result of [`try_lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The file is locked, until it is closed.
    Acquired,
    /// Another open file has the lock.
    Held,
    /// The file system does not support locks.
    Unsupported,
}

/// Locks a file without waiting.
///
/// # Errors
/// Those of the system, except that locks are not supported.
pub fn try_lock(file: &File) -> io::Result<TryLock> {
    match failpoint::lock_step().map_err(TryLockError::Error).and_then(|()| file.try_lock()) {
        Ok(()) => Ok(TryLock::Acquired),
        Err(TryLockError::WouldBlock) => Ok(TryLock::Held),
        Err(TryLockError::Error(why)) if means_unsupported(&why) => Ok(TryLock::Unsupported),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Waits until a file is locked; returns false if the file system does not support locks.
///
/// # Errors
/// Those of the system, except that locks are not supported.
pub fn lock(file: &File) -> io::Result<bool> {
    match failpoint::lock_step().and_then(|()| file.lock()) {
        Err(why) if means_unsupported(&why) => Ok(false),
        locked => locked.map(|()| true),
    }
}

/// Locks a folder that this process writes into, as others may at the same time; `None` where the system locks no folders.
pub fn share_folder(folder: &Path) -> Option<LockedFile> {
    let opened = File::open(folder).ok()?;
    opened.try_lock_shared().ok().map(|()| LockedFile(opened))
}

/// Whether a process of this machine, or of any that the file system shares locks with, has a lock by [`share_folder`].
pub fn is_shared(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|opened| matches!(try_lock(&opened), Ok(TryLock::Held)))
}

/// Whether an error means that the file system does not support locks, or that its lock service is down.
fn means_unsupported(why: &io::Error) -> bool {
    #[cfg(unix)]
    let unsupported = {
        // EBADF: NFS locks no file that is open for reading alone.
        let numbers = [libc::ENOLCK, libc::ENOTSUP, libc::EOPNOTSUPP, libc::ENOSYS, libc::EBADF];
        why.raw_os_error().is_some_and(|number| numbers.contains(&number))
    };
    #[cfg(not(unix))]
    let unsupported = why.raw_os_error() == Some(1); // ERROR_INVALID_FUNCTION, of network disks without locks
    unsupported || why.kind() == ErrorKind::Unsupported
}

/// A locked file, unlocked on drop. A child process that another thread spawns has every open file for a moment, and with it
/// the lock: closing the file alone would not release it.
#[derive(Debug)]
pub struct LockedFile(pub File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock(); // a file system without locks
    }
}

/// Why the lock of a file can be neither taken nor tested.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot be locked")]
pub struct LockError {
    /// The lock file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// A lock that one process holds among all machines: that of a file, where locks are supported, which may not reach from one machine
/// to another, and the [`HostLock`] of one beside it.
#[derive(Debug)]
pub struct ExclusiveLock {
    /// The owner file, whose owner must call [`beat`](HostLock::beat).
    pub owner: HostLock,
    /// The locked file, whose lock a child process that inherits it shares; absent where locks are not supported.
    pub file: Option<File>,
}

impl ExclusiveLock {
    /// Tries to take the lock of the file `path`, which is created if absent; `None` if another process holds it. If one of another
    /// machine does or did, this may take minutes, as for [`HostLock::take`].
    ///
    /// # Errors
    /// Those of the system, except that locks are not supported.
    pub fn take(path: &Path) -> Result<Option<Self>, LockError> {
        Self::try_take(path).map_err(|source| LockError { path: path.to_owned(), source })
    }

    fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let file = match lock_within(&file, TEST_TIME)? {
            TryLock::Acquired => Some(file),
            TryLock::Held => return Ok(None),
            TryLock::Unsupported => None,
        };
        Ok(match HostLock::take(&owner_file(path), file.is_some(), STALE_AFTER, false)? {
            LockAttempt::Taken(owner) => Some(Self { owner, file }),
            LockAttempt::Held(_) => None,
        })
    }

    /// As [`HostLock::other_machine`].
    pub fn other_machine(path: &Path) -> Option<String> {
        HostLock::other_machine(&owner_file(path))
    }

    /// Whether a process holds it. Where locks are supported, the check itself takes the lock for a moment. What another machine holds
    /// counts as held until this process has seen no heartbeat for minutes.
    ///
    /// # Errors
    /// Those of the system, except that locks are not supported.
    pub fn is_held(path: &Path) -> Result<bool, LockError> {
        Self::test(path).map_err(|source| LockError { path: path.to_owned(), source })
    }

    fn test(path: &Path) -> io::Result<bool> {
        let file = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) if is_refused(error.kind()) => File::open(path)?, // another user's, or on a read-only disk
            file => file?,
        };
        let locked = lock_within(&file, TEST_TIME)?;
        let alone = locked == TryLock::Acquired;
        Ok(locked == TryLock::Held || HostLock::is_held(&owner_file(path), alone, STALE_AFTER)?)
    }
}

/// Locks a file, for which it waits this long.
///
/// # Errors
/// Those of the system, except that locks are not supported.
pub fn lock_within(file: &File, timeout: Duration) -> io::Result<TryLock> {
    let (begun, mut pause) = (Instant::now(), Duration::from_millis(2));
    loop {
        match try_lock(file)? {
            TryLock::Held if begun.elapsed() < timeout => {
                sleep(pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }
            other => return Ok(other),
        }
    }
}

/// The owner file of the lock file `path`.
pub fn owner_file(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.owner.json"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_owner_file_tells_of_another_machine_where_locks_do_not() {
        use super::{Duration, ExclusiveLock, File, owner_file, sleep};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.lock");
        File::create(&path).unwrap();
        let beat = |beats: u64| {
            let text = format!(r#"{{"host": "elsewhere", "boot": "b", "process": 7, "beats": {beats}}}"#);
            crate::model::io::atomic_file::write(&owner_file(&path), text.as_bytes()).unwrap();
        };
        beat(0);
        std::thread::scope(|scope| {
            let ask =
                || (ExclusiveLock::is_held(&path).unwrap(), ExclusiveLock::take(&path).unwrap().is_none());
            let asked = scope.spawn(ask);
            for beats in 1.. {
                if asked.is_finished() {
                    break;
                }
                beat(beats);
                sleep(Duration::from_millis(20));
            }
            assert_eq!(asked.join().unwrap(), (true, true));
        });
    }

    #[test]
    fn who_waits_for_an_owner_file_that_names_nobody_knows_it_before() {
        use super::{ExclusiveLock, owner_file};
        use crate::model::io::atomic_file::write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.lock");
        assert_eq!(ExclusiveLock::other_machine(&path), None);
        let names = r#"{"host": "elsewhere", "boot": "b", "process": 7, "beats": 3}"#;
        for (content, host) in [(names, "elsewhere"), ("", "an unknown machine")] {
            write(&owner_file(&path), content.as_bytes()).unwrap();
            assert_eq!(ExclusiveLock::other_machine(&path).as_deref(), Some(host));
        }
        std::fs::remove_file(owner_file(&path)).unwrap();
        let _held = ExclusiveLock::take(&path).unwrap().expect("nobody has it");
        assert_eq!(ExclusiveLock::other_machine(&path), None);
    }

    #[cfg(unix)]
    #[test]
    fn an_owner_file_replaces_locks_where_there_are_none() {
        use super::{ExclusiveLock, failpoint, owner_file};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.lock");
        for errno in [libc::ENOLCK, libc::ENOTSUP, libc::ENOSYS] {
            failpoint::locks(Some(errno));
            assert!(!ExclusiveLock::is_held(&path).unwrap());
            let right = ExclusiveLock::take(&path).unwrap().expect("nobody has it");
            assert!(right.file.is_none() && right.owner.beat().is_ok());
            assert!(owner_file(&path).exists() && ExclusiveLock::is_held(&path).unwrap());
            assert!(ExclusiveLock::take(&path).unwrap().is_none(), "{errno}: two have it");
            drop(right);
            assert!(!ExclusiveLock::is_held(&path).unwrap() && !owner_file(&path).exists());
        }
        // Other errors do not mean that locks are not supported.
        failpoint::locks(Some(libc::EIO));
        let error = ExclusiveLock::is_held(&path).unwrap_err().to_string();
        assert!(error.ends_with("train.lock: cannot be locked"), "{error}");
        assert_eq!(ExclusiveLock::take(&path).unwrap_err().source.raw_os_error(), Some(libc::EIO));
        failpoint::locks(None);
        let right = ExclusiveLock::take(&path).unwrap().expect("nobody has it");
        assert!(right.file.is_some() && ExclusiveLock::is_held(&path).unwrap());
        assert!(ExclusiveLock::take(&path).unwrap().is_none());
        drop(right);
        assert!(!ExclusiveLock::is_held(&path).unwrap() && !owner_file(&path).exists());
    }
}
