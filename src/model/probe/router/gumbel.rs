//! Gumbel-Sinkhorn: sorting that explores while it trains (Mena et al. 2018).
//!
//! While training, independent Gumbel noise `-ln(-ln U)` times `noise` is added to every entry of
//! Sinkhorn's `L`, from the seed of the image; in evaluation there is none, and the router is
//! [`Sinkhorn`] to the letter.

use burn::tensor::Tensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Routed, Router, RouterSpec, sinkhorn::Sinkhorn};
use crate::model::probe::head_output::Plan;
use crate::model::probe::settings::Config;

/// Its entry in the [list](super::ROUTERS) of routers.
pub const SPEC: RouterSpec = RouterSpec {
    id: "gumbel-sinkhorn",
    name: "Gumbel-Sinkhorn",
    summary: "S4 behind Sinkhorn with noise while it trains",
    mechanism: "Doubly stochastic, with noise",
    table_row: 4,
    in_paper: false,
    paper_cost: None,
    build: |config| Ok(Box::new(GumbelSinkhorn { sinkhorn: Sinkhorn::new(config)?, noise: 1.0 })),
};

/// Sinkhorn with Gumbel noise on its log kernel while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GumbelSinkhorn {
    /// The sorting behind the noise.
    pub sinkhorn: Sinkhorn,
    /// Scale of the noise, at least 0.
    pub noise: f64,
}

impl Router for GumbelSinkhorn {
    fn id(&self) -> &'static str {
        SPEC.id
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

    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        let noise = self.noise([1, scores.len()], image_seed.as_slice());
        self.sinkhorn.noisy_route(scores, &noise)
    }

    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        let noise = self.noise(scores.dims(), image_seeds.unwrap_or_default());
        self.sinkhorn.noisy_plans(scores, noise)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        let noise = self.noise(scores.dims(), image_seeds.unwrap_or_default());
        self.sinkhorn.noisy_token_weights(scores, gain, noise)
    }
}

impl GumbelSinkhorn {
    /// The noise of a batch, `[B, N, N]` row-major, one seed an image; nothing without seeds.
    ///
    /// # Panics
    /// If there are seeds, but not one for every image: a bug of the caller.
    pub fn noise(&self, [images, n]: [usize; 2], image_seeds: &[u64]) -> Vec<f32> {
        assert!(image_seeds.is_empty() || image_seeds.len() == images, "one seed for every image");
        image_seeds
            .iter()
            .flat_map(|&image_seed| gumbel(image_seed, n * n))
            .map(|x| x * self.noise as f32)
            .collect()
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
