//! The scorer: one linear score per token, standardised over the tokens (docs/definitions.md, section 1).
//!
//! `s = w . t_i` with `scorer.weight` `[1, d]` as `nn.Linear(d, 1, bias=False)`, then
//! `(s - mean) / (std + 1e-6)` over the N tokens of the image.

use std::sync::Arc;

use super::prelude::*;
use crate::model::probe::router::learned_weights::RoutedWeights;
use crate::model::probe::router::{Router, standardise};

/// The scorer's only parameter, with PyTorch's default initialisation.
pub fn spec(width: usize) -> Spec {
    Spec::new("scorer.weight", [1, width], Init::Uniform(1.0 / (width as f32).sqrt()))
}

/// The scorer's weight as the only query of a pooling, `[1, d]`.
pub fn query(params: &Params) -> Tensor<2> {
    params.get::<2>("scorer.weight")
}

/// The pooling by scorer and router: M weighted sums of the routed tokens, with `gains` `[M, N]` by position.
pub fn routed(params: &Params, router: &Arc<dyn Router>, gains: Tensor<2>, batch: &Batch) -> Pooling {
    let (pools, image_seeds) = (gains.dims()[0], batch.training_seeds());
    let rule = Arc::new(RoutedWeights { router: router.clone(), pools, image_seeds });
    Pooling { queries: Some(query(params)), gains: Some(gains), rule }
}

/// Standardised scores of one image in float64, `[N]`.
pub fn scores_host(params: &Arrays, tokens: &Tokens) -> Vec<f64> {
    standardise(&dots(&params["scorer.weight"].data, tokens))
}

/// `v . t_i` for every patch token in float64, `[N]`. `v`: `[d]`.
pub fn dots(v: &[f32], tokens: &Tokens) -> Vec<f64> {
    let dot = |t: &[f32]| v.iter().zip(t).map(|(&v, &t)| f64::from(v) * f64::from(t)).sum();
    (0..tokens.grid.len()).map(|i| dot(tokens.patch(i))).collect()
}
