//! What was recently used, as a person named it: of many files at once the folder they lie in.

use std::path::PathBuf;

use super::State;
use super::settings::remember;

impl State {
    /// Remembers probe files, or the folder of several.
    pub(super) fn remember_probes(&mut self, paths: &[PathBuf]) {
        let recent = &mut self.settings.recent;
        match folder_of(paths) {
            Some(folder) => remember(&mut recent.runs, folder),
            None => paths.iter().rev().for_each(|path| remember(&mut recent.probes, path.clone())),
        }
    }

    /// Remembers images and folders of images, or the folder of several.
    pub(super) fn remember_images(&mut self, paths: &[PathBuf]) {
        let recent = &mut self.settings.recent.images;
        match folder_of(paths) {
            Some(folder) => remember(recent, folder),
            None => paths.iter().rev().for_each(|path| remember(recent, path.clone())),
        }
    }
}

/// The folder in which several files lie, all of them.
fn folder_of(paths: &[PathBuf]) -> Option<PathBuf> {
    let folder = paths.first()?.parent().filter(|folder| folder.file_name().is_some())?;
    let all = paths.len() > 1 && paths.iter().all(|path| path.parent() == Some(folder));
    all.then(|| folder.to_owned())
}
