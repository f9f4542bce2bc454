//! Sinkhorn on GPUs: one kernel for the forward and one for the backward pass, one workgroup per image, written once in CubeCL for
//! wgpu and CUDA. No N x N tensor is made unless plans are the output or every entry has noise.
//!
//! | file | what |
//! |---|---|
//! | `job` | the sizes of a batch, and the method and the memory for them; launches of the forward kernels |
//! | `lines` | sums over one row or column in float32, accurate at any temperature |
//! | `forward` | the iterations, then token weights or the plan |
//! | `powers` | the same for token weights and their gradient, faster, where float32 holds the kernel |
//! | `vec4` | vectors of four numbers, read and written as one |
//! | `backward` | the exact gradient through the iterations |
//! | `noise` | L with Gumbel noise, drawn on the device |
//! | `log_plan` | the iterations on a plan in memory, and their gradient |
//!
//! Without noise, the kernels hold 13 vectors of N per image in shared memory (`powers` 9 and 5 N / 16 more), or in global memory
//! where shared memory is too small (N above about 900 on most GPUs). The backward pass is given 6 vectors of N per iteration.

mod backward;
mod forward;
mod job;
mod lines;
mod log_plan;
mod noise;
mod powers;
mod vec4;

use burn::tensor::Shape;

use self::job::{Job, MAX_UNITS, Method, max_shared_memory};
use super::Sinkhorn;
use super::operation::{PlansOp, TokenWeightsOp};
use crate::model::ops::gpu::is_indexable;
use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup for plans with noise.
const UNITS: usize = 256;

/// Whether the kernels can make token weights of these scores: indices fit 32 bits, and no loop is stopped ([`supports`]).
pub(super) fn supports_weights(scores: &Tensor<2>, sinkhorn: Sinkhorn) -> bool {
    let [images, n] = scores.dims();
    let rounds = n.div_ceil(MAX_UNITS) * n * (3 * sinkhorn.iterations + 8); // as counted, and a margin
    supports(scores, 1, rounds) && is_indexable(images * sinkhorn.iterations * forward::HISTORY_VECTORS * n)
}

/// Whether the kernels can make plans of these scores, with noise on every entry (`noisy`) or without.
pub(super) fn supports_plans(scores: &Tensor<2>, sinkhorn: Sinkhorn, noisy: bool) -> bool {
    let [images, n] = scores.dims();
    is_indexable(images * n * n)
        && if noisy { supports_noise(scores, sinkhorn) } else { supports_weights(scores, sinkhorn) }
}

/// Whether the kernels can make plans with noise on every entry of these scores.
fn supports_noise(scores: &Tensor<2>, sinkhorn: Sinkhorn) -> bool {
    use log_plan::{ENTRIES_AT_ONCE, LANES, ROW_THREADS};
    let [images, n] = scores.dims();
    let rows = n.div_ceil(UNITS / ROW_THREADS) * (n.div_ceil(ROW_THREADS * ENTRIES_AT_ONCE) + 1);
    let columns = n.div_ceil(UNITS) * n.div_ceil(ENTRIES_AT_ONCE);
    let rounds = (sinkhorn.iterations + 1) * (rows + columns) + n * n / UNITS;
    let shared = (LANES * n + UNITS) * size_of::<f32>();
    supports(scores, UNITS, rounds)
        && shared <= max_shared_memory(&cube(scores.clone()))
        && is_indexable(images * sinkhorn.iterations * log_plan::HISTORY_VECTORS * n)
}

/// What the backward pass needs.
pub(in crate::model::probe::router::sinkhorn) struct Saved {
    job: Job,
    /// `[B, N]`.
    scores: CubeTensor,
    /// The gain, `[N]`, or the plans, `[B, N, N]`; of noisy ones the logarithms.
    other: CubeTensor,
    /// `[B, iterations, 6, N]`; of noisy plans `[B, iterations, 2, N]`.
    history: CubeTensor,
}

