//! The zero-order hold and its gradient: `Abar = exp(dt A)` and `Bbar = dt phi(dt A) B`, where
//! `phi(Z) = Z^-1 (exp(Z) - I) = sum_k Z^k / (k+1)!`.
//!
//! With `Z = dt A / 2^s` so small that some terms of the series are all of it, `phi(Z)` is made by Horner's rule, and
//! `E(Z) = exp(Z) - I = Z phi(Z)`. Then both are doubled s times: `phi(2Z) = phi(Z) + phi(Z) E(Z) / 2` and
//! `E(2Z) = E(Z)^2 + 2 E(Z)`. Nothing is inverted, and as `E` and not `exp` is kept, no digit of a small Z is lost beside
//! the 1. Where A is dissipative, as LegS is, `exp` has norm 1 at most, so that nothing grows on the way.
//!
//! Back, every product gives its two factors what it owes them: with `G` what `E(2Z)` owes and `H` what `phi(2Z)` does,
//! `phi(Z)` owes `H + H E^T / 2`, and `E(Z)` owes `G E^T + E^T G + 2 G + phi^T H / 2`.

use burn::tensor::Tensor;

use super::{hippo, mask};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::simd::add_scaled;

/// Terms of the series behind its first: at norm [`SMALL`] the next one is below 5e-17.
const TERMS: u32 = 13;
/// Norm from which on `dt A` is halved.
const SMALL: f64 = 0.5;
/// Halved no more often, however large: 2^40 times the usual is no number a training comes to.
const MAX_HALVINGS: u32 = 40;
/// The largest step that a probe has.
const LONGEST: f64 = 0.1;

/// `exp(dt A)` and `phi(dt A)`, and the way to them.
pub(super) struct ZeroOrderHold {
    states: usize,
    /// `Z`, `[S, S]`.
    small: Vec<f64>,
    /// Horner's sums, `phi(Z)` first, `[S, S]` each.
    sums: Vec<Vec<f64>>,
    /// `phi` and `E` of `Z, 2 Z, 4 Z, ...`, the last of them of `dt A`.
    doubled: Vec<[Vec<f64>; 2]>,
}

impl ZeroOrderHold {
    /// Of the lower triangle of `a`, `[S, S]`.
    pub fn new(a: &[f64], step: f64) -> Self {
        let states = a.len().isqrt();
        let mut small = vec![0.0; states * states];
        for at in (0..states * states).filter(|at| at % states <= at / states) {
            small[at] = step * a[at];
        }
        let halvings = halvings(norm(&small, states));
        small.iter_mut().for_each(|x| *x /= f64::from(halvings).exp2());
        let product = |a: &[f64], b: &[f64], mut into: Vec<f64>| {
            square(a).times(square(b), &mut into);
            into
        };
        let mut sums = vec![diagonal(states, term(TERMS))];
        for k in (0..TERMS).rev() {
            sums.push(product(&small, &sums[sums.len() - 1], diagonal(states, term(k))));
        }
        sums.reverse();
        let zero = || vec![0.0; states * states];
        let mut doubled = vec![[sums[0].clone(), product(&small, &sums[0], zero())]];
        for at in 0..halvings as usize {
            let [phi, gone] = &doubled[at];
            let half: Vec<f64> = phi.iter().map(|x| 0.5 * x).collect();
            let phi = product(&half, gone, phi.clone());
            let gone = product(gone, gone, gone.iter().map(|x| 2.0 * x).collect());
            doubled.push([phi, gone]);
        }
        Self { states, small, sums, doubled }
    }

    fn last(&self) -> &[Vec<f64>; 2] {
        &self.doubled[self.doubled.len() - 1]
    }

    /// `Abar`, `[S, S]`, lower triangular.
    pub fn transition(&self) -> Vec<f64> {
        let mut transition = self.last()[1].clone();
        (0..self.states).for_each(|n| transition[n * (self.states + 1)] += 1.0);
        transition
    }

