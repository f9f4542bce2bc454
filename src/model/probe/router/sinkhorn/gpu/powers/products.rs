//! Products of the kernel with one number for each position, or for each token.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::super::fours::{Four, WIDE, read};

/// Consecutive powers of a token, four for each of the threads that share it.
const STEPS: usize = WIDE * WIDE;
/// A step that is 1: the middle one, so that none is far from it.
pub(super) const MIDDLE: f32 = 8.0;
/// What threads that share tokens tell each other: of row sums, and of moments.
pub(super) const SUMS: usize = 0;
/// See [`SUMS`].
pub(super) const MOMENTS: usize = 1;

/// Strides of [`STEPS`] positions.
pub const fn stride_count(n: usize) -> usize {
    n.div_ceil(STEPS)
}

/// Threads: one for each token, and some to spare.
const fn units(n: usize) -> usize {
    n.next_multiple_of(32)
}

/// Fours of tokens, with those to spare.
const fn quads(n: usize) -> usize {
    units(n) / WIDE
}

/// From what a quad adds to the columns of a `block` of strides to the next one's: odd times four fours, so that threads side by side
/// write to different banks.
const fn pitch(block: usize) -> usize {
    (block | 1) * WIDE
}

/// Numbers of working memory for an image, of those that lie in fours, if columns are added up a `block` of strides at a time.
pub const fn room(n: usize, block: usize) -> usize {
    (3 * units(n) + stride_count(n) * (WIDE + quads(n)) + quads(n) * pitch(block)) * WIDE
}

/// The powers of this thread's tokens, and where threads share what they have.
#[derive(CubeType)]
pub(super) struct Powers {
    /// `exp(x (b - 8))` of each token, of this thread's steps.
    steps: Array<Four>,
    /// `exp(x (16 a + 8 - h) - m)` of all tokens, `[A, quads]`.
    strides: Shared<[Four]>,
    /// What row sums weigh positions with, `[A, 4]`.
    coefficients: Shared<[Four]>,
    /// What each thread has of its tokens' rows, `[2, units]`.
    of_rows: Shared<[Four]>,
    /// What each quad adds to the columns of a block, `[quads, pitch]`.
    of_quads: Shared<[Four]>,
    /// What some quads come to in four columns, a thread each.
    of_columns: Shared<[Four]>,
    #[cube(comptime)]
    n: usize,
    #[cube(comptime)]
    block: usize,
}

/// A thread's share of the sums of `c_k K[i, k]` and of `c_k K[i, k] (k - h)`, of each of its tokens.
#[derive(CubeType)]
pub(super) struct Rows {
    pub sums: Four,
    pub moments: Four,
}

#[cube]
impl Powers {
    /// Of the tokens of an image; they are there once the workgroup has waited.
    pub fn new(scores: &[f32], kappa: f32, #[comptime] n: usize, #[comptime] block: usize) -> Powers {
        let unit = UNIT_POS as usize;
        let (quad, own) = (unit / WIDE, unit % WIDE);
        let scores = read(scores, quad, n);
        let x = scores * Four::new(kappa);
        let last = comptime!((n - 1) as f32);
        let mut top_exponent = Four::empty();
        let mut times = Four::empty();
        #[unroll]
        for lane in 0..WIDE {
            let top = clamp(scores.extract(lane) * last, 0.0, last);
            let beside = kappa * top * top * comptime!(0.5 / (n - 1) as f32);
            top_exponent.insert(lane, x.extract(lane) * (top - comptime!((n / 2) as f32)) - beside);
            times.insert(lane, f32::cast_from(own * WIDE + lane) - MIDDLE);
        }
        let mut steps = Array::<Four>::new(WIDE);
        #[unroll]
        for token in 0..WIDE {
            steps[token] = power(Four::new(x.extract(token)), times, Four::new(0.0));
        }
        let count = comptime!(stride_count(n));
        let mut strides = Shared::<[Four]>::new_slice(comptime!(count * quads(n)));
        #[unroll]
        for nth in 0..comptime!(count.div_ceil(WIDE)) {
            let a = comptime!(nth * WIDE) + own;
            if a < count {
                let along = f32::cast_from(a * STEPS) + comptime!(MIDDLE - (n / 2) as f32);
                strides[a * comptime!(quads(n)) + quad] = power(x, Four::new(along), top_exponent);
            }
        }
        let coefficients = Shared::<[Four]>::new_slice(comptime!(count * WIDE));
        let of_rows = Shared::<[Four]>::new_slice(comptime!(2 * units(n)));
        let of_quads = Shared::<[Four]>::new_slice(comptime!(quads(n) * pitch(block)));
        let of_columns = Shared::<[Four]>::new_slice(comptime!(units(n)));
        Powers { steps, strides, coefficients, of_rows, of_quads, of_columns, n, block }
    }

    /// Stride `a` of this thread's tokens.
    fn stride(&self, #[comptime] a: usize) -> Four {
        let n = comptime!(self.n);
        self.strides[comptime!(a * quads(n)) + UNIT_POS as usize / WIDE]
    }

