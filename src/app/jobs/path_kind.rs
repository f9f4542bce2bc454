//! What a path leads to: a backbone, a probe, a run, a dataset, images or a workspace.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::detached::lock;
use super::tasks::plan_file;
use crate::app::image_files::{is_probe, is_workspace};
use crate::app::jobs::user_error::refuse;
use crate::model::data;
use crate::model::data::image::is_named_image;
use crate::model::io::atomic_file;

/// The kind of thing that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathKind {
    /// A folder with a `config.json`.
    Backbone,
    /// A probe file.
    Probe,
    /// A folder with probe files.
    Run,
    /// A labelled dataset.
    Dataset,
    /// An image, or a folder to search for images.
    Images,
    /// A workspace file.
    Workspace,
    /// The path does not exist.
    Missing,
    /// None of these.
    Unknown,
}

/// Checks that something is at the path that the user gave by `flag`, such as `--image `.
///
/// # Errors
/// If there is nothing, or if the system does not tell: a folder on the way may be another user's, or its disk may not answer.
pub fn check_there(flag: &str, path: &Path) -> anyhow::Result<()> {
    let given = format!("{flag}{}", path.display());
    let there = atomic_file::is_there(path);
    match there.with_context(|| format!("{given}: cannot be read; check the path and its permissions"))? {
        true => Ok(()),
        false => refuse!("{given}: no such file or folder; check the path"),
    }
}

/// The kind of a path, from its name and its entries.
pub(super) fn kind_of(path: &Path) -> PathKind {
    if !path.exists() {
        return PathKind::Missing;
    }
    if path.is_dir() {
        if path.join("config.json").is_file() {
            return PathKind::Backbone;
        }
        let begun = lock(path).is_file(); // a training that may still extract its tokens
        if begun || path.join("run.json").is_file() || plan_file(path).is_file() {
            return PathKind::Run;
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let run = entries.map(|entry| entry.path()).any(|path| is_probe(&path));
        return match run {
            true => PathKind::Run,
            false if data::labelled(path) => PathKind::Dataset,
            false => PathKind::Images,
        };
    }
    match path {
        path if is_probe(path) => PathKind::Probe,
        path if is_named_image(path) => PathKind::Images,
        path if data::labelled(path) => PathKind::Dataset,
        path if is_workspace(path) => PathKind::Workspace,
        _ => PathKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn what_cannot_be_looked_at_is_not_called_absent() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| super::check_there("--image ", &folder.path().join(name));
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
        for (name, found) in [("loop/a.png", "cannot be read"), ("a.png", "no such file or folder")] {
            let refused = at(name).unwrap_err().to_string();
            assert!(refused.starts_with("--image ") && refused.contains(found), "{refused}");
        }
        at("").unwrap();
    }
}
