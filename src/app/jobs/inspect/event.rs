//! What who asked is told while images are explained: plain data, which goes through a pipe as well.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::jobs::result_file::ResultFile;

/// Told while images are explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum InspectEvent {
    /// So many images are read from here on; nothing is refused any more.
    Begun(usize),
    /// A file of one image and probe.
    File(ResultFile),
    /// One image through one probe is done.
    Explained(Explained),
    /// Something was left out.
    Failed(Failure),
    /// So many more images are done with, one way or the other.
    Passed(usize),
    /// Something to know before it begins.
    Note(String),
}

/// What one image through one probe came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// What its JSON file says.
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

/// Who is told, from several threads; an error ends the job.
pub type InspectSink<'a> = dyn Fn(InspectEvent) -> anyhow::Result<()> + Sync + 'a;
