//! The exact gradient through the unrolled iterations of one image, by one workgroup.
//!
//! As `Transport::unroll` has it, with what the forward kernel kept: after the row step of iteration
//! `t` the plan is `A_t`, after its column step `C_t`, `C_t[i, k] = A_{t+1}[i, k] exp(rows' mass)` and
//! `A_t[i, k] = C_t[i, k] exp(columns' mass)`. Every sum is thus the mean over one balanced line, times
//! its mass. A score is owed `kappa sum_k dL[i, k] (k - rank_i)`: what each row of L is owed sums to
//! 0, so the origin is free, and one near the plan loses least.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::forward::{COLUMN_MASS, HISTORY_VECTORS, POSITION_STEPS, ROW_MASS, TOKEN_STEPS};
use super::lines::{
    COORDINATE, LANES, OFFSET, POSITIONS, REFERENCE, TOKENS, lay_out, peak, rank, sums, untouched, wait,
};
use super::{Way, powers};

/// What the potentials of the tokens are owed: a lane forward uses otherwise.
const ROWS: usize = 4;
/// What the scores are owed.
const OWED: usize = 5;
/// What the potentials of the positions are owed.
const COLUMNS: usize = 10;
/// The gain of the positions.
const GAIN: usize = 11;

/// The cotangents of scores and gain, both `[B, N]`, from that of the token weights, `[B, N]`.
#[cube(launch)]
pub(super) fn backward_of_weights(
    scores: &[f32],
    gain: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    by_scores: &mut [f32],
    by_gain: &mut [f32],
    walked: &[f32],
    scratch: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] way: Way,
) {
    let image = CUBE_POS;
    let scores = &scores[image * n..(image + 1) * n];
    let cotangent = &cotangent[image * n..(image + 1) * n];
    let by_scores = &mut by_scores[image * n..(image + 1) * n];
    let by_gain = &mut by_gain[image * n..(image + 1) * n];
    let history = iterations * comptime!(HISTORY_VECTORS * n);
    let kept = &kept[image * history..(image + 1) * history];
    if comptime!(way == Way::Plain) {
        let lanes = comptime!(LANES * n);
        let work = &mut scratch[image * lanes..(image + 1) * lanes];
        walk(scores, gain, cotangent, kept, by_scores, by_gain, work, kappa, iterations, n, false);
    } else {
        let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * n));
        let mut walks = true.runtime();
        if comptime!(way.block() > 0) {
            walks = walked[image] > 0.0;
            sync_cube(); // Direct3D refuses to wait behind a branch on what threads read
            if !walks {
                let block = comptime!(way.block());
                powers::backward(
                    scores, gain, cotangent, kept, by_scores, by_gain, kappa, iterations, n, block,
                );
            }
        }
        if walks {
            walk(scores, gain, cotangent, kept, by_scores, by_gain, &mut work, kappa, iterations, n, true);
        }
    }
}

/// The cotangents of one image by walks.
#[cube]
fn walk(
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
    #[comptime] shared: bool,
) {
    lay_out(scores, work, kappa, n, shared);
    from_weights(scores, gain, cotangent, kept, by_gain, work, iterations, n, shared);
    unroll(scores, kept, by_scores, work, kappa, iterations, n, shared);
}

/// The cotangent of the scores `[B, N]` from the plans and theirs, `[B, N, N]`.
#[cube(launch)]
pub(super) fn backward_of_plans(
    scores: &[f32],
    plans: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    by_scores: &mut [f32],
    scratch: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let image = CUBE_POS;
    let scores = &scores[image * n..(image + 1) * n];
    let by_scores = &mut by_scores[image * n..(image + 1) * n];
    let square = comptime!(n * n);
    let plan = &plans[image * square..(image + 1) * square];
    let cotangent = &cotangent[image * square..(image + 1) * square];
    let history = iterations * comptime!(HISTORY_VECTORS * n);
    let kept = &kept[image * history..(image + 1) * history];
    if comptime!(shared) {
        let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * n));
        lay_out(scores, &mut work, kappa, n, shared);
        from_plan(scores, plan, cotangent, kept, &mut work, iterations, n, shared);
        unroll(scores, kept, by_scores, &mut work, kappa, iterations, n, shared);
    } else {
        let lanes = comptime!(LANES * n);
        let work = &mut scratch[image * lanes..(image + 1) * lanes];
        lay_out(scores, work, kappa, n, shared);
        from_plan(scores, plan, cotangent, kept, work, iterations, n, shared);
        unroll(scores, kept, by_scores, work, kappa, iterations, n, shared);
    }
}

