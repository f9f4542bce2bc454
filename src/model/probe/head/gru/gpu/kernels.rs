//! The kernels: a workgroup reads some images in one direction, a thread a state.
//!
//! The images lie side by side in a vector, so that an entry of the weights that is read counts for all of them, and a state that
//! comes through shared memory brings theirs, too. Two threads share the products of a state, and the first of them goes on with
//! the sum. Each step reads the weights anew, which stay in a cache.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::super::{GATES, HIDDEN};
use crate::model::ops::gpu::FLAT;

/// Images of a workgroup.
pub(super) const IMAGES: usize = 4;
/// How many threads share the products of a state.
const PARTS: usize = 2;
/// Threads of a workgroup.
pub(super) const UNITS: usize = PARTS * HIDDEN;
/// Rounds of a loop that are written out, so that what they read is asked for at once.
const AT_ONCE: usize = 8;

/// How many rounds of a loop `steps` steps take: the more of both directions.
pub(super) const fn rounds(steps: usize) -> usize {
    steps * (1 + GATES / PARTS / AT_ONCE)
}

/// A number of every image of a workgroup.
type Each = Vector<f32, Const<IMAGES>>;

/// Reads all tokens. `inputs`: `[B, N, 2, 384]`, their projections, biases added; `from_state`: `[2, 128, 384]`, `bias`: `[2, 384]`, what
/// the state says to the gates; `last`: `[B, 2, 128]`. With `keep` also what [`retreat`] needs: the gates r, z and n, `[B, N, 2, 384]`, and by
/// direction, `[2, B, N, 128]`, the state before each step and what it offers n.
#[cube(launch)]
pub(super) fn advance(
    inputs: &[f32],
    from_state: &[f32],
    bias: &[f32],
    last: &mut [f32],
    gates: &mut [f32],
    before: &mut [f32],
    offered: &mut [f32],
    steps: usize,
    #[comptime] keep: bool,
) {
    let (direction, i, part) = (CUBE_POS % 2, UNIT_POS as usize % HIDDEN, UNIT_POS as usize / HIDDEN);
    let images = last.len() / comptime!(2 * HIDDEN);
    let mut states = Shared::<[Each]>::new_slice(HIDDEN);
    let mut sums = Shared::<[Each]>::new_slice(comptime!(GATES));
    let bias = &bias[direction * GATES..];
    let mut state = Each::new(0.0);
    for step in 0..steps {
        let at = token(step, steps, direction);
        if part == 0 {
            states[i] = state;
        }
        let first = (at * 2 + direction) * GATES + i;
        let width = steps * comptime!(2 * GATES);
        let mut reset = load(inputs, images, width, first);
        let mut keep_on = load(inputs, images, width, first + HIDDEN);
        let new = load(inputs, images, width, first + comptime!(2 * HIDDEN));
        sync_cube();
        let (mut to_reset, mut to_keep, mut to_new) = (Each::new(0.0), Each::new(0.0), Each::new(0.0));
        for round in 0..comptime!(HIDDEN / PARTS / AT_ONCE) {
            #[unroll]
            for k in 0..AT_ONCE {
                let k = part * comptime!(HIDDEN / PARTS) + round * AT_ONCE + k;
                let (row, state) = ((direction * HIDDEN + k) * GATES + i, states[k]);
                to_reset += Each::new(from_state[row]) * state;
                to_keep += Each::new(from_state[row + HIDDEN]) * state;
                to_new += Each::new(from_state[row + comptime!(2 * HIDDEN)]) * state;
            }
        }
        if part == 1 {
            sums[i] = to_reset;
            sums[i + HIDDEN] = to_keep;
            sums[i + comptime!(2 * HIDDEN)] = to_new;
        }
        sync_cube();
        if part == 0 {
            reset = sigmoid(reset + to_reset + sums[i] + Each::new(bias[i]));
            keep_on = sigmoid(keep_on + to_keep + sums[i + HIDDEN] + Each::new(bias[i + HIDDEN]));
            let offer = to_new + sums[i + comptime!(2 * HIDDEN)] + Each::new(bias[i + comptime!(2 * HIDDEN)]);
            let new = hyperbolic_tangent(new + reset * offer);
            if comptime!(keep) {
                store(reset, gates, images, width, first);
                store(keep_on, gates, images, width, first + HIDDEN);
                store(new, gates, images, width, first + comptime!(2 * HIDDEN));
                let (first, width) = ((direction * images * steps + at) * HIDDEN + i, steps * HIDDEN);
                store(state, before, images, width, first);
                store(offer, offered, images, width, first);
            }
            state = new + keep_on * (state - new);
        }
    }
    if part == 0 {
        store(state, last, images, comptime!(2 * HIDDEN), direction * HIDDEN + i);
    }
}

