//! The kernel in the log domain: `L[i, k] = x_i k`, potentials themselves. Takes any finite scores at
//! any temperature; an exponential an entry instead of a multiplication.

use super::transport::Domain;
use super::vectorise::{multiply_add, vectorised};

/// The kernel of one image.
pub(super) struct Logarithmic {
    /// `x_i = 2 s_i / (tau (N - 1))`.
    slope: Vec<f64>,
    /// `k`.
    place: Vec<f64>,
    temperature: f64,
}

impl Logarithmic {
    /// The kernel of these scores.
    pub fn new(scores: &[f64], temperature: f64) -> Self {
        let last = scores.len().saturating_sub(1).max(1) as f64;
        let slope = scores.iter().map(|s| 2.0 * s / (temperature * last)).collect();
        Self { slope, place: (0..scores.len()).map(|k| k as f64).collect(), temperature }
    }
}

impl Domain for Logarithmic {
    fn start(&self) -> Vec<f64> {
        let last = self.place.len().saturating_sub(1).max(1) as f64;
        self.place.iter().map(|k| -(k / last).powi(2) / self.temperature).collect()
    }

    fn balance_rows(&self, rows: &mut [f64], columns: &[f64]) -> bool {
        let potential = |&x: &f64| -log_sum_exp(x, &self.place, columns);
        rows.iter_mut().zip(&self.slope).for_each(|(f, x)| *f = potential(x));
        true
    }

    fn balance_columns(&self, rows: &[f64], columns: &mut [f64]) -> bool {
        let potential = |&k: &f64| -log_sum_exp(k, &self.slope, rows);
        columns.iter_mut().zip(&self.place).for_each(|(g, k)| *g = potential(k));
        true
    }

    fn over_positions(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64> {
        let sum = |(&x, &f): (&f64, &f64)| weighted_sum(x, &self.place, columns, f, weights);
        self.slope.iter().zip(rows).map(sum).collect()
    }

    fn over_tokens(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64> {
        let sum = |(&k, &g): (&f64, &f64)| weighted_sum(k, &self.slope, rows, g, weights);
        self.place.iter().zip(columns).map(sum).collect()
    }

    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]) {
        for (k, share) in into.iter_mut().enumerate() {
            *share = (self.slope[token] * self.place[k] + rows[token] + columns[k]).exp();
        }
    }
}

/// Values that go through the registers together.
const BLOCK: usize = 16;

vectorised! {
    /// `ln sum_j exp(a b_j + c_j)`.
    fn log_sum_exp<const FUSED: bool>(a: f64, b: &[f64], c: &[f64]) -> f64 {
        let (b, b_rest) = b.as_chunks::<BLOCK>();
        let (c, c_rest) = c.as_chunks::<BLOCK>();
        let line = |b: f64, c: f64| multiply_add::<FUSED>(a, b, c);
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
    /// `sum_j exp(a b_j + c_j + d) w_j`; no exponent above 0 by more than a rounding.
    fn weighted_sum<const FUSED: bool>(a: f64, b: &[f64], c: &[f64], d: f64, w: &[f64]) -> f64 {
        let (b, b_rest) = b.as_chunks::<BLOCK>();
        let (c, c_rest) = c.as_chunks::<BLOCK>();
        let (w, w_rest) = w.as_chunks::<BLOCK>();
        let term = |b: f64, c: f64, w: f64| exp::<FUSED>(multiply_add::<FUSED>(a, b, c) + d) * w;
        let mut sums = [0.0; BLOCK];
        for ((b, c), w) in b.iter().zip(c).zip(w) {
            (0..BLOCK).for_each(|lane| sums[lane] += term(b[lane], c[lane], w[lane]));
        }
        let rest = b_rest.iter().zip(c_rest).zip(w_rest).map(|((&b, &c), &w)| term(b, c, w));
        sums.into_iter().sum::<f64>() + rest.sum::<f64>()
    }
}

/// `exp(x)` for `x` up to about 1, to an ulp or two; below -708 some 1e-308 stands for 0. Without a
/// branch, so that it vectorises: `x = n ln 2 + r`, `|r| <= ln 2 / 2`, Taylor's series for `exp(r)` up
/// to `r^13 / 13!` (the next term is below 5e-18), and `n` added to the exponent bits.
#[inline(always)]
fn exp<const FUSED: bool>(x: f64) -> f64 {
    /// 1.5 * 2^52: adding it rounds to a whole number, left in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1; // its last 32 bits are 0: n LN_2_HIGH is exact
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const TAYLOR: [f64; 14] = {
        let mut terms = [1.0; 14];
        let mut n = 1;
        while n < 14 {
            terms[n] = terms[n - 1] / n as f64;
            n += 1;
        }
        terms
    };
    let x = if x > -708.0 { x } else { -708.0 };
    let shifted = multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FUSED>(-LN_2_LOW, n, multiply_add::<FUSED>(-LN_2_HIGH, n, x));
    let mut series = TAYLOR[13];
    let mut term = 13;
    while term > 0 {
        term -= 1;
        series = multiply_add::<FUSED>(series, r, TAYLOR[term]);
    }
    series * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_exponential_is_within_two_ulp() {
        for step in 0..=700_000 {
            let x = 1.0 - f64::from(step) * 0.001_001;
            for found in [exp::<false>(x), exp::<true>(x)] {
                assert!((found / x.exp() - 1.0).abs() < 4.5e-16, "exp({x}) = {found:e}");
            }
        }
        assert!(exp::<false>(-1e300) < 1e-307 && exp::<false>(f64::NEG_INFINITY) < 1e-307);
    }
}
