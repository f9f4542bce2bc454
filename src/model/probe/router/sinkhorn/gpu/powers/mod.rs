//! The iterations of one image by one workgroup where float32 holds the kernel itself: `K[i, k] = exp(x_i (k - h) - m_i)`,
//! `x_i = kappa s_i`, `h` the middle. One multiply-add an entry, where a [walk](super::lines) has an exponential and what leads
//! to it. `m_i` is the greatest that the exponent is beside what positions begin with, so that no token is too far out: its scaling
//! takes up what that leaves.
//!
//! With `k = 16 a + b` an entry is a stride `exp(x_i (16 a + 8 - h) - m_i)` times a step `exp(x_i (b - 8))`. Four threads share four
//! tokens: each has four steps of all of them in registers, so that what it reads of their strides and of the positions' scalings
//! serves four rows, and what it adds up of a column comes from four tokens before anyone else sees it: what the workgroup's memory
//! can hand out takes the time, not the products. A row's sum is then that of four threads, a column's that of all quads of
//! tokens, which are shared out among threads and added up. The first threads have four positions each.
//!
//! It cannot go wrong unseen: all terms are positive, and every scaling is looked at. What is lost of a plan, where a stride is below
//! the 1e-38 that float32 has, is at most that times a step and both scalings, 1e-11 in all. Where one of these is beyond its
//! bounds the image is walked.

mod products;

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use self::products::{MIDDLE, MOMENTS, Powers, SUMS};
use super::forward::HISTORY_VECTORS;
use super::fours::{Four, WIDE, read, write};

pub(super) use self::products::{room, stride_count};

/// The largest `8 |x_i|`: steps within 1e-13 ... 1e13.
const ACROSS: f32 = 30.0;
/// What the scaling of a token must lie within.
const SAFE_ROW: (f32, f32) = (1e-20, 1e10);
/// The same of a position.
const SAFE_COLUMN: (f32, f32) = (1e-20, 1e4);

/// Vectors of N kept of an iteration, in place of a walk's: the tokens' scalings, their mean positions then, and the positions'
/// scalings after it.
const ROW_SCALES: usize = 0;
const MEANS: usize = 1;
const COLUMN_SCALES: usize = 2;

/// Notes where something is not as it must be.
#[cube]
fn check(work: &mut [f32], holds: bool) {
    if !holds {
        work[0] = 1.0;
    }
}

/// What makes the sums of the `nth` four tokens or positions 1; 0 where there are none. Each must lie within its bounds; where floats
/// are compared as if there were no NaN (Metal), those would let one pass.
#[cube]
fn scalings(
    work: &mut [f32],
    sums: Four,
    nth: usize,
    #[comptime] safe: (f32, f32),
    #[comptime] n: usize,
) -> Four {
    let mut scales = Four::empty();
    let mut least = f32::new(comptime!(safe.1));
    let mut largest = f32::new(comptime!(safe.0));
    let mut total = 0.0f32; // NaN if one is
    #[unroll]
    for lane in 0..WIDE {
        let there = nth * WIDE + lane < n;
        let scale = select(there, 1.0 / sums.extract(lane), 1.0f32);
        least = min(least, scale);
        largest = max(largest, scale);
        total += scale;
        scales.insert(lane, select(there, scale, 0.0f32));
    }
    check(work, least > comptime!(safe.0) && largest < comptime!(safe.1) && !total.is_nan());
    scales
}

/// The scalings of this thread's positions to begin with.
#[cube]
fn start(kappa: f32, #[comptime] n: usize) -> Four {
    let mut scales = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        let position = UNIT_POS as usize * WIDE + lane;
        let k = f32::cast_from(position);
        let scale = (-kappa * k * k * comptime!(0.5 / (n - 1) as f32)).exp();
        scales.insert(lane, select(position < n, scale, 0.0f32));
    }
    scales
}

/// Keeps the `nth` four of a vector of iteration `t`.
#[cube]
fn keep_four(
    kept: &mut [f32],
    t: usize,
    #[comptime] vector: usize,
    nth: usize,
    values: Four,
    #[comptime] n: usize,
) {
    let first = t * comptime!(HISTORY_VECTORS * n) + comptime!(vector * n);
    write(&mut kept[first..first + n], nth, values, n);
}

/// The same as it was kept.
#[cube]
fn recall(kept: &[f32], t: usize, #[comptime] vector: usize, nth: usize, #[comptime] n: usize) -> Four {
    let first = t * comptime!(HISTORY_VECTORS * n) + comptime!(vector * n);
    read(&kept[first..first + n], nth, n)
}

