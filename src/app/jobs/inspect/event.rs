//! The events sent to the caller while images are explained: plain data that can also cross a pipe.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::jobs::result_file::ResultFile;

/// Progress and results of explaining images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InspectEvent {
    /// All checks have passed; this many images are read from here on.
    Begun(usize),
    /// A file of one image and probe.
    File(ResultFile),
    /// One image through one probe is done.
    Explained(Explained),
    /// Something was left out.
    Failed(Failure),
    /// This many more images are finished, whether explained or failed.
    Passed(usize),
    /// A remark, sent before the work begins.
    Note(String),
}

/// The explanation of one image through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The content of its JSON file.
    pub document: Value,
    /// Its row of the summary.
    pub cells: Vec<String>,
    /// Its files below the folder of the results: NPZ and JSON.
    pub files: [PathBuf; 2],
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Index of the image among the sources.
    pub image: usize,
    /// The image file.
    pub path: String,
    /// The probe file, where only it failed on the image.
    pub probe: Option<String>,
    /// Why.
    pub error: String,
}
