//! One direction of the GRU on the CPU as one operation with its own gradient.
//!
//! Some images at a time: one product projects all their tokens, then the states advance side by side.
//! Kept for the way back are the gates, the state before each step and what it offered the new one. The
//! way back turns them into the gradients of all gates, and those of the weights are two products a part.

use burn::backend::{DispatchTensor, Flex};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{GATES, HIDDEN};
use crate::model::ops::cpu::{as_f32, flex, from_f32};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::pooling::token_batch::Tokens;
use crate::model::ops::simd::{add, exp_single, vectorised};

/// Parts a batch is cut into, each with gradients of its own, summed in order at the end.
const PARTS: usize = 16;

/// The last state, `[B, 128]`, after tokens `[B, N, d]` in float32 on the CPU. `weights`: from input `[384, d]` and
/// from state `[384, 128]`, then their biases, `[384]` each.
pub(super) fn last_state(tokens: &Tensor<3>, weights: [DispatchTensor; 4], backwards: bool) -> Tensor<2> {
    apply(GruOp { tokens: Tokens::new(&flex(tokens.clone())), backwards }, weights)
}

/// The last state after these tokens, of the weights as [`last_state`] has them.
struct GruOp {
    tokens: Tokens,
    backwards: bool,
}

impl CustomOp<Flex, 4> for GruOp {
    type Saved = (Reader, Vec<SavedForBackward>);

    fn forward(self, weights: [FlexTensor; 4], keep: bool) -> (FlexTensor, Self::Saved) {
        let reader = Reader::new(self.tokens, weights, self.backwards);
        let (last, parts) = reader.forward(keep);
        (last, (reader, parts))
    }

    fn vjp((reader, parts): &Self::Saved, by_last: FlexTensor, _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let gradients = reader.backward(parts, as_f32(&by_last.to_contiguous()));
        let mut shapes = reader.weights.iter().map(|weight| weight.layout().shape());
        gradients.map(|values| shapes.next().map(|shape| from_f32(values, shape)))
    }
}

struct Reader {
    tokens: Tokens,
    /// As [`last_state`] has them.
    weights: [FlexTensor; 4],
    backwards: bool,
}

/// What a part of the images leaves for the way back, by image and token.
struct SavedForBackward {
    /// The gates r, z and n, `[.., N, 384]`.
    gates: Vec<f32>,
    /// The state before the step, `[.., N, 128]`.
    before: Vec<f32>,
    /// What the state offered the new one, `U h + c` of n, `[.., N, 128]`.
    offered: Vec<f32>,
}

impl Reader {
    fn new(tokens: Tokens, weights: [FlexTensor; 4], backwards: bool) -> Self {
        Self { tokens, weights: weights.map(|weight| weight.to_contiguous()), backwards }
    }

    fn weight(&self, at: usize) -> &[f32] {
        as_f32(&self.weights[at])
    }

    fn part(&self) -> usize {
        self.tokens.images.div_ceil(PARTS).max(1)
    }

    /// The tokens, `[part N, d]`, of every part.
    fn parts(&self) -> rayon::slice::Chunks<'_, f32> {
        self.tokens.as_f32().par_chunks(self.part() * self.tokens.count * self.tokens.width)
    }

    /// The tokens in the order they are read.
    fn steps(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.tokens.count).map(|step| if self.backwards { self.tokens.count - 1 - step } else { step })
    }

    /// The last state of every image, `[B, 128]`; with `keep`, what the way back needs.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<SavedForBackward>) {
        let (last, kept): (Vec<_>, Vec<_>) = self.parts().map(|tokens| self.read(tokens, keep)).unzip();
        (from_f32(last.concat(), &[self.tokens.images, HIDDEN]), kept)
    }

    /// Reads the images of one part.
    fn read(&self, tokens: &[f32], keep: bool) -> (Vec<f32>, SavedForBackward) {
        let rows = tokens.len() / self.tokens.width;
        let images = rows / self.tokens.count;
        let mut gates = self.weight(2).repeat(rows); // [part N, 384]
        let from_input = Matrix::new(self.weight(0), self.tokens.width).transposed();
        Matrix::new(tokens, self.tokens.width).times(from_input, &mut gates);
        let from_state = Matrix::new(self.weight(1), HIDDEN).transposed();
        let mut state = vec![0.0; images * HIDDEN];
        let kept = if keep { rows * HIDDEN } else { 0 };
        let (mut before, mut offered) = (vec![0.0; kept], vec![0.0; kept]);
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
                    offered[row * HIDDEN..(row + 1) * HIDDEN].copy_from_slice(&recurrent[2 * HIDDEN..]);
                }
                advance(&mut gates[row * GATES..(row + 1) * GATES], recurrent, state);
            }
        }
        if !keep {
            gates = vec![];
        }
        (state, SavedForBackward { gates, before, offered })
    }

    /// The gradients of the weights, given that of the last states, `[B, 128]`.
    fn backward(&self, kept: &[SavedForBackward], cotangent: &[f32]) -> [Vec<f32>; 4] {
        let by_state = cotangent.par_chunks(self.part() * HIDDEN);
        let parts = self
            .parts()
            .zip(kept)
            .zip(by_state)
            .map(|((tokens, kept), by_state)| self.back_through(tokens, kept, by_state));
        let mut total = [0, 1, 2, 3].map(|at| vec![0.0; self.weight(at).len()]);
        for part in parts.collect::<Vec<_>>() {
            total.iter_mut().zip(&part).for_each(|(total, part)| add(part, total));
        }
        total
    }

    /// What the images of one part contribute to the gradients of the weights.
    fn back_through(&self, tokens: &[f32], kept: &SavedForBackward, by_state: &[f32]) -> [Vec<f32>; 4] {
        let (rows, images) = (tokens.len() / self.tokens.width, by_state.len() / HIDDEN);
        let mut by_state = by_state.to_vec(); // [part, 128]: of the state after the step
        let mut by_gates = vec![0.0; rows * GATES]; // before their activations
        let mut by_recurrent = vec![0.0; images * GATES];
        let from_state = Matrix::new(self.weight(1), HIDDEN);
        for step in self.steps().rev() {
            for image in 0..images {
                let row = image * self.tokens.count + step;
                let (own, wide) = (row * HIDDEN..(row + 1) * HIDDEN, row * GATES..(row + 1) * GATES);
                retreat(
                    &kept.gates[wide.clone()],
                    &kept.before[own.clone()],
                    &kept.offered[own],
                    &mut by_state[image * HIDDEN..(image + 1) * HIDDEN],
                    &mut by_gates[wide],
                    &mut by_recurrent[image * GATES..(image + 1) * GATES],
                );
            }
            Matrix::new(&by_recurrent, GATES).times(from_state, &mut by_state);
        }
        let [mut input, mut state] = [0, 1].map(|at| vec![0.0; self.weight(at).len()]);
        let [mut input_bias, mut state_bias] = [vec![0.0; GATES], vec![0.0; GATES]];
        by_gates.chunks_exact(GATES).for_each(|row| add(row, &mut input_bias));
        Matrix::new(&by_gates, GATES).transposed().times(Matrix::new(tokens, self.tokens.width), &mut input);
        for (by_gates, gates) in by_gates.chunks_exact_mut(GATES).zip(kept.gates.chunks_exact(GATES)) {
            multiply(&gates[..HIDDEN], &mut by_gates[2 * HIDDEN..]); // the state reaches n through r
            add(by_gates, &mut state_bias);
        }
        let before = Matrix::new(&kept.before, HIDDEN);
        Matrix::new(&by_gates, GATES).transposed().times(before, &mut state);
        [input, state, input_bias, state_bias]
    }
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp_single::<FUSED>(-x))
}

