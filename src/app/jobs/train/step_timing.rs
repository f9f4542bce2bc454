//! Measures a step of all heads on random tokens of the right shape before a training begins, so that a
//! user knows whether it takes minutes or days.

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
use crate::model::train::{HeadTrainer, Labels, logits, step_all};

/// Further steps are timed until this much time has passed.
const MIN_TIMED: Duration = Duration::from_millis(400);
/// Most steps timed, after those that prepare the device.
const MAX_STEPS: u32 = 5;

/// Largest batch of a timed step, in images, so that the measurement stays short where a step takes a minute.
const BATCH: usize = 256;

/// The input of [`time`].
pub struct TimeSpec {
    /// What is to be trained.
    pub plan: TrainPlan,
    /// Its preflight facts: counts, sizes and dimensions.
    pub preflight: Preflight,
    /// Its tokens.
    pub tokens: Plan,
    /// Some of its images, to time the backbone on; none skips this.
    pub samples: Vec<Sample>,
}

/// Times the backbone per image, and a step and an evaluation of one batch, to estimate a training's duration.
pub fn time(engine: &mut Engine, spec: &TimeSpec, reporter: &mut dyn Reporter) -> Result<Estimate, JobError> {
    let TimeSpec { plan, preflight, tokens, samples } = spec;
    let settings = &plan.settings;
    let device = (engine.env.device)(&settings.device)?.device;
    let image = tokens.time(samples, &device)?;
    reporter.pause(engine)?;
    let images = settings.batch.min(preflight.train).min(BATCH);
    let mut trial = StepTiming::new(plan, preflight.dims, images, &device)?;
    trial.prepare();
    reporter.pause(engine)?;
    let step = trial.step();
    reporter.pause(engine)?;
    let evaluation = trial.evaluation();
    reporter.cancel().check()?;
    Ok(Estimate { image, step, evaluation, tried: images })
}

/// Newly initialised heads and a batch to time them on.
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
        let batch = Batch { patches, cls: Some(cls), grid: dims.grid, image_seeds, training: false };
        let labels = Labels::new(&classes, device);
        let trainers = fresh(plan, dims, 0, device)?;
        Ok(Self { trainers, batch, labels, rate: plan.settings.rate })
    }

    /// Runs untimed what prepares the device: a step on the CPU; on a GPU two, the second of which is recorded, and an evaluation,
    /// whose kernels are others.
    fn prepare(&mut self) {
        let on_gpu = !on_cpu(&self.batch.patches.device());
        let batch = self.batch.clone().tracked();
        for _ in 0..=usize::from(on_gpu) {
            step_all(&mut self.trainers, &batch, &self.labels, |_| self.rate);
        }
        if on_gpu {
            self.evaluation();
        }
    }

    /// Mean time of a step, over 1 to [`MAX_STEPS`] steps.
    fn step(&mut self) -> Duration {
        let batch = self.batch.clone().tracked();
        let begun = Instant::now();
        let mut steps = 0;
        while steps == 0 || (steps < MAX_STEPS && begun.elapsed() < MIN_TIMED) {
            step_all(&mut self.trainers, &batch, &self.labels, |_| self.rate);
            steps += 1;
        }
        begun.elapsed() / steps
    }

    /// Time of evaluating one batch.
    fn evaluation(&self) -> Duration {
        let begun = Instant::now();
        let trainers: Vec<_> = self.trainers.iter().collect();
        for logits in logits(&trainers, &self.batch) {
            logits.argmax(1).into_data(); // waits for the device
        }
        begun.elapsed()
    }
}
