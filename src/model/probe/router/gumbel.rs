//! Gumbel-Sinkhorn: sorting that explores while it trains (Mena et al. 2018).
//!
//! While training, independent Gumbel noise `-ln(-ln U)` times `noise` is added to every entry of
//! Sinkhorn's `L`, seeded by the image's draw; in evaluation there is none, and the router is
//! [`Sinkhorn`] to the letter.

use burn::tensor::Tensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Routed, Router, sinkhorn::Sinkhorn};
use crate::model::probe::head_output::Plan;
use crate::model::probe::settings::Config;

/// Sinkhorn with Gumbel noise on its log kernel while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GumbelSinkhorn {
    /// The sorting behind the noise.
    pub sinkhorn: Sinkhorn,
    /// Scale of the noise, at least 0.
    pub noise: f64,
}

impl Default for GumbelSinkhorn {
    fn default() -> Self {
        Self { sinkhorn: Sinkhorn::default(), noise: 1.0 }
    }
}

impl Router for GumbelSinkhorn {
    fn id(&self) -> &'static str {
        "gumbel-sinkhorn"
    }

    fn settings(&self) -> Config {
        self.sinkhorn.settings()
    }

    fn flops(&self, n: u64) -> u64 {
        self.sinkhorn.flops(n)
    }

    fn plan(&self, scores: &[f64]) -> Plan {
        self.sinkhorn.plan(scores)
    }

    fn route(&self, scores: &[f64], draw: Option<u64>) -> Box<dyn Routed> {
        let noise = draw.map(|draw| self.noise([1, scores.len()], &[draw])).unwrap_or_default();
        self.sinkhorn.noisy_route(scores, &noise)
    }

    fn plans(&self, scores: Tensor<2>) -> Tensor<3> {
        self.sinkhorn.plans(scores)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
        self.sinkhorn.token_weights(scores, gain)
    }

    fn training_plans(&self, scores: Tensor<2>, draws: &[u64]) -> Tensor<3> {
        let noise = self.noise(scores.dims(), draws);
        self.sinkhorn.noisy_plans(scores, noise)
    }

    fn training_token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, draws: &[u64]) -> Tensor<2> {
        let noise = self.noise(scores.dims(), draws);
        self.sinkhorn.noisy_token_weights(scores, gain, noise)
    }
}

impl GumbelSinkhorn {
    /// The noise of a batch, `[B, N, N]` row-major, one seed an image.
    ///
    /// # Panics
    /// If there is not one draw for every image: a bug of the caller.
    pub fn noise(&self, [images, n]: [usize; 2], draws: &[u64]) -> Vec<f32> {
        assert_eq!(images, draws.len(), "one draw for every image");
        draws.iter().flat_map(|&draw| gumbel(draw, n * n)).map(|x| x * self.noise as f32).collect()
    }
}

/// `count` standard Gumbel values from one seed.
fn gumbel(seed: u64, count: usize) -> impl Iterator<Item = f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // The half step keeps the uniform value within (0, 1): both logarithms are finite.
    (0..count).map(move |_| {
        let uniform = (f64::from(rng.random::<u32>()) + 0.5) / 2f64.powi(32);
        (-(-uniform.ln()).ln()) as f32
    })
}
