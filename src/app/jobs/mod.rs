//! The protocol between front ends and worker; these enums list everything that the program can do.
//!
//! A front end sends a [`Request`]; the worker answers with [`Event`]s. Every request that starts a job ends in
//! exactly one `Finished`, `Failed` or `Cancelled`. Only plain host data crosses, which serde can
//! serialise: no tensor, no lock, no open file. Paths are those of the machine that computes.

pub mod detached;
pub mod engine;
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
mod path_kind;
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
pub mod train_event;
pub mod user_error;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::engine::Engine;
pub use self::explain::{ClassChoice, Explain, ExplainItem, ExplainResult, ExplainSettings};
pub use self::fetch::{Fetch, TrainCommand};
pub use self::ids::{BackboneId, ColumnId, DatasetId, ImageId, JobId, ProbeId};
pub use self::open::Files;
pub use self::options::BackboneOptions;
pub use self::path_kind::{PathKind, check_there};
pub use self::progress::{Cancel, Clock, Progress, Unit, Working};
pub use self::reporter::{JobError, Reporter, report_extract};
use self::user_error::UserError;
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::model::data::ImageSource;
use crate::model::explain::evaluation::similarity::ImageSpace;
use crate::model::trace::Picture;

/// A request to the worker. Those with a [`JobId`] and a payload are jobs, grouped by the thread that runs them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// A job of the compute thread, which owns every tensor.
    Compute(JobId, Compute),
    /// A job that starts on a thread of its own, as a backbone may have to be downloaded; the compute thread
    /// continues it.
    Fetch(JobId, Fetch),
    /// A job of the thread that reads files.
    Files(JobId, Files),
    /// Cancel a job.
    Cancel(JobId),
    /// Pause a training between two steps, or continue it.
    Pause(JobId, bool),
    /// Close a backbone and free its memory.
    CloseBackbone(BackboneId),
    /// Close a probe.
    CloseProbe(ProbeId),
    /// Make thumbnails of these images, in this order. A newer list replaces an older one.
    Thumbnails {
        /// The images.
        wanted: Vec<(ImageId, ImageSource)>,
        /// Longest side, in pixels.
        side: u32,
    },
    /// Report the state of these runs' folders now and whenever they change. A newer list replaces an
    /// older one.
    Follow(Vec<PathBuf>),
}

/// Jobs of the compute thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Compute {
    /// Load a probe file.
    OpenProbe { entry: ProbeId, path: PathBuf },
    /// Explain images through probes. A newer request cancels an older one.
    Explain(Explain),
    /// Explain images independently of [`Explain`](Self::Explain): neither cancels the other.
    ExplainMany(Explain),
    /// Evaluate probes on all images of a dataset.
    Evaluate(evaluate::EvalRequest),
    /// Measure the stability of one image's order.
    Stability(stability::StabilityRequest),
    /// Compute removal curves of one image.
    Removal(removal::RemovalRequest),
    /// Prepare a probe's token vectors of a dataset for comparison.
    Similarity(similarity::SimilarityRequest),
    /// Run the verb `inspect`; its files are sent as events.
    Inspect(Box<inspect::InspectFlags>),
    /// Run the verb `eval`.
    Eval(Box<evaluate::verb::EvalFlags>),
    /// Run the verb `extract`.
    Extract(Box<extract::verb::ExtractFlags>),
}

/// Receives a job's events of type `E`, from several threads; an error ends the job.
pub type Sink<'a, E> = dyn Fn(E) -> anyhow::Result<()> + Sync + 'a;

impl Compute {
    /// Runs the job and sends its events to `tell`.
    pub fn run(
        &self,
        job: JobId,
        engine: &mut Engine,
        reporter: &mut dyn Reporter,
        tell: &Sink<'_, Event>,
    ) -> Result<(), JobError> {
        let found = match self {
            Self::OpenProbe { entry, path } => {
                Event::ProbeOpened { job, entry: *entry, info: engine.open_probe(*entry, path)? }
            }
            Self::Explain(spec) | Self::ExplainMany(spec) => {
                Event::Explained { job, results: explain::run(engine, spec, reporter)? }
            }
            Self::Stability(spec) => {
                Event::StabilityMeasured { job, answer: stability::run(engine, spec, reporter)? }
            }
            Self::Removal(spec) => {
                let answer = JobError::answer(removal::run(engine, spec, reporter))?;
                Event::RemovalMeasured { job, answer }
            }
            Self::Similarity(spec) => Event::ImagesCompared(job, similarity::run(spec)),
            Self::Evaluate(spec) => {
                let tell = &mut |answer| tell(Event::Evaluated { job, answer });
                return evaluate::run(engine, spec, reporter, tell);
            }
            Self::Inspect(flags) => {
                return inspect::run(engine, flags, reporter, &|event| tell(Event::Inspect { job, event }));
            }
            Self::Eval(flags) => {
                let tell = |event| tell(Event::Eval { job, event });
                return evaluate::verb::run(engine, flags, reporter, &tell);
            }
            Self::Extract(flags) => {
                let tell = |event| tell(Event::Extract { job, event });
                return extract::verb::run(engine, flags, reporter, &tell);
            }
        };
        Ok(tell(found)?)
    }

