//! A head between two steps, as a checkpoint holds it: restored, it goes on to the same bits.

use burn::tensor::Device;

use super::{HeadProgress, HeadTrainer, Running};
use crate::model::io::array::Arrays;
use crate::model::probe::params::Params;

/// A head between two steps, on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Trained values, bit for bit as the optimiser left them.
    pub params: Arrays,
    /// Those of the step before, which a loss that breaks falls back to; empty where there is none.
    pub last_finite: Arrays,
    /// The optimiser's state.
    pub adam: Arrays,
    /// How far it has come.
    pub progress: HeadProgress,
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
            adam: self.optimizer.to_arrays(),
            progress: self.progress.clone(),
        }
    }

    /// The head as it was saved; `None` if its parameters are not this head's.
    pub fn restore(
        self,
        Saved { params, last_finite, adam, progress }: Saved,
        device: &Device,
    ) -> Option<Self> {
        let own = self.model.params().clone();
        let restored = |arrays: &Arrays| own.clone().restore(arrays, device);
        let last_finite = if last_finite.is_empty() { None } else { Some(restored(&last_finite)?) };
        let (params, optimizer) = (restored(&params)?, self.optimizer.restore(&adam, device)?);
        Some(Self { model: self.model.with_params(params), optimizer, progress, last_finite, ..self })
    }
}
