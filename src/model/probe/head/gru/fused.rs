//! One direction of the GRU on the CPU as one operation with its own gradient.
//!
//! Images are processed in parts: one matrix product projects all tokens of a part, then its states advance together.
//! Saved are the gates, the state before each step and its contribution to the gate n. From these the backward pass
//! computes the gradients of all gates, and from those the gradients of the weights by two products per part.

use burn::backend::{DispatchTensor, Flex};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{GATES, HIDDEN};
use crate::model::ops::cpu::{as_f32, flex, from_f32};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::pooling::token_batch::TokenBatch;
use crate::model::ops::simd::{add, exp_single, multiply, vectorised};

/// Parts into which a batch is split; the gradients of each are summed in order at the end.
const PARTS: usize = 16;

/// The last state, `[B, 128]`, after tokens `[B, N, d]` in float32 on the CPU. `weights`: of the input, `[384, d]`,
/// and of the state, `[384, 128]`, then their biases, `[384]` each. `backwards`: from the last token to the first.
pub(super) fn last_state(tokens: &Tensor<3>, weights: [DispatchTensor; 4], backwards: bool) -> Tensor<2> {
    apply(GruOp { tokens: TokenBatch::new(&flex(tokens.clone())), backwards }, weights)
}

/// [`last_state`] of these tokens as a function of the weights.
struct GruOp {
    tokens: TokenBatch,
    backwards: bool,
}

impl CustomOp<Flex, 4> for GruOp {
    type Saved = (Reader, Vec<SavedForBackward>);

    fn forward(self, weights: [FlexTensor; 4], keep: bool) -> (FlexTensor, Self::Saved) {
        let reader = Reader::new(self.tokens, weights, self.backwards);
        let (last, parts) = reader.forward(keep);
        (last, (reader, parts))
    }

    fn vjp((reader, parts): &Self::Saved, grad_last: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let gradients = reader.backward(parts, as_f32(&grad_last.to_contiguous()));
        let mut shapes = reader.weights.iter().map(|weight| weight.layout().shape());
        gradients.map(|values| shapes.next().map(|shape| from_f32(values, shape)))
    }
}

/// A GRU in one direction, and the tokens that it reads.
struct Reader {
    tokens: TokenBatch,
    /// As in [`last_state`].
    weights: [FlexTensor; 4],
    backwards: bool,
}

/// What the backward pass needs of a part of the images, by image and token.
struct SavedForBackward {
    /// The gates r, z and n, `[.., N, 384]`.
    gates: Vec<f32>,
    /// The state before the step, `[.., N, 128]`.
    before: Vec<f32>,
    /// `U h + c` of the gate n, `[.., N, 128]`.
    recurrent_new: Vec<f32>,
}

impl Reader {
    fn new(tokens: TokenBatch, weights: [FlexTensor; 4], backwards: bool) -> Self {
        Self { tokens, weights: weights.map(|weight| weight.to_contiguous()), backwards }
    }

    fn weight(&self, at: usize) -> &[f32] {
        as_f32(&self.weights[at])
    }

    fn part(&self) -> usize {
        self.tokens.images.div_ceil(PARTS).max(1)
    }

