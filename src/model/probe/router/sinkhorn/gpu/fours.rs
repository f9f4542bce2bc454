//! Numbers in fours, which a GPU reads from a workgroup's memory as one: a thread has four tokens, and four positions, side by side.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Numbers that lie side by side.
pub(super) const WIDE: usize = 4;
pub(super) type Four = Vector<f32, Const<WIDE>>;

/// What a vector of N has of the `nth` four; 0 beyond its end.
#[cube]
pub(super) fn read(vector: &[f32], nth: usize, #[comptime] n: usize) -> Four {
    let mut values = Four::empty();
    if comptime!(n.is_multiple_of(WIDE)) {
        // One place for all four.
        let first = usize::min(nth, comptime!(n / WIDE - 1)) * WIDE;
        #[unroll]
        for lane in 0..WIDE {
            values.insert(lane, select(nth * WIDE < n, vector[first + lane], 0.0f32));
        }
    } else {
        #[unroll]
        for lane in 0..WIDE {
            let at = nth * WIDE + lane;
            values.insert(lane, select(at < n, vector[usize::min(at, comptime!(n - 1))], 0.0f32));
        }
    }
    values
}

/// Makes them the vector's, as far as it goes.
#[cube]
pub(super) fn write(vector: &mut [f32], nth: usize, values: Four, #[comptime] n: usize) {
    #[unroll]
    for lane in 0..WIDE {
        if nth * WIDE + lane < n {
            vector[nth * WIDE + lane] = values.extract(lane);
        }
    }
}
