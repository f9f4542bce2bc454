//! The kernels of many channels: `K[a m + b] = (C Abar^(a m)) (Abar^b Bbar)` with `m` about `sqrt(N)`.
//!
//! This takes about `2 sqrt(N)` matrix products instead of N. Blocks of channels fit a core's cache and run in parallel
//! on all cores. With `u_b = Abar^b Bbar` and `v_a = (L^a)^T C^T`, `L = Abar^m`, both `[S, d]`:
//! `K[a m + b, c] = sum_s v_a[s, c] u_b[s, c]`. Backward, `du_b = sum_a dK[a m + b] v_a + Abar^T du_{b+1}` and
//! `dv_a = sum_b dK[a m + b] u_b + L dv_{a+1}`; the gradient of `Abar` is `sum_b du_{b+1} u_b^T`, that of `L` is
//! `sum_a v_a dv_{a+1}^T`, which reaches `Abar` through the squarings that compute `L`.

use rayon::prelude::*;

use super::discrete::Discrete;
use super::fused::Gradients;
use crate::model::ops::gemm::Matrix;
use crate::model::ops::simd::{add, add_product};

/// Channels of a block: its vectors of one step fit the second-level cache.
const CHANNELS_PER_BLOCK: usize = 32;

/// The two factors of the kernels of some neighbouring channels.
struct Block {
    /// `u_b`, `[m, S, w]`.
    right: Vec<f64>,
    /// `v_a`, `[ceil(N / m), S, w]`.
    left: Vec<f64>,
    /// Number of channels, w.
    width: usize,
}

/// The kernels of d channels and all that their gradient needs.
pub(super) struct Channels {
    system: Discrete,
    /// Number of channels, d.
    width: usize,
    n: usize,
    /// `Abar^(2^i)`, `[S, S]` each; the last of them is `L`.
    powers: Vec<Vec<f64>>,
    blocks: Vec<Block>,
}

impl Channels {
    /// Factors of the kernels of `n` steps. `c`: `[d, S]`.
    pub fn new(system: Discrete, c: &[f64], n: usize) -> Self {
        let states = system.states;
        let width = system.impulse.len() / states;
        let squarings = (n.max(1) as f64).sqrt().log2().ceil() as u32;
        let mut powers = vec![system.transition.clone()];
        for at in 0..squarings as usize {
            let mut square = vec![0.0; states * states];
            let power = Matrix::new(&powers[at], states);
            power.times(power, &mut square);
            powers.push(square);
        }
        let mut channels = Self { system, width, n, powers, blocks: vec![] };
        let starts = (0..width).into_par_iter().step_by(CHANNELS_PER_BLOCK);
        channels.blocks = starts.map(|start| channels.block(start, c)).collect();
        channels
    }

    /// `m`, the steps that `L` takes at once: a power of two, `sqrt(N)` or the next one above.
    fn leap_len(&self) -> usize {
        1 << (self.powers.len() - 1)
    }

    /// `Abar` and `L`.
    fn matrices(&self) -> [Matrix<'_, f64>; 2] {
        [&self.powers[0], &self.powers[self.powers.len() - 1]].map(|x| Matrix::new(x, self.system.states))
    }

    /// The factors of the channels from `start` on.
    fn block(&self, start: usize, c: &[f64]) -> Block {
        let states = self.system.states;
        let width = CHANNELS_PER_BLOCK.min(self.width - start);
        let mut right = vec![0.0; self.leap_len() * states * width];
        let mut left = vec![0.0; self.n.div_ceil(self.leap_len()) * states * width];
        for (s, (u, v)) in right.chunks_mut(width).zip(left.chunks_mut(width)).take(states).enumerate() {
            u.copy_from_slice(&self.system.impulse[s * self.width + start..][..width]);
            (0..width).for_each(|at| v[at] = c[(start + at) * states + s]);
        }
        let [transition, leap] = self.matrices();
        iterate(transition, &mut right, states * width, width);
        iterate(leap.transposed(), &mut left, states * width, width);
        Block { right, left, width }
    }

    /// `K`, `[N, d]`.
    pub fn kernel(&self) -> Vec<f64> {
        let states = self.system.states;
        let mut kernel = vec![0.0; self.n * self.width];
        kernel.par_chunks_mut(self.width).enumerate().for_each(|(j, row)| {
            for (Block { right, left, width }, row) in
                self.blocks.iter().zip(row.chunks_mut(CHANNELS_PER_BLOCK))
            {
                let size = states * width;
                let [u, v] = [(right, j % self.leap_len()), (left, j / self.leap_len())]
                    .map(|(all, at)| all[at * size..(at + 1) * size].chunks(*width));
                u.zip(v).for_each(|(u, v)| add_product(u, v, row));
            }
        });
        kernel
    }

