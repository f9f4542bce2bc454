//! Why tokens cannot be had.

use std::path::PathBuf;

use crate::app::format;
use crate::model::backbone::BackboneError;
use crate::model::backbone::config::ConfigError;
use crate::model::backbone::preprocess::PreprocessError;
use crate::model::backbone::token_spec::Layer;
use crate::model::backbone::weights::WeightsError;
use crate::model::data::token_cache::CacheError;

/// Why tokens cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// A layer that is requested twice.
    #[error(
        "layer {layer} is asked for twice; the last of this backbone's layers is {layers}, and also `last`"
    )]
    SameLayer {
        /// As it was named the second time.
        layer: Layer,
        /// How many there are.
        layers: usize,
    },
    /// The backbone's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The backbone's weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The backbone.
    #[error(transparent)]
    Backbone(#[from] BackboneError),
    /// What prepares the images.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// No folder was given for the tokens, and the user has no home folder.
    #[error("this user has no home folder to keep tokens in; name a folder for them (--cache)")]
    NoCache,
    /// The cache would be larger than allowed.
    #[error(
        "the tokens of {images} images take {} and the limit is {}; allow more (--cache-limit), keep them in \
         float16 (--precision float16), or make the dataset or the images (--size) smaller",
        format::bytes(*bytes), format::bytes(*limit)
    )]
    Limit {
        /// Number of images.
        images: usize,
        /// Bytes of their tokens.
        bytes: u64,
        /// Most bytes allowed.
        limit: u64,
    },
    /// The disk has too little free space.
    #[error(
        "{root}: the tokens still to be taken need {} and the disk has {} left; free some (`ssmprobe cache \
         clear`), name a folder on another disk (--cache), or keep them in float16 (--precision float16)",
        format::bytes(*bytes), format::bytes(*free), root = root.display()
    )]
    Disk {
        /// Folder of all caches.
        root: PathBuf,
        /// Bytes still to be written.
        bytes: u64,
        /// Bytes there are.
        free: u64,
    },
    /// Images keep their proportions.
    #[error(
        "{folder}: its preprocessor_config.json neither crops nor resizes to one size, so images have \
         different numbers of tokens; probes are trained on one grid: add a crop_size",
        folder = folder.display()
    )]
    Sizes {
        /// The backbone's folder.
        folder: PathBuf,
    },
    /// Nothing to train on.
    #[error("none of the {images} images can be read; the first: {why}")]
    Unreadable {
        /// Number of images.
        images: usize,
        /// What is wrong with the first.
        why: String,
    },
    /// An image that could be read before.
    #[error("{image} could be read before and cannot be now: {why}; put it back and resume (--resume)")]
    Vanished {
        /// Its name.
        image: String,
        /// Why.
        why: String,
    },
    /// A thread could not be started.
    #[error("the threads that decode images and write tokens cannot be started: {0}")]
    Thread(std::io::Error),
    /// The caller stopped it.
    #[error("stopped after {done} of {images} images; the same command goes on from there")]
    Stopped {
        /// Images whose tokens are kept.
        done: usize,
        /// All images.
        images: usize,
    },
}
