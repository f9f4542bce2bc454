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
//! [`kernel_channels`] on tensors, differentiable, for training. Only the lower triangle of `a` is
//! ever read.

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

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
        solve(&implicit, &mut transition, states, states);
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
    pub fn kernel_channels(&self, b: &[f64], c: &[f64], d: usize, n: usize) -> Vec<f64> {
        let mut state: Vec<f64> = b.iter().map(|b| self.step * b).collect(); // [S, d]
        solve(&self.implicit, &mut state, self.states, d);
        let mut kernel = Vec::with_capacity(n * d);
        for _ in 0..n {
            let row: Vec<f64> = (0..d)
                .into_par_iter()
                .map(|ch| (0..self.states).map(|s| c[ch * self.states + s] * state[s * d + ch]).sum())
                .collect();
            kernel.extend(row);
            state = multiply(&self.transition, &state, self.states, d);
        }
        kernel
    }
}

/// `lower^-1 right` in place by forward substitution. `lower`: `[S, S]`; `right`: `[S, width]`.
fn solve(lower: &[f64], right: &mut [f64], states: usize, width: usize) {
    for n in 0..states {
        let (done, rest) = right.split_at_mut(n * width);
        let row = &mut rest[..width];
        for k in 0..n {
            let factor = lower[n * states + k];
            row.iter_mut().zip(&done[k * width..]).for_each(|(x, y)| *x -= factor * y);
        }
        let pivot = lower[n * (states + 1)];
        row.iter_mut().for_each(|x| *x /= pivot);
    }
}

/// `lower right`. `lower`: `[S, S]`; `right`: `[S, width]`.
fn multiply(lower: &[f64], right: &[f64], states: usize, width: usize) -> Vec<f64> {
    let mut product = vec![0.0; states * width];
    product.par_chunks_mut(width.max(1)).enumerate().for_each(|(n, row)| {
        for k in 0..=n {
            let factor = lower[n * states + k];
            row.iter_mut().zip(&right[k * width..]).for_each(|(x, y)| *x += factor * y);
        }
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
/// With `m` about `sqrt(N)`, `K[a m + b] = (C Abar^(a m)) (Abar^b Bbar)`: both sides are made by
/// doubling, so that launches grow with `log N`.
pub fn kernel_channels(a: Tensor<2>, b: Tensor<2>, c: Tensor<2>, step: Tensor<1>, n: usize) -> Tensor<2> {
    let [_, d] = b.dims();
    let inverse = inverse_of_implicit(a, step.clone()); // [S, S]
    let [states, _] = inverse.dims();
    let unit = Tensor::<2>::eye(states, &inverse.device());
    let transition = inverse.clone() * 2.0 - unit; // [S, S]: I + dt/2 A = 2 I - (I - dt/2 A)
    let start = inverse.matmul(b * step.unsqueeze_dim(1)); // [S, d]
    let small = (n as f64).sqrt().ceil() as usize;
    let small = small.next_power_of_two();
    let large = n.div_ceil(small);
    let mut power = transition; // Abar^(2^level)
    let mut states_after = start.unsqueeze_dim::<3>(0); // [b, S, d]: Abar^b Bbar
    while states_after.dims()[0] < small {
        let later = power.clone().unsqueeze_dim::<3>(0).matmul(states_after.clone());
        states_after = Tensor::cat(vec![states_after, later], 0);
        power = power.clone().matmul(power);
    }
    let mut outputs_before = c.unsqueeze_dim::<3>(0); // [a, d, S]: C Abar^(a m)
    while outputs_before.dims()[0] < large {
        let earlier = outputs_before.clone().matmul(power.clone().unsqueeze_dim::<3>(0));
        outputs_before = Tensor::cat(vec![outputs_before, earlier], 0);
        power = power.clone().matmul(power);
    }
    let left = outputs_before.swap_dims(0, 1); // [d, a, S]
    let right = states_after.permute([2, 1, 0]); // [d, S, b]
    let [_, rows, _] = left.dims();
    let kernel = left.matmul(right).reshape([d, rows * small]); // [d, a m + b]
    kernel.narrow(1, 0, n).transpose()
}

/// `(I - dt/2 A)^-1`, `[S, S]`, from the lower triangle of `a`, in `log2 S` levels: with the
/// diagonal blocks of one size inverted, `X`, those of twice the size are `X - X M X`, where `M`
/// holds what couples the two halves of each.
fn inverse_of_implicit(a: Tensor<2>, step: Tensor<1>) -> Tensor<2> {
    let [states, _] = a.dims();
    let device = a.device();
    let scaled = a * (step * -0.5).unsqueeze_dim(1); // [S, S]: -dt/2 A
    let diagonal = mask(states, &device, |n, k| n == k);
    let mut inverse = diagonal.clone() / (scaled.clone() * diagonal + 1.0); // [S, S]
    let mut size = 1;
    while size < states {
        let coupling = mask(states, &device, |n, k| n / (2 * size) == k / (2 * size) && n / size > k / size);
        let coupling = scaled.clone() * coupling;
        inverse = inverse.clone() - inverse.clone().matmul(coupling).matmul(inverse);
        size *= 2;
    }
    inverse
}

/// 1 where `holds(row, column)`, else 0: `[S, S]`.
fn mask(states: usize, device: &Device, holds: impl Fn(usize, usize) -> bool) -> Tensor<2> {
    let data = (0..states * states).map(|at| f32::from(holds(at / states, at % states))).collect();
    Tensor::from_data(TensorData::new::<f32, _>(data, [states, states]), device)
}