    /// Whether this thread has positions.
    pub fn has_positions(&self) -> bool {
        let n = comptime!(self.n);
        UNIT_POS < comptime!((stride_count(n) * WIDE) as u32)
    }

    /// Lays out what row sums weigh this thread's positions with; it is there once the workgroup has waited.
    pub fn lay_out(&mut self, values: Four) {
        if self.has_positions() {
            self.coefficients[UNIT_POS as usize] = values;
        }
    }

    /// This thread's share of its tokens' rows, `moments` or not.
    pub fn rows(&self, #[comptime] moments: bool) -> Rows {
        let n = comptime!(self.n);
        let own = UNIT_POS as usize % WIDE;
        let mut rows = Rows { sums: Four::new(0.0), moments: Four::new(0.0) };
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            let weights = self.coefficients[comptime!(a * WIDE) + own];
            let strides = self.stride(a);
            let mut sums = Four::empty();
            let mut beyond = Four::empty();
            #[unroll]
            for token in 0..WIDE {
                // From the last of four to the first, so that what lies beyond each is a sum that is there: they make the moment.
                let steps = self.steps[token];
                let third = weights.extract(3usize) * steps.extract(3usize);
                let second = third + weights.extract(2usize) * steps.extract(2usize);
                let first = second + weights.extract(1usize) * steps.extract(1usize);
                sums.insert(token, first + weights.extract(0usize) * steps.extract(0usize));
                beyond.insert(token, first + second + third);
            }
            rows.sums += strides * sums;
            if comptime!(moments) {
                let origin = comptime!((STEPS * a) as f32 - (n / 2) as f32);
                rows.moments += strides * (beyond + Four::new(origin) * sums);
            }
        }
        if comptime!(moments) {
            rows.moments += Four::new(f32::cast_from(own * WIDE)) * rows.sums;
        }
        rows
    }

    /// Tells the threads that share its tokens what this one has of them; they know once the workgroup has waited.
    pub fn tell(&mut self, share: Four, #[comptime] what: usize) {
        let n = comptime!(self.n);
        self.of_rows[comptime!(what * units(n)) + UNIT_POS as usize] = share;
    }

    /// What those threads have together.
    pub fn told(&self, #[comptime] what: usize) -> Four {
        let n = comptime!(self.n);
        let first = comptime!(what * units(n)) + UNIT_POS as usize / WIDE * WIDE;
        let halves = self.of_rows[first] + self.of_rows[first + 1];
        halves + (self.of_rows[first + 2] + self.of_rows[first + 3])
    }

    /// `sum_i K[i, k] term_i` of this thread's positions, given its tokens' terms. All threads of the workgroup call it.
    pub fn columns(&mut self, terms: Four) -> Four {
        let n = comptime!(self.n);
        let block = comptime!(self.block);
        let count = comptime!(stride_count(n));
        let unit = UNIT_POS as usize;
        let mut steps = Array::<Four>::new(WIDE);
        #[unroll]
        for token in 0..WIDE {
            steps[token] = self.steps[token] * Four::new(terms.extract(token));
        }
        let mut columns = Four::new(0.0);
        #[unroll]
        for nth in 0..comptime!(count.div_ceil(block)) {
            let first = comptime!(nth * block);
            let some = comptime!(if count - first < block { count - first } else { block });
            #[unroll]
            for at in 0..some {
                let strides = self.stride(comptime!(first + at));
                let mut sum = Four::new(0.0);
                #[unroll]
                for token in 0..WIDE {
                    sum += steps[token] * Four::new(strides.extract(token));
                }
                self.of_quads[unit / WIDE * comptime!(pitch(block)) + comptime!(at * WIDE) + unit % WIDE] =
                    sum;
            }
            sync_cube();
            let fours = comptime!(some * WIDE);
            let groups = comptime!(units(n) / fours);
            let (group, four) = (unit / fours, unit % fours);
            if group < groups {
                let mut share = Four::new(0.0);
                #[unroll]
                for round in 0..comptime!(quads(n).div_ceil(groups)) {
                    let quad = comptime!(round * groups) + group;
                    let all_have_one = comptime!((round + 1) * groups <= quads(n)).runtime();
                    if all_have_one || quad < comptime!(quads(n)) {
                        share += self.of_quads[quad * comptime!(pitch(block)) + four];
                    }
                }
                self.of_columns[unit] = share;
            }
            sync_cube();
            if unit >= comptime!(first * WIDE) && unit < comptime!(first * WIDE + fours) {
                let own = unit - comptime!(first * WIDE);
                #[unroll]
                for group in 0..groups {
                    columns += self.of_columns[comptime!(group * fours) + own];
                }
            }
        }
        // Beyond the last position powers may be more than float32 holds.
        let mut there = Four::new(0.0);
        #[unroll]
        for lane in 0..WIDE {
            there.insert(lane, select(unit * WIDE + lane < n, columns.extract(lane), 0.0f32));
        }
        there
    }
}

/// `exp(x times - most)`, with the digits that the product loses.
#[cube]
fn power(x: Four, times: Four, most: Four) -> Four {
    let exponent = x * times;
    let power = (exponent - most).exp();
    fma(power, fma(x, times, -exponent), power)
}
