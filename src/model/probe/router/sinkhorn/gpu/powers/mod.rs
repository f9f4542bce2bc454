//! The iterations of one image by one workgroup where float32 holds the kernel itself: `K[i, k] = exp(x_i (k - h) - m_i)`,
//! `x_i = kappa s_i`, `h` the middle. One multiply-add per entry, where a [walk](super::lines) has an exponential and what leads
//! to it. `m_i` is the peak of the exponent with the positions' first scalings, so that no token is too far out: its scaling
//! takes up the rest.
//!
//! With `k = 16 a + b` an entry is a stride `exp(x_i (16 a + 8 - h) - m_i)` times a step `exp(x_i (b - 8))`. Four threads, a quad,
//! share four tokens: each has four steps of all of them in registers, so that a load of their strides or of the positions'
//! scalings serves four rows, and a column is added up over four tokens before it is written: the bandwidth of shared memory
//! bounds the kernel, not its arithmetic. A row's sum is then that of four threads, a column's that of all quads, which threads
//! divide among them. The first threads have four positions each.
//!
//! It cannot fail unnoticed: all terms are positive, and every scaling is checked. Where a stride underflows, below 1e-38, a plan
//! loses at most that times a step and both scalings, 1e-11 in all. Where one of these is out of its bounds the image is walked.

mod products;

use self::products::{MIDDLE, MOMENTS, Powers, SUMS};
use super::backward::Image;
use super::forward::HISTORY_VECTORS;
use super::vec4::{read, write};
use crate::model::ops::gpu::prelude::*;

pub(super) use self::products::{room, stride_count};

/// Largest `8 |x_i|`: steps lie within 1e-13 ... 1e13.
const MAX_STEP_EXPONENT: f32 = 30.0;
/// Bounds of a token's scaling.
const SAFE_ROW: (f32, f32) = (1e-20, 1e10);
/// Bounds of a position's scaling.
const SAFE_COLUMN: (f32, f32) = (1e-20, 1e4);

/// Vectors of N kept of an iteration, in place of a walk's: the tokens' scalings, their mean positions with those, and the positions'
/// scalings after it.
const ROW_SCALES: usize = 0;
const MEANS: usize = 1;
const COLUMN_SCALES: usize = 2;

/// Sets the flag that sends the image to a walk, unless `in_bounds`.
#[cube]
fn check(work: &mut [f32], in_bounds: bool) {
    if !in_bounds {
        work[0] = 1.0;
    }
}

/// The scalings that make the sums of the `nth` four tokens or positions 1; 0 beyond the last. Each is checked against the bounds
/// `safe`, and their total for NaN, which comparisons alone would miss on Metal.
#[cube]
fn scalings(
    work: &mut [f32],
    sums: Vec4,
    nth: usize,
    #[comptime] safe: (f32, f32),
    #[comptime] n: usize,
) -> Vec4 {
    let mut scales = Vec4::empty();
    let mut least = f32::new(comptime!(safe.1));
    let mut largest = f32::new(comptime!(safe.0));
    let mut total = 0.0f32; // NaN if any is
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        let there = nth * VECTOR_SIZE + lane < n;
        let scale = select(there, 1.0 / sums.extract(lane), 1.0f32);
        least = min(least, scale);
        largest = max(largest, scale);
        total += scale;
        scales.insert(lane, select(there, scale, 0.0f32));
    }
    check(work, least > comptime!(safe.0) && largest < comptime!(safe.1) && !total.is_nan());
    scales
}

/// The scalings of this thread's positions before the first iteration.
#[cube]
fn initial_columns(kappa: f32, #[comptime] n: usize) -> Vec4 {
    let mut scales = Vec4::empty();
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        let position = UNIT_POS as usize * VECTOR_SIZE + lane;
        let k = f32::cast_from(position);
        let scale = (-kappa * k * k * comptime!(0.5 / (n - 1) as f32)).exp();
        scales.insert(lane, select(position < n, scale, 0.0f32));
    }
    scales
}

/// Writes the `nth` four of a vector of iteration `t`.
#[cube]
fn save(
    kept: &mut [f32],
    t: usize,
    #[comptime] vector: usize,
    nth: usize,
    values: Vec4,
    #[comptime] n: usize,
) {
    let first = t * comptime!(HISTORY_VECTORS * n) + comptime!(vector * n);
    write(&mut kept[first..first + n], nth, values, n);
}

/// Reads what [`save()`] wrote.
#[cube]
fn load(kept: &[f32], t: usize, #[comptime] vector: usize, nth: usize, #[comptime] n: usize) -> Vec4 {
    let first = t * comptime!(HISTORY_VECTORS * n) + comptime!(vector * n);
    read(&kept[first..first + n], nth, n)
}

