//! Jobs that begin on a thread of their own, and what most of them begin with: a backbone given as a folder or as an id of the Hugging
//! Face Hub, which is downloaded first. Also probes from the Hub.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{BackboneId, BackboneOptions, Reporter, Unit, train};
use crate::model::backbone::hub::{self, Hub, HubError};

/// Jobs that begin on a thread of their own: the backbone that they need may have to be downloaded, or other processes do the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fetch {
    /// Load a backbone beside those that are open; one with the same id is closed first.
    OpenBackbone {
        /// Its id in the library.
        entry: BackboneId,
        /// A folder or an id of the Hub.
        source: String,
        /// Name of the device, as [`open`](crate::model::device::open) takes it.
        device: String,
        /// How it reads images.
        options: BackboneOptions,
    },
    /// Estimate what this training would cost. A newer request cancels an older one.
    Plan(Box<train::TrainSettings>),
    /// Start a run. Cancelled, as any job, it saves and stops.
    Begin(Box<train::TrainSettings>),
    /// Train in a process of its own, which only cancelling stops, and follow it.
    Detached(TrainCommand),
    /// Show into which tasks a training would be divided, and the script for `sbatch`.
    PlanTasks(TrainCommand),
    /// Submit the tasks of a training.
    #[serde(rename = "HandIn")] // its first name, which other versions send
    SubmitTasks(TrainCommand),
    /// Submit the failed and stopped tasks of a run's folder again.
    RetryTasks(PathBuf),
    /// Cancel all tasks of a run's folder; their results so far are kept.
    EndTasks(PathBuf),
    /// Resume the run of a folder.
    Resume {
        /// The folder.
        folder: PathBuf,
        /// The device, if not the one it started on.
        device: Option<String>,
        /// Folder of token caches if the run names none; the default folder if absent.
        cache: Option<PathBuf>,
    },
}

/// A training that other processes carry out, by a command line of this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainCommand {
    /// Arguments of `ssmprobe train`, those of submission included, without the run's folder; or [`SWEEP`](super::detached::SWEEP)
    /// and the arguments of that verb.
    pub words: Vec<String>,
    /// The run's folder; `~/` is the user's home.
    pub out: PathBuf,
    /// Whether this repeats a request whose answer was lost: what has begun is not begun again.
    pub again: bool,
}

impl Fetch {
    /// The request as it is repeated after a lost connection: what other processes have begun is not begun a second time.
    pub fn repeated(&self) -> Self {
        match self.clone() {
            Self::Detached(asked) => Self::Detached(TrainCommand { again: true, ..asked }),
            Self::SubmitTasks(asked) => Self::SubmitTasks(TrainCommand { again: true, ..asked }),
            same @ (Self::OpenBackbone { .. }
            | Self::Plan(_)
            | Self::Begin(_)
            | Self::PlanTasks(_)
            | Self::RetryTasks(_)
            | Self::EndTasks(_)
            | Self::Resume { .. }) => same,
        }
    }
}

/// The local folder of the backbone `source`, downloaded if it is an id of the Hub.
pub fn backbone(source: &str, reporter: &mut dyn Reporter) -> anyhow::Result<PathBuf> {
    Ok(hub::resolve(source, &mut progress_of(reporter))?)
}

/// Where the run in the folder `run` records a source that [`backbone`] does not find on the disk, its error with what to do then.
pub fn moved(run: &Path, error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(HubError::NoFolder(_) | HubError::NotAFolder(_)) => {
            let remedy =
                "the backbone it names cannot be opened; give its new location with `--backbone DIR`";
            error.context(format!("{}: {remedy}", run.join("run.json").display()))
        }
        _ => error,
    }
}

/// The local probe files that `given` names: `hf:ORGANISATION/NAME/FILE` is downloaded, other paths are kept.
pub fn probes(given: &[PathBuf], reporter: &mut dyn Reporter) -> anyhow::Result<Vec<PathBuf>> {
    let mut one = |path: &PathBuf| match path.to_str().filter(|_| hub::is_file_of_hub(path)) {
        Some(source) => Ok(Hub::from_env()?.file(source, &mut progress_of(reporter))?),
        None => Ok(path.clone()),
    };
    given.iter().map(&mut one).collect()
}

/// A callback that reports the progress of a download, and stops it if the job is cancelled.
fn progress_of(reporter: &mut dyn Reporter) -> impl FnMut(hub::Progress<'_>) -> ControlFlow<()> {
    let (mut told, mut file) = (Instant::now(), String::new());
    move |progress| {
        // Each has a clock of its own, and may be the rest of an earlier download.
        if file != progress.file {
            progress.file.clone_into(&mut file);
            reporter.begin(progress.done);
        }
        // Ten times a second is as often as anyone looks.
        if progress.done == progress.total || told.elapsed().as_millis() >= 100 {
            told = Instant::now();
            let what = format!("Downloading {}", progress.file);
            reporter.progress(&what, progress.done, Some(progress.total), Unit::Bytes);
        }
        reporter.cancel().flow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::reporter::Recorder;

    #[test]
    fn every_file_of_a_download_has_a_clock_of_its_own() {
        let mut heard = Recorder::default();
        let mut tell = progress_of(&mut heard);
        for (file, done) in [("one", 0), ("one", 5), ("two", 7), ("two", 9)] {
            assert!(tell(hub::Progress { file, done, total: 10 }).is_continue());
        }
        drop(tell);
        assert_eq!(heard.begun, [0, 7]);
    }
}
