//! The description in a probe file: the JSON under the metadata key `ssmprobe`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::probe::head::Config;

/// The version of the file format.
pub(super) const FORMAT: u64 = 1;

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

impl Meta {
    /// A description without names of classes and without a training.
    pub fn new(head: &str, config: Config, backbone: BackboneMeta) -> Self {
        let (head, classes, rest) = (head.to_owned(), Vec::new(), Map::new());
        Self { format: FORMAT, head, config, backbone, classes, training: None, rest }
    }
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
    /// What its tokens depend on besides the weights, as its `config.json` says; absent from files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Keys this version does not know, kept as found.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl BackboneMeta {
    /// What a backbone with these weights and this configuration, as far as they are known, has instead of its own; `None` if both are
    /// the same.
    pub fn replaced(&self, weights: &str, config: Option<&str>) -> Option<&'static str> {
        replaced([self.fingerprint.as_deref(), self.config.as_deref()], [Some(weights), config])
    }
}

/// [`BackboneMeta::replaced`] of the weights and the configuration alone, its `own` and those `found`.
pub fn replaced(own: [Option<&str>; 2], found: [Option<&str>; 2]) -> Option<&'static str> {
    let is_other = |at: usize| own[at].zip(found[at]).is_some_and(|(own, found)| own != found);
    if is_other(0) { Some("other weights") } else { is_other(1).then_some("another `config.json`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_backbone_is_told_by_its_weights_and_by_its_configuration() {
        let known = |text: &str| Some(text.to_owned());
        let own =
            BackboneMeta { fingerprint: known("a"), config: known("4 heads"), ..BackboneMeta::default() };
        assert_eq!(own.replaced("a", Some("4 heads")), None);
        assert_eq!(own.replaced("b", Some("8 heads")), Some("other weights"));
        assert_eq!(own.replaced("a", Some("8 heads")), Some("another `config.json`"));
        // A worker or a file of an earlier version does not say.
        assert_eq!(own.replaced("a", None), None);
        assert_eq!(BackboneMeta::default().replaced("a", Some("4 heads")), None);
    }
}
