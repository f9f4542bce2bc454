//! What was recently used: remembered once it was opened, not when it was asked for, and as a person named
//! it: of many files at once the folder they lie in.

use std::path::{Path, PathBuf};

use super::State;
use super::settings::remember;
use crate::app::jobs::JobId;

/// Something to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recently {
    Backbone(String),
    Probe(PathBuf),
    Run(PathBuf),
    Image(PathBuf),
    Dataset(PathBuf),
}

impl State {
    /// Lets a job remember this once it has come to its end; nothing while the demo opens, which nobody
    /// chose.
    pub(super) fn remember_after(&mut self, job: JobId, what: Vec<Recently>) {
        if let Some(job) = self.jobs.get_mut(&job).filter(|_| !self.opens_demo) {
            job.recent = what;
        }
    }

    /// Remembers what was used.
    pub(super) fn remember_used(&mut self, what: Vec<Recently>) {
        if self.connection.host().is_some() {
            return; // it lies on another machine
        }
        let recent = &mut self.settings.recent;
        for what in what.into_iter().rev() {
            match what {
                Recently::Backbone(source) => remember(&mut recent.backbones, source),
                Recently::Probe(path) => remember(&mut recent.probes, path),
                Recently::Run(path) => remember(&mut recent.runs, path),
                Recently::Image(path) => remember(&mut recent.images, path),
                Recently::Dataset(path) => remember(&mut recent.datasets, path),
            }
        }
    }

    /// Remembers a workspace that was opened or saved.
    pub fn remember_workspace(&mut self, path: PathBuf) {
        remember(&mut self.settings.recent.workspaces, path);
    }

    /// Images were listed: of what their job was to list, what they lie in, or are, is remembered.
    pub(super) fn remember_listed(&mut self, job: JobId, listed: &[PathBuf]) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        let found = |what: &Recently| matches!(what, Recently::Image(path) if listed.iter().any(|listed| listed.starts_with(path)));
        let (used, left) = std::mem::take(&mut job.recent).into_iter().partition(found);
        job.recent = left;
        self.remember_used(used);
    }
}

/// How one of several probe files is remembered: by the folder in which all of them lie, else by itself.
pub(super) fn of_probe(paths: &[PathBuf], path: &Path) -> Recently {
    folder_of(paths).map_or_else(|| Recently::Probe(path.to_owned()), Recently::Run)
}

/// How images and folders of images are remembered.
pub(super) fn of_images(paths: &[PathBuf]) -> Vec<Recently> {
    match folder_of(paths) {
        Some(folder) => vec![Recently::Image(folder)],
        None => paths.iter().cloned().map(Recently::Image).collect(),
    }
}

/// The folder in which several files lie, all of them.
fn folder_of(paths: &[PathBuf]) -> Option<PathBuf> {
    let folder = paths.first()?.parent().filter(|folder: &&Path| folder.file_name().is_some())?;
    let all = paths.len() > 1 && paths.iter().all(|path| path.parent() == Some(folder));
    all.then(|| folder.to_owned())
}
