//! Reductions: of one number per thread of a workgroup, and of the lanes of a vector.

use crate::model::ops::gpu::prelude::*;

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    Sum,
    Largest,
    Least,
}

/// Reduces `value` over every group of `units` neighbouring threads, a power of two, and returns the result to all of them: a tree
/// reduction in `lanes`, shared memory with one number per thread. It has barriers: all threads of the workgroup must call it.
#[cube]
pub(crate) fn fold(
    value: f32,
    lanes: &mut [f32],
    #[comptime] operation: Fold,
    #[comptime] units: usize,
) -> f32 {
    let at = UNIT_POS as usize;
    let unit = at % units;
    sync_cube(); // all threads have read the result of the call before
    lanes[at] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2() as usize) {
        let half = comptime!(units >> (level + 1));
        if unit < half {
            let (own, other) = (lanes[at], lanes[at + half]);
            lanes[at] = match comptime!(operation) {
                Fold::Sum => own + other,
                Fold::Largest => max(own, other),
                Fold::Least => min(own, other),
            };
        }
        sync_cube();
    }
    lanes[at - unit]
}

/// The sum of a vector's lanes.
#[cube]
pub(crate) fn total<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for lane in 0..N::value() {
        sum += vector.extract(lane);
    }
    sum
}
