//! The kernels: a thread a column or a row of an image's plan, which it walks outwards from its peak.
//!
//! Tokens stand sorted, `a_0 <= a_1 <= ...`, so that column `k` is largest at the token of rank `k`. An exponent is what is left
//! after that largest one is taken away; it falls on the way out, and the walk ends where it is nothing.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::Family;

/// The scores `[B, N]` in ascending order, and the token of every rank.
#[cube(launch)]
pub(super) fn sort(scores: &[f32], sorted: &mut [f32], order: &mut [u32], n: usize) {
    let at = ABSOLUTE_POS;
    // Of what a kernel is to write the length is exact; what it reads may lie in more memory than it has numbers.
    if at < sorted.len() {
        let first = at / n * n;
        let score = scores[at];
        let mut place = first;
        let mut j = first;
        while j < first + n {
            // Equal ones stay in order, and what is no number comes last: every place is somebody's.
            let other = scores[j];
            let before = if is_number(score) {
                other < score || (other == score && j < at)
            } else {
                is_number(other) || j < at
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

#[cube]
fn is_number(x: f32) -> bool {
    !x.is_nan()
}

/// What every column sums to, its largest entry counted as 1: `[B, N]` by position.
#[cube(launch)]
pub(super) fn totals(
    sorted: &[f32],
    totals: &mut [f32],
    coldness: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, k) = (&sorted[first..first + n], at - first);
        let mut total = 1.0f32;
        let mut way = Way::start();
        while way.goes_on(n) {
            way.along_column(a, k, coldness, family, n);
            total += way.up.exp() + way.down.exp();
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
    coldness: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, total, j) = (&sorted[first..first + n], &totals[first..first + n], at - first);
        let mut weight = gain[j] / total[j];
        let mut way = Way::start();
        while way.goes_on(n) {
            way.along_row(a, j, coldness, family, n);
            let (up, down) = (way.above(j, n), way.below(j));
            weight += way.up.exp() * gain[up] / total[up] + way.down.exp() * gain[down] / total[down];
        }
        weights[first + usize::cast_from(order[at])] = weight;
    }
}

/// Of every column `mu_k = sum_i P[i, k] c_i`, which is the gain's gradient in this image, and by how much it is above the `c`
/// of the token at its peak, which float32 would lose of it where nearly all lies there; and what the sorted score in its middle
/// gets from its logits.
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
    coldness: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, order, k) = (&sorted[first..first + n], &order[first..first + n], at - first);
        let by = &grad_weights[first..first + n];
        let own = by[usize::cast_from(order[k])];
        let mut shift = 0.0f32;
        let mut way = Way::start();
        while way.goes_on(n) {
            way.along_column(a, k, coldness, family, n);
            let (up, down) = (way.above(k, n), way.below(k));
            shift += way.up.exp() * (by[usize::cast_from(order[up])] - own);
            shift += way.down.exp() * (by[usize::cast_from(order[down])] - own);
        }
        shift /= totals[at];
        means[at] = own + shift;
        shifts[at] = shift;
        let mut centre = 0.0f32;
        if comptime!(!matches!(family, Family::NeuralSort)) {
            let mut way = Way::start();
            while way.goes_on(n) {
                way.along_column(a, k, coldness, family, n);
                let (up, down) = (way.above(k, n), way.below(k));
                let above = way.up.exp() * (by[usize::cast_from(order[up])] - own - shift);
                let below = way.down.exp() * (by[usize::cast_from(order[down])] - own - shift);
                centre += above * pull(a[up] - a[k], family) + below * pull(a[down] - a[k], family);
            }
            centre *= gain[k] / totals[at] * coldness;
        }
        grad_centres[at] = centre;
    }
}

/// What every token gets from the logits of its row by its own score, and by the sum of its distances: `[B, N]` by rank.
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
    coldness: f32,
    #[comptime] family: Family,
    n: usize,
) {
    let at = ABSOLUTE_POS;
    if at < sorted.len() {
        let first = at / n * n;
        let (a, order, j) = (&sorted[first..first + n], &order[first..first + n], at - first);
        let (total, shift) = (&totals[first..first + n], &shifts[first..first + n]);
        let by = &grad_weights[first..first + n];
        let by_this = by[usize::cast_from(order[j])];
        let mut own = 0.0f32;
        let mut all = -(gain[j] / total[j] * shift[j]);
        let mut way = Way::start();
        while way.goes_on(n) {
            way.along_row(a, j, coldness, family, n);
            let (up, down) = (way.above(j, n), way.below(j));
            let over_up = by_this - by[usize::cast_from(order[up])] - shift[up];
            let over_down = by_this - by[usize::cast_from(order[down])] - shift[down];
            let above = way.up.exp() * gain[up] / total[up] * over_up;
            let below = way.down.exp() * gain[down] / total[down] * over_down;
            all += above + below;
            if comptime!(matches!(family, Family::NeuralSort)) {
                // With what its own distances bring, slope k counts by how far it is from that of its rank.
                own += 2.0 * f32::cast_from(way.steps) * (above - below);
            } else {
                own += above * pull(a[up] - a[j], family) + below * pull(a[down] - a[j], family);
            }
        }
        grad_own[at] = own * coldness;
        grad_distances[at] = -all * coldness;
    }
}

