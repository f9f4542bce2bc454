//! Forward, in the order in which they run; [`super`] has their formulas. What is of all systems lies one behind the other.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::{DEEP, EACH, Slices, TILE, spot};
use super::systems::{entry, path};
use crate::model::ops::gpu::fold::{Fold, fold};

/// Unknowns that every thread solves for itself.
const BLOCK: usize = 16;

/// Threads of a workgroup that has one for every state.
pub(super) fn units(states: usize) -> usize {
    states.next_power_of_two().max(32)
}

/// `E = dt A (I - dt/2 A)^-1`, `[G, S, S]`, and the first of the paths, `w_0 = (I - dt/2 A)^-T C` and `x_0 = dt (B + E B / 2)`: a
/// workgroup solves `solved (I - dt/2 A) = row` for a row of A, or for C, a thread an entry, from the right to the left.
///
/// `(I - dt/2 A)^-1 A` by columns, from the diagonal down, is the same matrix, but costs float32 a digit more: of LegS with 256
/// states and a step of 0.1 the kernel would be 1e-4 off.
///
/// Unknowns depend on each other one by one. So that threads wait for each other only once for [`BLOCK`] of them, each solves
/// for all of these, by substitution.
#[cube(launch)]
pub(super) fn solve(
    a: &Sequence<Box<[f32]>>,
    b: &Sequence<Box<[f32]>>,
    c: &Sequence<Box<[f32]>>,
    step: &Sequence<Box<[f32]>>,
    power: &mut [f32],
    paths: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let units = comptime!(units(states));
    let rows = comptime!(states + 1);
    let (system, row, unit) = (CUBE_POS / rows, CUBE_POS % rows, UNIT_POS as usize);
    let dt = entry(step, system, 0);
    let half = 0.5 * dt;
    let last = usize::min(row, comptime!(states - 1));
    let mut right = 0.0f32;
    if row == states {
        if unit < states {
            right = entry(c, system, unit);
        }
    } else if unit <= row {
        right = entry(a, system, row * states + unit);
    }
    let mut solved = 0.0f32;
    let mut rights = Shared::<[f32]>::new_slice(BLOCK);
    let mut implicit = Shared::<[f32]>::new_slice(comptime!(BLOCK * BLOCK)); // dt/2 A in a block's rows and columns
    let blocks = last / BLOCK + 1;
    for back in 0..blocks {
        let first = (blocks - 1 - back) * BLOCK;
        // What the block's unknowns count to the left of it, asked for before it is needed.
        let mut beyond = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            beyond[k] = 0.0;
            if unit < first && first + k < states {
                beyond[k] = entry(a, system, (first + k) * states + unit);
            }
        }
        #[unroll]
        for nth in 0..comptime!((BLOCK * BLOCK).div_ceil(units)) {
            let at = unit + nth * units;
            let (k, column) = (at / BLOCK, at % BLOCK);
            if at < comptime!(BLOCK * BLOCK) {
                let mut value = 0.0f32;
                if column <= k && first + k < states {
                    value = half * entry(a, system, (first + k) * states + first + column);
                }
                implicit[at] = value;
            }
        }
        if unit >= first && unit < first + BLOCK {
            rights[unit - first] = right;
        }
        sync_cube();
        let mut block = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            block[k] = rights[k];
        }
        #[unroll]
        for behind in 0..BLOCK {
            let k = comptime!(BLOCK - 1 - behind);
            block[k] /= 1.0 - implicit[comptime!(k * BLOCK + k)];
            #[unroll]
            for column in 0..k {
                block[column] += block[k] * implicit[comptime!(k * BLOCK + column)];
            }
        }
        let mut sum = 0.0f32;
        #[unroll]
        for k in 0..BLOCK {
            sum += block[k] * beyond[k];
            if unit == first + k {
                solved = block[k];
            }
        }
        right += half * sum;
        sync_cube();
    }
    if row == states {
        if unit < states {
            paths[path(0, system, 0, steps, states) + unit] = solved;
        }
    } else {
        let mut lanes = Shared::<[f32]>::new_slice(units);
        let entry_of_e = dt * solved;
        let mut impulse = 0.0f32;
        if unit < states {
            power[(system * states + row) * states + unit] = entry_of_e;
            impulse = entry(b, system, unit);
        }
        let turned = fold(entry_of_e * impulse, &mut lanes, Fold::Sum, units);
        if unit == row {
            paths[path(1, system, 0, steps, states) + row] = dt * (impulse + 0.5 * turned);
        }
    }
}

