//! Sums over the kernel as powers, `K[i, k] = r_i^(k - h)`, `r_i = exp(x_i)`, `h` the middle: one fused
//! multiply-add per entry, with all data in registers and the first-level cache. In float64 for
//! explanations; in float32, with twice as many lanes, for training.
//!
//! Row sums are polynomials by Horner's rule, with tokens as lanes; even and odd powers are separate chains, so that
//! consecutive multiply-adds are independent. Column sums have positions as lanes: `r^(128 t + 16 a + b - h) = y_a r^b`
//! with eight `y_a` and sixteen `r^b` per token, so that a token adds an outer product to sums that stay in registers.
//!
//! Overflow and underflow cannot go unnoticed: all terms are positive. Every scaling is checked to be
//! [safe](Limits), and every `x_i` such that no power above leaves the range of its precision, else the
//! next domain is used. So what underflows is far below the smallest sum that a safe scaling may have,
//! and what overflows is infinite, which the check of the next scaling finds.

use super::transport::Domain;
use crate::model::ops::simd::{Real, exp, multiply, vectorised};

/// Tokens that are processed together, as lanes; tokens are padded to a multiple of it.
const BLOCK: usize = 32;
/// Number of consecutive powers of a token, `r^b`.
const STEPS: usize = 16;
/// Strides of [`STEPS`] positions in a tile of column sums, `y_a`.
const STRIDES: usize = 8;

/// The safe scalings of a precision, and the largest exponents within its range.
pub(super) struct Limits {
    safe: std::ops::Range<f64>,
    /// Largest `|x_i| h`.
    max_half_exponent: f64,
    /// Largest `|x_i| 128`.
    max_tile_exponent: f64,
}

/// `r^(k - h)` within 1e-231 ... 1e231, `r^b` within 1e-31 ... 1e31.
pub(super) const DOUBLE: Limits =
    Limits { safe: 1e-250..1e250, max_half_exponent: 530.0, max_tile_exponent: 600.0 };
/// `r^(k - h)` within 1e-26 ... 1e26, `r^b` within 1e-5 ... 1e5.
pub(super) const SINGLE: Limits =
    Limits { safe: 1e-20..1e20, max_half_exponent: 60.0, max_tile_exponent: 80.0 };

/// The kernel of one image, and buffers for its sums.
pub(super) struct Linear<T> {
    temperature: f64,
    limits: &'static Limits,
    /// `x_i`.
    slopes: Vec<f64>,
    /// Of each block of tokens, padded with 1.
    powers: Vec<Powers<T>>,
    /// `r_i^b`, and `r_i^(16 a)`.
    steps: Vec<[T; STEPS]>,
    strides: Vec<[T; STRIDES]>,
    /// `r_i^-h`, and `r_i^128`.
    first_powers: Vec<T>,
    tile_ratios: Vec<T>,
    /// Weights of the positions in row sums; `h` is in the middle, and both ends are padded with zeros.
    coefficients: Vec<T>,
    /// Weights of the tokens in column sums.
    terms: Vec<T>,
    /// `r_i^(128 t - h)` for the current tile, and `y_a` times the token's term.
    tile_powers: Vec<T>,
    factors: Vec<[T; STRIDES]>,
    sums: Vec<[T; BLOCK]>,
}

/// Powers of a block of tokens: `r`, `r^2`, `1 / r` and `1 / r^2`.
struct Powers<T> {
    up: [T; BLOCK],
    up_2: [T; BLOCK],
    down: [T; BLOCK],
    down_2: [T; BLOCK],
}

