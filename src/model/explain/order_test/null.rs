//! The null distribution under exchanges of tokens: `B[i, j]` is the contribution of token `i` in the place of token `j`; an
//! exchange `pi` has the value `sum_i B[i, pi(i)]`. Mean, deviation and extremes over all are exact; p is from random ones.

use std::array;

use rayon::join;
use serde::{Deserialize, Serialize};

use super::assignment::min_cost_assignment;
use super::exchanges::{DRAWS, Exchanges};
use crate::model::memo::mark;
use crate::model::ops::simd::vectorised;
use crate::model::stats::{mean_row, normal_tail, sum_by_fours};
use crate::model::trace::{HISTOGRAM_BINS, HISTOGRAM_END, Reassigned};

/// A deviation below this multiple of the largest entry (times sqrt N) is rounding, and taken for 0.
const ROUNDING: f64 = 1e-12;
/// A draw at most this many deviations below the value counts as equal to it: the same terms summed in another order.
const TIE: f64 = 1e-9;
/// Products that are drawn together: one load finds what a place counts in all of them.
pub(super) const BATCH: usize = 8;

/// `B`, stored as compactly as possible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Exchange {
    /// `B[i, j] = token[i] place[j]`: one kernel for all channels.
    Product {
        /// `[N]`.
        token: Vec<f64>,
        /// `[N]`.
        place: Vec<f64>,
    },
    /// `B`, `[N, N]` row-major.
    Table(Vec<f64>),
}

/// The distribution of the value over all exchanges, without the bias.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Null {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; 0 if all exchanges have the same value, up to rounding.
    pub std: f64,
    /// Largest value.
    pub best: f64,
    /// Smallest value.
    pub worst: f64,
    /// Values of the random exchanges less the mean; empty if `std` is 0.
    drawn: Vec<f64>,
}

impl Null {
    /// The null distribution of `exchange`, with random exchanges drawn from `exchanges`.
    pub(super) fn new(exchange: &Exchange, exchanges: &Exchanges) -> Self {
        let centred = exchange.centred();
        Self::from_draws(exchange, &centred, || exchanges.map(exchange.tokens(), |pi| centred.value(pi)))
    }

    /// [`new`](Self::new) of each of these products, to the same bits: at most [`BATCH`], all with the same number of tokens.
    pub(super) fn of_products(products: &[&Exchange], exchanges: &Exchanges) -> Vec<Self> {
        if products.len() < 2 {
            return products.iter().map(|one| Self::new(one, exchanges)).collect();
        }
        let centred: Vec<Exchange> = products.iter().map(|product| product.centred()).collect();
        let n = products[0].tokens();
        let rows = |side: fn(&Exchange) -> &[f64]| -> Vec<[f64; BATCH]> {
            (0..n).map(|i| array::from_fn(|at| centred.get(at).map_or(0.0, |one| side(one)[i]))).collect()
        };
        let (token, place) = (rows(|one| one.product().0), rows(|one| one.product().1));
        let drawn = exchanges.map(n, |pi| values(&token, &place, pi));
        let nulls = products.iter().zip(&centred).enumerate();
        let drawn = |at: usize| drawn.iter().map(|values| values[at]).collect();
        nulls.map(|(at, (product, centred))| Self::from_draws(product, centred, || drawn(at))).collect()
    }

    /// The null distribution of `exchange`, where `drawn` returns the values of random exchanges of what is `centred`.
    fn from_draws(exchange: &Exchange, centred: &Exchange, drawn: impl FnOnce() -> Vec<f64> + Send) -> Self {
        let (mean, std) = (exchange.mean(), centred.deviation());
        if std <= ROUNDING * (exchange.tokens() as f64).sqrt() * exchange.largest() {
            return Self { mean, std: 0.0, best: mean, worst: mean, drawn: Vec::new() };
        }
        let (drawn, (best, worst)) = join(drawn, || centred.extremes());
        Self { mean, std, best: mean + best, worst: mean + worst, drawn }
    }

