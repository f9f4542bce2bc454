//! The iterations of one image by one workgroup where float32 holds the kernel itself: `K[i, k] = exp(x_i (k - h) - m_i)`,
//! `x_i = kappa s_i`, `h` the middle. One multiply-add an entry, where a [walk](super::lines) has an exponential and what leads
//! to it. `m_i` is the greatest that the exponent is beside what positions begin with, so that no token is too far out: its scaling
//! takes up what that leaves.
//!
//! With `k = 16 a + b` an entry is a stride `exp(x_i (16 a + 8 - h) - m_i)` times a step `exp(x_i (b - 8))`. A row's sum is made by
//! its token's thread, of its own powers, in registers, and the positions' scalings; the sums of four columns side by side by
//! [`GROUPS`] threads, each of every fourth token's stride times its scaling, and its steps. These lie in the workgroup's memory in fours,
//! which are read as one: what is asked of it is what takes the time. The first threads have four positions each.
//!
//! It cannot go wrong unseen: all terms are positive, and every scaling is looked at. What is lost of a plan, where a stride is below
//! the 1e-38 that float32 has, is at most that times a step and both scalings, 1e-11 in all. Where one of these is beyond its
//! bounds the image is walked.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::forward::HISTORY_VECTORS;
use super::fours::{Four, WIDE, position, read, write};

/// Consecutive powers of a token.
const STEPS: usize = 16;
/// A step that is 1: the middle one, so that none is far from it.
const MIDDLE: f32 = 8.0;
/// Threads that share the sums of four columns.
const GROUPS: usize = 4;
/// Tokens of a thread's share of a sum that are asked for at once; tokens are padded for that, with nothing. With more a thread
/// has so many registers that a GPU has no room for two images at a time.
const AT_ONCE: usize = 8;
/// The largest `8 |x_i|`: steps within 1e-13 ... 1e13.
const ACROSS: f32 = 30.0;
/// What the scaling of a token must lie within.
const SAFE_ROW: (f32, f32) = (1e-20, 1e10);
/// The same of a position.
const SAFE_COLUMN: (f32, f32) = (1e-20, 1e4);

/// The two vectors of what row sums weigh positions with.
const FIRST: usize = 0;
/// See [`FIRST`].
const SECOND: usize = 1;

/// Vectors of N kept of an iteration, in place of a walk's: the tokens' scalings, and the positions' after it.
const ROW_SCALES: usize = 0;
const COLUMN_SCALES: usize = 1;

/// Strides of [`STEPS`] positions.
const fn stride_count(n: usize) -> usize {
    n.div_ceil(STEPS)
}

/// From one token's strides to the next one's: an odd number, so that threads that write theirs do not wait for each other.
const fn pitch(n: usize) -> usize {
    stride_count(n) | 1
}

/// Tokens, padded: as many as threads.
const fn rows(n: usize) -> usize {
    n.next_multiple_of(GROUPS * AT_ONCE)
}

/// Threads that have positions, four each, and fours of what row sums weigh positions with; the last has zeros behind the N.
const fn quads(n: usize) -> usize {
    n.div_ceil(WIDE)
}

/// Those of stride `a`.
const fn fours_of(n: usize, a: usize) -> usize {
    let left = quads(n) - a * STEPS / WIDE;
    if left < STEPS / WIDE { left } else { STEPS / WIDE }
}

/// Where it stands whether a scaling was not safe, behind the tokens' strides times a term, `[rows, pitch]`.
const fn flag(n: usize) -> usize {
    rows(n) * pitch(n)
}

/// Numbers of working memory for an image, of those that lie one by one.
pub(super) const fn room_for_ones(n: usize) -> usize {
    flag(n) + 1
}

/// The same of those that lie in fours.
pub(super) const fn room_for_fours(n: usize) -> usize {
    rows(n) * STEPS + (2 + GROUPS) * quads(n) * WIDE
}

