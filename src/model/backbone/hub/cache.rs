//! The cache shared by all programs that use the Hub, in the layout of Python's `huggingface_hub`.
//!
//! ```text
//! models--ORG--NAME/blobs/ETAG                   contents; ETAG.incomplete during the download
//!                   snapshots/COMMIT/FILE        links to them
//!                   refs/REVISION                the commit of a branch or tag
//!                   .no_exist/COMMIT/FILE        empty: the Hub has no such file
//! .locks/models--ORG--NAME/ETAG.lock             locked while a content is written
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo};

use super::HubError;
use crate::model::io::atomic_file;

/// Largest `refs` file read, in bytes.
const MAX_REF_BYTES: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct CachedRepo {
    layout: CacheRepo,
    root: PathBuf,
    locks: PathBuf,
}

/// Whether `name` is a safe file name: names from a server must not lead out of the cache.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=128).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('.')
        && !name.contains("..")
}

/// Whether `revision` is a full commit hash.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Adds the path to an I/O error.
pub(super) fn with_path<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Io { path: path.into(), source })
}

impl CachedRepo {
    /// `repo` in the cache folder `cache`.
    pub fn new(cache: &Path, repo: &Repo) -> Self {
        let (name, layout) = (repo.folder_name(), Cache::new(cache.into()).repo(repo.clone()));
        Self { layout, root: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// The commit that `revision` was resolved to when it was last fetched.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.into());
        }
        let commit = atomic_file::text(&self.root.join("refs").join(revision), MAX_REF_BYTES).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_name(commit))
    }

    /// Records that `revision` resolves to `commit`.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let path = self.root.join("refs").join(revision);
        if is_commit(revision) || atomic_file::text(&path, MAX_REF_BYTES).is_ok_and(|old| old == commit) {
            return Ok(());
        }
        let dir = path.parent().unwrap_or(&self.root);
        with_path(&path, atomic_file::make_folder(dir))?;
        with_path(&path, atomic_file::write(&path, commit.as_bytes()))
    }

    /// The snapshot folder of `commit`.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.layout.pointer_path(commit)
    }

    /// The path of `file` of `commit`, if it is in the cache.
    pub fn file(&self, commit: &str, file: &str) -> Option<PathBuf> {
        Some(self.snapshot(commit).join(file)).filter(|path| path.is_file())
    }

    /// Whether the Hub is known to have no `file` in `commit`.
    pub fn is_absent(&self, commit: &str, file: &str) -> bool {
        self.root.join(".no_exist").join(commit).join(file).is_file()
    }

    /// Records that the Hub has no `file` in `commit`. Failure is ignored: it costs a request next time.
    pub fn set_absent(&self, commit: &str, file: &str) {
        let dir = self.root.join(".no_exist").join(commit);
        let _ =
            atomic_file::make_folder(&dir).and_then(|()| atomic_file::step(|| File::create(dir.join(file))));
    }

    /// The path of the content `etag`.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.layout.blob_path(etag)
    }

    /// The path of the content `etag` during its download.
    pub fn partial(&self, etag: &str) -> PathBuf {
        self.layout.blob_path(&format!("{etag}.incomplete"))
    }

    /// Opens the lock file for writing the content `etag`; creates the folders of both.
    pub fn lock_file(&self, etag: &str) -> Result<File, HubError> {
        let blobs = self.root.join("blobs");
        with_path(&blobs, atomic_file::make_folder(&blobs))?;
        with_path(&self.locks, atomic_file::make_folder(&self.locks))?;
        let path = self.locks.join(format!("{etag}.lock"));
        with_path(
            &path,
            atomic_file::step(|| File::options().create(true).write(true).truncate(false).open(&path)),
        )
    }

    /// Links `file` of `commit` to the content `etag`; returns the link's path.
    pub fn link(&self, commit: &str, file: &str, etag: &str) -> Result<PathBuf, HubError> {
        let dir = self.snapshot(commit);
        let path = dir.join(file);
        if path.is_file() {
            return Ok(path);
        }
        with_path(&path, atomic_file::make_folder(path.parent().unwrap_or(&dir)))?;
        if path.symlink_metadata().is_ok() {
            with_path(&path, atomic_file::step(|| fs::remove_file(&path)))?; // a dangling link: its content was deleted
        }
        // Built from components, as Windows has its own separator in links.
        let up = std::iter::repeat_n("..", file.matches('/').count() + 2);
        let target: PathBuf = up.chain(["blobs", etag]).collect();
        // Where there are no links (FAT) or few users may create them (Windows), the content is moved, as Python's cache does.
        #[cfg(unix)]
        let linked = atomic_file::step(|| {
            std::os::unix::fs::symlink(target, &path).or_else(|why| match why.raw_os_error() {
                Some(number)
                    if [libc::EPERM, libc::ENOSYS, libc::ENOTSUP, libc::EOPNOTSUPP].contains(&number) =>
                {
                    fs::rename(self.blob(etag), &path)
                }
                _ => Err(why),
            })
        });
        #[cfg(windows)]
        let linked =
            std::os::windows::fs::symlink_file(target, &path).or_else(|_| fs::rename(self.blob(etag), &path));
        with_path(&path, linked)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_server_stay_in_the_cache() {
        for name in ["0123abc", "d41d8cd9-12", "v1.0"] {
            assert!(is_name(name), "{name}");
        }
        for name in
            ["", ".", "..", "../x", "a/b", "a\\b", "a..b", ".hidden", "a b", "é", "a\0", &"a".repeat(129)]
        {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_commit(&"0af9".repeat(10)) && !is_commit(&"0AF9".repeat(10)) && !is_commit("main"));
    }

    #[test]
    fn refs_are_read_with_care() {
        let dir = tempfile::tempdir().unwrap();
        let repo = CachedRepo::new(dir.path(), &Repo::model("org/name".into()));
        assert_eq!(repo.commit("main"), None);
        repo.set_commit("main", "abc").unwrap();
        repo.set_commit("refs/pr/1", "def").unwrap();
        assert_eq!(repo.commit("main").as_deref(), Some("abc"));
        repo.set_commit("main", "0123").unwrap();
        assert_eq!(repo.commit("main").as_deref(), Some("0123"), "the branch moved on");
        assert_eq!(fs::read(dir.path().join("models--org--name/refs/refs/pr/1")).unwrap(), b"def");
        fs::write(dir.path().join("models--org--name/refs/main"), "../../..").unwrap();
        assert_eq!(repo.commit("main"), None);
    }
}
