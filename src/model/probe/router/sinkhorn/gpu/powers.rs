//! The iterations of one image by one workgroup where float32 holds the kernel itself: `K[i, k] = r_i^(k - h)`, `r_i = exp(x_i)`,
//! `x_i = kappa s_i`, `h` the middle, as on the processor (`linear.rs`). One multiply-add an entry, where a
//! [walk](super::lines) has an exponential and what leads to it.
//!
//! With `k = 16 a + b` an entry is a [stride](stride) `r_i^(16 a - h)` times a step `r_i^b`. A thread is a token and a
//! position. A row's sum is made of the thread's own powers, in registers, and the positions' scalings; a column's of the tokens'
//! strides times their scalings, and their steps, both in the workgroup's memory.
//!
//! It cannot go wrong unseen: all terms are positive, and every scaling is looked at. Where one is not [`safe`] the image is walked.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::forward::HISTORY_VECTORS;

/// Consecutive powers of a token, `r^b`.
const STEPS: usize = 16;
/// Tokens of a column's sum that are asked for at once; tokens are padded to a multiple of it, with nothing.
const AT_ONCE: usize = 8;
/// The largest `|x_i| h`: `r^(k - h)` within 1e-26 ... 1e26.
const ACROSS: f32 = 60.0;
/// What a scaling must lie within.
const SAFE: (f32, f32) = (1e-20, 1e20);

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

/// Tokens, padded.
const fn rows(n: usize) -> usize {
    n.next_multiple_of(AT_ONCE)
}

/// Where the strides times a term, `[rows, pitch]`, begin, behind the steps, `[rows, STEPS]`.
const fn terms(n: usize) -> usize {
    rows(n) * STEPS
}

/// Where what row sums weigh positions with begins, `[2, STEPS strides]`, zeros behind the N.
const fn coefficients(n: usize) -> usize {
    terms(n) + rows(n) * pitch(n)
}

/// Where it stands whether a scaling was not safe.
const fn flag(n: usize) -> usize {
    coefficients(n) + 2 * STEPS * stride_count(n)
}

/// Numbers of working memory for an image.
pub(super) const fn room(n: usize) -> usize {
    flag(n) + 1
}

/// The powers of this thread's token.
#[derive(CubeType)]
struct Powers {
    /// `r^b`.
    steps: Array<f32>,
    /// `r^(16 a - h)`.
    strides: Array<f32>,
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
        let x = kappa * scores[usize::min(unit, comptime!(n - 1))];
        let mut steps = Array::<f32>::new(STEPS);
        #[unroll]
        for b in 0..STEPS {
            steps[b] = (x * comptime!(b as f32)).exp();
        }
        let mut strides = Array::<f32>::new(comptime!(stride_count(n)));
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            strides[a] = stride(x, comptime!((STEPS * a) as f32 - (n / 2) as f32));
        }
        if unit < comptime!(rows(n)) {
            #[unroll]
            for b in 0..STEPS {
                work[unit * STEPS + b] = steps[b];
            }
        }
        if unit < comptime!(STEPS * stride_count(n)) {
            work[comptime!(coefficients(n)) + unit] = 0.0;
            work[comptime!(coefficients(n) + STEPS * stride_count(n)) + unit] = 0.0;
        }
        if unit == 0 {
            work[comptime!(flag(n))] = 0.0;
        }
        sync_cube();
        let reach = comptime!(if n / 2 < STEPS { STEPS as f32 } else { (n / 2) as f32 });
        check(work, x.abs() * reach <= ACROSS, n);
        Powers { steps, strides, n }
    }

    /// This thread's row with one of the two vectors of coefficients.
    fn row(&self, work: &[f32], #[comptime] which: usize) -> Row {
        let n = comptime!(self.n);
        let mut row = Row { sum: 0.0f32, moment: 0.0f32 };
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            let mut sum = 0.0f32;
            let mut moment = 0.0f32;
            #[unroll]
            for b in 0..STEPS {
                let term = work[comptime!(coefficients(n) + (which * stride_count(n) + a) * STEPS + b)]
                    * self.steps[b];
                sum += term;
                moment += term * comptime!(b as f32);
            }
            row.sum += self.strides[a] * sum;
            let origin = comptime!((STEPS * a) as f32 - (n / 2) as f32);
            row.moment += self.strides[a] * (moment + origin * sum);
        }
        row
    }

    /// `sum_i K[i, k] term_i` of this thread's position, given its token's term. All threads of the workgroup call it.
    fn column(&self, work: &mut [f32], term: f32) -> f32 {
        let n = comptime!(self.n);
        let unit = UNIT_POS as usize;
        let term = select(unit < n, term, 0.0f32);
        if unit < comptime!(rows(n)) {
            #[unroll]
            for a in 0..comptime!(stride_count(n)) {
                work[comptime!(terms(n) + a) + unit * comptime!(pitch(n))] = self.strides[a] * term;
            }
        }
        sync_cube();
        let (a, b) = (usize::min(unit, comptime!(n - 1)) / STEPS, unit % STEPS);
        let mut sum = 0.0f32;
        let mut i = 0usize;
        while i < comptime!(rows(n)) {
            #[unroll]
            for ahead in 0..AT_ONCE {
                let stride = work[comptime!(terms(n)) + (i + ahead) * comptime!(pitch(n)) + a];
                sum += stride * work[(i + ahead) * STEPS + b];
            }
            i += AT_ONCE;
        }
        sync_cube();
        sum
    }
}

