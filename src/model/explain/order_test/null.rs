//! What exchanging tokens gives: `B[i, j]` is what token `i` counts in the place of token `j`, an exchange `pi` gives
//! `sum_i B[i, pi(i)]`. Mean, spread, best and worst over all of them are exact; p is counted over drawn ones.

use rayon::join;
use serde::{Deserialize, Serialize};

use super::assignment::cheapest;
use super::exchanges::{DRAWS, Exchanges};
use crate::model::memo::mark;
use crate::model::stats::normal_tail;
use crate::model::trace::{HISTOGRAM_BINS, HISTOGRAM_END, Reassigned};

/// A spread this much smaller than the numbers it is of is their rounding.
const ROUNDING: f64 = 1e-12;
/// A draw this close below the value, in deviations, is as high: the same tokens summed in another order.
const TIE: f64 = 1e-9;

/// `B`, as small as it can be held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Exchange {
    /// `token[i] place[j]`: one memory for all channels.
    Product {
        /// `[N]`.
        token: Vec<f64>,
        /// `[N]`.
        place: Vec<f64>,
    },
    /// `[N, N]`.
    Table(Vec<f64>),
}

/// What is known of all exchanges, the bias left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Null {
    /// Mean of all.
    pub mean: f64,
    /// Standard deviation of all; 0 where all give the same, but for rounding.
    pub std: f64,
    /// The largest of all.
    pub best: f64,
    /// The smallest of all.
    pub worst: f64,
    /// What the drawn ones give, less the mean; none where all give the same.
    drawn: Vec<f64>,
}

impl Null {
    /// Of all exchanges.
    pub(super) fn new(exchange: &Exchange, exchanges: &Exchanges) -> Self {
        let (centred, mean, n) = (exchange.centred(), exchange.mean(), exchange.tokens());
        let std = centred.deviation();
        if std <= ROUNDING * (n as f64).sqrt() * exchange.largest() {
            return Self { mean, std: 0.0, best: mean, worst: mean, drawn: Vec::new() };
        }
        let (drawn, (best, worst)) = join(|| exchanges.map(n, |pi| centred.exchanged(pi)), || centred.ends());
        Self { mean, std, best: mean + best, worst: mean + worst, drawn }
    }

    /// Where one stands that lies so much `above` the mean.
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
    /// What token `i` counts in the place of token `j`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        match self {
            Self::Product { token, place } => token[i] * place[j],
            Self::Table(table) => table[i * self.tokens() + j],
        }
    }

    /// A number that tells it from others of as many tokens.
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

    /// `trace(B)`.
    pub fn trace(&self) -> f64 {
        match self {
            Self::Product { token, place } => token.iter().zip(place).map(|(u, q)| u * q).sum(),
            Self::Table(table) => table.iter().step_by(self.tokens() + 1).sum(),
        }
    }

    /// `sum(B) / N`.
    fn mean(&self) -> f64 {
        let n = self.tokens() as f64;
        match self {
            Self::Product { token, place } => token.iter().sum::<f64>() * place.iter().sum::<f64>() / n,
            Self::Table(table) => table.iter().sum::<f64>() / n,
        }
    }

    /// The largest entry.
    fn largest(&self) -> f64 {
        let largest = |values: &[f64]| values.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        match self {
            Self::Product { token, place } => largest(token) * largest(place),
            Self::Table(table) => largest(table),
        }
    }

    /// `B` less its row means and column means plus its grand mean: every exchange of it gives what it gives of `B`, less
    /// the mean of all.
    pub fn centred(&self) -> Self {
        match self {
            Self::Product { token, place } => {
                Self::Product { token: less_mean(token), place: less_mean(place) }
            }
            Self::Table(table) => {
                let n = self.tokens();
                let mut columns = vec![0.0; n];
                table
                    .chunks_exact(n)
                    .for_each(|row| columns.iter_mut().zip(row).for_each(|(c, x)| *c += x / n as f64));
                let columns = less_mean(&columns);
                let row = |row: &[f64]| -> Vec<f64> {
                    let mean = row.iter().sum::<f64>() / n as f64;
                    row.iter().zip(&columns).map(|(x, column)| x - mean - column).collect()
                };
                Self::Table(table.chunks_exact(n).flat_map(row).collect())
            }
        }
    }

    /// Of a centred one the deviation over all exchanges, `sqrt(sum(X^2) / (N - 1))`; 0 of a single token.
    fn deviation(&self) -> f64 {
        let squares = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
        let sum = match self {
            Self::Product { token, place } => squares(token) * squares(place),
            Self::Table(table) => squares(table),
        };
        (sum / (self.tokens() - 1).max(1) as f64).sqrt()
    }

    /// What an exchange gives.
    fn exchanged(&self, pi: &[u32]) -> f64 {
        // Four sums: none waits for the one before.
        let mut sums = [0.0; 4];
        match self {
            Self::Product { token, place } => {
                for (i, (u, &j)) in token.iter().zip(pi).enumerate() {
                    sums[i % 4] += u * place[j as usize];
                }
            }
            Self::Table(table) => {
                for (i, (row, &j)) in table.chunks_exact(pi.len()).zip(pi).enumerate() {
                    sums[i % 4] += row[j as usize];
                }
            }
        }
        sums.iter().sum()
    }

    /// What the best exchange gives, and the worst.
    fn ends(&self) -> (f64, f64) {
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
                let turned = || cheapest(&table.iter().map(|x| -x).collect::<Vec<_>>(), n);
                let (best, worst) = join(turned, || cheapest(table, n));
                (total(best), total(worst))
            }
        }
    }
}

fn less_mean(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|x| x - mean).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// How many draws lie in each bin, those beyond the ends in the outermost.
fn histogram(drawn: &[f64], std: f64) -> Vec<u32> {
    let mut counts = vec![0; HISTOGRAM_BINS];
    for draw in drawn {
        let at = (draw / std + HISTOGRAM_END) / (2.0 * HISTOGRAM_END) * HISTOGRAM_BINS as f64;
        counts[(at.max(0.0) as usize).min(HISTOGRAM_BINS - 1)] += 1;
    }
    counts
}
