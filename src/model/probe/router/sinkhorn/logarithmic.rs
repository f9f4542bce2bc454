//! Sums over the kernel in the log domain: `L[i, k] = x_i k`, with potentials `f` and `g` themselves. Takes any
//! finite scores at any temperature, and noise on L; costs an exponential per entry instead of a multiplication.

use std::borrow::Cow;
use std::sync::Arc;

use super::transport::Domain;
use crate::model::ops::simd::{Real, exp, vectorised};

pub(super) struct Logarithmic {
    /// `x_i = 2 s_i / (tau (N - 1))`.
    slopes: Vec<f64>,
    /// `k`.
    positions: Vec<f64>,
    temperature: f64,
    /// Noise added to L, `[N, N]` row-major; empty for none.
    noise: Arc<[f32]>,
}

impl Logarithmic {
    /// The kernel of these scores, with `noise` (`[N, N]` row-major, or empty) added to L.
    pub fn new(scores: &[f64], temperature: f64, noise: Arc<[f32]>) -> Self {
        let n = scores.len();
        let last = n.saturating_sub(1).max(1) as f64;
        let slopes = scores.iter().map(|s| 2.0 * s / (temperature * last)).collect();
        let positions = (0..n).map(|k| k as f64).collect();
        Self { slopes, positions, temperature, noise }
    }

    /// The potentials of the positions plus the noise of row `token`.
    fn noisy_columns<'a>(&self, columns: &'a [f64], token: usize) -> Cow<'a, [f64]> {
        self.add_noise(columns, self.noise.iter().skip(token * columns.len()))
    }

    /// The potentials of the tokens plus the noise of column `position`.
    fn noisy_rows<'a>(&self, rows: &'a [f64], position: usize) -> Cow<'a, [f64]> {
        self.add_noise(rows, self.noise.iter().skip(position).step_by(rows.len()))
    }

    fn add_noise<'a, 'n>(&self, values: &'a [f64], noise: impl Iterator<Item = &'n f32>) -> Cow<'a, [f64]> {
        if self.noise.is_empty() {
            return Cow::Borrowed(values);
        }
        values.iter().zip(noise).map(|(value, &noise)| value + f64::from(noise)).collect()
    }
}

impl Domain for Logarithmic {
    fn start(&self, columns: &mut [f64]) {
        let last = self.positions.len().saturating_sub(1).max(1) as f64;
        for (g, k) in columns.iter_mut().zip(&self.positions) {
            *g = -(k / last).powi(2) / self.temperature;
        }
    }

    fn normalise_rows(&mut self, rows: &mut [f64], columns: &[f64]) -> bool {
        for (i, f) in rows.iter_mut().enumerate() {
            *f = -log_sum_exp(self.slopes[i], &self.positions, &self.noisy_columns(columns, i));
        }
        true
    }

    fn normalise_columns(&mut self, rows: &[f64], columns: &mut [f64]) -> bool {
        for (k, g) in columns.iter_mut().enumerate() {
            *g = -log_sum_exp(self.positions[k], &self.slopes, &self.noisy_rows(rows, k));
        }
        true
    }

    fn plan_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        for (i, (into, &f)) in into.iter_mut().zip(rows).enumerate() {
            *into =
                weighted_sum(self.slopes[i], &self.positions, &self.noisy_columns(columns, i), f, weights);
        }
    }

    fn plan_transposed_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        for (k, (into, &g)) in into.iter_mut().zip(columns).enumerate() {
            *into = weighted_sum(self.positions[k], &self.slopes, &self.noisy_rows(rows, k), g, weights);
        }
    }

    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]) {
        let columns = self.noisy_columns(columns, token);
        for (k, share) in into.iter_mut().enumerate() {
            *share = (self.slopes[token] * self.positions[k] + rows[token] + columns[k]).exp();
        }
    }
}

/// Values that are processed together, as lanes of vector registers.
const BLOCK: usize = 16;

vectorised! {
    /// `ln sum_j exp(a b_j + c_j)`.
    fn log_sum_exp<const FUSED: bool>(a: f64, b: &[f64], c: &[f64]) -> f64 {
        let (b, b_rest) = b.as_chunks::<BLOCK>();
        let (c, c_rest) = c.as_chunks::<BLOCK>();
        let line = |b: f64, c: f64| f64::multiply_add::<FUSED>(a, b, c);
        let mut tops = [f64::NEG_INFINITY; BLOCK];
        for (b, c) in b.iter().zip(c) {
            for lane in 0..BLOCK {
                let value = line(b[lane], c[lane]);
                tops[lane] = if value > tops[lane] { value } else { tops[lane] };
            }
        }
        let rest = b_rest.iter().zip(c_rest);
        let top = tops.into_iter().chain(rest.clone().map(|(&b, &c)| line(b, c))).fold(f64::NEG_INFINITY, f64::max);
        let mut sums = [0.0; BLOCK];
        for (b, c) in b.iter().zip(c) {
            (0..BLOCK).for_each(|lane| sums[lane] += exp::<FUSED>(line(b[lane], c[lane]) - top));
        }
        let rest: f64 = rest.map(|(&b, &c)| exp::<FUSED>(line(b, c) - top)).sum();
        top + (sums.into_iter().sum::<f64>() + rest).ln()
    }
}

vectorised! {
    /// `sum_j exp(a b_j + c_j + d) w_j`, where no exponent exceeds 0 by more than rounding.
    fn weighted_sum<const FUSED: bool>(a: f64, b: &[f64], c: &[f64], d: f64, w: &[f64]) -> f64 {
        let (b, b_rest) = b.as_chunks::<BLOCK>();
        let (c, c_rest) = c.as_chunks::<BLOCK>();
        let (w, w_rest) = w.as_chunks::<BLOCK>();
        let term = |b: f64, c: f64, w: f64| exp::<FUSED>(f64::multiply_add::<FUSED>(a, b, c) + d) * w;
        let mut sums = [0.0; BLOCK];
        for ((b, c), w) in b.iter().zip(c).zip(w) {
            (0..BLOCK).for_each(|lane| sums[lane] += term(b[lane], c[lane], w[lane]));
        }
        let rest = b_rest.iter().zip(c_rest).zip(w_rest).map(|((&b, &c), &w)| term(b, c, w));
        sums.into_iter().sum::<f64>() + rest.sum::<f64>()
    }
}
