//! Products of the kernel with one number for each position, or for each token.

use super::super::vec4::read;
use crate::model::ops::gpu::prelude::*;

/// Consecutive powers of a token, four for each of the threads that share it.
const STEPS: usize = VECTOR_SIZE * VECTOR_SIZE;
/// The step that is 1: the middle one, so that none is far from it.
pub(super) const MIDDLE: f32 = 8.0;
/// Slots for the partial sums of threads that share tokens: of rows.
pub(super) const SUMS: usize = 0;
/// Of moments.
pub(super) const MOMENTS: usize = 1;

/// Strides of [`STEPS`] positions.
pub const fn stride_count(n: usize) -> usize {
    n.div_ceil(STEPS)
}

/// Threads: one for each token, rounded up to whole subgroups.
const fn units(n: usize) -> usize {
    n.next_multiple_of(32)
}

/// Quads, the four threads that share four tokens; threads beyond the last have none.
const fn quads(n: usize) -> usize {
    n.div_ceil(VECTOR_SIZE)
}

/// [`Vec4`]s of strides: those of all quads, and what threads without tokens read beyond them and never use.
const fn stride_room(n: usize) -> usize {
    stride_count(n) * quads(n) + units(n) / VECTOR_SIZE - quads(n)
}

/// From a quad's partial sums of the columns of a `block` of strides to the next quad's: an odd multiple of four, so that neighbouring
/// threads write to different banks.
const fn pitch(block: usize) -> usize {
    (block | 1) * VECTOR_SIZE
}

/// Floats of shared memory for an image whose columns are added up in blocks of `block` strides.
pub const fn room(n: usize, block: usize) -> usize {
    (2 * units(n) + stride_count(n) * VECTOR_SIZE + stride_room(n) + quads(n) * pitch(block)) * VECTOR_SIZE
}

/// The powers of this thread's tokens, and the shared memory of the workgroup's products.
#[derive(CubeType)]
pub(super) struct Powers {
    /// `exp(x (b - 8))` for each token and this thread's four steps.
    steps: Array<Vec4>,
    /// `exp(x (16 a + 8 - h) - m)` of all tokens, `[A, quads]` and some room ([`stride_room`]).
    strides: Shared<[Vec4]>,
    /// The coefficient of each position in row sums, `[A, 4]`.
    coefficients: Shared<[Vec4]>,
    /// Each thread's partial sums, `[2, units]`: of its tokens' rows, in slots [`SUMS`] and [`MOMENTS`]; of four columns over some quads, in the first.
    partials: Shared<[Vec4]>,
    /// Each quad's partial sums of the columns of a block, `[quads, pitch]`.
    quad_partials: Shared<[Vec4]>,
    #[cube(comptime)]
    n: usize,
    #[cube(comptime)]
    block: usize,
}

/// A thread's partial sums of `c_k K[i, k]` and of `c_k K[i, k] (k - h)`, for each of its tokens.
#[derive(CubeType)]
pub(super) struct Rows {
    pub sums: Vec4,
    pub moments: Vec4,
}

