//! The protocol between the front ends and the worker: who reads these enums knows the program.
//!
//! A [`Request`] says what is wanted, an [`Event`] what came of it. Every request with a [`JobId`] ends in
//! exactly one `Finished`, `Failed` or `Cancelled`. Only plain host data crosses: no tensor, no lock.

pub mod extract;
pub mod history;
pub mod info;
mod options;
mod progress;
pub mod stability;
pub mod survey;
pub mod train;
pub mod training;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::options::BackboneOptions;
pub use self::progress::{Cancel, Progress, Unit};
use super::user_error::UserError;
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::model::data::{ImageSource, Split};
use crate::model::explain::intervention::Intervention;
use crate::model::trace::{Picture, Trace};

/// Names one job for as long as the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Names a backbone of the library; kept in workspace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackboneId(pub u64);

/// Names a probe of the library; kept in workspace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProbeId(pub u64);

/// Names an image of the library; kept in workspace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImageId(pub u64);

/// Names a dataset of the library; kept in workspace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatasetId(pub u64);

/// Names a column of the comparison; kept in workspace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ColumnId(pub u64);

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Load a backbone beside those that are open; one of the same entry is dropped first.
    OpenBackbone {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: BackboneId,
        /// A folder or an id of the Hub.
        source: String,
        /// Name of the device, as [`crate::model::device::open`] takes it.
        device: String,
        /// How it reads images.
        options: BackboneOptions,
    },
    /// Free its memory.
    CloseBackbone(BackboneId),
    /// Load a probe file.
    OpenProbe {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: ProbeId,
        /// The file.
        path: PathBuf,
    },
    /// Forget it.
    CloseProbe(ProbeId),
    /// List the probe files of a run's folder.
    OpenRun {
        /// The job.
        job: JobId,
        /// The folder.
        folder: PathBuf,
    },
    /// List image files; folders are searched.
    OpenImages {
        /// The job.
        job: JobId,
        /// Files and folders.
        paths: Vec<PathBuf>,
    },
    /// Read the lists of a dataset.
    OpenDataset {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: DatasetId,
        /// Its folder, or a table.
        path: PathBuf,
        /// Which split; the held-out one where absent.
        split: Option<Split>,
    },
    /// Ask probes about all images of a dataset.
    Survey(survey::EvalRequest),
    /// Measure how stable the order of one image is.
    Stability(stability::StabilityRequest),
    /// Find out what dropped files are.
    Recognise {
        /// The job.
        job: JobId,
        /// Files and folders.
        paths: Vec<PathBuf>,
    },
    /// Explain images through probes. A newer look ends an older one.
    Explain(Explain),
    /// Small pictures of these images, in this order. A newer list replaces an older one.
    Thumbnails {
        /// The images.
        wanted: Vec<(ImageId, ImageSource)>,
        /// Longest side, in pixels.
        side: u32,
    },
    /// Plan, begin or go on with a training. It is cancelled as any job: then it saves and stops.
    Training {
        /// The job.
        job: JobId,
        /// What is wanted.
        ask: training::TrainRequest,
    },
    /// Let a training rest between two steps, or go on.
    Pause(JobId, bool),
    /// Tell of these runs' folders now, and again whenever they change. A newer list replaces an
    /// older one.
    Follow(Vec<PathBuf>),
    /// End a job early.
    Cancel(JobId),
    /// End the worker once its running job has stopped.
    Shutdown,
}

/// Images to explain through probes.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// The job.
    pub job: JobId,
    /// What is asked, in the order of the answers.
    pub asked: Vec<ExplainItem>,
    /// The class of the evidence.
    pub class: ClassChoice,
    /// Everything else.
    pub settings: ExplainSettings,
}

/// One image through one probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainItem {
    /// The column that asks.
    pub column: ColumnId,
    /// The image.
    pub image: ImageSource,
    /// The backbone whose tokens are read.
    pub backbone: BackboneId,
    /// The probe.
    pub probe: ProbeId,
    /// What is changed in its reading.
    pub change: Intervention,
    /// What seeds its random orders: the image's index in its dataset; of an image of none, its place
    /// in the library.
    pub draw: u64,
}

/// The class evidence is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassChoice {
    /// The one each probe predicts.
    #[default]
    Predicted,
    /// The one of this name or index in every probe.
    Named(String),
}