    /// The gradients of A, B, C and the step size, given that of the kernel, `[N, d]`.
    pub fn vjp(&self, grad_kernel: &[f64]) -> Gradients {
        let states = self.system.states;
        let grads: Vec<BlockGrads> = self
            .blocks
            .par_iter()
            .enumerate()
            .map(|(at, block)| self.block_vjp(block, at * CHANNELS_PER_BLOCK, grad_kernel))
            .collect();
        let mut grad_impulse = vec![0.0; states * self.width];
        let mut c = Vec::with_capacity(states * self.width);
        let (mut grad_transition, mut grad_leap) = (vec![0.0; states * states], vec![0.0; states * states]);
        for (at, grads) in grads.iter().enumerate() {
            let width = self.blocks[at].width;
            for (into, from) in grad_impulse.chunks_mut(self.width).zip(grads.impulse.chunks(width)) {
                into[at * CHANNELS_PER_BLOCK..][..width].copy_from_slice(from);
            }
            c.extend((0..width * states).map(|i| grads.output[i % states * width + i / states]));
            add(&grads.transition, &mut grad_transition);
            add(&grads.leap, &mut grad_leap);
        }
        for power in self.powers[..self.powers.len() - 1].iter().rev() {
            let transposed = Matrix::new(power, states).transposed();
            let mut grad_power = vec![0.0; states * states];
            Matrix::new(&grad_leap, states).times(transposed, &mut grad_power);
            transposed.times(Matrix::new(&grad_leap, states), &mut grad_power);
            grad_leap = grad_power;
        }
        add(&grad_leap, &mut grad_transition);
        let (a, b, step) = self.system.vjp(&grad_transition, &grad_impulse);
        Gradients { a, b, c, step }
    }

    fn block_vjp(&self, block: &Block, start: usize, grad_kernel: &[f64]) -> BlockGrads {
        let Block { right, left, width } = block;
        let (states, size) = (self.system.states, self.system.states * width);
        let (mut grad_right, mut grad_left) = (vec![0.0; right.len()], vec![0.0; left.len()]);
        for (j, grad_kernel) in grad_kernel.chunks(self.width).enumerate() {
            let grad_kernel = &grad_kernel[start..start + width];
            let (a, b) = (j / self.leap_len() * size, j % self.leap_len() * size);
            for s in (0..size).step_by(*width) {
                let [at_left, at_right] = [a + s..a + s + width, b + s..b + s + width];
                add_product(grad_kernel, &left[at_left.clone()], &mut grad_right[at_right.clone()]);
                add_product(grad_kernel, &right[at_right], &mut grad_left[at_left]);
            }
        }
        let [transition, leap] = self.matrices();
        let (mut grad_transition, mut grad_leap) = (vec![0.0; states * states], vec![0.0; states * states]);
        iterate_vjp(transition.transposed(), &mut grad_right, size, *width, |at, grads| {
            let u = Matrix::new(&right[at * size..(at + 1) * size], *width).transposed();
            Matrix::new(grads, *width).times(u, &mut grad_transition);
        });
        iterate_vjp(leap, &mut grad_left, size, *width, |at, grads| {
            let v = Matrix::new(&left[at * size..(at + 1) * size], *width);
            v.times(Matrix::new(grads, *width).transposed(), &mut grad_leap);
        });
        grad_right.truncate(size);
        grad_left.truncate(size);
        BlockGrads { impulse: grad_right, output: grad_left, transition: grad_transition, leap: grad_leap }
    }
}

/// What the channels of one block contribute to the gradients.
struct BlockGrads {
    /// Of `Bbar`, `[S, w]`.
    impulse: Vec<f64>,
    /// Of `C^T`, `[S, w]`.
    output: Vec<f64>,
    /// Of `Abar`, `[S, S]`.
    transition: Vec<f64>,
    /// Of `L`, `[S, S]`.
    leap: Vec<f64>,
}

/// Fills `all`, matrices of `size` values each, from the first of them: each is `step` times the one before it.
fn iterate(step: Matrix<f64>, all: &mut [f64], size: usize, width: usize) {
    for at in 1..all.len() / size {
        let (before, after) = all[(at - 1) * size..].split_at_mut(size);
        step.times(Matrix::new(before, width), &mut after[..size]);
    }
}

/// The backward pass of [`iterate`], from the last matrix to the second: calls `visit` with the index of the matrix before
/// it and its gradient, and adds `back` times that gradient to the gradient of the matrix before it.
fn iterate_vjp(
    back: Matrix<f64>,
    grads: &mut [f64],
    size: usize,
    width: usize,
    mut visit: impl FnMut(usize, &[f64]),
) {
    for at in (1..grads.len() / size).rev() {
        let (before, after) = grads[(at - 1) * size..].split_at_mut(size);
        let after = &after[..size];
        visit(at - 1, after);
        back.times(Matrix::new(after, width), before);
    }
}
