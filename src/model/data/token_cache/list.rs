//! Listing the token caches in a folder, and removing them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rayon::prelude::*;
use serde::Serialize;

use super::{CacheError, MANIFEST, Names, SHARD, TokenKey, count, io_error, read_manifest};
use crate::model::grid::Grid;
use crate::model::io::file_lock::is_shared;
use crate::model::io::{if_there, temporary};

/// A cache on disk, complete or not. One that this user may not read has no bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Name of its folder: [`TokenKey::key`].
    pub name: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// When its newest file was written, in seconds since 1970; `None` if the system does not say.
    pub written: Option<u64>,
    /// What it holds; `None` if it has no readable manifest.
    pub about: Option<About>,
}

/// What a cache holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// What its tokens were made from; `None` in caches of earlier versions.
    pub names: Option<Names>,
    /// Everything its tokens depend on.
    pub source: TokenKey,
    /// The grid of patch tokens of an image.
    pub grid: Grid,
    /// Hidden size.
    pub width: usize,
    /// Number of images of the complete cache.
    pub images: usize,
    /// Number of images in the shards on disk.
    pub done: usize,
}

/// The caches in `root`, sorted by name; empty if there is no such folder.
pub fn entries(root: &Path) -> Result<Vec<Entry>, CacheError> {
    let mut listed = if_there(inside(root)).map_err(io_error("list it", root))?.unwrap_or_default();
    listed.retain(|(name, path)| is_name(name) && path.is_dir());
    let entries = listed.into_iter().map(|(name, folder)| entry(&folder, name));
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Removes the cache `name` of `root`, and nothing else that may lie in its folder.
///
/// # Errors
/// It also fails if the cache is being written: that extraction would fail, and hours of it would be lost.
pub fn remove(root: &Path, name: &str) -> Result<(), CacheError> {
    let folder = root.join(name);
    if is_shared(&folder) {
        return Err(CacheError::InUse { folder });
    }
    // The manifest last, so that a partly removed cache is still recognised as one.
    let mut files = own_files(&folder)?;
    files.sort_by_key(|path| path.ends_with(MANIFEST));
    for path in files {
        fs::remove_file(&path).map_err(io_error("remove it", &path))?;
    }
    // If the folder is a link to another disk, the link is removed.
    let emptied = match folder.is_symlink() && cfg!(unix) {
        true => fs::remove_file(&folder),
        false => fs::remove_dir(&folder),
    };
    emptied.map_err(io_error("remove it", &folder))
}

fn entry(folder: &Path, name: String) -> Result<Entry, CacheError> {
    let files = match own_files(folder) {
        // Another user's cache, which must not hide the others, or one that another program has just removed.
        Err(CacheError::Io { source, .. })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
        {
            Vec::new()
        }
        files => files?,
    };
    let on_disk: Vec<fs::Metadata> = files.par_iter().filter_map(|path| path.metadata().ok()).collect();
    let bytes = on_disk.iter().map(fs::Metadata::len).sum();
    let newest = on_disk.iter().filter_map(|file| file.modified().ok()).max();
    let written = newest.and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs()));
    let manifest = read_manifest(folder).ok().flatten();
    let about = manifest.map(|manifest| {
        let index = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?.strip_suffix(".safetensors")?;
            name.strip_prefix("tokens-")?.parse::<usize>().ok()
        };
        let whole = manifest.images.div_ceil(SHARD);
        let there = files.iter().filter_map(index).filter(|index| *index < whole);
        let done = there.map(|index| count(manifest.images, index)).sum();
        let super::CacheManifest { names, source, grid, width, images, .. } = manifest;
        About { names, source, grid, width, images, done }
    });
    Ok(Entry { name, bytes, written, about })
}

/// The files of a cache: manifest, shards, their records, and temporary files of a killed process.
fn own_files(folder: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let own = |name: &str| {
        let shard =
            name.starts_with("tokens-") && (name.ends_with(".safetensors") || name.ends_with(".json"));
        name == MANIFEST || shard || temporary::is_temporary(name)
    };
    let files = inside(folder).map_err(io_error("list it", folder))?.into_iter();
    Ok(files.filter(|(name, _)| own(name)).map(|(_, path)| path).collect())
}

/// Name and path of everything in a folder.
fn inside(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let name = |entry: fs::DirEntry| (entry.file_name().to_string_lossy().into_owned(), entry.path());
    fs::read_dir(folder)?.map(|entry| entry.map(name)).collect()
}

/// Whether a folder is named as [`TokenKey::key`] names them.
fn is_name(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::model::data::token_cache::{Precision, Writer, tests};
    use crate::model::io::atomic_file::can_write;

    #[test]
    fn a_cache_of_another_user_is_refused_before_any_token_and_hides_no_other() {
        let (root, source) = (tempfile::tempdir().unwrap(), tests::source(Precision::Float16));
        tests::push(&mut Writer::open(root.path(), source.clone(), 2 * SHARD).unwrap(), 0..SHARD, None);
        let folder = root.path().join(source.key());
        let set_mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o555);
        if can_write(&folder).is_ok() {
            return crate::skip::because("this user may write anywhere");
        }
        let refused = Writer::open(root.path(), source, 2 * SHARD).err().unwrap().to_string();
        assert!(refused.contains("cannot write into it; if it is another user's"), "{refused}");
        set_mode(0o000);
        let listed = entries(root.path()).unwrap();
        assert_eq!((listed.len(), listed[0].bytes), (1, 0));
        set_mode(0o755);
    }

    #[test]
    fn a_cache_is_not_removed_while_it_is_written() {
        let (root, source) = (tempfile::tempdir().unwrap(), tests::source(Precision::Float16));
        let open = || Writer::open(root.path(), source.clone(), 2 * SHARD).unwrap();
        let mut writers = [open(), open()]; // as those of two parts
        tests::push(&mut writers[0], 0..SHARD, None);
        let refused = remove(root.path(), &source.key()).unwrap_err().to_string();
        assert!(refused.contains("another process is extracting"), "{refused}");
        assert_eq!(entries(root.path()).unwrap()[0].about.as_ref().unwrap().done, SHARD);
        drop(writers);
        remove(root.path(), &source.key()).unwrap();
        assert!(entries(root.path()).unwrap().is_empty());
    }

    #[test]
    fn a_cache_on_another_disk_is_removed_with_the_link_to_it() {
        let (root, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = tests::source(Precision::Float16);
        tests::push(&mut Writer::open(disk.path(), source.clone(), 2 * SHARD).unwrap(), 0..SHARD, None);
        let (there, link) = (disk.path().join(source.key()), root.path().join(source.key()));
        std::os::unix::fs::symlink(&there, &link).unwrap();
        let listed = entries(root.path()).unwrap();
        assert!(listed[0].bytes > 0, "{listed:?}");
        remove(root.path(), &listed[0].name).unwrap();
        assert!(!link.is_symlink() && entries(root.path()).unwrap().is_empty());
        assert!(inside(&there).unwrap().is_empty(), "its tokens are freed there");
    }
}
