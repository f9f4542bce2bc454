//! Tiles of products of matrices: a workgroup makes `[TILE, TILE]` entries, a thread each, of slices of [`DEEP`] terms that lie in
//! shared memory.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Rows and columns of a tile.
pub(super) const TILE: usize = 16;
/// Threads of a workgroup.
pub(super) const UNITS: usize = TILE * TILE;
/// Terms of a slice.
pub(super) const DEEP: usize = 64;
/// Terms that a thread asks for at once.
const AT_ONCE: usize = 16;
/// Numbers of a slice of one factor that a thread reads.
pub(super) const EACH: usize = TILE * DEEP / UNITS;

/// Slices of the two factors. Their lines are one number longer than what they hold, so that neighbours lie in different banks.
#[derive(CubeType)]
pub(super) struct Slices {
    /// `[TILE, DEEP + 1]`.
    left: Shared<[f32]>,
    /// `[DEEP, TILE + 1]`.
    right: Shared<[f32]>,
}

/// Which number of a slice a thread reads: its place in the tile, and its term.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Spot {
    pub place: usize,
    pub term: usize,
}

/// The thread's number `nth`; by `beside` threads side by side have places side by side, else terms.
#[cube]
pub(super) fn spot(nth: usize, beside: bool) -> Spot {
    let at = UNIT_POS as usize + nth * UNITS;
    Spot { place: select(beside, at % TILE, at / DEEP), term: select(beside, at / TILE, at % DEEP) }
}

#[cube]
impl Slices {
    pub fn new() -> Slices {
        Slices {
            left: Shared::<[f32]>::new_slice(comptime!(TILE * (DEEP + 1))),
            right: Shared::<[f32]>::new_slice(comptime!(DEEP * (TILE + 1))),
        }
    }

    pub fn put_left(&mut self, spot: Spot, value: f32) {
        self.left[spot.place * comptime!(DEEP + 1) + spot.term] = value;
    }

    pub fn put_right(&mut self, spot: Spot, value: f32) {
        self.right[spot.term * comptime!(TILE + 1) + spot.place] = value;
    }

    /// What this slice adds to a thread's entry. All threads of the workgroup call it, between what they put.
    pub fn product(&self) -> f32 {
        let unit = UNIT_POS as usize;
        let (left, right) = (unit / TILE * comptime!(DEEP + 1), unit % TILE);
        sync_cube();
        let mut sum = 0.0f32;
        for round in 0..comptime!(DEEP / AT_ONCE) {
            #[unroll]
            for ahead in 0..AT_ONCE {
                let term = round * AT_ONCE + ahead;
                sum += self.left[left + term] * self.right[right + term * comptime!(TILE + 1)];
            }
        }
        sync_cube();
        sum
    }
}
