//! Errors of an extraction.

use std::path::PathBuf;

use crate::app::format;
use crate::model::backbone::BackboneError;
use crate::model::backbone::config::ConfigError;
use crate::model::backbone::preprocess::PreprocessError;
use crate::model::backbone::token_spec::Layer;
use crate::model::backbone::weights::WeightsError;
use crate::model::data::token_cache::{CacheError, Precision};

/// Errors of an extraction.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// A layer is requested twice.
    #[error("layer {layer} is requested twice; the last layer of this backbone is {layers}, and also `last`")]
    SameLayer {
        /// The layer, as its second request names it.
        layer: Layer,
        /// Number of the backbone's layers.
        layers: usize,
    },
    /// An error of the backbone's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An error of the backbone's weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// An error of the backbone.
    #[error(transparent)]
    Backbone(#[from] BackboneError),
    /// An error of the preprocessor.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    /// An error of the token cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// No folder was given for the tokens, and the user has no home folder.
    #[error(
        "this user has no home folder to cache tokens in; give a folder for them (--cache, or the variable SSMPROBE_CACHE)"
    )]
    NoCache,
    /// The folder for the tokens cannot be one.
    #[error("{folder}: tokens cannot be cached there: {source}; choose another folder (--cache)")]
    CacheFolder {
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The cache would exceed the limit on its size.
    #[error(
        "the tokens of {} take {} and the limit is {}; allow more (--cache-limit){}, or make the dataset or the \
         images (--size) smaller",
        format::counted(*images, "image", "images"), format::bytes(*bytes), format::bytes(*limit), halves(*precision)
    )]
    Limit {
        /// Number of images.
        images: usize,
        /// Bytes of their tokens.
        bytes: u64,
        /// Maximum number of bytes.
        limit: u64,
        /// How they are stored.
        precision: Precision,
    },
    /// The disk has too little free space.
    #[error(
        "{root}: the tokens still to be extracted need {} and the disk has {} left; free some space (`ssmprobe cache \
         clear`){}, or choose a folder on another disk (--cache)",
        format::bytes(*bytes), format::bytes(*free), halves(*precision)
    )]
    Disk {
        /// Folder of all caches.
        root: PathBuf,
        /// Bytes still to be written.
        bytes: u64,
        /// Free bytes.
        free: u64,
        /// How they are stored.
        precision: Precision,
    },
    /// Preprocessed images would differ in size, hence in their number of tokens.
    #[error(
        "{folder}: its preprocessor_config.json neither crops nor resizes to one size, so images have \
         different numbers of tokens; probes are trained on one grid: add a crop_size"
    )]
    Sizes {
        /// The backbone's folder.
        folder: PathBuf,
    },
    /// None of the images can be read.
    #[error("0 of {} can be read; the first: {why}", format::counted(*images, "image", "images"))]
    Unreadable {
        /// Number of images.
        images: usize,
        /// The error of the first.
        why: String,
    },
    /// An image can no longer be read.
    #[error("{image} could be read before but no longer can: {why}; restore it and resume (--resume)")]
    Vanished {
        /// Its name.
        image: String,
        /// The error.
        why: String,
    },
    /// A thread could not be started.
    #[error("the threads that decode images and write tokens cannot be started: {0}")]
    Thread(std::io::Error),
    /// The event callback stopped the extraction.
    #[error(
        "stopped after {done} of {}; run the same command again to continue",
        format::counted(*images, "image", "images")
    )]
    Stopped {
        /// Number of images whose tokens are cached.
        done: usize,
        /// Number of all images.
        images: usize,
    },
}

/// The advice that halves tokens of this precision.
fn halves(precision: Precision) -> &'static str {
    match precision {
        Precision::Float32 => ", keep them in float16 (--precision float16)",
        Precision::Float16 => "",
    }
}
