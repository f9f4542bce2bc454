//! Vectors of four numbers, which a GPU reads from shared memory with one instruction: four neighbouring tokens or positions of a thread.

use crate::model::ops::gpu::prelude::*;

/// Elements `4 nth .. 4 nth + 4` of a vector of `n`; 0 beyond its end.
#[cube]
pub(super) fn read(vector: &[f32], nth: usize, #[comptime] n: usize) -> Vec4 {
    let mut values = Vec4::empty();
    if comptime!(n.is_multiple_of(VECTOR_SIZE)) {
        // One address for all four lanes.
        let first = usize::min(nth, comptime!(n / VECTOR_SIZE - 1)) * VECTOR_SIZE;
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            values.insert(lane, select(nth * VECTOR_SIZE < n, vector[first + lane], 0.0f32));
        }
    } else {
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            let at = nth * VECTOR_SIZE + lane;
            values.insert(lane, select(at < n, vector[usize::min(at, comptime!(n - 1))], 0.0f32));
        }
    }
    values
}

/// Writes elements `4 nth .. 4 nth + 4` of a vector of `n`; those beyond its end are dropped.
#[cube]
pub(super) fn write(vector: &mut [f32], nth: usize, values: Vec4, #[comptime] n: usize) {
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        if nth * VECTOR_SIZE + lane < n {
            vector[nth * VECTOR_SIZE + lane] = values.extract(lane);
        }
    }
}
