//! Gumbel-Sinkhorn: Sinkhorn sorting with Gumbel noise during training (Mena et al. 2018).
//!
//! In training, independent Gumbel noise `-ln(-ln U)` times `noise`, drawn from the seed of the image, is added to
//! every entry of Sinkhorn's `L`; in evaluation there is none, and the router is exactly [`Sinkhorn`].

use burn::tensor::Tensor;

use super::sinkhorn::{Sinkhorn, noise::Noise};
use super::{Routed, Router, RouterSpec};
use crate::model::probe::head_output::{Plan, PlanRows};
use crate::model::probe::settings::Config;

/// Its entry in [`ROUTERS`](super::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "gumbel-sinkhorn",
    name: "Gumbel-Sinkhorn",
    summary: "S4 behind Sinkhorn, with noise in training",
    mechanism: "Doubly stochastic, with noise",
    table_row: 4,
    in_paper: false,
    paper_cost: None,
    build: |config| Ok(Box::new(GumbelSinkhorn { sinkhorn: Sinkhorn::new(config)?, noise: 1.0 })),
};

/// Sinkhorn with Gumbel noise on its log kernel while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GumbelSinkhorn {
    /// The router that the noise is added to.
    pub sinkhorn: Sinkhorn,
    /// Factor of the standard Gumbel noise, at least 0.
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

    fn rows(&self, scores: &[f64]) -> Box<dyn PlanRows> {
        self.sinkhorn.rows(scores)
    }

    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        self.sinkhorn.noisy_route(scores, self.noise([1, scores.len()], image_seed.as_slice()))
    }

    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        let noise = self.seeded_noise(scores.dims(), image_seeds);
        self.sinkhorn.noisy_plans(scores, noise)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        let noise = self.seeded_noise(scores.dims(), image_seeds);
        self.sinkhorn.noisy_token_weights(scores, gain, noise)
    }
}

impl GumbelSinkhorn {
    /// The noise of a batch, `[B, N, N]` row-major, from one seed per image; empty without seeds.
    ///
    /// # Panics
    /// If there are seeds, but not one for every image: a bug of the caller.
    pub fn noise(&self, [images, n]: [usize; 2], image_seeds: &[u64]) -> Vec<f32> {
        let noise = self.seeded_noise([images, n], (!image_seeds.is_empty()).then_some(image_seeds));
        noise.map_or(vec![], |noise| (0..images).flat_map(|image| noise.table(image, n)).collect())
    }

    /// The noise of these seeds, one per image; `None` without seeds.
    fn seeded_noise(&self, [images, _]: [usize; 2], image_seeds: Option<&[u64]>) -> Option<Noise> {
        let image_seeds = image_seeds?.to_vec();
        assert_eq!(image_seeds.len(), images, "one seed for every image");
        Some(Noise { image_seeds, scale: self.noise as f32 })
    }
}
