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

    /// Restores a saved state; `None` if its parameters or optimiser state do not fit this head, or each other.
    pub fn restore(
        self,
        Saved { params, last_finite, optimizer, progress }: Saved,
        device: &Device,
    ) -> Option<Self> {
        // Both are there from the first step on; alone, an optimiser without state would begin anew.
        if !last_finite.is_empty() && optimizer.is_empty() {
            return None;
        }
        let own = self.model.params();
        let restored = |arrays: &Arrays| own.clone().restore(arrays, device);
        let last_finite = if last_finite.is_empty() { None } else { Some(restored(&last_finite)?) };
        let (params, optimizer) = (restored(&params)?, self.optimizer.restore(&optimizer, own, device)?);
        Some(Self { model: self.model.with_params(params), optimizer, progress, last_finite, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::train::gpus_alone::{batch, trainer};
    use crate::model::train::protocol::Protocol;
    use crate::model::train::step::step_all;

    /// For SGD no other array distinguishes a lost velocity from a state before the first step.
    #[test]
    fn a_state_after_a_step_without_that_of_the_optimiser_is_refused() {
        let device = Device::flex();
        let (batch, labels) = batch(0, 2, &device);
        for protocol in [Protocol::Paper, Protocol::Dinov2Linear, Protocol::MaeLinprobe] {
            let fresh = || HeadTrainer { optimizer: protocol.optimizer(), ..trainer("gap", &device) };
            let fits = |saved: Saved| fresh().restore(saved, &device).is_some();
            let mut trainers = [fresh()];
            assert!(fits(trainers[0].save()));
            step_all(&mut trainers, &batch, &labels, |_| 1e-3);
            let saved = trainers[0].save();
            assert!(fits(saved.clone()));
            assert!(!fits(Saved { optimizer: Arrays::default(), ..saved }));
        }
    }
}
