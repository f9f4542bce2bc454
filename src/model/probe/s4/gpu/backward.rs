//! Back, in the order in which they run; [`super`] has their formulas.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::{DEEP, Four, Slices, TILE, UNITS, WIDE, read, spot};
use super::systems::{entry, path, put};
use crate::model::ops::gpu::fold::{Fold, fold};

/// Workgroups of [`adjoint`] for a system.
pub(super) fn tiles_of_adjoint(steps: usize, states: usize) -> usize {
    (steps.div_ceil(TILE) + 1) * states.div_ceil(TILE)
}

/// What the slopes are owed, `p_j`, `[G, N, S]`, and the gradients of B, C and D; a workgroup a tile. Those of the last band make
/// `dC`, which is a row like those of `p`, of `x` in place of `w`. What a tile adds to the gradient of the step it leaves in
/// `shares`, `[G, tiles]`.
#[cube(launch)]
pub(super) fn adjoint(
    paths: &[f32],
    step: &Sequence<Box<[f32]>>,
    by_gains: &[f32],
    by_slopes: &mut [f32],
    by_b: &mut Sequence<Box<[f32]>>,
    by_c: &mut Sequence<Box<[f32]>>,
    by_skip: &mut Sequence<Box<[f32]>>,
    shares: &mut [f32],
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
    let walked = path(select(of_x, 1usize, 0usize), system, 0, steps, states);
    let last_gain = system * steps + (steps - 1); // that of j = 0

    // Of this thread's entry, asked for before it is needed.
    let (j, column) = (first_row + unit / TILE, first_column + unit % TILE);
    let at =
        path(1, system, usize::min(j, steps - 1), steps, states) + usize::min(column, comptime!(states - 1));
    let (dt, state, before) = (entry(step, system, 0), paths[at], paths[at - select(j > 0, states, 0usize)]);

    let (spot_left, spot_right) = (spot(false), spot(true));
    let line = first_row + spot_left.place;
    let right_at = walked + usize::min(first_column + spot_right.place, comptime!(states - 1));
    let mut left = owed(by_gains, last_gain, line + spot_left.term, steps);
    let mut right = read(paths, right_at, states, spot_right.term, steps);
    let mut slices = Slices::new();
    for slice in 0..(steps - first_row).div_ceil(DEEP) {
        let (done, next) = (slice * DEEP, (slice + 1) * DEEP);
        slices.put_left(&spot_left, left, steps - usize::min(line + done, steps));
        slices.put_right(&spot_right, right, steps - done);
        // Asked for while this slice is multiplied; behind the last it is the last term again, which nobody puts.
        left = owed(by_gains, last_gain, line + spot_left.term + next, steps);
        right = read(paths, right_at, states, spot_right.term + next, steps);
        slices.multiply();
    }
    let sum = slices.total();
    let mut share = 0.0f32;
    if j < steps && column < states {
        if of_x {
            if j == 0 {
                put(by_c, system, column, sum);
            }
        } else {
            if j == 0 {
                put(by_b, system, column, dt * sum);
            }
            let change = select(j == 0, state, state - before); // dt r_j
            by_slopes[(system * steps + j) * states + column] = sum;
            share = sum * change / dt;
        }
    }
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let share = fold(share, &mut lanes, Fold::Sum, UNITS);
    if unit == 0 {
        shares[cube] = share;
        if tile == 0 {
            put(by_skip, system, 0, by_gains[last_gain]);
        }
    }
}

/// What the kernel is owed in four steps from `j` on, `dK[j]`, whose first lies at `last`; past the end the last of them again.
#[cube]
fn owed(by_gains: &[f32], last: usize, j: usize, steps: usize) -> Four {
    let mut four = Four::empty();
    #[unroll]
    for lane in 0..WIDE {
        four.insert(lane, by_gains[last - usize::min(j + lane, steps - 1)]);
    }
    four
}

/// The gradient of A, `[S, S]`, `dt sum_j p_j q_j^T` in the lower triangle, a workgroup a tile, and that of the step by the workgroup
/// behind them, of as many `given` shares as tiles left some.
#[cube(launch)]
pub(super) fn gradients(
    by_slopes: &[f32],
    paths: &[f32],
    step: &Sequence<Box<[f32]>>,
    shares: &[f32],
    by_a: &mut Sequence<Box<[f32]>>,
    by_step: &mut Sequence<Box<[f32]>>,
    steps: usize,
    given: usize,
    #[comptime] states: usize,
) {
    let across = comptime!(states.div_ceil(TILE));
    let tiles = comptime!(across * across + 1);
    let (system, tile, unit) = (CUBE_POS / tiles, CUBE_POS % tiles, UNIT_POS as usize);
    let (first_row, first_column) = (tile / across * TILE, tile % across * TILE);
    let x = path(1, system, 0, steps, states);

    let dt = entry(step, system, 0);
    let spot = spot(true);
    let left_at = system * steps * states + usize::min(first_row + spot.place, comptime!(states - 1));
    let right_at = x + usize::min(first_column + spot.place, comptime!(states - 1));
    let mut left = read(by_slopes, left_at, states, spot.term, steps);
    let mut right = read(paths, right_at, states, spot.term, steps);
    let earlier = usize::min(usize::max(spot.term, 1) - 1, steps - 1);
    let mut before = select(spot.term == 0, 0.0f32, paths[right_at + earlier * states]);
    let mut slices = Slices::new();
    // Above the diagonal, and for the step, there is nothing to multiply.
    let slices_of_tile =
        select(first_column <= first_row && first_row < states, steps.div_ceil(DEEP), 0usize);
    for slice in 0..slices_of_tile {
        let mut middles = Four::empty(); // q_j
        #[unroll]
        for lane in 0..WIDE {
            let state = right.extract(lane);
            middles.insert(lane, 0.5 * (before + state));
            before = state;
        }
        slices.put_left(&spot, left, steps - slice * DEEP);
        slices.put_right(&spot, middles, steps - slice * DEEP);
        // Asked for while this slice is multiplied; behind the last it is the last step again, which nobody puts.
        let next = spot.term + (slice + 1) * DEEP;
        left = read(by_slopes, left_at, states, next, steps);
        right = read(paths, right_at, states, next, steps);
        before = paths[right_at + usize::min(next - 1, steps - 1) * states];
        slices.multiply();
    }
    let sum = slices.total();
    let (row, column) = (first_row + unit / TILE, first_column + unit % TILE);
    if row < states && column < states {
        let lower = column <= row;
        put(by_a, system, row * states + column, select(lower, dt * sum, 0.0f32));
    }

    if tile + 1 == tiles {
        let mut lanes = Shared::<[f32]>::new_slice(UNITS);
        let mut share = 0.0f32;
        for round in 0..given.div_ceil(UNITS) {
            let at = round * UNITS + unit;
            if at < given {
                share += shares[system * given + at];
            }
        }
        let by_dt = fold(share, &mut lanes, Fold::Sum, UNITS);
        if unit == 0 {
            put(by_step, system, 0, by_dt);
        }
    }
}
