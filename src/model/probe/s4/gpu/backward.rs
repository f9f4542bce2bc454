//! Back, in the order in which they run; [`super`] has their formulas.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::{DEEP, EACH, Slices, TILE, UNITS, spot};
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
    let read = path(select(of_x, 1usize, 0usize), system, 0, steps, states);
    let last_gain = system * steps + (steps - 1); // that of j = 0

    let mut slices = Slices::new();
    let mut sum = 0.0f32;
    for slice in 0..(steps - first_row).div_ceil(DEEP) {
        #[unroll]
        for nth in 0..EACH {
            let spot_left = spot(nth, false);
            let j = first_row + spot_left.place + spot_left.term + slice * DEEP;
            let mut left = 0.0f32;
            if j < steps {
                left = by_gains[last_gain - j];
            }
            slices.put_left(spot_left, left);
            let spot_right = spot(nth, true);
            let (column, m) = (first_column + spot_right.place, spot_right.term + slice * DEEP);
            let mut right = 0.0f32;
            if column < states && m < steps {
                right = paths[read + m * states + column];
            }
            slices.put_right(spot_right, right);
        }
        sum += slices.product();
    }

    let (j, column) = (first_row + unit / TILE, first_column + unit % TILE);
    let mut share = 0.0f32;
    if j < steps && column < states {
        if of_x {
            if j == 0 {
                put(by_c, system, column, sum);
            }
        } else {
            let dt = entry(step, system, 0);
            let at = path(1, system, j, steps, states) + column;
            let mut change = paths[at]; // dt r_j
            if j > 0 {
                change -= paths[at - states];
            } else {
                put(by_b, system, column, dt * sum);
            }
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

    let mut slices = Slices::new();
    let mut sum = 0.0f32;
    // Above the diagonal, and for the step, there is nothing to multiply.
    let slices_of_tile =
        select(first_column <= first_row && first_row < states, steps.div_ceil(DEEP), 0usize);
    for slice in 0..slices_of_tile {
        #[unroll]
        for nth in 0..EACH {
            let (spot_left, spot_right) = (spot(nth, true), spot(nth, true));
            let row = first_row + spot_left.place;
            let (column, j) = (first_column + spot_right.place, spot_right.term + slice * DEEP);
            let mut left = 0.0f32;
            if row < states && j < steps {
                left = by_slopes[(system * steps + j) * states + row];
            }
            slices.put_left(spot_left, left);
            let mut middle = 0.0f32; // q_j
            if column < states && j < steps {
                middle = paths[x + j * states + column];
                if j > 0 {
                    middle += paths[x + (j - 1) * states + column];
                }
            }
            slices.put_right(spot_right, 0.5 * middle);
        }
        sum += slices.product();
    }
    let (row, column) = (first_row + unit / TILE, first_column + unit % TILE);
    if row < states && column < states {
        let lower = column <= row;
        put(by_a, system, row * states + column, select(lower, entry(step, system, 0) * sum, 0.0f32));
    }

    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut share = 0.0f32;
    if tile + 1 == tiles {
        for round in 0..given.div_ceil(UNITS) {
            let at = round * UNITS + unit;
            if at < given {
                share += shares[system * given + at];
            }
        }
    }
    let by_dt = fold(share, &mut lanes, Fold::Sum, UNITS);
    if tile + 1 == tiles && unit == 0 {
        put(by_step, system, 0, by_dt);
    }
}
