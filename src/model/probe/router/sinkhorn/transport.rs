//! Sinkhorn's iterations on the host without the N x N plan: the forward pass, and the exact gradient
//! through every iteration, derived by hand. Potentials are in float64, sums as [`Numerics`] says.
//!
//! The cost is quadratic, so that `L[i, k] = 2 s_i p_k / tau - s_i^2 / tau - p_k^2 / tau`: the first row
//! normalisation absorbs `s_i^2 / tau` into `f`, `g` starts at `-p_k^2 / tau`, and what remains is
//! `x_i (k - h)` with `x_i = 2 s_i / (tau (N - 1))` and any constant `h`. Every sum over the kernel
//! is then a polynomial in `exp(x_i)` ([`Linear`]) or a sum of exponentials of straight lines
//! ([`Logarithmic`]), computed from vectors of length N: per iteration, time N^2 and memory N.
//!
//! Gradients. With `A = exp(L + f' + g)` after a row step and `C = exp(L + f' + g')` after a column
//! step, cotangents propagate back by `f -= C g`, `g = -A^T f`, and to `L[i, k]` by `-C g_k` and
//! `-A f_i`; `dL[i, k] / ds_i = 2 (p_k - s_i) / tau`.

use std::sync::Arc;

use rayon::prelude::*;

use super::linear::{DOUBLE, Linear, SINGLE, products};
use super::logarithmic::Logarithmic;
use crate::model::ops::simd::vectorised;
use crate::model::probe::head_output::PlanRows;
use crate::model::probe::router::Routed;

/// A way to compute sums over the kernel. `rows` and `columns` are the potentials of tokens and
/// positions, or their exponentials, as the implementation chooses. All vectors are `[N]`.
pub(super) trait Domain: Send + Sync {
    /// Writes the initial potentials of the positions.
    fn start(&self, columns: &mut [f64]);
    /// Sets `rows` so that every row sums to 1. False where that leaves the domain's range.
    fn normalise_rows(&mut self, rows: &mut [f64], columns: &[f64]) -> bool;
    /// Sets `columns` so that every column sums to 1. False where that leaves the domain's range.
    fn normalise_columns(&mut self, rows: &[f64], columns: &mut [f64]) -> bool;
    /// `P weights` for the plan `P` of these potentials.
    fn plan_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]);
    /// `P^T weights` for the plan `P` of these potentials.
    fn plan_transposed_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]);
    /// Row `token` of the plan.
    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]);
}

/// Fewest entries of a plan that are worth a task of their own.
const ENTRIES_PER_TASK: usize = 1 << 16;

/// The iterations of one image, saved for the backward pass as potentials alone. The domain is rebuilt
/// from the scores, in time N, when it is needed.
pub(super) struct Transport {
    scores: Vec<f64>,
    temperature: f64,
    /// Noise added to L, `[N, N]` row-major; empty for none.
    noise: Arc<[f32]>,
    /// What the iterations ran with.
    numerics: Numerics,
    /// Potentials of the tokens after each iteration, `[iterations, N]`.
    rows: Vec<f64>,
    /// Potentials of the positions before the first and after each iteration, `[iterations + 1, N]`.
    columns: Vec<f64>,
}

/// How sums over the kernel are computed, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numerics {
    /// Polynomials in float32.
    Single,
    /// Polynomials in float64.
    Double,
    /// Sums of exponentials.
    Logarithmic,
}

impl Transport {
    /// Runs the iterations with the first of the [`Numerics`], from `numerics` on, in whose range every scaling
    /// stays, which the run itself checks. `noise`, `[N, N]` row-major, is added to L; empty for none.
    pub fn run(
        scores: &[f64],
        temperature: f64,
        iterations: usize,
        noise: Vec<f32>,
        numerics: Numerics,
    ) -> Self {
        let n = scores.len();
        let mut transport = Self {
            scores: scores.to_vec(),
            temperature,
            noise: noise.into(),
            numerics,
            rows: vec![0.0; iterations * n],
            columns: vec![0.0; (iterations + 1) * n],
        };
        let all = [Numerics::Single, Numerics::Double, Numerics::Logarithmic];
        let ran = all.into_iter().skip_while(|next| *next != numerics).any(|numerics| {
            transport.numerics = numerics;
            transport.domain().is_some_and(|mut domain| transport.iterate(&mut *domain))
        });
        assert!(ran, "the log domain never refuses");
        transport
    }

