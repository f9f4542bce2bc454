//! Tiles of products of matrices: a workgroup makes `[TILE, TILE]` entries of slices of [`DEEP`] terms that lie in shared memory.
//! Terms are read in fours. Threads share out a slice's terms and make [`EACH`] rows and columns of entries of theirs; what their
//! parts come to is added up in the end.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::model::ops::gpu::fold::total;

/// Rows and columns of a tile.
pub(super) const TILE: usize = 16;
/// Threads of a workgroup.
pub(super) const UNITS: usize = TILE * TILE;
/// Terms of a slice.
pub(super) const DEEP: usize = 64;
/// Terms that lie side by side: what a thread reads of a slice of one factor.
pub(super) const WIDE: usize = TILE * DEEP / UNITS;
pub(super) type Four = Vector<f32, Const<WIDE>>;
/// Fours of a slice in a row or column.
const FOURS: usize = DEEP / WIDE;
/// From one row or column to the next: one more, so that neighbours lie in different banks.
const LINE: usize = FOURS + 1;
/// Rows, and columns, of a thread.
const EACH: usize = 2;
/// From one of them to the next.
const LANES: usize = TILE / EACH;
/// Into how many parts threads share out the terms of a slice.
const PARTS: usize = EACH * EACH;

/// Slices of the two factors, and what they come to.
#[derive(CubeType)]
pub(super) struct Slices {
    /// Rows of the left factor, `[TILE, LINE]`.
    left: Shared<[Four]>,
    /// Columns of the right one, `[TILE, LINE]`.
    right: Shared<[Four]>,
    /// `[PARTS, TILE, TILE]`.
    parts: Shared<[f32]>,
    /// What this thread's terms come to so far, `[EACH, EACH]`, every fourth of them in a lane.
    sums: Array<Four>,
}

/// Which four of a slice a thread reads: its place in the tile, and its first term.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Spot {
    pub place: usize,
    pub term: usize,
}

/// By `beside` threads side by side have places side by side, else terms.
#[cube]
pub(super) fn spot(beside: bool) -> Spot {
    let unit = UNIT_POS as usize;
    let four = select(beside, unit / TILE, unit % FOURS);
    Spot { place: select(beside, unit % TILE, unit / FOURS), term: four * WIDE }
}

/// Four of `terms` numbers that begin at `first` and lie `apart`; past the end the last of them again. Nothing is done with what was
/// read, so that nobody waits for it.
#[cube]
pub(super) fn read(numbers: &[f32], first: usize, apart: usize, term: usize, terms: usize) -> Four {
    let mut four = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        four.insert(lane, numbers[first + usize::min(term + lane, terms - 1) * apart]);
    }
    four
}

/// A four of a slice, 0 past its `terms`.
#[cube]
fn kept(four: Four, spot: &Spot, terms: usize) -> Four {
    let mut kept = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        kept.insert(lane, select(spot.term + lane < terms, four.extract(lane), 0.0f32));
    }
    kept
}

#[cube]
impl Slices {
    pub fn new() -> Slices {
        let mut sums = Array::<Four>::new(comptime!(EACH * EACH));
        #[unroll]
        for entry in 0..comptime!(EACH * EACH) {
            sums[entry] = Four::new(0.0);
        }
        Slices {
            left: Shared::<[Four]>::new_slice(comptime!(TILE * LINE)),
            right: Shared::<[Four]>::new_slice(comptime!(TILE * LINE)),
            parts: Shared::<[f32]>::new_slice(comptime!(PARTS * UNITS)),
            sums,
        }
    }

    pub fn put_left(&mut self, spot: &Spot, four: Four, terms: usize) {
        self.left[spot.place * LINE + spot.term / WIDE] = kept(four, spot, terms);
    }

    pub fn put_right(&mut self, spot: &Spot, four: Four, terms: usize) {
        self.right[spot.place * LINE + spot.term / WIDE] = kept(four, spot, terms);
    }

    /// Adds this slice's products. All threads of the workgroup call it, between what they put.
    pub fn multiply(&mut self) {
        let unit = UNIT_POS as usize;
        let part = unit / comptime!(LANES * LANES) * comptime!(FOURS / PARTS);
        let left_at = unit / LANES % LANES * LINE + part;
        let right_at = unit % LANES * LINE + part;
        sync_cube();
        #[unroll]
        for four in 0..comptime!(FOURS / PARTS) {
            let mut beside = Sequence::<Four>::new();
            #[unroll]
            for column in 0..EACH {
                let terms = self.right[right_at + comptime!(column * LANES * LINE + four)];
                beside.push(terms);
            }
            #[unroll]
            for row in 0..EACH {
                let terms = self.left[left_at + comptime!(row * LANES * LINE + four)];
                #[unroll]
                for column in 0..EACH {
                    self.sums[comptime!(row * EACH + column)] += terms * beside[column];
                }
            }
        }
        sync_cube();
    }

    /// The entry of row `UNIT_POS / TILE` and column `UNIT_POS % TILE`. All threads of the workgroup call it, once.
    pub fn total(&mut self) -> f32 {
        let unit = UNIT_POS as usize;
        let part = unit / comptime!(LANES * LANES) * UNITS;
        let first = part + unit / LANES % LANES * TILE + unit % LANES;
        #[unroll]
        for row in 0..EACH {
            #[unroll]
            for column in 0..EACH {
                let four = self.sums[comptime!(row * EACH + column)];
                self.parts[first + comptime!(row * LANES * TILE + column * LANES)] =
                    total::<Const<WIDE>>(four);
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
