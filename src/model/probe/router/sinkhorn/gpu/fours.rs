//! Numbers in fours, which a GPU reads from a workgroup's memory as one: a thread has four positions side by side.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Numbers that lie side by side.
pub(super) const WIDE: usize = 4;
pub(super) type Four = Vector<f32, Const<WIDE>>;

/// This thread's position in a lane; there may be none.
#[cube]
pub(super) fn position(#[comptime] lane: usize) -> usize {
    UNIT_POS as usize * WIDE + lane
}

/// What a vector of N has of this thread's positions; 0 where there is none.
#[cube]
pub(super) fn read(vector: &[f32], #[comptime] n: usize) -> Four {
    let mut values = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        let value = vector[usize::min(position(lane), comptime!(n - 1))];
        values.insert(lane, select(position(lane) < n, value, 0.0f32));
    }
    values
}

#[cube]
pub(super) fn write(vector: &mut [f32], values: Four, #[comptime] n: usize) {
    #[unroll]
    for lane in 0..WIDE {
        if position(lane) < n {
            vector[position(lane)] = values.extract(lane);
        }
    }
}
