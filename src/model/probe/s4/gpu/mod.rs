//! The gains of one channel by the bilinear rule on GPUs, in float32, of some systems at once, in `2 + log2 N` launches forward and
//! two back, where tensors take some 100 and 190 for each. CubeCL kernels for wgpu and CUDA.
//!
//! | file | what |
//! |---|---|
//! | `product` | tiles of products of matrices |
//! | `systems` | where a kernel finds what some systems have |
//! | `forward`, `backward` | the launches |
//!
//! N steps that wait for each other would leave all of a GPU but one workgroup idle. So the states are doubled, and so are those
//! of the way back, which begin at C and depend on no gradient. With `E_i = Abar^i - I`, of which float32 keeps all digits where of
//! an Abar near I it has only those beside the 1:
//!
//! * `E_1 = dt A (I - dt/2 A)^-1`, `E_2i = E_i E_i + 2 E_i`;
//! * `x_0 = Bbar = dt (B + E_1 B / 2)`, `x_{j+i} = x_j + E_i x_j` for `j < i`, and `K[j] = C x_j`;
//! * `w_0 = (I - dt/2 A)^-T C`, `w_{j+i} = w_j + E_i^T w_j`.
//!
//! The bilinear rule is the implicit midpoint rule: step `j` adds `dt r_j` to the state, where the slope `r_j = A q_j` (B more where
//! `j = 0`) is that at the middle `q_j = (x_{j-1} + x_j) / 2` of the step, and the first begins at 0. Back, `p_j` what the gradient
//! of the right side of a slope's equation is:
//!
//! * `p_j = sum_m dK[j+m] w_m`;
//! * `dA = dt sum_j p_j q_j^T` in the lower triangle, `dB = dt p_0`, `dC = sum_j dK[j] x_j`, `d dt = sum_j p_j . r_j`;
//! * of the gain `G[N-1-j] = K[j]`, D more where `j = 0`: `dK[j] = dG[N-1-j]`, `dD = dG[N-1]`.

mod backward;
mod forward;
mod product;
mod systems;

use burn::backend::Cube;
use burn::tensor::Tensor;
use burn_cubecl::cubecl::prelude::{CubeDim, SequenceArg};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use self::backward::tiles_of_adjoint;
use self::forward::{tiles_of_doubling, units};
use self::product::{TILE, UNITS};
use super::{Steps, System};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::{arg, empty, gpu, takes, workgroups};
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
    /// `[1]` of each.
    step: Vec<CubeTensor>,
    /// `w_j` and `x_j`, `[G, 2, N, S]`.
    paths: CubeTensor,
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
        let [of_states, of_tile] = [units(states), UNITS].map(|units| CubeDim::new_1d(units as u32));
        let [mut power, mut next] = [(); 2].map(|()| empty(like, [count, states, states]));
        let paths = empty(like, [count, 2, steps, states]);
        let gains = empty(like, [count, steps, 1]);
        forward::solve::launch(
            client,
            workgroups(count * (states + 1)),
            of_states,
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
                of_tile,
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
            of_states,
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

    fn vjp(saved: &Saved, by_gains: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let Saved { steps, step, paths } = saved;
        let (client, by_gains, steps) = (&paths.client, into_contiguous(by_gains), *steps);
        let [count, _, _, states] = paths.meta.shape().dims();
        let of_tile = CubeDim::new_1d(UNITS as u32);
        let tiles = tiles_of_adjoint(steps, states);
        let by_slopes = empty(paths, [count, steps, states]);
        let shares = empty(paths, [count, tiles]);
        let of_each = |shape: [usize; 2]| (0..count).map(|_| empty(paths, shape)).collect::<Vec<_>>();
        let [by_a, by_b, by_c] = [[states, states], [states, 1], [1, states]].map(of_each);
        let [by_skip, by_step] = [(); 2].map(|()| (0..count).map(|_| empty(paths, [1])).collect::<Vec<_>>());
        backward::adjoint::launch(
            client,
            workgroups(count * tiles),
            of_tile,
            arg(paths),
            args(step),
            arg(&by_gains),
            arg(&by_slopes),
            args(&by_b),
            args(&by_c),
            args(&by_skip),
            arg(&shares),
            steps,
            tiles,
            count * tiles,
            states,
        );
        backward::gradients::launch(
            client,
            workgroups(count * (states.div_ceil(TILE).pow(2) + 1)),
            of_tile,
            arg(&by_slopes),
            arg(paths),
            args(step),
            arg(&shares),
            args(&by_a),
            args(&by_step),
            steps,
            tiles,
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