/// What the last plan is owed through `P gain`; the cotangent of the gain itself.
#[cube]
fn from_weights(
    scores: &[f32],
    gain: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    by_gain: &mut [f32],
    work: &mut [f32],
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let last =
        &kept[(iterations - 1) * comptime!(HISTORY_VECTORS * n)..iterations * comptime!(HISTORY_VECTORS * n)];
    let mut j = UNIT_POS as usize;
    while j < n {
        recall(work, last, j, TOKEN_STEPS, TOKENS, n);
        recall(work, last, j, POSITION_STEPS, POSITIONS, n);
        work[comptime!(ROWS * n) + rank(scores, j, n)] = cotangent[j];
        work[comptime!(GAIN * n) + j] = gain[j];
        j += CUBE_DIM as usize;
    }
    wait(shared);
    j = UNIT_POS as usize;
    while j < n {
        let u = f32::cast_from(j);
        let sums = sums(&*work, peak(&*work, u, TOKENS, n), u, 0.0, TOKENS, ROWS, n);
        let owed = sums.weighted / sums.total;
        by_gain[j] = owed;
        work[comptime!(COLUMNS * n) + j] = owed * gain[j];
        j += CUBE_DIM as usize;
    }
    wait(shared);
    j = UNIT_POS as usize;
    while j < n {
        let u = work[comptime!((TOKENS + COORDINATE) * n) + j];
        let sums = sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(j), POSITIONS, GAIN, n);
        let share = work[comptime!(ROWS * n) + j] * last[comptime!(ROW_MASS * n) + j].exp() / sums.total;
        work[comptime!(ROWS * n) + j] = share * sums.weighted;
        work[comptime!(OWED * n) + j] = share * sums.moment;
        j += CUBE_DIM as usize;
    }
    wait(shared);
}

/// What the last plan is owed through its own cotangent.
#[cube]
fn from_plan(
    scores: &[f32],
    plan: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    work: &mut [f32],
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let last =
        &kept[(iterations - 1) * comptime!(HISTORY_VECTORS * n)..iterations * comptime!(HISTORY_VECTORS * n)];
    let mut j = UNIT_POS as usize;
    while j < n {
        recall(work, last, j, POSITION_STEPS, POSITIONS, n);
        let line = rank(scores, j, n);
        let mut row = 0.0f32;
        let mut column = 0.0f32;
        let mut owed = 0.0f32;
        for other in 0..n {
            let across = plan[j * n + other] * cotangent[j * n + other];
            row += across;
            owed += across * (f32::cast_from(other) - f32::cast_from(line));
            column += plan[other * n + j] * cotangent[other * n + j];
        }
        work[comptime!(ROWS * n) + line] = row;
        work[comptime!(OWED * n) + line] = owed;
        work[comptime!(COLUMNS * n) + j] = column;
        j += CUBE_DIM as usize;
    }
    wait(shared);
}

/// Runs what the last potentials are owed back through every iteration, and writes what that makes
/// the scores owed. The positions' steps after the last iteration must be laid out.
#[cube]
fn unroll(
    scores: &[f32],
    kept: &[f32],
    by_scores: &mut [f32],
    work: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    for back in 0..iterations {
        let t = iterations - 1 - back;
        let now = &kept[t * comptime!(HISTORY_VECTORS * n)..(t + 1) * comptime!(HISTORY_VECTORS * n)];
        let mut j = UNIT_POS as usize;
        while j < n {
            recall(work, now, j, TOKEN_STEPS, TOKENS, n); // no row reads them
            let u = work[comptime!((TOKENS + COORDINATE) * n) + j];
            let sums =
                sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(j), POSITIONS, COLUMNS, n);
            let mass = now[comptime!(ROW_MASS * n) + j].exp() / sums.total;
            let before = work[comptime!(ROWS * n) + j];
            let mut owed = work[comptime!(OWED * n) + j] - mass * sums.moment;
            let mut row = mass * sums.weighted;
            if back == 0 {
                row -= before;
            } else {
                owed += before * sums.index / sums.total;
            }
            work[comptime!(OWED * n) + j] = owed;
            work[comptime!(ROWS * n) + j] = row;
            j += CUBE_DIM as usize;
        }
        wait(shared);
        j = UNIT_POS as usize;
        while j < n {
            if t == 0 {
                untouched(work, j, n);
            } else {
                let earlier =
                    &kept[(t - 1) * comptime!(HISTORY_VECTORS * n)..t * comptime!(HISTORY_VECTORS * n)];
                recall(work, earlier, j, POSITION_STEPS, POSITIONS, n); // no column reads them
            }
            let u = f32::cast_from(j);
            let sums = sums(&*work, peak(&*work, u, TOKENS, n), u, 0.0, TOKENS, ROWS, n);
            work[comptime!(COLUMNS * n) + j] =
                now[comptime!(COLUMN_MASS * n) + j].exp() * sums.weighted / sums.total;
            j += CUBE_DIM as usize;
        }
        wait(shared);
    }
    let mut i = UNIT_POS as usize;
    while i < n {
        let line = rank(scores, i, n);
        let u = work[comptime!((TOKENS + COORDINATE) * n) + line];
        let sums =
            sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(line), POSITIONS, COLUMNS, n);
        let row = work[comptime!(ROWS * n) + line];
        by_scores[i] = kappa * (work[comptime!(OWED * n) + line] + row * sums.index / sums.total);
        i += CUBE_DIM as usize;
    }
}

/// Lays out step `j` of `side` again, kept in `slot` and the next.
#[cube]
fn recall(
    work: &mut [f32],
    kept: &[f32],
    j: usize,
    #[comptime] slot: usize,
    #[comptime] side: usize,
    #[comptime] n: usize,
) {
    work[comptime!((side + REFERENCE) * n) + j] = kept[comptime!(slot * n) + j];
    work[comptime!((side + OFFSET) * n) + j] = kept[comptime!((slot + 1) * n) + j];
}
