//! Routers whose columns are softmaxes over the tokens, `P[i, k] = softmax_i(l_k(i))`, for one image at a
//! time and without the N x N plan.
//!
//! The logits of NeuralSort and of SoftSort with `p = 2` are lines, `l_k(i) = m_k s_i - A_i`; those of SoftSort with
//! `p = 1` are distances, `l_k(i) = -|a_k - s_i| / tau`. The forward and the backward pass compute each column, use it and
//! discard it: time N^2, memory N. With the gain `q_k` of a column and the gradient `c_i` of a token's weight, the
//! logits' gradient is `P[i, k] q_k (c_i - mu_k)`, `mu_k = sum_i P[i, k] c_i`, and the gain's is `mu_k`.

pub(super) mod gpu;

use super::Routed;
use crate::model::ops::simd::{add_rounded, dot, exp, vectorised};

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

/// Takes the gradients of slopes (or centres), by position, and of offsets, by token; returns the
/// gradient of the scores through them, `[N]`.
pub(super) type ScoreGrad = Box<dyn Fn(&[f64], &[f64]) -> Vec<f64> + Send + Sync>;

/// A routed image.
pub(super) struct Columns {
    pub scores: Vec<f64>,
    pub logits: Logits,
    /// The backward pass from slopes, centres and offsets to the scores.
    pub score_grad: ScoreGrad,
}

impl Columns {
    /// Writes `exp(l_k(i) - max_i l_k(i))` to `column`; returns their sum.
    fn column(&self, k: usize, column: &mut [f64]) -> f64 {
        match &self.logits {
            Logits::Lines { slopes, offsets } => line(slopes[k], &self.scores, offsets, column),
            Logits::Distances { centres, temperature } => {
                distance(centres[k], 1.0 / temperature, &self.scores, column);
            }
        }
        shifted_exponentials(column)
    }

    /// The gradient of the scores. `accumulate(k, column, total, grad)` adds the gradient of the logits of column `k` to
    /// `grad`, given that column and its sum from [`column`](Self::column).
    fn backward(&self, mut accumulate: impl FnMut(usize, &[f64], f64, &mut [f64])) -> Vec<f64> {
        let n = self.scores.len();
        let (mut grad_scores, mut grad_offsets, mut grad_positions) =
            (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut column, mut grad) = (vec![0.0; n], vec![0.0; n]);
        for k in 0..n {
            let total = self.column(k, &mut column);
            grad.fill(0.0);
            accumulate(k, &column, total, &mut grad);
            match &self.logits {
                Logits::Lines { slopes, .. } => {
                    grad_positions[k] = dot(&grad, &self.scores);
                    add_rounded(slopes[k], &grad, &mut grad_scores);
                    add_rounded(-1.0, &grad, &mut grad_offsets);
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
        add_rounded(1.0, &(self.score_grad)(&grad_positions, &grad_offsets), &mut grad_scores);
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
                add_rounded(gains[k] / total, &column, weights);
            }
        }
        weights
    }

    fn vjp(&self, gains: &[f64], _: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let mut grad_gains = vec![0.0; gains.len()];
        let grad_scores = self.backward(|k, column, total, grad| {
            for m in 0..gains.len() / n {
                let cotangent = &grad_weights[m * n..(m + 1) * n];
                let mean = dot(column, cotangent) / total;
                grad_gains[m * n + k] = mean;
                accumulate_grad(gains[m * n + k] / total, mean, cotangent, column, grad);
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
        let mut cotangent = vec![0.0; n];
        self.backward(|k, column, total, grad| {
            cotangent.iter_mut().enumerate().for_each(|(i, into)| *into = f64::from(grad_plan[i * n + k]));
            accumulate_grad(1.0 / total, dot(column, &cotangent) / total, &cotangent, column, grad);
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

/// Independent partial maxima and sums, so that the compiler can use vector registers.
const LANES: usize = 16;

vectorised! {
    /// Replaces every value `x` by `exp(x - max)`; returns the sum of the new values.
    fn shifted_exponentials<const FUSED: bool>(values: &mut [f64]) -> f64 {
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
    /// `into += scale column (cotangent - mean)`.
    fn accumulate_grad<const FUSED: bool>(scale: f64, mean: f64, cotangent: &[f64], column: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(column).zip(cotangent).for_each(|((into, p), c)| *into += scale * p * (c - mean));
    }
}
