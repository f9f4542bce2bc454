//! The kernel as powers, `K[i, k] = r_i^(k - h)`, `r_i = exp(x_i)`, `h` the middle: one fused
//! multiply-add an entry, everything in registers and the first cache.
//!
//! Row sums are polynomials by Horner's rule, tokens side by side. Column sums keep positions side by
//! side, 64 at a time: `r^(64 t + 16 a + b - h) = y_a r^b` with four `y_a` and sixteen `r^b` a token, so
//! that a token adds an outer product to sums that stay in registers.
//!
//! Why it cannot go wrong unseen: all terms are positive. Every scaling is checked to lie within
//! `1e-250 ... 1e250`, and every `x_i` so that no factor above leaves `1e-40 ... 1e40` (`r^b`) or
//! `1e-231 ... 1e231` (`r^(k - h)`), else the log domain takes over. So what underflows is a term below
//! 1e-268 beside a sum above 1e-250, and what overflows is infinite, which the check of the next
//! scaling finds.

use super::transport::Domain;
use crate::model::vectorise::{exp, multiply_add, vectorised};

/// Tokens that go through the registers together; tokens are padded to a multiple of it.
const BLOCK: usize = 32;
/// Consecutive powers of a token, `r^b`.
const STEPS: usize = 16;
/// Strides of [`STEPS`] positions that column sums are made for together, `y_a`.
const STRIDES: usize = 4;
/// What a scaling must lie within.
const SAFE: std::ops::Range<f64> = 1e-250..1e250;
/// Largest `|x_i| h`, and largest `|x_i| STEPS`.
const LARGEST: [f64; 2] = [530.0, 90.0];

/// Blocks of tokens.
type Block = [f64; BLOCK];

/// The kernel of one image, and room to work in.
pub(super) struct Linear {
    /// The position whose power is 0.
    middle: usize,
    temperature: f64,
    /// `r_i` and `1 / r_i`, padded with 1.
    ratio: Vec<Block>,
    inverse: Vec<Block>,
    /// `r_i^b`, and `r_i^(16 a)`.
    steps: Vec<[f64; STEPS]>,
    strides: Vec<[f64; STRIDES]>,
    /// `r_i^-h`, and `r_i^64`.
    first: Vec<f64>,
    leap: Vec<f64>,
    terms: Vec<f64>,
    sums: Vec<Block>,
    columns: Columns,
}

/// Room for column sums.
#[derive(Default)]
struct Columns {
    /// `r_i^(64 t - h)` for the tile at hand.
    power: Vec<f64>,
    /// `y_a` times the term of the token.
    factors: Vec<[f64; STRIDES]>,
}

impl Linear {
    /// The kernel of these scores; `None` where they are too far out for the temperature.
    pub fn new(scores: &[f64], temperature: f64) -> Option<Self> {
        let n = scores.len();
        let (last, middle) = (n.saturating_sub(1).max(1) as f64, n / 2);
        let slopes: Vec<f64> = scores.iter().map(|s| 2.0 * s / (temperature * last)).collect();
        let fits = |x: &f64| x.abs() * middle as f64 <= LARGEST[0] && x.abs() * STEPS as f64 <= LARGEST[1];
        if !slopes.iter().all(fits) {
            return None;
        }
        let mut ratio = slopes.clone();
        exponentials(&mut ratio);
        let mut first: Vec<f64> = slopes.iter().map(|x| -x * middle as f64).collect();
        exponentials(&mut first);
        let powers = |r: &f64| {
            let mut steps = [1.0; STEPS];
            (1..STEPS).for_each(|b| steps[b] = steps[b - 1] * r);
            steps
        };
        let steps: Vec<[f64; STEPS]> = ratio.iter().map(powers).collect();
        let stride = |(steps, r): (&[f64; STEPS], &f64)| {
            let once = steps[STEPS - 1] * r;
            [1.0, once, once * once, once * once * once]
        };
        let strides: Vec<[f64; STRIDES]> = steps.iter().zip(&ratio).map(stride).collect();
        let leap = strides.iter().map(|strides| strides[2] * strides[2]).collect();
        let inverse: Vec<f64> = ratio.iter().map(|r| 1.0 / r).collect();
        let columns = Columns { power: vec![0.0; n], factors: vec![[0.0; STRIDES]; n] };
        let [ratio, inverse] = [ratio, inverse].map(|powers| padded(&powers));
        let sums = vec![[0.0; BLOCK]; ratio.len()];
        let terms = vec![0.0; n];
        Some(Self { middle, temperature, ratio, inverse, steps, strides, first, leap, terms, sums, columns })
    }

    /// `sum_k K[i, k] terms[k]` of its own terms, into its own sums.
    fn row_sums(&mut self) {
        row_sums(&self.ratio, &self.inverse, &self.terms, self.middle, &mut self.sums);
    }

