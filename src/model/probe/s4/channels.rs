//! The kernels of many channels: `K[a m + b] = (C Abar^(a m)) (Abar^b Bbar)` with `m` about `sqrt(N)`.
//!
//! Some `2 sqrt(N)` products instead of N, of some channels at a time, which fit a core's cache and lie
//! side by side on all cores. With `u_b = Abar^b Bbar` and `v_a = (L^a)^T C^T`, `L = Abar^m`, both `[S, d]`:
//! `K[a m + b, c] = sum_s v_a[s, c] u_b[s, c]`. Back, `du_b = sum_a dK[a m + b] v_a + Abar^T du_{b+1}` and
//! `dv_a = sum_b dK[a m + b] u_b + L dv_{a+1}`; the gradient of `Abar` is `sum_b du_{b+1} u_b^T`, that of `L` is
//! `sum_a v_a dv_{a+1}^T`, which goes to `Abar` through the squarings that make it.

use rayon::prelude::*;

use super::discrete::Discrete;
use super::fused::Gradients;
use crate::model::ops::gemm::Matrix;
use crate::model::ops::simd::{add, add_product};

/// Channels taken together: the vectors of a step fit the second-level cache.
const CHANNELS_PER_BLOCK: usize = 32;

/// What impulses of some neighbouring channels go through.
struct Block {
    /// `u_b`, `[m, S, w]`.
    after: Vec<f64>,
    /// `v_a`, `[n / m, S, w]`.
    before: Vec<f64>,
    /// How many channels, w.
    width: usize,
}

pub(super) struct Channels {
    pub system: Discrete,
    /// Channels, d.
    width: usize,
    n: usize,
    /// `Abar^(2^i)`, the last of them `L`.
    powers: Vec<Vec<f64>>,
    blocks: Vec<Block>,
}

