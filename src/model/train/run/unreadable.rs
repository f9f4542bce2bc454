//! What a run keeps for resuming it: seeds that were added, images that cannot be read, and where its tokens are cached.

use std::path::PathBuf;

use super::{Run, RunError, read_json, write_json};

pub(super) const UNREADABLE: &str = "state/unreadable.json";

impl Run {
    /// Replaces the run's seeds by `seeds`, the old ones and new ones, in the manifest.
    pub fn grow(&mut self, seeds: &[u64]) -> Result<(), RunError> {
        self.manifest.seeds = seeds.to_vec();
        write_json(&self.manifest_path(), &self.manifest)
    }

    /// Stores the indices of the dataset's images that cannot be read, so that a resumed run need not try them.
    pub fn keep_unreadable(&self, images: &[usize]) -> Result<(), RunError> {
        write_json(&self.folder.join(UNREADABLE), &images)
    }

    /// The indices of images that cannot be read, if they were stored.
    pub fn unreadable(&self) -> Option<Vec<usize>> {
        read_json(&self.folder.join(UNREADABLE)).ok()
    }

    /// The folder of token caches that the run started with, if it still exists.
    pub fn cache(&self) -> Option<PathBuf> {
        self.manifest.cache.clone().filter(|cache| cache.is_dir())
    }
}