/// Workgroups of [`double`] for a system.
pub(super) fn tiles_of_doubling([known, steps, states]: [usize; 3], squares: bool) -> usize {
    let rows = 2 * fresh(known, steps).div_ceil(TILE) + if squares { states.div_ceil(TILE) } else { 0 };
    rows * states.div_ceil(TILE)
}

/// Steps that double what is known, as far as there are any.
fn fresh(known: usize, steps: usize) -> usize {
    known.min(steps - known)
}

/// From a power `E = Abar^known - I` and as many steps of the paths, `[G, 2, N, S]`, as many steps more, `w E + w` and `x E^T + x`,
/// and the next power, `E E + 2 E`: all of them rows times a matrix. A workgroup makes a tile, of the power first where it
/// is asked for.
#[cube(launch)]
pub(super) fn double(
    power: &[f32],
    next: &mut [f32],
    paths: &mut [f32],
    known: usize,
    steps: usize,
    tiles: usize,
    count: usize,
    #[comptime] squares: bool,
    #[comptime] states: usize,
) {
    let (cube, unit) = (usize::min(CUBE_POS, count - 1), UNIT_POS as usize);
    let (system, tile) = (cube / tiles, cube % tiles);
    let across = comptime!(states.div_ceil(TILE));
    let (band, first_column) = (tile / across, tile % across * TILE);
    let squared = comptime!(if squares { states.div_ceil(TILE) } else { 0 }); // bands
    let fresh = usize::min(known, steps - known);
    let each = fresh.div_ceil(TILE);
    let square = band < squared;
    let of_x = band >= squared + each;
    let matrix = system * comptime!(states * states);
    // Where the rows begin, how many there are, and this tile's first.
    let start = select(square, matrix, path(select(of_x, 1usize, 0usize), system, 0, steps, states));
    let rows = select(square, states, fresh);
    let first_row = select(square, band, (band - squared) % each) * TILE;

    let mut slices = Slices::new();
    let mut sum = 0.0f32;
    #[unroll]
    for slice in 0..comptime!(states.div_ceil(DEEP)) {
        #[unroll]
        for nth in 0..EACH {
            let spot_left = spot(nth, false);
            let (row, term) = (first_row + spot_left.place, spot_left.term + comptime!(slice * DEEP));
            let mut left = 0.0f32;
            if row < rows && term < states {
                let at = start + row * states + term;
                if square {
                    left = power[at];
                } else {
                    left = paths[at];
                }
            }
            slices.put_left(spot_left, left);
            let spot_right = spot(nth, !of_x);
            let (column, term) = (first_column + spot_right.place, spot_right.term + comptime!(slice * DEEP));
            let mut right = 0.0f32;
            if column < states && term < states {
                right = power[matrix + select(of_x, column * states + term, term * states + column)];
            }
            slices.put_right(spot_right, right);
        }
        sum += slices.product();
    }
    let (row, column) = (first_row + unit / TILE, first_column + unit % TILE);
    if row < rows && column < states {
        let at = start + row * states + column;
        if square {
            next[at] = sum + 2.0 * power[at];
        } else {
            paths[at + known * states] = sum + paths[at];
        }
    }
}

/// The gain `G[N-1-j] = C x_j`, and D more where `j = 0`: `[G, N]`, a workgroup a step, a thread a state.
#[cube(launch)]
pub(super) fn outputs(
    paths: &[f32],
    c: &Sequence<Box<[f32]>>,
    skip: &Sequence<Box<[f32]>>,
    gains: &mut [f32],
    steps: usize,
    count: usize,
    #[comptime] states: usize,
) {
    let cube = usize::min(CUBE_POS, count - 1);
    let (system, j, unit) = (cube / steps, cube % steps, UNIT_POS as usize);
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(units(states)));
    let mut term = 0.0f32;
    if unit < states {
        term = entry(c, system, unit) * paths[path(1, system, j, steps, states) + unit];
    }
    let output = fold(term, &mut lanes, Fold::Sum, comptime!(units(states)));
    if unit == 0 {
        gains[system * steps + (steps - 1 - j)] = output + select(j == 0, entry(skip, system, 0), 0.0f32);
    }
}
