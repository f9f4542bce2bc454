//! Hard sort: the sorting permutation itself, with a straight-through gradient (Bengio et al. 2013).
//!
//! Forward `P[i, k] = 1` where token `i` has rank `k` (ties by index); backward the gradient of
//! [`SoftSort`] with `p = 1`, whose best positions are the same ranks.

use burn::tensor::Tensor;

use super::{Router, softsort::SoftSort, sort};
use crate::model::reading::Plan;

/// Sorts, and passes a soft gradient through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardSort {
    /// Temperature of the gradient, above 0; the plan does not depend on it.
    pub temperature: f64,
}

impl Default for HardSort {
    fn default() -> Self {
        Self { temperature: 1.0 }
    }
}

impl Router for HardSort {
    fn plan(&self, scores: &[f64]) -> Plan {
        let n = scores.len();
        let mut share = vec![0.0; n * n];
        sort::ascending(scores).iter().enumerate().for_each(|(k, &i)| share[i * n + k] = 1.0);
        Plan { n, share }
    }

    fn plans(&self, scores: Tensor<2>) -> Tensor<3> {
        let soft = SoftSort { power: 1, temperature: self.temperature }.plans(scores.clone()); // [B, N, N]
        sort::places(scores) + (soft.clone() - soft.detach()) // [B, N, N]: the bracket is exactly 0
    }
}
