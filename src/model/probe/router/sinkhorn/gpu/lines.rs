//! Sums over one row or one column of a plan, in float32, at any temperature.
//!
//! Tokens are sorted, so that the plan runs along a diagonal. With the quadratic parts absorbed
//! (`transport.rs`), `ln P[i, k] = kappa s_i k + f_i + g_k`, `kappa = 2 / (tau (N - 1))`. Two facts carry
//! everything:
//!
//! * `g = -logsumexp` of straight lines is concave, and so is `f`: along a line (a row or a column)
//!   the exponent has one peak, which a binary search finds.
//! * Only differences count. A line is walked from its peak, `exponent += step`, where all that
//!   matters is near 0. Potentials themselves reach `s^2 / tau`, 20,000 at a temperature of 0.01 and
//!   a score 14 deviations out, of which float32 keeps two digits.
//!
//! A step from entry `j` to `j + 1` of a line with coordinate `u` is `spacing[j] (u - reference[j]) +
//! offset[j]`: `spacing` from the entries' own coordinates, and for the potential's difference a
//! reference point, that of the peak of the other side's line `j`, and what is left. Near the
//! diagonal `u` is near the reference, and nothing large is ever subtracted.
//!
//! The two sides, tokens (coordinate: score) and positions (coordinate: index), are alike. Each has
//! six lanes of N numbers in one flat working memory; the last lane is for both.

use crate::model::ops::gpu::prelude::*;

/// Lanes of the tokens begin here, those of the positions [`POSITIONS`] lanes on.
pub(super) const TOKENS: usize = 0;
/// See [`TOKENS`].
pub(super) const POSITIONS: usize = 6;
/// The coordinate of an entry.
pub(super) const COORDINATE: usize = 0;
/// From its coordinate to the next one's, times kappa.
pub(super) const SPACING: usize = 1;
/// The other side's coordinate at which the potential's step is [`OFFSET`] alone.
pub(super) const REFERENCE: usize = 2;
/// What is left of the potential's step.
pub(super) const OFFSET: usize = 3;
/// The peak of this entry's own line.
pub(super) const PEAK: usize = 4;
/// The logarithm of its line's sum, the peak counted as 1.
pub(super) const LOG: usize = 5;
/// The logarithm of a line's mass before it was balanced last.
pub(super) const MASS: usize = 12;
/// Lanes of the working memory.
pub(super) const LANES: usize = 13;

/// Exponents this far below the peak are nothing: 1e-14.
const NEGLIGIBLE: f32 = -32.0;
/// Entries of a walk between two checks whether it may end, so that their loads are in flight together.
const AT_ONCE: usize = 8;

/// Sums over one line, the entry at its peak counted as 1.
#[derive(CubeType)]
pub(super) struct Sums {
    /// Of the entries.
    pub total: f32,
    /// Of the entries times their weights.
    pub weighted: f32,
    /// Of the entries times their weights times their index beyond an origin.
    pub moment: f32,
    /// Of the entries times their index beyond the origin.
    pub index: f32,
}

/// The step of the exponent from entry `j` of `side` to `j + 1`, on a line with coordinate `u`.
#[cube]
pub(super) fn step(work: &[f32], j: usize, u: f32, #[comptime] side: usize, #[comptime] n: usize) -> f32 {
    let spacing = work[comptime!((side + SPACING) * n) + j];
    let reference = work[comptime!((side + REFERENCE) * n) + j];
    spacing * (u - reference) + work[comptime!((side + OFFSET) * n) + j]
}

