//! S4: a state space model with the HiPPO-LegS memory (Gu et al. 2022), read at its last step.
//!
//! S states. `A[n, k] = -sqrt((2n+1)(2k+1))` below the diagonal, `-(n+1)` on it, 0 above;
//! `B[n] = sqrt(2n+1)`. Discretised bilinearly with step `dt`,
//! `Abar = (I - dt/2 A)^-1 (I + dt/2 A)`, `Bbar = (I - dt/2 A)^-1 dt B`, the last state weighs what
//! was read `j` steps before the end by the kernel `K[j] = C Abar^j Bbar`.
//!
//! A is lower triangular with a negative diagonal, so that the spectral radius is below 1 by
//! construction and every solve is a forward substitution. We never diagonalise: at S = 128 the
//! eigenvectors' condition is 6e21.
//!
//! Twice, as the routers: [`System`] in float64 on the host, for explanations; [`kernel`] and
//! [`kernel_channels`] on tensors, differentiable, for training (on the CPU as one operation of its own). Only the lower triangle of `a` is ever read.

mod channels;
mod discrete;
mod fused;
mod recurrence;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::model::ops::pooling::on_cpu;

/// HiPPO-LegS: A `[S, S]` row-major and B `[S]`.
pub fn hippo(states: usize) -> (Vec<f64>, Vec<f64>) {
    let b: Vec<f64> = (0..states).map(|n| ((2 * n + 1) as f64).sqrt()).collect();
    let entry = |at: usize| match (at / states, at % states) {
        (n, k) if n > k => -b[n] * b[k],
        (n, k) if n == k => -(n as f64 + 1.0),
        _ => 0.0,
    };
    ((0..states * states).map(entry).collect(), b)
}

/// A discretised system on the host, in float64.
#[derive(Clone, Debug)]
pub struct System {
    states: usize,
    step: f64,
    /// `I - dt/2 A`, `[S, S]`, lower triangular.
    implicit: Vec<f64>,
    /// `Abar`, `[S, S]`, lower triangular.
    transition: Vec<f64>,
}

impl System {
    /// Discretises `a` `[S, S]` (row-major; its lower triangle) with this step.
    ///
    /// # Panics
    /// If `a` does not hold S x S values: a bug of the caller.
    pub fn new(a: &[f64], states: usize, step: f64) -> Self {
        assert_eq!(a.len(), states * states, "A must be {states} x {states}");
        let mut implicit = vec![0.0; states * states];
        let mut transition = vec![0.0; states * states];
        for n in 0..states {
            for k in 0..=n {
                let (unit, half) = (f64::from(u8::from(n == k)), 0.5 * step * a[n * states + k]);
                implicit[n * states + k] = unit - half;
                transition[n * states + k] = unit + half;
            }
        }
        solve(&implicit, &mut transition, states, |k| k + 1);
        Self { states, step, implicit, transition }
    }

    /// Spectral radius of `Abar`: the largest of its diagonal, in absolute value.
    pub fn radius(&self) -> f64 {
        (0..self.states).map(|n| self.transition[n * (self.states + 1)].abs()).fold(0.0, f64::max)
    }

    /// The kernel `K[j] = c Abar^j Bbar`, `j` steps before the end, `[N]`. `b`, `c`: `[S]`.
    pub fn kernel(&self, b: &[f64], c: &[f64], n: usize) -> Vec<f64> {
        self.kernel_channels(b, c, 1, n)
    }