    /// Runs the iterations in this domain; false where they leave its range.
    fn iterate(&mut self, domain: &mut dyn Domain) -> bool {
        let n = self.scores.len().max(1);
        domain.start(&mut self.columns[..self.scores.len()]);
        self.rows.chunks_mut(n).enumerate().all(|(t, rows)| {
            let (before, after) = self.columns.split_at_mut((t + 1) * n);
            domain.normalise_rows(rows, &before[t * n..]) && domain.normalise_columns(rows, &mut after[..n])
        })
    }

    /// The domain of its numerics; `None` where that does not support its scores or its noise.
    fn domain(&self) -> Option<Box<dyn Domain>> {
        fn boxed(domain: impl Domain + 'static) -> Box<dyn Domain> {
            Box::new(domain)
        }
        let (scores, temperature) = (&self.scores, self.temperature);
        match self.numerics {
            Numerics::Logarithmic => Some(boxed(Logarithmic::new(scores, temperature, self.noise.clone()))),
            _ if !self.noise.is_empty() => None,
            Numerics::Single => Linear::<f32>::new(scores, temperature, &SINGLE).map(boxed),
            Numerics::Double => Linear::<f64>::new(scores, temperature, &DOUBLE).map(boxed),
        }
    }

    /// The domain that the iterations ran in.
    fn rebuild_domain(&self) -> Box<dyn Domain> {
        self.domain().expect("the iterations ran in it")
    }

    /// The final potentials of tokens and positions.
    fn final_potentials(&self) -> (&[f64], &[f64]) {
        let n = self.scores.len();
        (&self.rows[self.rows.len() - n..], &self.columns[self.columns.len() - n..])
    }

    /// The plan row by row, each computed when it is read.
    pub fn rows(self) -> impl PlanRows + 'static {
        struct RowsOnDemand {
            domain: Box<dyn Domain>,
            transport: Transport,
        }
        impl PlanRows for RowsOnDemand {
            fn tokens(&self) -> usize {
                self.transport.scores.len()
            }

            fn row<'a>(&'a self, i: usize, room: &'a mut [f64]) -> &'a [f64] {
                let (rows, columns) = self.transport.final_potentials();
                self.domain.row(rows, columns, i, room);
                room
            }
        }
        RowsOnDemand { domain: self.rebuild_domain(), transport: self }
    }

    /// The gradient of the scores, `[N]`, given that of the plan, `[N, N]` row-major.
    pub fn plan_vjp<T: Copy + Into<f64>>(&self, cotangent: &[T]) -> Vec<f64> {
        let n = self.scores.len();
        let (mut domain, (rows, columns)) = (self.rebuild_domain(), self.final_potentials());
        let positions = self.positions();
        let (mut f, mut g, mut moments) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let mut row = vec![0.0; n];
        for (i, cotangent) in cotangent.chunks(n.max(1)).enumerate() {
            domain.row(rows, columns, i, &mut row);
            for k in 0..n {
                let grad_logit = row[k] * cotangent[k].into();
                f[i] += grad_logit;
                g[k] += grad_logit;
                moments[i] += grad_logit * positions[k];
            }
        }
        let mut grad_scores = vec![0.0; n];
        accumulate_grad(&mut grad_scores, &vec![1.0; n], &self.scores, &f, &moments);
        self.unroll(&mut *domain, f, g, grad_scores)
    }

    /// Propagates the cotangents `f`, `g` of the final potentials back through every iteration, adding to
    /// `grad_scores`, in units of `2 / tau`; returns the gradient of the scores.
    fn unroll(
        &self,
        domain: &mut dyn Domain,
        mut f: Vec<f64>,
        mut g: Vec<f64>,
        mut grad_scores: Vec<f64>,
    ) -> Vec<f64> {
        let n = self.scores.len();
        let positions = self.positions();
        let (mut weighted_positions, mut sums, mut moments) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let columns = |t: usize| &self.columns[t * n..(t + 1) * n];
        let (ones, minus_ones) = (vec![1.0; n], vec![-1.0; n]);
        for (t, rows) in self.rows.chunks(n.max(1)).enumerate().rev() {
            let (before, after) = (columns(t), columns(t + 1));
            domain.plan_times(rows, after, &g, &mut sums);
            products(&g, &positions, &mut weighted_positions);
            domain.plan_times(rows, after, &weighted_positions, &mut moments);
            accumulate_grad(&mut grad_scores, &minus_ones, &self.scores, &sums, &moments);
            // Negated, so that A f is the gradient of L through the row step; the rows of A sum to 1.
            f.iter_mut().zip(&sums).for_each(|(f, sum)| *f = sum - *f);
            domain.plan_times(rows, before, &positions, &mut moments);
            accumulate_grad(&mut grad_scores, &f, &self.scores, &ones, &moments);
            domain.plan_transposed_times(rows, before, &f, &mut g);
            f.fill(0.0);
        }
        grad_scores.iter().map(|x| x * 2.0 / self.temperature).collect()
    }

    /// `p_k`.
    fn positions(&self) -> Vec<f64> {
        let n = self.scores.len();
        (0..n).map(|k| k as f64 / n.saturating_sub(1).max(1) as f64).collect()
    }
}

