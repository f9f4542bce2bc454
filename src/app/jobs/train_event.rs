//! Events of a training.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::app::jobs::detached::PrintedLine;
use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::history::{Failure, Steps};
use crate::app::jobs::tasks::PlannedStage;
use crate::app::jobs::train::{Estimate, Preflight};
use crate::model::train::run::Metric;

/// An event of a training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TrainEvent {
    /// Its estimated cost.
    Planned(Box<Preflight>),
    /// How long its parts took, measured.
    Timed(Estimate),
    /// Tokens are ready and training starts or resumes; the run's folder as it is.
    Begun(Arc<RunSnapshot>),
    /// It runs, or ran, in a separate process.
    Detached {
        /// The run's folder, as an absolute path.
        folder: PathBuf,
        /// Process id.
        pid: u32,
        /// Whether it was started by this request.
        began: bool,
        /// The machine of the process, if it is not the one that was asked, which shares its folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// These tasks would be submitted.
    TasksPlanned(Vec<PlannedStage>),
    /// Its tasks were submitted; results go to this folder.
    #[serde(rename = "HandedIn")] // its first name, which other versions send
    TasksSubmitted(PathBuf),
    /// Number of tasks that were submitted again.
    Retried(usize),
    /// A line that it printed.
    #[serde(rename = "Said")] // its first name, which other versions send
    Printed(PrintedLine),
    /// Progress since the last event.
    #[serde(rename = "Went")] // its first name, which other versions send
    Progressed(Box<TrainDelta>),
    /// It was paused or continued.
    Paused(bool),
    /// These probe files were written, with their times of modification.
    Probes(Vec<(PathBuf, SystemTime)>),
    /// It has ended.
    Ended {
        /// Whether it ran to its end.
        finished: bool,
        /// Heads that stopped before the end.
        failures: Vec<Failure>,
    },
}

/// Progress of a training since the last event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainDelta {
    /// Losses of its steps, if there were any.
    pub steps: Option<Steps>,
    /// Metrics of completed epochs.
    pub epochs: Vec<Metric>,
    /// Heads that stopped before the end.
    pub failures: Vec<Failure>,
    /// Images per second.
    pub rate: f64,
    /// Estimated time left.
    pub left: Duration,
}
