//! The kernels: one thread per column or row of an image's plan, which it reads outwards from its peak, the diagonal.
//!
//! Tokens are sorted, `a_0 <= a_1 <= ...`, so that column `k` is largest at the token of rank `k`. Exponents are relative to that
//! largest one; they decrease outwards, and a thread stops where they are negligible on both sides.

use super::Family;
use crate::model::ops::gpu::prelude::*;

/// The scores `[B, N]` in ascending order, and the token of every rank.
#[cube(launch)]
pub(super) fn sort(scores: &[f32], sorted: &mut [f32], order: &mut [u32], n: usize) {
    let at = ABSOLUTE_POS;
    // The length of an output buffer is exact; an input may lie in a buffer that is longer than its tensor.
    if at < sorted.len() {
        let first = at / n * n;
        let score = scores[at];
        let mut place = first;
        let mut j = first;
        while j < first + n {
            // Ties stay in the order of their indices and NaN comes last, so that every place is written once.
            let other = scores[j];
            let before = if score.is_nan() {
                !other.is_nan() || j < at
            } else {
                other < score || (other == score && j < at)
            };
            if before {
                place += 1;
            }
            j += 1;
        }
        sorted[place] = score;
        order[place] = u32::cast_from(at - first);
    }
}

/// `Z_k`, the sum of every column in units of its largest entry: `[B, N]` by position.
#[cube(launch)]
pub(super) fn totals(
    sorted: &[f32],
    totals: &mut [f32],
    inverse_temperature: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, k) = (&sorted[first..first + n], at - first);
        let mut total = 1.0f32;
        let mut cursor = Cursor::start();
        while cursor.has_next(n) {
            cursor.step(Line::Column, a, k, inverse_temperature, family, n);
            total += cursor.up.exp() + cursor.down.exp();
        }
        totals[at] = total;
    }
}

/// `P gain` by token, `[B, N]`.
#[cube(launch)]
pub(super) fn weigh(
    sorted: &[f32],
    order: &[u32],
    totals: &[f32],
    gain: &[f32],
    weights: &mut [f32],
    inverse_temperature: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, total, j) = (&sorted[first..first + n], &totals[first..first + n], at - first);
        let mut weight = gain[j] / total[j];
        let mut cursor = Cursor::start();
        while cursor.has_next(n) {
            cursor.step(Line::Row, a, j, inverse_temperature, family, n);
            let (up, down) = cursor.ranks(j, n);
            weight += cursor.up.exp() * gain[up] / total[up] + cursor.down.exp() * gain[down] / total[down];
        }
        weights[first + usize::cast_from(order[at])] = weight;
    }
}

/// Backward pass over columns, `[B, N]` each by position: `means`, `mu_k = sum_i P[i, k] c_i`, which is the gain's gradient in
/// this image; `shifts`, `mu_k - c` for the token at the peak, computed directly because float32 would lose it in `mu_k` where
/// nearly all mass lies at the peak; `grad_centres`, the gradient of the sorted score `a_k` as the centre of the column.
#[cube(launch)]
pub(super) fn back_by_column(
    sorted: &[f32],
    order: &[u32],
    totals: &[f32],
    gain: &[f32],
    grad_weights: &[f32],
    means: &mut [f32],
    shifts: &mut [f32],
    grad_centres: &mut [f32],
    inverse_temperature: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, order, k) = (&sorted[first..first + n], &order[first..first + n], at - first);
        let cotangent = &grad_weights[first..first + n];
        let own = cotangent[usize::cast_from(order[k])];
        let mut shift = 0.0f32;
        let mut cursor = Cursor::start();
        while cursor.has_next(n) {
            cursor.step(Line::Column, a, k, inverse_temperature, family, n);
            let (up, down) = cursor.ranks(k, n);
            shift += cursor.up.exp() * (cotangent[usize::cast_from(order[up])] - own);
            shift += cursor.down.exp() * (cotangent[usize::cast_from(order[down])] - own);
        }
        shift /= totals[at];
        means[at] = own + shift;
        shifts[at] = shift;
        let mut centre = 0.0f32;
        if comptime!(!matches!(family, Family::NeuralSort)) {
            let mut cursor = Cursor::start();
            while cursor.has_next(n) {
                cursor.step(Line::Column, a, k, inverse_temperature, family, n);
                let (up, down) = cursor.ranks(k, n);
                let above = cursor.up.exp() * (cotangent[usize::cast_from(order[up])] - own - shift);
                let below = cursor.down.exp() * (cotangent[usize::cast_from(order[down])] - own - shift);
                centre += above * exponent_slope(a[up] - a[k], family)
                    + below * exponent_slope(a[down] - a[k], family);
            }
            centre *= gain[k] / totals[at] * inverse_temperature;
        }
        grad_centres[at] = centre;
    }
}

