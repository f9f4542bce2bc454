//! Recently used entries: remembered once they were opened, not when that was requested, and as the user named them; for
//! several files of one folder, the folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::State;
use super::settings::{MAX_RECENT, remember};
use crate::app::jobs::JobId;

/// An entry to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecentItem {
    Backbone(String),
    Probe(PathBuf),
    Run(PathBuf),
    Image(PathBuf),
    Dataset(PathBuf),
}

impl State {
    /// Sets what is remembered when a job finishes; nothing while the demo opens, which the user did not choose.
    pub(super) fn remember_on_finish(&mut self, job: JobId, what: Vec<RecentItem>) {
        if let Some(job) = self.jobs.get_mut(&job).filter(|_| !self.opens_demo) {
            job.recent = what;
        }
    }

    /// Remembers entries, the first as the latest; not those of another machine, or removed with the window.
    pub(super) fn remember_used(&mut self, what: Vec<RecentItem>) {
        if self.connection.host().is_some() {
            return; // it lies on another machine
        }
        let (recent, temporary) = (&mut self.settings.recent, self.temporary.as_deref());
        let is_removed = |path: &Path| temporary.is_some_and(|folder| path.starts_with(folder));
        for what in what.into_iter().rev() {
            match what {
                RecentItem::Probe(path)
                | RecentItem::Run(path)
                | RecentItem::Image(path)
                | RecentItem::Dataset(path)
                    if is_removed(&path) => {}
                RecentItem::Backbone(source) => remember(&mut recent.backbones, source),
                RecentItem::Probe(path) => remember_path(&mut recent.probes, path),
                RecentItem::Run(path) => remember_path(&mut recent.runs, path),
                RecentItem::Image(path) => remember_path(&mut recent.images, path),
                RecentItem::Dataset(path) => remember_path(&mut recent.datasets, path),
            }
        }
    }

    /// Remembers a workspace that was opened or saved.
    pub fn remember_workspace(&mut self, path: PathBuf) {
        remember_path(&mut self.settings.recent.workspaces, path);
    }

    /// Remembers the requested paths in which images were listed, and drops them from the job.
    pub(super) fn remember_listed(&mut self, job: JobId, listed: &[PathBuf]) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        let found = |what: &RecentItem| matches!(what, RecentItem::Image(path) if listed.iter().any(|listed| listed.starts_with(path)));
        let (used, left) = std::mem::take(&mut job.recent).into_iter().partition(found);
        job.recent = left;
        self.remember_used(used);
    }
}

/// Remembers a path that is text: the settings, which are JSON, can hold no other.
fn remember_path(list: &mut VecDeque<PathBuf>, path: PathBuf) {
    if path.to_str().is_some() {
        remember(list, path);
    }
}

/// How images and folders of images are remembered: by their common folder, else each by its path, up to [`MAX_RECENT`]: otherwise each of
/// 20,000 images in two folders would be searched for in every later list.
pub(super) fn image_items(paths: &[PathBuf]) -> Vec<RecentItem> {
    match common_folder(paths) {
        Some(folder) => vec![RecentItem::Image(folder)],
        None => paths.iter().take(MAX_RECENT).cloned().map(RecentItem::Image).collect(),
    }
}

/// The folder that directly holds all of several files.
pub(super) fn common_folder(paths: &[PathBuf]) -> Option<PathBuf> {
    let folder = paths.first()?.parent().filter(|folder: &&Path| folder.file_name().is_some())?;
    let all = paths.len() > 1 && paths.iter().all(|path| path.parent() == Some(folder));
    all.then(|| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_images_those_that_stay_in_the_list_are_looked_for() {
        let paths = |folders: usize| -> Vec<PathBuf> {
            (0..500).map(|at| format!("/{}/{at}.png", at % folders).into()).collect()
        };
        assert_eq!(image_items(&paths(1)), [RecentItem::Image("/0".into())]);
        assert_eq!(image_items(&paths(2)).len(), MAX_RECENT);
        assert_eq!(image_items(&["/0/a.png", "/0/b.png", "/1/a.png"].map(PathBuf::from)).len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_keeps_no_settings_from_being_saved() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || PathBuf::from(std::ffi::OsString::from_vec(b"caf\xe9".to_vec()));
        let mut state = State::default();
        state.remember_used(vec![RecentItem::Image(odd()), RecentItem::Run("run".into())]);
        state.remember_workspace(odd());
        assert!(serde_json::to_value(&state.settings).is_ok());
        assert_eq!(state.settings.recent.runs, ["run"].map(PathBuf::from));
    }
}
