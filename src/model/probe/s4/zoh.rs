//! The zero-order hold and its gradient: `Abar = exp(dt A)` and `Bbar = dt phi(dt A) B`, where
//! `phi(Z) = Z^-1 (exp(Z) - I) = sum_k Z^k / (k+1)!`.
//!
//! With `Z = dt A / 2^s` so small that a few terms of the series suffice, `phi(Z)` is evaluated by Horner's rule, and
//! `E(Z) = exp(Z) - I = Z phi(Z)`. Then the argument of both is doubled s times: `phi(2Z) = phi(Z) + phi(Z) E(Z) / 2` and
//! `E(2Z) = E(Z)^2 + 2 E(Z)`. Nothing is inverted, and as `E` is kept instead of `exp`, a small Z loses no digits to
//! the 1. Where A is dissipative, as LegS is, `exp` has norm 1 at most, so that nothing grows while doubling.
//!
//! Backward, by the product rule: with `G` the gradient of `E(2Z)` and `H` that of `phi(2Z)`, the gradient of
//! `phi(Z)` is `H + H E^T / 2`, and that of `E(Z)` is `G E^T + E^T G + 2 G + phi^T H / 2`.

use burn::tensor::Tensor;

use super::{hippo, mask};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::simd::add_scaled;
use crate::model::probe::params::STEP_BOUNDS;

/// Terms of the series after its first: at norm [`MAX_NORM`] the first one left out is below 5e-17.
const TERMS: u32 = 13;
/// Largest norm at which the series is evaluated: `dt A` is halved until it is no larger.
const MAX_NORM: f64 = 0.5;
/// Most halvings: no training reaches a norm of 2^40 times the usual.
const MAX_HALVINGS: u32 = 40;

/// `exp(dt A)` and `phi(dt A)`, with the intermediate results that their gradient needs.
pub(super) struct ZeroOrderHold {
    states: usize,
    /// `Z`, `[S, S]`.
    small: Vec<f64>,
    /// Partial results of Horner's rule, the last one, `phi(Z)`, first; `[S, S]` each.
    sums: Vec<Vec<f64>>,
    /// `phi` and `E` at `Z, 2 Z, 4 Z, ...`; the last pair is that of `dt A`.
    doubled: Vec<[Vec<f64>; 2]>,
}