impl CustomOp<CubeBackend, 2> for TokenWeightsOp {
    /// Beside it a flag for every image that [`powers`] could not hold, `[B]`.
    type Saved = (Saved, CubeTensor);

    fn forward(self, inputs: [CubeTensor; 2], keep: bool) -> (CubeTensor, Self::Saved) {
        let [scores, gain] = inputs.map(into_contiguous);
        let job = Job::new(&scores, self.0.sinkhorn);
        let (weights, history, walked) = job.forward(&scores, &gain, keep, false);
        (weights, (Saved { job, scores, other: gain, history }, walked))
    }

    fn vjp((saved, walked): &Self::Saved, grad_weights: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let Saved { job, scores, other: gain, history } = saved;
        let [grad_scores, grad_gain] = [(); 2].map(|()| empty(scores, [job.images, job.n]));
        let (method, scratch) = job.working_memory(scores, true);
        backward::backward_of_weights::launch(
            &scores.client,
            job.cubes(),
            job.units(scores),
            arg(scores),
            arg(gain),
            arg(&into_contiguous(grad_weights)),
            arg(history),
            arg(&grad_scores),
            arg(&grad_gain),
            arg(walked),
            scratch,
            job.kappa,
            job.iterations,
            job.n,
            method,
        );
        let grad_gain = CubeBackend::float_sum_dim(grad_gain, 0); // [1, N]
        [grad_scores, CubeBackend::float_reshape(grad_gain, Shape::new([job.n]))].map(Some)
    }
}

impl CustomOp<CubeBackend, 1> for PlansOp {
    type Saved = Saved;

    fn forward(self, [scores]: [CubeTensor; 1], keep: bool) -> (CubeTensor, Saved) {
        let scores = into_contiguous(scores);
        let job = Job { noisy: self.0.noise.is_some(), ..Job::new(&scores, self.0.sinkhorn) };
        let (plans, other, history) = match &self.0.noise {
            Some(noise) => job.forward_with(noise, &scores, keep),
            None => {
                let (plans, history, _) = job.forward(&scores, &scores, keep, true);
                (plans.clone(), plans, history)
            }
        };
        (plans, Saved { job, scores, other, history })
    }

