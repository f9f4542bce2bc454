//! Temporary files and folders beside their targets: those of this process, and those that a killed one has left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::atomic_file;

/// Prefix of their names.
pub(super) const PREFIX: &str = ".ssmprobe-";
/// Most threads that may each put one more file into a folder that is being removed.
const MAX_THREADS: usize = 1024;
/// A folder that nothing was written into for this long was left by a killed process.
pub const LEFT_AFTER: Duration = Duration::from_hours(1);

/// Temporary files and folders of this process; those since renamed or removed are dropped when the next is created.
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporaries() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of this process, for a caller that exits without waiting for other threads.
/// As long as the returned guard is held, no thread can create another.
pub fn abandon() -> MutexGuard<'static, Vec<PathBuf>> {
    let temporaries = temporaries();
    for path in &*temporaries {
        // Fails if it has been renamed or removed by now, and while other threads put their last files into a folder.
        let _ = std::fs::remove_file(path);
        let is_filled = |removed: io::Result<()>| {
            removed.is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty)
        };
        (0..MAX_THREADS)
            .take_while(|_| path.is_dir() && is_filled(std::fs::remove_dir_all(path)))
            .for_each(drop);
    }
    temporaries
}

/// Creates a temporary file or folder, for [`abandon`] to remove.
pub(super) fn create<T: AsRef<Path>>(create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut temporaries = temporaries();
    let made = create()?;
    temporaries.retain(|path| path.exists());
    temporaries.push(made.as_ref().to_owned());
    Ok(made)
}

/// A folder among the system's temporary files, removed with all in it when dropped, or by [`abandon`].
pub fn folder() -> io::Result<TempDir> {
    create(tempfile::tempdir)
}

/// Whether `name` is that of a temporary file or folder of this program.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Whether a folder is empty but for temporary files and folders, which nobody sees.
pub fn is_empty(folder: &Path) -> io::Result<bool> {
    let names: io::Result<Vec<_>> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect();
    Ok(names?.iter().all(|name| is_temporary(&name.to_string_lossy())))
}

/// Time since the last write to a file, or to anything in a folder. A modification time in the future, from before the
/// clock was set back, counts by its distance.
fn idle(path: &Path, now: SystemTime) -> io::Result<Duration> {
    let metadata = path.symlink_metadata()?;
    let mut least = now.duration_since(metadata.modified()?).unwrap_or_else(|ahead| ahead.duration());
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            least = least.min(idle(&entry?.path(), now)?);
        }
    }
    Ok(least)
}

/// Removes temporary files and folders in `folder` not written to for `age`: newer ones may be a running process's.
pub fn tidy(folder: &Path, age: Duration) -> io::Result<()> {
    let mut now = None;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_temporary(&name.to_string_lossy()) {
            continue;
        }
        let now = *now.get_or_insert_with(|| file_system_time(folder));
        let path = entry.path();
        if idle(&path, now).is_ok_and(|idle| idle >= age) {
            // Fails if another process has just removed it.
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
    Ok(())
}

/// [Writes](atomic_file::write) into a folder that a process which begins may be [tidying](tidy): what that takes away is written once more.
pub fn write_again(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match atomic_file::write(path, bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => atomic_file::write(path, bytes),
        written => written,
    }
}

/// The current time by the clock that stamps files in `folder`, which on a shared file system is another machine's.
fn file_system_time(folder: &Path) -> SystemTime {
    let made = tempfile::tempfile_in(folder).and_then(|file| file.metadata()?.modified());
    made.unwrap_or_else(|_| SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::atomic_file::{write, write_folder};

    #[cfg(unix)]
    #[test]
    fn a_folder_that_a_kill_left_goes_and_one_that_is_written_into_stays() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * LEFT_AFTER;
        let [left, filled, new] =
            [".ssmprobe-left", ".ssmprobe-filled", "new"].map(|name| folder.path().join(name));
        for (path, written) in [(&left, old), (&filled, SystemTime::now())] {
            std::fs::create_dir(path).unwrap();
            std::fs::File::create(path.join("weights")).unwrap().set_modified(written).unwrap();
            std::fs::File::open(path).unwrap().set_modified(old).unwrap();
        }
        write_folder(&new, |inside| write(&inside.join("weights"), b"x")).unwrap();
        assert!(!left.exists() && filled.exists() && new.join("weights").exists());
    }

    #[test]
    fn a_folder_that_is_filled_from_elsewhere_meanwhile_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let weights = folder.path().join("weights");
        let filled = write_folder(folder.path(), |inside| {
            write(&weights, b"theirs")?;
            write(&inside.join("weights"), b"ours")
        });
        assert_eq!(filled.unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!(std::fs::read(&weights).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn own_files_are_tidied_away_also_from_before_the_clock_was_set_back_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [".ssmprobe-ab12", ".tmp-of-another"].map(|name| folder.path().join(name));
        let hour = Duration::from_hours(1);
        let now = SystemTime::now();
        for (time, stays) in [(now, true), (now - hour, false), (now + hour, false)] {
            for path in [&own, &other] {
                std::fs::File::create(path).unwrap().set_modified(time).unwrap();
            }
            tidy(folder.path(), hour / 2).unwrap();
            assert_eq!((own.exists(), other.exists()), (stays, true), "{time:?}, and it is {now:?}");
        }
    }
}