    /// z, p and histogram of a value at distance `above` from the mean.
    pub fn reassigned(&self, above: f64) -> Reassigned {
        let Self { mean, std, ref drawn, .. } = *self;
        if std == 0.0 {
            let histogram = Vec::new();
            return Reassigned { mean, std, z: None, p: 1.0, p_normal: 1.0, draws: DRAWS, histogram };
        }
        let as_high = drawn.iter().filter(|draw| **draw >= above - TIE * std).count();
        let z = above / std;
        Reassigned {
            mean,
            std,
            z: Some(z),
            p: (1 + as_high) as f64 / (DRAWS + 1) as f64,
            p_normal: normal_tail(z),
            draws: DRAWS,
            histogram: histogram(drawn, std),
        }
    }
}

impl Exchange {
    /// Contribution of token `i` in the place of token `j`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        match self {
            Self::Product { token, place } => token[i] * place[j],
            Self::Table(table) => table[i * self.tokens() + j],
        }
    }

    /// Whether it has an entry for each of `n` tokens in each place.
    pub(super) fn is_of(&self, n: usize) -> bool {
        match self {
            Self::Product { token, place } => token.len() == n && place.len() == n,
            Self::Table(table) => n.checked_mul(n) == Some(table.len()),
        }
    }

    /// `token` and `place` of a product.
    fn product(&self) -> (&[f64], &[f64]) {
        match self {
            Self::Product { token, place } => (token, place),
            Self::Table(_) => unreachable!("products alone are drawn together"),
        }
    }

    /// Hash that tells it from others of as many tokens, for the cache.
    pub(super) fn mark(&self) -> u64 {
        match self {
            Self::Product { token, place } => mark(mark(1, token, f64::to_bits), place, f64::to_bits),
            Self::Table(table) => mark(0, table, f64::to_bits),
        }
    }

    pub(super) fn tokens(&self) -> usize {
        match self {
            Self::Product { token, .. } => token.len(),
            Self::Table(table) => table.len().isqrt(),
        }
    }

    /// `trace(B)`: the value of the tokens in their own places.
    pub fn trace(&self) -> f64 {
        match self {
            Self::Product { token, place } => token.iter().zip(place).map(|(u, q)| u * q).sum(),
            Self::Table(table) => table.iter().step_by(self.tokens() + 1).sum(),
        }
    }

    /// `sum(B) / N`: the mean over all exchanges.
    fn mean(&self) -> f64 {
        let n = self.tokens() as f64;
        match self {
            Self::Product { token, place } => token.iter().sum::<f64>() * place.iter().sum::<f64>() / n,
            Self::Table(table) => table.iter().sum::<f64>() / n,
        }
    }

    /// The largest absolute entry.
    fn largest(&self) -> f64 {
        let largest = |values: &[f64]| values.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        match self {
            Self::Product { token, place } => largest(token) * largest(place),
            Self::Table(table) => largest(table),
        }
    }

    /// `B` less its row means and column means plus its grand mean: the value of every exchange is that for `B` less the
    /// mean over all exchanges.
    pub fn centred(&self) -> Self {
        match self {
            Self::Product { token, place } => {
                Self::Product { token: subtract_mean(token), place: subtract_mean(place) }
            }
            Self::Table(table) => {
                let n = self.tokens();
                let columns = subtract_mean(&mean_row(table.chunks_exact(n), n));
                let row = |row: &[f64]| -> Vec<f64> {
                    let mean = row.iter().sum::<f64>() / n as f64;
                    row.iter().zip(&columns).map(|(x, column)| x - mean - column).collect()
                };
                Self::Table(table.chunks_exact(n).flat_map(row).collect())
            }
        }
    }

    /// The standard deviation of a centred table `X` over all exchanges, `sqrt(sum(X^2) / (N - 1))`; 0 for a single token.
    fn deviation(&self) -> f64 {
        let squares = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
        let sum = match self {
            Self::Product { token, place } => squares(token) * squares(place),
            Self::Table(table) => squares(table),
        };
        (sum / (self.tokens() - 1).max(1) as f64).sqrt()
    }

    /// The value of one exchange.
    fn value(&self, pi: &[u32]) -> f64 {
        match self {
            Self::Product { token, place } => {
                sum_by_fours(token.iter().zip(pi).map(|(u, &j)| u * place[j as usize]))
            }
            Self::Table(table) => {
                sum_by_fours(table.chunks_exact(pi.len()).zip(pi).map(|(row, &j)| row[j as usize]))
            }
        }
    }

    /// The largest and the smallest value over all exchanges.
    fn extremes(&self) -> (f64, f64) {
        match self {
            Self::Product { token, place } => {
                let (token, place) = (sorted(token), sorted(place));
                let best = token.iter().zip(&place).map(|(u, q)| u * q).sum();
                (best, token.iter().zip(place.iter().rev()).map(|(u, q)| u * q).sum())
            }
            Self::Table(table) => {
                let n = self.tokens();
                let total =
                    |columns: Vec<usize>| columns.iter().enumerate().map(|(i, j)| table[i * n + j]).sum();
                let largest = || min_cost_assignment(&table.iter().map(|x| -x).collect::<Vec<_>>(), n);
                let (best, worst) = join(largest, || min_cost_assignment(table, n));
                (total(best), total(worst))
            }
        }
    }
}

