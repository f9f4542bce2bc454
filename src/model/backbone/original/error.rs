//! Errors of importing a checkpoint.

use std::io;
use std::path::PathBuf;

use crate::model::backbone::config::ConfigError;
use crate::model::backbone::weights::{KeyErrors, WeightsError};

/// Why a checkpoint cannot be imported as a backbone.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum OriginalError {
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("{path}: invalid backbone description")]
    Config { path: PathBuf, source: ConfigError },
    #[error(
        "{path}: these are not weights of {project}: no tensor is named patch_embed.proj.weight, with or without a prefix{names}"
    )]
    NoEncoder { path: PathBuf, project: &'static str, names: String },
    #[error("{path}: its encoders are under {found}: choose one with --prefix")]
    Encoders { path: PathBuf, found: String },
    #[error("{path}: --prefix {asked}: its only encoder is under {found}: leave out --prefix")]
    Prefix { path: PathBuf, asked: String, found: String },
    #[error("{path}: these are not weights of {project}{keys}; {}", advice(keys))]
    Keys { path: PathBuf, project: &'static str, keys: KeyErrors },
    #[error("{path}: tensor {name:?} is {found:?}, expected {expected}")]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: String },
    #[error(
        "{path}: the number of attention heads of {project} at width {width} is not in the weights: give --heads N, a divisor of {width}"
    )]
    Heads { path: PathBuf, project: &'static str, width: usize },
    #[error(
        "{path}: {what}: give --image-size, the edge in pixels of the images it was trained on, or HEIGHTxWIDTH"
    )]
    Image { path: PathBuf, what: String },
    #[error(
        "{path}: the pixel normalisation of {project} differs between models and is not in the weights: give --normalize imagenet (DeiT, BEiT v2), half (Google's ViT, BEiT) or clip (EVA-02), or put the model's config.json from the Hub beside the weights"
    )]
    Scale { path: PathBuf, project: &'static str },
    #[error(
        "{path}: its model_args give timm's model another {name} ({value}), which is not supported; if no token depends on it, delete it from that file"
    )]
    ModelArg { path: PathBuf, name: String, value: String },
    #[error(
        "{path}: its crop_mode is {found:?}, expected center or squash, as images are not padded here; to crop them instead, write center in that file"
    )]
    CropMode { path: PathBuf, found: String },
    #[error(
        "{path}: its interpolation is {found:?}, expected nearest, lanczos, bilinear, bicubic, box or hamming; write in that file the one that the model is evaluated with"
    )]
    Filter { path: PathBuf, found: String },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{path} cannot be written: {source}")]
    Write { path: PathBuf, source: io::Error },
}

/// What to do about these differences of names.
fn advice(keys: &KeyErrors) -> &'static str {
    let KeyErrors { missing, unused, misshapen } = keys;
    let of_norm = |name: &String| ["norm.weight", "norm.bias"].iter().any(|norm| name.ends_with(norm));
    // A project that publishes no such models does not know its name.
    let of_tuned = |name: &String| of_norm(name) && name.contains("fc_norm.");
    let lacks_norm = missing.iter().all(of_norm);
    match (missing.is_empty(), misshapen.is_empty()) {
        (true, true) => {
            "choose another project with --as, or, if these belong to a head of your own, save the state dict without them"
        }
        (false, true) if lacks_norm && unused.iter().all(of_tuned) => {
            "a ViT that was fine-tuned on the mean of its tokens (fc_norm) has none: use the checkpoint from before that"
        }
        _ => "choose another project with --as",
    }
}