    /// The tokens of every part, `[part N, d]` each.
    fn parts(&self) -> rayon::slice::Chunks<'_, f32> {
        self.tokens.as_f32().par_chunks(self.part() * self.tokens.count * self.tokens.width)
    }

    /// The tokens' indices in the order in which they are read.
    fn steps(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.tokens.count).map(|step| if self.backwards { self.tokens.count - 1 - step } else { step })
    }

    /// The last state of every image, `[B, 128]`, and with `keep` what the backward pass needs.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<SavedForBackward>) {
        let (last, saved): (Vec<_>, Vec<_>) = self.parts().map(|tokens| self.read(tokens, keep)).unzip();
        (from_f32(last.concat(), &[self.tokens.images, HIDDEN]), saved)
    }

    /// The last states of one part's images, `[part, 128]`, and with `keep` what the backward pass needs.
    fn read(&self, tokens: &[f32], keep: bool) -> (Vec<f32>, SavedForBackward) {
        let rows = tokens.len() / self.tokens.width;
        let images = rows / self.tokens.count;
        let mut gates = self.weight(2).repeat(rows); // [part N, 384]
        let from_input = Matrix::new(self.weight(0), self.tokens.width).transposed();
        Matrix::new(tokens, self.tokens.width).times(from_input, &mut gates);
        let from_state = Matrix::new(self.weight(1), HIDDEN).transposed();
        let mut state = vec![0.0; images * HIDDEN];
        let saved_len = if keep { rows * HIDDEN } else { 0 };
        let (mut before, mut recurrent_new) = (vec![0.0; saved_len], vec![0.0; saved_len]);
        let bias = self.weight(3).repeat(images);
        let mut recurrent = bias.clone(); // [part, 384]
        for step in self.steps() {
            recurrent.copy_from_slice(&bias);
            Matrix::new(&state, HIDDEN).times(from_state, &mut recurrent);
            for image in 0..images {
                let row = image * self.tokens.count + step;
                let state = &mut state[image * HIDDEN..(image + 1) * HIDDEN];
                let recurrent = &recurrent[image * GATES..(image + 1) * GATES];
                if keep {
                    before[row * HIDDEN..(row + 1) * HIDDEN].copy_from_slice(state);
                    recurrent_new[row * HIDDEN..(row + 1) * HIDDEN].copy_from_slice(&recurrent[2 * HIDDEN..]);
                }
                forward_step(&mut gates[row * GATES..(row + 1) * GATES], recurrent, state);
            }
        }
        if !keep {
            gates = vec![];
        }
        (state, SavedForBackward { gates, before, recurrent_new })
    }

    /// The gradients of the weights, given that of the last states, `[B, 128]`.
    fn backward(&self, saved: &[SavedForBackward], cotangent: &[f32]) -> [Vec<f32>; 4] {
        let grad_state = cotangent.par_chunks(self.part() * HIDDEN);
        let parts = self
            .parts()
            .zip(saved)
            .zip(grad_state)
            .map(|((tokens, saved), grad_state)| self.part_vjp(tokens, saved, grad_state));
        let mut total = [0, 1, 2, 3].map(|at| vec![0.0; self.weight(at).len()]);
        for part in parts.collect::<Vec<_>>() {
            total.iter_mut().zip(&part).for_each(|(total, part)| add(part, total));
        }
        total
    }

    /// What the images of one part contribute to the gradients of the weights.
    fn part_vjp(&self, tokens: &[f32], saved: &SavedForBackward, grad_state: &[f32]) -> [Vec<f32>; 4] {
        let (rows, images) = (tokens.len() / self.tokens.width, grad_state.len() / HIDDEN);
        let mut grad_state = grad_state.to_vec(); // [part, 128]: of the state after the step
        let mut grad_gates = vec![0.0; rows * GATES]; // before their activations
        let mut grad_recurrent = vec![0.0; images * GATES];
        let from_state = Matrix::new(self.weight(1), HIDDEN);
        for step in self.steps().rev() {
            for image in 0..images {
                let row = image * self.tokens.count + step;
                let (own, wide) = (row * HIDDEN..(row + 1) * HIDDEN, row * GATES..(row + 1) * GATES);
                backward_step(
                    &saved.gates[wide.clone()],
                    &saved.before[own.clone()],
                    &saved.recurrent_new[own],
                    &mut grad_state[image * HIDDEN..(image + 1) * HIDDEN],
                    &mut grad_gates[wide],
                    &mut grad_recurrent[image * GATES..(image + 1) * GATES],
                );
            }
            Matrix::new(&grad_recurrent, GATES).times(from_state, &mut grad_state);
        }
        let [mut input, mut state] = [0, 1].map(|at| vec![0.0; self.weight(at).len()]);
        let [mut input_bias, mut state_bias] = [vec![0.0; GATES], vec![0.0; GATES]];
        grad_gates.chunks_exact(GATES).for_each(|row| add(row, &mut input_bias));
        Matrix::new(&grad_gates, GATES)
            .transposed()
            .times(Matrix::new(tokens, self.tokens.width), &mut input);
        for (grad_gates, gates) in grad_gates.chunks_exact_mut(GATES).zip(saved.gates.chunks_exact(GATES)) {
            multiply(&gates[..HIDDEN], &mut grad_gates[2 * HIDDEN..]); // the state reaches n through r
            add(grad_gates, &mut state_bias);
        }
        let before = Matrix::new(&saved.before, HIDDEN);
        Matrix::new(&grad_gates, GATES).transposed().times(before, &mut state);
        [input, state, input_bias, state_bias]
    }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp_single::<FUSED>(-x))
}

