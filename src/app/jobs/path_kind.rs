//! What a path leads to: a backbone, a probe, a run, a dataset, images or a workspace.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::detached::lock;
use super::tasks::plan_file;
use crate::app::image_files::{is_probe, is_workspace};
use crate::model::data;
use crate::model::data::image::is_named_image;

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
