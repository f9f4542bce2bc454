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

use super::linear::Linear;
use super::logarithmic::Logarithmic;
use crate::model::router::Routed;

/// How sums over the kernel are made. `rows` and `columns` are potentials of tokens and positions,
/// or their exponentials: the domain's own business.
pub(super) trait Domain: Sync {
    /// The potential of the positions to begin with.
    fn start(&self) -> Vec<f64>;
    /// Makes every row sum 1. False where float64 cannot do it in this domain.
    fn balance_rows(&self, rows: &mut [f64], columns: &[f64]) -> bool;
    /// Makes every column sum 1. False where float64 cannot do it in this domain.
    fn balance_columns(&self, rows: &[f64], columns: &mut [f64]) -> bool;
    /// `P weights`, `[N]`, for the plan of these potentials.
    fn over_positions(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64>;
    /// `P^T weights`, `[N]`.
    fn over_tokens(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64>;
    /// Row `token` of the plan.
    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]);
}

/// The iterations of one image, kept for the way back.
pub(super) struct Transport {
    domain: Box<dyn Domain + Send>,
    /// Potentials of the tokens after each iteration.
    rows: Vec<Vec<f64>>,
    /// Potentials of the positions before the first and after each iteration.
    columns: Vec<Vec<f64>>,
    scores: Vec<f64>,
    temperature: f64,
}

impl Transport {
    /// Runs the iterations: by polynomials where every scaling stays within float64's range, which
    /// the run itself checks, else in the log domain. `noise`, `[N, N]` row-major, is added to L;
    /// empty for none.
    pub fn run(scores: &[f64], temperature: f64, iterations: usize, noise: &[f32]) -> Self {
        let try_in = |domain: Box<dyn Domain + Send>| {
            let (mut rows, mut columns) = (Vec::with_capacity(iterations), vec![domain.start()]);
            for t in 0..iterations {
                let mut f = vec![0.0; scores.len()];
                let mut g = vec![0.0; scores.len()];
                if !domain.balance_rows(&mut f, &columns[t]) || !domain.balance_columns(&f, &mut g) {
                    return None;
                }
                rows.push(f);
                columns.push(g);
            }
            Some(Self { domain, rows, columns, scores: scores.to_vec(), temperature })
        };
        let linear = || try_in(Box::new(Linear::new(scores, temperature)));
        let logarithmic = || try_in(Box::new(Logarithmic::new(scores, temperature, noise)));
        let quick = if noise.is_empty() { linear() } else { None };
        quick.or_else(logarithmic).expect("the log domain never refuses")
    }

    /// The final potentials of tokens and positions.
    fn last(&self) -> (&[f64], &[f64]) {
        let no_rows = "Sinkhorn has at least one iteration";
        (self.rows.last().expect(no_rows), self.columns.last().expect(no_rows))
    }

    /// The plan, `[N, N]` row-major.
    pub fn plan(&self) -> Vec<f64> {
        let n = self.scores.len();
        let (rows, columns) = self.last();
        let mut share = vec![0.0; n * n];
        for (token, row) in share.chunks_mut(n.max(1)).enumerate() {
            self.domain.row(rows, columns, token, row);
        }
        share
    }

    /// The cotangent of `scores`, given that of the plan, `[N, N]`.
    pub fn backward_of_plan(&self, cotangent: &[f64]) -> Vec<f64> {
        let n = self.scores.len();
        let (rows, columns) = self.last();
        let places = self.places();
        let (mut f, mut g, mut moments) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let mut row = vec![0.0; n];
        for (i, cotangent) in cotangent.chunks(n.max(1)).enumerate() {
            self.domain.row(rows, columns, i, &mut row);
            for k in 0..n {
                let owed = row[k] * cotangent[k];
                f[i] += owed;
                g[k] += owed;
                moments[i] += owed * places[k];
            }
        }
        let mut owed = vec![0.0; n];
        self.owe(&mut owed, &vec![1.0; n], &f, &moments);
        self.unroll(f, g, owed)
    }

    /// Runs the cotangents `f`, `g` of the final potentials back through every iteration, beside what
    /// the scores are `owed` already; returns the cotangent of the scores.
    fn unroll(&self, mut f: Vec<f64>, mut g: Vec<f64>, mut owed: Vec<f64>) -> Vec<f64> {
        let (domain, places) = (&self.domain, self.places());
        let [ones, minus] = [1.0, -1.0].map(|one| vec![one; self.scores.len()]);
        for t in (0..self.rows.len()).rev() {
            let (rows, before, after) = (&self.rows[t], &self.columns[t], &self.columns[t + 1]);
            let sums = domain.over_positions(rows, after, &g);
            let moments = domain.over_positions(rows, after, &zip(&g, &places, |g, p| g * p));
            self.owe(&mut owed, &minus, &sums, &moments);
            f = zip(&f, &sums, |f, sum| sum - f); // less than nothing: what L is owed by the row step
            self.owe(&mut owed, &f, &ones, &domain.over_positions(rows, before, &places));
            g = domain.over_tokens(rows, before, &f);
            f.fill(0.0);
        }
        owed.iter().map(|x| x * 2.0 / self.temperature).collect()
    }

    /// Adds what the kernel's cotangent `scale_i P[i, k] weight_k` owes the scores, in units of
    /// `2 / tau`: `scale_i sum_k P[i, k] weight_k (p_k - s_i)`, from the sums with and without `p_k`.
    fn owe(&self, owed: &mut [f64], scale: &[f64], sums: &[f64], moments: &[f64]) {
        for (i, owed) in owed.iter_mut().enumerate() {
            *owed += scale[i] * (moments[i] - self.scores[i] * sums[i]);
        }
    }

    /// `p_k`.
    fn places(&self) -> Vec<f64> {
        let n = self.scores.len();
        (0..n).map(|k| k as f64 / n.saturating_sub(1).max(1) as f64).collect()
    }
}

impl Routed for Transport {
    fn weights(&self, gains: &[f64]) -> Vec<f64> {
        let (rows, columns) = self.last();
        let of = |gain| self.domain.over_positions(rows, columns, gain);
        gains.chunks(self.scores.len().max(1)).flat_map(of).collect()
    }

    fn pull(&self, gains: &[f64], weights: &[f64], by_weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let (rows, columns) = self.last();
        let places = self.places();
        let (mut f, mut g, mut owed) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let mut all_by_gain = Vec::with_capacity(gains.len());
        let each = gains.chunks(n.max(1)).zip(weights.chunks(n.max(1))).zip(by_weights.chunks(n.max(1)));
        for ((gain, weights), by_weights) in each {
            let by_gain = self.domain.over_tokens(rows, columns, by_weights);
            let moments = self.domain.over_positions(rows, columns, &zip(gain, &places, |q, p| q * p));
            self.owe(&mut owed, by_weights, weights, &moments);
            (0..n).for_each(|i| f[i] += weights[i] * by_weights[i]);
            (0..n).for_each(|k| g[k] += gain[k] * by_gain[k]);
            all_by_gain.extend(by_gain);
        }
        (self.unroll(f, g, owed), all_by_gain)
    }
}

/// Element by element.
fn zip(a: &[f64], b: &[f64], with: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| with(a, b)).collect()
}
