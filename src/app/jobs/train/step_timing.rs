//! How long a step of all heads takes, tried on random tokens of the right shape: before a training
//! begins, so that a person knows whether it takes minutes or days.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Distribution, Tensor};

use super::seeds::fresh;
use super::{Estimate, Preflight, TrainPlan, TrainingError};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::extract::Plan;
use crate::app::jobs::{JobError, Reporter};
use crate::model::data::Sample;
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::head::{Batch, Dims};
use crate::model::train::{HeadTrainer, Labels, step_all};

/// A step is tried again within this time.
const LONG_ENOUGH: Duration = Duration::from_millis(400);
/// Steps tried at most, after the first, which prepares the device.
const MAX_STEPS: u32 = 5;

/// Images a step is tried on at most, so that trying takes no minute where a step does.
const BATCH: usize = 256;

/// What a training is tried on to say how long it takes.
pub struct TimeSpec {
    /// What is to be trained.
    pub plan: TrainPlan,
    /// What it comes to.
    pub preflight: Preflight,
    /// Its tokens.
    pub tokens: Plan,
    /// Some of its images.
    pub samples: Vec<Sample>,
}

/// Tries steps and images to say how long a training takes.
pub fn time(engine: &mut Engine, spec: &TimeSpec, reporter: &mut dyn Reporter) -> Result<Estimate, JobError> {
    let TimeSpec { plan, preflight, tokens, samples } = spec;
    let settings = &plan.settings;
    let device = (engine.env.device)(&settings.device).map_err(JobError::failed)?.device;
    let image = match samples.is_empty() {
        true => None,
        false => tokens.time(samples, &device).map_err(JobError::failed)?,
    };
    reporter.pause(engine)?;
    let images = settings.batch.min(preflight.train).min(BATCH);
    let mut trial = StepTiming::new(plan, preflight.dims, images, &device).map_err(JobError::failed)?;
    trial.prepare();
    reporter.pause(engine)?;
    let step = trial.step();
    reporter.pause(engine)?;
    let estimate = Estimate { image, step, evaluation: trial.evaluation(), tried: trial.images() };
    reporter.cancel().check()?;
    Ok(estimate)
}

/// Heads at their start and a batch to try them on.
struct StepTiming {
    trainers: Vec<HeadTrainer>,
    batch: Batch,
    labels: Labels,
    rate: f64,
}

impl StepTiming {
    /// The heads of `plan` on a batch of `images`.
    fn new(plan: &TrainPlan, dims: Dims, images: usize, device: &Device) -> Result<Self, TrainingError> {
        let classes: Vec<usize> = (0..images).map(|image| image % dims.classes).collect();
        let random = Distribution::Normal(0.0, 1.0);
        let patches = Tensor::<3>::random([images, dims.grid.len(), dims.width], random, device);
        let cls = Tensor::<2>::random([images, dims.width], random, device);
        let image_seeds = (0..images as u64).collect();
        let batch =
            Batch { patches, cls: Some(cls), grid: dims.grid, image_seeds, training: false }.tracked();
        let labels = Labels::new(&classes, dims.classes, device);
        let trainers = fresh(plan, dims, 0, device)?;
        Ok(Self { trainers, batch, labels, rate: plan.settings.rate })
    }

    /// Images of the batch.
    fn images(&self) -> usize {
        self.batch.image_seeds.len()
    }

    /// Steps that prepare the device and are not counted: one, on a GPU another, which is recorded.
    fn prepare(&mut self) {
        let steps = if on_cpu(&self.batch.patches.device()) { 1 } else { 2 };
        for _ in 0..steps {
            step_all(&mut self.trainers, &self.batch, &self.labels, |_| self.rate);
        }
    }

    /// Time of a step: the mean of a few.
    fn step(&mut self) -> Duration {
        let begun = Instant::now();
        let mut steps = 0;
        while steps == 0 || (steps < MAX_STEPS && begun.elapsed() < LONG_ENOUGH) {
            step_all(&mut self.trainers, &self.batch, &self.labels, |_| self.rate);
            steps += 1;
        }
        begun.elapsed() / steps
    }

    /// Time of evaluating one batch.
    fn evaluation(&self) -> Duration {
        let begun = Instant::now();
        let batch = self.batch.clone().untracked();
        for trainer in &self.trainers {
            // Reading the answer waits for the device.
            trainer.model.logits(&batch).argmax(1).into_data();
        }
        begun.elapsed()
    }
}
