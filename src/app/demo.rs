//! The bundled demo: where it is installed, and its description `demo.json`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::app::state::command::Command;
use crate::model::data::scenes::folder::Set;
use crate::model::io::atomic_file;
use crate::model::pretrain::Plan;
use crate::model::train::TrainConfig;

/// The environment variable that overrides the folder of assets.
pub const ASSETS_VARIABLE: &str = "SSMPROBE_ASSETS";

/// The folder of the bundled demo: `demo` in the folder that [`ASSETS_VARIABLE`] names; else in `assets` beside the
/// executable, or above it as in a checkout, or in `share/ssmprobe` as installed; else in the sources it was built from.
/// An error if none of these holds the demo.
pub fn demo() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os(ASSETS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let program = std::env::current_exe().ok();
    // macOS names the link that the program was started by, Linux what it leads to.
    let linked =
        program.as_ref().filter(|program| program.is_symlink()).and_then(|link| link.canonicalize().ok());
    let places = places(named.as_deref(), linked.or(program).as_deref());
    if let Some(found) = places.iter().find(|place| place.join(DemoInfo::FILE).is_file()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    bail!(
        "the bundled demo was not found; looked for {} in {}. Set {ASSETS_VARIABLE} to the folder `assets`, or rebuild it: ssmprobe demo build --out assets/demo",
        DemoInfo::FILE,
        tried.join(", ")
    )
}

/// The folders that may hold the demo, the most likely first. If `named` is given, it is the only one.
fn places(named: Option<&Path>, program: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.join("demo")];
    }
    let above = program.into_iter().flat_map(|program| program.ancestors().skip(1).take(4));
    let beside = above.flat_map(|folder| ["assets/demo", "share/ssmprobe/demo"].map(|at| folder.join(at)));
    beside.chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo")]).collect()
}

/// The heads of the demo that are compared at first.
const SHOWN_FIRST: [&str; 4] = ["sinkhorn", "neuralsort", "raster", "gap"];

/// The commands that open the bundled demo: its first backbone with all probes, and its scenes as a dataset with classes
/// and masks. Empty if there is no demo: the empty window says what to do.
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

/// The content of `demo.json`: how the demo was made, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoInfo {
    /// Version of the program that made it.
    pub made_by: String,
    /// Version of the scene generator's output.
    pub scenes_version: u32,
    /// The seed of everything.
    pub seed: u64,
    /// The scenes of training and validation; the first of the validation ones are in the folder `scenes`.
    pub scenes: Set,
    /// The number of validation scenes on which the AUC was computed.
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

/// A head of the demo, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoHead {
    /// Head id; its probe is `probes/<backbone>/<id>.safetensors`.
    pub id: String,
    /// Number of trained parameters.
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
    /// The name of its file in the demo's folder.
    pub const FILE: &str = "demo.json";
    const MAX_BYTES: u64 = 1 << 20;

    /// Reads it from the demo's folder; an error if the file cannot be read, or describes no demo.
    pub fn open(demo: &Path) -> anyhow::Result<Self> {
        let path = demo.join(Self::FILE);
        let text = atomic_file::read(&path, Self::MAX_BYTES)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not the description of a demo; rebuild the demo", path.display()))
    }

    /// The scene images in the demo's folder, in the order of the set, which alternates between classes.
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

    /// The folder of its probes.
    pub fn probes(&self, demo: &Path) -> PathBuf {
        demo.join("probes").join(&self.id)
    }

    /// The file of a head's probe.
    pub fn probe(&self, demo: &Path, head: &str) -> PathBuf {
        self.probes(demo).join(format!("{head}.safetensors"))
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
