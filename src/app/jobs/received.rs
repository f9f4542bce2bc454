//! Files that a window elsewhere sends over: a probe or an image that was dropped into it.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::result_file::ResultFile;
use crate::app::format;
use crate::app::paths;
use crate::model::io::{atomic_file, sha256};

/// Most bytes that are sent at once.
pub const MAX_BYTES: u64 = 64_000_000;
/// Most bytes of all files that are kept: those received first are removed.
const MAX_KEPT: u64 = 4 << 30;

/// Reads files to be sent, all of them together.
///
/// # Errors
/// If one is a folder, cannot be read, or they are larger than [`MAX_BYTES`].
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<ResultFile>> {
    let mut left = MAX_BYTES;
    let read = |path: &PathBuf| {
        let place = path.display();
        let about = std::fs::metadata(path).with_context(|| format!("{place}: cannot be read"))?;
        ensure!(
            !about.is_dir(),
            "{place}: a folder cannot be sent; copy it to the other machine (scp -r), and open it there"
        );
        ensure!(
            about.len() <= left,
            "{place}: {}, and at most {} can be sent at once; copy it to the other machine (scp), and open it there",
            format::bytes(about.len()),
            format::bytes(MAX_BYTES)
        );
        left -= about.len();
        let name = path.file_name().with_context(|| format!("{place}: is not a file"))?;
        let bytes = atomic_file::read(path, MAX_BYTES).with_context(|| format!("{place}: cannot be read"))?;
        Ok(ResultFile { path: name.into(), bytes })
    };
    paths.iter().map(read).collect()
}

/// Keeps a file that was sent, in a folder of its own below the cache of the user; where it is. The same file is kept
/// once.
///
/// # Errors
/// If it is too large, its name leads elsewhere, or it cannot be written.
pub fn keep(file: &ResultFile) -> anyhow::Result<PathBuf> {
    let folder = paths::received().context("no folder for received files: this user has no home folder")?;
    let kept = keep_in(&folder, file)?;
    remove_oldest(&folder, MAX_KEPT);
    Ok(kept)
}

fn keep_in(folder: &Path, file: &ResultFile) -> anyhow::Result<PathBuf> {
    let bytes = file.bytes.len() as u64;
    ensure!(
        bytes <= MAX_BYTES,
        "{}: {}, expected at most {}",
        file.path.display(),
        format::bytes(bytes),
        format::bytes(MAX_BYTES)
    );
    let folder = folder.join(format!("{:.12}", sha256::of_bytes(&file.bytes)));
    file.save(&folder)?; // also where it is kept already: its name is checked there, and the copy may be damaged
    Ok(folder.join(&file.path))
}

/// Removes the files that were received first, so that the rest takes at most `max_bytes`. What cannot be read or removed stays.
fn remove_oldest(folder: &Path, max_bytes: u64) {
    let file = |entry: fs::DirEntry| {
        let about = entry.metadata().ok()?;
        Some((about.modified().ok()?, about.len(), entry.path()))
    };
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = inside(folder.to_owned()).map(|entry| entry.path());
    let mut files: Vec<_> = folders.flat_map(inside).filter_map(file).collect();
    files.sort_by_key(|(received, ..)| Reverse(*received));
    let mut total = 0;
    for (_, bytes, path) in files {
        total += bytes;
        if total > max_bytes {
            let _ = fs::remove_file(&path); // another worker may have just removed it
            let _ = path.parent().map(fs::remove_dir); // it may hold the same under another name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_first_is_removed_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = [b"one".as_slice(), b"other", b"newest"].map(|bytes| {
            let file = ResultFile { path: "x.png".into(), bytes: bytes.into() };
            keep_in(folder.path(), &file).expect("kept")
        });
        for (path, age) in kept.iter().zip([2_u32, 3, 1]) {
            let received = std::time::SystemTime::now() - age * std::time::Duration::from_hours(1);
            let file = fs::File::options().append(true).open(path).expect("a file");
            file.set_modified(received).expect("a time");
        }
        for (max_bytes, left) in [(14, [true; 3]), (13, [true, false, true]), (6, [false, false, true])] {
            remove_oldest(folder.path(), max_bytes);
            assert_eq!(kept.each_ref().map(|path| path.exists()), left, "{max_bytes}");
            assert_eq!(kept.each_ref().map(|path| path.parent().expect("a folder").exists()), left);
        }
    }

    #[test]
    fn what_is_sent_arrives_under_its_name_once() {
        let [here, there] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let path = here.path().join("gap.safetensors");
        atomic_file::write(&path, b"probe").expect("written");
        let [file] = &read(&[path]).expect("a file")[..] else { panic!("one file") };
        let kept = keep_in(there.path(), file).expect("kept");
        assert_eq!(kept.file_name().and_then(std::ffi::OsStr::to_str), Some("gap.safetensors"));
        assert_eq!(std::fs::read(&kept).expect("a file"), b"probe");
        assert_eq!(keep_in(there.path(), file).expect("kept"), kept);
        let other = ResultFile { bytes: b"other".into(), ..file.clone() };
        assert_ne!(keep_in(there.path(), &other).expect("kept"), kept);
    }

    #[test]
    fn what_is_too_large_or_leads_elsewhere_is_refused() {
        let here = tempfile::tempdir().expect("a folder");
        let large = here.path().join("large.png");
        std::fs::File::create(&large).and_then(|file| file.set_len(MAX_BYTES + 1)).expect("a file");
        for (path, words) in [
            (large, "at most 64.0 MB"),
            (here.path().to_owned(), "a folder cannot be sent"),
            (here.path().join("no"), "cannot be read"),
        ] {
            let error = read(&[path]).expect_err("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
        // Together they are too large as well.
        let half = here.path().join("half");
        std::fs::File::create(&half).and_then(|file| file.set_len(MAX_BYTES / 2 + 1)).expect("a file");
        assert!(read(&[half.clone(), half]).is_err());
        for path in ["../x", "../../half", "/x", ""] {
            let file = ResultFile { path: path.into(), bytes: vec![1] };
            assert!(keep_in(&here.path().join("kept"), &file).is_err(), "{path}");
        }
        assert!(!here.path().join("x").exists());
        let bytes = vec![0; MAX_BYTES as usize + 1];
        assert!(keep_in(here.path(), &ResultFile { path: "x".into(), bytes }).is_err());
    }
}