vectorised! {
    /// One step of one image: `gates` holds `W x + b` before and r, z and n after; `recurrent` is `U h + c`.
    fn forward_step<const FUSED: bool>(gates: &mut [f32], recurrent: &[f32], state: &mut [f32]) {
        let [reset, keep, new] = thirds_mut(gates);
        let [recurrent_reset, recurrent_keep, recurrent_new] = thirds(recurrent);
        let state: &mut [f32; HIDDEN] = state.try_into().expect("one state");
        for i in 0..HIDDEN {
            let r = sigmoid::<FUSED>(reset[i] + recurrent_reset[i]);
            let z = sigmoid::<FUSED>(keep[i] + recurrent_keep[i]);
            let n = 1.0 - 2.0 * sigmoid::<FUSED>(-2.0 * (new[i] + r * recurrent_new[i])); // tanh
            (reset[i], keep[i], new[i]) = (r, z, n);
            state[i] = n + z * (state[i] - n);
        }
    }
}

vectorised! {
    /// One step backward: `grad_state` holds the gradient of the state after the step, on return what of it reaches the state before
    /// directly. Writes the gradients of `W x + b` of the gates to `grad_gates`, and those of `U h + c` to `grad_recurrent`.
    fn backward_step<const FUSED: bool>(
        gates: &[f32], before: &[f32], recurrent_new: &[f32], grad_state: &mut [f32], grad_gates: &mut [f32], grad_recurrent: &mut [f32],
    ) {
        let [reset, keep, new] = thirds(gates);
        let [grad_reset, grad_keep, grad_new] = thirds_mut(grad_gates);
        let [grad_recurrent_reset, grad_recurrent_keep, grad_recurrent_new] = thirds_mut(grad_recurrent);
        let grad_state: &mut [f32; HIDDEN] = grad_state.try_into().expect("one state");
        let before: &[f32; HIDDEN] = before.try_into().expect("one state");
        let recurrent_new: &[f32; HIDDEN] = recurrent_new.try_into().expect("one state");
        for i in 0..HIDDEN {
            let (r, z, n) = (reset[i], keep[i], new[i]);
            let d_new = grad_state[i] * (1.0 - z) * (1.0 - n * n);
            let d_keep = grad_state[i] * (before[i] - n) * z * (1.0 - z);
            let d_reset = d_new * recurrent_new[i] * r * (1.0 - r);
            (grad_reset[i], grad_keep[i], grad_new[i]) = (d_reset, d_keep, d_new);
            (grad_recurrent_reset[i], grad_recurrent_keep[i], grad_recurrent_new[i]) = (d_reset, d_keep, d_new * r);
            grad_state[i] *= z;
        }
    }
}

#[inline(always)]
fn thirds(gates: &[f32]) -> [&[f32; HIDDEN]; 3] {
    let (parts, _) = gates.as_chunks::<HIDDEN>();
    [&parts[0], &parts[1], &parts[2]]
}

/// [`thirds`], mutable.
#[inline(always)]
fn thirds_mut(gates: &mut [f32]) -> [&mut [f32; HIDDEN]; 3] {
    let (parts, _) = gates.as_chunks_mut::<HIDDEN>();
    let [reset, keep, new] = parts else { unreachable!("three gates") };
    [reset, keep, new]
}