/// Goes back through all tokens. `gates`, `before`, `offered`: as [`advance`] keeps them; `from_state`: `[2, 384, 128]`; `by_last`: `[B, 2,
/// 128]`. What the gates owe before their activations: as the tokens see it, `by_inputs` `[B, N, 2, 384]`, and as the state does, which
/// reaches n through r, `by_offers` `[2, B, N, 384]`.
#[cube(launch)]
pub(super) fn retreat(
    gates: &[f32],
    before: &[f32],
    offered: &[f32],
    from_state: &[f32],
    by_last: &[f32],
    by_inputs: &mut [f32],
    by_offers: &mut [f32],
    steps: usize,
) {
    let (direction, i, part) = (CUBE_POS % 2, UNIT_POS as usize % HIDDEN, UNIT_POS as usize / HIDDEN);
    let images = by_last.len() / comptime!(2 * HIDDEN);
    let mut owed = Shared::<[Each]>::new_slice(comptime!(GATES));
    let mut sums = Shared::<[Each]>::new_slice(HIDDEN);
    let one = Each::new(1.0);
    let mut by_state = load(by_last, images, comptime!(2 * HIDDEN), direction * HIDDEN + i);
    let last = token(steps - 1, steps, direction);
    let mut kept = load_kept(gates, before, offered, images, steps, direction, last, i);
    for back in 0..steps {
        if part == 0 {
            let (reset, keep, new) = (kept.reset, kept.keep, kept.new);
            let (state, offer) = (kept.state, kept.offer);
            let at = token(steps - 1 - back, steps, direction);
            let (own, width) = ((at * 2 + direction) * GATES + i, steps * comptime!(2 * GATES));
            let row = direction * images * steps + at;
            let by_new = by_state * (one - keep) * (one - new * new);
            let by_keep = by_state * (state - new) * keep * (one - keep);
            let by_reset = by_new * offer * reset * (one - reset);
            store(by_reset, by_inputs, images, width, own);
            store(by_keep, by_inputs, images, width, own + HIDDEN);
            store(by_new, by_inputs, images, width, own + comptime!(2 * HIDDEN));
            let (own, width) = (row * GATES + i, steps * GATES);
            store(by_reset, by_offers, images, width, own);
            store(by_keep, by_offers, images, width, own + HIDDEN);
            store(by_new * reset, by_offers, images, width, own + comptime!(2 * HIDDEN));
            owed[i] = by_reset;
            owed[i + HIDDEN] = by_keep;
            owed[i + comptime!(2 * HIDDEN)] = by_new * reset;
            by_state *= keep;
            // Asked for here, so that they are there when the products are done.
            let next = token(steps - usize::min(back + 2, steps), steps, direction);
            kept = load_kept(gates, before, offered, images, steps, direction, next, i);
        }
        sync_cube();
        let mut sum = Each::new(0.0);
        for round in 0..comptime!(GATES / PARTS / AT_ONCE) {
            #[unroll]
            for row in 0..AT_ONCE {
                let row = part * comptime!(GATES / PARTS) + round * AT_ONCE + row;
                sum += Each::new(from_state[(direction * GATES + row) * HIDDEN + i]) * owed[row];
            }
        }
        if part == 1 {
            sums[i] = sum;
        }
        sync_cube();
        if part == 0 {
            by_state += sum + sums[i];
        }
    }
}

/// What [`advance`] keeps of a state at a token.
#[derive(CubeType, CubeTypeMut, Clone, Copy)]
struct Kept {
    reset: Each,
    keep: Each,
    new: Each,
    state: Each,
    offer: Each,
}

#[cube]
fn load_kept(
    gates: &[f32],
    before: &[f32],
    offered: &[f32],
    images: usize,
    steps: usize,
    direction: usize,
    at: usize,
    i: usize,
) -> Kept {
    let (own, width) = ((at * 2 + direction) * GATES + i, steps * comptime!(2 * GATES));
    let row = (direction * images * steps + at) * HIDDEN + i;
    Kept {
        reset: load(gates, images, width, own),
        keep: load(gates, images, width, own + HIDDEN),
        new: load(gates, images, width, own + comptime!(2 * HIDDEN)),
        state: load(before, images, steps * HIDDEN, row),
        offer: load(offered, images, steps * HIDDEN, row),
    }
}

/// Which token a direction reads in this step.
#[cube]
fn token(step: usize, steps: usize, direction: usize) -> usize {
    if direction == 0 { step } else { steps - 1 - step }
}

/// The number at `first` of each of this workgroup's images, `width` numbers apart; of the last image for those that are not there.
#[cube]
fn load(values: &[f32], images: usize, width: usize, first: usize) -> Each {
    let mut each = Each::empty();
    #[unroll]
    for lane in 0..IMAGES {
        let image = usize::min(CUBE_POS / 2 * IMAGES + lane, images - 1);
        each.insert(lane, values[image * width + first]);
    }
    each
}

/// The way back of [`load`].
#[cube]
fn store(each: Each, values: &mut [f32], images: usize, width: usize, first: usize) {
    #[unroll]
    for lane in 0..IMAGES {
        let image = CUBE_POS / 2 * IMAGES + lane;
        if image < images {
            values[image * width + first] = each.extract(lane);
        }
    }
}

/// `1 / (1 + exp(-x))`; what is no number stays none.
#[cube]
fn sigmoid(x: Each) -> Each {
    Each::new(1.0) / (Each::new(1.0) + (-max_nan(x, Each::new(FLAT))).exp())
}

#[cube]
fn hyperbolic_tangent(x: Each) -> Each {
    Each::new(1.0) - Each::new(2.0) * sigmoid(Each::new(-2.0) * x)
}
