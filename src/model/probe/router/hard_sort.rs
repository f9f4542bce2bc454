//! Hard sort: the sorting permutation itself, with a straight-through gradient (Bengio et al. 2013).
//!
//! Forward, `P[i, k] = 1` where token `i` has rank `k` (ties by index), else 0; backward, the gradient of
//! [`SoftSort`] with `p = 1`, whose rows are largest at the same ranks.

use burn::tensor::Tensor;

use super::columns::gpu::{Family, WeightsOp};
use super::{Routed, Router, RouterSpec, softsort::SoftSort, sort, temperature, weigh};
use crate::model::probe::settings::Config;
use crate::model::stats::argsort;

/// Its entry in [`ROUTERS`](super::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "hard-sort",
    name: "Hard sort",
    summary: "S4 behind sorting, straight-through gradients",
    mechanism: "Sorting, gradient straight through",
    table_row: 3,
    in_paper: false,
    paper_cost: None,
    build: |config| Ok(Box::new(HardSort { temperature: temperature(config, 1.0)? })),
};

/// The hard-sort router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardSort {
    /// Temperature of the gradient, above 0; the plan does not depend on it.
    pub temperature: f64,
}

/// One routed image: the tokens in ascending order, and the soft plan that the scores' gradient goes through.
struct StraightThrough {
    order: Vec<usize>,
    soft: Box<dyn Routed>,
}

impl Routed for StraightThrough {
    fn weights(&self, gains: &[f64]) -> Vec<f64> {
        let n = self.order.len();
        let mut weights = vec![0.0; gains.len()];
        for (gains, weights) in gains.chunks(n.max(1)).zip(weights.chunks_mut(n.max(1))) {
            self.order.iter().zip(gains).for_each(|(&i, gain)| weights[i] = *gain);
        }
        weights
    }

    /// The gains' gradient is that of the hard plan; only the scores' gradient is that of the soft one.
    fn vjp(&self, gains: &[f64], weights: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.order.len().max(1);
        let (grad_scores, _) = self.soft.vjp(gains, weights, grad_weights);
        let grad_gains = grad_weights.chunks(n).flat_map(|grad| self.order.iter().map(|&i| grad[i]));
        (grad_scores, grad_gains.collect())
    }

    fn plan(&self) -> Vec<f64> {
        let n = self.order.len();
        let mut plan = vec![0.0; n * n];
        self.order.iter().enumerate().for_each(|(k, &i)| plan[i * n + k] = 1.0);
        plan
    }

    fn vjp_of_plan(&self, grad_plan: &[f32]) -> Vec<f64> {
        self.soft.vjp_of_plan(grad_plan)
    }
}

impl Router for HardSort {
    fn settings(&self) -> Config {
        Config { temperature: Some(self.temperature), ..Config::default() }
    }

    fn is_soft(&self) -> bool {
        false
    }

    fn flops(&self, n: u64) -> u64 {
        // Ranks by comparison. The soft plan is needed for the gradient alone.
        5 * n * n
    }

    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        let soft = SoftSort { power: 1, temperature: self.temperature };
        Box::new(StraightThrough { order: argsort(scores), soft: soft.route(scores, image_seed) })
    }

    fn plans(&self, scores: Tensor<2>, _: Option<&[u64]>) -> Tensor<3> {
        let soft = SoftSort { power: 1, temperature: self.temperature }.plans(scores.clone(), None); // [B, N, N]
        sort::permutation(scores) + (soft.clone() - soft.detach()) // [B, N, N]: the bracket is exactly 0
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, _: Option<&[u64]>) -> Tensor<2> {
        let op = WeightsOp { family: Family::Distance, hard: true, temperature: self.temperature };
        op.apply(&scores, &gain).unwrap_or_else(|| weigh(self.plans(scores, None), gain))
    }
}