    /// A kernel for every channel, `[N, d]`. `b`: `[S, d]`; `c`: `[d, S]`.
    ///
    /// `K[a m + b] = (c Abar^(a m)) (Abar^b Bbar)` with `m` about `sqrt(N)`: some `2 sqrt(N)` products
    /// with a matrix instead of N.
    pub fn kernel_channels(&self, b: &[f64], c: &[f64], d: usize, n: usize) -> Vec<f64> {
        let states = self.states;
        let mut state: Vec<f64> = b.iter().map(|b| self.step * b).collect(); // [S, d]: Bbar
        solve(&self.implicit, &mut state, d, |_| d);
        let squarings = (n.max(1) as f64).sqrt().log2().ceil() as u32;
        let mut after = vec![state]; // Abar^b Bbar
        for b in 1..n.min(1 << squarings) {
            after.push(multiply(&self.transition, &after[b - 1], states, d));
        }
        let leap = (0..squarings).fold(self.transition.clone(), |power, _| square(&power, states)); // Abar^m
        let mut output: Vec<f64> = (0..states * d).map(|at| c[at % d * states + at / d]).collect(); // [S, d]
        let mut kernel = Vec::with_capacity(n * d);
        while kernel.len() < n * d {
            let steps = after.len().min(n - kernel.len() / d);
            let products = after[..steps].par_iter().flat_map_iter(|state| {
                let mut sum = vec![0.0; d];
                for (output, state) in output.chunks(d).zip(state.chunks(d)) {
                    (0..d).for_each(|channel| sum[channel] += output[channel] * state[channel]);
                }
                sum
            });
            kernel.par_extend(products);
            output = multiply_transposed(&leap, &output, states, d);
        }
        kernel
    }
}

/// `lower^-1 right` in place by forward substitution. `lower`: `[S, S]`; `right`: `[S, width]`, whose
/// row `k` has nothing behind its first `filled(k)` entries.
fn solve(lower: &[f64], right: &mut [f64], width: usize, filled: impl Fn(usize) -> usize) {
    let states = right.len() / width.max(1);
    for n in 0..states {
        let (done, rest) = right.split_at_mut(n * width);
        let row = &mut rest[..width];
        for k in 0..n {
            let factor = lower[n * states + k];
            let from = &done[k * width..k * width + filled(k)];
            row.iter_mut().zip(from).for_each(|(x, y)| *x -= factor * y);
        }
        let pivot = lower[n * (states + 1)];
        row.iter_mut().for_each(|x| *x /= pivot);
    }
}

/// `lower lower`, `[S, S]`.
fn square(lower: &[f64], states: usize) -> Vec<f64> {
    let mut product = vec![0.0; states * states];
    for (n, row) in product.chunks_mut(states.max(1)).enumerate() {
        for k in 0..=n {
            let (factor, from) = (lower[n * states + k], &lower[k * states..=k * (states + 1)]);
            row.iter_mut().zip(from).for_each(|(sum, x)| *sum += factor * x);
        }
    }
    product
}

/// `lower right`. `lower`: `[S, S]`; `right`: `[S, width]`.
fn multiply(lower: &[f64], right: &[f64], states: usize, width: usize) -> Vec<f64> {
    by_rows(right, width, |n, row| (0..=n).for_each(|k| row(lower[n * states + k], k)))
}

/// `lower^T right`. `lower`: `[S, S]`; `right`: `[S, width]`.
fn multiply_transposed(lower: &[f64], right: &[f64], states: usize, width: usize) -> Vec<f64> {
    by_rows(right, width, |k, row| (k..states).for_each(|n| row(lower[n * states + k], n)))
}

/// A matrix whose row `n` adds up what `terms(n, add)` hands to `add`: a factor and the row of `right`
/// it multiplies.
fn by_rows(
    right: &[f64],
    width: usize,
    terms: impl Fn(usize, &mut dyn FnMut(f64, usize)) + Sync,
) -> Vec<f64> {
    let mut product = vec![0.0; right.len()];
    let rows = product.par_chunks_mut(width.max(1)).enumerate();
    rows.with_min_len(1 + 4096 / width.max(1)).for_each(|(n, row)| {
        terms(n, &mut |factor, from| {
            let from = &right[from * width..(from + 1) * width];
            row.iter_mut().zip(from).for_each(|(sum, x)| *sum += factor * x);
        });
    });
    product
}

/// The kernel `K[j] = C Abar^j Bbar`, `[N]`, differentiable in all arguments. `a`: `[S, S]` (its
/// lower triangle), `b`, `c`: `[S]`, `step`: `[1]`.
pub fn kernel(a: Tensor<2>, b: Tensor<1>, c: Tensor<1>, step: Tensor<1>, n: usize) -> Tensor<1> {
    kernel_channels(a, b.unsqueeze_dim(1), c.unsqueeze_dim(0), step, n).squeeze_dim(1)
}

