//! What is asked and told about training.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::app::jobs::extract::Plan;
pub use crate::app::jobs::history::disk::Reading;
use crate::app::jobs::history::{Failure, Steps};
use crate::app::jobs::train::{Estimate, Preflight, TrainForm, TrainPlan};
use crate::model::data::Sample;
use crate::model::train::run::Metric;

/// What is wanted of training. The first three are seen to on a thread of their own, as a backbone
/// may have to be fetched, and go on as one of the last two on the compute thread.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainRequest {
    /// Say what this would come to.
    Plan(Box<TrainForm>),
    /// Begin a run.
    Begin(Box<TrainForm>),
    /// Go on with the run of a folder.
    Resume {
        /// The folder.
        folder: PathBuf,
        /// Where to compute, if not where it began.
        device: Option<String>,
        /// Folder of token caches where the run names none; the usual one where absent.
        cache: Option<PathBuf>,
    },
    /// Say how long its parts take.
    Time(Box<Tried>),
    /// Train.
    Train {
        /// What.
        order: Box<TrainPlan>,
        /// The run's folder.
        out: PathBuf,
        /// Whether it goes on where there is a run.
        resume: bool,
    },
}

/// What a training is tried on to say how long it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What is to be trained.
    pub order: TrainPlan,
    /// What it comes to.
    pub facts: Preflight,
    /// Its tokens.
    pub plan: Plan,
    /// Some of its images.
    pub samples: Vec<Sample>,
}

/// What is told of training.
#[derive(Clone, Debug)]
pub enum TrainEvent {
    /// What it comes to.
    Planned(Box<Preflight>),
    /// How long its parts take.
    Timed(Estimate),
    /// Tokens are there and training begins or goes on; the run's folder as it is.
    Begun(Arc<Reading>),
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
#[derive(Clone, Debug, PartialEq)]
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
