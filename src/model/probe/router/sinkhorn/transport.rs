//! Sinkhorn's iterations on the host, in float64, without the N x N plan: the forward pass, and by
//! hand the exact gradient through every iteration.
//!
//! The cost is quadratic, so that `L[i, k] = 2 s_i p_k / tau - s_i^2 / tau - p_k^2 / tau`: the first
//! half normalisation takes `s_i^2 / tau` into `f`, `g` starts at `-p_k^2 / tau`, and what is left is
//! `x_i (k - h)` with `x_i = 2 s_i / (tau (N - 1))` and any constant `h`. Every sum over the kernel
//! is then a polynomial in `exp(x_i)` ([`Linear`]) or a sum of exponentials of straight lines
//! ([`Logarithmic`]), made on the fly from vectors of length N: time N^2, memory N an iteration.
//!
//! Gradients. With `A = exp(L + f' + g)` after a row step and `C = exp(L + f' + g')` after a column
//! step, a cotangent runs back by `f -= C g`, `g = -A^T f`, and to `L[i, k]` by `-C g_k` and `-A f_i`;
//! `dL[i, k] / ds_i = 2 (p_k - s_i) / tau`.

use rayon::prelude::*;

use super::linear::{DOUBLE, Linear, SINGLE};
use super::logarithmic::Logarithmic;
use crate::model::ops::simd::vectorised;
use crate::model::probe::head_output::PlanRows;
use crate::model::probe::router::Routed;

/// How sums over the kernel are made. `rows` and `columns` are potentials of tokens and positions,
/// or their exponentials: the domain's own business. All vectors are `[N]`.
pub(super) trait Domain: Send + Sync {
    /// The potential of the positions to begin with.
    fn start(&self, columns: &mut [f64]);
    /// Makes every row sum 1. False where float64 cannot do it in this domain.
    fn balance_rows(&mut self, rows: &mut [f64], columns: &[f64]) -> bool;
    /// Makes every column sum 1. False where float64 cannot do it in this domain.
    fn balance_columns(&mut self, rows: &[f64], columns: &mut [f64]) -> bool;
    /// `P weights` for the plan of these potentials.
    fn over_positions(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]);
    /// `P^T weights`.
    fn over_tokens(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]);
    /// Row `token` of the plan.
    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]);
}

/// Shares that are worth a thread of their own.
const SHARES_PER_THREAD: usize = 1 << 16;

/// The iterations of one image, kept for the way back: potentials alone. The domain is made again
/// from the scores, in time N, when it is needed.
pub(super) struct Transport {
    scores: Vec<f64>,
    temperature: f64,
    /// What was added to L, `[N, N]`; empty for nothing.
    noise: Vec<f32>,
    /// Where the iterations ran.
    numerics: Numerics,
    /// Potentials of the tokens after each iteration, `[iterations, N]`.
    rows: Vec<f64>,
    /// Potentials of the positions before the first and after each iteration, `[iterations + 1, N]`.
    columns: Vec<f64>,
}

