//! The kernel of one channel, step by step.
//!
//! One channel has a state of S values, so that N dependent steps cost less than starting the products
//! they could be folded into: `x_0 = Bbar`, `x_{j+1} = Abar x_j`, `K[j] = C x_j`. Back, with `y_j` what
//! the gradient of state `j`: `y_j = dK[j] C + Abar^T y_{j+1}` and `dAbar = sum_j y_{j+1} x_j^T`.

use super::discrete::Discrete;
use super::fused::Gradients;
use crate::model::ops::gemm::Matrix;
use crate::model::ops::simd::add_scaled;

/// The states an impulse goes through.
pub(super) struct Recurrence {
    pub system: Discrete,
    /// `C`, `[S]`.
    c: Vec<f64>,
    /// `x_j`, `[N, S]`.
    path: Vec<f64>,
}

impl Recurrence {
    /// `n` steps of a system of one channel.
    pub fn new(system: Discrete, c: Vec<f64>, n: usize) -> Self {
        let states = system.states;
        let transition = &system.transition;
        let columns: Vec<f64> =
            (0..states * states).map(|at| transition[at % states * states + at / states]).collect();
        let mut path = vec![0.0; n * states];
        path.iter_mut().zip(&system.impulse).for_each(|(x, b)| *x = *b);
        for at in 1..n {
            let (before, after) = path[(at - 1) * states..].split_at_mut(states);
            let after = &mut after[..states];
            for (k, &x) in before.iter().enumerate() {
                add_scaled(x, &columns[k * states + k..(k + 1) * states], &mut after[k..]);
            }
        }
        Self { system, c, path }
    }

    /// `K`, `[N]`.
    pub fn kernel(&self) -> Vec<f64> {
        let states = self.path.chunks(self.system.states);
        states.map(|x| x.iter().zip(&self.c).map(|(x, c)| x * c).sum()).collect()
    }

    /// The gradients, given that of the kernel.
    pub fn vjp(&self, by_kernel: &[f64]) -> Gradients {
        let (states, n) = (self.system.states, by_kernel.len());
        let (mut by_c, mut by_states) = (vec![0.0; states], vec![0.0; n * states]);
        for j in (0..n).rev() {
            add_scaled(by_kernel[j], &self.path[j * states..(j + 1) * states], &mut by_c);
            let (own, later) = by_states[j * states..].split_at_mut(states);
            add_scaled(by_kernel[j], &self.c, own);
            for (row, &y) in later.iter().take(states).enumerate() {
                add_scaled(y, &self.system.transition[row * states..=row * (states + 1)], &mut own[..=row]);
            }
        }
        let (first, later) = by_states.split_at(states.min(by_states.len()));
        let mut by_transition = vec![0.0; states * states];
        let path = Matrix::new(&self.path[..later.len()], states);
        Matrix::new(later, states).transposed().times(path, &mut by_transition);
        let (a, b, step) = self.system.vjp(&by_transition, first);
        Gradients { a, b, c: by_c, step }
    }
}
