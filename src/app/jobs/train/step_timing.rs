//! How long a step of all heads takes, tried on random tokens of the right shape: before a training
//! begins, so that a person knows whether it takes minutes or days.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Distribution, Tensor};

use super::{TrainingError, fresh};
use crate::app::jobs::train::TrainPlan;
use crate::model::probe::head::{Batch, Dims};
use crate::model::train::{HeadTrainer, Labels, step_all};

/// A step is tried again within this time.
const LONG_ENOUGH: Duration = Duration::from_millis(400);
/// Steps tried at most, after the first, which prepares the device.
const MOST: u32 = 5;

/// Heads at their start and a batch to try them on.
pub struct StepTiming {
    learners: Vec<HeadTrainer>,
    batch: Batch,
    labels: Labels,
    rate: f64,
}

impl StepTiming {
    /// The heads of `order` on a batch of `images`.
    pub fn new(order: &TrainPlan, dims: Dims, images: usize, device: &Device) -> Result<Self, TrainingError> {
        let classes: Vec<usize> = (0..images).map(|image| image % dims.classes).collect();
        let random = Distribution::Normal(0.0, 1.0);
        let patches = Tensor::<3>::random([images, dims.grid.len(), dims.width], random, device);
        let cls = Tensor::<2>::random([images, dims.width], random, device);
        let batch = Batch {
            patches: patches.autodiff(),
            cls: Some(cls.autodiff()),
            grid: dims.grid,
            draws: (0..images as u64).collect(),
            training: true,
        };
        let labels = Labels::new(&classes, dims.classes, device);
        let learners = fresh(order, dims, 0, device)?;
        Ok(Self { learners, batch, labels, rate: order.protocol.rate })
    }

    /// Images of the batch.
    pub fn images(&self) -> usize {
        self.batch.draws.len()
    }

    /// One step, which prepares the device and is not counted.
    pub fn prepare(&mut self) {
        step_all(&mut self.learners, &self.batch, &self.labels, self.rate);
    }

    /// Time of a step: the mean of a few.
    pub fn step(&mut self) -> Duration {
        let begun = Instant::now();
        let mut steps = 0;
        while steps == 0 || (steps < MOST && begun.elapsed() < LONG_ENOUGH) {
            step_all(&mut self.learners, &self.batch, &self.labels, self.rate);
            steps += 1;
        }
        begun.elapsed() / steps
    }

    /// Time of evaluating one batch.
    pub fn evaluation(&self) -> Duration {
        let begun = Instant::now();
        let Batch { patches, cls, grid, draws, .. } = self.batch.clone();
        let batch =
            Batch { patches: patches.inner(), cls: cls.map(Tensor::inner), grid, draws, training: false };
        for learner in &self.learners {
            // Reading the answer waits for the device.
            learner.model.logits(&batch).argmax(1).into_data();
        }
        begun.elapsed()
    }
}
