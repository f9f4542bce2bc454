//! Routers whose columns are softmaxes over the tokens, one image at a time and without the N x N
//! plan: `P[i, k] = softmax_i(l_k(i))`.
//!
//! NeuralSort and SoftSort with `p = 2` have lines for logits, `l_k(i) = m_k s_i - A_i`; SoftSort with
//! `p = 1` has distances, `l_k(i) = -|a_k - s_i| / tau`. A column is made, read and forgotten, each
//! way: time N^2, memory N. With the gain `q_k` of a column and the gradient `c_i` of a token's
//! weight, the logits' gradient is `P[i, k] q_k (c_i - mu_k)`, `mu_k = sum_i P[i, k] c_i`, and that of
//! the gain is `mu_k`.

pub(super) mod gpu;

use super::Routed;
use crate::model::ops::simd::{dot, exp, vectorised};

pub(super) enum Logits {
    /// `slopes[k] s_i - offsets[i]`.
    Lines {
        /// `[N]` by position.
        slopes: Vec<f64>,
        /// `[N]` by token.
        offsets: Vec<f64>,
    },
    /// `-|centres[k] - s_i| / temperature`.
    Distances {
        /// `[N]` by position.
        centres: Vec<f64>,
        /// tau.
        temperature: f64,
    },
}

/// From the gradients of slopes (or centres) by position and of offsets by token to what they add
/// to that of the scores, `[N]`.
pub(super) type ScoreGrad = Box<dyn Fn(&[f64], &[f64]) -> Vec<f64> + Send + Sync>;

pub(super) struct Columns {
    pub scores: Vec<f64>,
    pub logits: Logits,
    /// How slopes, centres and offsets depend on the scores.
    pub score_grad: ScoreGrad,
}

impl Columns {
    /// `exp(l_k(i) - largest)` of column `k` into `column`; returns their sum.
    fn column(&self, k: usize, column: &mut [f64]) -> f64 {
        match &self.logits {
            Logits::Lines { slopes, offsets } => line(slopes[k], &self.scores, offsets, column),
            Logits::Distances { centres, temperature } => {
                distance(centres[k], 1.0 / temperature, &self.scores, column);
            }
        }
        powers(column)
    }

    /// The gradient of the scores: `accumulate_grad(k, column, total, grad)` adds that of column `k`'s logits, given its
    /// [`column`](Self::column).
    fn backward(&self, mut accumulate_grad: impl FnMut(usize, &[f64], f64, &mut [f64])) -> Vec<f64> {
        let n = self.scores.len();
        let (mut grad_scores, mut grad_offsets, mut grad_positions) =
            (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut column, mut grad) = (vec![0.0; n], vec![0.0; n]);
        for k in 0..n {
            let total = self.column(k, &mut column);
            grad.fill(0.0);
            accumulate_grad(k, &column, total, &mut grad);
            match &self.logits {
                Logits::Lines { slopes, .. } => {
                    grad_positions[k] = dot(&grad, &self.scores);
                    add(slopes[k], &grad, &mut grad_scores);
                    add(-1.0, &grad, &mut grad_offsets);
                }
                Logits::Distances { centres, temperature } => {
                    for (i, (grad, s)) in grad.iter().zip(&self.scores).enumerate() {
                        let side = f64::from(centres[k].total_cmp(s) as i8); // -1, 0 or 1
                        grad_scores[i] += side * grad / temperature;
                        grad_positions[k] -= side * grad / temperature;
                    }
                }
            }
        }
        let more = (self.score_grad)(&grad_positions, &grad_offsets);
        add(1.0, &more, &mut grad_scores);
        grad_scores
    }
}

impl Routed for Columns {
    fn weights(&self, gains: &[f64]) -> Vec<f64> {
        let n = self.scores.len();
        let mut weights = vec![0.0; gains.len()];
        let mut column = vec![0.0; n];
        for k in 0..n {
            let total = self.column(k, &mut column);
            for (gains, weights) in gains.chunks(n).zip(weights.chunks_mut(n)) {
                add(gains[k] / total, &column, weights);
            }
        }
        weights
    }

    fn vjp(&self, gains: &[f64], _: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let mut grad_gains = vec![0.0; gains.len()];
        let grad_scores = self.backward(|k, column, total, grad| {
            for m in 0..gains.len() / n {
                let by = &grad_weights[m * n..(m + 1) * n];
                let mean = dot(column, by) / total;
                grad_gains[m * n + k] = mean;
                accumulate_grad(gains[m * n + k] / total, mean, by, column, grad);
            }
        });
        (grad_scores, grad_gains)
    }

    fn plan(&self) -> Vec<f64> {
        let n = self.scores.len();
        let (mut plan, mut column) = (vec![0.0; n * n], vec![0.0; n]);
        for k in 0..n {
            let total = self.column(k, &mut column);
            column.iter().enumerate().for_each(|(i, x)| plan[i * n + k] = x / total);
        }
        plan
    }

    fn vjp_of_plan(&self, grad_plan: &[f32]) -> Vec<f64> {
        let n = self.scores.len();
        let mut by = vec![0.0; n];
        self.backward(|k, column, total, grad| {
            by.iter_mut().enumerate().for_each(|(i, by)| *by = f64::from(grad_plan[i * n + k]));
            accumulate_grad(1.0 / total, dot(column, &by) / total, &by, column, grad);
        })
    }
}

vectorised! {
    fn line<const FUSED: bool>(slope: f64, scores: &[f64], offsets: &[f64], column: &mut [f64]) {
        for ((into, s), offset) in column.iter_mut().zip(scores).zip(offsets) {
            *into = slope * s - offset;
        }
    }
}

vectorised! {
    fn distance<const FUSED: bool>(centre: f64, scale: f64, scores: &[f64], column: &mut [f64]) {
        for (into, s) in column.iter_mut().zip(scores) {
            *into = -(centre - s).abs() * scale;
        }
    }
}

/// Lanes that sums are kept in until the end, so that they go through wide registers.
const LANES: usize = 16;

vectorised! {
    /// `exp(x - largest)` of every value; returns their sum.
    fn powers<const FUSED: bool>(values: &mut [f64]) -> f64 {
        let (blocks, rest) = values.as_chunks_mut::<LANES>();
        let mut tops = [f64::NEG_INFINITY; LANES];
        for block in blocks.iter() {
            (0..LANES).for_each(|lane| tops[lane] = if block[lane] > tops[lane] { block[lane] } else { tops[lane] });
        }
        let top = tops.iter().chain(rest.iter()).copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sums = [0.0; LANES];
        for block in blocks {
            for lane in 0..LANES {
                block[lane] = exp::<FUSED>(block[lane] - top);
                sums[lane] += block[lane];
            }
        }
        rest.iter_mut().for_each(|x| *x = exp::<FUSED>(*x - top));
        sums.into_iter().sum::<f64>() + rest.iter().sum::<f64>()
    }
}

vectorised! {
    /// `into += factor values`.
    fn add<const FUSED: bool>(factor: f64, values: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(values).for_each(|(into, x)| *into += factor * x);
    }
}

vectorised! {
    /// `into += scale column (by - mean)`.
    fn accumulate_grad<const FUSED: bool>(scale: f64, mean: f64, by: &[f64], column: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(column).zip(by).for_each(|((into, p), by)| *into += scale * p * (by - mean));
    }
}
