//! One number made of those that some threads of a workgroup have, or a vector.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What is made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fold {
    Sum,
    Largest,
    Least,
}

/// Of the numbers of `units` neighbouring threads, a power of two, for each of them; by halves, in `lanes`, one a thread. All
/// threads of the workgroup come here together.
#[cube]
pub(crate) fn fold(value: f32, lanes: &mut [f32], #[comptime] into: Fold, #[comptime] units: usize) -> f32 {
    let at = UNIT_POS as usize;
    let unit = at % units;
    sync_cube(); // everyone has read what was folded before
    lanes[at] = value;
    sync_cube();
    #[unroll]
    for halving in 0..comptime!(units.ilog2() as usize) {
        let half = comptime!(units >> (halving + 1));
        if unit < half {
            let (own, other) = (lanes[at], lanes[at + half]);
            lanes[at] = match comptime!(into) {
                Fold::Sum => own + other,
                Fold::Largest => max(own, other),
                Fold::Least => min(own, other),
            };
        }
        sync_cube();
    }
    lanes[at - unit]
}

/// The sum of a vector's numbers.
#[cube]
pub(crate) fn total<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut sum = 0.0f32;
    #[unroll]
    for lane in 0..N::value() {
        sum += vector.extract(lane);
    }
    sum
}
