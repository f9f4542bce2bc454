//! Discretisation of `A` and `B` and its gradient, on the host in float64: the bilinear rule here, the zero-order hold in
//! [`zoh`](super::zoh).
//!
//! Bilinear, with `M = I - dt/2 A` and `X = M^-1`: `Abar = 2 X - I` and `Bbar = dt X B`. Backward, with `dAbar` the
//! gradient of `Abar` and `Y` that of `Bbar`: `dX = 2 dAbar + Y (dt B)^T`, `dM = -X^T dX X^T` and `dB = dt X^T Y`.

use super::zoh::ZeroOrderHold;
use crate::model::ops::gemm::Matrix;
use crate::model::probe::settings::Discretization;

/// A discretised system, and what its gradient needs.
pub(super) struct Discrete {
    pub states: usize,
    /// `A`, `[S, S]`; only its lower triangle is read.
    a: Vec<f64>,
    /// `B`, `[S, d]`.
    b: Vec<f64>,
    step: f64,
    rule: Rule,
    /// `Abar`, `[S, S]`, lower triangular.
    pub transition: Vec<f64>,
    /// `Bbar`, `[S, d]`.
    pub impulse: Vec<f64>,
}

/// What the gradient needs that depends on the rule.
enum Rule {
    /// `X`, `[S, S]`, lower triangular.
    Bilinear(Vec<f64>),
    Zoh(ZeroOrderHold),
}

impl Discrete {
    /// Discretises with the given step size and rule. `a`: `[S, S]`, `b`: `[S, d]`.
    pub fn new(a: Vec<f64>, b: Vec<f64>, step: f64, rule: Discretization) -> Self {
        let states = a.len().isqrt();
        let rule = match rule {
            Discretization::Bilinear => Rule::Bilinear(inverse_of_implicit(&a, step)),
            Discretization::Zoh => Rule::Zoh(ZeroOrderHold::new(&a, step)),
        };
        // Abar, and the matrix by which dt B is multiplied to give Bbar.
        let (transition, input) = match &rule {
            Rule::Bilinear(inverse) => {
                let mut transition: Vec<f64> = inverse.iter().map(|x| 2.0 * x).collect();
                (0..states).for_each(|row| transition[row * (states + 1)] -= 1.0);
                (transition, Matrix::new(inverse, states))
            }
            Rule::Zoh(hold) => (hold.transition(), hold.phi()),
        };
        let mut impulse = vec![0.0; b.len()];
        input.times(Matrix::new(&b, b.len() / states), &mut impulse);
        impulse.iter_mut().for_each(|x| *x *= step);
        Self { states, a, b, step, rule, transition, impulse }
    }

    /// Spectral radius of `Abar`, which is triangular: its largest diagonal entry in absolute value.
    pub fn radius(&self) -> f64 {
        (0..self.states).map(|n| self.transition[n * (self.states + 1)].abs()).fold(0.0, f64::max)
    }

    /// The gradients of `A`, `B` and the step size, given those of `Abar`, `[S, S]`, and `Bbar`, `[S, d]`.
    pub fn vjp(&self, grad_transition: &[f64], grad_impulse: &[f64]) -> (Vec<f64>, Vec<f64>, f64) {
        let (states, width) = (self.states, self.b.len() / self.states);
        let inverse = match &self.rule {
            Rule::Bilinear(inverse) => inverse,
            Rule::Zoh(hold) => return hold.vjp((&self.a, &self.b, self.step), grad_transition, grad_impulse),
        };
        let table = || vec![0.0; states * states];
        let mut grad_inverse: Vec<f64> = grad_transition.iter().map(|x| 2.0 * x).collect();
        let input: Vec<f64> = self.b.iter().map(|b| self.step * b).collect();
        let input = Matrix::new(&input, width).transposed();
        Matrix::new(grad_impulse, width).times(input, &mut grad_inverse);
        let transposed = Matrix::new(inverse, states).transposed();
        let (mut half, mut neg_grad_implicit) = (table(), table());
        transposed.times(Matrix::new(&grad_inverse, states), &mut half);
        Matrix::new(&half, states).times(transposed, &mut neg_grad_implicit); // -dM = X^T dX X^T
        let mut grad_b = vec![0.0; self.b.len()];
        transposed.times(Matrix::new(grad_impulse, width), &mut grad_b); // X^T Y
        let mut grad_step: f64 = grad_b.iter().zip(&self.b).map(|(x, b)| x * b).sum();
        grad_b.iter_mut().for_each(|x| *x *= self.step);
        let mut grad_a = table();
        for row in 0..states {
            for at in row * states..=row * (states + 1) {
                grad_a[at] = 0.5 * self.step * neg_grad_implicit[at];
                grad_step += 0.5 * self.a[at] * neg_grad_implicit[at];
            }
        }
        (grad_a, grad_b, grad_step)
    }
}

/// `X = (I - dt/2 A)^-1`, `[S, S]`, from the lower triangle of `a` by forward substitution.
fn inverse_of_implicit(a: &[f64], step: f64) -> Vec<f64> {
    let states = a.len().isqrt();
    let mut inverse = vec![0.0; states * states];
    for n in 0..states {
        let (done, rest) = inverse.split_at_mut(n * states);
        let row = &mut rest[..=n];
        row[n] = 1.0;
        for k in 0..n {
            let factor = -0.5 * step * a[n * states + k];
            let from = &done[k * states..=k * (states + 1)];
            row.iter_mut().zip(from).for_each(|(x, y)| *x -= factor * y);
        }
        let pivot = -0.5 * step * a[n * (states + 1)] + 1.0;
        row.iter_mut().for_each(|x| *x /= pivot);
    }
    inverse
}