    /// What makes `Bbar` of `dt B`, `[S, S]`.
    pub fn input(&self) -> Matrix<'_, f64> {
        square(&self.last()[0])
    }

    /// The gradients of `A`, `B` and the step, which it was made of, given those of `Abar`, `[S, S]`, and `Bbar`, `[S, d]`.
    pub fn vjp(
        &self,
        (a, b, step): (&[f64], &[f64], f64),
        by_transition: &[f64],
        by_impulse: &[f64],
    ) -> (Vec<f64>, Vec<f64>, f64) {
        let states = self.states;
        let wide = |values| Matrix::new(values, b.len() / states);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let mut by_b = vec![0.0; b.len()];
        self.input().transposed().times(wide(by_impulse), &mut by_b);
        let mut by_step = dot(&by_b, b);
        by_b.iter_mut().for_each(|x| *x *= step);
        let mut by_phi = vec![0.0; states * states];
        wide(by_impulse).times(wide(b).transposed(), &mut by_phi);
        by_phi.iter_mut().for_each(|x| *x *= step);
        let mut by_gone = by_transition.to_vec();
        for [phi, gone] in self.doubled[..self.doubled.len() - 1].iter().rev() {
            let half: Vec<f64> = by_phi.iter().map(|x| 0.5 * x).collect();
            let mut by: Vec<f64> = by_gone.iter().map(|x| 2.0 * x).collect();
            square(&by_gone).times(square(gone).transposed(), &mut by);
            square(gone).transposed().times(square(&by_gone), &mut by);
            square(phi).transposed().times(square(&half), &mut by);
            square(&half).times(square(gone).transposed(), &mut by_phi);
            by_gone = by;
        }
        let mut by_small = vec![0.0; states * states];
        square(&by_gone).times(square(&self.sums[0]).transposed(), &mut by_small);
        square(&self.small).transposed().times(square(&by_gone), &mut by_phi);
        for later in &self.sums[1..] {
            square(&by_phi).times(square(later).transposed(), &mut by_small);
            let mut by_later = vec![0.0; states * states];
            square(&self.small).transposed().times(square(&by_phi), &mut by_later);
            by_phi = by_later;
        }
        let share = 1.0 / ((self.doubled.len() - 1) as f64).exp2();
        let mut by_a = vec![0.0; states * states];
        for row in 0..states {
            let own = row * states..=row * (states + 1);
            add_scaled(step * share, &by_small[own.clone()], &mut by_a[own.clone()]);
            by_step += share * dot(&by_small[own.clone()], &a[own]);
        }
        (by_a, by_b, by_step)
    }
}

/// `exp(dt A)` and `phi(dt A)`, `[S, S]`, from the lower triangle of `dt A`, halved as often as LegS at the longest step
/// asks for: to read its norm would stop the device. A trained A of four times that still has all digits of float32.
pub(super) fn on_tensors(scaled: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let [states, _] = scaled.dims();
    let halvings = halvings(LONGEST * norm(&hippo(states).0, states));
    let small = scaled.clone() * mask(&scaled, |n, k| n >= k) / f64::from(halvings).exp2();
    let identity = mask(&scaled, |n, k| n == k);
    let mut phi = identity.clone() * term(TERMS);
    for k in (0..TERMS).rev() {
        phi = small.clone().precise_matmul(phi) + identity.clone() * term(k);
    }
    let mut gone = small.precise_matmul(phi.clone());
    for _ in 0..halvings {
        phi = phi.clone() + phi.precise_matmul(gone.clone()) * 0.5;
        gone = gone.clone().precise_matmul(gone.clone()) + gone * 2.0;
    }
    (gone + identity, phi)
}

/// `1 / (k+1)!`.
fn term(k: u32) -> f64 {
    1.0 / (1..=k + 1).map(f64::from).product::<f64>()
}

/// How often a matrix of this norm is halved until its series is short.
fn halvings(norm: f64) -> u32 {
    (norm / SMALL).log2().ceil().clamp(0.0, f64::from(MAX_HALVINGS)) as u32
}

/// The largest sum of a column's sizes.
fn norm(matrix: &[f64], states: usize) -> f64 {
    let column = |k: usize| matrix.iter().skip(k).step_by(states).map(|x| x.abs()).sum::<f64>();
    (0..states).map(column).fold(0.0, f64::max)
}

/// A matrix of as many rows as columns.
fn square(values: &[f64]) -> Matrix<'_, f64> {
    Matrix::new(values, values.len().isqrt())
}

fn diagonal(states: usize, value: f64) -> Vec<f64> {
    let mut matrix = vec![0.0; states * states];
    (0..states).for_each(|n| matrix[n * (states + 1)] = value);
    matrix
}
