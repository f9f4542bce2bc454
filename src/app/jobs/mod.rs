//! The protocol between the front ends and the worker: who reads these enums knows the program.
//!
//! A [`Request`] says what is wanted, an [`Event`] what came of it. Every request that starts a job ends in
//! exactly one `Finished`, `Failed` or `Cancelled`. Only plain host data crosses, which serde can write
//! down: no tensor, no lock, no open file. Paths are those of the machine that computes.

pub mod detached;
pub mod engine;
pub mod eval;
pub mod evaluate;
pub mod explain;
pub mod extract;
pub mod fetch;
pub mod flag_overrides;
pub mod folder;
pub mod history;
mod ids;
pub mod info;
pub mod inspect;
pub mod open;
mod options;
pub mod part;
pub mod pretrain;
mod probe_tokens;
mod progress;
pub mod received;
pub mod regions;
pub mod removal;
mod reporter;
pub mod result_file;
pub mod run_metrics;
pub mod similarity;
pub mod stability;
pub mod tasks;
mod token_memory;
pub mod tokens;
pub mod train;
pub mod training;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::engine::Engine;
pub use self::explain::{ClassChoice, Explain, ExplainItem, ExplainResult, ExplainSettings};
pub use self::fetch::Fetch;
pub use self::ids::{BackboneId, ColumnId, DatasetId, ImageId, JobId, ProbeId};
pub use self::open::{Files, PathKind};
pub use self::options::BackboneOptions;
pub use self::progress::{Cancel, Progress, Unit, Working};
pub use self::reporter::{JobError, Reporter, tell_extract};
use super::user_error::UserError;
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::model::data::ImageSource;
use crate::model::explain::evaluation::similarity::ImageSpace;
use crate::model::trace::Picture;

/// What is wanted. Those with a [`JobId`] are jobs, grouped by who serves them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// For the thread that owns every tensor.
    Compute(JobId, Compute),
    /// For a thread of its own, as a backbone may have to be downloaded; the compute thread goes on with
    /// what it finds.
    Fetch(JobId, Fetch),
    /// For the thread that reads files.
    Files(JobId, Files),
    /// End a job early.
    Cancel(JobId),
    /// Let a training rest between two steps, or go on.
    Pause(JobId, bool),
    /// Free a backbone's memory.
    CloseBackbone(BackboneId),
    /// Forget a probe.
    CloseProbe(ProbeId),
    /// Small pictures of these images, in this order. A newer list replaces an older one.
    Thumbnails {
        /// The images.
        wanted: Vec<(ImageId, ImageSource)>,
        /// Longest side, in pixels.
        side: u32,
    },
    /// Tell of these runs' folders now, and again whenever they change. A newer list replaces an
    /// older one.
    Follow(Vec<PathBuf>),
}

/// Jobs of the thread that owns every tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Compute {
    /// Load a probe file.
    OpenProbe {
        /// What the library calls it.
        entry: ProbeId,
        /// The file.
        path: PathBuf,
    },
    /// Explain images through probes. A newer one ends an older one.
    Explain(Explain),
    /// Explain images beside those: neither ends the other.
    ExplainMany(Explain),
    /// Ask probes about all images of a dataset.
    Evaluate(evaluate::EvalRequest),
    /// Measure how stable the order of one image is.
    Stability(stability::StabilityRequest),
    /// Remove the tokens of one image.
    Removal(removal::RemovalRequest),
    /// Make what a probe made of the images of a dataset ready to be compared.
    Similarity(similarity::SimilarityRequest),
    /// What the verb `inspect` is asked, whose files are told.
    Inspect(Box<inspect::InspectFlags>),
    /// What the verb `eval` is asked.
    Eval(Box<eval::EvalFlags>),
    /// What the verb `extract` is asked.
    Extract(Box<extract::verb::ExtractFlags>),
}

/// Who is told what a job finds, from several threads; an error ends the job.
pub type EventSink<'a> = dyn Fn(Event) -> anyhow::Result<()> + Sync + 'a;

impl Compute {
    /// Does it, and tells what it finds.
    ///
    /// # Errors
    /// If it was ended, could not be done, or who is told fails.
    pub fn run(
        &self,
        job: JobId,
        engine: &mut Engine,
        reporter: &mut dyn Reporter,
        tell: &EventSink<'_>,
    ) -> Result<(), JobError> {
        let found = match self {
            Self::OpenProbe { entry, path } => {
                Event::ProbeOpened { job, entry: *entry, info: engine.open_probe(*entry, path)? }
            }
            Self::Explain(spec) | Self::ExplainMany(spec) => {
                Event::Explained { job, seen: explain::run(engine, spec, reporter)? }
            }
            Self::Stability(spec) => {
                Event::StabilityMeasured { job, answer: stability::run(engine, spec, reporter)? }
            }
            Self::Removal(spec) => {
                Event::RemovalMeasured { job, answer: removal::run(engine, spec, reporter)? }
            }
            Self::Similarity(spec) => Event::ImagesCompared(job, similarity::run(spec)),
            Self::Evaluate(spec) => {
                let tell = &mut |answer| tell(Event::Evaluated { job, answer });
                return evaluate::run(engine, spec, reporter, tell);
            }
            Self::Inspect(flags) => {
                return inspect::run(engine, flags, reporter, &|told| tell(Event::Inspected { job, told }));
            }
            Self::Eval(flags) => {
                return eval::run(engine, flags, reporter, &|told| tell(Event::EvalTold { job, told }));
            }
            Self::Extract(flags) => {
                let tell = |told| tell(Event::ExtractTold { job, told });
                return extract::verb::run(engine, flags, reporter, &tell);
            }
        };
        tell(found).map_err(JobError::Failed)
    }

