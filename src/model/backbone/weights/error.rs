//! What can be wrong with the weights of a backbone, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the weights of a folder cannot be used.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// The folder is not there.
    #[error("there is no folder {}: give a folder as the Hugging Face Hub lays it out (config.json, model.safetensors)", .0.display())]
    NoFolder(PathBuf),
    /// A file was given where a folder is expected.
    #[error("{} is not a folder: give the folder that holds config.json and model.safetensors", .0.display())]
    NotAFolder(PathBuf),
    /// No file of a known name in the folder.
    #[error("no weights in {}: expected model.safetensors, model.safetensors.index.json, pytorch_model.bin or pytorch_model.bin.index.json{found}", dir.display())]
    NoWeights {
        /// The folder.
        dir: PathBuf,
        /// "; it holds ...", or empty.
        found: String,
    },
    /// The system refused to read it.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder, a socket or a device has the name of a weights file.
    #[error("{} is not a regular file: put the weights file itself there", .0.display())]
    NotAFile(PathBuf),
    /// Nothing in the file.
    #[error("{} is empty: download it again", .0.display())]
    Empty(PathBuf),
    /// The text that git keeps in place of a large file.
    #[error("{} is a Git LFS pointer, not the weights: run `git lfs pull` in its repository, or download the file from the Hub", .0.display())]
    LfsPointer(PathBuf),
    /// A page, often of an error, saved under the name of the file.
    #[error("{} is a web page, not the weights: download the file itself (on the Hub: the download button, not the page)", .0.display())]
    WebPage(PathBuf),
    /// Truncated, altered, or another format.
    #[error("{} is damaged or not a {format} file: {what}; download it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What it was read as.
        format: &'static str,
        /// What was found.
        what: String,
    },
    /// A sound file of a form that this reader does not take.
    #[error("{} cannot be read: {what}; save it as model.safetensors instead", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The pickle asks for something else than tensors and plain data.
    #[error("{} asks to load `{name}`, which is neither a tensor nor plain data: the file was not executed and nothing of it is used; get the weights as model.safetensors, or from a source that you trust, saved as a plain state dict", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// `module.name`, as the file spells it.
        name: String,
    },
    /// The index of a sharded file is wrong.
    #[error("{}: {what}", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What was found and what to do.
        what: String,
    },
    /// The file's tensors are not those of the model.
    #[error("{}: {keys}", path.display())]
    Keys {
        /// The weights file or index.
        path: PathBuf,
        /// All that differs.
        keys: KeyErrors,
    },
    /// A single tensor that is not there.
    #[error("{} has no tensor {name:?}", path.display())]
    Missing {
        /// The weights file or index.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// NaN or infinity among the weights.
    #[error("tensor {name:?} of {} holds {value} at flat index {index} (as float32): such a backbone yields nothing but NaN; get the weights from before they diverged, or download them again", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Row-major index of the first such value.
        index: usize,
        /// The value.
        value: f32,
    },
    /// Numbers that have no float32 form here.
    #[error("tensor {name:?} of {} is stored as {dtype}: expected float32, float16, bfloat16, float64 or integers", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        dtype: String,
    },
}

/// Everything in which a file differs from what the model needs; shown 20 a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyErrors {
    /// Needed but not in the file.
    pub missing: Vec<String>,
    /// In the file but not needed, nor known to be superfluous.
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
        write!(f, "these are not the weights of the model that config.json describes")?;
        let kinds = [("missing", &self.missing), ("unused", &self.unused), ("misshapen", &self.misshapen)];
        for (kind, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "; {} {kind}: ", names.len())?;
            for (i, name) in names.iter().take(Self::MAX_LISTED).enumerate() {
                write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
            }
            if names.len() > Self::MAX_LISTED {
                write!(f, " and {} more", names.len() - Self::MAX_LISTED)?;
            }
        }
        Ok(())
    }
}
