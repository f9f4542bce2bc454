//! Gumbel-Sinkhorn: Sinkhorn sorting with Gumbel noise during training (Mena et al. 2018).
//!
//! In training, independent Gumbel noise `-ln(-ln U)`, drawn from the seed of the image, is added to every entry of
//! Sinkhorn's `L`; in evaluation there is none, and the router is exactly [`Sinkhorn`].

use burn::tensor::Tensor;

use super::sinkhorn::Sinkhorn;
use super::sinkhorn::noise::{self, Noise};
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
    build: |config| Ok(Box::new(GumbelSinkhorn { sinkhorn: Sinkhorn::new(config)? })),
};

/// Sinkhorn with Gumbel noise on its log kernel while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GumbelSinkhorn {
    /// The router that the noise is added to.
    pub sinkhorn: Sinkhorn,
}

impl Router for GumbelSinkhorn {
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
        let noise = image_seed.map(|seed| noise::table(seed, scores.len()));
        self.sinkhorn.noisy_route(scores, noise.unwrap_or_default())
    }

    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        let noise = noise_of(&scores, image_seeds);
        self.sinkhorn.noisy_plans(scores, noise)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        let noise = noise_of(&scores, image_seeds);
        self.sinkhorn.noisy_token_weights(scores, gain, noise)
    }
}

/// The noise of a batch of scores `[B, N]`, from one seed per image; `None` without seeds.
///
/// # Panics
/// If there are seeds, but not one for every image: a bug of the caller.
fn noise_of(scores: &Tensor<2>, image_seeds: Option<&[u64]>) -> Option<Noise> {
    let image_seeds = image_seeds?.to_vec();
    assert_eq!(image_seeds.len(), scores.dims()[0], "one seed for every image");
    Some(Noise { image_seeds })
}
