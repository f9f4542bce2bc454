//! A training, and trying how long one takes, as jobs of an engine.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::{Estimate, Preflight, StepTiming, Summary, TrainPlan, TrainingError, start_on};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::extract::{ExtractError, Plan};
use crate::app::jobs::{JobError, Partial, Reporter};
use crate::model::data::Sample;

/// Images a step is tried on at most, so that trying takes no minute where a step does.
const BATCH: usize = 256;

/// A training.
pub struct TrainSpec {
    /// What is to be trained.
    pub order: TrainPlan,
    /// The run's folder.
    pub out: PathBuf,
    /// Whether it goes on where there is a run.
    pub resume: bool,
}

/// Trains; stopped before it began, it is cancelled.
pub fn run(engine: &mut Engine, spec: &TrainSpec, reporter: &mut dyn Reporter) -> Result<Summary, JobError> {
    let summary = start_on(engine.env.device, &spec.order, &spec.out, spec.resume, &mut |event| {
        reporter.partial(Partial::Training(event));
        match reporter.pause(engine) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    summary.map_err(|error| match error {
        TrainingError::Extract(ExtractError::Stopped { .. }) => JobError::Cancelled,
        other => JobError::of(other),
    })
}

/// What a training is tried on to say how long it takes.
pub struct TimeSpec {
    /// What is to be trained.
    pub order: TrainPlan,
    /// What it comes to.
    pub facts: Preflight,
    /// Its tokens.
    pub plan: Plan,
    /// Some of its images.
    pub samples: Vec<Sample>,
}

/// Tries steps and images to say how long a training takes.
pub fn time(engine: &mut Engine, spec: &TimeSpec, reporter: &mut dyn Reporter) -> Result<Estimate, JobError> {
    let TimeSpec { order, facts, plan, samples } = spec;
    let device = (engine.env.device)(&order.device).map_err(JobError::of)?.device;
    let image = match samples.is_empty() {
        true => None,
        false => plan.time(samples, &device).map_err(JobError::of)?,
    };
    reporter.pause(engine)?;
    let images = order.protocol.batch.min(facts.train).min(BATCH);
    let mut trial = StepTiming::new(order, facts.dims, images, &device).map_err(JobError::of)?;
    trial.prepare();
    reporter.pause(engine)?;
    let step = trial.step();
    reporter.pause(engine)?;
    let estimate = Estimate { image, step, evaluation: trial.evaluation(), tried: trial.images() };
    reporter.cancel().check()?;
    Ok(estimate)
}
