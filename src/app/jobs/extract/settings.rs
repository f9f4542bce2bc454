//! How tokens are extracted and cached: flags of every verb that extracts tokens, and a part of a training's settings.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::ExtractError;
use crate::app::paths;
use crate::app::value_parser::number;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::token_cache::Precision;
use crate::model::io::atomic_file;

/// How tokens are extracted and cached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct TokenSettings {
    /// Folder of all token caches [default: $SSMPROBE_CACHE, else `tokens` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Largest token cache allowed, in GB; a larger one is refused before any work is done.
    #[arg(long, value_name = "GB", default_value_t = paths::MAX_CACHE_GB, value_parser = number("above 0", |gb: f64| gb > 0.0))]
    pub cache_limit: f64,
    /// Precision of cached tokens [default: float16].
    #[arg(long)]
    pub precision: Precision,
    /// Also read every image and compare its SHA-256 with the one recorded with its tokens: an image that was rewritten
    /// with the same size and time is named, and its tokens are extracted again.
    #[arg(long)]
    pub verify: bool,
    /// Layer, image size, token order and arithmetic of the tokens.
    #[command(flatten)]
    #[serde(rename = "taking")] // as settings and workspaces have it
    pub token_spec: TokenSpec,
}

impl Default for TokenSettings {
    fn default() -> Self {
        let (precision, token_spec) = (Precision::default(), TokenSpec::default());
        Self { cache: None, cache_limit: paths::MAX_CACHE_GB, precision, verify: false, token_spec }
    }
}

/// The folder of all token caches: `chosen` if given, else the default one.
///
/// # Errors
/// [`ExtractError::NoCache`] if there is no default one, because the user has no home folder; if it, or what it would be
/// in, is a file.
pub fn cache_root(chosen: Option<&Path>) -> Result<PathBuf, ExtractError> {
    let folder = chosen.map(Path::to_owned).or_else(paths::tokens).ok_or(ExtractError::NoCache)?;
    match atomic_file::nearest_folder(&folder) {
        Ok(_) => Ok(folder),
        Err(source) => Err(ExtractError::CacheFolder { folder, source }),
    }
}
