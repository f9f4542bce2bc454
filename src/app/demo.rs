//! What comes with the program: where the bundled demo lies, and what it says of itself.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::app::state::command::Command;
use crate::model::data::scenes::folder::Set;
use crate::model::io::atomic_file;
use crate::model::pretrain::Plan;
use crate::model::train::TrainConfig;

/// Names the folder of assets where it lies elsewhere.
pub const ASSETS_VARIABLE: &str = "SSMPROBE_ASSETS";

/// The folder of the bundled demo: `demo` in the folder that [`ASSETS_VARIABLE`] names; else in `assets`
/// beside the program, or above it as in a checkout, or in `share/ssmprobe` as installed; else in
/// the sources it was built from.
pub fn demo() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(ASSETS_VARIABLE).map(PathBuf::from);
    let places = places(named.as_deref(), std::env::current_exe().ok().as_deref());
    if let Some(found) = places.iter().find(|place| place.join(DemoInfo::FILE).is_file()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!(
        "the bundled demo is not there; looked for {} in {}. Set {ASSETS_VARIABLE} to the folder `assets`, or make it again: ssmprobe demo build --out assets/demo",
        DemoInfo::FILE,
        tried.join(", ")
    )
}

/// Where the demo may lie, the likeliest first. A folder that was named is the only one.
fn places(named: Option<&Path>, program: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.join("demo")];
    }
    let above = program.into_iter().flat_map(|program| program.ancestors().skip(1).take(4));
    let beside = above.flat_map(|folder| ["assets/demo", "share/ssmprobe/demo"].map(|at| folder.join(at)));
    beside.chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo")]).collect()
}

/// Heads of the demo that are shown at first, side by side.
const SHOWN_FIRST: [&str; 4] = ["sinkhorn", "neuralsort", "raster", "gap"];

/// What opens the bundled demo: its first backbone with all probes, and its scenes as a dataset, which
/// have classes and masks. Nothing where there is no demo: the empty window says what to do.
pub fn opening() -> Vec<Command> {
    let Ok(folder) = demo() else { return Vec::new() };
    let Ok(about) = DemoInfo::open(&folder) else { return Vec::new() };
    let Some(backbone) = about.backbones.first() else { return Vec::new() };
    let mut heads: Vec<&str> = backbone.heads.iter().map(|head| head.id.as_str()).collect();
    heads.sort_by_key(|id| SHOWN_FIRST.iter().position(|first| first == id).unwrap_or(SHOWN_FIRST.len()));
    let probes: Vec<PathBuf> = heads.iter().map(|head| backbone.probe(&folder, head)).collect();
    vec![
        Command::OpenBackbone(backbone.folder(&folder).display().to_string()),
        Command::OpenProbes(probes.into_iter().filter(|path| path.is_file()).collect()),
        Command::OpenDataset(folder.join("scenes"), None),
    ]
}

/// What `demo.json` says: how the demo was made and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoInfo {
    /// Version of the program that made it.
    pub made_by: String,
    /// Version of the scenes.
    pub scenes_version: u32,
    /// Seed of all of it.
    pub seed: u64,
    /// The scenes that the probes were trained and validated on; the first of the validation ones
    /// are in the folder `scenes`.
    pub scenes: Set,
    /// How many validation scenes the object's AUC was taken on.
    pub auc_scenes: u64,
    /// How the probes were trained.
    #[serde(rename = "protocol")]
    pub config: TrainConfig,
    /// The backbones.
    pub backbones: Vec<DemoBackbone>,
}

/// A backbone of the demo and its probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoBackbone {
    /// Its folder, below which its weights lie; its probes are in `probes/<id>`.
    pub id: String,
    /// How it was pre-trained.
    pub plan: Plan,
    /// Its heads, in the order of the list.
    pub heads: Vec<DemoHead>,
}

/// What became of one head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoHead {
    /// Head id; its probe is `probes/<backbone>/<id>.safetensors`.
    pub id: String,
    /// Number of trained values.
    pub parameters: usize,
    /// Accuracy on the training scenes over the last epoch, in percent.
    pub train: f64,
    /// Accuracy on the validation scenes after the last epoch, in percent.
    pub val: f64,
    /// How well its token weights find the object: mean area under the ROC curve over tokens.
    /// Absent for heads without token weights.
    pub auc: Option<f64>,
}

impl DemoInfo {
    /// Its file in the demo's folder.
    pub const FILE: &str = "demo.json";
    /// It is no longer than this, in bytes.
    const MAX_BYTES: u64 = 1 << 20;

    /// Reads it from the demo's folder.
    pub fn open(demo: &Path) -> anyhow::Result<Self> {
        let path = demo.join(Self::FILE);
        let text = atomic_file::read(&path, Self::MAX_BYTES)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!("{} is not the description of a demo; make the demo again", path.display())
        })
    }

    /// The scenes in the demo's folder, in the order in which classes take turns.
    pub fn images(&self, demo: &Path) -> Vec<PathBuf> {
        let shipped = Set { train: 0, ..self.scenes };
        let files = shipped.places().map(|place| demo.join("scenes").join(place.file));
        files.take_while(|file| file.is_file()).collect()
    }
}

impl DemoBackbone {
    /// Its folder.
    pub fn folder(&self, demo: &Path) -> PathBuf {
        demo.join(&self.id)
    }

    /// The file of a head's probe.
    pub fn probe(&self, demo: &Path, head: &str) -> PathBuf {
        demo.join("probes").join(&self.id).join(format!("{head}.safetensors"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_is_the_only_one_and_a_checkout_is_found_from_its_target() {
        assert_eq!(places(Some(Path::new("a")), None), [Path::new("a/demo")]);
        let found = places(None, Some(Path::new("/c/target/release/ssmprobe")));
        assert!(found.contains(&PathBuf::from("/c/assets/demo")), "{found:?}");
        let installed = places(None, Some(Path::new("/usr/bin/ssmprobe")));
        assert!(installed.contains(&PathBuf::from("/usr/share/ssmprobe/demo")), "{installed:?}");
    }

    #[test]
    fn what_is_shown_first_are_heads() {
        assert!(SHOWN_FIRST.iter().all(|id| crate::model::probe::head::find(id).is_some()));
    }
}
