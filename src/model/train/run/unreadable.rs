//! What a run keeps for those who go on with it: seeds that were added, images that cannot be read,
//! where its tokens lie.

use std::path::PathBuf;

use super::{Run, RunError, read_json, write_json};

pub(super) const UNREADABLE: &str = "state/unreadable.json";

impl Run {
    /// Adds seeds to those there are: written whole or not at all.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn grow(&mut self, seeds: &[u64]) -> Result<(), RunError> {
        self.manifest.seeds = seeds.to_vec();
        write_json(&self.manifest_path(), &self.manifest)
    }

    /// Keeps which images of the dataset cannot be read, so that nobody has to look again.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn keep_unreadable(&self, images: &[usize]) -> Result<(), RunError> {
        write_json(&self.folder.join(UNREADABLE), &images)
    }

    /// What was kept of them, if anything.
    pub fn unreadable(&self) -> Option<Vec<usize>> {
        read_json(&self.folder.join(UNREADABLE)).ok()
    }

    /// The folder of token caches it was begun with, if it is still there.
    pub fn cache(&self) -> Option<PathBuf> {
        self.manifest.cache.clone().filter(|cache| cache.is_dir())
    }
}