impl<T: Real> Linear<T> {
    /// The kernel in this precision; `None` where scores are too large for the temperature within these limits.
    pub fn new(scores: &[f64], temperature: f64, limits: &'static Limits) -> Option<Self> {
        let n = scores.len();
        let (last, middle) = (n.saturating_sub(1).max(1) as f64, n / 2);
        let slopes: Vec<f64> = scores.iter().map(|s| 2.0 * s / (temperature * last)).collect();
        let tile = (STEPS * STRIDES) as f64;
        let fits = |x: &f64| {
            x.abs() * middle as f64 <= limits.max_half_exponent && x.abs() * tile <= limits.max_tile_exponent
        };
        if !slopes.iter().all(fits) {
            return None;
        }
        let powers_of = |exponent: f64| -> Vec<f64> {
            let mut powers: Vec<f64> = slopes.iter().map(|x| x * exponent).collect();
            exponentials(&mut powers);
            powers
        };
        let ratio = powers_of(1.0);
        let powers = ratio.chunks(BLOCK).map(|ratio| {
            let block = |of: fn(f64) -> f64| {
                std::array::from_fn(|lane| T::from_f64(ratio.get(lane).map_or(1.0, |&r| of(r))))
            };
            let [up, up_2, down, down_2] = [|r| r, |r| r * r, |r| 1.0 / r, |r| 1.0 / (r * r)].map(block);
            Powers { up, up_2, down, down_2 }
        });
        let fill = |into: &mut [T], ratio: f64| {
            let series = std::iter::successors(Some(1.0), |power| Some(power * ratio));
            into.iter_mut().zip(series).for_each(|(into, power)| *into = T::from_f64(power));
        };
        let mut steps = vec![[T::default(); STEPS]; n];
        let mut strides = vec![[T::default(); STRIDES]; n];
        steps.iter_mut().zip(&ratio).for_each(|(steps, &r)| fill(steps, r));
        strides.iter_mut().zip(&powers_of(STEPS as f64)).for_each(|(strides, &r)| fill(strides, r));
        let cast = |powers: Vec<f64>| powers.into_iter().map(T::from_f64).collect();
        Some(Self {
            temperature,
            limits,
            powers: powers.collect(),
            steps,
            strides,
            first_powers: cast(powers_of(-(middle as f64))),
            tile_ratios: cast(powers_of(tile)),
            coefficients: vec![T::default(); 2 * half(n)],
            terms: vec![T::default(); n],
            tile_powers: vec![T::default(); n],
            factors: vec![[T::default(); STRIDES]; n],
            sums: vec![[T::default(); BLOCK]; n.div_ceil(BLOCK)],
            slopes,
        })
    }

    /// `into[k] = sum_i K[i, k] terms[i]`.
    fn column_sums(&mut self, into: &mut [f64]) {
        self.tile_powers.copy_from_slice(&self.first_powers);
        for sums in into.chunks_mut(STEPS * STRIDES) {
            advance(&self.strides, &self.tile_ratios, &self.terms, &mut self.tile_powers, &mut self.factors);
            let mut tile = [[T::default(); STEPS]; STRIDES];
            outer_products(&self.steps, &self.factors, &mut tile);
            widen(&tile.as_flattened()[..sums.len()], sums);
        }
    }
}

/// Half the length of the coefficients: even, and no shorter than either side of the middle.
fn half(n: usize) -> usize {
    n.div_ceil(2).next_multiple_of(2)
}

impl<T: Real> Domain for Linear<T> {
    fn start(&self, columns: &mut [f64]) {
        let last = columns.len().saturating_sub(1).max(1) as f64;
        for (k, column) in columns.iter_mut().enumerate() {
            *column = -(k as f64 / last).powi(2) / self.temperature;
        }
        exponentials(columns);
    }

    fn normalise_rows(&mut self, rows: &mut [f64], columns: &[f64]) -> bool {
        let n = rows.len();
        narrow(columns, &mut self.coefficients[half(n) - n / 2..][..n]);
        row_sums(&self.powers, &self.coefficients, &mut self.sums);
        widen(&self.sums.as_flattened()[..n], rows);
        invert(rows, self.limits)
    }

    fn normalise_columns(&mut self, rows: &[f64], columns: &mut [f64]) -> bool {
        narrow(rows, &mut self.terms);
        self.column_sums(columns);
        invert(columns, self.limits)
    }

    fn plan_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        let n = rows.len();
        products(columns, weights, &mut self.coefficients[half(n) - n / 2..][..n]);
        row_sums(&self.powers, &self.coefficients, &mut self.sums);
        widen(&self.sums.as_flattened()[..n], into);
        multiply(rows, into);
    }

    fn plan_transposed_times(&mut self, rows: &[f64], columns: &[f64], weights: &[f64], into: &mut [f64]) {
        products(rows, weights, &mut self.terms);
        self.column_sums(into);
        multiply(columns, into);
    }

    fn row(&self, rows: &[f64], columns: &[f64], token: usize, into: &mut [f64]) {
        let middle = (into.len() / 2) as f64;
        for (k, into) in into.iter_mut().enumerate() {
            *into = self.slopes[token] * (k as f64 - middle);
        }
        exponentials(into);
        into.iter_mut().zip(columns).for_each(|(share, v)| *share *= rows[token] * v);
    }
}

vectorised! {
    /// Converts every value to the precision of the sums.
    fn narrow<const FUSED: bool, T: Real>(values: &[f64], into: &mut [T]) {
        into.iter_mut().zip(values).for_each(|(into, &x)| *into = T::from_f64(x));
    }
}

vectorised! {
    /// Converts every value to float64.
    fn widen<const FUSED: bool, T: Real>(values: &[T], into: &mut [f64]) {
        into.iter_mut().zip(values).for_each(|(into, x)| *into = x.to_f64());
    }
}

