//! Sinkhorn sorting: entropic transport from scores to positions (Cuturi, Teboul and Vert 2019).
//!
//! Cost `(s_i - p_k)^2` with `p_k = k / (N - 1)`, `L = -cost / tau`. From `g = 0` repeat
//! `iterations` times `f_i = -logsumexp_k(L + g)`, then `g_k = -logsumexp_i(L + f)`;
//! `P = exp(L + f + g)`. Columns are exact, rows approximate.

use burn::tensor::{Device, Tensor, TensorData, activation::log_softmax};

use super::Router;
use crate::model::reading::Plan;

/// Sorts softly by moving the tokens to the positions at least cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinkhorn {
    /// Temperature tau, above 0.
    pub temperature: f64,
    /// How many times rows and columns are normalised, at least 1.
    pub iterations: usize,
}

impl Default for Sinkhorn {
    fn default() -> Self {
        Self { temperature: 0.1, iterations: 20 }
    }
}

impl Sinkhorn {
    /// The log kernel of a batch, each row less its largest value: rows are normalised first, so a
    /// constant of a row counts for nothing. `scores`: `[B, N]`; returns `[B, N, N]`.
    ///
    /// With `c` the position nearest to `s_i`,
    /// `L[i, k] - L[i, c] = (p_k - p_c) (2 s_i - p_k - p_c) / tau`: near `c`, where the plan lives,
    /// both sides stay small, while `s_i^2 / tau` alone would eat float32 whole.
    pub(super) fn log_kernel(&self, scores: Tensor<2>) -> Tensor<3> {
        let [_, n] = scores.dims();
        let last = n.saturating_sub(1).max(1) as f64;
        let positions = positions(n, &scores.device()); // [1, 1, N], k
        let scores = scores.unsqueeze_dim::<3>(2); // [B, N, 1]
        let nearest = (scores.clone().detach() * last).round().clamp(0.0, last); // [B, N, 1], c
        let apart = (positions.clone() - nearest.clone()) / last; // [B, N, N]: p_k - p_c
        let both = (positions + nearest) / last; // [B, N, N]: p_k + p_c
        apart * (scores * 2.0 - both) / self.temperature
    }

    /// Normalises rows and columns in turn, in the log domain: the plan itself is carried, so that
    /// the entries that count stay near 0, where float32 is finest. `[B, N, N]` to `[B, N, N]`.
    pub(super) fn balance(&self, log_kernel: Tensor<3>) -> Tensor<3> {
        let once = |log_plan: Tensor<3>| log_softmax(log_softmax(log_plan, 2), 1);
        (0..self.iterations).fold(log_kernel, |log_plan, _| once(log_plan)).exp()
    }

    /// [`Router::token_weights`] through the whole plans: the reference for the quick one.
    pub fn token_weights_plain(&self, scores: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
        self.plans(scores).matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
    }
}

impl Router for Sinkhorn {
    fn plan(&self, scores: &[f64]) -> Plan {
        let n = scores.len();
        let last = n.saturating_sub(1).max(1) as f64;
        let log_kernel = |i: usize, k: usize| -(scores[i] - k as f64 / last).powi(2) / self.temperature;
        let (mut f, mut g) = (vec![0.0; n], vec![0.0; n]);
        for _ in 0..self.iterations {
            (0..n).for_each(|i| f[i] = -log_sum_exp((0..n).map(|k| log_kernel(i, k) + g[k])));
            (0..n).for_each(|k| g[k] = -log_sum_exp((0..n).map(|i| log_kernel(i, k) + f[i])));
        }
        let entry = |at: usize| (log_kernel(at / n, at % n) + f[at / n] + g[at % n]).exp();
        Plan { n, share: (0..n * n).map(entry).collect() }
    }

    fn plans(&self, scores: Tensor<2>) -> Tensor<3> {
        self.balance(self.log_kernel(scores))
    }
}

/// `ln sum exp(x)`.
fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    top + values.map(|x| (x - top).exp()).sum::<f64>().ln()
}

/// `0, 1, ..., N-1` as `[1, 1, N]`.
fn positions(n: usize, device: &Device) -> Tensor<3> {
    let data = (0..n).map(|k| k as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(data, [1, 1, n]), device)
}
