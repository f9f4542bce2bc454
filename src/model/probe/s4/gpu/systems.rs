//! Access to parameters of which every system has its own buffer, and offsets in the buffer that holds the paths of all systems.

use crate::model::ops::gpu::prelude::*;

/// Entry `at` of the system's buffer.
#[cube]
pub(super) fn entry(buffers: &Sequence<Box<[f32]>>, system: usize, at: usize) -> f32 {
    let mut entry = 0.0f32;
    #[unroll]
    for index in 0..buffers.len() {
        if system == index {
            entry = buffers.index(index)[at];
        }
    }
    entry
}

/// Sets entry `at` of the system's buffer to `value`.
#[cube]
pub(super) fn put(buffers: &mut Sequence<Box<[f32]>>, system: usize, at: usize, value: f32) {
    #[unroll]
    for index in 0..buffers.len() {
        if system == index {
            buffers.index_mut(index)[at] = value;
        }
    }
}

/// Offset of step `j` of a path in `[G, 2, N, S]`. `which`: 0 for `w`, 1 for `x`.
#[cube]
pub(super) fn path(which: usize, system: usize, j: usize, steps: usize, #[comptime] states: usize) -> usize {
    ((2 * system + which) * steps + j) * states
}
