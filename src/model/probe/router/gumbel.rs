//! Gumbel-Sinkhorn: sorting that explores while it trains (Mena et al. 2018).
//!
//! While training, independent Gumbel noise `-ln(-ln U)` times `noise` is added to every entry of
//! Sinkhorn's `L`, from the seed of the image; in evaluation there is none, and the router is
//! [`Sinkhorn`] to the letter.

use burn::tensor::Tensor;

use super::sinkhorn::{Sinkhorn, noise::Noise};
use super::{Routed, Router, RouterSpec};
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

    fn draws(&self) -> bool {
        true
    }

    fn flops(&self, n: u64) -> u64 {
        self.sinkhorn.flops(n)
    }

    fn plan(&self, scores: &[f64]) -> Plan {
        self.sinkhorn.plan(scores)
    }

    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        self.sinkhorn.noisy_route(scores, self.noise([1, scores.len()], image_seed.as_slice()))
    }

    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        let noise = self.drawn(scores.dims(), image_seeds);
        self.sinkhorn.noisy_plans(scores, noise)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        let noise = self.drawn(scores.dims(), image_seeds);
        self.sinkhorn.noisy_token_weights(scores, gain, noise)
    }
}

impl GumbelSinkhorn {
    /// The noise of a batch, `[B, N, N]` row-major, one seed an image; nothing without seeds.
    ///
    /// # Panics
    /// If there are seeds, but not one for every image: a bug of the caller.
    pub fn noise(&self, [images, n]: [usize; 2], image_seeds: &[u64]) -> Vec<f32> {
        let drawn = self.drawn([images, n], (!image_seeds.is_empty()).then_some(image_seeds));
        drawn.map_or(vec![], |noise| (0..images).flat_map(|image| noise.table(image, n)).collect())
    }

    /// What is drawn from one seed an image.
    fn drawn(&self, [images, _]: [usize; 2], image_seeds: Option<&[u64]>) -> Option<Noise> {
        let image_seeds = image_seeds?.to_vec();
        assert_eq!(image_seeds.len(), images, "one seed for every image");
        Some(Noise { image_seeds, scale: self.noise as f32 })
    }
}