vectorised! {
    /// The value of one exchange for each of the products whose tokens and places are side by side. Terms are rounded and summed as in
    /// [`sum_by_fours`]: to the same bits as alone, on every processor.
    fn values<const FUSED: bool>(
        token: &[[f64; BATCH]],
        place: &[[f64; BATCH]],
        pi: &[u32],
    ) -> [f64; BATCH] {
        #[inline(always)] // with the instructions of the loop
        fn add(sum: &mut [f64; BATCH], token: &[f64; BATCH], place: &[f64; BATCH]) {
            for ((sum, u), q) in sum.iter_mut().zip(token).zip(place) {
                *sum += u * q;
            }
        }
        let mut sums = [[0.0; BATCH]; 4];
        // Whole fours first, whose sums stay in registers.
        let ((fours, rest), (pi, last)) = (token.as_chunks::<4>(), pi.as_chunks::<4>());
        for (token, pi) in fours.iter().zip(pi) {
            for ((sum, token), &j) in sums.iter_mut().zip(token).zip(pi) {
                add(sum, token, &place[j as usize]);
            }
        }
        for ((sum, token), &j) in sums.iter_mut().zip(rest).zip(last) {
            add(sum, token, &place[j as usize]);
        }
        array::from_fn(|at| sums.iter().map(|sum| sum[at]).sum())
    }
}

fn subtract_mean(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| x - mean).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Number of draws in each bin, those beyond the range in the outermost bins.
fn histogram(drawn: &[f64], std: f64) -> Vec<u32> {
    let mut counts = vec![0; HISTOGRAM_BINS];
    for draw in drawn {
        let at = (draw / std + HISTOGRAM_END) / (2.0 * HISTOGRAM_END) * HISTOGRAM_BINS as f64;
        counts[(at.max(0.0) as usize).min(HISTOGRAM_BINS - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_drawn_together_have_the_nulls_that_each_has_alone() {
        let wave = |n: usize, by: f64| (0..n).map(|i| (by * (i * i + 1) as f64).sin()).collect::<Vec<f64>>();
        let exchanges = Exchanges::new(3);
        for (n, count) in [(1, 2), (6, 3), (7, BATCH), (16, 1)] {
            let product = |at: usize| match at {
                1 => Exchange::Product { token: vec![0.5; n], place: wave(n, 0.3) }, // the same in every order
                _ => Exchange::Product { token: wave(n, 1.1 + at as f64), place: wave(n, 0.7 - at as f64) },
            };
            let products: Vec<Exchange> = (0..count).map(product).collect();
            let alone: Vec<Null> = products.iter().map(|one| Null::new(one, &exchanges)).collect();
            let together = Null::of_products(&products.iter().collect::<Vec<_>>(), &exchanges);
            assert_eq!(together, alone, "{count} of {n} tokens");
            let constant = if n == 1 { count } else { usize::from(count > 1) };
            assert_eq!(alone.iter().filter(|null| null.drawn.is_empty()).count(), constant);
        }
    }
}