/// What an explanation depends on beside image, probe and class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainSettings {
    /// What the proxy decays by, instead of the spectral radius; 0 to 1.
    pub rho: Option<f64>,
    /// Random scores behind each null band.
    pub null_draws: usize,
    /// Seed of null bands, of untrained scorers, and of what is changed to measure stability.
    pub seed: u64,
}

impl Default for ExplainSettings {
    fn default() -> Self {
        Self { rho: None, null_draws: crate::model::explain::null_model::DRAWS, seed: 0 }
    }
}

/// What came of a request.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job has begun.
    Started(JobId),
    /// A job is this far.
    Progress(JobId, Progress),
    /// A backbone can read images.
    BackboneOpened {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: BackboneId,
        /// What it is.
        facts: BackboneInfo,
    },
    /// A probe can read tokens.
    ProbeOpened {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: ProbeId,
        /// What it is.
        facts: ProbeInfo,
    },
    /// Probe files of a run, sorted.
    ProbesListed {
        /// The job.
        job: JobId,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Some more images; sorted within each folder given.
    ImagesListed {
        /// The job.
        job: JobId,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// A dataset can be asked about.
    DatasetOpened {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: DatasetId,
        /// Its images.
        part: Arc<survey::EvalSplit>,
    },
    /// What one probe made of the images of a dataset.
    Surveyed {
        /// The job.
        job: JobId,
        /// It.
        answer: survey::EvalAnswer,
    },
    /// How stable the order of one image is.
    Steadied {
        /// The job.
        job: JobId,
        /// It.
        answer: stability::StabilityAnswer,
    },
    /// What dropped files are.
    Recognised {
        /// The job.
        job: JobId,
        /// Each with its kind.
        found: Vec<(PathBuf, PathKind)>,
    },
    /// What probes made of images, in the order asked.
    Looked {
        /// The job.
        job: JobId,
        /// One answer for each that was asked.
        seen: Vec<ExplainResult>,
    },
    /// Something about a training.
    Training {
        /// The job.
        job: JobId,
        /// What.
        news: training::TrainEvent,
    },
    /// A run's folder as it is now.
    RunRead {
        /// The job that opens it; none where it is followed.
        job: Option<JobId>,
        /// The folder.
        folder: PathBuf,
        /// What it holds, or why it cannot be read.
        reading: Result<Arc<training::Reading>, UserError>,
    },
    /// A small picture.
    ThumbnailReady {
        /// Of this image.
        image: ImageId,
        /// The picture.
        picture: Arc<Picture>,
    },
    /// There is no small picture.
    ThumbnailFailed {
        /// Of this image.
        image: ImageId,
        /// Why.
        fault: UserError,
    },
    /// Something to know; the job goes on.
    Warning {
        /// The job.
        job: JobId,
        /// What.
        text: String,
    },
    /// A job ended without its result.
    Failed(JobId, UserError),
    /// A job was ended early.
    Cancelled(JobId),
    /// A job is done.
    Finished(JobId),
}

/// The answer to one [`ExplainItem`].
#[derive(Clone, Debug)]
pub struct ExplainResult {
    /// The column that asked.
    pub column: ColumnId,
    /// What was seen, or why nothing was.
    pub result: Result<Arc<Trace>, UserError>,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A folder with a `config.json`.
    Backbone,
    /// A probe file.
    Probe,
    /// A folder with probe files.
    Run,
    /// A labelled dataset.
    Dataset,
    /// An image, or a folder to search for images.
    Images,
    /// A workspace file.
    Workspace,
    /// Nothing is there.
    Missing,
    /// None of these.
    Unknown,
}

impl Request {
    /// The job it starts, if it starts one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::OpenBackbone { job, .. }
            | Self::OpenProbe { job, .. }
            | Self::OpenRun { job, .. }
            | Self::OpenImages { job, .. }
            | Self::OpenDataset { job, .. }
            | Self::Stability(stability::StabilityRequest { job, .. })
            | Self::Survey(survey::EvalRequest { job, .. })
            | Self::Recognise { job, .. }
            | Self::Training { job, .. }
            | Self::Explain(Explain { job, .. }) => Some(*job),
            Self::CloseBackbone(_)
            | Self::CloseProbe(_)
            | Self::Thumbnails { .. }
            | Self::Pause(..)
            | Self::Follow(_)
            | Self::Cancel(_)
            | Self::Shutdown => None,
        }
    }
}
