//! Forward, in the order in which they run; [`super`] has their formulas. What is of all systems lies one behind the other.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::{DEEP, Four, Slices, TILE, WIDE, read, spot};
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
/// for all of these, by substitution, while it asks for what the next count. A thread divides once, before any of them, and what it
/// then puts into shared memory, its right side and its column of the block, is divided already.
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
    // Two of each: while threads still read those of one block, others write those of the next.
    let mut rights = Shared::<[f32]>::new_slice(comptime!(2 * BLOCK));
    let mut implicit = Shared::<[Four]>::new_slice(comptime!(2 * BLOCK * BLOCK / WIDE)); // [rows / 4, 2, columns]
    let blocks = last / BLOCK + 1;
    let mut next = Array::<f32>::new(BLOCK);
    ask(a, system, (blocks - 1) * BLOCK, &mut next, states);
    for back in 0..blocks {
        let first = (blocks - 1 - back) * BLOCK;
        let room = back % 2 * BLOCK;
        let mut counts = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            counts[k] = next[k];
        }
        if unit >= first && unit < first + BLOCK {
            let column = room + (unit - first);
            rights[column] = pivot * right;
            #[unroll]
            for four in 0..comptime!(BLOCK / WIDE) {
                let mut divided = Four::empty();
                #[unroll]
                for lane in 0..WIDE {
                    divided.insert(lane, half * pivot * counts[comptime!(four * WIDE + lane)]);
                }
                implicit[column + comptime!(four * 2 * BLOCK)] = divided;
            }
        }
        if back + 1 < blocks {
            ask(a, system, first - BLOCK, &mut next, states);
        }
        sync_cube();
        let mut block = Array::<f32>::new(BLOCK);
        #[unroll]
        for k in 0..BLOCK {
            block[k] = rights[room + k];
        }
        // A column takes up four unknowns at once; the columns left of it, which wait for its own unknown, come after it.
        #[unroll]
        for behind in 0..comptime!(BLOCK / WIDE) {
            let four = comptime!(BLOCK / WIDE - 1 - behind);
            #[unroll]
            for before in 0..comptime!(four * WIDE + WIDE - 1) {
                let column = comptime!(four * WIDE + WIDE - 2 - before);
                let divided = implicit[room + comptime!(four * 2 * BLOCK + column)];
                #[unroll]
                for later in 0..WIDE {
                    let lane = comptime!(WIDE - 1 - later);
                    let k = comptime!(four * WIDE + lane);
                    if comptime!(k > column) {
                        block[column] += block[k] * divided.extract(lane);
                    }
                }
            }
        }
        let mut sum = 0.0f32;
        #[unroll]
        for k in 0..BLOCK {
            sum += block[k] * counts[k];
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
        let turned = fold(entry_of_e * impulse, &mut lanes, Fold::Sum, units);
        if unit == row {
            paths[path(1, system, 0, steps, states) + row] = dt * (impulse + 0.5 * turned);
        }
    }
}

/// Asks for what the unknowns of the block that begins at `first` count in this thread's column of A, unless its own unknown is known.
#[cube]
fn ask(
    a: &Sequence<Box<[f32]>>,
    system: usize,
    first: usize,
    counts: &mut Array<f32>,
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
                counts[k] = a.index(index)[row * states + column];
            }
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

    let (spot_left, spot_right) = (spot(false), spot(!of_x));
    let left = start + usize::min(first_row + spot_left.place, rows - 1) * states;
    let column = usize::min(first_column + spot_right.place, comptime!(states - 1));
    let right = matrix + select(of_x, column * states, column);
    let apart = select(of_x, 1usize, states);
    // All slices are asked for before anyone waits for the first.
    let mut lefts = Array::<Four>::new(comptime!(states.div_ceil(DEEP)));
    let mut rights = Array::<Four>::new(comptime!(states.div_ceil(DEEP)));
    #[unroll]
    for slice in 0..comptime!(states.div_ceil(DEEP)) {
        let term = spot_left.term + comptime!(slice * DEEP);
        if square {
            lefts[slice] = read(power, left, 1, term, states);
        } else {
            lefts[slice] = read(&*paths, left, 1, term, states);
        }
        rights[slice] = read(power, right, apart, spot_right.term + comptime!(slice * DEEP), states);
    }
    let mut slices = Slices::new();
    #[unroll]
    for slice in 0..comptime!(states.div_ceil(DEEP)) {
        slices.put_left(&spot_left, lefts[slice], comptime!(states - slice * DEEP));
        slices.put_right(&spot_right, rights[slice], comptime!(states - slice * DEEP));
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
