//! SoftSort: a softmax over the distances to the sorted scores (Prillo and Eisenschlos 2020).
//!
//! With `a` the scores in ascending order, `P[i, k] = softmax_i(-|a_k - s_i|^p / tau)`. Columns are
//! exact softmaxes. With `p = 1` each token's best position is its own rank; `p = 2` shows the
//! paper's collapse to the edges. Every exponent is at most 0 and one of each column is exactly 0,
//! so that float32 neither overflows nor loses more than a few ulp.

use burn::tensor::{Tensor, activation::softmax};

use super::{Router, sort};
use crate::model::reading::Plan;

/// Sorts softly through the distances to the sorted scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftSort {
    /// Exponent of the distance, 1 or 2.
    pub power: u32,
    /// Temperature, above 0.
    pub temperature: f64,
}

impl Default for SoftSort {
    fn default() -> Self {
        Self { power: 2, temperature: 1.0 }
    }
}

impl Router for SoftSort {
    fn plan(&self, scores: &[f64]) -> Plan {
        let n = scores.len();
        let mut share = vec![0.0; n * n];
        for (k, &rank) in sort::ascending(scores).iter().enumerate() {
            let distance = |s: f64| (scores[rank] - s).abs().powi(self.power as i32);
            let column: Vec<f64> = scores.iter().map(|&s| (-distance(s) / self.temperature).exp()).collect();
            let total: f64 = column.iter().sum();
            column.iter().enumerate().for_each(|(i, e)| share[i * n + k] = e / total);
        }
        Plan { n, share }
    }

    fn plans(&self, scores: Tensor<2>) -> Tensor<3> {
        let sorted = sort::sorted(scores.clone(), sort::places(scores.clone())); // [B, N]
        let difference = sorted.unsqueeze_dim::<3>(1) - scores.unsqueeze_dim::<3>(2); // [B, N (i), N (k)]
        let distance = if self.power == 1 { difference.abs() } else { difference.clone() * difference };
        softmax(distance / (-self.temperature), 1) // [B, N, N]
    }
}
