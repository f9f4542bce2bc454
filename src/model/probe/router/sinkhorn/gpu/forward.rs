//! The iterations of one image by one workgroup, then token weights or the plan.
//!
//! Half an iteration normalises one side: every line of it (a row for a token, a column for a position) finds its peak and its sum;
//! how two neighbouring lines differ in them is the step of the potential. The logarithm of each line's mass before it was
//! normalised is kept for the backward pass: with `A` normalised by rows and `C` by columns, `C[i, k] = A'[i, k] exp(mass_i)`,
//! where `A'` is the plan after the next row half.

use super::lines::{
    COORDINATE, LANES, LOG, MASS, OFFSET, PEAK, POSITIONS, REFERENCE, TOKENS, barrier, exponent_change,
    init_lines, peak, rank, step, sums,
};
use super::{Method, powers};
use crate::model::ops::gpu::prelude::*;

/// Vectors of N kept of an iteration, by their first index. Of the tokens' steps after its row half: reference, and offset.
pub(super) const TOKEN_STEPS: usize = 0;
/// The columns' mass in that plan.
pub(super) const COLUMN_MASS: usize = 2;
/// Of the positions' steps after its column half: reference, and offset.
pub(super) const POSITION_STEPS: usize = 3;
/// The rows' mass in that plan.
pub(super) const ROW_MASS: usize = 5;
pub(super) const HISTORY_VECTORS: usize = 6;

/// Token weights `P gain` `[B, N]`, or with `make_plans` the plans `[B, N, N]`, into `output`; with `keep` what the backward pass
/// needs into `kept`, `[B, iterations, HISTORY_VECTORS, N]`. One workgroup an image; `scratch`, `[B, LANES, N]`, is its working
/// memory for walks in global memory. Where [powers] were tried, `walked`, `[B]`, is 1 for images that they could not hold.
#[cube(launch)]
pub(super) fn forward(
    scores: &[f32],
    gain: &[f32],
    output: &mut [f32],
    kept: &mut [f32],
    walked: &mut [f32],
    scratch: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] keep: bool,
    #[comptime] make_plans: bool,
    #[comptime] method: Method,
) {
    let image = CUBE_POS;
    let scores = &scores[image * n..(image + 1) * n];
    let size = comptime!(if make_plans { n * n } else { n });
    let output = &mut output[image * size..(image + 1) * size];
    let history = comptime!(if keep { HISTORY_VECTORS * n } else { 0 }) * iterations;
    let kept = &mut kept[image * history..(image + 1) * history];
    if comptime!(method != Method::WalkGlobal) {
        let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * n));
        let mut walks = true.runtime();
        if comptime!(method.block() > 0) {
            let block = comptime!(method.block());
            walks =
                !powers::forward(scores, gain, output, kept, &mut work, kappa, iterations, n, block, keep);
            if UNIT_POS == 0 {
                walked[image] = select(walks, 1.0f32, 0.0f32);
            }
            sync_storage(); // a walk writes `kept` again, by other threads
        }
        if walks {
            walk(scores, gain, output, kept, &mut work, kappa, iterations, n, keep, make_plans, true);
        }
    } else {
        let lanes = comptime!(LANES * n);
        let work = &mut scratch[image * lanes..(image + 1) * lanes];
        walk(scores, gain, output, kept, work, kappa, iterations, n, keep, make_plans, false);
    }
}

/// The iterations and the output of one image by walks.
#[cube]
fn walk(
    scores: &[f32],
    gain: &[f32],
    output: &mut [f32],
    kept: &mut [f32],
    work: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] keep: bool,
    #[comptime] make_plans: bool,
    #[comptime] shared: bool,
) {
    init_lines(scores, work, kappa, n, shared);
    balance(work, TOKENS, POSITIONS, false, n, shared);
    for t in 0..iterations {
        let slots = comptime!(if keep { HISTORY_VECTORS * n } else { 0 });
        let kept = &mut kept[t * slots..(t + 1) * slots];
        save_vector(&*work, kept, TOKEN_STEPS, TOKENS + REFERENCE, n, keep);
        save_vector(&*work, kept, TOKEN_STEPS + 1, TOKENS + OFFSET, n, keep);
        balance(work, POSITIONS, TOKENS, true, n, shared);
        save_vector(&*work, kept, COLUMN_MASS, MASS, n, keep);
        save_vector(&*work, kept, POSITION_STEPS, POSITIONS + REFERENCE, n, keep);
        save_vector(&*work, kept, POSITION_STEPS + 1, POSITIONS + OFFSET, n, keep);
        balance(work, TOKENS, POSITIONS, true, n, shared);
        save_vector(&*work, kept, ROW_MASS, MASS, n, keep);
    }
    if comptime!(make_plans) {
        write_rows(scores, output, &*work, n);
    } else {
        write_token_weights(scores, gain, output, work, n, shared);
    }
}

