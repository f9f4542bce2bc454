//! Pooling: the weighted sums of patch tokens that most heads compute, whatever their weights depend on.
//!
//! `scores = queries . t_i`, `weights = rule(scores, gains)`, `pooled_m = sum_i weights[m, i] t_i`.
//! GAP, attention and every S4 with shared parameters, behind any order, are such sums: a head describes its
//! own as a [`Pooling`]. On the CPU all heads that train together share one read of the tokens forward and
//! one backward ([`pass`]); on other devices a pooling is two matrix products.

mod clock;
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

/// The pooling of one head.
#[derive(Clone)]
pub struct Pooling {
    /// Vectors that every token is multiplied with, `[Q, d]`; absent where the weights do not depend on the tokens.
    pub queries: Option<Tensor<2>>,
    /// What the weights depend on besides the scores, the same for all images: gains of positions `[G, N]`, say.
    pub gains: Option<Tensor<2>>,
    /// Computes the weights from scores and gains.
    pub rule: Arc<dyn WeightRule>,
}

impl Pooling {
    /// A pooling whose weights depend on the scores alone.
    pub fn by_scores(queries: Tensor<2>, rule: impl WeightRule + 'static) -> Self {
        Self { queries: Some(queries), gains: None, rule: Arc::new(rule) }
    }

    /// A pooling whose weights depend on gains alone, not on the tokens.
    pub fn by_gains(gains: Tensor<2>, rule: impl WeightRule + 'static) -> Self {
        Self { queries: None, gains: Some(gains), rule: Arc::new(rule) }
    }

    /// The mean of all tokens.
    pub fn uniform() -> Self {
        Self { queries: None, gains: None, rule: Arc::new(weight_rule::UniformWeights) }
    }

    /// The shape of the pooled tokens of `[B, N, d]`: `[B, M, d]`, or `[B, M, d + 1]` where the sum of the
    /// weights follows ([`WeightRule::appends_sums`]).
    pub fn shape(&self, images: usize, width: usize) -> [usize; 3] {
        [images, self.rule.pools(), width + usize::from(self.rule.appends_sums())]
    }

    /// The pooled tokens of `[B, N, d]` in this [shape](Self::shape); differentiable in queries and gains.
    pub fn pool(&self, tokens: &Tensor<3>) -> Tensor<3> {
        match on_cpu(&tokens.device()) && tokens.dtype() != DType::F64 {
            true => operation::pool(self, tokens),
            false => self.pool_plain(tokens),
        }
    }

    /// What a [`Pass`](pass::Pass) over `tokens` `[B, N, d]` answered this pooling's request, as a tensor of this [shape](Self::shape).
    pub fn tensor(&self, pooled: Vec<f32>, tokens: &Tensor<3>) -> Tensor<3> {
        let [images, _, width] = tokens.dims();
        Tensor::from_data(TensorData::new(pooled, self.shape(images, width)), &tokens.device())
    }

    /// [`pool`](Self::pool) by burn's own operations: for GPUs and for float64, and the reference for the
    /// CPU's kernel.
    pub fn pool_plain(&self, tokens: &Tensor<3>) -> Tensor<3> {
        let scores = self.queries.clone().map(|queries| {
            let scores = tokens.clone().precise_matmul(queries.transpose().unsqueeze_dim(0)); // [B, N, Q]
            scores.swap_dims(1, 2) // [B, Q, N]
        });
        let weights = self.rule.weights(tokens, scores, self.gains.clone()); // [B or 1, M, N]
        let pooled = weights.clone().precise_matmul(tokens.clone()); // [B, M, d]
        if !self.rule.appends_sums() {
            return pooled;
        }
        let sums = weights.sum_dim(2).expand([tokens.dims()[0], self.rule.pools(), 1]);
        Tensor::cat(vec![pooled, sums], 2)
    }

    /// This pooling as a request to a [`Pass`](pass::Pass). On the CPU only.
    pub fn request(&self) -> PoolRequest {
        let values = |tensor: &Option<Tensor<2>>| tensor.clone().map(host).unwrap_or_default();
        let gains = values(&self.gains).into_iter().map(f64::from).collect();
        PoolRequest { queries: values(&self.queries), gains, rule: self.rule.clone() }
    }

    /// A scalar whose gradient with respect to queries and gains is `gradient`: it brings the gradient that a
    /// [`Pass`](pass::Pass) computed into burn's graph. None if the pooling has neither.
    pub fn surrogate_loss(&self, gradient: Gradient) -> Option<Tensor<1>> {
        let term = |tensor: &Option<Tensor<2>>, values: Vec<f32>| {
            let tensor = tensor.clone()?;
            let grad = Tensor::<2>::from_data(TensorData::new(values, tensor.dims()), &tensor.device());
            Some((tensor * grad).sum())
        };
        let queries = term(&self.queries, gradient.queries);
        let gains = term(&self.gains, gradient.gains.into_iter().map(|x| x as f32).collect());
        queries.into_iter().chain(gains).reduce(|sum, term| sum + term)
    }
}
