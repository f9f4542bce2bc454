//! The system's locks of files. They end with their program, however that ends; but not every file system has them: some
//! networks' do not, and one that has may have nobody to ask. Who is told so goes by a file that says whose it is.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::failpoint;
use super::host_lock::{HostLock, LockAttempt, STILL};

/// What came of trying to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is locked, until it is closed.
    Ours,
    /// Another has it open and locked.
    Anothers,
    /// There are no locks there.
    NoLocks,
}

/// Locks a file if nobody has.
///
/// # Errors
/// Those of the system, but for there being no locks.
pub fn try_lock(file: &File) -> io::Result<Tried> {
    match failpoint::lock_step().map_err(TryLockError::Error).and_then(|()| file.try_lock()) {
        Ok(()) => Ok(Tried::Ours),
        Err(TryLockError::WouldBlock) => Ok(Tried::Anothers),
        Err(TryLockError::Error(why)) if says_none(&why) => Ok(Tried::NoLocks),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Locks a file once nobody else has; whether there are locks there.
///
/// # Errors
/// Those of the system, but for there being no locks.
pub fn lock(file: &File) -> io::Result<bool> {
    match failpoint::lock_step().and_then(|()| file.lock()) {
        Err(why) if says_none(&why) => Ok(false),
        locked => locked.map(|()| true),
    }
}

/// Whether a refusal says that there are no locks there.
fn says_none(why: &io::Error) -> bool {
    #[cfg(unix)]
    let told = {
        let none = [libc::ENOLCK, libc::ENOTSUP, libc::EOPNOTSUPP, libc::ENOSYS];
        why.raw_os_error().is_some_and(|number| none.contains(&number))
    };
    #[cfg(not(unix))]
    let told = false;
    told || why.kind() == ErrorKind::Unsupported
}

/// The right that one process has: the lock of a file, or where there are no locks the [`HostLock`] of one beside it.
#[derive(Debug)]
pub enum ExclusiveLock {
    /// Whoever has this file open has it: a child process that gets it, too.
    File(File),
    /// This process has it, and shows life ([`beat`](Self::beat)).
    Sign(HostLock),
}

impl ExclusiveLock {
    /// Asks for the right that the file `path` stands for, which is made where it is not there; nothing where another has it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn ask(path: &Path) -> io::Result<Option<Self>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(match try_lock(&file)? {
            Tried::Ours => Some(Self::File(file)),
            Tried::Anothers => None,
            Tried::NoLocks => match HostLock::ask(&sign(path), false, STILL, false)? {
                LockAttempt::Taken(sign) => Some(Self::Sign(sign)),
                LockAttempt::Held(_) => None,
            },
        })
    }

    /// Whether somebody has it. Where there are locks, nobody else gets it while this is found out.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn is_held(path: &Path) -> io::Result<bool> {
        let file = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        match try_lock(&file)? {
            Tried::Ours => Ok(false),
            Tried::Anothers => Ok(true),
            Tried::NoLocks => HostLock::is_held(&sign(path), STILL),
        }
    }

    /// Shows other machines that its owner lives, where it is by that that it is kept.
    ///
    /// # Errors
    /// If it is another's by now; if the disk refuses.
    pub fn beat(&self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Sign(sign) => sign.beat(),
        }
    }
}

/// The file that says whose the right is, where locks do not.
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
        // What else is refused is no such answer.
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
