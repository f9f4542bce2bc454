//! Temporary files and folders, beside what they become, that a kill has left.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::atomic_file;

/// With what their names begin.
pub(super) const PREFIX: &str = ".ssmprobe-";
/// A folder into which nothing is written for so long was left by a kill.
pub(super) const LEFT_AFTER: Duration = Duration::from_hours(1);

/// Whether a file or folder is one that was not to stay, by its name.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// For how long nothing was written to a file, or to anything in a folder. What has a time that lies ahead was written
/// before the clock was set back.
fn idle(path: &Path, now: SystemTime) -> io::Result<Duration> {
    let about = path.symlink_metadata()?;
    let mut least = now.duration_since(about.modified()?).unwrap_or_else(|ahead| ahead.duration());
    if about.is_dir() {
        for entry in std::fs::read_dir(path)? {
            least = least.min(idle(&entry?.path(), now)?);
        }
    }
    Ok(least)
}

/// Removes the temporary files and folders in `folder` that a kill has left, those not written to for `age`:
/// younger ones may be another program's that is at work.
pub fn tidy(folder: &Path, age: Duration) -> io::Result<()> {
    let mut now = None;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_temporary(&name.to_string_lossy()) {
            continue;
        }
        let now = *now.get_or_insert_with(|| atomic_file::time_of(folder));
        let path = entry.path();
        if idle(&path, now).is_ok_and(|idle| idle >= age) {
            // Whoever else removes it at the same moment has done the same.
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::atomic_file::{make_folder, write, write_folder};

    #[test]
    fn only_own_temporary_files_are_tidied_away() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [".ssmprobe-ab12", ".tmp-of-another"].map(|name| folder.path().join(name));
        for path in [&own, &other] {
            std::fs::write(path, "").unwrap();
        }
        tidy(folder.path(), Duration::ZERO).unwrap();
        assert!(!own.exists() && other.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_a_kill_left_goes_and_one_that_is_written_into_stays() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * LEFT_AFTER;
        let [left, filled, new] =
            [".ssmprobe-left", ".ssmprobe-filled", "new"].map(|name| folder.path().join(name));
        for (path, written) in [(&left, old), (&filled, SystemTime::now())] {
            make_folder(path).unwrap();
            std::fs::File::create(path.join("weights")).unwrap().set_modified(written).unwrap();
            std::fs::File::open(path).unwrap().set_modified(old).unwrap();
        }
        write_folder(&new, |inside| write(&inside.join("weights"), b"x")).unwrap();
        assert!(!left.exists() && filled.exists() && new.join("weights").exists());
    }

    #[test]
    fn what_was_left_before_the_clock_was_set_back_is_tidied_away_too() {
        let folder = tempfile::tempdir().unwrap();
        let hour = Duration::from_hours(1);
        let now = SystemTime::now();
        for (time, stays) in [(now, true), (now - hour, false), (now + hour, false)] {
            let path = folder.path().join(".ssmprobe-ab12");
            std::fs::File::create(&path).unwrap().set_modified(time).unwrap();
            tidy(folder.path(), hour / 2).unwrap();
            assert_eq!(path.exists(), stays, "{time:?}, and it is {now:?}");
        }
    }
}