    /// Whether it is long: short jobs run during its pauses, and it never runs during those of another.
    pub fn is_long(&self) -> bool {
        match self {
            Self::Evaluate(_)
            | Self::Stability(_)
            | Self::Removal(_)
            | Self::Inspect(_)
            | Self::Eval(_)
            | Self::Extract(_) => true,
            Self::OpenProbe { .. } | Self::Explain(_) | Self::ExplainMany(_) | Self::Similarity(_) => false,
        }
    }

    /// Whether it runs a verb of the command line, which gets the messages that a terminal shows about an extraction.
    pub fn is_verb(&self) -> bool {
        match self {
            Self::Inspect(_) | Self::Eval(_) | Self::Extract(_) => true,
            Self::OpenProbe { .. }
            | Self::Explain(_)
            | Self::ExplainMany(_)
            | Self::Evaluate(_)
            | Self::Stability(_)
            | Self::Removal(_)
            | Self::Similarity(_) => false,
        }
    }

    /// Whether it computes on the device of the open backbones.
    pub fn needs_device(&self) -> bool {
        !matches!(self, Self::OpenProbe { .. } | Self::Similarity(_))
    }
}

/// An event of the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`job` is the job, and each variant says what its other fields are")]
pub enum Event {
    /// A job has started.
    Started(JobId),
    /// Progress of a job.
    Progress(JobId, Progress),
    /// A backbone was opened.
    BackboneOpened { job: JobId, entry: BackboneId, info: BackboneInfo },
    /// A probe was opened.
    ProbeOpened { job: JobId, entry: ProbeId, info: ProbeInfo },
    /// The probe files of a run, sorted.
    ProbesListed {
        /// Backbone and dataset they were trained on, those that exist on this machine.
        sources: Vec<(PathBuf, PathKind)>,
        job: JobId,
        paths: Vec<PathBuf>,
    },
    /// Further images, sorted within each folder of the request.
    ImagesListed { job: JobId, paths: Vec<PathBuf> },
    /// A dataset was opened.
    DatasetOpened { job: JobId, entry: DatasetId, part: Arc<evaluate::EvalSplit> },
    /// The evaluation of one probe on a dataset.
    Evaluated { job: JobId, answer: evaluate::EvalAnswer },
    /// The stability of one image's order.
    StabilityMeasured { job: JobId, answer: stability::StabilityAnswer },
    /// The removal curves of one image.
    RemovalMeasured { job: JobId, answer: removal::RemovalAnswer },
    /// A dataset's token vectors are ready to be compared.
    ImagesCompared(JobId, Arc<ImageSpace>),
    /// An event of the verb `inspect`.
    #[serde(rename = "Inspected")] // its first name, which other versions send
    Inspect {
        job: JobId,
        #[serde(rename = "told")]
        event: inspect::InspectEvent,
    },
    /// An event of the verb `eval`.
    #[serde(rename = "EvalTold")]
    Eval {
        job: JobId,
        #[serde(rename = "told")]
        event: evaluate::verb::EvalEvent,
    },
    /// An event of the verb `extract`.
    #[serde(rename = "ExtractTold")]
    Extract {
        job: JobId,
        #[serde(rename = "told")]
        event: extract::verb::ExtractEvent,
    },
    /// The kinds of dropped files.
    Recognised { job: JobId, found: Vec<(PathBuf, PathKind)> },
    /// The entries of a folder.
    FolderListed { job: JobId, folder: Arc<folder::Folder> },
    /// Explanations, in the order of the request.
    Explained {
        job: JobId,
        #[serde(rename = "seen")] // its first name, which other versions send
        results: Vec<ExplainResult>,
    },
    /// An event of a training.
    Training {
        job: JobId,
        #[serde(rename = "news")] // its first name, which other versions send
        event: train_event::TrainEvent,
    },
    /// The current state of a run's folder.
    RunRead {
        /// The job that opens it; `None` if the run is followed.
        job: Option<JobId>,
        folder: PathBuf,
        /// Its state, or why it cannot be read.
        snapshot: Result<Arc<history::disk::RunSnapshot>, UserError>,
    },
    /// A thumbnail.
    ThumbnailReady { image: ImageId, picture: Arc<Picture> },
    /// A thumbnail could not be made.
    ThumbnailFailed { image: ImageId, error: UserError },
    /// Memory of a remote worker, in bytes.
    Memory(u64),
    /// A warning; the job continues.
    Warning { job: JobId, text: String },
    /// A job failed.
    Failed(JobId, UserError),
    /// A job was cancelled.
    Cancelled(JobId),
    /// A job is done.
    Finished(JobId),
}

impl Event {
    /// The job that it belongs to, if any.
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
            | Self::Inspect { job, .. }
            | Self::Eval { job, .. }
            | Self::Extract { job, .. }
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
    /// The job that it starts, if any.
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
