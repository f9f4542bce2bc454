//! Kernels of the backward pass, in the order in which they run; [`super`] has their formulas.

use super::product::{DEPTH, Slices, TILE, UNITS, read, slot};
use super::systems::{entry, path, put};
use crate::model::ops::gpu::prelude::*;

/// Workgroups of [`adjoint()`] per system.
pub(super) fn tiles_of_adjoint(steps: usize, states: usize) -> usize {
    (steps.div_ceil(TILE) + 1) * states.div_ceil(TILE)
}

/// Computes the gradients of the slopes, `p_j`, `[G, N, S]`, and those of B, C and D, one workgroup per tile. The last row of tiles
/// computes `dC`, a sum like those of `p` with `x` in place of `w`. Each tile writes its partial sum of the gradient of the step size
/// to `partial_steps`, `[G, tiles]`.
#[cube(launch)]
pub(super) fn adjoint(
    paths: &[f32],
    step: &Sequence<Box<[f32]>>,
    grad_gains: &[f32],
    grad_slopes: &mut [f32],
    grad_b: &mut Sequence<Box<[f32]>>,
    grad_c: &mut Sequence<Box<[f32]>>,
    grad_skip: &mut Sequence<Box<[f32]>>,
    partial_steps: &mut [f32],
    steps: usize,
    tiles: usize,
    count: usize,
    #[comptime] states: usize,
) {
    let across = comptime!(states.div_ceil(TILE));
    let (cube, unit) = (usize::min(CUBE_POS, count - 1), UNIT_POS as usize);
    let (system, tile) = (cube / tiles, cube % tiles);
    let (band, first_column) = (tile / across, tile % across * TILE);
    let of_x = tile + across >= tiles;
    let first_row = select(of_x, 0usize, band * TILE);
    let path_start = path(select(of_x, 1usize, 0usize), system, 0, steps, states);
    let last_gain = system * steps + (steps - 1); // of j = 0

    // For this thread's entry; loaded before the products, which hide the latency.
    let (j, column) = (first_row + unit / TILE, first_column + unit % TILE);
    let at =
        path(1, system, usize::min(j, steps - 1), steps, states) + usize::min(column, comptime!(states - 1));
    let (dt, state, before) = (entry(step, system, 0), paths[at], paths[at - select(j > 0, states, 0usize)]);

    let (slot_left, slot_right) = (slot(false), slot(true));
    let row = first_row + slot_left.line;
    let right_at = path_start + usize::min(first_column + slot_right.line, comptime!(states - 1));
    let mut left = read_grads(grad_gains, last_gain, row + slot_left.term, steps);
    let mut right = read(paths, right_at, states, slot_right.term, steps);
    let mut slices = Slices::new();
    for slice in 0..(steps - first_row).div_ceil(DEPTH) {
        let (done, next) = (slice * DEPTH, (slice + 1) * DEPTH);
        slices.store_left(&slot_left, left, steps - usize::min(row + done, steps));
        slices.store_right(&slot_right, right, steps - done);
        // The next slice is loaded while this one is multiplied; after the last it repeats the last term, and is never stored.
        left = read_grads(grad_gains, last_gain, row + slot_left.term + next, steps);
        right = read(paths, right_at, states, slot_right.term + next, steps);
        slices.multiply();
    }
    let sum = slices.total();
    let mut partial = 0.0f32;
    if j < steps && column < states {
        if of_x {
            if j == 0 {
                put(grad_c, system, column, sum);
            }
        } else {
            if j == 0 {
                put(grad_b, system, column, dt * sum);
            }
            let change = select(j == 0, state, state - before); // dt r_j
            grad_slopes[(system * steps + j) * states + column] = sum;
            partial = sum * change / dt;
        }
    }
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let partial = fold(partial, &mut lanes, Fold::Sum, UNITS);
    if unit == 0 {
        partial_steps[cube] = partial;
        if tile == 0 {
            put(grad_skip, system, 0, grad_gains[last_gain]);
        }
    }
}