impl Routed for Transport {
    fn weights(&self, gains: &[f64]) -> Vec<f64> {
        let n = self.scores.len().max(1);
        let (mut domain, (rows, columns)) = (self.rebuild_domain(), self.final_potentials());
        let mut weights = vec![0.0; gains.len()];
        for (gain, weights) in gains.chunks(n).zip(weights.chunks_mut(n)) {
            domain.plan_times(rows, columns, gain, weights);
        }
        weights
    }

    fn vjp(&self, gains: &[f64], weights: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let (mut domain, (rows, columns)) = (self.rebuild_domain(), self.final_potentials());
        let positions = self.positions();
        let (mut f, mut g, mut grad_scores) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut weighted_positions, mut moments) = (vec![0.0; n], vec![0.0; n]);
        let mut grad_gains = vec![0.0; gains.len()];
        for (m, grad_gain) in grad_gains.chunks_mut(n.max(1)).enumerate() {
            let [gain, weights, grad_weights] =
                [gains, weights, grad_weights].map(|all| &all[m * n..(m + 1) * n]);
            domain.plan_transposed_times(rows, columns, grad_weights, grad_gain);
            products(gain, &positions, &mut weighted_positions);
            domain.plan_times(rows, columns, &weighted_positions, &mut moments);
            accumulate_grad(&mut grad_scores, grad_weights, &self.scores, weights, &moments);
            (0..n).for_each(|i| f[i] += weights[i] * grad_weights[i]);
            (0..n).for_each(|k| g[k] += gain[k] * grad_gain[k]);
        }
        (self.unroll(&mut *domain, f, g, grad_scores), grad_gains)
    }

    fn plan(&self) -> Vec<f64> {
        let n = self.scores.len();
        let (domain, (rows, columns)) = (self.rebuild_domain(), self.final_potentials());
        let mut plan = vec![0.0; n * n];
        let min_rows = (ENTRIES_PER_TASK / n.max(1)).max(1);
        plan.par_chunks_mut(n.max(1)).with_min_len(min_rows).enumerate().for_each(|(token, row)| {
            domain.row(rows, columns, token, row);
        });
        plan
    }

    fn vjp_of_plan(&self, grad_plan: &[f32]) -> Vec<f64> {
        self.plan_vjp(grad_plan)
    }
}

vectorised! {
    /// Adds the scores' gradient from that of `L`, `scale_i P[i, k] weight_k`, in units of `2 / tau`:
    /// `scale_i sum_k P[i, k] weight_k (p_k - s_i)`, from the sums with (`moments`) and without `p_k`.
    fn accumulate_grad<const FUSED: bool>(grad_scores: &mut [f64], scales: &[f64], scores: &[f64], sums: &[f64], moments: &[f64]) {
        let tokens = grad_scores.iter_mut().zip(scales).zip(scores).zip(sums).zip(moments);
        for ((((grad_scores, scale), score), sum), moment) in tokens {
            *grad_scores += scale * (moment - score * sum);
        }
    }
}