    /// Whether it takes so long that others are done in its middle, and it never in theirs.
    pub fn is_long(&self) -> bool {
        matches!(
            self,
            Self::Evaluate(_)
                | Self::Stability(_)
                | Self::Removal(_)
                | Self::Inspect(_)
                | Self::Eval(_)
                | Self::Extract(_)
        )
    }

    /// Whether it computes on the device of open backbones.
    pub fn needs_device(&self) -> bool {
        !matches!(self, Self::OpenProbe { .. } | Self::Similarity(_))
    }
}

/// What came of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
        info: BackboneInfo,
    },
    /// A probe can read tokens.
    ProbeOpened {
        /// The job.
        job: JobId,
        /// What the library calls it.
        entry: ProbeId,
        /// What it is.
        info: ProbeInfo,
    },
    /// Probe files of a run, sorted.
    ProbesListed {
        /// Backbone and dataset they were trained on, as far as they lie on this machine.
        sources: Vec<(PathBuf, PathKind)>,
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
        part: Arc<evaluate::EvalSplit>,
    },
    /// What one probe made of the images of a dataset.
    Evaluated {
        /// The job.
        job: JobId,
        /// It.
        answer: evaluate::EvalAnswer,
    },
    /// How stable the order of one image is.
    StabilityMeasured {
        /// The job.
        job: JobId,
        /// It.
        answer: stability::StabilityAnswer,
    },
    /// Removal curves of one image.
    RemovalMeasured {
        /// The job.
        job: JobId,
        /// They.
        answer: removal::RemovalAnswer,
    },
    /// Images of a dataset can be compared.
    ImagesCompared(JobId, Arc<ImageSpace>),
    /// Something about what `inspect` was asked.
    Inspected {
        /// The job.
        job: JobId,
        /// What.
        told: inspect::InspectEvent,
    },
    /// Something about what `eval` was asked.
    EvalTold {
        /// The job.
        job: JobId,
        /// What.
        told: eval::EvalEvent,
    },
    /// Something about what `extract` was asked.
    ExtractTold {
        /// The job.
        job: JobId,
        /// What.
        told: extract::verb::ExtractEvent,
    },
    /// What dropped files are.
    Recognised {
        /// The job.
        job: JobId,
        /// Each with its kind.
        found: Vec<(PathBuf, PathKind)>,
    },
    /// What lies in a folder.
    FolderListed {
        /// The job.
        job: JobId,
        /// It.
        folder: Arc<folder::Folder>,
    },
    /// What probes made of images, in the order asked.
    Explained {
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
        snapshot: Result<Arc<training::RunSnapshot>, UserError>,
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
        error: UserError,
    },
    /// Bytes of memory that a worker elsewhere takes.
    Memory(u64),
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

impl Event {
    /// The job it speaks of, if it speaks of one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Started(job)
            | Self::Progress(job, _)
            | Self::BackboneOpened { job, .. }
            | Self::ProbeOpened { job, .. }
            | Self::ProbesListed { job, .. }
            | Self::ImagesListed { job, .. }
            | Self::DatasetOpened { job, .. }
            | Self::Evaluated { job, .. }
            | Self::StabilityMeasured { job, .. }
            | Self::RemovalMeasured { job, .. }
            | Self::Inspected { job, .. }
            | Self::EvalTold { job, .. }
            | Self::ExtractTold { job, .. }
            | Self::Recognised { job, .. }
            | Self::FolderListed { job, .. }
            | Self::Explained { job, .. }
            | Self::Training { job, .. }
            | Self::Warning { job, .. }
            | Self::ImagesCompared(job, _)
            | Self::Failed(job, _)
            | Self::Cancelled(job)
            | Self::Finished(job) => Some(*job),
            Self::RunRead { job, .. } => *job,
            Self::ThumbnailReady { .. } | Self::ThumbnailFailed { .. } | Self::Memory(_) => None,
        }
    }
}

impl Request {
    /// The job it starts, if it starts one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Compute(job, _) | Self::Fetch(job, _) | Self::Files(job, _) => Some(*job),
            Self::Cancel(_)
            | Self::Pause(..)
            | Self::CloseBackbone(_)
            | Self::CloseProbe(_)
            | Self::Thumbnails { .. }
            | Self::Follow(_) => None,
        }
    }
}
