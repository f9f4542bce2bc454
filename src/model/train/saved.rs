//! The state of a head between two steps, for a checkpoint: a restored head trains on to the same bits.

use burn::tensor::Device;

use super::{HeadProgress, HeadTrainer, Running};
use crate::model::io::array::Arrays;
use crate::model::probe::params::Params;

/// The state of a head between two steps, on the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Saved {
    /// Trained values, exactly as the optimiser left them.
    pub params: Arrays,
    /// Those before the last step, restored if the next loss is not finite; empty if there are none.
    pub last_finite: Arrays,
    /// The state of the optimiser.
    pub optimizer: Arrays,
    /// Its history and current sums.
    pub progress: HeadProgress,
}

impl Running {
    /// Sum of losses, correct predictions and images, exact in float64, for a checkpoint.
    pub fn to_values(self) -> [f64; 3] {
        [self.loss, self.right as f64, self.images as f64]
    }

    /// The inverse of [`to_values`](Self::to_values).
    pub fn from_values([loss, right, images]: [f64; 3]) -> Self {
        Self { loss, right: right as usize, images: images as usize }
    }
}

impl HeadTrainer {
    /// Everything it needs to resume training.
    pub fn save(&self) -> Saved {
        Saved {
            params: self.model.params().to_trained(),
            last_finite: self.last_finite.as_ref().map(Params::to_trained).unwrap_or_default(),
            optimizer: self.optimizer.to_arrays(),
            progress: self.progress.clone(),
        }
    }

    /// Restores a saved state; `None` if its parameters or optimiser state do not fit this head.
    pub fn restore(
        self,
        Saved { params, last_finite, optimizer, progress }: Saved,
        device: &Device,
    ) -> Option<Self> {
        let own = self.model.params();
        let restored = |arrays: &Arrays| own.clone().restore(arrays, device);
        let last_finite = if last_finite.is_empty() { None } else { Some(restored(&last_finite)?) };
        let (params, optimizer) = (restored(&params)?, self.optimizer.restore(&optimizer, own, device)?);
        Some(Self { model: self.model.with_params(params), optimizer, progress, last_finite, ..self })
    }
}
