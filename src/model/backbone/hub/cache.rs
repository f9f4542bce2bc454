//! The cache that all programs of the Hub share, in the layout of Python's `huggingface_hub`.
//!
//! ```text
//! models--ORG--NAME/blobs/ETAG                   contents; ETAG.incomplete while they arrive
//!                   snapshots/COMMIT/FILE        links to them
//!                   refs/REVISION                the commit of a branch or tag
//!                   .no_exist/COMMIT/FILE        empty: the Hub has no such file
//! .locks/models--ORG--NAME/ETAG.lock             held while a content is written
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo};

use super::HubError;
use crate::model::io::atomic_file;

/// Longest file that holds a commit, in bytes.
const MAX_REF_BYTES: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct CachedRepo {
    layout: CacheRepo,
    root: PathBuf,
    locks: PathBuf,
}

/// Whether `name` may become the name of a file: what a server sends must not leave the cache.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=128).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with('.')
        && !name.contains("..")
}

/// Whether `revision` is the full name of a commit.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Names the path of an input or output error.
pub(super) fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, HubError> {
    result.map_err(|source| HubError::Io { path: path.into(), source })
}

impl CachedRepo {
    /// The place of `repo` in the cache at `cache`.
    pub fn new(cache: &Path, repo: &Repo) -> Self {
        let (name, layout) = (repo.folder_name(), Cache::new(cache.into()).repo(repo.clone()));
        Self { layout, root: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    /// The commit that `revision` stood for when it was last fetched.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.into());
        }
        let commit = atomic_file::text(&self.root.join("refs").join(revision), MAX_REF_BYTES).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_name(commit))
    }

    /// Remembers that `revision` stands for `commit`.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let path = self.root.join("refs").join(revision);
        if is_commit(revision) || atomic_file::text(&path, MAX_REF_BYTES).is_ok_and(|old| old == commit) {
            return Ok(());
        }
        let dir = path.parent().unwrap_or(&self.root);
        at(&path, atomic_file::make_folder(dir))?;
        at(&path, atomic_file::write(&path, commit.as_bytes()))
    }

    /// The folder of `commit`.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.layout.pointer_path(commit)
    }

    /// `file` of `commit`, if it is here.
    pub fn file(&self, commit: &str, file: &str) -> Option<PathBuf> {
        Some(self.snapshot(commit).join(file)).filter(|path| path.is_file())
    }

    /// Whether the Hub is known to have no `file` in `commit`.
    pub fn is_absent(&self, commit: &str, file: &str) -> bool {
        self.root.join(".no_exist").join(commit).join(file).is_file()
    }

    /// Remembers that the Hub has no `file` in `commit`. Failing costs a question next time.
    pub fn set_absent(&self, commit: &str, file: &str) {
        let dir = self.root.join(".no_exist").join(commit);
        let _ =
            atomic_file::make_folder(&dir).and_then(|()| atomic_file::step(|| File::create(dir.join(file))));
    }

    /// Where the content `etag` belongs.
    pub fn blob(&self, etag: &str) -> PathBuf {
        self.layout.blob_path(etag)
    }

    /// Where the content `etag` grows.
    pub fn partial(&self, etag: &str) -> PathBuf {
        self.layout.blob_path(&format!("{etag}.incomplete"))
    }

    /// The file whose lock says who writes the content `etag`; makes the folders for both.
    pub fn lock_file(&self, etag: &str) -> Result<File, HubError> {
        let blobs = self.root.join("blobs");
        at(&blobs, atomic_file::make_folder(&blobs))?;
        at(&self.locks, atomic_file::make_folder(&self.locks))?;
        let path = self.locks.join(format!("{etag}.lock"));
        at(&path, atomic_file::step(|| File::options().create(true).write(true).truncate(false).open(&path)))
    }

    /// Lets `file` of `commit` be the content `etag`.
    pub fn link(&self, commit: &str, file: &str, etag: &str) -> Result<PathBuf, HubError> {
        let dir = self.snapshot(commit);
        let path = dir.join(file);
        if path.is_file() {
            return Ok(path);
        }
        at(&path, atomic_file::make_folder(path.parent().unwrap_or(&dir)))?;
        if path.symlink_metadata().is_ok() {
            at(&path, atomic_file::step(|| fs::remove_file(&path)))?; // a link to a content that was deleted
        }
        let up = "../".repeat(file.matches('/').count());
        let target = Path::new(&up).join("../../blobs").join(etag);
        #[cfg(unix)]
        let linked = atomic_file::step(|| std::os::unix::fs::symlink(target, &path));
        // Windows allows links to few users; Python's cache then moves the content, too.
        #[cfg(windows)]
        let linked =
            std::os::windows::fs::symlink_file(target, &path).or_else(|_| fs::rename(self.blob(etag), &path));
        at(&path, linked)?;
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
