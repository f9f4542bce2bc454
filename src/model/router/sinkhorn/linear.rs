//! The kernel as powers, `K[i, k] = r_i^(k - h)`, `r_i = exp(x_i)`, `h` the middle: row sums are
//! polynomials by Horner's rule, column sums a geometric sequence for each token. One fused
//! multiply-add an entry, everything in registers and the first cache.
//!
//! Why it cannot go wrong unseen: all terms are positive. Every scaling is checked to lie within
//! `1e-250 ... 1e250`, else the log domain takes over. A row's partial sums are at most the row sum or
//! the largest column scaling times N, both checked; a token's geometric sequence is, by the row step
//! before it, at most 1 over the smallest column scaling; and what underflows is below 1e-308 beside a
//! sum above 1e-250.

use super::transport::Domain;
use crate::model::vectorise::{multiply_add, vectorised};

/// Tokens that go through the registers together; tokens are padded to a multiple of it.
const BLOCK: usize = 16;
/// Lanes that column sums are kept in until the end.
const LANES: usize = 8;
/// What a scaling must lie within.
const SAFE: std::ops::Range<f64> = 1e-250..1e250;

/// Blocks of tokens.
type Block = [f64; BLOCK];

/// The kernel of one image.
pub(super) struct Linear {
    n: usize,
    /// The position whose power is 0.
    middle: usize,
    temperature: f64,
    /// `r_i`, padded with 1.
    ratio: Vec<Block>,
    /// `1 / r_i`, padded with 1.
    inverse: Vec<Block>,
}

impl Linear {
    /// The kernel of these scores.
    pub fn new(scores: &[f64], temperature: f64) -> Self {
        let n = scores.len();
        let last = n.saturating_sub(1).max(1) as f64;
        let powers = |sign: f64| -> Vec<f64> {
            scores.iter().map(|s| (sign * 2.0 * s / (temperature * last)).exp()).collect()
        };
        let [ratio, inverse] = [1.0, -1.0].map(|sign| padded(&powers(sign), 1.0));
        Self { n, middle: n / 2, temperature, ratio, inverse }
    }

    /// `sum_k K[i, k] terms[k]`, padded.
    fn row_sums(&self, terms: &[f64]) -> Vec<Block> {
        let mut sums = vec![[0.0; BLOCK]; self.ratio.len()];
        row_sums(&self.ratio, &self.inverse, terms, self.middle, &mut sums);
        sums
    }

    /// `sum_i K[i, k] terms[i]`.
    fn column_sums(&self, terms: &[f64]) -> Vec<f64> {
        let terms = padded(terms, 0.0);
        let mut lanes = vec![[0.0; LANES]; self.n];
        column_sums(&self.ratio, &self.inverse, &terms, self.middle, &mut lanes);
        lanes.iter().map(|lanes| lanes.iter().sum()).collect()
    }
}

impl Domain for Linear {
    fn start(&self) -> Vec<f64> {
        let last = self.n.saturating_sub(1).max(1) as f64;
        (0..self.n).map(|k| (-(k as f64 / last).powi(2) / self.temperature).exp()).collect()
    }

    fn balance_rows(&self, rows: &mut [f64], columns: &[f64]) -> bool {
        invert(rows, self.row_sums(columns).as_flattened())
    }

    fn balance_columns(&self, rows: &[f64], columns: &mut [f64]) -> bool {
        invert(columns, &self.column_sums(rows))
    }

    fn over_positions(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64> {
        let terms: Vec<f64> = columns.iter().zip(weights).map(|(v, w)| v * w).collect();
        let sums = self.row_sums(&terms);
        rows.iter().zip(sums.as_flattened()).map(|(u, sum)| u * sum).collect()
    }

    fn over_tokens(&self, rows: &[f64], columns: &[f64], weights: &[f64]) -> Vec<f64> {
        let terms: Vec<f64> = rows.iter().zip(weights).map(|(u, w)| u * w).collect();
        columns.iter().zip(self.column_sums(&terms)).map(|(v, sum)| v * sum).collect()
    }

    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]) {
        let [ratio, inverse] = [&self.ratio, &self.inverse].map(|powers| powers.as_flattened()[token]);
        let mut term = rows[token];
        for k in self.middle..self.n {
            into[k] = term * columns[k];
            term *= ratio;
        }
        term = rows[token];
        for k in (0..self.middle).rev() {
            term *= inverse;
            into[k] = term * columns[k];
        }
    }
}

/// `values` in blocks, the last filled up with `rest`.
fn padded(values: &[f64], rest: f64) -> Vec<Block> {
    let mut blocks = vec![[rest; BLOCK]; values.len().div_ceil(BLOCK)];
    blocks.as_flattened_mut()[..values.len()].copy_from_slice(values);
    blocks
}

/// `1 / sums`, and whether all of that is in the safe range.
fn invert(scalings: &mut [f64], sums: &[f64]) -> bool {
    scalings.iter_mut().zip(sums).for_each(|(scaling, sum)| *scaling = 1.0 / sum);
    scalings.iter().all(|scaling| SAFE.contains(scaling))
}

vectorised! {
    /// Adds `sum_k r^(k - middle) terms[k]` to each token's sum: two polynomials, upwards in `r` and
    /// downwards in `1 / r`, both by Horner's rule from their far ends.
    fn row_sums<const FUSED: bool>(
        ratio: &[Block], inverse: &[Block], terms: &[f64], middle: usize, sums: &mut [Block],
    ) {
        let (below, above) = terms.split_at(middle);
        for ((up, down), sum) in ratio.iter().zip(inverse).zip(sums) {
            let (mut high, mut low) = ([0.0; BLOCK], [0.0; BLOCK]);
            let even = above.len() - below.len(); // 0 or 1: both run in step after it
            for &term in above.iter().rev().take(even) {
                high = [term; BLOCK];
            }
            for (&over, &under) in above[..below.len()].iter().rev().zip(below) {
                for lane in 0..BLOCK {
                    high[lane] = multiply_add::<FUSED>(high[lane], up[lane], over);
                    low[lane] = multiply_add::<FUSED>(low[lane], down[lane], under);
                }
            }
            for lane in 0..BLOCK {
                sum[lane] = multiply_add::<FUSED>(low[lane], down[lane], high[lane]);
            }
        }
    }
}

vectorised! {
    /// Adds `sum_i r_i^(k - middle) terms[i]` to each position's lanes.
    fn column_sums<const FUSED: bool>(
        ratio: &[Block], inverse: &[Block], terms: &[Block], middle: usize, sums: &mut [[f64; LANES]],
    ) {
        let (below, above) = sums.split_at_mut(middle);
        let fold = |term: &Block, into: &mut [f64; LANES]| {
            (0..LANES).for_each(|lane| into[lane] += term[lane] + term[lane + LANES]);
        };
        for ((up, down), term) in ratio.iter().zip(inverse).zip(terms) {
            let (mut high, mut low) = (*term, *term);
            let (paired, odd) = above.split_at_mut(below.len());
            for (over, under) in paired.iter_mut().zip(below.iter_mut().rev()) {
                (0..BLOCK).for_each(|lane| low[lane] *= down[lane]);
                fold(&high, over);
                fold(&low, under);
                (0..BLOCK).for_each(|lane| high[lane] *= up[lane]);
            }
            odd.iter_mut().for_each(|over| fold(&high, over));
        }
    }
}
