//! A crowded library: thousands of image files and dozens of probes, copied from the demo into a
//! temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::app::demo::{self, DemoInfo};
use crate::app::state::command::Command;
use crate::model::io::temporary;

/// Images in one folder of the synthetic library.
const FOLDER_IMAGES: usize = 1000;

/// Numbers of files to make.
#[derive(Clone, Copy)]
pub struct SyntheticLibrary {
    pub images: usize,
    pub probes: usize,
}

impl SyntheticLibrary {
    pub fn is_wanted(self) -> bool {
        self.images > 0 || self.probes > 0
    }

    /// Makes the files; their folder, which deletes them when dropped, and the commands that open them.
    pub fn make(self) -> anyhow::Result<(TempDir, Vec<Command>)> {
        let demo = demo::demo()?;
        let about = DemoInfo::open(&demo)?;
        let folder = temporary::folder().context("cannot create a folder for the synthetic library")?;
        let images = about.images(&demo);
        for at in 0..self.images {
            let inside = folder.path().join("images").join(format!("{:03}", at / FOLDER_IMAGES));
            copy(&images, at, &inside, "scene")?;
        }
        let backbone = about.backbones.first().context("the demo has no backbone")?;
        let files: Vec<PathBuf> = backbone.heads.iter().map(|head| backbone.probe(&demo, &head.id)).collect();
        let inside = folder.path().join("probes");
        let probes =
            (0..self.probes).map(|at| copy(&files, at, &inside, "probe")).collect::<anyhow::Result<_>>()?;
        let mut commands = vec![Command::OpenProbes(probes)];
        if self.images > 0 {
            commands.push(Command::OpenImages(vec![folder.path().join("images")]));
        }
        Ok((folder, commands))
    }
}

/// Copies file `at` of the endless repetition of `files` to `<name>-<at>` in `inside`; its path.
fn copy(files: &[PathBuf], at: usize, inside: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let from = files.get(at % files.len().max(1)).context("the demo has none")?;
    fs::create_dir_all(inside).with_context(|| format!("{}", inside.display()))?;
    let ending = from.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let to = inside.join(format!("{name}-{at:06}.{ending}"));
    fs::copy(from, &to).with_context(|| format!("{}", to.display()))?;
    Ok(to)
}