impl Channels {
    /// `n` steps of a system of `d` channels. `c`: `[d, S]`.
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
        let starts: Vec<usize> = (0..width).step_by(CHANNELS_PER_BLOCK).collect();
        channels.blocks = starts.into_par_iter().map(|start| channels.block(start, c)).collect();
        channels
    }

    /// `m`.
    fn leap(&self) -> usize {
        1 << (self.powers.len() - 1)
    }

    /// `Abar` and `L`.
    fn steps(&self) -> [Matrix<'_, f64>; 2] {
        [&self.powers[0], &self.powers[self.powers.len() - 1]].map(|x| Matrix::new(x, self.system.states))
    }

    fn block(&self, start: usize, c: &[f64]) -> Block {
        let states = self.system.states;
        let width = CHANNELS_PER_BLOCK.min(self.width - start);
        let mut after = vec![0.0; self.leap() * states * width];
        let mut before = vec![0.0; self.n.div_ceil(self.leap()) * states * width];
        for (s, (u, v)) in after.chunks_mut(width).zip(before.chunks_mut(width)).take(states).enumerate() {
            u.copy_from_slice(&self.system.impulse[s * self.width + start..][..width]);
            (0..width).for_each(|at| v[at] = c[(start + at) * states + s]);
        }
        let [step, leap] = self.steps();
        run(step, &mut after, states * width, width);
        run(leap.transposed(), &mut before, states * width, width);
        Block { after, before, width }
    }

    /// `K`, `[N, d]`.
    pub fn kernel(&self) -> Vec<f64> {
        let states = self.system.states;
        let mut kernel = vec![0.0; self.n * self.width];
        kernel.par_chunks_mut(self.width).enumerate().for_each(|(j, row)| {
            for (Block { after, before, width }, row) in
                self.blocks.iter().zip(row.chunks_mut(CHANNELS_PER_BLOCK))
            {
                let size = states * width;
                let [u, v] = [(after, j % self.leap()), (before, j / self.leap())]
                    .map(|(all, at)| all[at * size..(at + 1) * size].chunks(*width));
                u.zip(v).for_each(|(u, v)| add_product(u, v, row));
            }
        });
        kernel
    }

    /// The gradients, given that of the kernel, `[N, d]`.
    pub fn vjp(&self, by_kernel: &[f64]) -> Gradients {
        let states = self.system.states;
        let grads: Vec<BlockGrads> = self
            .blocks
            .par_iter()
            .enumerate()
            .map(|(at, block)| self.back_through(block, at * CHANNELS_PER_BLOCK, by_kernel))
            .collect();
        let mut by_impulse = vec![0.0; states * self.width];
        let mut c = Vec::with_capacity(states * self.width);
        let (mut by_step, mut by_leap) = (vec![0.0; states * states], vec![0.0; states * states]);
        for (at, grads) in grads.iter().enumerate() {
            let width = self.blocks[at].width;
            for (into, from) in by_impulse.chunks_mut(self.width).zip(grads.impulse.chunks(width)) {
                into[at * CHANNELS_PER_BLOCK..][..width].copy_from_slice(from);
            }
            c.extend((0..width * states).map(|i| grads.output[i % states * width + i / states]));
            add(&grads.step, &mut by_step);
            add(&grads.leap, &mut by_leap);
        }
        for power in self.powers[..self.powers.len() - 1].iter().rev() {
            let transposed = Matrix::new(power, states).transposed();
            let mut by_power = vec![0.0; states * states];
            Matrix::new(&by_leap, states).times(transposed, &mut by_power);
            transposed.times(Matrix::new(&by_leap, states), &mut by_power);
            by_leap = by_power;
        }
        add(&by_leap, &mut by_step);
        let (a, b, step) = self.system.vjp(&by_step, &by_impulse);
        Gradients { a, b, c, step }
    }

    fn back_through(&self, block: &Block, start: usize, by_kernel: &[f64]) -> BlockGrads {
        let Block { after, before, width } = block;
        let (states, size) = (self.system.states, self.system.states * width);
        let (mut by_after, mut by_before) = (vec![0.0; after.len()], vec![0.0; before.len()]);
        for (j, by_kernel) in by_kernel.chunks(self.width).enumerate() {
            let by_kernel = &by_kernel[start..start + width];
            let (a, b) = (j / self.leap() * size, j % self.leap() * size);
            for s in (0..size).step_by(*width) {
                let [own_a, own_b] = [a + s..a + s + width, b + s..b + s + width];
                add_product(by_kernel, &before[own_a.clone()], &mut by_after[own_b.clone()]);
                add_product(by_kernel, &after[own_b], &mut by_before[own_a]);
            }
        }
        let [step, leap] = self.steps();
        let (mut by_step, mut by_leap) = (vec![0.0; states * states], vec![0.0; states * states]);
        run_vjp(step.transposed(), &mut by_after, size, *width, |at, grads| {
            let seen = Matrix::new(&after[at * size..(at + 1) * size], *width).transposed();
            Matrix::new(grads, *width).times(seen, &mut by_step);
        });
        run_vjp(leap, &mut by_before, size, *width, |at, grads| {
            let seen = Matrix::new(&before[at * size..(at + 1) * size], *width);
            seen.times(Matrix::new(grads, *width).transposed(), &mut by_leap);
        });
        by_after.truncate(size);
        by_before.truncate(size);
        BlockGrads { impulse: by_after, output: by_before, step: by_step, leap: by_leap }
    }
}

struct BlockGrads {
    /// `Bbar`, `[S, w]`.
    impulse: Vec<f64>,
    /// `C^T`, `[S, w]`.
    output: Vec<f64>,
    /// `Abar`, `[S, S]`.
    step: Vec<f64>,
    /// `L`, `[S, S]`.
    leap: Vec<f64>,
}

/// Fills `all`, steps of `size` values, whose first is given: each is `step` times the one before it.
fn run(step: Matrix<f64>, all: &mut [f64], size: usize, width: usize) {
    for at in 1..all.len() / size {
        let (before, after) = all[(at - 1) * size..].split_at_mut(size);
        step.times(Matrix::new(before, width), &mut after[..size]);
    }
}

/// What the steps of [`run`] owe each other, the last first: hands `see` the gradient of each but the first,
/// with the index of the one before it, and adds `back` times that to the one before it.
fn run_vjp(
    back: Matrix<f64>,
    grads: &mut [f64],
    size: usize,
    width: usize,
    mut see: impl FnMut(usize, &[f64]),
) {
    for at in (1..grads.len() / size).rev() {
        let (before, after) = grads[(at - 1) * size..].split_at_mut(size);
        let after = &after[..size];
        see(at - 1, after);
        back.times(Matrix::new(after, width), before);
    }
}
