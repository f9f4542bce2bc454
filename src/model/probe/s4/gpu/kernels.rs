//! The kernels, in the order in which they run; [`super`] has their formulas.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::product::Product;

/// `R = A (I - dt/2 A)^-1`, `[S, S]`, a workgroup a row, a thread an entry: from the diagonal to the left.
///
/// `(I - dt/2 A)^-1 A` by columns, from the diagonal down, is the same matrix, but costs float32 a digit more: of LegS with 256
/// states and a step of 0.1 the kernel would be 1e-4 off.
#[cube(launch)]
pub(super) fn rates(a: &[f32], step: &[f32], rates: &mut [f32], #[comptime] states: usize) {
    let (row, unit) = (CUBE_POS, UNIT_POS as usize);
    let half = 0.5 * step[0];
    let mut solved = Shared::<[f32]>::new_slice(states);
    let mut rate = 0.0f32;
    if unit <= row {
        rate = a[row * states + unit];
    }
    for back in 0..=row {
        let k = row - back;
        if unit == k {
            rate /= 1.0 - half * a[k * states + k];
            solved[k] = rate;
        }
        sync_cube();
        if unit < k {
            rate += half * solved[k] * a[k * states + unit];
        }
    }
    if unit < states {
        rates[row * states + unit] = rate;
    }
}

/// The states `x_j` and the slopes `r_j`, `[N, S]` each, by one workgroup.
#[cube(launch)]
pub(super) fn states(
    rates: &[f32],
    b: &[f32],
    step: &[f32],
    path: &mut [f32],
    slopes: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let unit = UNIT_POS as usize;
    let dt = step[0];
    let mut product = Product::new(rates, false, states);
    // The first step comes of B, `r_0 = B + dt/2 R B`, the others of the state.
    let mut impulse = 0.0f32;
    if unit < states {
        impulse = b[unit];
    }
    let (mut from, mut share) = (impulse, 0.5 * dt);
    let mut state = 0.0f32;
    for j in 0..steps {
        let slope = impulse + share * product.times(from);
        state += dt * slope;
        if unit < states {
            path[j * states + unit] = state;
            slopes[j * states + unit] = slope;
        }
        from = state;
        share = 1.0;
        impulse = 0.0;
    }
}

/// The gain `G[N-1-j] = C x_j`, and D more where `j = 0`: `[N]`, a thread a step.
#[cube(launch)]
pub(super) fn outputs(path: &[f32], c: &[f32], skip: &[f32], gain: &mut [f32], #[comptime] states: usize) {
    let j = ABSOLUTE_POS;
    if j < gain.len() {
        let mut output = select(j == 0, skip[0], 0.0f32);
        for s in 0..states {
            output += c[s] * path[j * states + s];
        }
        gain[gain.len() - 1 - j] = output;
    }
}

/// What the slopes are owed, `p_j`, `[N, S]`, and the gradients of D and of the step, by one workgroup.
#[cube(launch)]
pub(super) fn adjoint(
    rates: &[f32],
    c: &[f32],
    step: &[f32],
    slopes: &[f32],
    by_gain: &[f32],
    by_slopes: &mut [f32],
    by_skip: &mut [f32],
    by_step: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let unit = UNIT_POS as usize;
    let dt = step[0];
    let mut product = Product::new(rates, true, states);
    let mut output = 0.0f32;
    if unit < states {
        output = c[unit];
    }
    let mut later = 0.0f32; // y_{j+1} + dt R^T y_{j+1}
    let mut by_dt = 0.0f32;
    for back in 0..steps {
        let j = steps - 1 - back;
        let by_state = by_gain[steps - 1 - j] * output + later; // y_j
        let turned = product.times(by_state); // R^T y_j
        later = by_state + dt * turned;
        if unit < states {
            let by_slope = by_state + 0.5 * dt * turned;
            by_slopes[j * states + unit] = by_slope;
            by_dt += by_slope * slopes[j * states + unit];
        }
    }
    let by_dt = product.total(by_dt);
    if unit == 0 {
        by_skip[0] = by_gain[steps - 1];
        by_step[0] = by_dt;
    }
}

/// The gradients of A, `[S, S]`, of B and of C, a thread an entry: `dt sum_j p_j q_j^T` in the lower triangle, `dt p_0`, and
/// `sum_j dK[j] x_j`.
#[cube(launch)]
pub(super) fn gradients(
    by_slopes: &[f32],
    path: &[f32],
    slopes: &[f32],
    step: &[f32],
    by_gain: &[f32],
    by_a: &mut [f32],
    by_b: &mut [f32],
    by_c: &mut [f32],
    steps: usize,
    #[comptime] states: usize,
) {
    let at = ABSOLUTE_POS;
    let dt = step[0];
    if at < comptime!(states * states) {
        let (row, column) = (at / states, at % states);
        let mut sum = 0.0f32;
        if column <= row {
            for j in 0..steps {
                let middle = path[j * states + column] - 0.5 * dt * slopes[j * states + column]; // q_j
                sum += by_slopes[j * states + row] * middle;
            }
        }
        by_a[at] = dt * sum;
    } else if at < comptime!(states * (states + 1)) {
        let s = at - comptime!(states * states);
        let mut sum = 0.0f32;
        for j in 0..steps {
            sum += by_gain[steps - 1 - j] * path[j * states + s];
        }
        by_b[s] = dt * by_slopes[s];
        by_c[s] = sum;
    }
}
