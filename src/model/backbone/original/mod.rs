//! Checkpoints as their projects publish them (MAE, timm, DINO, DINOv2, MoCo v3, BEiT, EVA-02), and the folder that each becomes.
//!
//! What the shapes say exactly is taken from them: width, layers, patch, registers, layer scale, the grid of the
//! positions, heads where a table of relative biases has a column for each. What they do not say is what the project
//! publishes, or asked for. Every tensor is either used, left out by a name of the [project]'s, or an error: so
//! is one that is missing or has another shape. Values are not changed: float32 stays what it is, to the bit.
//!
//! Positions are resampled for other sizes as transformers does it (EVA-02: timm), to the grid's size; the code of DINO and of
//! DINOv2 without registers adds a tenth of a patch to it.

mod error;
mod layout;
pub mod project;
mod rotary;
mod shapes;
mod write;

use std::path::Path;

use serde_json::Value;

pub use self::error::OriginalError;
use self::layout::Target;
use self::project::{Project, Scale};
use self::shapes::Encoder;
use super::config::Config;
use super::weights::Weights;

/// Keys of a checkpoint that hold a model, the likeliest first; nothing for the file itself.
const UNDER: &[&str] = &["", "teacher", "state_dict", "model", "module", "model_ema", "state_dict_ema"];

/// What is asked for beside a checkpoint, where it does not say it itself.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Attention heads.
    pub heads: Option<usize>,
    /// Height and width of the images it was trained on.
    pub image: Option<[usize; 2]>,
    /// What pixels are normalised by.
    pub scale: Option<Scale>,
    /// The key of the checkpoint that holds the model.
    pub key: Option<String>,
    /// What stands before the names of the encoder.
    pub prefix: Option<String>,
}

/// A checkpoint, read as far as its names and shapes, and the folder it becomes.
#[derive(Debug)]
pub struct Original {
    weights: Weights,
    prefix: String,
    targets: Vec<Target>,
    config: Value,
    preprocessor: Value,
    /// What it is and where that is known from, a line each.
    pub told: Vec<String>,
}

impl Original {
    /// Reads the names and shapes of a checkpoint of `project`: a file, or a folder with weights as the Hub names them.
    ///
    /// # Errors
    /// If it is none, or of another project, or something has to be asked for.
    pub fn open(
        path: &Path,
        project: &'static Project,
        asked: &ImportOptions,
    ) -> Result<Self, OriginalError> {
        let weights = match (path.is_dir(), &asked.key) {
            (true, _) => Weights::open(path)?,
            (false, Some(key)) => Weights::open_file(path, &[key])?,
            (false, None) => Weights::open_file(path, UNDER)?,
        };
        let prefix = prefix(path, &weights, project, asked)?;
        let encoder = Encoder { path, weights: &weights, project, prefix: &prefix };
        let (config, written, mut told) = encoder.describe(asked)?;
        let Value::Object(fields) = &config else { unreachable!("it is made as an object") };
        let parsed = Config::from_object(path, fields)
            .map_err(|source| OriginalError::Config { path: path.to_owned(), source })?;
        let targets = layout::targets(&parsed, &written);
        told.extend(encoder.check(&targets)?);
        let preprocessor = encoder.preprocessor(asked, &parsed)?;
        Ok(Self { weights, prefix, targets, config, preprocessor, told })
    }
}

/// What stands before the names of the encoder.
fn prefix(
    path: &Path,
    weights: &Weights,
    project: &'static Project,
    asked: &ImportOptions,
) -> Result<String, OriginalError> {
    const PATCHES: &str = "patch_embed.proj.weight";
    let found: Vec<&str> = weights.names().filter_map(|(name, _)| name.strip_suffix(PATCHES)).collect();
    let found: Vec<&str> =
        found.into_iter().filter(|before| before.is_empty() || before.ends_with('.')).collect();
    let listed = |names: Vec<&str>| names.into_iter().take(10).collect::<Vec<_>>().join(", ");
    let chosen = match &asked.prefix {
        Some(asked) => found.iter().find(|prefix| *prefix == asked),
        None => project.encoders.iter().find_map(|known| found.iter().find(|prefix| *prefix == known)),
    };
    match (chosen, found.as_slice()) {
        (Some(chosen), _) => Ok((*chosen).to_owned()),
        (None, [one]) if asked.prefix.is_none() => Ok((*one).to_owned()),
        (None, []) => {
            let hub = weights.names().any(|(name, _)| name.contains("patch_embeddings."));
            let hub = if hub { ": these are the Hub's names, which need no import" } else { "" };
            let names = listed(weights.names().map(|(name, _)| name).collect());
            let names = format!("; it holds {names}{hub}");
            Err(OriginalError::NoEncoder { path: path.to_owned(), project: project.name, names })
        }
        (None, _) => {
            let found = found.iter().map(|prefix| if prefix.is_empty() { "\"\"" } else { prefix }).collect();
            Err(OriginalError::Encoders { path: path.to_owned(), found: listed(found) })
        }
    }
}