    fn vjp(saved: &Saved, grad_plans: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let Saved { job, scores, other: plans, history } = saved;
        let grad_scores = empty(scores, [job.images, job.n]);
        if job.noisy {
            log_plan::backward::launch(
                &scores.client,
                job.cubes(),
                CubeDim::new_1d(UNITS as u32),
                arg(scores),
                arg(plans),
                arg(&into_contiguous(grad_plans)),
                arg(history),
                arg(&grad_scores),
                arg(&empty(scores, [job.images, job.n, job.n])),
                job.kappa,
                job.iterations,
                job.n,
            );
            return [Some(grad_scores)];
        }
        let (method, scratch) = job.working_memory(scores, false);
        backward::backward_of_plans::launch(
            &scores.client,
            job.cubes(),
            job.units(scores),
            arg(scores),
            arg(plans),
            arg(&into_contiguous(grad_plans)),
            arg(history),
            arg(&grad_scores),
            scratch,
            job.kappa,
            job.iterations,
            job.n,
            method == Method::WalkShared,
        );
        [Some(grad_scores)]
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{Device, TensorData};

    use super::super::operation::{Task, token_weights};
    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::tensor;

    #[test]
    fn only_batches_with_indices_of_32_bits_are_supported() {
        const N: usize = 49;
        let sinkhorn = Sinkhorn::default();
        let most = |each: usize| u32::MAX as usize / each;
        let vectors = [forward::HISTORY_VECTORS, log_plan::HISTORY_VECTORS];
        let [plain, noisy] = vectors.map(|vectors| sinkhorn.iterations * vectors * N);
        for (name, gpu) in gpus() {
            let scores = |images| Tensor::<2>::zeros([1, 1], &gpu).expand([images, N]);
            let check = |what: &str, most: usize, supports: &dyn Fn(&Tensor<2>) -> bool| {
                let found = [most, most + 1].map(|images| supports(&scores(images)));
                assert_eq!(found, [true, false], "{what} on {name}");
            };
            check("weights", most(plain), &|scores| supports_weights(scores, sinkhorn));
            check("noisy plans", most(noisy.max(N * N)), &|scores| supports_plans(scores, sinkhorn, true));
            let once = Sinkhorn { iterations: 1, ..sinkhorn };
            check("plans", most(N * N), &|scores| supports_plans(scores, once, false));
        }
    }

    /// Token weights of `[images, N]` scores, and the gradients of scores and gain through the sum of their squares.
    fn weights_and_gradients(
        scores: &TensorData,
        gain: &TensorData,
        sinkhorn: Sinkhorn,
        device: &Device,
    ) -> [Vec<f64>; 3] {
        let device = device.clone().autodiff();
        let scores = Tensor::<2>::from_data(scores.clone(), &device).require_grad();
        let gain = Tensor::<1>::from_data(gain.clone(), &device).require_grad();
        let weights = token_weights(scores.clone(), gain.clone(), Task { sinkhorn, noise: None });
        let gradients = (weights.clone() * weights.clone()).sum().backward();
        let grad_scores = scores.grad(&gradients).expect("a gradient").into_data();
        let grad_gain = gain.grad(&gradients).expect("a gradient").into_data();
        [weights.into_data(), grad_scores, grad_gain].map(|data| data.iter::<f64>().collect())
    }

    /// Holds every GPU to the CPU, and to which images it walks.
    fn check(scores: Vec<f32>, n: usize, sinkhorn: Sinkhorn, expected_walks: &[f32]) {
        let scores = TensorData::new(scores, [expected_walks.len(), n]);
        let gain = TensorData::new((0..n).map(|k| (k as f32 * 0.7).cos()).collect::<Vec<_>>(), [n]);
        for (name, gpu) in gpus() {
            let run = |device| weights_and_gradients(&scores, &gain, sinkhorn, device);
            for (found, expected) in run(&gpu).into_iter().zip(run(&Device::flex())) {
                assert_close(&name, found, expected, 1e-5);
            }
            let scores = into_contiguous(cube(Tensor::<2>::from_data(scores.clone(), &gpu)));
            let gain = cube(Tensor::<1>::from_data(gain.clone(), &gpu));
            let (_, _, walked) = Job::new(&scores, sinkhorn).forward(&scores, &gain, false, false);
            let walked = tensor::<1>(walked).into_data().try_into_vec::<f32>().expect("float32");
            assert_eq!(walked, expected_walks, "{name}");
        }
    }

    #[test]
    fn an_image_of_which_float32_does_not_hold_the_powers_is_walked_beside_others_that_are_not() {
        let n = 49;
        let mut scores: Vec<f32> = (0..3 * n).map(|at| ((at * 37) % 101) as f32 / 29.0 - 1.7).collect();
        scores[n + 5] = 30.0;
        scores[2 * n + 7] = -8.0; // far out, and not too far
        check(scores, n, Sinkhorn::default(), &[0.0, 1.0, 0.0]);
    }

    #[test]
    fn powers_beyond_the_last_position_that_overflow_do_not_count() {
        let n = 17; // the second stride has one position, and powers of 15 more, up to exp(95)
        let scores = (0..n).map(|i| 0.25 + 0.35 * ((i * 7) % n) as f32 / n as f32).collect();
        check(scores, n, Sinkhorn { temperature: 0.02, ..Sinkhorn::default() }, &[0.0]);
    }

    #[test]
    fn a_workgroup_with_32_kilobytes_has_room_for_the_powers_of_196_tokens() {
        let bytes = (lines::LANES * 196 + powers::room(196, 1)) * size_of::<f32>();
        assert!(bytes <= 32 << 10, "{bytes} bytes");
    }
}
