//! Routers: in which order the tokens are read (SPEC section 2). One paper a file.
//!
//! Learned routers sort ascending: a high score goes late, where the memory keeps it.

use burn::tensor::Tensor;

use super::reading::Plan;

/// A learned router: from the standardised scores of the tokens to a soft permutation.
///
/// Every router says it twice: [`plan`](Router::plan) in float64 on the host, for explanations;
/// [`plans`](Router::plans) on tensors, differentiable, for training. Tests hold them together.
pub trait Router: Send + Sync {
    /// The plan of one image. `scores`: `[N]`, standardised.
    fn plan(&self, scores: &[f64]) -> Plan;

    /// The plans of a batch. `scores`: `[B, N]`, standardised; returns `[B, N, N]`.
    fn plans(&self, scores: Tensor<2>) -> Tensor<3>;

    /// `P q` for a batch: what every token counts when position `k` counts `gain[k]`.
    /// `scores`: `[B, N]`; `gain`: `[N]`; returns `[B, N]`.
    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
        let gain = gain.reshape([1, -1, 1]); // [1, N, 1]
        self.plans(scores).matmul(gain).squeeze_dim(2) // [B, N]
    }
}

/// `(s - mean) / (std + 1e-6)` with the population standard deviation (SPEC section 1).
pub fn standardise(scores: &[f64]) -> Vec<f64> {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let variance = scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
    scores.iter().map(|s| (s - mean) / (variance.sqrt() + 1e-6)).collect()
}

/// [`standardise`] for every row of a batch, `[B, N]`.
pub fn standardise_batch(scores: Tensor<2>) -> Tensor<2> {
    let centred = scores.clone() - scores.mean_dim(1); // [B, N]
    let deviation = centred.clone().powi_scalar(2).mean_dim(1).sqrt(); // [B, 1]
    centred / (deviation + 1e-6)
}