/// Token weights `P gain`, `[N]`, into `output`; with `keep` what the backward pass needs into `kept`, `[iterations, HISTORY_VECTORS,
/// N]`. False where float32 does not hold the powers: the image must be walked.
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
    let (quad, own) = (unit / VECTOR_SIZE, unit % VECTOR_SIZE);
    let writes = own == 0; // one of the four that share tokens
    let mut powers = Powers::new(scores, kappa, n, block);
    if unit == 0 {
        work[0] = 0.0; // the flag of `check`
    }
    sync_cube();
    let x = Vec4::new(kappa) * read(scores, quad, n);
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        check(work, x.extract(lane).abs() * MIDDLE <= MAX_STEP_EXPONENT);
    }
    let mut row = Vec4::new(0.0);
    let mut columns = initial_columns(kappa, n);
    for t in 0..iterations {
        powers.set_coefficients(columns);
        sync_cube();
        let shares = powers.rows(keep);
        powers.share(shares.sums, SUMS);
        if comptime!(keep) {
            powers.share(shares.moments, MOMENTS);
        }
        sync_cube();
        let sums = powers.sum_of(SUMS);
        row = scalings(work, sums, quad, SAFE_ROW, n);
        if comptime!(keep) {
            let mean = row * powers.sum_of(MOMENTS);
            if writes {
                save(kept, t, ROW_SCALES, quad, row, n);
                save(kept, t, MEANS, quad, mean, n);
            }
        }
        let sums = powers.columns(row);
        if powers.has_positions() {
            columns = scalings(work, sums, unit, SAFE_COLUMN, n);
            if comptime!(keep) {
                save(kept, t, COLUMN_SCALES, unit, columns, n);
            }
        }
    }
    powers.set_coefficients(columns * read(gain, unit, n));
    sync_cube();
    let shares = powers.rows(false);
    powers.share(shares.sums, SUMS);
    sync_cube();
    if writes {
        write(output, quad, row * powers.sum_of(SUMS), n);
    }
    work[0] == 0.0
}

/// The gradients of scores and gain, `[N]`, from that of the token weights, by the recursion of `Transport::unroll`. That of a score
/// is `kappa sum_k dL[i, k] (k - m_i)`, `m_i` its mean position in the last plan: each row of dL sums to 0, so any origin is right.
#[cube]
pub(super) fn backward(
    image: &Image,
    gain: &[f32],
    grad_scores: &mut [f32],
    grad_gain: &mut [f32],
    #[comptime] n: usize,
    #[comptime] block: usize,
) {
    let unit = UNIT_POS as usize;
    let (quad, own) = (unit / VECTOR_SIZE, unit % VECTOR_SIZE);
    let mut powers = Powers::new(image.scores, image.kappa, n, block);
    let last = image.iterations - 1;
    let mut row = load(image.kept, last, ROW_SCALES, quad, n);
    let after = load(image.kept, last, COLUMN_SCALES, unit, n);
    let gain = read(gain, unit, n);
    powers.set_coefficients(after);
    sync_cube();
    let plain = powers.rows(true);
    powers.share(plain.sums, SUMS);
    powers.share(plain.moments, MOMENTS);
    sync_cube();
    let middle = powers.sum_of(MOMENTS) / powers.sum_of(SUMS);
    powers.set_coefficients(after * gain);
    let grad_plan = row * read(image.cotangent, quad, n);
    let grad = after * powers.columns(grad_plan);
    write(grad_gain, unit, grad, n);
    let weighed = powers.rows(true);
    sync_cube(); // the slot was read as that of columns
    powers.share(weighed.sums, SUMS);
    sync_cube();
    // The gradient of the scores over this thread's part of their rows; the first thread of a quad adds the terms of whole rows.
    let mut partial = grad_plan * (weighed.moments - middle * weighed.sums);
    let first = Vec4::new(select(own == 0, 1.0f32, 0.0f32));
    let mut grad_row = grad_plan * powers.sum_of(SUMS);
    powers.set_coefficients(after * gain * grad);
    for back in 0..image.iterations {
        let t = last - back;
        sync_cube();
        let balanced = powers.rows(true);
        powers.share(balanced.sums, SUMS);
        partial += row * (middle * balanced.sums - balanced.moments);
        let mean = load(image.kept, t, MEANS, quad, n);
        sync_cube();
        grad_row = row * powers.sum_of(SUMS) - grad_row; // negated, as in `Transport::unroll`
        partial += first * grad_row * (mean - middle);
        if t > 0 {
            let terms = row * grad_row;
            let before = load(image.kept, t - 1, COLUMN_SCALES, unit, n);
            row = load(image.kept, t - 1, ROW_SCALES, quad, n);
            let grad = before * powers.columns(terms);
            powers.set_coefficients(before * grad);
            grad_row = Vec4::new(0.0);
        }
    }
    powers.share(partial, MOMENTS); // the other slot may still be read
    sync_cube();
    if own == 0 {
        write(grad_scores, quad, Vec4::new(image.kappa) * powers.sum_of(MOMENTS), n);
    }
}
