//! The kernel of one channel, step by step.
//!
//! The state of one channel has only S values, so that N dependent steps cost less than the overhead of the
//! matrix products that could replace them: `x_0 = Bbar`, `x_{j+1} = Abar x_j`, `K[j] = C x_j`. Backward, with `y_j`
//! the gradient of `x_j`: `y_j = dK[j] C + Abar^T y_{j+1}` and `dAbar = sum_j y_{j+1} x_j^T`.

use super::discrete::Discrete;
use super::fused::Gradients;
use crate::model::ops::gemm::Matrix;
use crate::model::ops::simd::add_scaled;

/// The kernel of one channel, as the states that follow a unit impulse.
pub(super) struct Recurrence {
    system: Discrete,
    /// `C`, `[S]`.
    c: Vec<f64>,
    /// `x_j`, `[N, S]`.
    trajectory: Vec<f64>,
}

impl Recurrence {
    /// Runs `n` steps of a system of one channel. `c`: `[S]`.
    pub fn new(system: Discrete, c: Vec<f64>, n: usize) -> Self {
        let states = system.states;
        let transition = &system.transition;
        let columns: Vec<f64> =
            (0..states * states).map(|at| transition[at % states * states + at / states]).collect();
        let mut trajectory = vec![0.0; n * states];
        trajectory.iter_mut().zip(&system.impulse).for_each(|(x, b)| *x = *b);
        for at in 1..n {
            let (before, after) = trajectory[(at - 1) * states..].split_at_mut(states);
            let after = &mut after[..states];
            for (k, &x) in before.iter().enumerate() {
                add_scaled(x, &columns[k * states + k..(k + 1) * states], &mut after[k..]);
            }
        }
        Self { system, c, trajectory }
    }

    /// `K`, `[N]`.
    pub fn kernel(&self) -> Vec<f64> {
        let states = self.trajectory.chunks(self.system.states);
        states.map(|x| x.iter().zip(&self.c).map(|(x, c)| x * c).sum()).collect()
    }

    /// The gradients of A, B, C and the step size, given that of the kernel, `[N]`.
    pub fn vjp(&self, grad_kernel: &[f64]) -> Gradients {
        let (states, n) = (self.system.states, grad_kernel.len());
        let (mut grad_c, mut grad_states) = (vec![0.0; states], vec![0.0; n * states]);
        for j in (0..n).rev() {
            add_scaled(grad_kernel[j], &self.trajectory[j * states..(j + 1) * states], &mut grad_c);
            let (own, later) = grad_states[j * states..].split_at_mut(states);
            add_scaled(grad_kernel[j], &self.c, own);
            for (row, &y) in later.iter().take(states).enumerate() {
                add_scaled(y, &self.system.transition[row * states..=row * (states + 1)], &mut own[..=row]);
            }
        }
        let (first, later) = grad_states.split_at(states.min(grad_states.len()));
        let mut grad_transition = vec![0.0; states * states];
        let trajectory = Matrix::new(&self.trajectory[..later.len()], states);
        Matrix::new(later, states).transposed().times(trajectory, &mut grad_transition);
        let (a, b, step) = self.system.vjp(&grad_transition, first);
        Gradients { a, b, c: grad_c, step }
    }
}