vectorised! {
    /// One step of one image: `gates` come in as what the token says to them and go out as r, z and n.
    fn advance<const FUSED: bool>(gates: &mut [f32], recurrent: &[f32], state: &mut [f32]) {
        let [reset, keep, new] = thirds_mut(gates);
        let [to_reset, to_keep, to_new] = thirds(recurrent);
        let state: &mut [f32; HIDDEN] = state.try_into().expect("one state");
        for i in 0..HIDDEN {
            let r = sigmoid::<FUSED>(reset[i] + to_reset[i]);
            let z = sigmoid::<FUSED>(keep[i] + to_keep[i]);
            let n = 1.0 - 2.0 * sigmoid::<FUSED>(-2.0 * (new[i] + r * to_new[i])); // tanh
            (reset[i], keep[i], new[i]) = (r, z, n);
            state[i] = n + z * (state[i] - n);
        }
    }
}

vectorised! {
    /// One step back: `by_state` goes from the gradient of the state after it to what reaches the one before directly, and
    /// to the gradients of the gates before their activations, as tokens and as the state see them.
    fn retreat<const FUSED: bool>(
        gates: &[f32], before: &[f32], offered: &[f32], by_state: &mut [f32], by_gates: &mut [f32], by_recurrent: &mut [f32],
    ) {
        let [reset, keep, new] = thirds(gates);
        let [by_reset, by_keep, by_new] = thirds_mut(by_gates);
        let [to_reset, to_keep, to_new] = thirds_mut(by_recurrent);
        let by_state: &mut [f32; HIDDEN] = by_state.try_into().expect("one state");
        let before: &[f32; HIDDEN] = before.try_into().expect("one state");
        let offered: &[f32; HIDDEN] = offered.try_into().expect("one state");
        for i in 0..HIDDEN {
            let (r, z, n) = (reset[i], keep[i], new[i]);
            let of_new = by_state[i] * (1.0 - z) * (1.0 - n * n);
            let of_keep = by_state[i] * (before[i] - n) * z * (1.0 - z);
            let of_reset = of_new * offered[i] * r * (1.0 - r);
            (by_reset[i], by_keep[i], by_new[i]) = (of_reset, of_keep, of_new);
            (to_reset[i], to_keep[i], to_new[i]) = (of_reset, of_keep, of_new * r);
            by_state[i] *= z;
        }
    }
}

vectorised! {
    /// `into *= values`.
    fn multiply<const FUSED: bool>(values: &[f32], into: &mut [f32]) {
        into.iter_mut().zip(values).for_each(|(into, x)| *into *= x);
    }
}

#[inline(always)]
fn thirds(gates: &[f32]) -> [&[f32; HIDDEN]; 3] {
    let (parts, _) = gates.as_chunks::<HIDDEN>();
    [&parts[0], &parts[1], &parts[2]]
}

/// As [`thirds`], to be changed.
#[inline(always)]
fn thirds_mut(gates: &mut [f32]) -> [&mut [f32; HIDDEN]; 3] {
    let (parts, _) = gates.as_chunks_mut::<HIDDEN>();
    let [reset, keep, new] = parts else { unreachable!("three gates") };
    [reset, keep, new]
}