/// Token weights `P gain`, `[N]`, into `output`; with `keep` what the way back needs into `kept`, `[iterations, HISTORY_VECTORS, N]`.
/// False where float32 does not hold them.
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
    #[comptime] block: usize,
    #[comptime] keep: bool,
) -> bool {
    let unit = UNIT_POS as usize;
    let (quad, own) = (unit / WIDE, unit % WIDE);
    let tells = own == 0; // of those that have the same tokens
    let mut powers = Powers::new(scores, kappa, n, block);
    // Whether something is not as it must be.
    if unit == 0 {
        work[0] = 0.0;
    }
    sync_cube();
    let x = Four::new(kappa) * read(scores, quad, n);
    #[unroll]
    for lane in 0..WIDE {
        check(work, x.extract(lane).abs() * MIDDLE <= ACROSS);
    }
    let mut row = Four::new(0.0);
    let mut columns = start(kappa, n);
    for t in 0..iterations {
        powers.lay_out(columns);
        sync_cube();
        let shares = powers.rows(keep);
        powers.tell(shares.sums, SUMS);
        if comptime!(keep) {
            powers.tell(shares.moments, MOMENTS);
        }
        sync_cube();
        let sums = powers.told(SUMS);
        row = scalings(work, sums, quad, SAFE_ROW, n);
        if comptime!(keep) {
            let mean = row * powers.told(MOMENTS);
            if tells {
                keep_four(kept, t, ROW_SCALES, quad, row, n);
                keep_four(kept, t, MEANS, quad, mean, n);
            }
        }
        let sums = powers.columns(row);
        if powers.has_positions() {
            columns = scalings(work, sums, unit, SAFE_COLUMN, n);
            if comptime!(keep) {
                keep_four(kept, t, COLUMN_SCALES, unit, columns, n);
            }
        }
    }
    powers.lay_out(columns * read(gain, unit, n));
    sync_cube();
    let shares = powers.rows(false);
    powers.tell(shares.sums, SUMS);
    sync_cube();
    if tells {
        write(output, quad, row * powers.told(SUMS), n);
    }
    work[0] == 0.0
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
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] block: usize,
) {
    let unit = UNIT_POS as usize;
    let (quad, own) = (unit / WIDE, unit % WIDE);
    let mut powers = Powers::new(scores, kappa, n, block);
    let last = iterations - 1;
    let mut row = recall(kept, last, ROW_SCALES, quad, n);
    let after = recall(kept, last, COLUMN_SCALES, unit, n);
    let gain = read(gain, unit, n);
    powers.lay_out(after);
    sync_cube();
    let plain = powers.rows(true);
    powers.tell(plain.sums, SUMS);
    powers.tell(plain.moments, MOMENTS);
    sync_cube();
    let middle = powers.told(MOMENTS) / powers.told(SUMS);
    powers.lay_out(after * gain);
    let by_plan = row * read(cotangent, quad, n);
    let owed = after * powers.columns(by_plan);
    write(by_gain, unit, owed, n);
    let weighed = powers.rows(true);
    powers.tell(weighed.sums, SUMS);
    sync_cube();
    // What scores are owed by this thread's share of their rows; the first of those that have the same adds what all of them know.
    let mut share = by_plan * (weighed.moments - middle * weighed.sums);
    let adds = Four::new(select(own == 0, 1.0f32, 0.0f32));
    let mut by_row = by_plan * powers.told(SUMS);
    powers.lay_out(after * gain * owed);
    for back in 0..iterations {
        let t = last - back;
        sync_cube();
        let balanced = powers.rows(true);
        powers.tell(balanced.sums, SUMS);
        share += row * (middle * balanced.sums - balanced.moments);
        let mean = recall(kept, t, MEANS, quad, n);
        sync_cube();
        by_row = row * powers.told(SUMS) - by_row; // with its sign turned
        share += adds * by_row * (mean - middle);
        if t > 0 {
            let terms = row * by_row;
            let before = recall(kept, t - 1, COLUMN_SCALES, unit, n);
            row = recall(kept, t - 1, ROW_SCALES, quad, n);
            let owed = before * powers.columns(terms);
            powers.lay_out(before * owed);
            by_row = Four::new(0.0);
        }
    }
    powers.tell(share, MOMENTS); // sums may still be read
    sync_cube();
    if own == 0 {
        write(by_scores, quad, Four::new(kappa) * powers.told(MOMENTS), n);
    }
}