/// The entry of `side` at which a line with coordinate `u` is greatest.
#[cube]
pub(super) fn peak(work: &[f32], u: f32, #[comptime] side: usize, #[comptime] n: usize) -> usize {
    let mut low = 0usize;
    let mut high = comptime!(n - 1).runtime();
    while low < high {
        let middle = low + (high - low) / 2;
        if step(work, middle, u, side, n) >= 0.0 {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The exponent at entry `to` of a line with coordinate `u`, less that at `from`.
#[cube]
pub(super) fn exponent_change(
    work: &[f32],
    from: usize,
    to: usize,
    u: f32,
    #[comptime] side: usize,
    #[comptime] n: usize,
) -> f32 {
    let mut exponent = 0.0f32;
    for j in from..to {
        exponent += step(work, j, u, side, n);
    }
    for j in to..from {
        exponent -= step(work, from + to - 1 - j, u, side, n);
    }
    exponent
}

/// Walks a line with coordinate `u` and its peak at `top` over the entries of `side`, weighted by lane
/// `weights`; indices are counted from `origin`. Sums that a caller does not use cost nothing: the device's compiler drops them.
#[cube]
pub(super) fn sums(
    work: &[f32],
    top: usize,
    u: f32,
    origin: f32,
    #[comptime] side: usize,
    #[comptime] weights: usize,
    #[comptime] n: usize,
) -> Sums {
    let mut sums = Sums { total: 0.0f32, weighted: 0.0f32, moment: 0.0f32, index: 0.0f32 };
    add(&mut sums, 1.0f32, work[comptime!(weights * n) + top], f32::cast_from(top) - origin);
    let mut exponent = 0.0f32;
    let mut j = top;
    while j < comptime!(n - 1) && exponent > NEGLIGIBLE {
        #[unroll]
        for ahead in 0..AT_ONCE {
            let at = usize::min(j + ahead, comptime!(n.saturating_sub(2))); // beyond the end the last entry again, counted as 0
            exponent += step(work, at, u, side, n);
            let share = select(j + ahead < comptime!(n - 1), exponent.exp(), 0.0f32);
            add(&mut sums, share, work[comptime!(weights * n + 1) + at], f32::cast_from(at + 1) - origin);
        }
        j += AT_ONCE;
    }
    exponent = 0.0f32;
    j = top;
    while j > 0 && exponent > NEGLIGIBLE {
        #[unroll]
        for back in 1..comptime!(AT_ONCE + 1) {
            let at = usize::max(j, back) - back;
            exponent -= step(work, at, u, side, n);
            let share = select(j >= back, exponent.exp(), 0.0f32);
            add(&mut sums, share, work[comptime!(weights * n) + at], f32::cast_from(at) - origin);
        }
        j = usize::max(j, AT_ONCE) - AT_ONCE;
    }
    sums
}

#[cube]
fn add(sums: &mut Sums, share: f32, weight: f32, index: f32) {
    let weighted = share * weight;
    sums.total += share;
    sums.weighted += weighted;
    sums.moment += weighted * index;
    sums.index += share * index;
}

/// How many of the scores come before score `i`: its place when sorted; equal ones stay in order.
#[cube]
pub(super) fn rank(scores: &[f32], i: usize, #[comptime] n: usize) -> usize {
    let score = scores[i];
    let mut before = 0usize;
    let mut j = 0usize;
    while j < n {
        let other = scores[j];
        let after = other > score; // false with NaN, so that every score has a rank
        if other < score || (j < i && !after) {
            before += 1;
        }
        j += 1;
    }
    before
}

/// Sorts the tokens and fills the vectors of both sides, the positions' steps as they are before the first iteration.
#[cube]
pub(super) fn init_lines(
    scores: &[f32],
    work: &mut [f32],
    kappa: f32,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    for i in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        work[comptime!((TOKENS + COORDINATE) * n) + rank(scores, i, n)] = scores[i];
        work[comptime!((POSITIONS + COORDINATE) * n) + i] = f32::cast_from(i);
        work[comptime!((POSITIONS + SPACING) * n) + i] = kappa;
        initial_step(work, i, n);
    }
    barrier(shared);
    for i in range_stepped(UNIT_POS as usize, comptime!(n - 1), CUBE_DIM as usize) {
        let gap = work[comptime!((TOKENS + COORDINATE) * n + 1) + i]
            - work[comptime!((TOKENS + COORDINATE) * n) + i];
        work[comptime!((TOKENS + SPACING) * n) + i] = gap * kappa;
    }
    barrier(shared);
}

/// The step of position `k` before the first iteration: `-p_k^2 / tau` alone, whose difference from `k` to `k + 1` is
/// `kappa` times the point between them.
#[cube]
pub(super) fn initial_step(work: &mut [f32], k: usize, #[comptime] n: usize) {
    let between = (f32::cast_from(k) + 0.5) / comptime!((n - 1) as f32);
    work[comptime!((POSITIONS + REFERENCE) * n) + k] = between;
    work[comptime!((POSITIONS + OFFSET) * n) + k] = 0.0;
}

/// Waits until all threads of the workgroup are here and what they wrote is visible.
#[cube]
pub(super) fn barrier(#[comptime] shared: bool) {
    if comptime!(shared) {
        sync_cube();
    } else {
        sync_storage();
    }
}
