//! Pooling: what most heads do with the patch tokens, however they come by their weights.
//!
//! `scores = queries . t_i`, `weights = rule(scores, gains)`, `pooled_m = sum_i weights[m, i] t_i`.
//! GAP, attention, every S4 with shared parameters behind any order: a head says what it asks
//! ([`Pooling`]), and the tokens are read for all of them alike. On the CPU that is one reading of
//! memory each way ([`pass`]), shared by all heads that train together; elsewhere two products.

mod operation;
pub mod pass;
mod products;
pub(crate) mod token_batch;
pub mod weight_rule;

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use self::pass::{Gradient, PoolRequest};
use self::weight_rule::WeightRule;
use super::cpu::{host, on_cpu};
use crate::model::ops::matmul::PreciseMatmul as _;

/// What one head asks of the patch tokens.
#[derive(Clone)]
pub struct Pooling {
    /// What every token is multiplied with, `[Q, d]`; absent where weights do not look at the tokens.
    pub queries: Option<Tensor<2>>,
    /// What the weights depend on beside the scores, for all images alike: gains of positions `[G, N]`, say.
    pub gains: Option<Tensor<2>>,
    /// From scores and gains to weights.
    pub rule: Arc<dyn WeightRule>,
}

impl Pooling {
    /// A pooling whose weights look at nothing but the scores.
    pub fn by_scores(queries: Tensor<2>, rule: impl WeightRule + 'static) -> Self {
        Self { queries: Some(queries), gains: None, rule: Arc::new(rule) }
    }

    /// A pooling whose weights look at no token.
    pub fn by_gains(gains: Tensor<2>, rule: impl WeightRule + 'static) -> Self {
        Self { queries: None, gains: Some(gains), rule: Arc::new(rule) }
    }

    /// The mean.
    pub fn uniform() -> Self {
        Self { queries: None, gains: None, rule: Arc::new(weight_rule::UniformWeights) }
    }

    /// The shape of what it makes of `[B, N, d]`: `[B, M, d]`, or `[B, M, d + 1]` where its rule
    /// [counts](WeightRule::counts).
    pub fn shape(&self, images: usize, width: usize) -> [usize; 3] {
        [images, self.rule.pools(), width + usize::from(self.rule.counts())]
    }

    /// The pooled tokens of `[B, N, d]` in this [shape](Self::shape); differentiable in queries and gains.
    pub fn pool(&self, tokens: &Tensor<3>) -> Tensor<3> {
        match on_cpu(&tokens.device()) && tokens.dtype() != DType::F64 {
            true => operation::pool(self, tokens),
            false => self.pool_plain(tokens),
        }
    }

    /// [`pool`](Self::pool) by elementary operations: for other devices, in float64, and the reference for
    /// the CPU's own.
    pub fn pool_plain(&self, tokens: &Tensor<3>) -> Tensor<3> {
        let scores = self.queries.clone().map(|queries| {
            let scores = tokens.clone().precise_matmul(queries.transpose().unsqueeze_dim(0)); // [B, N, Q]
            scores.swap_dims(1, 2) // [B, Q, N]
        });
        let weights = self.rule.weights(tokens, scores, self.gains.clone()); // [B or 1, M, N]
        let pooled = weights.clone().precise_matmul(tokens.clone()); // [B, M, d]
        if !self.rule.counts() {
            return pooled;
        }
        let sums = weights.sum_dim(2).expand([tokens.dims()[0], self.rule.pools(), 1]);
        Tensor::cat(vec![pooled, sums], 2)
    }

    /// This pooling as a [`Pass`](pass::Pass) takes it. On the CPU only.
    pub fn request(&self) -> PoolRequest {
        let values = |tensor: &Option<Tensor<2>>| tensor.clone().map(host).unwrap_or_default();
        let gains = values(&self.gains).into_iter().map(f64::from).collect();
        PoolRequest { queries: values(&self.queries), gains, rule: self.rule.clone() }
    }

    /// A scalar whose gradient in queries and gains is this one: it carries what a
    /// [`Pass`](pass::Pass) gave into burn's graph.
    pub fn carry(&self, gradient: Gradient) -> Option<Tensor<1>> {
        let part = |tensor: &Option<Tensor<2>>, values: Vec<f32>| {
            let tensor = tensor.clone()?;
            let by = Tensor::<2>::from_data(TensorData::new(values, tensor.dims()), &tensor.device());
            Some((tensor * by).sum())
        };
        let queries = part(&self.queries, gradient.queries);
        let gains = part(&self.gains, gradient.gains.into_iter().map(|x| x as f32).collect());
        queries.into_iter().chain(gains).reduce(|sum, part| sum + part)
    }
}