/// Gradients of the kernel, `dK[j]`, of four steps from `j` on; that of step 0 lies at `last`. Past the end the last one repeats.
#[cube]
fn read_grads(grad_gains: &[f32], last: usize, j: usize, steps: usize) -> Vec4 {
    let mut vector = Vec4::empty();
    #[unroll]
    for lane in 0..VECTOR_SIZE {
        vector.insert(lane, grad_gains[last - usize::min(j + lane, steps - 1)]);
    }
    vector
}

/// The gradient of A, `[S, S]`, `dt sum_j p_j q_j^T` in the lower triangle, one workgroup per tile. One more workgroup per system adds
/// up the `partials` partial sums of the gradient of the step size.
#[cube(launch)]
pub(super) fn gradients(
    grad_slopes: &[f32],
    paths: &[f32],
    step: &Sequence<Box<[f32]>>,
    partial_steps: &[f32],
    grad_a: &mut Sequence<Box<[f32]>>,
    grad_step: &mut Sequence<Box<[f32]>>,
    steps: usize,
    partials: usize,
    #[comptime] states: usize,
) {
    let across = comptime!(states.div_ceil(TILE));
    let tiles = comptime!(across * across + 1);
    let (system, tile, unit) = (CUBE_POS / tiles, CUBE_POS % tiles, UNIT_POS as usize);
    let (first_row, first_column) = (tile / across * TILE, tile % across * TILE);
    let x = path(1, system, 0, steps, states);

    let dt = entry(step, system, 0);
    let slot = slot(true);
    let left_at = system * steps * states + usize::min(first_row + slot.line, comptime!(states - 1));
    let right_at = x + usize::min(first_column + slot.line, comptime!(states - 1));
    let mut left = read(grad_slopes, left_at, states, slot.term, steps);
    let mut right = read(paths, right_at, states, slot.term, steps);
    let earlier = usize::min(usize::max(slot.term, 1) - 1, steps - 1);
    let mut before = select(slot.term == 0, 0.0f32, paths[right_at + earlier * states]);
    let mut slices = Slices::new();
    // Tiles above the diagonal and the workgroup of the step size multiply nothing.
    let slices_of_tile =
        select(first_column <= first_row && first_row < states, steps.div_ceil(DEPTH), 0usize);
    for slice in 0..slices_of_tile {
        let mut middles = Vec4::empty(); // q_j
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            let state = right.extract(lane);
            middles.insert(lane, 0.5 * (before + state));
            before = state;
        }
        slices.store_left(&slot, left, steps - slice * DEPTH);
        slices.store_right(&slot, middles, steps - slice * DEPTH);
        // The next slice is loaded while this one is multiplied; after the last it repeats the last step, and is never stored.
        let next = slot.term + (slice + 1) * DEPTH;
        left = read(grad_slopes, left_at, states, next, steps);
        right = read(paths, right_at, states, next, steps);
        before = paths[right_at + usize::min(next - 1, steps - 1) * states];
        slices.multiply();
    }
    let sum = slices.total();
    let (row, column) = (first_row + unit / TILE, first_column + unit % TILE);
    if row < states && column < states {
        let lower = column <= row;
        put(grad_a, system, row * states + column, select(lower, dt * sum, 0.0f32));
    }

    if tile + 1 == tiles {
        let mut lanes = Shared::<[f32]>::new_slice(UNITS);
        let mut partial = 0.0f32;
        for round in 0..partials.div_ceil(UNITS) {
            let at = round * UNITS + unit;
            if at < partials {
                partial += partial_steps[system * partials + at];
            }
        }
        let grad_dt = fold(partial, &mut lanes, Fold::Sum, UNITS);
        if unit == 0 {
            put(grad_step, system, 0, grad_dt);
        }
    }
}
