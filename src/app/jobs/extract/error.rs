//! Errors of an extraction.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::app::format;
use crate::model::backbone::BackboneError;
use crate::model::backbone::config::ConfigError;
use crate::model::backbone::preprocess::PreprocessError;
use crate::model::backbone::token_spec::Layer;
use crate::model::backbone::weights::WeightsError;
use crate::model::data::token_cache::{CacheError, Precision};
use crate::model::io::atomic_file::is_refused;
use crate::model::io::is_of_file;

/// Errors of an extraction.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum ExtractError {
    #[error("layer {layer} is requested twice; the last layer of this backbone is {layers}, and also `last`")]
    SameLayer { layer: Layer, layers: usize },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    Backbone(#[from] BackboneError),
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(
        "this user has no home folder to cache tokens in; give a folder for them (--cache, or the variable SSMPROBE_CACHE)"
    )]
    NoCache,
    #[error("{folder}: tokens cannot be cached there: {source}; choose another folder (--cache)")]
    CacheFolder { folder: PathBuf, source: std::io::Error },
    #[error(
        "the tokens of {} take {} and the limit is {}; allow more (--cache-limit){}, or make the dataset or the \
         images (--size) smaller",
        format::counted(*images, "image", "images"), format::bytes(*bytes), format::bytes(*limit), halves(*precision)
    )]
    Limit { images: usize, bytes: u64, limit: u64, precision: Precision },
    #[error(
        "{root}: the tokens still to be extracted need {} and the disk has {} left; free some space (`ssmprobe cache \
         clear`){}, or choose a folder on another disk (--cache)",
        format::bytes(*bytes), format::bytes(*free), halves(*precision)
    )]
    Disk { root: PathBuf, bytes: u64, free: u64, precision: Precision },
    #[error(
        "{folder}: its preprocessor_config.json neither crops nor resizes to one size, so images have \
         different numbers of tokens; probes are trained on one grid: add a crop_size"
    )]
    Sizes { folder: PathBuf },
    #[error(
        "{path}: its size and time cannot be read: {source}; tokens are found by those of all images: run the same command \
         again once its disk answers"
    )]
    State { path: PathBuf, source: std::io::Error },
    #[error("0 of {} can be read; the first: {why}", format::counted(*images, "image", "images"))]
    Unreadable { images: usize, why: String },
    #[error(
        "{image} could be read before but no longer can: {why}; what was saved before is intact; restore the image and run \
         the same command again (for a training, with --resume)"
    )]
    Vanished {
        image: String,
        why: String,
        /// Whether its disk is why, which may answer again.
        is_away: bool,
    },
    #[error(
        "{images} images in a row cannot be read: their disk seems not to respond; the last: {why}; what was saved before \
         is intact; run the same command again (for a training, with --resume) once it does"
    )]
    Outage { images: usize, why: String },
    #[error("the threads that decode images and write tokens cannot be started: {0}")]
    Thread(std::io::Error),
    #[error(
        "stopped after {done} of {}; run the same command again to continue",
        format::counted(*images, "image", "images")
    )]
    Stopped { done: usize, images: usize },
}

impl ExtractError {
    /// Whether a disk did not take tokens, which may do so a moment later. One that is full stays so: tokens are what fills it.
    pub(super) fn may_pass(&self) -> bool {
        let Self::Cache(CacheError::Io { source, .. }) = self else { return false };
        let is_full = matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        !is_full && !is_of_file(source.kind()) && !is_refused(source.kind())
    }

    /// The warning that an extraction waits for what [may pass](Self::may_pass).
    pub fn waited_for(&self) -> String {
        let cause = std::error::Error::source(self).map_or_else(String::new, |cause| format!(" ({cause})"));
        format!("the extraction waits for its disk, a minute at most: {self}{cause}")
    }
}

/// The advice that halves tokens of this precision.
fn halves(precision: Precision) -> &'static str {
    match precision {
        Precision::Float32 => ", keep them in float16 (--precision float16)",
        Precision::Float16 => "",
    }
}
