//! The kernels: a workgroup reads [`IMAGES`] images in one direction, with [`PARTS`] threads per entry of the state.
//!
//! The images are the lanes of a vector, so that one read of a weight, or of a state in shared memory, serves all of them. Two threads
//! split the products of an entry of the state, and the first of them continues with the sum. Each step reads the weights again, which
//! stay in a cache.

use super::super::{GATES, HIDDEN};
use crate::model::ops::gpu::FLAT;
use crate::model::ops::gpu::prelude::*;

/// Images of a workgroup.
pub(super) const IMAGES: usize = 4;
/// Threads that split the products of an entry of the state.
const PARTS: usize = 2;
/// Threads of a workgroup.
pub(super) const UNITS: usize = PARTS * HIDDEN;
/// Iterations of a loop that are unrolled, so that their reads are issued together.
const UNROLLED: usize = 8;

/// Loop iterations for `steps` steps: those of the backward pass, which has more.
pub(super) const fn rounds(steps: usize) -> usize {
    steps * (1 + GATES / PARTS / UNROLLED)
}

/// One number for every image of a workgroup.
type PerImage = Vector<f32, Const<IMAGES>>;

/// Reads all tokens. `inputs`: `[B, N, 2, 384]`, their projections `W x + b`; `from_state`: `[2, 128, 384]`, the state's weights `U^T`;
/// `bias`: `[2, 384]`, c; `last`: `[B, 2, 128]`. With `keep` also writes what [`backward()`] needs: the gates r, z and n,
/// `[B, N, 2, 384]`, and by direction, `[2, B, N, 128]`, the state before each step and its `U h + c` of n.
#[cube(launch)]
pub(super) fn forward(
    inputs: &[f32],
    from_state: &[f32],
    bias: &[f32],
    last: &mut [f32],
    gates: &mut [f32],
    before: &mut [f32],
    recurrent_new: &mut [f32],
    steps: usize,
    #[comptime] keep: bool,
) {
    let (direction, i, part) = (CUBE_POS % 2, UNIT_POS as usize % HIDDEN, UNIT_POS as usize / HIDDEN);
    let images = last.len() / comptime!(2 * HIDDEN);
    let mut states = Shared::<[PerImage]>::new_slice(HIDDEN);
    let mut sums = Shared::<[PerImage]>::new_slice(comptime!(GATES));
    let bias = &bias[direction * GATES..];
    let mut state = PerImage::new(0.0);
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
        let (mut sum_reset, mut sum_keep, mut sum_new) =
            (PerImage::new(0.0), PerImage::new(0.0), PerImage::new(0.0));
        for round in 0..comptime!(HIDDEN / PARTS / UNROLLED) {
            #[unroll]
            for k in 0..UNROLLED {
                let k = part * comptime!(HIDDEN / PARTS) + round * UNROLLED + k;
                let (row, state) = ((direction * HIDDEN + k) * GATES + i, states[k]);
                sum_reset += PerImage::new(from_state[row]) * state;
                sum_keep += PerImage::new(from_state[row + HIDDEN]) * state;
                sum_new += PerImage::new(from_state[row + comptime!(2 * HIDDEN)]) * state;
            }
        }
        if part == 1 {
            sums[i] = sum_reset;
            sums[i + HIDDEN] = sum_keep;
            sums[i + comptime!(2 * HIDDEN)] = sum_new;
        }
        sync_cube();
        if part == 0 {
            reset = sigmoid(reset + sum_reset + sums[i] + PerImage::new(bias[i]));
            keep_on = sigmoid(keep_on + sum_keep + sums[i + HIDDEN] + PerImage::new(bias[i + HIDDEN]));
            let recurrent =
                sum_new + sums[i + comptime!(2 * HIDDEN)] + PerImage::new(bias[i + comptime!(2 * HIDDEN)]);
            let new = PerImage::new(-2.0) * (new + reset * recurrent);
            let new = PerImage::new(1.0) - PerImage::new(2.0) * sigmoid(new); // tanh
            if comptime!(keep) {
                store(reset, gates, images, width, first);
                store(keep_on, gates, images, width, first + HIDDEN);
                store(new, gates, images, width, first + comptime!(2 * HIDDEN));
                let (first, width) = ((direction * images * steps + at) * HIDDEN + i, steps * HIDDEN);
                store(state, before, images, width, first);
                store(recurrent, recurrent_new, images, width, first);
            }
            state = new + keep_on * (state - new);
        }
    }
    if part == 0 {
        store(state, last, images, comptime!(2 * HIDDEN), direction * HIDDEN + i);
    }
}

