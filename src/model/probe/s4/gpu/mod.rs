//! The gains of one channel by the bilinear rule on GPUs, in float32, for 1, 2 or 4 systems at once: `2 + log2 N` launches forward and
//! two backward, where tensor operations take some 100 and 190 per system. CubeCL kernels for wgpu and CUDA.
//!
//! | file | contents |
//! |---|---|
//! | `product` | tiled matrix products |
//! | `systems` | access to the buffers of each system |
//! | `forward`, `backward` | the kernels of each pass |
//!
//! N dependent steps would leave all of a GPU but one workgroup idle. So each launch doubles the number of known states, and that
//! of the adjoint states `w`, which begin at C and depend on no gradient. Kept is `E_i = Abar^i - I`, whose digits float32 holds in
//! full, where in an Abar near I the 1 takes up most of them:
//!
//! * `E_1 = dt A (I - dt/2 A)^-1`, `E_2i = E_i E_i + 2 E_i`;
//! * `x_0 = Bbar = dt (B + E_1 B / 2)`, `x_{j+i} = x_j + E_i x_j` for `j < i`, and `K[j] = C x_j`;
//! * `w_0 = (I - dt/2 A)^-T C`, `w_{j+i} = w_j + E_i^T w_j`.
//!
//! The bilinear rule is the implicit midpoint rule: step `j` adds `dt r_j` to the state, where the slope `r_j = A q_j` (plus B where
//! `j = 0`) is taken at the midpoint `q_j = (x_{j-1} + x_j) / 2` of the step, and `x_{-1} = 0`. Backward, with `p_j` the gradient of
//! the right side of the equation of `r_j`:
//!
//! * `p_j = sum_m dK[j+m] w_m`;
//! * `dA = dt sum_j p_j q_j^T` in the lower triangle, `dB = dt p_0`, `dC = sum_j dK[j] x_j`, `d dt = sum_j p_j . r_j`;
//! * for the gain `G[N-1-j] = K[j]`, plus D where `j = 0`: `dK[j] = dG[N-1-j]`, `dD = dG[N-1]`.

mod backward;
mod forward;
mod product;
mod systems;

use self::backward::tiles_of_adjoint;
use self::forward::{tiles_of_doubling, units};
use self::product::{TILE, UNITS};
use super::{Steps, System};
use crate::model::ops::gpu::gpu;
use crate::model::ops::gpu::prelude::*;
use crate::model::probe::settings::Discretization;

/// [`super::gains`] by these kernels. `None` where they do not apply: on the CPU, for more than one channel, another rule, another type
/// than float32, more than 256 states, or a number of systems other than 1, 2 and 4, the numbers of directions that scans have.
pub fn gains(systems: &[System], (rule, steps): Steps) -> Option<Tensor<3>> {
    let System { a, b, .. } = systems.first()?;
    let [states, channels] = b.dims();
    let fits = channels == 1 && (1..=UNITS).contains(&states) && steps > 0;
    if !(fits && rule == Discretization::Bilinear && supports(a, UNITS, steps)) {
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

/// The gains of `steps` positions. Inputs: A, B, C, D and the step size of each system, one system after another.
struct GainsOp {
    steps: usize,
}

/// What the backward pass needs.
struct Saved {
    steps: usize,
    /// The step size of each system, `[1]`.
    step: Vec<CubeTensor>,
    /// `w_j` and `x_j`, `[G, 2, N, S]`.
    paths: CubeTensor,
}

/// Inputs per system.
const INPUTS: usize = 5;

impl<const N: usize> CustomOp<CubeBackend, N> for GainsOp {
    type Saved = Saved;

    fn forward(self, inputs: [CubeTensor; N], _: bool) -> (CubeTensor, Saved) {
        let inputs = inputs.map(into_contiguous);
        let of_each = |input: usize| inputs.iter().skip(input).step_by(INPUTS).cloned().collect::<Vec<_>>();
        let [a, b, c, skip, step] = [0, 1, 2, 3, 4].map(of_each);
        let (first, count, steps) = (&a[0], a.len(), self.steps);
        let client = &first.client;
        let [states, _] = first.meta.shape().dims();
        let [state_units, tile_units] = [units(states), UNITS].map(|units| CubeDim::new_1d(units as u32));
        let [mut power, mut next] = [(); 2].map(|()| empty(first, [count, states, states]));
        let paths = empty(first, [count, 2, steps, states]);
        let gains = empty(first, [count, steps, 1]);
        forward::solve::launch(
            client,
            workgroups(count * (states + 1)),
            state_units,
            args(&a),
            args(&b),
            args(&c),
            args(&step),
            arg(&power),
            arg(&paths),
            steps,
            states,
        );
        let mut known = 1;
        while known < steps {
            let squares = 2 * known < steps;
            let tiles = tiles_of_doubling([known, steps, states], squares);
            forward::double::launch(
                client,
                workgroups(count * tiles),
                tile_units,
                arg(&power),
                arg(&next),
                arg(&paths),
                known,
                steps,
                tiles,
                count * tiles,
                squares,
                states,
            );
            std::mem::swap(&mut power, &mut next);
            known *= 2;
        }
        forward::outputs::launch(
            client,
            workgroups(count * steps),
            state_units,
            arg(&paths),
            args(&c),
            args(&skip),
            arg(&gains),
            steps,
            count * steps,
            states,
        );
        (gains, Saved { steps, step, paths })
    }

    fn vjp(saved: &Saved, grad_gains: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let Saved { steps, step, paths } = saved;
        let (client, grad_gains, steps) = (&paths.client, into_contiguous(grad_gains), *steps);
        let [count, _, _, states] = paths.meta.shape().dims();
        let tile_units = CubeDim::new_1d(UNITS as u32);
        let tiles = tiles_of_adjoint(steps, states);
        let grad_slopes = empty(paths, [count, steps, states]);
        let partial_steps = empty(paths, [count, tiles]);
        let of_each = |shape: [usize; 2]| (0..count).map(|_| empty(paths, shape)).collect::<Vec<_>>();
        let [grad_a, grad_b, grad_c] = [[states, states], [states, 1], [1, states]].map(of_each);
        let [grad_skip, grad_step] =
            [(); 2].map(|()| (0..count).map(|_| empty(paths, [1])).collect::<Vec<_>>());
        backward::adjoint::launch(
            client,
            workgroups(count * tiles),
            tile_units,
            arg(paths),
            args(step),
            arg(&grad_gains),
            arg(&grad_slopes),
            args(&grad_b),
            args(&grad_c),
            args(&grad_skip),
            arg(&partial_steps),
            steps,
            tiles,
            count * tiles,
            states,
        );
        backward::gradients::launch(
            client,
            workgroups(count * (states.div_ceil(TILE).pow(2) + 1)),
            tile_units,
            arg(&grad_slopes),
            arg(paths),
            args(step),
            arg(&partial_steps),
            args(&grad_a),
            args(&grad_step),
            steps,
            tiles,
            states,
        );
        let grads = [grad_a, grad_b, grad_c, grad_skip, grad_step];
        std::array::from_fn(|at| Some(grads[at % INPUTS][at / INPUTS].clone()))
    }
}

/// One buffer per system, as a kernel argument.
fn args(tensors: &[CubeTensor]) -> SequenceArg<Box<[f32]>> {
    tensors.iter().map(arg).collect()
}