/// `exp(x times)`, with the digits that the product loses.
#[cube]
fn stride(x: f32, times: f32) -> f32 {
    let exponent = x * times;
    let power = exponent.exp();
    fma(power, fma(x, times, -exponent), power)
}

/// Notes where something is not as it must be, of this thread's token or position.
#[cube]
fn check(work: &mut [f32], holds: bool, #[comptime] n: usize) {
    if UNIT_POS < comptime!(n as u32) && !holds {
        work[comptime!(flag(n))] = 1.0;
    }
}

/// The scaling that makes a sum 1.
#[cube]
fn scaling(work: &mut [f32], sum: f32, #[comptime] n: usize) -> f32 {
    let scale = 1.0 / sum;
    check(work, scale > SAFE.0 && scale < SAFE.1, n);
    scale
}

/// The scaling of this thread's position to begin with.
#[cube]
fn start(kappa: f32, #[comptime] n: usize) -> f32 {
    let k = f32::cast_from(UNIT_POS);
    (-kappa * k * k * comptime!(0.5 / (n - 1) as f32)).exp()
}

/// Lays out what row sums weigh this thread's position with.
#[cube]
fn lay_out(work: &mut [f32], value: f32, #[comptime] which: usize, #[comptime] n: usize) {
    if UNIT_POS < comptime!(n as u32) {
        work[comptime!(coefficients(n) + which * STEPS * stride_count(n)) + UNIT_POS as usize] = value;
    }
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
    let powers = Powers::new(scores, work, kappa, n);
    let mut row = 0.0f32;
    let mut column = start(kappa, n);
    for t in 0..iterations {
        lay_out(work, column, FIRST, n);
        sync_cube();
        let sum = powers.row(&*work, FIRST).sum;
        row = scaling(work, sum, n);
        let sum = powers.column(work, row);
        column = scaling(work, sum, n);
        if comptime!(keep) && unit < n {
            kept[t * comptime!(HISTORY_VECTORS * n) + comptime!(ROW_SCALES * n) + unit] = row;
            kept[t * comptime!(HISTORY_VECTORS * n) + comptime!(COLUMN_SCALES * n) + unit] = column;
        }
    }
    lay_out(work, column * gain[usize::min(unit, comptime!(n - 1))], FIRST, n);
    sync_cube();
    if unit < n {
        output[unit] = row * powers.row(&*work, FIRST).sum;
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
    let powers = Powers::new(scores, work, kappa, n);
    let last = (iterations - 1) * comptime!(HISTORY_VECTORS * n);
    let mut row = kept[last + comptime!(ROW_SCALES * n) + own];
    let mut after = kept[last + comptime!(COLUMN_SCALES * n) + own];
    let by_weight = cotangent[own];
    lay_out(work, after * gain[own], FIRST, n);
    lay_out(work, after, SECOND, n);
    let owed = after * powers.column(work, row * by_weight);
    let weighed = powers.row(&*work, FIRST);
    let plain = powers.row(&*work, SECOND);
    let middle = plain.moment / plain.sum;
    let mut by_score = by_weight * row * (weighed.moment - middle * weighed.sum);
    let mut by_row = by_weight * row * weighed.sum;
    let mut by_column = gain[own] * owed;
    if unit < n {
        by_gain[unit] = owed;
    }
    sync_cube();
    for back in 0..iterations {
        let t = iterations - 1 - back;
        let mut before = start(kappa, n);
        if t > 0 {
            before = kept[(t - 1) * comptime!(HISTORY_VECTORS * n) + comptime!(COLUMN_SCALES * n) + own];
        }
        lay_out(work, after * by_column, FIRST, n);
        lay_out(work, before, SECOND, n);
        sync_cube();
        let balanced = powers.row(&*work, FIRST);
        let earlier = powers.row(&*work, SECOND);
        by_score -= row * (balanced.moment - middle * balanced.sum);
        by_row = row * balanced.sum - by_row; // with its sign turned
        by_score += by_row * row * (earlier.moment - middle * earlier.sum);
        by_column = before * powers.column(work, row * by_row);
        by_row = 0.0;
        after = before;
        if t > 0 {
            row = kept[(t - 1) * comptime!(HISTORY_VECTORS * n) + comptime!(ROW_SCALES * n) + own];
        }
    }
    if unit < n {
        by_scores[unit] = kappa * by_score;
    }
}
