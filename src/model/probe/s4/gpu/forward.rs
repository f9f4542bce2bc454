//! Kernels of the forward pass, in the order in which they run; [`super`] has their formulas. Systems lie one after another in a buffer.

use super::product::{DEPTH, Slices, TILE, read, slot};
use super::systems::{entry, path};
use crate::model::ops::gpu::prelude::*;

/// Unknowns of a block, which every thread solves for itself.
const BLOCK: usize = 16;

/// Threads of a workgroup with one thread per state.
pub(super) fn units(states: usize) -> usize {
    states.next_power_of_two().max(32)
}

/// `E = dt A (I - dt/2 A)^-1`, `[G, S, S]`, and the first step of each path, `w_0 = (I - dt/2 A)^-T C` and `x_0 = dt (B + E B / 2)`.
/// A workgroup solves `solved (I - dt/2 A) = row` for one row of A, or for C, one thread per entry, from right to left.
///
/// Solving for `(I - dt/2 A)^-1 A` by columns, from the diagonal down, gives the same matrix, but loses one more digit of float32: for
/// LegS with 256 states and a step of 0.1 the kernel would be 1e-4 off.
///
/// Each unknown depends on those before it. To need only one barrier per [`BLOCK`] of unknowns, every thread solves for all unknowns of
/// a block by substitution, while it loads the coefficients of the next block. A thread computes the reciprocal of its pivot once, at
/// the start; the right side and the block's column that it writes to shared memory are already multiplied by it.
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
    let own = usize::min(unit, comptime!(states - 1));
    let impulse = entry(b, system, own);
    let pivot = 1.0 / (1.0 - half * entry(a, system, own * rows));
    let mut right = 0.0f32;
    if row == states {
        if unit < states {
            right = entry(c, system, unit);
        }
    } else if unit <= row {
        right = entry(a, system, row * states + unit);
    }
    let mut solved = 0.0f32;
    // Double-buffered: while some threads still read one block, others write the next.
    let mut rights = Shared::<[f32]>::new_slice(comptime!(2 * BLOCK));
    let mut implicit = Shared::<[Vec4]>::new_slice(comptime!(2 * BLOCK * BLOCK / VECTOR_SIZE)); // [rows / 4, 2, columns]
    let blocks = last / BLOCK + 1;
    let mut next = Array::<f32>::new(BLOCK);
    load_coefficients(a, system, (blocks - 1) * BLOCK, &mut next, states);
    for back in 0..blocks {
        let first = (blocks - 1 - back) * BLOCK;
        let buffer = back % 2 * BLOCK;
        let mut coefficients = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            coefficients[k] = next[k];
        }
        if unit >= first && unit < first + BLOCK {
            let column = buffer + (unit - first);
            rights[column] = pivot * right;
            #[unroll]
            for vector in 0..comptime!(BLOCK / VECTOR_SIZE) {
                let mut divided = Vec4::empty();
                #[unroll]
                for lane in 0..VECTOR_SIZE {
                    divided.insert(lane, half * pivot * coefficients[comptime!(vector * VECTOR_SIZE + lane)]);
                }
                implicit[column + comptime!(vector * 2 * BLOCK)] = divided;
            }
        }
        if back + 1 < blocks {
            load_coefficients(a, system, first - BLOCK, &mut next, states);
        }
        sync_cube();
        let mut block = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            block[k] = rights[buffer + k];
        }
        // A column takes in four unknowns at once; the columns left of it need its own unknown, so they come after it.
        #[unroll]
        for reversed in 0..comptime!(BLOCK / VECTOR_SIZE) {
            let vector = comptime!(BLOCK / VECTOR_SIZE - 1 - reversed);
            #[unroll]
            for before in 0..comptime!(vector * VECTOR_SIZE + VECTOR_SIZE - 1) {
                let column = comptime!(vector * VECTOR_SIZE + VECTOR_SIZE - 2 - before);
                let divided = implicit[buffer + comptime!(vector * 2 * BLOCK + column)];
                #[unroll]
                for later in 0..VECTOR_SIZE {
                    let lane = comptime!(VECTOR_SIZE - 1 - later);
                    let k = comptime!(vector * VECTOR_SIZE + lane);
                    if comptime!(k > column) {
                        block[column] += block[k] * divided.extract(lane);
                    }
                }
            }
        }
        let mut sum = 0.0f32;
        #[unroll]
        for k in 0..BLOCK {
            sum += block[k] * coefficients[k];
            if unit == first + k {
                solved = block[k];
            }
        }
        right += half * sum;
    }
    if row == states {
        if unit < states {
            paths[path(0, system, 0, steps, states) + unit] = solved;
        }
    } else {
        let mut lanes = Shared::<[f32]>::new_slice(units);
        let entry_of_e = dt * solved;
        if unit < states {
            power[(system * states + row) * states + unit] = entry_of_e;
        }
        let e_b = fold(entry_of_e * impulse, &mut lanes, Fold::Sum, units);
        if unit == row {
            paths[path(1, system, 0, steps, states) + row] = dt * (impulse + 0.5 * e_b);
        }
    }
}

