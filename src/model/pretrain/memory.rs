//! Main memory that a step takes on the CPU, and how many of its parts fit at a time.

use burn::tensor::Device;

use super::masked::{LAYERS, WIDTH};
use super::{Objective, Plan};

/// Copies of the weights besides the gradients of the parts: the weights, two moments, and the sum of the gradients.
const COPIES: u64 = 4;

impl Plan {
    /// Bytes that a part of a step takes on the CPU: what its backward pass needs, and its gradients. `None` if a step is not
    /// computed in parts.
    pub fn part_bytes(&self, device: &Device) -> Option<u64> {
        let pictures = self.recipe.part.filter(|_| self.fuses(device))?.min(self.batch);
        // A layer keeps 16 values per channel of a token, 8 of them in the feed-forward network, and its attention weights twice.
        let layer = |tokens: usize, width: usize| 16 * tokens * width + 2 * (width / 32) * tokens.pow(2);
        let activations = match self.objective {
            Objective::Masked => {
                self.layers * layer(1 + self.visible(), self.width) + LAYERS * layer(1 + self.tokens(), WIDTH)
            }
            Objective::Supervised => self.layers * layer(1 + self.tokens(), self.width),
        };
        Some(4 * (pictures * activations) as u64 + self.weight_bytes())
    }

    /// Bytes of the encoder's weights, but for what is small beside its layers.
    fn weight_bytes(&self) -> u64 {
        4 * (12 * self.layers * self.width.pow(2)) as u64
    }

    /// Number of parts of a step to compute at a time on this many threads, with `free` bytes of memory; at least 1.
    pub(super) fn parts_at_once(&self, device: &Device, threads: usize, free: u64) -> usize {
        let free = free.saturating_sub(COPIES * self.weight_bytes());
        let fitting = self.part_bytes(device).map_or(u64::MAX, |bytes| free / bytes.max(1));
        usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::pretrain::Recipe;

    /// A ViT-S/16 took 3.15 GB per thread supervised and 0.73 GB as a masked autoencoder.
    #[test]
    fn what_a_part_takes_is_what_was_measured_and_as_many_are_computed_at_a_time_as_fit() {
        let recipe = Recipe { side: 224, patch: 16, mask_ratio: 0.75, part: Some(32), ..Recipe::SCENES };
        let objective = Objective::Supervised;
        let plan =
            Plan { objective, width: 384, layers: 12, steps: 1, batch: 256, rate: 1e-3, seed: 0, recipe };
        let device = Device::flex();
        let bytes = |plan: &Plan| plan.part_bytes(&device).unwrap();
        assert_eq!(bytes(&plan), 3_374_714_880);
        assert_eq!(bytes(&Plan { objective: Objective::Masked, ..plan }), 740_336_640);
        assert!(bytes(&Plan { batch: 8, ..plan }) < bytes(&plan) / 3);
        let at_once = |free| plan.parts_at_once(&device, 3, free);
        assert_eq!([0, 4 << 30, 8 << 30, 100 << 30].map(at_once), [1, 1, 2, 3]);
        let whole = Plan { recipe: Recipe { part: None, ..recipe }, ..plan };
        assert_eq!((whole.part_bytes(&device), whole.parts_at_once(&device, 3, 0)), (None, 3));
    }
}
