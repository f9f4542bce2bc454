//! SoftSort: a softmax over the distances to the sorted scores (Prillo and Eisenschlos 2020).
//!
//! With `a` the scores in ascending order, `P[i, k] = softmax_i(-|a_k - s_i|^p / tau)`. Columns are
//! exact softmaxes. With `p = 1` the largest entry of each row is at the token's own rank; `p = 2` shows
//! the paper's collapse to the edges. Every exponent is at most 0 and one in each column is exactly 0,
//! so that float32 does not overflow and loses a few ulp at most.

use burn::tensor::{Tensor, activation::softmax};

use super::columns::gpu::{Family, WeightsOp};
use super::columns::{Columns, Logits};
use super::{Routed, Router, RouterSpec, SOFTMAX, sort, temperature, weigh};
use crate::model::probe::settings::{Config, within};
use crate::model::stats::argsort;

/// Its entry in [`ROUTERS`](super::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "softsort",
    name: "SoftSort",
    summary: "S4 behind SoftSort",
    mechanism: "Continuous sorting",
    table_row: 2,
    in_paper: true,
    paper_cost: None,
    build: |config| {
        let power = within("power", config.power.unwrap_or(2), 1..=2, "1 or 2")?;
        Ok(Box::new(SoftSort { power, temperature: temperature(config, 1.0)? }))
    },
};

/// The SoftSort router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftSort {
    /// Exponent of the distance, 1 or 2.
    pub power: u32,
    /// Temperature, above 0.
    pub temperature: f64,
}

impl Router for SoftSort {
    fn settings(&self) -> Config {
        let (temperature, power) = (Some(self.temperature), Some(self.power));
        Config { temperature, power, ..Config::default() }
    }

    fn flops(&self, n: u64) -> u64 {
        // Ranks by comparison, sorting, distances, softmax.
        (5 + 2 + 3 + SOFTMAX) * n * n
    }

    /// With `p = 2` the term `a_k^2` is constant within a column and cancels in the softmax: the logits are lines.
    fn route(&self, scores: &[f64], _: Option<u64>) -> Box<dyn Routed> {
        let (n, tau, power) = (scores.len(), self.temperature, self.power);
        let order = argsort(scores);
        let sorted = order.iter().map(|&i| scores[i]);
        let logits = match power {
            1 => Logits::Distances { centres: sorted.collect(), temperature: tau },
            _ => Logits::Lines {
                slopes: sorted.map(|a| 2.0 * a / tau).collect(),
                offsets: scores.iter().map(|s| s * s / tau).collect(),
            },
        };
        let own = scores.to_vec();
        let score_grad = move |grad_positions: &[f64], grad_offsets: &[f64]| {
            let mut grad = vec![0.0; n];
            let scale = if power == 1 { 1.0 } else { 2.0 / tau };
            order.iter().zip(grad_positions).for_each(|(&i, grad_position)| grad[i] = scale * grad_position);
            (0..n).for_each(|i| grad[i] += 2.0 * own[i] * grad_offsets[i] / tau);
            grad
        };
        Box::new(Columns { scores: scores.to_vec(), logits, score_grad: Box::new(score_grad) })
    }

    fn plans(&self, scores: Tensor<2>, _: Option<&[u64]>) -> Tensor<3> {
        let sorted = sort::sorted(scores.clone(), sort::permutation(scores.clone())); // [B, N]
        let difference = sorted.unsqueeze_dim::<3>(1) - scores.unsqueeze_dim::<3>(2); // [B, N (i), N (k)]
        let distance = if self.power == 1 { difference.abs() } else { difference.clone() * difference };
        softmax(distance / (-self.temperature), 1) // [B, N, N]
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, _: Option<&[u64]>) -> Tensor<2> {
        let family = if self.power == 1 { Family::Distance } else { Family::Square };
        let op = WeightsOp { family, hard: false, temperature: self.temperature };
        op.apply(&scores, &gain).unwrap_or_else(|| weigh(self.plans(scores, None), gain))
    }
}
