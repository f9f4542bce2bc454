//! What some systems have, of which a kernel is given a buffer each, and where in a buffer of all of them a path lies.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Entry `at` of what a system has.
#[cube]
pub(super) fn entry(of_each: &Sequence<Box<[f32]>>, system: usize, at: usize) -> f32 {
    let mut entry = 0.0f32;
    #[unroll]
    for index in 0..of_each.len() {
        if system == index {
            entry = of_each.index(index)[at];
        }
    }
    entry
}

/// Makes it `value`.
#[cube]
pub(super) fn put(of_each: &mut Sequence<Box<[f32]>>, system: usize, at: usize, value: f32) {
    #[unroll]
    for index in 0..of_each.len() {
        if system == index {
            of_each.index_mut(index)[at] = value;
        }
    }
}

/// Where step `j` of a path begins, in `[G, 2, N, S]`: of `w`, which is 0, or of `x`, 1.
#[cube]
pub(super) fn path(which: usize, system: usize, j: usize, steps: usize, #[comptime] states: usize) -> usize {
    ((2 * system + which) * steps + j) * states
}