/// The gradient of the scores, `[B, N]`, of its parts by rank.
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
        let mut by = grad_own[at] + grad_centres[at];
        if comptime!(matches!(family, Family::NeuralSort)) {
            // Every pair of distances pulls its two tokens apart.
            let mut i = first;
            while i < first + n {
                if i < at {
                    by += grad_distances[i];
                } else if i > at {
                    by -= grad_distances[i];
                }
                i += 1;
            }
        }
        grad_scores[first + usize::cast_from(order[at])] = by;
    }
}

/// By how much an exponent grows with the score `s` at one of its ends, `1 / tau` aside: it is `-|d|^p / tau`, `d` the other's
/// less `s`.
#[cube]
fn pull(apart: f32, #[comptime] family: Family) -> f32 {
    if comptime!(matches!(family, Family::Distance)) {
        // -1, 0 or 1
        f32::cast_from(apart > 0.0) - f32::cast_from(apart < 0.0)
    } else {
        2.0 * apart
    }
}

/// The exponents so many steps above and below the peak of a line.
#[derive(CubeType)]
struct Way {
    steps: usize,
    up: f32,
    down: f32,
}

#[cube]
impl Way {
    fn start() -> Way {
        Way { steps: 0usize, up: 0.0f32, down: 0.0f32 }
    }

    fn goes_on(&self, n: usize) -> bool {
        self.steps < n - 1 && (self.up > NEGLIGIBLE || self.down > NEGLIGIBLE)
    }

    /// The rank above, or the last; what lies beyond it counts nothing.
    fn above(&self, peak: usize, n: usize) -> usize {
        usize::min(peak + self.steps, n - 1)
    }

    /// The rank below, or the first.
    fn below(&self, peak: usize) -> usize {
        peak - usize::min(peak, self.steps)
    }

    /// One step further along column `k`.
    fn along_column(&mut self, a: &[f32], k: usize, coldness: f32, #[comptime] family: Family, n: usize) {
        let (up, down) = (self.above(k, n), self.below(k));
        self.steps += 1;
        let slope = coldness * (2.0 * f32::cast_from(self.steps) - 1.0);
        if k + self.steps < n {
            let to = k + self.steps;
            if comptime!(matches!(family, Family::NeuralSort)) {
                self.up -= slope * (a[to] - a[up]);
            } else {
                self.up = exponent(a[to] - a[k], coldness, family);
            }
        } else {
            self.up = f32::new(NOTHING);
        }
        if self.steps <= k {
            let to = k - self.steps;
            if comptime!(matches!(family, Family::NeuralSort)) {
                self.down -= slope * (a[down] - a[to]);
            } else {
                self.down = exponent(a[k] - a[to], coldness, family);
            }
        } else {
            self.down = f32::new(NOTHING);
        }
    }

    /// One step further along the row of the token of rank `j`.
    fn along_row(&mut self, a: &[f32], j: usize, coldness: f32, #[comptime] family: Family, n: usize) {
        let (up, down) = (self.above(j, n), self.below(j));
        self.steps += 1;
        if j + self.steps < n {
            let to = j + self.steps;
            if comptime!(matches!(family, Family::NeuralSort)) {
                self.up -= coldness * ((a[up] - a[j]) + (a[to] - a[j]));
            } else {
                self.up = exponent(a[to] - a[j], coldness, family);
            }
        } else {
            self.up = f32::new(NOTHING);
        }
        if self.steps <= j {
            let to = j - self.steps;
            if comptime!(matches!(family, Family::NeuralSort)) {
                self.down -= coldness * ((a[j] - a[down]) + (a[j] - a[to]));
            } else {
                self.down = exponent(a[j] - a[to], coldness, family);
            }
        } else {
            self.down = f32::new(NOTHING);
        }
    }
}

/// Exponents this far below the peak are nothing: 1e-14.
const NEGLIGIBLE: f32 = -32.0;
/// An exponent whose power is 0.
const NOTHING: f32 = -1e4;

/// `-|apart|^p / tau`.
#[cube]
fn exponent(apart: f32, coldness: f32, #[comptime] family: Family) -> f32 {
    if comptime!(matches!(family, Family::Distance)) { -coldness * apart } else { -coldness * apart * apart }
}