vectorised! {
    /// The elementwise product `a b`, rounded to the type of `into`.
    pub(super) fn products<const FUSED: bool, T: Real>(a: &[f64], b: &[f64], into: &mut [T]) {
        into.iter_mut().zip(a).zip(b).for_each(|((into, a), b)| *into = T::from_f64(a * b));
    }
}

vectorised! {
    /// Replaces sums by their inverses, the scalings; returns whether all of these are safe.
    fn invert<const FUSED: bool>(sums: &mut [f64], limits: &Limits) -> bool {
        let (low, high) = (limits.safe.start, limits.safe.end);
        let mut safe = true;
        for sum in sums {
            *sum = 1.0 / *sum;
            safe &= (low..high).contains(sum);
        }
        safe
    }
}

vectorised! {
    /// Replaces every value `x` by `exp(x)`.
    fn exponentials<const FUSED: bool>(values: &mut [f64]) {
        values.iter_mut().for_each(|x| *x = exp::<FUSED>(*x));
    }
}

vectorised! {
    /// `sums_i = sum_k r_i^(k - h) coefficients[k]`: a polynomial in `r` for `k >= h` and one in `1 / r` for
    /// `k < h`, each as `E(r^2) + r O(r^2)`; all four by Horner's rule from the highest power down.
    fn row_sums<const FUSED: bool, T: Real>(powers: &[Powers<T>], coefficients: &[T], sums: &mut [[T; BLOCK]]) {
        let (below, above) = coefficients.split_at(coefficients.len() / 2);
        let (below, above) = (below.as_chunks::<2>().0, above.as_chunks::<2>().0);
        for (Powers { up, up_2, down, down_2 }, sum) in powers.iter().zip(sums) {
            let (up_2, down_2) = (*up_2, *down_2);
            let [mut even, mut odd, mut low_even, mut low_odd] = [[T::default(); BLOCK]; 4];
            for (over, under) in above.iter().rev().zip(below) {
                for lane in 0..BLOCK {
                    even[lane] = T::multiply_add::<FUSED>(even[lane], up_2[lane], over[0]);
                    odd[lane] = T::multiply_add::<FUSED>(odd[lane], up_2[lane], over[1]);
                    low_even[lane] = T::multiply_add::<FUSED>(low_even[lane], down_2[lane], under[1]);
                    low_odd[lane] = T::multiply_add::<FUSED>(low_odd[lane], down_2[lane], under[0]);
                }
            }
            for lane in 0..BLOCK {
                let high = T::multiply_add::<FUSED>(odd[lane], up[lane], even[lane]);
                let low = T::multiply_add::<FUSED>(low_odd[lane], down[lane], low_even[lane]);
                sum[lane] = T::multiply_add::<FUSED>(low, down[lane], high);
            }
        }
    }
}

vectorised! {
    /// Computes the factors of the current tile and advances `power` to the next. Power and stride are
    /// multiplied first: their product is an entry of the kernel, while either times the term may underflow.
    fn advance<const FUSED: bool, T: Real>(
        strides: &[[T; STRIDES]], ratios: &[T], terms: &[T], power: &mut [T], factors: &mut [[T; STRIDES]],
    ) {
        let tokens = strides.iter().zip(ratios).zip(terms).zip(power).zip(factors);
        for ((((strides, ratio), &term), power), factors) in tokens {
            (0..STRIDES).for_each(|a| factors[a] = (strides[a] * *power) * term);
            *power = *power * *ratio;
        }
    }
}

vectorised! {
    /// `tile[a][b] += sum_i factors_i[a] steps_i[b]`.
    fn outer_products<const FUSED: bool, T: Real>(
        steps: &[[T; STEPS]], factors: &[[T; STRIDES]], tile: &mut [[T; STEPS]; STRIDES],
    ) {
        let mut sums = *tile;
        for (steps, factors) in steps.iter().zip(factors) {
            // The loop over lanes is the outer one: otherwise the compiler gathers across strides.
            for lane in 0..STEPS {
                for a in 0..STRIDES {
                    sums[a][lane] = T::multiply_add::<FUSED>(factors[a], steps[lane], sums[a][lane]);
                }
            }
        }
        *tile = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_beyond_a_precision_are_noticed() {
        fn is_safe<T: Real>(limits: &'static Limits) -> bool {
            // Powers up to 1e25, whose sums have smaller inverses than float32 may have.
            let mut kernel = Linear::<T>::new(&[57.3; 192], 1.0, limits).expect("powers within the range");
            let (mut rows, mut columns) = ([0.0; 192], [0.0; 192]);
            kernel.start(&mut columns);
            kernel.normalise_rows(&mut rows, &columns)
        }
        assert!(!is_safe::<f32>(&SINGLE) && is_safe::<f64>(&DOUBLE));
    }
}
