//! The exact gradient through the unrolled iterations of one image, by one workgroup.
//!
//! The same recursion as `Transport::unroll`, on what the forward kernel kept: after the row half of iteration `t` the plan is
//! `A_t`, after its column half `C_t`, `C_t[i, k] = A_{t+1}[i, k] exp(rows' mass)` and `A_t[i, k] = C_t[i, k] exp(columns' mass)`.
//! So every sum is the mean over one normalised line, times its mass. The gradient of a score is `kappa sum_k dL[i, k] (k -
//! rank_i)`: each row of `dL` sums to 0, so any origin is right, and one near the plan's mean loses fewest digits.

use super::forward::{COLUMN_MASS, HISTORY_VECTORS, POSITION_STEPS, ROW_MASS, TOKEN_STEPS};
use super::lines::{
    COORDINATE, LANES, OFFSET, POSITIONS, REFERENCE, TOKENS, barrier, init_lines, initial_step, peak, rank,
    sums,
};
use super::{Method, powers};
use crate::model::ops::gpu::prelude::*;

/// Vectors of the working memory that the forward pass uses otherwise. Gradient of the tokens' potentials.
const GRAD_ROWS: usize = 4;
/// Gradient of the scores.
const GRAD_SCORES: usize = 5;
/// Gradient of the positions' potentials.
const GRAD_COLUMNS: usize = 10;
/// The gain of the positions.
const GAIN: usize = 11;

/// One image, the cotangent of its output, and what the forward pass kept of it.
#[derive(CubeType)]
pub(super) struct Image<'a> {
    pub scores: &'a [f32],
    /// Of its token weights `[N]` or of its plan `[N, N]`.
    pub cotangent: &'a [f32],
    /// `[iterations, HISTORY_VECTORS, N]`.
    pub kept: &'a [f32],
    pub kappa: f32,
    pub iterations: usize,
}

#[cube]
impl<'a> Image<'a> {
    /// That of this workgroup, with a cotangent of `size` numbers, in buffers of a batch.
    fn own(
        scores: &'a [f32],
        cotangent: &'a [f32],
        kept: &'a [f32],
        kappa: f32,
        iterations: usize,
        #[comptime] n: usize,
        #[comptime] size: usize,
    ) -> Image<'a> {
        let history = iterations * comptime!(HISTORY_VECTORS * n);
        Image::<'a> {
            scores: &scores[CUBE_POS * n..(CUBE_POS + 1) * n],
            cotangent: &cotangent[CUBE_POS * size..(CUBE_POS + 1) * size],
            kept: &kept[CUBE_POS * history..(CUBE_POS + 1) * history],
            kappa,
            iterations,
        }
    }

    /// What was kept of iteration `t`.
    fn kept_of(&self, t: usize, #[comptime] n: usize) -> &'a [f32] {
        &self.kept[t * comptime!(HISTORY_VECTORS * n)..(t + 1) * comptime!(HISTORY_VECTORS * n)]
    }
}

/// The cotangents of scores and gain, both `[B, N]`, from that of the token weights, `[B, N]`.
#[cube(launch)]
pub(super) fn backward_of_weights(
    scores: &[f32],
    gain: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    grad_scores: &mut [f32],
    grad_gain: &mut [f32],
    walked: &[f32],
    scratch: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] method: Method,
) {
    let at = CUBE_POS;
    let image = Image::own(scores, cotangent, kept, kappa, iterations, n, n);
    let grad_scores = &mut grad_scores[at * n..(at + 1) * n];
    let grad_gain = &mut grad_gain[at * n..(at + 1) * n];
    if comptime!(method == Method::WalkGlobal) {
        let lanes = comptime!(LANES * n);
        let work = &mut scratch[at * lanes..(at + 1) * lanes];
        walk(&image, gain, grad_scores, grad_gain, work, n, false);
    } else {
        let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * n));
        let mut walks = true.runtime();
        if comptime!(method.block() > 0) {
            walks = walked[at] > 0.0;
            sync_cube(); // Direct3D refuses to wait behind a branch on what threads read
            if !walks {
                powers::backward(&image, gain, grad_scores, grad_gain, n, comptime!(method.block()));
            }
        }
        if walks {
            walk(&image, gain, grad_scores, grad_gain, &mut work, n, true);
        }
    }
}

/// The cotangents of one image by walks.
#[cube]
fn walk(
    image: &Image,
    gain: &[f32],
    grad_scores: &mut [f32],
    grad_gain: &mut [f32],
    work: &mut [f32],
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    init_lines(image.scores, work, image.kappa, n, shared);
    from_weights(image, gain, grad_gain, work, n, shared);
    unroll(image, grad_scores, work, n, shared);
}

/// The cotangent of the scores `[B, N]` from the plans and theirs, `[B, N, N]`.
#[cube(launch)]
pub(super) fn backward_of_plans(
    scores: &[f32],
    plans: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    grad_scores: &mut [f32],
    scratch: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let at = CUBE_POS;
    let square = comptime!(n * n);
    let image = Image::own(scores, cotangent, kept, kappa, iterations, n, square);
    let grad_scores = &mut grad_scores[at * n..(at + 1) * n];
    let plan = &plans[at * square..(at + 1) * square];
    if comptime!(shared) {
        let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * n));
        init_lines(image.scores, &mut work, kappa, n, shared);
        from_plan(&image, plan, &mut work, n, shared);
        unroll(&image, grad_scores, &mut work, n, shared);
    } else {
        let lanes = comptime!(LANES * n);
        let work = &mut scratch[at * lanes..(at + 1) * lanes];
        init_lines(image.scores, work, kappa, n, shared);
        from_plan(&image, plan, work, n, shared);
        unroll(&image, grad_scores, work, n, shared);
    }
}