/// The powers of this thread's token, of the last one where it has none, and where threads share theirs.
#[derive(CubeType)]
struct Powers {
    /// `exp(x (b - 8))`.
    steps: Array<Four>,
    /// `exp(x (16 a + 8 - h) - m)`.
    strides: Array<f32>,
    /// The steps of all tokens, `[rows, STEPS / WIDE]`.
    all_steps: Shared<[Four]>,
    /// What row sums weigh positions with, `[2, quads]`.
    coefficients: Shared<[Four]>,
    /// What each group's tokens come to in four columns, `[GROUPS, quads]`.
    shares: Shared<[Four]>,
    #[cube(comptime)]
    n: usize,
}

/// A row's sums of `c_k K[i, k]` and of `c_k K[i, k] (k - h)`; what a caller leaves unread the device's compiler leaves out.
#[derive(CubeType)]
struct Row {
    sum: f32,
    moment: f32,
}

#[cube]
impl Powers {
    /// Of the tokens of an image; clears the working memory.
    fn new(scores: &[f32], work: &mut [f32], kappa: f32, #[comptime] n: usize) -> Powers {
        let unit = UNIT_POS as usize;
        let score = scores[usize::min(unit, comptime!(n - 1))];
        let x = kappa * score;
        let last = comptime!((n - 1) as f32);
        let top = clamp(score * last, 0.0, last);
        let most =
            x * (top - comptime!((n / 2) as f32)) - kappa * top * top * comptime!(0.5 / (n - 1) as f32);
        let mut all_steps = Shared::<[Four]>::new_slice(comptime!(rows(n) * STEPS / WIDE));
        let coefficients = Shared::<[Four]>::new_slice(comptime!(2 * quads(n)));
        let shares = Shared::<[Four]>::new_slice(comptime!(GROUPS * quads(n)));
        let mut steps = Array::<Four>::new(comptime!(STEPS / WIDE));
        #[unroll]
        for four in 0..comptime!(STEPS / WIDE) {
            let mut powers = Four::empty();
            #[unroll]
            for lane in 0..WIDE {
                powers.insert(lane, power(x, comptime!((four * WIDE + lane) as f32 - MIDDLE), 0.0));
            }
            steps[four] = powers;
            all_steps[unit * comptime!(STEPS / WIDE) + four] = powers;
        }
        let mut strides = Array::<f32>::new(comptime!(stride_count(n)));
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            strides[a] = power(x, comptime!((STEPS * a) as f32 + MIDDLE - (n / 2) as f32), most);
        }
        if unit == 0 {
            work[comptime!(flag(n))] = 0.0;
        }
        sync_cube();
        check(work, x.abs() * MIDDLE <= ACROSS, n);
        Powers { steps, strides, all_steps, coefficients, shares, n }
    }

    /// Lays out what row sums weigh this thread's positions with.
    fn lay_out(&mut self, values: Four, #[comptime] which: usize) {
        let n = comptime!(self.n);
        let unit = UNIT_POS as usize;
        if unit < comptime!(quads(n)) {
            self.coefficients[comptime!(which * quads(n)) + unit] = values;
        }
    }

    /// This thread's row with one of the two vectors of coefficients.
    fn row(&self, #[comptime] which: usize) -> Row {
        let n = comptime!(self.n);
        let mut row = Row { sum: 0.0f32, moment: 0.0f32 };
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            // From the last four to the first, so that what lies beyond a four is a sum that is there: of all of them it makes the
            // moment, in fours.
            let mut sums = Four::new(0.0);
            let mut beyond = Four::new(0.0);
            #[unroll]
            for back in 0..comptime!(fours_of(n, a)) {
                let four = comptime!(fours_of(n, a) - 1 - back);
                sums += self.coefficients[comptime!(which * quads(n) + a * STEPS / WIDE + four)]
                    * self.steps[four];
                if comptime!(four > 0) {
                    beyond += sums;
                }
            }
            let mut sum = 0.0f32;
            let mut moment = 0.0f32;
            #[unroll]
            for lane in 0..WIDE {
                let (own, later) = (sums.extract(lane), beyond.extract(lane));
                sum += own;
                moment += later * comptime!(WIDE as f32) + own * comptime!(lane as f32);
            }
            row.sum += self.strides[a] * sum;
            let origin = comptime!((STEPS * a) as f32 - (n / 2) as f32);
            row.moment += self.strides[a] * (moment + origin * sum);
        }
        row
    }

    /// `sum_i K[i, k] term_i` of this thread's positions, given its token's term. All threads of the workgroup call it.
    fn columns(&mut self, work: &mut [f32], term: f32) -> Four {
        let n = comptime!(self.n);
        let unit = UNIT_POS as usize;
        let term = select(unit < n, term, 0.0f32);
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            work[unit * comptime!(pitch(n)) + a] = self.strides[a] * term;
        }
        sync_cube();
        let quads = comptime!(quads(n));
        let (group, quad) = (unit / quads, unit % quads);
        if group < GROUPS {
            let (a, four) = (quad / comptime!(STEPS / WIDE), quad % comptime!(STEPS / WIDE));
            let mut share = Four::new(0.0);
            for round in 0..comptime!(rows(n) / (GROUPS * AT_ONCE)) {
                let first = round * comptime!(GROUPS * AT_ONCE) + group;
                let strides = &work[first * comptime!(pitch(n)) + a..comptime!(rows(n) * pitch(n))];
                let steps = &self.all_steps
                    [first * comptime!(STEPS / WIDE) + four..comptime!(rows(n) * STEPS / WIDE)];
                #[unroll]
                for ahead in 0..AT_ONCE {
                    let i = comptime!(ahead * GROUPS);
                    share += Four::new(strides[comptime!(i * pitch(n))]) * steps[comptime!(i * STEPS / WIDE)];
                }
            }
            self.shares[unit] = share;
        }
        sync_cube();
        let mut sums = Four::new(0.0);
        #[unroll]
        for group in 0..GROUPS {
            sums += self.shares[comptime!(group * quads) + usize::min(unit, comptime!(quads - 1))];
        }
        sums
    }
}