/// Loads this thread's column of A in the rows of the block that begins at `first`, unless the thread's own unknown is solved already.
#[cube]
fn load_coefficients(
    a: &Sequence<Box<[f32]>>,
    system: usize,
    first: usize,
    coefficients: &mut Array<f32>,
    #[comptime] states: usize,
) {
    let unit = UNIT_POS as usize;
    let column = usize::min(unit, comptime!(states - 1));
    #[unroll]
    for index in 0..a.len() {
        if system == index && unit < first + BLOCK {
            #[unroll]
            for k in 0..BLOCK {
                let row = usize::min(first + k, comptime!(states - 1));
                coefficients[k] = a.index(index)[row * states + column];
            }
        }
    }
}

/// Workgroups of [`double()`] per system. `squares`: whether the next power is computed, too.
pub(super) fn tiles_of_doubling([known, steps, states]: [usize; 3], squares: bool) -> usize {
    let rows = 2 * fresh(known, steps).div_ceil(TILE) + if squares { states.div_ceil(TILE) } else { 0 };
    rows * states.div_ceil(TILE)
}

/// Steps that the next doubling adds: as many as are known, or those that are left.
fn fresh(known: usize, steps: usize) -> usize {
    known.min(steps - known)
}

/// From the power `E = Abar^known - I` and the first `known` steps of the paths, `[G, 2, N, S]`, computes as many further steps,
/// `w E + w` and `x E^T + x`, and with `squares` the next power, `E E + 2 E`: all of them rows times a matrix. Each workgroup computes
/// one tile; those of the power come first.
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
    // Where the rows begin, their number, and the first of this tile.
    let start = select(square, matrix, path(select(of_x, 1usize, 0usize), system, 0, steps, states));
    let rows = select(square, states, fresh);
    let first_row = select(square, band, (band - squared) % each) * TILE;

    let (slot_left, slot_right) = (slot(false), slot(!of_x));
    let left = start + usize::min(first_row + slot_left.line, rows - 1) * states;
    let column = usize::min(first_column + slot_right.line, comptime!(states - 1));
    let right = matrix + select(of_x, column * states, column);
    let stride = select(of_x, 1usize, states);
    // All slices are loaded before any thread waits for the first.
    let mut lefts = Array::<Vec4>::new(comptime!(states.div_ceil(DEPTH)));
    let mut rights = Array::<Vec4>::new(comptime!(states.div_ceil(DEPTH)));
    #[unroll]
    for slice in 0..comptime!(states.div_ceil(DEPTH)) {
        let term = slot_left.term + comptime!(slice * DEPTH);
        if square {
            lefts[slice] = read(power, left, 1, term, states);
        } else {
            lefts[slice] = read(&*paths, left, 1, term, states);
        }
        rights[slice] = read(power, right, stride, slot_right.term + comptime!(slice * DEPTH), states);
    }
    let mut slices = Slices::new();
    #[unroll]
    for slice in 0..comptime!(states.div_ceil(DEPTH)) {
        slices.store_left(&slot_left, lefts[slice], comptime!(states - slice * DEPTH));
        slices.store_right(&slot_right, rights[slice], comptime!(states - slice * DEPTH));
        slices.multiply();
    }
    let sum = slices.total();
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

/// The gain `G[N-1-j] = C x_j`, plus D where `j = 0`: `[G, N]`, one workgroup per step, one thread per state.
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