/// Backward pass over rows, `[B, N]` each by rank: `grad_own`, the gradient of a token's score in the logits of its own row, and
/// `grad_distances`, that of the sum of its distances in NeuralSort.
#[cube(launch)]
pub(super) fn back_by_row(
    sorted: &[f32],
    order: &[u32],
    totals: &[f32],
    gain: &[f32],
    grad_weights: &[f32],
    shifts: &[f32],
    grad_own: &mut [f32],
    grad_distances: &mut [f32],
    inverse_temperature: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, order, j) = (&sorted[first..first + n], &order[first..first + n], at - first);
        let (total, shift) = (&totals[first..first + n], &shifts[first..first + n]);
        let cotangent = &grad_weights[first..first + n];
        let own_cotangent = cotangent[usize::cast_from(order[j])];
        let mut own = 0.0f32;
        let mut all = -(gain[j] / total[j] * shift[j]);
        let mut cursor = Cursor::start();
        while cursor.has_next(n) {
            cursor.step(Line::Row, a, j, inverse_temperature, family, n);
            let (up, down) = cursor.ranks(j, n);
            let over_up = own_cotangent - cotangent[usize::cast_from(order[up])] - shift[up];
            let over_down = own_cotangent - cotangent[usize::cast_from(order[down])] - shift[down];
            let above = cursor.up.exp() * gain[up] / total[up] * over_up;
            let below = cursor.down.exp() * gain[down] / total[down] * over_down;
            all += above + below;
            if comptime!(matches!(family, Family::NeuralSort)) {
                // The derivative by the token's score, its own distances included: 2 (k - j) / tau in column k.
                own += 2.0 * f32::cast_from(cursor.steps) * (above - below);
            } else {
                own += above * exponent_slope(a[up] - a[j], family)
                    + below * exponent_slope(a[down] - a[j], family);
            }
        }
        grad_own[at] = own * inverse_temperature;
        grad_distances[at] = -all * inverse_temperature;
    }
}

/// The gradient of the scores, `[B, N]` by token, from the outputs of the two backward kernels by rank.
#[cube(launch)]
pub(super) fn gather(
    order: &[u32],
    grad_own: &[f32],
    grad_centres: &[f32],
    grad_distances: &[f32],
    grad_scores: &mut [f32],
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < order.len() {
        let first = at / n * n;
        let mut grad = grad_own[at] + grad_centres[at];
        if comptime!(matches!(family, Family::NeuralSort)) {
            // The derivative of |s_i - s_j| is the sign of the difference in rank.
            let mut i = first;
            while i < first + n {
                if i < at {
                    grad += grad_distances[i];
                } else if i > at {
                    grad -= grad_distances[i];
                }
                i += 1;
            }
        }
        grad_scores[first + usize::cast_from(order[at])] = grad;
    }
}

/// `tau` times the derivative of the exponent `-|d|^p / tau` with respect to the score `s`, where `d`, `difference`, is the other
/// score minus `s`.
#[cube]
fn exponent_slope(difference: f32, #[comptime] family: Family) -> f32 {
    if comptime!(matches!(family, Family::Distance)) {
        // -1, 0 or 1
        f32::cast_from(difference > 0.0) - f32::cast_from(difference < 0.0)
    } else {
        2.0 * difference
    }
}

/// What a [`Cursor`] moves along.
#[derive(Clone, Copy, Debug)]
enum Line {
    Column,
    Row,
}

/// The two exponents of a column or row that lie `steps` ranks above and below its peak.
#[derive(CubeType)]
struct Cursor {
    steps: usize,
    up: f32,
    down: f32,
}

#[cube]
impl Cursor {
    fn start() -> Cursor {
        Cursor { steps: 0usize, up: 0.0f32, down: 0.0f32 }
    }

    fn has_next(&self, n: usize) -> bool {
        self.steps < n - 1 && (self.up > NEGLIGIBLE || self.down > NEGLIGIBLE)
    }

    /// The ranks above and below the peak, at most the last and at least the first; beyond these the exponents are
    /// [`ZERO_EXPONENT`].
    fn ranks(&self, peak: usize, n: usize) -> (usize, usize) {
        (usize::min(peak + self.steps, n - 1), peak - usize::min(peak, self.steps))
    }

    /// One step further along column `peak`, or the row of the token of that rank.
    fn step(
        &mut self,
        #[comptime] line: Line,
        a: &[f32],
        peak: usize,
        inverse_temperature: f32,
        #[comptime] family: Family,
        n: usize,
    ) {
        let (up, down) = self.ranks(peak, n);
        self.steps += 1;
        let slope = inverse_temperature * (2.0 * f32::cast_from(self.steps) - 1.0);
        if peak + self.steps < n {
            let to = peak + self.steps;
            if comptime!(!matches!(family, Family::NeuralSort)) {
                self.up = exponent(a[to] - a[peak], inverse_temperature, family);
            } else if comptime!(matches!(line, Line::Column)) {
                self.up -= slope * (a[to] - a[up]);
            } else {
                self.up -= inverse_temperature * ((a[up] - a[peak]) + (a[to] - a[peak]));
            }
        } else {
            self.up = f32::new(ZERO_EXPONENT);
        }
        if self.steps <= peak {
            let to = peak - self.steps;
            if comptime!(!matches!(family, Family::NeuralSort)) {
                self.down = exponent(a[peak] - a[to], inverse_temperature, family);
            } else if comptime!(matches!(line, Line::Column)) {
                self.down -= slope * (a[down] - a[to]);
            } else {
                self.down -= inverse_temperature * ((a[peak] - a[down]) + (a[peak] - a[to]));
            }
        } else {
            self.down = f32::new(ZERO_EXPONENT);
        }
    }
}

/// Exponents at or below this are negligible: `exp` of it is 1e-14.
const NEGLIGIBLE: f32 = -32.0;
/// An exponent whose exponential is 0 in float32.
const ZERO_EXPONENT: f32 = -1e4;

/// `-difference^p / tau` for a `difference` of at least 0.
#[cube]
fn exponent(difference: f32, inverse_temperature: f32, #[comptime] family: Family) -> f32 {
    if comptime!(matches!(family, Family::Distance)) {
        -inverse_temperature * difference
    } else {
        -inverse_temperature * difference * difference
    }
}
