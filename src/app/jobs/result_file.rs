//! An output file of a verb's job: made where the job computes, saved where it was requested.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::model::io::{atomic_file, block};

/// An output file: its content and its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Path relative to the folder of the results.
    pub path: PathBuf,
    /// Its content.
    #[serde(with = "block")]
    pub bytes: Vec<u8>,
}

impl ResultFile {
    /// A file with these bytes; the error of making them names it.
    pub fn new<E>(path: PathBuf, bytes: impl Context<Vec<u8>, E>) -> anyhow::Result<Self> {
        let bytes = bytes.with_context(|| format!("{}: cannot be created", path.display()))?;
        Ok(Self { path, bytes })
    }

    /// Writes it below `folder`, atomically.
    ///
    /// # Errors
    /// If its path leads out of `folder`, or it cannot be written.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let below = |part: Component<'_>| matches!(part, Component::Normal(_));
        ensure!(
            self.path.components().all(below) && self.path.file_name().is_some(),
            "{}: is not inside the folder of the results; nothing is written there",
            self.path.display()
        );
        let path = folder.join(&self.path);
        let unwritable = || format!("{}: cannot be written", path.display());
        atomic_file::make_folder(path.parent().unwrap_or(folder)).with_context(unwritable)?;
        atomic_file::write(&path, &self.bytes).with_context(unwritable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_leaves_the_folder_of_the_results() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let absolute = root.path().join("c");
        for path in ["../a", "b/../../a", "", ".", "..", "/", absolute.to_str().unwrap()] {
            let error = ResultFile { path: path.into(), bytes: vec![1] }.save(&out).unwrap_err().to_string();
            assert!(error.contains("not inside the folder"), "{path}: {error}");
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        ResultFile { path: "a/b".into(), bytes: vec![1, 2] }.save(&out).unwrap();
        assert_eq!(std::fs::read(out.join("a/b")).unwrap(), [1, 2]);
    }
}