/// The backward pass through all tokens. `gates`, `before`, `recurrent_new`: as [`forward()`] saves them; `from_state`: `[2, 384, 128]`, U;
/// `grad_last`: `[B, 2, 128]`. Writes the gradients of the gates before their activations: of `W x + b` to `grad_inputs`,
/// `[B, N, 2, 384]`, and of `U h + c`, which reaches n through r, to `grad_recurrent`, `[2, B, N, 384]`.
#[cube(launch)]
pub(super) fn backward(
    gates: &[f32],
    before: &[f32],
    recurrent_new: &[f32],
    from_state: &[f32],
    grad_last: &[f32],
    grad_inputs: &mut [f32],
    grad_recurrent: &mut [f32],
    steps: usize,
) {
    let (direction, i, part) = (CUBE_POS % 2, UNIT_POS as usize % HIDDEN, UNIT_POS as usize / HIDDEN);
    let images = grad_last.len() / comptime!(2 * HIDDEN);
    let mut shared_grads = Shared::<[PerImage]>::new_slice(comptime!(GATES));
    let mut sums = Shared::<[PerImage]>::new_slice(HIDDEN);
    let one = PerImage::new(1.0);
    let mut grad_state = load(grad_last, images, comptime!(2 * HIDDEN), direction * HIDDEN + i);
    let last = token(steps - 1, steps, direction);
    let mut saved = load_saved(gates, before, recurrent_new, images, steps, direction, last, i);
    for steps_done in 0..steps {
        if part == 0 {
            let (reset, keep, new) = (saved.reset, saved.keep, saved.new);
            let (state, recurrent) = (saved.state, saved.recurrent);
            let at = token(steps - 1 - steps_done, steps, direction);
            let (own, width) = ((at * 2 + direction) * GATES + i, steps * comptime!(2 * GATES));
            let row = direction * images * steps + at;
            let grad_new = grad_state * (one - keep) * (one - new * new);
            let grad_keep = grad_state * (state - new) * keep * (one - keep);
            let grad_reset = grad_new * recurrent * reset * (one - reset);
            store(grad_reset, grad_inputs, images, width, own);
            store(grad_keep, grad_inputs, images, width, own + HIDDEN);
            store(grad_new, grad_inputs, images, width, own + comptime!(2 * HIDDEN));
            let (own, width) = (row * GATES + i, steps * GATES);
            store(grad_reset, grad_recurrent, images, width, own);
            store(grad_keep, grad_recurrent, images, width, own + HIDDEN);
            store(grad_new * reset, grad_recurrent, images, width, own + comptime!(2 * HIDDEN));
            shared_grads[i] = grad_reset;
            shared_grads[i + HIDDEN] = grad_keep;
            shared_grads[i + comptime!(2 * HIDDEN)] = grad_new * reset;
            grad_state *= keep;
            // Loaded here, so that the products below hide the latency.
            let next = token(steps - usize::min(steps_done + 2, steps), steps, direction);
            saved = load_saved(gates, before, recurrent_new, images, steps, direction, next, i);
        }
        sync_cube();
        let mut sum = PerImage::new(0.0);
        for round in 0..comptime!(GATES / PARTS / UNROLLED) {
            #[unroll]
            for row in 0..UNROLLED {
                let row = part * comptime!(GATES / PARTS) + round * UNROLLED + row;
                sum += PerImage::new(from_state[(direction * GATES + row) * HIDDEN + i]) * shared_grads[row];
            }
        }
        if part == 1 {
            sums[i] = sum;
        }
        sync_cube();
        if part == 0 {
            grad_state += sum + sums[i];
        }
    }
}

/// What [`forward()`] saves of an entry of the state at a token.
#[derive(CubeType, CubeTypeMut, Clone, Copy)]
struct SavedState {
    reset: PerImage,
    keep: PerImage,
    new: PerImage,
    state: PerImage,
    recurrent: PerImage,
}

#[cube]
fn load_saved(
    gates: &[f32],
    before: &[f32],
    recurrent_new: &[f32],
    images: usize,
    steps: usize,
    direction: usize,
    at: usize,
    i: usize,
) -> SavedState {
    let (own, width) = ((at * 2 + direction) * GATES + i, steps * comptime!(2 * GATES));
    let row = (direction * images * steps + at) * HIDDEN + i;
    SavedState {
        reset: load(gates, images, width, own),
        keep: load(gates, images, width, own + HIDDEN),
        new: load(gates, images, width, own + comptime!(2 * HIDDEN)),
        state: load(before, images, steps * HIDDEN, row),
        recurrent: load(recurrent_new, images, steps * HIDDEN, row),
    }
}

/// Which token a direction reads in this step.
#[cube]
fn token(step: usize, steps: usize, direction: usize) -> usize {
    if direction == 0 { step } else { steps - 1 - step }
}

/// The number at `first` of each image of this workgroup, which lie `width` numbers apart; lanes beyond the last image repeat it.
#[cube]
fn load(values: &[f32], images: usize, width: usize, first: usize) -> PerImage {
    let mut each = PerImage::empty();
    #[unroll]
    for lane in 0..IMAGES {
        let image = usize::min(CUBE_POS / 2 * IMAGES + lane, images - 1);
        each.insert(lane, values[image * width + first]);
    }
    each
}

/// Writes what [`load()`] reads; lanes beyond the last image write nothing.
#[cube]
fn store(each: PerImage, values: &mut [f32], images: usize, width: usize, first: usize) {
    #[unroll]
    for lane in 0..IMAGES {
        let image = CUBE_POS / 2 * IMAGES + lane;
        if image < images {
            values[image * width + first] = each.extract(lane);
        }
    }
}

/// `1 / (1 + exp(-x))`; NaN stays NaN.
#[cube]
fn sigmoid(x: PerImage) -> PerImage {
    PerImage::new(1.0) / (PerImage::new(1.0) + (-max_nan(x, PerImage::new(FLAT))).exp())
}
