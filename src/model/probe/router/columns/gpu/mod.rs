//! [Routers whose columns are softmaxes](super) on GPUs: `P gain` of a batch and its gradient without storing a plan, by
//! CubeCL kernels for wgpu and CUDA that need no barriers.
//!
//! Forward, one thread per column sums it, then one thread per token sums its row times the gain; backward likewise, columns
//! first (`mu_k`, which is the gain's gradient), then rows. With `P[i, k] = exp(e_k(i)) / Z_k` for the token of rank `i`:
//!
//! * SoftSort: `e_k(i) = -|a_k - a_i|^p / tau`;
//! * NeuralSort: `e_k(i) = -sum over the gaps between ranks k and i of (2 t - 1) d / tau`, `t = 1, 2, ...` counted from `k`
//!   ([`neuralsort`](super::super::neuralsort) derives it), along a row `-sum over the steps from i of
//!   ((a_k - a_i) + (a_{k+1} - a_i)) / tau`.
//!
//! Both are sums of terms of one sign, so that float32 loses no digits to cancellation at any temperature. Per image, time
//! N^2, memory N.

mod kernels;

use burn::tensor::{DType, Shape};

use crate::model::ops::gpu::prelude::*;
use crate::model::ops::gpu::{self, empty_of};
use crate::model::ops::scatter::{gather, scatter};

/// The formula of the exponents `e_k(i)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// NeuralSort: sums over gaps.
    NeuralSort,
    /// SoftSort with `p = 1`.
    Distance,
    /// SoftSort with `p = 2`.
    Square,
}

/// Threads per workgroup, where the device allows as many.
const UNITS: u32 = 256;

/// `P gain` as a function of scores and gain.
pub struct WeightsOp {
    pub family: Family,
    /// Whether the plan is the sorting permutation itself, and the family's only the one for the scores' gradient.
    pub hard: bool,
    /// tau.
    pub temperature: f64,
}

impl WeightsOp {
    /// `P gain`, `[B, N]`, of scores `[B, N]` and gain `[N]`; `None` where the kernels do not apply: on the CPU, or in other
    /// precisions than float32.
    pub fn apply(self, scores: &Tensor<2>, gain: &Tensor<1>) -> Option<Tensor<2>> {
        let [_, n] = scores.dims();
        let inputs = [scores.clone().into_dispatch(), gain.clone().into_dispatch()];
        supports(scores, 1, n).then(|| apply::<Cube, _, 2, 2>(self, inputs))
    }

    fn inverse_temperature(&self) -> f32 {
        (1.0 / self.temperature) as f32
    }
}

/// What the backward pass needs: the scores in ascending order, the token of every rank and `Z_k`, `[B, N]` each, and
/// the gain, `[N]`.
pub struct Saved {
    op: WeightsOp,
    sorted: CubeTensor,
    order: CubeTensor,
    totals: CubeTensor,
    gain: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for WeightsOp {
    type Saved = Saved;

    fn forward(self, inputs: [CubeTensor; 2], keep: bool) -> (CubeTensor, Saved) {
        let [scores, gain] = inputs.map(into_contiguous);
        let [images, n] = scores.shape().dims();
        let (client, (cubes, units)) = (&scores.client, threads(&scores));
        let [sorted, totals, weights] = [(); 3].map(|()| empty(&scores, [images, n]));
        let order = empty_of(&scores, [images, n], DType::U32);
        kernels::sort::launch(client, cubes.clone(), units, arg(&scores), arg(&sorted), arg(&order), n);
        if keep || !self.hard {
            kernels::totals::launch(
                client,
                cubes.clone(),
                units,
                arg(&sorted),
                arg(&totals),
                self.inverse_temperature(),
                self.family,
                n,
            );
        }
        if self.hard {
            scatter::launch::<u32>(client, cubes, units, arg(&order), arg(&gain), arg(&weights), n, 1);
        } else {
            kernels::weigh::launch(
                client,
                cubes,
                units,
                arg(&sorted),
                arg(&order),
                arg(&totals),
                arg(&gain),
                arg(&weights),
                self.inverse_temperature(),
                self.family,
                n,
            );
        }
        (weights, Saved { op: self, sorted, order, totals, gain })
    }

    fn vjp(saved: &Saved, grad_weights: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let Saved { op, sorted, order, totals, gain } = saved;
        let [images, n] = sorted.shape().dims();
        let (client, (cubes, units)) = (&sorted.client, threads(sorted));
        let grad_weights = into_contiguous(grad_weights);
        let [means, shifts, grad_centres, grad_own, grad_distances, grad_scores] =
            [(); 6].map(|()| empty(sorted, [images, n]));
        kernels::back_by_column::launch(
            client,
            cubes.clone(),
            units,
            arg(sorted),
            arg(order),
            arg(totals),
            arg(gain),
            arg(&grad_weights),
            arg(&means),
            arg(&shifts),
            arg(&grad_centres),
            op.inverse_temperature(),
            op.family,
            n,
        );
        kernels::back_by_row::launch(
            client,
            cubes.clone(),
            units,
            arg(sorted),
            arg(order),
            arg(totals),
            arg(gain),
            arg(&grad_weights),
            arg(&shifts),
            arg(&grad_own),
            arg(&grad_distances),
            op.inverse_temperature(),
            op.family,
            n,
        );
        if op.hard {
            let (cubes, order, grad) = (cubes.clone(), arg(order), arg(&grad_weights));
            gather::launch::<u32>(client, cubes, units, order, grad, arg(&means), n, 1);
        }
        kernels::gather::launch(
            client,
            cubes,
            units,
            arg(order),
            arg(&grad_own),
            arg(&grad_centres),
            arg(&grad_distances),
            arg(&grad_scores),
            op.family,
            n,
        );
        let grad_gain = CubeBackend::float_sum_dim(means, 0); // [1, N]
        [Some(grad_scores), Some(CubeBackend::float_reshape(grad_gain, Shape::new([n])))]
    }
}

/// Launch dimensions for one thread per entry of this tensor, `[B, N]`.
fn threads(like: &CubeTensor) -> (CubeCount, CubeDim) {
    let [images, n] = like.shape().dims();
    gpu::threads(images * n, like.client.properties().hardware.max_units_per_cube.min(UNITS) as usize)
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn a_launch_of_many_images_has_no_axis_that_is_too_long() {
        for (name, device) in gpus() {
            let like = gpu::cube(Tensor::<2>::zeros([1, 1], &device).expand([65_535, 1024]));
            let (CubeCount::Static(across, down, 1), units) = threads(&like) else { panic!("{name}") };
            assert!(across.max(down) <= 65_535, "{name}: {across} x {down}");
            assert!(across * down * units.x >= 65_535 * 1024, "{name}: {across} x {down} x {}", units.x);
        }
    }
}