impl ZeroOrderHold {
    /// Computes both from the lower triangle of `a`, `[S, S]`, and the step size.
    pub fn new(a: &[f64], step: f64) -> Self {
        let states = a.len().isqrt();
        let mut small = vec![0.0; states * states];
        for at in (0..states * states).filter(|at| at % states <= at / states) {
            small[at] = step * a[at];
        }
        let halvings = halvings(norm(&small, states));
        small.iter_mut().for_each(|x| *x /= f64::from(halvings).exp2());
        let product = |a: &[f64], b: &[f64], mut into: Vec<f64>| {
            view(a).times(view(b), &mut into);
            into
        };
        let mut sums = vec![diagonal(states, coefficient(TERMS))];
        for k in (0..TERMS).rev() {
            sums.push(product(&small, &sums[sums.len() - 1], diagonal(states, coefficient(k))));
        }
        sums.reverse();
        let zero = || vec![0.0; states * states];
        let mut doubled = vec![[sums[0].clone(), product(&small, &sums[0], zero())]];
        for at in 0..halvings as usize {
            let [phi, expm1] = &doubled[at];
            let half: Vec<f64> = phi.iter().map(|x| 0.5 * x).collect();
            let phi = product(&half, expm1, phi.clone());
            let expm1 = product(expm1, expm1, expm1.iter().map(|x| 2.0 * x).collect());
            doubled.push([phi, expm1]);
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

    /// `phi(dt A)`, `[S, S]`, by which `dt B` is multiplied to give `Bbar`.
    pub fn phi(&self) -> Matrix<'_, f64> {
        view(&self.last()[0])
    }

    /// The gradients of `A`, `B` and the step size, whose values are passed in, given those of `Abar`, `[S, S]`, and `Bbar`, `[S, d]`.
    pub fn vjp(
        &self,
        (a, b, step): (&[f64], &[f64], f64),
        grad_transition: &[f64],
        grad_impulse: &[f64],
    ) -> (Vec<f64>, Vec<f64>, f64) {
        let states = self.states;
        let wide = |values| Matrix::new(values, b.len() / states);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let mut grad_b = vec![0.0; b.len()];
        self.phi().transposed().times(wide(grad_impulse), &mut grad_b);
        let mut grad_step = dot(&grad_b, b);
        grad_b.iter_mut().for_each(|x| *x *= step);
        let mut grad_phi = vec![0.0; states * states];
        wide(grad_impulse).times(wide(b).transposed(), &mut grad_phi);
        grad_phi.iter_mut().for_each(|x| *x *= step);
        let mut grad_expm1 = grad_transition.to_vec();
        for [phi, expm1] in self.doubled[..self.doubled.len() - 1].iter().rev() {
            let half: Vec<f64> = grad_phi.iter().map(|x| 0.5 * x).collect();
            let mut grad: Vec<f64> = grad_expm1.iter().map(|x| 2.0 * x).collect();
            view(&grad_expm1).times(view(expm1).transposed(), &mut grad);
            view(expm1).transposed().times(view(&grad_expm1), &mut grad);
            view(phi).transposed().times(view(&half), &mut grad);
            view(&half).times(view(expm1).transposed(), &mut grad_phi);
            grad_expm1 = grad;
        }
        let mut grad_small = vec![0.0; states * states];
        view(&grad_expm1).times(view(&self.sums[0]).transposed(), &mut grad_small);
        view(&self.small).transposed().times(view(&grad_expm1), &mut grad_phi);
        for later in &self.sums[1..] {
            view(&grad_phi).times(view(later).transposed(), &mut grad_small);
            let mut grad_later = vec![0.0; states * states];
            view(&self.small).transposed().times(view(&grad_phi), &mut grad_later);
            grad_phi = grad_later;
        }
        let scale = 1.0 / ((self.doubled.len() - 1) as f64).exp2();
        let mut grad_a = vec![0.0; states * states];
        for row in 0..states {
            let own = row * states..=row * (states + 1);
            add_scaled(step * scale, &grad_small[own.clone()], &mut grad_a[own.clone()]);
            grad_step += scale * dot(&grad_small[own.clone()], &a[own]);
        }
        (grad_a, grad_b, grad_step)
    }
}

/// `exp(dt A)` and `phi(dt A)`, `[S, S]`, from the lower triangle of `dt A`, halved as often as LegS needs at the largest
/// step: reading the actual norm would stall the device. A trained A of four times that norm still has all digits of float32.
pub(super) fn on_tensors(scaled: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let [states, _] = scaled.dims();
    let halvings = halvings(STEP_BOUNDS.1 * norm(&hippo(states).0, states));
    let small = scaled.clone() * mask(&scaled, |n, k| n >= k) / f64::from(halvings).exp2();
    let identity = mask(&scaled, |n, k| n == k);
    let mut phi = identity.clone() * coefficient(TERMS);
    for k in (0..TERMS).rev() {
        phi = small.clone().precise_matmul(phi) + identity.clone() * coefficient(k);
    }
    let mut expm1 = small.precise_matmul(phi.clone());
    for _ in 0..halvings {
        phi = phi.clone() + phi.precise_matmul(expm1.clone()) * 0.5;
        expm1 = expm1.clone().precise_matmul(expm1.clone()) + expm1 * 2.0;
    }
    (expm1 + identity, phi)
}

/// Coefficient of `Z^k` in `phi(Z)`: `1 / (k+1)!`.
fn coefficient(k: u32) -> f64 {
    1.0 / (1..=k + 1).map(f64::from).product::<f64>()
}

/// How often a matrix of this norm is halved to have a norm of at most [`MAX_NORM`].
fn halvings(norm: f64) -> u32 {
    (norm / MAX_NORM).log2().ceil().clamp(0.0, f64::from(MAX_HALVINGS)) as u32
}

/// The 1-norm: the largest column sum of absolute values.
fn norm(matrix: &[f64], states: usize) -> f64 {
    let column = |k: usize| matrix.iter().skip(k).step_by(states).map(|x| x.abs()).sum::<f64>();
    (0..states).map(column).fold(0.0, f64::max)
}

/// `[S, S]` values as a matrix.
fn view(values: &[f64]) -> Matrix<'_, f64> {
    Matrix::new(values, values.len().isqrt())
}

/// `value` times the identity, `[S, S]`.
fn diagonal(states: usize, value: f64) -> Vec<f64> {
    let mut matrix = vec![0.0; states * states];
    (0..states).for_each(|n| matrix[n * (states + 1)] = value);
    matrix
}
