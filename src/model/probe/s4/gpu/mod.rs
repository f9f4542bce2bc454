//! The gains of one channel by the bilinear rule on GPUs, in float32, of some systems at once: three launches forward and two back,
//! where tensors take some 100 and 190 for each. CubeCL kernels for wgpu and CUDA.
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
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim, SequenceArg};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use self::product::{UNITS, units};
use super::{Steps, System};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::{arg, empty, gpu, takes};
use crate::model::probe::settings::Discretization;

/// [`super::gains`] by these kernels; none where they do not take them: on the processor, of many channels, by another rule, in other
/// numbers than float32, of more than 256 states, and as many at once as no scan has directions.
pub fn gains(systems: &[System], (rule, steps): Steps) -> Option<Tensor<3>> {
    let System { a, b, .. } = systems.first()?;
    let [states, channels] = b.dims();
    let fits = channels == 1 && (1..=UNITS).contains(&states) && steps > 0;
    if !(fits && rule == Discretization::Bilinear && takes(a, UNITS, steps)) {
        return None;
    }
    let inputs = systems.iter().flat_map(|System { a, b, c, skip, step }| {
        let [a, b, c] = [a, b, c].map(|matrix| matrix.clone().into_dispatch());
        let [skip, step] = [skip, step].map(|vector| vector.clone().into_dispatch());
        [a, b, c, skip, step]
    });
    let inputs: Vec<_> = inputs.collect();
    let bindings = gpu(a)?.client().properties().hardware.max_bindings as usize;
    match systems.len() {
        count if bindings < 4 + 4 * count => None,
        1 => Some(apply::<Cube, _, 5, 3>(GainsOp { steps }, inputs.try_into().ok()?)),
        2 => Some(apply::<Cube, _, 10, 3>(GainsOp { steps }, inputs.try_into().ok()?)),
        4 => Some(apply::<Cube, _, 20, 3>(GainsOp { steps }, inputs.try_into().ok()?)),
        _ => None,
    }
}

/// The gains of so many steps, of A, B, C, D and the step size of each system, one system after the other.
struct GainsOp {
    steps: usize,
}

/// What the way back needs.
struct Saved {
    steps: usize,
    /// `[1, S]` of each.
    c: Vec<CubeTensor>,
    /// `[1]` of each.
    step: Vec<CubeTensor>,
    /// `R`, `[G, S, S]`.
    rates: CubeTensor,
    /// `x_j`, `[G, N, S]`.
    path: CubeTensor,
    /// `r_j`, `[G, N, S]`.
    slopes: CubeTensor,
}

/// Inputs of a system.
const INPUTS: usize = 5;

impl<const N: usize> CustomOp<CubeBackend, N> for GainsOp {
    type Saved = Saved;

    fn forward(self, inputs: [CubeTensor; N], _: bool) -> (CubeTensor, Saved) {
        let inputs = inputs.map(into_contiguous);
        let of_each = |input: usize| inputs.iter().skip(input).step_by(INPUTS).cloned().collect::<Vec<_>>();
        let [a, b, c, skip, step] = [0, 1, 2, 3, 4].map(of_each);
        let (like, count, steps) = (&a[0], a.len(), self.steps);
        let client = &like.client;
        let [states, _] = like.meta.shape().dims();
        let rates = empty(like, [count, states, states]);
        let [path, slopes] = [(); 2].map(|()| empty(like, [count, steps, states]));
        let gains = empty(like, [count, steps, 1]);
        kernels::rates::launch(
            client,
            cubes(count * states),
            CubeDim::new_1d(states.next_multiple_of(32) as u32),
            args(&a),
            args(&step),
            arg(&rates),
            states,
        );
        kernels::states::launch(
            client,
            cubes(count),
            CubeDim::new_1d(units(states)),
            arg(&rates),
            args(&b),
            args(&step),
            arg(&path),
            arg(&slopes),
            steps,
            states,
        );
        kernels::outputs::launch(
            client,
            cubes((count * steps).div_ceil(FEW)),
            CubeDim::new_1d(FEW as u32),
            arg(&path),
            args(&c),
            args(&skip),
            arg(&gains),
            steps,
            states,
        );
        (gains, Saved { steps, c, step, rates, path, slopes })
    }

    fn vjp(saved: &Saved, by_gains: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let Saved { steps, c, step, rates, path, slopes } = saved;
        let (client, by_gains) = (&rates.client, into_contiguous(by_gains));
        let [count, states, _] = rates.meta.shape().dims();
        let by_slopes = empty(rates, [count, *steps, states]);
        let of_each = |shape: [usize; 2]| (0..count).map(|_| empty(rates, shape)).collect::<Vec<_>>();
        let [by_a, by_b, by_c] = [[states, states], [states, 1], [1, states]].map(of_each);
        let [by_skip, by_step] = [(); 2].map(|()| (0..count).map(|_| empty(rates, [1])).collect::<Vec<_>>());
        kernels::adjoint::launch(
            client,
            cubes(count),
            CubeDim::new_1d(units(states)),
            arg(rates),
            args(c),
            args(step),
            arg(slopes),
            arg(&by_gains),
            arg(&by_slopes),
            args(&by_skip),
            args(&by_step),
            *steps,
            states,
        );
        kernels::gradients::launch(
            client,
            cubes(count * kernels::entries(states).div_ceil(UNITS)),
            CubeDim::new_1d(UNITS as u32),
            arg(&by_slopes),
            arg(path),
            arg(slopes),
            args(step),
            arg(&by_gains),
            args(&by_a),
            args(&by_b),
            args(&by_c),
            *steps,
            states,
        );
        let by = [by_a, by_b, by_c, by_skip, by_step];
        std::array::from_fn(|at| Some(by[at % INPUTS][at / INPUTS].clone()))
    }
}

/// Those of each system.
fn args(tensors: &[CubeTensor]) -> SequenceArg<Box<[f32]>> {
    tensors.iter().map(arg).collect()
}

/// Threads of a workgroup of which each does much: so few that all of a GPU works.
const FEW: usize = 32;

fn cubes(count: usize) -> CubeCount {
    CubeCount::Static(count as u32, 1, 1)
}
