//! A memory-mapped weights file: the system loads its pages when they are accessed.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;

use super::error::WeightsError;

/// The bytes of a file on disk.
#[derive(Debug)]
pub(super) struct Mapped {
    /// The file.
    pub path: PathBuf,
    /// Its modification time, if the system provides it.
    pub changed: Option<SystemTime>,
    map: Mmap,
}

impl Mapped {
    /// Maps the file at `path`; an error if it is no regular file, empty, a Git LFS pointer or a web page.
    /// Links are followed: the Hub's cache consists of them.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let failed = |source| WeightsError::Io { path: path.into(), source };
        // Checked before opening: opening a named pipe would block.
        let meta = path.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(WeightsError::NotAFile(path.into()));
        }
        if meta.len() == 0 {
            return Err(WeightsError::Empty(path.into()));
        }
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the map is only read, as bytes of any value. If another program
        // truncates the file meanwhile, the system kills this one, as with every memory-mapped file.
        #[expect(unsafe_code, reason = "a map of a file cannot be made otherwise")]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let changed = file.metadata().and_then(|about| about.modified()).ok();
        let mapped = Self { path: path.into(), changed, map };
        let start = mapped[..mapped.len().min(64)].trim_ascii_start().to_ascii_lowercase();
        if start.starts_with(b"version https://git-lfs") {
            return Err(WeightsError::LfsPointer(mapped.path));
        }
        if start.starts_with(b"<!doctype") || start.starts_with(b"<html") {
            return Err(WeightsError::WebPage(mapped.path));
        }
        Ok(mapped)
    }

    /// The error that this is no valid file of `format`, because of `what`.
    pub fn damaged(&self, format: &'static str, what: impl Into<String>) -> WeightsError {
        WeightsError::Damaged { path: self.path.clone(), format, what: what.into() }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
