//! The kernels, in the order in which they run; [`super`] has their formulas. What is of all systems lies one behind the other.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::{Product, UNITS};

/// Entry `at` of what a system has.
#[cube]
fn entry(of_each: &Sequence<Box<[f32]>>, system: usize, at: usize) -> f32 {
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
fn put(of_each: &mut Sequence<Box<[f32]>>, system: usize, at: usize, value: f32) {
    #[unroll]
    for index in 0..of_each.len() {
        if system == index {
            of_each.index_mut(index)[at] = value;
        }
    }
}

/// `R = A (I - dt/2 A)^-1`, `[G, S, S]`, a workgroup a row, a thread an entry: from the diagonal to the left.
///
/// `(I - dt/2 A)^-1 A` by columns, from the diagonal down, is the same matrix, but costs float32 a digit more: of LegS with 256
/// states and a step of 0.1 the kernel would be 1e-4 off.
#[cube(launch)]
pub(super) fn rates(
    a: &Sequence<Box<[f32]>>,
    step: &Sequence<Box<[f32]>>,
    rates: &mut [f32],
    #[comptime] states: usize,
) {
    let (system, row, unit) = (CUBE_POS / states, CUBE_POS % states, UNIT_POS as usize);
    let half = 0.5 * entry(step, system, 0);
    let mut solved = Shared::<[f32]>::new_slice(states);
    let mut rate = 0.0f32;
    if unit <= row {
        rate = entry(a, system, row * states + unit);
    }
    for back in 0..=row {
        let k = row - back;
        if unit == k {
            rate /= 1.0 - half * entry(a, system, k * states + k);
            solved[k] = rate;
        }
        sync_cube();
        if unit < k {
            rate += half * solved[k] * entry(a, system, k * states + unit);
        }
    }
    if unit < states {
        rates[CUBE_POS * states + unit] = rate;
    }
}

/// The states `x_j` and the slopes `r_j`, `[G, N, S]` each, a workgroup a system.
#[cube(launch)]
pub(super) fn states(
    rates: &[f32],
    b: &Sequence<Box<[f32]>>,
    step: &Sequence<Box<[f32]>>,
    path: &mut [f32],
    slopes: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let (system, unit) = (CUBE_POS, UNIT_POS as usize);
    let dt = entry(step, system, 0);
    let first = system * steps;
    let mut product = Product::new(rates, system * comptime!(states * states), false, states);
    // The first step comes of B, `r_0 = B + dt/2 R B`, the others of the state.
    let mut impulse = 0.0f32;
    if unit < states {
        impulse = entry(b, system, unit);
    }
    let mut from = impulse;
    let mut state = 0.0f32;
    for j in 0..steps {
        let turned = product.times(from);
        let slope = select(j == 0, impulse + 0.5 * dt * turned, turned);
        state += dt * slope;
        if unit < states {
            path[(first + j) * states + unit] = state;
            slopes[(first + j) * states + unit] = slope;
        }
        from = state;
    }
}

/// The gain `G[N-1-j] = C x_j`, and D more where `j = 0`: `[G, N]`, a thread a step.
#[cube(launch)]
pub(super) fn outputs(
    path: &[f32],
    c: &Sequence<Box<[f32]>>,
    skip: &Sequence<Box<[f32]>>,
    gains: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let at = ABSOLUTE_POS;
    if at < gains.len() {
        let (system, j) = (at / steps, at % steps);
        let mut output = select(j == 0, entry(skip, system, 0), 0.0f32);
        for s in 0..states {
            output += entry(c, system, s) * path[at * states + s];
        }
        gains[system * steps + (steps - 1 - j)] = output;
    }
}

/// What the slopes are owed, `p_j`, `[G, N, S]`, and the gradients of D and of the step, a workgroup a system.
#[cube(launch)]
pub(super) fn adjoint(
    rates: &[f32],
    c: &Sequence<Box<[f32]>>,
    step: &Sequence<Box<[f32]>>,
    slopes: &[f32],
    by_gains: &[f32],
    by_slopes: &mut [f32],
    by_skip: &mut Sequence<Box<[f32]>>,
    by_step: &mut Sequence<Box<[f32]>>,
    steps: usize,
    #[comptime] states: usize,
) {
    let (system, unit) = (CUBE_POS, UNIT_POS as usize);
    let dt = entry(step, system, 0);
    let first = system * steps;
    let mut product = Product::new(rates, system * comptime!(states * states), true, states);
    let mut output = 0.0f32;
    if unit < states {
        output = entry(c, system, unit);
    }
    let mut later = 0.0f32; // y_{j+1} + dt R^T y_{j+1}
    let mut by_dt = 0.0f32;
    for back in 0..steps {
        let j = steps - 1 - back;
        let by_state = by_gains[first + (steps - 1 - j)] * output + later; // y_j
        let turned = product.times(by_state); // R^T y_j
        later = by_state + dt * turned;
        if unit < states {
            let by_slope = by_state + 0.5 * dt * turned;
            by_slopes[(first + j) * states + unit] = by_slope;
            by_dt += by_slope * slopes[(first + j) * states + unit];
        }
    }
    let by_dt = product.total(by_dt);
    if unit == 0 {
        put(by_skip, system, 0, by_gains[first + (steps - 1)]);
        put(by_step, system, 0, by_dt);
    }
}

/// The gradients of A, `[S, S]`, of B and of C, a thread an entry: `dt sum_j p_j q_j^T` in the lower triangle, `dt p_0`, and
/// `sum_j dK[j] x_j`.
#[cube(launch)]
pub(super) fn gradients(
    by_slopes: &[f32],
    path: &[f32],
    slopes: &[f32],
    step: &Sequence<Box<[f32]>>,
    by_gains: &[f32],
    by_a: &mut Sequence<Box<[f32]>>,
    by_b: &mut Sequence<Box<[f32]>>,
    by_c: &mut Sequence<Box<[f32]>>,
    steps: usize,
    #[comptime] states: usize,
) {
    let each = comptime!(entries(states).div_ceil(UNITS));
    let (system, at) = (CUBE_POS / each, CUBE_POS % each * UNITS + UNIT_POS as usize);
    let dt = entry(step, system, 0);
    let first = system * steps;
    if at < comptime!(states * states) {
        let (row, column) = (at / states, at % states);
        let mut sum = 0.0f32;
        if column <= row {
            for j in first..first + steps {
                let middle = path[j * states + column] - 0.5 * dt * slopes[j * states + column]; // q_j
                sum += by_slopes[j * states + row] * middle;
            }
        }
        put(by_a, system, at, dt * sum);
    } else if at < comptime!(entries(states)) {
        let s = at - comptime!(states * states);
        let mut sum = 0.0f32;
        for back in 0..steps {
            sum += by_gains[first + back] * path[(first + (steps - 1 - back)) * states + s];
        }
        put(by_b, system, s, dt * by_slopes[first * states + s]);
        put(by_c, system, s, sum);
    }
}

/// Entries of A and of B, or of C: as many threads make the gradients of a system.
pub(super) const fn entries(states: usize) -> usize {
    states * (states + 1)
}