/// How sums over the kernel are made: the quickest first.
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
    /// Runs the iterations in the first of the [`Numerics`] from `numerics` on whose range every scaling stays
    /// within, which the run itself checks. `noise`, `[N, N]` row-major, is added to L; empty for none.
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
            noise,
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

    /// Runs the iterations in this domain; false where they leave it.
    fn iterate(&mut self, domain: &mut dyn Domain) -> bool {
        let n = self.scores.len().max(1);
        domain.start(&mut self.columns[..self.scores.len()]);
        self.rows.chunks_mut(n).enumerate().all(|(t, rows)| {
            let (before, after) = self.columns.split_at_mut((t + 1) * n);
            domain.balance_rows(rows, &before[t * n..]) && domain.balance_columns(rows, &mut after[..n])
        })
    }

    /// What makes the sums with these numerics; `None` where that cannot take its scores or its noise.
    fn domain(&self) -> Option<Box<dyn Domain>> {
        fn boxed(domain: impl Domain + 'static) -> Box<dyn Domain> {
            Box::new(domain)
        }
        let (scores, temperature) = (&self.scores, self.temperature);
        match self.numerics {
            Numerics::Logarithmic => Some(boxed(Logarithmic::new(scores, temperature, &self.noise))),
            _ if !self.noise.is_empty() => None,
            Numerics::Single => Linear::<f32>::new(scores, temperature, &SINGLE).map(boxed),
            Numerics::Double => Linear::<f64>::new(scores, temperature, &DOUBLE).map(boxed),
        }
    }

    /// What made the sums.
    fn same_domain(&self) -> Box<dyn Domain> {
        self.domain().expect("the iterations ran in it")
    }

    /// The final potentials of tokens and positions.
    fn last(&self) -> (&[f64], &[f64]) {
        let n = self.scores.len();
        (&self.rows[self.rows.len() - n..], &self.columns[self.columns.len() - n..])
    }

    /// The plan, `[N, N]` row-major.
    pub fn plan(&self) -> Vec<f64> {
        let n = self.scores.len();
        let (domain, (rows, columns)) = (self.same_domain(), self.last());
        let mut share = vec![0.0; n * n];
        let enough = (SHARES_PER_THREAD / n.max(1)).max(1); // for a thread
        share.par_chunks_mut(n.max(1)).with_min_len(enough).enumerate().for_each(|(token, row)| {
            domain.row(rows, columns, token, row);
        });
        share
    }

    /// The plan row by row, none of them kept.
    pub fn rows(self) -> impl PlanRows + 'static {
        struct Made {
            domain: Box<dyn Domain>,
            transport: Transport,
        }
        impl PlanRows for Made {
            fn tokens(&self) -> usize {
                self.transport.scores.len()
            }

            fn row<'a>(&'a self, i: usize, room: &'a mut [f64]) -> &'a [f64] {
                let (rows, columns) = self.transport.last();
                self.domain.row(rows, columns, i, room);
                room
            }
        }
        Made { domain: self.same_domain(), transport: self }
    }

    /// The cotangent of `scores`, given that of the plan, `[N, N]`.
    pub fn vjp_of_plan<T: Copy + Into<f64>>(&self, cotangent: &[T]) -> Vec<f64> {
        let n = self.scores.len();
        let (mut domain, (rows, columns)) = (self.same_domain(), self.last());
        let places = self.places();
        let (mut f, mut g, mut moments) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let mut row = vec![0.0; n];
        for (i, cotangent) in cotangent.chunks(n.max(1)).enumerate() {
            domain.row(rows, columns, i, &mut row);
            for k in 0..n {
                let grad_scores = row[k] * cotangent[k].into();
                f[i] += grad_scores;
                g[k] += grad_scores;
                moments[i] += grad_scores * places[k];
            }
        }
        let mut grad_scores = vec![0.0; n];
        accumulate_grad(&mut grad_scores, &vec![1.0; n], &self.scores, &f, &moments);
        self.unroll(&mut *domain, f, g, grad_scores)
    }

    /// Runs the cotangents `f`, `g` of the final potentials back through every iteration, beside what
    /// already in `grad_scores`; returns the cotangent of the scores.
    fn unroll(
        &self,
        domain: &mut dyn Domain,
        mut f: Vec<f64>,
        mut g: Vec<f64>,
        mut grad_scores: Vec<f64>,
    ) -> Vec<f64> {
        let n = self.scores.len();
        let places = self.places();
        let (mut placed, mut sums, mut moments) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let columns = |t: usize| &self.columns[t * n..(t + 1) * n];
        let (ones, less) = (vec![1.0; n], vec![-1.0; n]);
        for (t, rows) in self.rows.chunks(n.max(1)).enumerate().rev() {
            let (before, after) = (columns(t), columns(t + 1));
            domain.over_positions(rows, after, &g, &mut sums);
            multiply(&g, &places, &mut placed);
            domain.over_positions(rows, after, &placed, &mut moments);
            accumulate_grad(&mut grad_scores, &less, &self.scores, &sums, &moments);
            // With its sign turned: the gradient of L through the row step, whose sums are 1.
            f.iter_mut().zip(&sums).for_each(|(f, sum)| *f = sum - *f);
            domain.over_positions(rows, before, &places, &mut moments);
            accumulate_grad(&mut grad_scores, &f, &self.scores, &ones, &moments);
            domain.over_tokens(rows, before, &f, &mut g);
            f.fill(0.0);
        }
        grad_scores.iter().map(|x| x * 2.0 / self.temperature).collect()
    }

    /// `p_k`.
    fn places(&self) -> Vec<f64> {
        let n = self.scores.len();
        (0..n).map(|k| k as f64 / n.saturating_sub(1).max(1) as f64).collect()
    }
}

impl Routed for Transport {
    fn weights(&self, gains: &[f64]) -> Vec<f64> {
        let n = self.scores.len().max(1);
        let (mut domain, (rows, columns)) = (self.same_domain(), self.last());
        let mut weights = vec![0.0; gains.len()];
        for (gain, weights) in gains.chunks(n).zip(weights.chunks_mut(n)) {
            domain.over_positions(rows, columns, gain, weights);
        }
        weights
    }

    fn vjp(&self, gains: &[f64], weights: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let (mut domain, (rows, columns)) = (self.same_domain(), self.last());
        let places = self.places();
        let (mut f, mut g, mut grad_scores) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut placed, mut moments) = (vec![0.0; n], vec![0.0; n]);
        let mut grad_gains = vec![0.0; gains.len()];
        for (m, grad_gain) in grad_gains.chunks_mut(n.max(1)).enumerate() {
            let [gain, weights, grad_weights] =
                [gains, weights, grad_weights].map(|all| &all[m * n..(m + 1) * n]);
            domain.over_tokens(rows, columns, grad_weights, grad_gain);
            multiply(gain, &places, &mut placed);
            domain.over_positions(rows, columns, &placed, &mut moments);
            accumulate_grad(&mut grad_scores, grad_weights, &self.scores, weights, &moments);
            (0..n).for_each(|i| f[i] += weights[i] * grad_weights[i]);
            (0..n).for_each(|k| g[k] += gain[k] * grad_gain[k]);
        }
        (self.unroll(&mut *domain, f, g, grad_scores), grad_gains)
    }

    fn plan(&self) -> Vec<f64> {
        self.plan()
    }

    fn vjp_of_plan(&self, grad_plan: &[f32]) -> Vec<f64> {
        self.vjp_of_plan(grad_plan)
    }
}

vectorised! {
    /// Adds what the kernel's cotangent `scale_i P[i, k] weight_k` owes the scores, in units of
    /// `2 / tau`: `scale_i sum_k P[i, k] weight_k (p_k - s_i)`, from the sums with and without `p_k`.
    fn accumulate_grad<const FUSED: bool>(grad_scores: &mut [f64], scales: &[f64], scores: &[f64], sums: &[f64], moments: &[f64]) {
        let tokens = grad_scores.iter_mut().zip(scales).zip(scores).zip(sums).zip(moments);
        for ((((grad_scores, scale), score), sum), moment) in tokens {
            *grad_scores += scale * (moment - score * sum);
        }
    }
}

vectorised! {
    /// `a b`.
    fn multiply<const FUSED: bool>(a: &[f64], b: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(a).zip(b).for_each(|((into, a), b)| *into = a * b);
    }
}
