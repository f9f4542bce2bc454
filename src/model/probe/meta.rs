//! The description in a probe file: the JSON under the metadata key `ssmprobe`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::probe::head::Config;

/// The version of the file format.
pub const FORMAT: u64 = 1;

/// Which head, of which backbone, for which classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the file format, [`FORMAT`].
    pub format: u64,
    /// Head id.
    pub head: String,
    /// The head's settings.
    #[serde(default)]
    pub config: Config,
    /// The backbone whose tokens it reads.
    pub backbone: BackboneMeta,
    /// Names of the classes; empty where only their number is known.
    #[serde(default)]
    pub classes: Vec<String>,
    /// How it was trained, as its trainer wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Value>,
    /// Keys this version does not know, kept as found.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The backbone a probe was trained on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackboneMeta {
    /// Its name, as the Hub or its folder calls it.
    #[serde(default)]
    pub id: String,
    /// Its family, as `model_type` in its `config.json`.
    #[serde(default)]
    pub model_type: String,
    /// Hidden size, d.
    pub hidden_size: usize,
    /// SHA-256 of its weights file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Keys this version does not know, kept as found.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