#[cube]
impl Powers {
    /// The powers of an image's tokens. Strides can be read after the next `sync_cube`.
    pub fn new(scores: &[f32], kappa: f32, #[comptime] n: usize, #[comptime] block: usize) -> Powers {
        let unit = UNIT_POS as usize;
        let (quad, own) = (unit / VECTOR_SIZE, unit % VECTOR_SIZE);
        let scores = read(scores, quad, n);
        let x = scores * Vec4::new(kappa);
        let last = comptime!((n - 1) as f32);
        let mut top_exponent = Vec4::empty();
        let mut times = Vec4::empty();
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            let top = clamp(scores.extract(lane) * last, 0.0, last);
            let beside = kappa * top * top * comptime!(0.5 / (n - 1) as f32);
            top_exponent.insert(lane, x.extract(lane) * (top - comptime!((n / 2) as f32)) - beside);
            times.insert(lane, f32::cast_from(own * VECTOR_SIZE + lane) - MIDDLE);
        }
        let mut steps = Array::<Vec4>::new(VECTOR_SIZE);
        #[unroll]
        for token in 0..VECTOR_SIZE {
            steps[token] = power(Vec4::new(x.extract(token)), times, Vec4::new(0.0));
        }
        let count = comptime!(stride_count(n));
        let mut strides = Shared::<[Vec4]>::new_slice(comptime!(stride_room(n)));
        #[unroll]
        for nth in 0..comptime!(count.div_ceil(VECTOR_SIZE)) {
            let a = comptime!(nth * VECTOR_SIZE) + own;
            if a < count && quad < comptime!(quads(n)) {
                let along = f32::cast_from(a * STEPS) + comptime!(MIDDLE - (n / 2) as f32);
                strides[a * comptime!(quads(n)) + quad] = power(x, Vec4::new(along), top_exponent);
            }
        }
        let coefficients = Shared::<[Vec4]>::new_slice(comptime!(count * VECTOR_SIZE));
        let partials = Shared::<[Vec4]>::new_slice(comptime!(2 * units(n)));
        let quad_partials = Shared::<[Vec4]>::new_slice(comptime!(quads(n) * pitch(block)));
        Powers { steps, strides, coefficients, partials, quad_partials, n, block }
    }

    /// Stride `a` of this thread's tokens.
    fn stride(&self, #[comptime] a: usize) -> Vec4 {
        let n = comptime!(self.n);
        self.strides[comptime!(a * quads(n)) + UNIT_POS as usize / VECTOR_SIZE]
    }

    /// Whether this thread has positions.
    pub fn has_positions(&self) -> bool {
        let n = comptime!(self.n);
        UNIT_POS < comptime!((stride_count(n) * VECTOR_SIZE) as u32)
    }

    /// Sets the coefficients of this thread's positions in row sums. They can be read after the next `sync_cube`.
    pub fn set_coefficients(&mut self, values: Vec4) {
        if self.has_positions() {
            self.coefficients[UNIT_POS as usize] = values;
        }
    }

    /// This thread's partial sums of its tokens' rows, with `moments` or without.
    pub fn rows(&self, #[comptime] moments: bool) -> Rows {
        let n = comptime!(self.n);
        let own = UNIT_POS as usize % VECTOR_SIZE;
        let mut rows = Rows { sums: Vec4::new(0.0), moments: Vec4::new(0.0) };
        #[unroll]
        for a in 0..comptime!(stride_count(n)) {
            let weights = self.coefficients[comptime!(a * VECTOR_SIZE) + own];
            let strides = self.stride(a);
            let mut sums = Vec4::empty();
            let mut beyond = Vec4::empty();
            #[unroll]
            for token in 0..VECTOR_SIZE {
                // From the last of four to the first: the sums on the way, `first + second + third`, are the moment.
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
                rows.moments += strides * (beyond + Vec4::new(origin) * sums);
            }
        }
        if comptime!(moments) {
            rows.moments += Vec4::new(f32::cast_from(own * VECTOR_SIZE)) * rows.sums;
        }
        rows
    }

    /// Writes this thread's partial sum to a slot; [`sum_of`](Powers::sum_of) reads it after the next `sync_cube`.
    pub fn share(&mut self, partial: Vec4, #[comptime] slot: usize) {
        let n = comptime!(self.n);
        self.partials[comptime!(slot * units(n)) + UNIT_POS as usize] = partial;
    }

    /// The sum of a slot over the four threads that share this one's tokens.
    pub fn sum_of(&self, #[comptime] slot: usize) -> Vec4 {
        let n = comptime!(self.n);
        let first = comptime!(slot * units(n)) + UNIT_POS as usize / VECTOR_SIZE * VECTOR_SIZE;
        let half = self.partials[first] + self.partials[first + 1];
        half + (self.partials[first + 2] + self.partials[first + 3])
    }

    /// `sum_i K[i, k] term_i` for this thread's positions, given its tokens' terms; 0 beyond the last position. All threads of the
    /// workgroup call it; it uses slot [`SUMS`], which may be written again after the next `sync_cube`.
    pub fn columns(&mut self, terms: Vec4) -> Vec4 {
        let n = comptime!(self.n);
        let block = comptime!(self.block);
        let count = comptime!(stride_count(n));
        let unit = UNIT_POS as usize;
        let (quad, own) = (unit / VECTOR_SIZE, unit % VECTOR_SIZE);
        let mut steps = Array::<Vec4>::new(VECTOR_SIZE);
        #[unroll]
        for token in 0..VECTOR_SIZE {
            steps[token] = self.steps[token] * Vec4::new(terms.extract(token));
        }
        let mut columns = Vec4::new(0.0);
        #[unroll]
        for nth in 0..comptime!(count.div_ceil(block)) {
            let first = comptime!(nth * block);
            let some = comptime!(if count - first < block { count - first } else { block });
            if quad < comptime!(quads(n)) {
                #[unroll]
                for at in 0..some {
                    let strides = self.stride(comptime!(first + at));
                    let mut sum = Vec4::new(0.0);
                    #[unroll]
                    for token in 0..VECTOR_SIZE {
                        sum += steps[token] * Vec4::new(strides.extract(token));
                    }
                    self.quad_partials[quad * comptime!(pitch(block)) + comptime!(at * VECTOR_SIZE) + own] =
                        sum;
                }
            }
            sync_cube();
            let fours = comptime!(some * VECTOR_SIZE);
            let groups = comptime!(units(n) / fours);
            let (group, four) = (unit / fours, unit % fours);
            if group < groups {
                let mut share = Vec4::new(0.0);
                #[unroll]
                for round in 0..comptime!(quads(n).div_ceil(groups)) {
                    let quad = comptime!(round * groups) + group;
                    let all_have_one = comptime!((round + 1) * groups <= quads(n)).runtime();
                    if all_have_one || quad < comptime!(quads(n)) {
                        share += self.quad_partials[quad * comptime!(pitch(block)) + four];
                    }
                }
                self.partials[comptime!(SUMS * units(n)) + unit] = share;
            }
            sync_cube();
            if unit >= comptime!(first * VECTOR_SIZE) && unit < comptime!(first * VECTOR_SIZE + fours) {
                let own = unit - comptime!(first * VECTOR_SIZE);
                #[unroll]
                for group in 0..groups {
                    columns += self.partials[comptime!(SUMS * units(n) + group * fours) + own];
                }
            }
        }
        // Beyond the last position powers may overflow float32.
        let mut there = Vec4::new(0.0);
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            there.insert(lane, select(unit * VECTOR_SIZE + lane < n, columns.extract(lane), 0.0f32));
        }
        there
    }
}

/// `exp(x times - most)`, corrected by the rounding error of the product.
#[cube]
fn power(x: Vec4, times: Vec4, most: Vec4) -> Vec4 {
    let exponent = x * times;
    let power = (exponent - most).exp();
    fma(power, fma(x, times, -exponent), power)
}