/// `exp(x times - most)`, with the digits that the product loses.
#[cube]
fn power(x: f32, times: f32, most: f32) -> f32 {
    let exponent = x * times;
    let power = (exponent - most).exp();
    fma(power, fma(x, times, -exponent), power)
}

/// Notes where something is not as it must be.
#[cube]
fn check(work: &mut [f32], holds: bool, #[comptime] n: usize) {
    if !holds {
        work[comptime!(flag(n))] = 1.0;
    }
}

/// Whether it lies within its bounds. Where floats are compared as if there were no NaN (Metal), those would let one pass.
#[cube]
fn is_safe(scale: f32, #[comptime] safe: (f32, f32)) -> bool {
    scale > comptime!(safe.0) && scale < comptime!(safe.1) && !scale.is_nan()
}

/// The scaling that makes this thread's row sum to 1.
#[cube]
fn row_scaling(work: &mut [f32], sum: f32, #[comptime] n: usize) -> f32 {
    let scale = 1.0 / sum;
    check(work, is_safe(scale, SAFE_ROW), n);
    scale
}

/// Those that make its columns do so.
#[cube]
fn column_scalings(work: &mut [f32], sums: Four, #[comptime] n: usize) -> Four {
    let mut scales = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        let there = position(lane) < n;
        let scale = 1.0 / sums.extract(lane);
        check(work, is_safe(scale, SAFE_COLUMN) || !there, n);
        scales.insert(lane, select(there, scale, 0.0f32));
    }
    scales
}

/// The scalings of this thread's positions to begin with.
#[cube]
fn start(kappa: f32, #[comptime] n: usize) -> Four {
    let mut scales = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        let k = f32::cast_from(position(lane));
        let scale = (-kappa * k * k * comptime!(0.5 / (n - 1) as f32)).exp();
        scales.insert(lane, select(position(lane) < n, scale, 0.0f32));
    }
    scales
}

