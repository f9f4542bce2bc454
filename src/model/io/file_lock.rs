//! The operating system's file locks, which are released when their process ends, however it ends. Not every file system
//! supports them: some network file systems do not, or their lock service is down. There an owner file ([`HostLock`]) serves.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::failpoint;
use super::host_lock::{HostLock, LockAttempt, STALE_AFTER};

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

/// Whether an error means that the file system does not support locks, or that its lock service is down.
fn means_unsupported(why: &io::Error) -> bool {
    #[cfg(unix)]
    let unsupported = {
        let numbers = [libc::ENOLCK, libc::ENOTSUP, libc::EOPNOTSUPP, libc::ENOSYS];
        why.raw_os_error().is_some_and(|number| numbers.contains(&number))
    };
    #[cfg(not(unix))]
    let unsupported = false;
    unsupported || why.kind() == ErrorKind::Unsupported
}

/// A lock that one process holds: that of a file, or where locks are not supported the [`HostLock`] of one beside it.
#[derive(Debug)]
pub enum ExclusiveLock {
    /// The lock of this open file, which a child process that inherits the file shares.
    File(File),
    /// An owner file, whose owner must call [`beat`](Self::beat).
    Sign(HostLock),
}

impl ExclusiveLock {
    /// Tries to take the lock of the file `path`, which is created if absent; `None` if another process holds it.
    pub fn ask(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(match try_lock(&file)? {
            TryLock::Acquired => Some(Self::File(file)),
            TryLock::Held => None,
            TryLock::Unsupported => match HostLock::ask(&sign(path), false, STALE_AFTER, false)? {
                LockAttempt::Taken(sign) => Some(Self::Sign(sign)),
                LockAttempt::Held(_) => None,
            },
        })
    }

    /// Whether a process holds it. Where locks are supported, the check itself takes the lock for a moment.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let file = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        match try_lock(&file)? {
            TryLock::Acquired => Ok(false),
            TryLock::Held => Ok(true),
            TryLock::Unsupported => HostLock::is_held(&sign(path), STALE_AFTER),
        }
    }

    /// Renews an owner file ([`HostLock::beat`]); does nothing for a file lock.
    ///
    /// # Errors
    /// If another process has taken over; if the file cannot be written.
    pub fn beat(&self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Sign(sign) => sign.beat(),
        }
    }
}

/// The owner file of the lock file `path`, used where locks are not supported.
pub fn sign(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.owner.json"))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn where_there_are_no_locks_a_file_says_whose_the_right_is() {
        use super::{ExclusiveLock, failpoint, sign};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.lock");
        for errno in [libc::ENOLCK, libc::ENOTSUP, libc::ENOSYS] {
            failpoint::locks(Some(errno));
            assert!(!ExclusiveLock::is_held(&path).unwrap());
            let right = ExclusiveLock::ask(&path).unwrap().expect("nobody has it");
            assert!(matches!(right, ExclusiveLock::Sign(_)) && right.beat().is_ok());
            assert!(sign(&path).exists() && ExclusiveLock::is_held(&path).unwrap());
            assert!(ExclusiveLock::ask(&path).unwrap().is_none(), "{errno}: two have it");
            drop(right);
            assert!(!ExclusiveLock::is_held(&path).unwrap() && !sign(&path).exists());
        }
        // Other errors do not mean that locks are not supported.
        failpoint::locks(Some(libc::EIO));
        assert_eq!(ExclusiveLock::ask(&path).unwrap_err().raw_os_error(), Some(libc::EIO));
        failpoint::locks(None);
        let right = ExclusiveLock::ask(&path).unwrap().expect("nobody has it");
        assert!(
            matches!(right, ExclusiveLock::File(_))
                && ExclusiveLock::is_held(&path).unwrap()
                && !sign(&path).exists()
        );
        assert!(ExclusiveLock::ask(&path).unwrap().is_none());
        drop(right);
        assert!(!ExclusiveLock::is_held(&path).unwrap());
    }
}