    /// `into[k] = sum_i K[i, k] terms[i]` of its own terms.
    fn column_sums(&mut self, into: &mut [f64]) {
        let Columns { power, factors } = &mut self.columns;
        power.copy_from_slice(&self.first);
        for sums in into.chunks_mut(STEPS * STRIDES) {
            advance(&self.strides, &self.leap, &self.terms, power, factors);
            let mut tile = [[0.0; STEPS]; STRIDES];
            outer_products(&self.steps, factors, &mut tile);
            sums.copy_from_slice(&tile.as_flattened()[..sums.len()]);
        }
    }
}

impl Domain for Linear {
    fn start(&self, columns: &mut [f64]) {
        let last = columns.len().saturating_sub(1).max(1) as f64;
        for (k, column) in columns.iter_mut().enumerate() {
            *column = -(k as f64 / last).powi(2) / self.temperature;
        }
        exponentials(columns);
    }

    fn balance_rows(&mut self, rows: &mut [f64], columns: &[f64]) -> bool {
        self.terms.copy_from_slice(columns);
        self.row_sums();
        invert(rows, self.sums.as_flattened())
    }

    fn balance_columns(&mut self, rows: &[f64], columns: &mut [f64]) -> bool {
        self.terms.copy_from_slice(rows);
        self.column_sums(columns);
        columns.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
        columns.iter().all(|scaling| SAFE.contains(scaling))
    }

    fn over_positions(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        multiply(columns, weights, &mut self.terms);
        self.row_sums();
        multiply(rows, self.sums.as_flattened(), into);
    }

    fn over_tokens(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        multiply(rows, weights, &mut self.terms);
        self.column_sums(into);
        into.iter_mut().zip(columns).for_each(|(sum, v)| *sum *= v);
    }

    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]) {
        let [ratio, inverse] = [&self.ratio, &self.inverse].map(|powers| powers.as_flattened()[token]);
        let mut term = rows[token];
        for k in self.middle..into.len() {
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

/// `values` in blocks, the last filled up with 1.
fn padded(values: &[f64]) -> Vec<Block> {
    let mut blocks = vec![[1.0; BLOCK]; values.len().div_ceil(BLOCK)];
    blocks.as_flattened_mut()[..values.len()].copy_from_slice(values);
    blocks
}

/// `1 / sums`, and whether all of that is in the safe range.
fn invert(scalings: &mut [f64], sums: &[f64]) -> bool {
    scalings.iter_mut().zip(sums).for_each(|(scaling, sum)| *scaling = 1.0 / sum);
    scalings.iter().all(|scaling| SAFE.contains(scaling))
}

/// Element by element.
fn multiply(a: &[f64], b: &[f64], into: &mut [f64]) {
    into.iter_mut().zip(a).zip(b).for_each(|((into, a), b)| *into = a * b);
}

vectorised! {
    /// `exp(x)` of every value.
    fn exponentials<const FUSED: bool>(values: &mut [f64]) {
        values.iter_mut().for_each(|x| *x = exp::<FUSED>(*x));
    }
}

vectorised! {
    /// `sums_i = sum_k r_i^(k - middle) terms[k]`: two polynomials, upwards in `r` and downwards in
    /// `1 / r`, both by Horner's rule from their far ends.
    fn row_sums<const FUSED: bool>(
        ratio: &[Block], inverse: &[Block], terms: &[f64], middle: usize, sums: &mut [Block],
    ) {
        let (below, above) = terms.split_at(middle);
        // Where there is one position more above, it is taken first; from then on both run in step.
        let (above, lone) = above.split_at(below.len());
        let lone = lone.first().copied().unwrap_or(0.0);
        for ((up, down), sum) in ratio.iter().zip(inverse).zip(sums) {
            let (mut high, mut low) = ([lone; BLOCK], [0.0; BLOCK]);
            for (&over, &under) in above.iter().rev().zip(below) {
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
    /// The factors of the tile at hand, each with its token's term; then on to the next.
    fn advance<const FUSED: bool>(
        strides: &[[f64; STRIDES]], leap: &[f64], terms: &[f64], power: &mut [f64],
        factors: &mut [[f64; STRIDES]],
    ) {
        let tokens = strides.iter().zip(leap).zip(terms).zip(power).zip(factors);
        for ((((strides, leap), term), power), factors) in tokens {
            let own = *power * term;
            (0..STRIDES).for_each(|a| factors[a] = strides[a] * own);
            *power *= leap;
        }
    }
}

vectorised! {
    /// `tile[a][b] += sum_i factors_i[a] steps_i[b]`.
    fn outer_products<const FUSED: bool>(
        steps: &[[f64; STEPS]], factors: &[[f64; STRIDES]], tile: &mut [[f64; STEPS]; STRIDES],
    ) {
        let mut sums = *tile;
        for (steps, factors) in steps.iter().zip(factors) {
            for a in 0..STRIDES {
                for lane in 0..STEPS {
                    sums[a][lane] = multiply_add::<FUSED>(factors[a], steps[lane], sums[a][lane]);
                }
            }
        }
        *tile = sums;
    }
}
