//! Vectors of four numbers, which a GPU reads from shared memory with one instruction: four neighbouring tokens or positions of a thread.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Lanes of a [`Vec4`].
pub(super) const WIDTH: usize = 4;
pub(super) type Vec4 = Vector<f32, Const<WIDTH>>;

/// Elements `4 nth .. 4 nth + 4` of a vector of `n`; 0 beyond its end.
#[cube]
pub(super) fn read(vector: &[f32], nth: usize, #[comptime] n: usize) -> Vec4 {
    let mut values = Vec4::empty();
    if comptime!(n.is_multiple_of(WIDTH)) {
        // One address for all four lanes.
        let first = usize::min(nth, comptime!(n / WIDTH - 1)) * WIDTH;
        #[unroll]
        for lane in 0..WIDTH {
            values.insert(lane, select(nth * WIDTH < n, vector[first + lane], 0.0f32));
        }
    } else {
        #[unroll]
        for lane in 0..WIDTH {
            let at = nth * WIDTH + lane;
            values.insert(lane, select(at < n, vector[usize::min(at, comptime!(n - 1))], 0.0f32));
        }
    }
    values
}

/// Writes elements `4 nth .. 4 nth + 4` of a vector of `n`; those beyond its end are dropped.
#[cube]
pub(super) fn write(vector: &mut [f32], nth: usize, values: Vec4, #[comptime] n: usize) {
    #[unroll]
    for lane in 0..WIDTH {
        if nth * WIDTH + lane < n {
            vector[nth * WIDTH + lane] = values.extract(lane);
        }
    }
}