/// Gradients of the last plan's potentials through `P gain`, and that of the gain.
#[cube]
fn from_weights(
    image: &Image,
    gain: &[f32],
    grad_gain: &mut [f32],
    work: &mut [f32],
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    let last = image.kept_of(image.iterations - 1, n);
    for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        restore_step(work, last, j, TOKEN_STEPS, TOKENS, n);
        restore_step(work, last, j, POSITION_STEPS, POSITIONS, n);
        work[comptime!(GRAD_ROWS * n) + rank(image.scores, j, n)] = image.cotangent[j];
        work[comptime!(GAIN * n) + j] = gain[j];
    }
    barrier(shared);
    for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let u = f32::cast_from(j);
        let sums = sums(&*work, peak(&*work, u, TOKENS, n), u, 0.0, TOKENS, GRAD_ROWS, n);
        let grad = sums.weighted / sums.total;
        grad_gain[j] = grad;
        work[comptime!(GRAD_COLUMNS * n) + j] = grad * gain[j];
    }
    barrier(shared);
    for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let u = work[comptime!((TOKENS + COORDINATE) * n) + j];
        let sums = sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(j), POSITIONS, GAIN, n);
        let share = work[comptime!(GRAD_ROWS * n) + j] * last[comptime!(ROW_MASS * n) + j].exp() / sums.total;
        work[comptime!(GRAD_ROWS * n) + j] = share * sums.weighted;
        work[comptime!(GRAD_SCORES * n) + j] = share * sums.moment;
    }
    barrier(shared);
}

/// Gradients of the last plan's potentials from its own cotangent.
#[cube]
fn from_plan(image: &Image, plan: &[f32], work: &mut [f32], #[comptime] n: usize, #[comptime] shared: bool) {
    let last = image.kept_of(image.iterations - 1, n);
    for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        restore_step(work, last, j, POSITION_STEPS, POSITIONS, n);
        let line = rank(image.scores, j, n);
        let mut row = 0.0f32;
        let mut column = 0.0f32;
        let mut grad_score = 0.0f32;
        for other in 0..n {
            let across = plan[j * n + other] * image.cotangent[j * n + other];
            row += across;
            grad_score += across * (f32::cast_from(other) - f32::cast_from(line));
            column += plan[other * n + j] * image.cotangent[other * n + j];
        }
        work[comptime!(GRAD_ROWS * n) + line] = row;
        work[comptime!(GRAD_SCORES * n) + line] = grad_score;
        work[comptime!(GRAD_COLUMNS * n) + j] = column;
    }
    barrier(shared);
}

/// Carries the gradients of the last potentials back through every iteration and writes those of the scores. The positions' steps
/// after the last iteration must be in the working memory.
#[cube]
fn unroll(
    image: &Image,
    grad_scores: &mut [f32],
    work: &mut [f32],
    #[comptime] n: usize,
    #[comptime] shared: bool,
) {
    for back in 0..image.iterations {
        let t = image.iterations - 1 - back;
        let now = image.kept_of(t, n);
        for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
            restore_step(work, now, j, TOKEN_STEPS, TOKENS, n); // no row reads them
            let u = work[comptime!((TOKENS + COORDINATE) * n) + j];
            let sums =
                sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(j), POSITIONS, GRAD_COLUMNS, n);
            let mass = now[comptime!(ROW_MASS * n) + j].exp() / sums.total;
            let before = work[comptime!(GRAD_ROWS * n) + j];
            let mut grad_score = work[comptime!(GRAD_SCORES * n) + j] - mass * sums.moment;
            let mut row = mass * sums.weighted;
            if back == 0 {
                row -= before;
            } else {
                grad_score += before * sums.index / sums.total;
            }
            work[comptime!(GRAD_SCORES * n) + j] = grad_score;
            work[comptime!(GRAD_ROWS * n) + j] = row;
        }
        barrier(shared);
        for j in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
            if t == 0 {
                initial_step(work, j, n);
            } else {
                restore_step(work, image.kept_of(t - 1, n), j, POSITION_STEPS, POSITIONS, n); // no column reads them
            }
            let u = f32::cast_from(j);
            let sums = sums(&*work, peak(&*work, u, TOKENS, n), u, 0.0, TOKENS, GRAD_ROWS, n);
            work[comptime!(GRAD_COLUMNS * n) + j] =
                now[comptime!(COLUMN_MASS * n) + j].exp() * sums.weighted / sums.total;
        }
        barrier(shared);
    }
    for i in range_stepped(UNIT_POS as usize, n, CUBE_DIM as usize) {
        let line = rank(image.scores, i, n);
        let u = work[comptime!((TOKENS + COORDINATE) * n) + line];
        let sums =
            sums(&*work, peak(&*work, u, POSITIONS, n), u, f32::cast_from(line), POSITIONS, GRAD_COLUMNS, n);
        let row = work[comptime!(GRAD_ROWS * n) + line];
        grad_scores[i] =
            image.kappa * (work[comptime!(GRAD_SCORES * n) + line] + row * sums.index / sums.total);
    }
}

/// Puts step `j` of `side` back into the working memory, from vectors `slot` and `slot + 1` of `kept`.
#[cube]
fn restore_step(
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