/// A vector of N of what is kept of an iteration.
#[cube]
fn slot(kept: &[f32], t: usize, #[comptime] slot: usize, #[comptime] n: usize) -> &[f32] {
    let first = t * comptime!(HISTORY_VECTORS * n) + comptime!(slot * n);
    &kept[first..first + n]
}

/// Token weights `P gain`, `[N]`, into `output`; with `keep` the scalings into `kept`, `[iterations, HISTORY_VECTORS, N]`. False
/// where float32 does not hold them.
#[cube]
pub(super) fn forward(
    scores: &[f32],
    gain: &[f32],
    output: &mut [f32],
    kept: &mut [f32],
    work: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] keep: bool,
) -> bool {
    let unit = UNIT_POS as usize;
    let mut powers = Powers::new(scores, work, kappa, n);
    let mut row = 0.0f32;
    let mut columns = start(kappa, n);
    for t in 0..iterations {
        powers.lay_out(columns, FIRST);
        sync_cube();
        let sum = powers.row(FIRST).sum;
        row = row_scaling(work, sum, n);
        let sums = powers.columns(work, row);
        columns = column_scalings(work, sums, n);
        if comptime!(keep) {
            let slots =
                &mut kept[t * comptime!(HISTORY_VECTORS * n)..(t + 1) * comptime!(HISTORY_VECTORS * n)];
            if unit < n {
                slots[comptime!(ROW_SCALES * n) + unit] = row;
            }
            write(&mut slots[comptime!(COLUMN_SCALES * n)..comptime!((COLUMN_SCALES + 1) * n)], columns, n);
        }
    }
    powers.lay_out(columns * read(gain, n), FIRST);
    sync_cube();
    if unit < n {
        output[unit] = row * powers.row(FIRST).sum;
    }
    work[comptime!(flag(n))] == 0.0
}

/// The cotangents of scores and gain, `[N]`, from that of the token weights, as `Transport::unroll` has them. A score is owed
/// `kappa sum_k dL[i, k] (k - m_i)`, with `m_i` the mean position of the last plan: what each row of L is owed sums to 0.
#[cube]
pub(super) fn backward(
    scores: &[f32],
    gain: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    by_scores: &mut [f32],
    by_gain: &mut [f32],
    work: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
) {
    let unit = UNIT_POS as usize;
    let own = usize::min(unit, comptime!(n - 1));
    let mut powers = Powers::new(scores, work, kappa, n);
    let last = iterations - 1;
    let mut row = slot(kept, last, ROW_SCALES, n)[own];
    let mut after = read(slot(kept, last, COLUMN_SCALES, n), n);
    let gain = read(gain, n);
    let by_weight = cotangent[own];
    powers.lay_out(after * gain, FIRST);
    powers.lay_out(after, SECOND);
    let owed = after * powers.columns(work, row * by_weight);
    let weighed = powers.row(FIRST);
    let plain = powers.row(SECOND);
    let middle = plain.moment / plain.sum;
    let mut by_score = by_weight * row * (weighed.moment - middle * weighed.sum);
    let mut by_row = by_weight * row * weighed.sum;
    let mut by_columns = gain * owed;
    write(by_gain, owed, n);
    sync_cube();
    for back in 0..iterations {
        let t = last - back;
        let mut before = start(kappa, n);
        if t > 0 {
            before = read(slot(kept, t - 1, COLUMN_SCALES, n), n);
        }
        powers.lay_out(after * by_columns, FIRST);
        powers.lay_out(before, SECOND);
        sync_cube();
        let balanced = powers.row(FIRST);
        let earlier = powers.row(SECOND);
        by_score -= row * (balanced.moment - middle * balanced.sum);
        by_row = row * balanced.sum - by_row; // with its sign turned
        by_score += by_row * row * (earlier.moment - middle * earlier.sum);
        by_columns = before * powers.columns(work, row * by_row);
        by_row = 0.0;
        after = before;
        if t > 0 {
            row = slot(kept, t - 1, ROW_SCALES, n)[own];
        }
    }
    if unit < n {
        by_scores[unit] = kappa * by_score;
    }
}
