//! A crowded library: thousands of image files and dozens of probes, made of the demo's in a
//! temporary folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::app::demo::{self, DemoInfo};
use crate::app::state::command::Command;

/// Images in one folder of the synthetic library.
const FOLDER: usize = 1000;

/// How many are wanted.
#[derive(Clone, Copy)]
pub struct SyntheticLibrary {
    pub images: usize,
    pub probes: usize,
}

impl SyntheticLibrary {
    /// Whether any are.
    pub fn is_wanted(self) -> bool {
        self.images > 0 || self.probes > 0
    }

    /// Makes the files, and says what opens them. They go with the folder.
    pub fn make(self) -> anyhow::Result<(TempDir, Vec<Command>)> {
        let demo = demo::demo()?;
        let about = DemoInfo::open(&demo)?;
        let folder = tempfile::tempdir().context("cannot make a folder for the synthetic library")?;
        let images = about.images(&demo);
        for at in 0..self.images {
            let inside = folder.path().join("images").join(format!("{:03}", at / FOLDER));
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

/// Copies the file whose turn it is under a name of its own.
fn copy(files: &[PathBuf], at: usize, inside: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let from = files.get(at % files.len().max(1)).context("the demo holds none")?;
    fs::create_dir_all(inside).with_context(|| format!("{}", inside.display()))?;
    let ending = from.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let to = inside.join(format!("{name}-{at:06}.{ending}"));
    fs::copy(from, &to).with_context(|| format!("{}", to.display()))?;
    Ok(to)
}