/// Makes every line of `side` sum to 1: computes its steps from those of the `other` side, and with `again` the mass of its lines
/// before. In the very first half that mass has no meaning.
#[cube]
fn balance(
    work: &mut [f32],
    #[comptime] side: usize,
    #[comptime] other: usize,
    #[comptime] again: bool,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    for line in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let u = work[comptime!((side + COORDINATE) * n) + line];
        let top = peak(&*work, u, other, n);
        let log = sums(&*work, top, u, 0.0, other, other + COORDINATE, n).total.ln();
        if comptime!(again) {
            // The entry at the peak, as the other side's normalised line has it, times this line's sum.
            let crossing = work[comptime!((other + PEAK) * n) + top];
            let u = work[comptime!((other + COORDINATE) * n) + top];
            let above = exponent_change(&*work, usize::cast_from(crossing), line, u, side, n);
            work[comptime!(MASS * n) + line] = above - work[comptime!((other + LOG) * n) + top] + log;
        }
        work[comptime!((side + PEAK) * n) + line] = f32::cast_from(top);
        work[comptime!((side + LOG) * n) + line] = log;
    }
    barrier(shared);
    for line in range_stepped(UNIT_POS as usize, comptime!(n - 1), CUBE_DIM as usize) {
        let from = usize::cast_from(work[comptime!((side + PEAK) * n) + line]);
        let to = usize::cast_from(work[comptime!((side + PEAK) * n + 1) + line]);
        let u = work[comptime!((side + COORDINATE) * n + 1) + line];
        let apart = work[comptime!((side + LOG) * n + 1) + line] - work[comptime!((side + LOG) * n) + line];
        let offset = exponent_change(&*work, from, to, u, other, n) + apart;
        work[comptime!((side + OFFSET) * n) + line] = -offset;
        work[comptime!((side + REFERENCE) * n) + line] = work[comptime!((other + COORDINATE) * n) + from];
    }
    barrier(shared);
}

/// Copies vector `lane` of the working memory to vector `slot` of `kept`, with `keep`.
#[cube]
fn save_vector(
    work: &[f32],
    kept: &mut [f32],
    #[comptime] slot: usize,
    #[comptime] lane: usize,
    #[comptime] n: usize,
    #[comptime] keep: bool,
) {
    if comptime!(keep) {
        for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
            kept[comptime!(slot * n) + j] = work[comptime!(lane * n) + j];
        }
    }
}

/// `P gain` into `output`, in the tokens' own order.
#[cube]
fn write_token_weights(
    scores: &[f32],
    gain: &[f32],
    output: &mut [f32],
    work: &mut [f32],
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let free = comptime!(TOKENS + OFFSET); // the tokens' steps are not read any more
    for i in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        work[comptime!(free * n) + i] = gain[i];
    }
    barrier(shared);
    for i in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let line = rank(scores, i, n);
        let top = usize::cast_from(work[comptime!((TOKENS + PEAK) * n) + line]);
        let u = work[comptime!((TOKENS + COORDINATE) * n) + line];
        let sums = sums(&*work, top, u, 0.0, POSITIONS, free, n);
        output[i] = sums.weighted / sums.total * work[comptime!(MASS * n) + line].exp();
    }
}

/// P into `output`, its rows in the tokens' own order.
#[cube]
fn write_rows(scores: &[f32], output: &mut [f32], work: &[f32], #[comptime] n: usize) {
    for i in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let line = rank(scores, i, n);
        let top = usize::cast_from(work[comptime!((TOKENS + PEAK) * n) + line]);
        let u = work[comptime!((TOKENS + COORDINATE) * n) + line];
        // The logarithm of the entry at the peak.
        let height = work[comptime!(MASS * n) + line] - work[comptime!((TOKENS + LOG) * n) + line];
        let mut exponent = height;
        output[i * n + top] = exponent.exp();
        for k in top..comptime!(n - 1) {
            exponent += step(work, k, u, POSITIONS, n);
            output[i * n + k + 1] = exponent.exp();
        }
        exponent = height;
        for back in 0..top {
            let k = top - 1 - back;
            exponent -= step(work, k, u, POSITIONS, n);
            output[i * n + k] = exponent.exp();
        }
    }
}