/// A kernel for every channel, `[N, d]`, differentiable in all arguments. `a`: `[S, S]` (its lower
/// triangle), `b`: `[S, d]`, `c`: `[d, S]`, `step`: `[1]`.
///
/// On the CPU in float64, whatever the arguments, which are few; elsewhere
/// [in their own precision](kernel_channels_as_given).
pub fn kernel_channels(a: Tensor<2>, b: Tensor<2>, c: Tensor<2>, step: Tensor<1>, n: usize) -> Tensor<2> {
    match on_cpu(&a.device()) {
        true => fused::kernel(a, b, c, step, n),
        false => kernel_channels_as_given(a, b, c, step, n),
    }
}

/// [`kernel_channels`] in the precision of its arguments.
///
/// With `m` about `sqrt(N)`, `K[a m + b] = (C Abar^(a m)) (Abar^b Bbar)`: both sides are made by
/// doubling, so that launches grow with `log N`. Where A is dissipative, as LegS is, `|Abar| <= 1`
/// and no power grows. Measured in float32 at N = 196, as a share of the largest entry, for
/// S = 1 ... 256 and steps 1e-3 ... 1e-1: kernels to 1e-5 (2.2e-5 at S = 2 and step 1e-3, where Abar
/// is so near I that float32 spends its digits on the 1), gradients to 5e-5.
pub fn kernel_channels_as_given(
    a: Tensor<2>,
    b: Tensor<2>,
    c: Tensor<2>,
    step: Tensor<1>,
    n: usize,
) -> Tensor<2> {
    let [_, d] = b.dims();
    let step = step.unsqueeze_dim::<2>(1); // [1, 1]
    let inverse = inverse_of_implicit(a * step.clone()); // [S, S]
    // Abar, for I + dt/2 A = 2 I - (I - dt/2 A).
    let mut power = inverse.clone() * 2.0 - mask(&inverse, |n, k| n == k); // [S, S]
    let square = |power: Tensor<2>| power.clone().matmul(power);
    let small = (n.max(1) as f64).sqrt().ceil() as usize;
    let small = small.next_power_of_two();
    let large = n.div_ceil(small).next_power_of_two();
    let mut after = inverse.matmul(b * step).unsqueeze_dim::<3>(0); // [b, S, d]: Abar^b Bbar
    while after.dims()[0] < small {
        let later = power.clone().unsqueeze_dim::<3>(0).matmul(after.clone());
        after = Tensor::cat(vec![after, later], 0);
        power = square(power);
    }
    let mut before = c.unsqueeze_dim::<3>(0); // [a, d, S]: C Abar^(a m)
    while before.dims()[0] < large {
        let earlier = before.clone().matmul(power.clone().unsqueeze_dim::<3>(0));
        before = Tensor::cat(vec![before, earlier], 0);
        power = square(power);
    }
    let kernel = before.swap_dims(0, 1).matmul(after.permute([2, 1, 0])); // [d, a, b]
    kernel.reshape([d, large * small]).narrow(1, 0, n).transpose() // [N, d]
}

/// `(I - dt/2 A)^-1`, `[S, S]`, from the lower triangle of `dt A`, in `log2 S` levels: with the
/// diagonal blocks of one size inverted, `X`, those of twice the size are `X - X M X`, where `M`
/// holds what couples the two halves of each.
fn inverse_of_implicit(a: Tensor<2>) -> Tensor<2> {
    let [states, _] = a.dims();
    let implicit = a * -0.5; // [S, S]: without I
    let diagonal = mask(&implicit, |n, k| n == k);
    let mut inverse = diagonal.clone() / (implicit.clone() * diagonal + 1.0); // [S, S]
    let mut size = 1;
    while size < states {
        let couples = |n: usize, k: usize| n / (2 * size) == k / (2 * size) && n / size > k / size;
        let coupling = implicit.clone() * mask(&implicit, couples);
        inverse = inverse.clone() - inverse.clone().matmul(coupling).matmul(inverse);
        size *= 2;
    }
    inverse
}

/// 1 where `holds(row, column)`, else 0: `[S, S]`, where and as `like` is.
fn mask(like: &Tensor<2>, holds: impl Fn(usize, usize) -> bool) -> Tensor<2> {
    let [states, _] = like.dims();
    let data = (0..states * states).map(|at| f32::from(holds(at / states, at % states))).collect();
    let data = TensorData::new::<f32, _>(data, [states, states]);
    Tensor::from_data(data, (&like.device(), like.dtype()))
}
