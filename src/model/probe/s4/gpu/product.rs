//! One matrix times many vectors, each of which depends on the one before it: by one workgroup, which reads the matrix once.
//!
//! `[S, S]` entries lie in the registers of all threads: a thread has some neighbouring columns of [`ROWS`] rows. A vector
//! goes through shared memory, where an entry that is read counts for all rows of a thread. What the parts of a row
//! come to goes through shared memory, too, to the thread of that row.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Most threads of a workgroup, and so most states.
pub(super) const UNITS: usize = 256;
/// Rows of a thread.
const ROWS: usize = 4;

/// How many threads lie below each other: thread `l` of them has the rows `l, l + lanes, l + 2 lanes, ...`
const fn lanes(states: usize) -> usize {
    states.div_ceil(ROWS)
}

/// How many columns a thread has.
const fn width(states: usize) -> usize {
    states.div_ceil(UNITS / lanes(states))
}

/// How many threads share a row.
const fn parts(states: usize) -> usize {
    states.div_ceil(width(states))
}

/// Threads of a workgroup that multiplies: one for every state at the least.
pub(super) fn units(states: usize) -> u32 {
    (lanes(states) * parts(states)).next_multiple_of(32) as u32
}

/// A matrix, ready to be multiplied.
#[derive(CubeType)]
pub(super) struct Product {
    /// This thread's entries, `[ROWS, width]`.
    tile: Array<f32>,
    /// The vector, `[parts width]`, 0 behind its S entries.
    vector: Shared<[f32]>,
    /// What every part of a row comes to, `[parts, ROWS lanes]`.
    sums: Shared<[f32]>,
    #[cube(comptime)]
    states: usize,
}

#[cube]
impl Product {
    /// Of the matrix `[S, S]` that begins at entry `first`, or of its transpose.
    pub fn new(
        matrix: &[f32],
        first: usize,
        #[comptime] transposed: bool,
        #[comptime] states: usize,
    ) -> Product {
        let (lanes, width, parts) = comptime!((lanes(states), width(states), parts(states)));
        let mut tile = Array::<f32>::new(comptime!(ROWS * width));
        let unit = UNIT_POS as usize;
        #[unroll]
        for r in 0..ROWS {
            // What lies beyond the matrix is read from its edge: such a row nobody asks for, such a column meets a 0.
            let row = usize::min(unit % lanes + comptime!(r * lanes), comptime!(states - 1));
            #[unroll]
            for k in 0..width {
                let column = usize::min(unit / lanes * width + k, comptime!(states - 1));
                let at = if comptime!(transposed) { column * states + row } else { row * states + column };
                tile[comptime!(r * width + k)] = matrix[first + at];
            }
        }
        let vector = Shared::<[f32]>::new_slice(comptime!(parts * width));
        let sums = Shared::<[f32]>::new_slice(comptime!(parts * ROWS * lanes));
        Product { tile, vector, sums, states }
    }

    /// This thread's entry of the product, given that of the vector; of threads beyond the states neither counts. All
    /// threads of the workgroup call it.
    pub fn times(&mut self, entry: f32) -> f32 {
        let states = comptime!(self.states);
        let (lanes, width, parts) = comptime!((lanes(states), width(states), parts(states)));
        let unit = UNIT_POS as usize;
        if unit < comptime!(parts * width) {
            self.vector[unit] = select(unit < states, entry, 0.0f32);
        }
        sync_cube();
        if unit < comptime!(lanes * parts) {
            let (lane, part) = (unit % lanes, unit / lanes);
            let mut sums = Array::<f32>::new(ROWS);
            #[unroll]
            for r in 0..ROWS {
                sums[r] = 0.0; // a compiler may fill an array once, and not every time around a loop
            }
            #[unroll]
            for k in 0..width {
                let entry = self.vector[part * width + k];
                #[unroll]
                for r in 0..ROWS {
                    sums[r] += self.tile[comptime!(r * width + k)] * entry;
                }
            }
            #[unroll]
            for r in 0..ROWS {
                self.sums[part * comptime!(ROWS * lanes) + comptime!(r * lanes) + lane] = sums[r];
            }
        }
        sync_cube();
        let mut product = 0.0f32;
        if unit < states {
            #[unroll]
            for part in 0..parts {
                product += self.sums[comptime!(part * ROWS * lanes) + unit];
            }
        }
        product
    }

    /// The sum of all threads' entries, as the first thread has it. All threads of the workgroup call it.
    pub fn total(&mut self, entry: f32) -> f32 {
        let states = comptime!(self.states);
        let unit = UNIT_POS as usize;
        if unit < states {
            self.vector[unit] = entry;
        }
        sync_cube();
        let mut total = 0.0f32;
        if unit == 0 {
            for k in 0..states {
                total += self.vector[k];
            }
        }
        total
    }
}
