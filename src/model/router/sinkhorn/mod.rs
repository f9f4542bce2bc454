//! Sinkhorn sorting: entropic transport from scores to positions (Cuturi, Teboul and Vert 2019).
//!
//! Cost `(s_i - p_k)^2` with `p_k = k / (N - 1)`, `L = -cost / tau`. From `g = 0` repeat
//! `iterations` times `f_i = -logsumexp_k(L + g)`, then `g_k = -logsumexp_i(L + f)`;
//! `P = exp(L + f + g)`. Columns are exact, rows approximate.

mod linear;
mod logarithmic;
mod operation;
mod transport;
mod vectorise;

use burn::tensor::{Device, Tensor, TensorData, activation::log_softmax};

use self::transport::Transport;
use super::{Router, weigh};
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
    /// The iterations of one image on the host.
    fn transport(&self, scores: &[f64]) -> Transport {
        Transport::run(scores, self.temperature, self.iterations.max(1))
    }

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
        (0..self.iterations.max(1)).fold(log_kernel, |log_plan, _| once(log_plan)).exp()
    }

    /// [`Router::token_weights`] through the whole plans: the reference for the quick one.
    pub fn token_weights_plain(&self, scores: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
        weigh(self.plans(scores), gain)
    }
}

impl Router for Sinkhorn {
    fn plan(&self, scores: &[f64]) -> Plan {
        Plan { n: scores.len(), share: self.transport(scores).plan() }
    }

    fn token_weights_host(&self, scores: &[f64], gain: &[f64]) -> Vec<f64> {
        self.transport(scores).weights(gain)
    }

    fn plans(&self, scores: Tensor<2>) -> Tensor<3> {
        self.balance(self.log_kernel(scores))
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>) -> Tensor<2> {
        if scores.device().without_autodiff() == Device::flex() {
            return operation::token_weights(scores, gain, self.temperature, self.iterations.max(1));
        }
        self.token_weights_plain(scores, gain)
    }
}

/// `0, 1, ..., N-1` as `[1, 1, N]`.
fn positions(n: usize, device: &Device) -> Tensor<3> {
    let data = (0..n).map(|k| k as f32).collect();
    Tensor::from_data(TensorData::new::<f32, _>(data, [1, 1, n]), device)
}
