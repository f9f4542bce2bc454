//! NeuralSort: a unimodal relaxation of sorting (Grover et al. 2019).
//!
//! Descending: `R[r, i] = softmax_i(((N + 1 - 2r) s_i - sum_j |s_i - s_j|) / tau)`, `r = 1..N`;
//! ascending, like every router here: `P[i, k] = R[N - k, i]`. Columns are exact softmaxes.
//!
//! The exponents `E[k, j]`, of position `k` and the token of rank `j`, reach `N max|s| / tau`, where float32 has no
//! fractional digits left. We therefore subtract the largest exponent of a column, that of the token of rank `k`,
//! analytically: with the scores ascending, `a_0 <= a_1 <= ...`, and gaps `d_m = a_{m+1} - a_m`,
//!
//! `(E[k, j] - E[k, k]) tau = -sum over the gaps m between k and j of (2 t_m - 1) d_m`,
//!
//! where `t_m = 1, 2, ...` counts the gaps from `k` outwards. All terms have one sign: nothing cancels, the
//! exponent is at most 0, and its relative error is a few ulp in float32 at any temperature.

use burn::tensor::{DType, Device, Tensor, TensorData, activation::softmax};

use super::columns::gpu::{Family, WeightsOp};
use super::columns::{Columns, Logits};
use super::{Routed, Router, RouterSpec, SOFTMAX, sort, temperature, weigh};
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::probe::settings::Config;
use crate::model::stats::argsort;

/// Its entry in [`ROUTERS`](super::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "neuralsort",
    name: "NeuralSort",
    summary: "S4 behind NeuralSort",
    mechanism: "Deterministic soft rank",
    table_row: 1,
    in_paper: true,
    paper_cost: None,
    build: |config| Ok(Box::new(NeuralSort { temperature: temperature(config, 1.0)? })),
};

/// The NeuralSort router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NeuralSort {
    /// Temperature, above 0: towards 0 the plan becomes the sorting permutation.
    pub temperature: f64,
}

impl Router for NeuralSort {
    fn settings(&self) -> Config {
        Config { temperature: Some(self.temperature), ..Config::default() }
    }

    fn flops(&self, n: u64) -> u64 {
        // Distances and their sums, logits, softmax.
        (3 + 3 + SOFTMAX) * n * n
    }

    /// Uses the logits of the paper as they are: float64 leaves them twelve digits after the point.
    fn route(&self, scores: &[f64], _: Option<u64>) -> Box<dyn Routed> {
        let (n, tau) = (scores.len(), self.temperature);
        let order = argsort(scores);
        let slopes = (0..n).map(|k| (2 * k + 1) as f64 / tau - n as f64 / tau).collect(); // r = N - k
        // sum_j |s_i - s_j| in one pass by rank, from the sums of the scores below and above.
        let total: f64 = scores.iter().sum();
        let (mut offsets, mut below) = (vec![0.0; n], 0.0);
        for (rank, &i) in order.iter().enumerate() {
            let above = total - below - scores[i];
            let (fewer, more) = (rank as f64, (n - 1 - rank) as f64);
            // Equal scores get one sum: rounding would order tokens that tie, and diagnostics count that order.
            let tied = rank.checked_sub(1).map(|before| order[before]).filter(|&j| scores[j] == scores[i]);
            offsets[i] = match tied {
                Some(j) => offsets[j],
                None => (fewer * scores[i] - below + above - more * scores[i]) / tau,
            };
            below += scores[i];
        }
        let score_grad = move |_: &[f64], grad_offsets: &[f64]| {
            // The derivative of |s_i - s_j| is the sign of the difference in rank: a tied pair adds 0 in total.
            let total: f64 = grad_offsets.iter().sum();
            let (mut grad, mut below) = (vec![0.0; n], 0.0);
            for (rank, &i) in order.iter().enumerate() {
                let above = total - below - grad_offsets[i];
                let (fewer, more) = (rank as f64, (n - 1 - rank) as f64);
                grad[i] = (grad_offsets[i] * (fewer - more) + below - above) / tau;
                below += grad_offsets[i];
            }
            grad
        };
        let logits = Logits::Lines { slopes, offsets };
        Box::new(Columns { scores: scores.to_vec(), logits, score_grad: Box::new(score_grad) })
    }

