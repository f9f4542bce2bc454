//! Checkpoints as their [projects](project::PROJECTS) publish them, and their import as a folder of the Hub's layout.
//!
//! The configuration is derived from the shapes as far as they determine it: width, layers, patch, registers, layer scale, the
//! grid of positions, heads if a table of relative biases has a column for each. The rest is the project's published value, what
//! the `config.json` of a timm model says, or an option of the import. Every tensor is either used, left out by a name of the
//! [project]'s list, or an error, as is a tensor that is missing or has another shape. Values are not changed: float32 is kept to
//! the bit.
//!
//! Positions are resampled for other sizes as in transformers (EVA-02: timm), to the grid's size; the code of DINO and of
//! DINOv2 without registers adds a tenth of a patch to it.

mod error;
mod layout;
mod left_out;
mod preprocessing;
pub mod project;
mod rotary;
mod shapes;
mod timm;
mod write;

use std::path::Path;

use serde_json::Value;

pub use self::error::OriginalError;
use self::layout::Target;
use self::project::{Project, Scale};
use self::shapes::Encoder;
use self::timm::TimmConfig;
use super::config::Config;
use super::weights::{Weights, WeightsError};

/// Keys of a checkpoint that hold a model, the most likely first; empty for the file itself.
const STATE_DICT_KEYS: &[&str] =
    &["", "teacher", "state_dict", "model", "module", "model_ema", "state_dict_ema"];

/// Options for what a checkpoint does not determine.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Attention heads.
    pub heads: Option<usize>,
    /// Height and width of the images it was trained on.
    pub image: Option<[usize; 2]>,
    /// The normalisation of pixels.
    pub scale: Option<Scale>,
    /// The key of the checkpoint that holds the model.
    pub key: Option<String>,
    /// Prefix of the encoder's names.
    pub prefix: Option<String>,
}

/// A checkpoint whose names and shapes are read, ready to be written as a folder of the Hub's layout.
#[derive(Debug)]
pub struct Original {
    weights: Weights,
    prefix: String,
    targets: Vec<Target>,
    config: Value,
    preprocessor: Value,
    /// Lines for the user: what the checkpoint is, how that is known, and what is left out.
    pub notes: Vec<String>,
}

impl Original {
    /// Reads the names and shapes of a checkpoint of `project`: a file, or a folder with weights as the Hub names them.
    ///
    /// # Errors
    /// If it is no checkpoint, or of another project, or an option is needed.
    pub fn open(
        path: &Path,
        project: &'static Project,
        options: &ImportOptions,
    ) -> Result<Self, OriginalError> {
        let weights = match (path.is_dir(), &options.key) {
            (true, Some(_)) => {
                let what =
                    "it is a folder: name the file in it that has this --key, or leave out --key".into();
                return Err(WeightsError::Index { path: path.into(), what }.into());
            }
            (false, Some(key)) => Weights::open_file(path, &[key])?,
            (true, None) => Weights::open(path)?,
            (false, None) => Weights::open_file(path, STATE_DICT_KEYS)?,
        };
        let (prefix, others) = prefix(path, &weights, project, options)?;
        let published = project.scale.is_none().then(|| TimmConfig::beside(path)).flatten();
        let published = published.as_ref();
        let encoder =
            Encoder { path, weights: &weights, project, prefix: &prefix, others: &others, published };
        let (mut config, written, mut notes) = encoder.describe(options)?;
        let Value::Object(fields) = &config else { unreachable!("it is made as an object") };
        let parsed = Config::from_object(path, fields)
            .map_err(|source| OriginalError::Config { path: path.to_owned(), source })?;
        let targets = layout::targets(&parsed, &written);
        notes.extend(encoder.check(&targets)?);
        if options.key.is_none() && !weights.other_keys.is_empty() {
            notes.push(format!("not read: {}; --key chooses such a model", weights.other_keys.join(", ")));
        }
        let published = published.filter(|own| own.is_of(parsed.image));
        if let Some(activation) = published.map_or(Ok(None), |own| own.activation(parsed.gated))? {
            config["hidden_act"] = activation.into();
        }
        let images = published.map_or(Ok(None), TimmConfig::preprocessing)?;
        let preprocessor = encoder.preprocessor(options, &parsed, images)?;
        notes.extend(images.map(|_| "images: as the config.json beside the weights says".to_owned()));
        Ok(Self { weights, prefix, targets, config, preprocessor, notes })
    }
}

/// The prefix of the encoder's names in the file; if the user chose it, also those of the other encoders.
fn prefix(
    path: &Path,
    weights: &Weights,
    project: &'static Project,
    options: &ImportOptions,
) -> Result<(String, Vec<String>), OriginalError> {
    const PATCHES: &str = "patch_embed.proj.weight";
    let before = weights.names().filter_map(|(name, _)| name.strip_suffix(PATCHES));
    let found: Vec<&str> = before.filter(|before| before.is_empty() || before.ends_with('.')).collect();
    let listed = |names: Vec<&str>| names.into_iter().take(10).collect::<Vec<_>>().join(", ");
    let chosen = match &options.prefix {
        Some(asked) => found.iter().find(|prefix| *prefix == asked),
        None => project.encoders.iter().find_map(|known| found.iter().find(|prefix| *prefix == known)),
    };
    match (chosen, found.as_slice()) {
        (Some(chosen), _) => {
            let others = found.iter().filter(|other| options.prefix.is_some() && *other != chosen);
            Ok(((*chosen).to_owned(), others.map(|&other| other.to_owned()).collect()))
        }
        (None, [one]) => match &options.prefix {
            None => Ok(((*one).to_owned(), Vec::new())),
            Some(asked) => {
                let found = if one.is_empty() { "no prefix" } else { *one }.to_owned();
                Err(OriginalError::Prefix { path: path.to_owned(), asked: asked.clone(), found })
            }
        },
        (None, []) => {
            let hub = weights.names().any(|(name, _)| name.contains("patch_embeddings."));
            let hub = if hub { ": these are Hugging Face names, which need no import" } else { "" };
            let names = listed(weights.names().map(|(name, _)| name).collect());
            let names = if names.is_empty() { "no tensor" } else { &names };
            let names = format!("; it contains {names}{hub}");
            Err(OriginalError::NoEncoder { path: path.to_owned(), project: project.name, names })
        }
        (None, _) => {
            let found = found.iter().map(|prefix| if prefix.is_empty() { "\"\"" } else { prefix }).collect();
            Err(OriginalError::Encoders { path: path.to_owned(), found: listed(found) })
        }
    }
}
