//! Jobs that begin with the backbone a person names: a folder, or an id of the Hugging Face Hub that is fetched first; and
//! probes that are fetched from there.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::detached::Detached;
use super::tasks::TaskRequest;
use super::{BackboneId, BackboneOptions, Reporter, Unit, train};
use crate::model::backbone::hub::{self, Hub};

/// Jobs that begin with finding a backbone, which may have to be downloaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fetch {
    /// Load a backbone beside those that are open; one of the same entry is dropped first.
    OpenBackbone {
        /// What the library calls it.
        entry: BackboneId,
        /// A folder or an id of the Hub.
        source: String,
        /// Name of the device, as [`open`](crate::model::device::open) takes it.
        device: String,
        /// How it reads images.
        options: BackboneOptions,
    },
    /// Say what this training would come to. A newer one ends an older one.
    Plan(Box<train::TrainSettings>),
    /// Begin a run. It is cancelled as any job: then it saves and stops.
    Begin(Box<train::TrainSettings>),
    /// Train in a process of its own, which nothing but its cancelling stops, and follow that.
    Detached(Detached),
    /// Say into which tasks a training would be cut, and what `sbatch` would get.
    PlanTasks(TaskRequest),
    /// Hand in the tasks of a training.
    HandIn(TaskRequest),
    /// Hand in again what failed or was stopped of the tasks of a run's folder.
    RetryTasks(PathBuf),
    /// End all tasks of a run's folder; what they did is kept.
    EndTasks(PathBuf),
    /// Go on with the run of a folder.
    Resume {
        /// The folder.
        folder: PathBuf,
        /// Where to compute, if not where it began.
        device: Option<String>,
        /// Folder of token caches where the run names none; the usual one where absent.
        cache: Option<PathBuf>,
    },
}

impl Fetch {
    /// Whether other processes do it, and nothing is computed by who is asked.
    pub fn is_apart(&self) -> bool {
        match self {
            Self::Detached(_)
            | Self::PlanTasks(_)
            | Self::HandIn(_)
            | Self::RetryTasks(_)
            | Self::EndTasks(_) => true,
            Self::OpenBackbone { .. } | Self::Plan(_) | Self::Begin(_) | Self::Resume { .. } => false,
        }
    }
}

/// The folder on this machine of the backbone `source`.
///
/// # Errors
/// If there is none, or the download failed or was ended.
pub fn backbone(source: &str, reporter: &mut dyn Reporter) -> anyhow::Result<PathBuf> {
    Ok(hub::resolve(source, &mut told(reporter))?)
}

/// The probe files on this machine that `given` names: `hf:ORGANISATION/NAME/FILE` is fetched, what else is there stays.
///
/// # Errors
/// If one cannot be fetched, or the download was ended.
pub fn probes(given: &[PathBuf], reporter: &mut dyn Reporter) -> anyhow::Result<Vec<PathBuf>> {
    let mut one = |path: &PathBuf| match path.to_str().filter(|_| hub::is_file_of_hub(path)) {
        Some(source) => Ok(Hub::from_env()?.file(source, &mut told(reporter))?),
        None => Ok(path.clone()),
    };
    given.iter().map(&mut one).collect()
}

/// Tells how far a download is, and ends it where the job is ended.
fn told(reporter: &mut dyn Reporter) -> impl FnMut(hub::Progress<'_>) -> ControlFlow<()> {
    let mut told = Instant::now();
    move |progress| {
        // Ten times a second is as often as anyone looks.
        if progress.done == progress.total || told.elapsed().as_millis() >= 100 {
            told = Instant::now();
            let what = format!("Downloading {}", progress.file);
            reporter.progress(&what, progress.done, Some(progress.total), Unit::Bytes);
        }
        if reporter.cancel().is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