    fn plans(&self, scores: Tensor<2>, _: Option<&[u64]>) -> Tensor<3> {
        let [_, n] = scores.dims();
        let device = scores.device();
        if scores.dtype() == DType::F64 {
            return self.plans_double(scores);
        }
        let places = sort::permutation(scores.clone()); // [B, N, N]: 1 where token i has rank k
        if n < 2 {
            return places;
        }
        let sorted = sort::sorted(scores, places.clone()); // [B, N]
        let gaps = sorted.clone().narrow(1, 1, n - 1) - sorted.narrow(1, 0, n - 1); // [B, N-1]
        let gaps = gaps.unsqueeze_dim::<3>(1); // [B, 1, N-1]
        let [above, below] = gap_factors(n, &device); // ([1, N, N-1], [1, N-1, N]) each
        let distance =
            (gaps.clone() * above.0).precise_matmul(above.1) + (gaps * below.0).precise_matmul(below.1); // [B, N (k), N (j)]
        let by_rank = softmax(distance / (-self.temperature), 2); // [B, N (k), N (j)]
        places.precise_matmul(by_rank.swap_dims(1, 2)) // [B, N (i), N (k)]
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, _: Option<&[u64]>) -> Tensor<2> {
        let op = WeightsOp { family: Family::NeuralSort, hard: false, temperature: self.temperature };
        op.apply(&scores, &gain).unwrap_or_else(|| weigh(self.plans(scores, None), gain))
    }
}

impl NeuralSort {
    /// [`Router::plans`] in float64, with the logits of the paper as they are.
    fn plans_double(self, scores: Tensor<2>) -> Tensor<3> {
        let [_, n] = scores.dims();
        let slopes: Vec<f64> = (0..n).map(|k| (2 * k + 1) as f64 - n as f64).collect(); // r = N - k
        let slopes = TensorData::new(slopes, [1, 1, n]);
        let slopes = Tensor::<3>::from_data(slopes, (&scores.device(), DType::F64));
        let own = scores.clone().unsqueeze_dim::<3>(2); // [B, N (i), 1]
        let apart = (own.clone() - scores.unsqueeze_dim::<3>(1)).abs().sum_dim(2); // [B, N (i), 1]
        softmax((own * slopes - apart) / self.temperature, 1) // [B, N (i), N (k)]
    }
}

/// For the gaps above a position and for those below it: `[1, N, N-1]`, the factor `2 t_m - 1` of gap `m` for position `k`, 0 on its
/// other side, and `[1, N-1, N]`, 1 where gap `m` lies between position `k` and rank `j` on that side, else 0.
fn gap_factors(n: usize, device: &Device) -> [(Tensor<3>, Tensor<3>); 2] {
    let table = |rows: usize, cols: usize, value: &dyn Fn(usize, usize) -> f32| {
        let data = (0..rows * cols).map(|at| value(at / cols, at % cols)).collect();
        Tensor::<3>::from_data(TensorData::new::<f32, _>(data, [1, rows, cols]), device)
    };
    let odd = |t: usize| (2 * t + 1) as f32;
    let above = table(n, n - 1, &|k, m| if m >= k { odd(m - k) } else { 0.0 });
    let below = table(n, n - 1, &|k, m| if m < k { odd(k - m - 1) } else { 0.0 });
    let reached_above = table(n - 1, n, &|m, j| f32::from(m < j));
    let reached_below = table(n - 1, n, &|m, j| f32::from(m >= j));
    [(above, reached_above), (below, reached_below)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_one_score_have_one_row() {
        let plan = NeuralSort { temperature: 1.0 }.plan(&[0.1, 0.7, 0.1, -0.3, 0.7, 0.1, -1.3]);
        assert_eq!((plan.row(0), plan.row(1)), (plan.row(2), plan.row(4)));
        assert_eq!(plan.row(0), plan.row(5));
    }
}
