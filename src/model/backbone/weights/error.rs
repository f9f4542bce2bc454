//! Errors of reading a backbone's weights, with advice on what to do.

use std::path::PathBuf;
use std::{fmt, io};

use thiserror::Error;

/// Why the weights of a folder cannot be used.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, Error)]
pub enum WeightsError {
    #[error(
        "folder {0} does not exist: give a folder in the Hugging Face layout (config.json, model.safetensors)"
    )]
    NoFolder(PathBuf),
    #[error("{0} is not a folder: give the folder that holds config.json and model.safetensors")]
    NotAFolder(PathBuf),
    #[error(
        "no weights in {dir}: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin or pytorch_model.bin.index.json{found}"
    )]
    NoWeights { dir: PathBuf, found: String },
    #[error("{path} cannot be read: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is not a regular file: put the weights file itself there")]
    NotAFile(PathBuf),
    #[error("{0} is empty: download it again")]
    Empty(PathBuf),
    #[error(
        "{0} is a Git LFS pointer, not the weights: run `git lfs pull` in its repository, or download the file from the Hub"
    )]
    LfsPointer(PathBuf),
    #[error(
        "{0} is a web page, not the weights: download the file itself (on the Hub: the download button, not the page)"
    )]
    WebPage(PathBuf),
    #[error("{path} is damaged or not a {format} file: {what}; download it again")]
    Damaged { path: PathBuf, format: &'static str, what: String },
    #[error("{path} cannot be read: {what}; save it as model.safetensors instead")]
    Unsupported { path: PathBuf, what: String },
    #[error("{path} cannot be read: {what}; `ssmprobe import --key {key}` reads the tensors there")]
    OtherKey { path: PathBuf, what: String, key: String },
    #[error(
        "{path} tries to load `{name}`, which is neither a tensor nor plain data: the file was not executed and nothing in it was used; get the weights as model.safetensors, or as a plain state dict from a source you trust"
    )]
    Refused { path: PathBuf, name: String },
    #[error("{path}: {what}")]
    Index { path: PathBuf, what: String },
    #[error("{path}: these are not the weights of the model that config.json describes{keys}{}", keys.hint())]
    Keys { path: PathBuf, keys: KeyErrors },
    #[error("{path} has no tensor {name:?}")]
    Missing { path: PathBuf, name: String },
    #[error(
        "tensor {name:?} of {path} holds {value} at flat index {index} (as float32): the backbone would output only NaN; use an earlier checkpoint, or download the weights again"
    )]
    NotFinite { path: PathBuf, name: String, index: usize, value: f32 },
    #[error(
        "tensor {name:?} of {path} is stored as {dtype}: expected float32, float16, bfloat16, float64 or integers"
    )]
    Dtype { path: PathBuf, name: String, dtype: String },
}

/// All differences between the tensors of a file and those the model needs; at most 20 of each kind are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyErrors {
    /// Needed but not in the file.
    pub missing: Vec<String>,
    /// In the file but neither needed nor ignored.
    pub unused: Vec<String>,
    /// In the file with another shape: `name [found], expected [expected]`.
    pub misshapen: Vec<String>,
}

impl KeyErrors {
    /// Most names shown of each kind.
    const MAX_LISTED: usize = 20;

    /// What to do with weights under the names of timm and of the projects that share them.
    fn hint(&self) -> &'static str {
        match self.unused.iter().any(|name| name.ends_with("patch_embed.proj.weight")) {
            true => "; these are timm's names: convert the weights (`ssmprobe import`)",
            false => "",
        }
    }

    /// Whether the file has exactly what the model needs.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unused.is_empty() && self.misshapen.is_empty()
    }
}

impl fmt::Display for KeyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("missing", &self.missing), ("unused", &self.unused), ("misshapen", &self.misshapen)];
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            let listed = &names[..names.len().min(Self::MAX_LISTED)];
            write!(f, "; {} {kind}: {}", names.len(), listed.join(", "))?;
            if names.len() > Self::MAX_LISTED {
                write!(f, " and {} more", names.len() - Self::MAX_LISTED)?;
            }
        }
        Ok(())
    }
}
