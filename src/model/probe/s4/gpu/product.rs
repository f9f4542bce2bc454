//! Tiled matrix products: a workgroup computes a `[TILE, TILE]` tile from slices of [`DEPTH`] terms in shared memory, which hold
//! vectors of 4 terms. Its threads split the terms of a slice into [`PARTS`]; each accumulates a block of [`PER_THREAD`] x
//! [`PER_THREAD`] entries over its part, and the partial sums are added up at the end.

use crate::model::ops::gpu::fold::total;
use crate::model::ops::gpu::prelude::*;

/// Rows and columns of a tile.
pub(super) const TILE: usize = 16;
/// Threads of a workgroup.
pub(super) const UNITS: usize = TILE * TILE;
/// Terms of the inner dimension in a slice: each thread reads one vector of a slice from each factor.
pub(super) const DEPTH: usize = UNITS * VECTOR_SIZE / TILE;
/// Vectors of a slice in a row or column.
const VECTORS: usize = DEPTH / VECTOR_SIZE;
/// Vectors from one row or column to the next in shared memory: one more, so that neighbours lie in different banks.
const STRIDE: usize = VECTORS + 1;
/// Rows, and columns, of a thread's block.
const PER_THREAD: usize = 2;
/// Distance between the rows, and columns, of a thread: threads of a part along each side of the tile.
const THREADS: usize = TILE / PER_THREAD;
/// Parts into which the threads split the terms of a slice.
const PARTS: usize = PER_THREAD * PER_THREAD;

/// The current slices of the two factors, and the sums over all slices so far.
#[derive(CubeType)]
pub(super) struct Slices {
    /// Rows of the left factor, `[TILE, STRIDE]`.
    left: Shared<[Vec4]>,
    /// Columns of the right one, `[TILE, STRIDE]`.
    right: Shared<[Vec4]>,
    /// Partial sums, `[PARTS, TILE, TILE]`.
    parts: Shared<[f32]>,
    /// This thread's sums so far, `[PER_THREAD, PER_THREAD]`; each lane sums every fourth term.
    sums: Array<Vec4>,
}

/// The vector of a slice that a thread reads: its row or column of the tile, and its first term.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Slot {
    pub line: usize,
    pub term: usize,
}

/// With `across`, neighbouring threads read neighbouring lines, else neighbouring terms.
#[cube]
pub(super) fn slot(across: bool) -> Slot {
    let unit = UNIT_POS as usize;
    let vector = select(across, unit / TILE, unit % VECTORS);
    Slot { line: select(across, unit % TILE, unit / VECTORS), term: vector * VECTOR_SIZE }
}

/// Reads 4 of `terms` numbers from index `term` on, of which number 0 lies at `first` and each next one `stride` further; past the end the
/// last one repeats. Nothing is computed with them here, so that the thread does not yet wait for memory.
#[cube]
pub(super) fn read(numbers: &[f32], first: usize, stride: usize, term: usize, terms: usize) -> Vec4 {
    let mut vector = Vec4::empty();
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        vector.insert(lane, numbers[first + usize::min(term + lane, terms - 1) * stride]);
    }
    vector
}

/// A vector of a slice, with 0 past its `terms`.
#[cube]
fn masked(vector: Vec4, slot: &Slot, terms: usize) -> Vec4 {
    let mut masked = Vec4::empty();
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        masked.insert(lane, select(slot.term + lane < terms, vector.extract(lane), 0.0f32));
    }
    masked
}

#[cube]
impl Slices {
    pub fn new() -> Slices {
        let mut sums = Array::<Vec4>::new(comptime!(PER_THREAD * PER_THREAD));
        #[unroll]
        for entry in 0..comptime!(PER_THREAD * PER_THREAD) {
            sums[entry] = Vec4::new(0.0);
        }
        Slices {
            left: Shared::<[Vec4]>::new_slice(comptime!(TILE * STRIDE)),
            right: Shared::<[Vec4]>::new_slice(comptime!(TILE * STRIDE)),
            parts: Shared::<[f32]>::new_slice(comptime!(PARTS * UNITS)),
            sums,
        }
    }

    pub fn store_left(&mut self, slot: &Slot, vector: Vec4, terms: usize) {
        self.left[slot.line * STRIDE + slot.term / VECTOR_SIZE] = masked(vector, slot, terms);
    }

    pub fn store_right(&mut self, slot: &Slot, vector: Vec4, terms: usize) {
        self.right[slot.line * STRIDE + slot.term / VECTOR_SIZE] = masked(vector, slot, terms);
    }

    /// Adds the products of the stored slices. All threads of the workgroup must call it, after they stored their vectors.
    pub fn multiply(&mut self) {
        let unit = UNIT_POS as usize;
        let part = unit / comptime!(THREADS * THREADS) * comptime!(VECTORS / PARTS);
        let left_at = unit / THREADS % THREADS * STRIDE + part;
        let right_at = unit % THREADS * STRIDE + part;
        sync_cube();
        #[unroll]
        for vector in 0..comptime!(VECTORS / PARTS) {
            let mut across = Sequence::<Vec4>::new();
            #[unroll]
            for column in 0..PER_THREAD {
                let terms = self.right[right_at + comptime!(column * THREADS * STRIDE + vector)];
                across.push(terms);
            }
            #[unroll]
            for row in 0..PER_THREAD {
                let terms = self.left[left_at + comptime!(row * THREADS * STRIDE + vector)];
                #[unroll]
                for column in 0..PER_THREAD {
                    self.sums[comptime!(row * PER_THREAD + column)] += terms * across[column];
                }
            }
        }
        sync_cube();
    }

    /// The entry in row `UNIT_POS / TILE` and column `UNIT_POS % TILE`. All threads of the workgroup must call it, once.
    pub fn total(&mut self) -> f32 {
        let unit = UNIT_POS as usize;
        let part = unit / comptime!(THREADS * THREADS) * UNITS;
        let first = part + unit / THREADS % THREADS * TILE + unit % THREADS;
        #[unroll]
        for row in 0..PER_THREAD {
            #[unroll]
            for column in 0..PER_THREAD {
                let vector = self.sums[comptime!(row * PER_THREAD + column)];
                self.parts[first + comptime!(row * THREADS * TILE + column * THREADS)] =
                    total::<Const<VECTOR_SIZE>>(vector);
            }
        }
        sync_cube();
        let mut sum = 0.0f32;
        #[unroll]
        for part in 0..PARTS {
            sum += self.parts[unit + comptime!(part * UNITS)];
        }
        sum
    }
}
