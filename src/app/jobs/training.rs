//! What is told about training.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::app::jobs::detached::Said;
pub use crate::app::jobs::history::disk::RunSnapshot;
use crate::app::jobs::history::{Failure, Steps};
use crate::app::jobs::tasks::PlannedStage;
use crate::app::jobs::train::{Estimate, Preflight};
use crate::model::train::run::Metric;

/// What is told of training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TrainEvent {
    /// What it comes to.
    Planned(Box<Preflight>),
    /// How long its parts take.
    Timed(Estimate),
    /// Tokens are there and training begins or goes on; the run's folder as it is.
    Begun(Arc<RunSnapshot>),
    /// It runs, or ran, in a process of its own.
    Detached {
        /// The run's folder, the whole of its path.
        folder: PathBuf,
        /// The process.
        pid: u32,
        /// Whether it was begun now.
        began: bool,
    },
    /// These tasks would be handed in.
    TasksPlanned(Vec<PlannedStage>),
    /// Its tasks are handed in, and end in this folder.
    HandedIn(PathBuf),
    /// So many of its tasks are handed in again.
    Retried(usize),
    /// It says this.
    Said(Said),
    /// It has gone this far.
    Went(Box<TrainDelta>),
    /// It has stopped giving steps, or gives them again.
    Paused(bool),
    /// These probes are written, anew or again.
    Probes(Vec<(PathBuf, SystemTime)>),
    /// It is over; whether it ran to its end, and what stopped before.
    Ended {
        /// Whether it ran to its end.
        finished: bool,
        /// Heads that stopped before the end.
        failures: Vec<Failure>,
    },
}

/// How far a training has gone since it was told before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainDelta {
    /// Losses of its steps, where there were some.
    pub steps: Option<Steps>,
    /// Epochs that came to an end.
    pub epochs: Vec<Metric>,
    /// Heads that stopped before the end.
    pub failures: Vec<Failure>,
    /// Images a second.
    pub rate: f64,
    /// Time left.
    pub left: Duration,
}
