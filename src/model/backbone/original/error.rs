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
    #[error("what {} says of itself makes no backbone", path.display())]
    Config { path: PathBuf, source: ConfigError },
    #[error("{}: these are not weights of {project}: no tensor is called patch_embed.proj.weight, with or without something before it{names}", path.display())]
    NoEncoder { path: PathBuf, project: &'static str, names: String },
    #[error("{}: several encoders, below {found}: say by --prefix which one is meant", path.display())]
    Encoders { path: PathBuf, found: String },
    #[error("{}: these are not weights of {project}{keys}; --as names another project", path.display())]
    Keys { path: PathBuf, project: &'static str, keys: KeyErrors },
    #[error("{}: tensor {name:?} is {found:?}, expected {expected}", path.display())]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: String },
    #[error("{}: how many attention heads {project} has at width {width} is not in its weights: give --heads N, a divisor of {width}", path.display())]
    Heads { path: PathBuf, project: &'static str, width: usize },
    #[error("{}: {what}: give --image-size, the edge in pixels of the images it was trained on, or HEIGHTxWIDTH", path.display())]
    Image { path: PathBuf, what: String },
    #[error("{}: what {project} normalises pixels by differs from model to model and is not in its weights: give --normalize imagenet, half or clip", path.display())]
    Scale { path: PathBuf, project: &'static str },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
