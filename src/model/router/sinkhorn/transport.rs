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
//! step, a cotangent runs back by `f -= C g`, `g = -A^T f`, and to the kernel by `-C g` and `-A f`;
//! `dL[i, k] / ds_i = 2 (p_k - s_i) / tau`.

use super::linear::Linear;
use super::logarithmic::Logarithmic;

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
    /// the run itself checks, else in the log domain.
    pub fn run(scores: &[f64], temperature: f64, iterations: usize) -> Self {
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
        try_in(Box::new(Linear::new(scores, temperature)))
            .or_else(|| try_in(Box::new(Logarithmic::new(scores, temperature))))
            .expect("the log domain takes any finite scores")
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

    /// `P gain`, `[N]`.
    pub fn weights(&self, gain: &[f64]) -> Vec<f64> {
        let (rows, columns) = self.last();
        self.domain.over_positions(rows, columns, gain)
    }

    /// The cotangents of `scores` and `gain`, given `weights = P gain` and its cotangent.
    pub fn backward(&self, gain: &[f64], weights: &[f64], cotangent: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.scores.len();
        let domain = &self.domain;
        let last = n.saturating_sub(1).max(1) as f64;
        let places: Vec<f64> = (0..n).map(|k| k as f64 / last).collect();
        let by_place = |x: &[f64]| zip(x, &places, |x, p| x * p);
        let (rows, columns) = self.last();
        let gain_cotangent = domain.over_tokens(rows, columns, cotangent);
        // What the kernel is owed comes in rows `scale_i P[i, k] weight_k`; `ds_i` needs its sum and its
        // sum over `p_k`, both times `scale_i`.
        let mut ds = vec![0.0; n]; // in units of 2 / tau
        let mut owe = |scale: &dyn Fn(usize) -> f64, sum: &[f64], moment: &[f64]| {
            (0..n).for_each(|i| ds[i] += scale(i) * (moment[i] - self.scores[i] * sum[i]));
        };
        owe(&|i| cotangent[i], weights, &domain.over_positions(rows, columns, &by_place(gain)));
        let mut f = zip(weights, cotangent, |w, c| w * c);
        let mut g = zip(gain, &gain_cotangent, |q, c| q * c);
        let ones = vec![1.0; n];
        for t in (0..self.rows.len()).rev() {
            let (rows, before, after) = (&self.rows[t], &self.columns[t], &self.columns[t + 1]);
            let sum = domain.over_positions(rows, after, &g);
            owe(&|_| -1.0, &sum, &domain.over_positions(rows, after, &by_place(&g)));
            f = zip(&f, &sum, |f, s| f - s);
            owe(&|i| -f[i], &ones, &domain.over_positions(rows, before, &places));
            g = domain.over_tokens(rows, before, &f).into_iter().map(|x| -x).collect();
            f = vec![0.0; n];
        }
        ds.iter_mut().for_each(|x| *x *= 2.0 / self.temperature);
        (ds, gain_cotangent)
    }
}

/// Element by element.
fn zip(a: &[f64], b: &[f64], with: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| with(a, b)).collect()
}
