//! The gain of one channel by the bilinear rule on GPUs, in float32: three launches forward and two back, where tensors take
//! some 100 and 190. CubeCL kernels for wgpu and CUDA.
//!
//! | file | what |
//! |---|---|
//! | `product` | a matrix times one vector after another, without reading it again |
//! | `kernels` | the launches |
//!
//! The bilinear rule is the implicit midpoint rule: step `j` adds `dt r_j` to the state, where the slope `r_j` is that at the
//! middle `q_j` of the step, and the first step starts at 0 with an impulse of B:
//!
//! * `x_j = x_{j-1} + dt r_j`, `q_j = x_{j-1} + dt/2 r_j = x_j - dt/2 r_j`, `r_j = A q_j (+ B where j = 0)`;
//! * solved for the slope, with `R = A (I - dt/2 A)^-1`: `r_j = R x_{j-1}`, and `r_0 = B + dt/2 R B`;
//! * so that `x_0 = Bbar`, `x_j = Abar x_{j-1}` and `Abar = I + dt R`: of a small R float32 keeps all digits, of an Abar near I
//!   only those beside the 1, an error that N steps repeat.
//!
//! Back, `y_j` what the gradient of state `j` and `p_j = (I - dt/2 A)^-T y_j` that of the right side of its slope's equation:
//!
//! * `y_j = dK[j] C + y_{j+1} + dt R^T y_{j+1}`, `p_j = y_j + dt/2 R^T y_j`;
//! * `dA = dt sum_j p_j q_j^T` in the lower triangle, `dB = dt p_0`, `dC = sum_j dK[j] x_j`, `d dt = sum_j p_j . r_j`;
//! * of the gain `G[N-1-j] = K[j]`, D more where `j = 0`: `dK[j] = dG[N-1-j]`, `dD = dG[N-1]`.

mod kernels;
mod product;

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use self::product::{UNITS, units};
use super::{Steps, System};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::{arg, empty, takes};
use crate::model::probe::settings::Discretization;

/// [`super::gain`] by these kernels; none where they do not take it: on the processor, of many channels, by another rule, in other
/// numbers than float32, of more than 256 states.
pub fn gain(System { a, b, c, skip, step }: &System, (rule, steps): Steps) -> Option<Tensor<2>> {
    let [states, channels] = b.dims();
    let fits = channels == 1 && (1..=UNITS).contains(&states) && steps > 0;
    let takes = fits && rule == Discretization::Bilinear && takes(a, UNITS, steps);
    takes.then(|| {
        let [a, b, c] = [a, b, c].map(|matrix| matrix.clone().into_dispatch());
        let [skip, step] = [skip, step].map(|vector| vector.clone().into_dispatch());
        apply::<Cube, _, 5, 2>(GainOp { steps }, [a, b, c, skip, step])
    })
}

/// The gain of so many steps, of A, B, C, D and the step size.
struct GainOp {
    steps: usize,
}

/// What the way back needs.
struct Saved {
    steps: usize,
    /// `[1, S]`.
    c: CubeTensor,
    /// `[1]`.
    step: CubeTensor,
    /// `R`, `[S, S]`.
    rates: CubeTensor,
    /// `x_j`, `[N, S]`.
    path: CubeTensor,
    /// `r_j`, `[N, S]`.
    slopes: CubeTensor,
}

impl CustomOp<CubeBackend, 5> for GainOp {
    type Saved = Saved;

    fn forward(self, inputs: [CubeTensor; 5], _: bool) -> (CubeTensor, Saved) {
        let [a, b, c, skip, step] = inputs.map(into_contiguous);
        let (client, steps) = (&a.client, self.steps);
        let [states, _] = a.meta.shape().dims();
        let rates = empty(&a, [states, states]);
        let [path, slopes] = [(); 2].map(|()| empty(&a, [steps, states]));
        let gain = empty(&a, [steps, 1]);
        kernels::rates::launch(
            client,
            cubes(states),
            CubeDim::new_1d(states.next_multiple_of(32) as u32),
            arg(&a),
            arg(&step),
            arg(&rates),
            states,
        );
        kernels::states::launch(
            client,
            cubes(1),
            CubeDim::new_1d(units(states)),
            arg(&rates),
            arg(&b),
            arg(&step),
            arg(&path),
            arg(&slopes),
            steps,
            states,
        );
        kernels::outputs::launch(
            client,
            cubes(steps.div_ceil(FEW)),
            CubeDim::new_1d(FEW as u32),
            arg(&path),
            arg(&c),
            arg(&skip),
            arg(&gain),
            states,
        );
        (gain, Saved { steps, c, step, rates, path, slopes })
    }

    fn vjp(saved: &Saved, by_gain: CubeTensor, _: [bool; 5]) -> [Option<CubeTensor>; 5] {
        let Saved { steps, c, step, rates, path, slopes } = saved;
        let (client, by_gain) = (&rates.client, into_contiguous(by_gain));
        let [states, _] = rates.meta.shape().dims();
        let by_slopes = empty(rates, [*steps, states]);
        let (by_a, by_b) = (empty(rates, [states, states]), empty(rates, [states, 1]));
        let by_c = empty(rates, [1, states]);
        let [by_skip, by_step] = [(); 2].map(|()| empty(rates, [1]));
        kernels::adjoint::launch(
            client,
            cubes(1),
            CubeDim::new_1d(units(states)),
            arg(rates),
            arg(c),
            arg(step),
            arg(slopes),
            arg(&by_gain),
            arg(&by_slopes),
            arg(&by_skip),
            arg(&by_step),
            *steps,
            states,
        );
        kernels::gradients::launch(
            client,
            cubes((states * (states + 1)).div_ceil(UNITS)),
            CubeDim::new_1d(UNITS as u32),
            arg(&by_slopes),
            arg(path),
            arg(slopes),
            arg(step),
            arg(&by_gain),
            arg(&by_a),
            arg(&by_b),
            arg(&by_c),
            *steps,
            states,
        );
        [by_a, by_b, by_c, by_skip, by_step].map(Some)
    }
}

/// Threads of a workgroup of which each does much: so few that all of a GPU works.
const FEW: usize = 32;

fn cubes(count: usize) -> CubeCount {
    CubeCount::Static(count as u32, 1, 1)
}
