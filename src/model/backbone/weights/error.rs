//! Errors of reading a backbone's weights, with advice on what to do.

use std::path::PathBuf;
use std::{fmt, io};

use thiserror::Error;

/// Why the weights of a folder cannot be used.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, Error)]
pub enum WeightsError {
    #[error("folder {} does not exist: give a folder in the Hugging Face layout (config.json, model.safetensors)", .0.display())]
    NoFolder(PathBuf),
    #[error("{} is not a folder: give the folder that holds config.json and model.safetensors", .0.display())]
    NotAFolder(PathBuf),
    #[error("no weights in {}: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin or pytorch_model.bin.index.json{found}", dir.display())]
    NoWeights { dir: PathBuf, found: String },
    #[error("{} cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file: put the weights file itself there", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is empty: download it again", .0.display())]
    Empty(PathBuf),
    #[error("{} is a Git LFS pointer, not the weights: run `git lfs pull` in its repository, or download the file from the Hub", .0.display())]
    LfsPointer(PathBuf),
    #[error("{} is a web page, not the weights: download the file itself (on the Hub: the download button, not the page)", .0.display())]
    WebPage(PathBuf),
    #[error("{} is damaged or not a {format} file: {what}; download it again", path.display())]
    Damaged { path: PathBuf, format: &'static str, what: String },
    #[error("{} cannot be read: {what}; save it as model.safetensors instead", path.display())]
    Unsupported { path: PathBuf, what: String },
    #[error("{} tries to load `{name}`, which is neither a tensor nor plain data: the file was not executed and nothing in it was used; get the weights as model.safetensors, or as a plain state dict from a source you trust", path.display())]
    Refused { path: PathBuf, name: String },
    #[error("{}: {what}", path.display())]
    Index { path: PathBuf, what: String },
    #[error("{}: these are not the weights of the model that config.json describes{keys}", path.display())]
    Keys { path: PathBuf, keys: KeyErrors },
    #[error("{} has no tensor {name:?}", path.display())]
    Missing { path: PathBuf, name: String },
    #[error("tensor {name:?} of {} holds {value} at flat index {index} (as float32): the backbone would output only NaN; use an earlier checkpoint, or download the weights again", path.display())]
    NotFinite { path: PathBuf, name: String, index: usize, value: f32 },
    #[error("tensor {name:?} of {} is stored as {dtype}: expected float32, float16, bfloat16, float64 or integers", path.display())]
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
