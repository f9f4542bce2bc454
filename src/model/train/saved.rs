//! A learner between two steps, as a checkpoint holds it: restored, it goes on to the same bits.

use burn::tensor::Device;

use super::losses::Losses;
use super::{Epoch, HeadTrainer, Running, Snapshot};
use crate::model::io::array::Arrays;
use crate::model::probe::params::Params;
use crate::model::train::optim::AdamW;

/// A learner between two steps, on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Trained values, bit for bit as the optimiser left them.
    pub params: Arrays,
    /// Those of the step before, which a loss that breaks falls back to; empty where there is none.
    pub last_finite: Arrays,
    /// The optimiser's moments.
    pub adam: Arrays,
    /// As in [`HeadTrainer`].
    pub history: Vec<Epoch>,
    /// As in [`HeadTrainer`].
    pub best: Option<Snapshot>,
    /// As in [`HeadTrainer`].
    pub answers: Vec<u32>,
    /// As in [`HeadTrainer`].
    pub failure: Option<String>,
    /// As in [`HeadTrainer`].
    pub running: Running,
    /// As in [`HeadTrainer`].
    pub losses: Losses,
    /// As in [`HeadTrainer`].
    pub seconds: f64,
}

impl Running {
    /// Sum of losses, right answers, images: for a checkpoint, exactly.
    pub fn to_values(self) -> [f64; 3] {
        [self.loss, self.right as f64, self.images as f64]
    }

    /// What [`to_values`](Self::to_values) gave.
    pub fn from_values([loss, right, images]: [f64; 3]) -> Self {
        Self { loss, right: right as usize, images: images as usize }
    }
}

impl HeadTrainer {
    /// Everything it needs to go on.
    pub fn save(&self) -> Saved {
        Saved {
            params: self.model.params().to_trained(),
            last_finite: self.last_finite.as_ref().map(Params::to_trained).unwrap_or_default(),
            adam: self.adam.to_arrays(),
            history: self.history.clone(),
            best: self.best.clone(),
            answers: self.answers.clone(),
            failure: self.failure.clone(),
            running: self.running,
            losses: self.losses.clone(),
            seconds: self.seconds,
        }
    }

    /// The learner as it was saved; `None` if its parameters are not this head's.
    pub fn restore(self, saved: Saved, device: &Device) -> Option<Self> {
        let last_finite = match saved.last_finite.is_empty() {
            true => None,
            false => Some(self.model.params().clone().restore(&saved.last_finite, device)?),
        };
        let params = self.model.params().clone().restore(&saved.params, device)?;
        let adam = AdamW::from_arrays(&saved.adam, device)?;
        let Saved { history, best, answers, failure, running, losses, seconds, .. } = saved;
        Some(Self {
            name: self.name,
            model: self.model.with_params(params),
            adam,
            history,
            best,
            answers,
            failure,
            running,
            losses,
            seconds,
            last_finite,
        })
    }
}
