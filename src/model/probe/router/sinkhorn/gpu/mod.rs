//! Sinkhorn on GPUs: one kernel each way, one workgroup an image, written once in CubeCL for wgpu and
//! CUDA. No N x N tensor is made but the plans themselves, where they are what is asked for; with noise on
//! every entry a plan is all there is.
//!
//! | file | what |
//! |---|---|
//! | `lines` | sums over one row or column in float32, right at any temperature |
//! | `forward` | the iterations, then token weights or the plan |
//! | `powers` | the same for token weights and their gradient, faster, where float32 holds the kernel |
//! | `fours` | numbers that are read four by four |
//! | `backward` | the exact gradient through them |
//! | `noise` | L with Gumbel noise, drawn on the device |
//! | `log_plan` | the iterations on a plan in memory, and their gradient |
//!
//! Without noise, per image the kernels hold 13 vectors of N in the workgroup's shared memory (powers 13 and 5 N / 16 more), or in
//! plain memory where that is too small (N above about 900 on most GPUs); kept for the way back are 6 of N an iteration.

mod backward;
mod forward;
mod fours;
mod lines;
mod log_plan;
mod noise;
mod powers;

use burn::backend::{TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::cubecl::prelude::{BufferArg, CubeCount, CubeDim};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use super::Sinkhorn;
use super::noise::Noise;
use super::operation::{PlansOp, TokenWeightsOp};
use crate::model::ops::custom_op::CustomOp;
use crate::model::ops::gpu::{arg, counts, cube, empty, takes};

/// Threads of a workgroup of plans with noise.
const UNITS: usize = 256;
/// Threads of any other, at most: for the tokens of 24 x 24 patches, and with 96 registers for each.
const MOST_UNITS: usize = 640;
/// Powers are not tried at a lower temperature, where float32 holds no image's.
const COLDEST: f64 = 1.0 / 64.0;

/// Whether the kernels take these scores, for token weights.
pub(super) fn take(scores: &Tensor<2>, sinkhorn: Sinkhorn) -> bool {
    let [images, n] = scores.dims();
    let rounds = n.div_ceil(MOST_UNITS) * n * (3 * sinkhorn.iterations + 8); // as counted, with some to spare
    takes(scores, 1, rounds) && counts(images * sinkhorn.iterations * forward::HISTORY_VECTORS * n)
}

/// The same for plans, `noisy` or not.
pub(super) fn take_plans(scores: &Tensor<2>, sinkhorn: Sinkhorn, noisy: bool) -> bool {
    let [images, n] = scores.dims();
    counts(images * n * n) && if noisy { take_noisy(scores, sinkhorn) } else { take(scores, sinkhorn) }
}

/// Whether the kernels of plans with noise on every entry take these scores.
fn take_noisy(scores: &Tensor<2>, sinkhorn: Sinkhorn) -> bool {
    use log_plan::{ACROSS, AT_ONCE, LANES};
    let [images, n] = scores.dims();
    let rows = n.div_ceil(UNITS / ACROSS) * (n.div_ceil(ACROSS * AT_ONCE) + 1);
    let columns = n.div_ceil(UNITS) * n.div_ceil(AT_ONCE);
    let rounds = (sinkhorn.iterations + 1) * (rows + columns) + n * n / UNITS;
    let shared = (LANES * n + UNITS) * size_of::<f32>();
    takes(scores, UNITS, rounds)
        && shared <= most_shared(&cube(scores.clone()))
        && counts(images * sinkhorn.iterations * log_plan::HISTORY_VECTORS * n)
}

/// What the way back needs.
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
    /// And which images were walked, `[B]`.
    type Saved = (Saved, CubeTensor);

    fn forward(self, inputs: [CubeTensor; 2], keep: bool) -> (CubeTensor, Self::Saved) {
        let [scores, gain] = inputs.map(into_contiguous);
        let job = Job::new(&scores, self.0.sinkhorn);
        let (weights, history, walked) = job.forward(&scores, &gain, keep, false);
        (weights, (Saved { job, scores, other: gain, history }, walked))
    }

    fn vjp((saved, walked): &Self::Saved, by_weights: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let Saved { job, scores, other: gain, history } = saved;
        let [by_scores, by_gain] = [(); 2].map(|()| empty(scores, [job.images, job.n]));
        let (way, scratch) = job.working_memory(scores, true);
        backward::backward_of_weights::launch(
            &scores.client,
            job.cubes(),
            job.units(scores),
            arg(scores),
            arg(gain),
            arg(&into_contiguous(by_weights)),
            arg(history),
            arg(&by_scores),
            arg(&by_gain),
            arg(walked),
            scratch,
            job.kappa,
            job.iterations,
            job.n,
            way,
        );
        let by_gain = CubeBackend::float_sum_dim(by_gain, 0); // [1, N]
        [by_scores, CubeBackend::float_reshape(by_gain, Shape::new([job.n]))].map(Some)
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

    fn vjp(saved: &Saved, by_plans: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let Saved { job, scores, other: plans, history } = saved;
        let by_scores = empty(scores, [job.images, job.n]);
        if job.noisy {
            log_plan::backward::launch(
                &scores.client,
                job.cubes(),
                CubeDim::new_1d(UNITS as u32),
                arg(scores),
                arg(plans),
                arg(&into_contiguous(by_plans)),
                arg(history),
                arg(&by_scores),
                arg(&empty(scores, [job.images, job.n, job.n])),
                job.kappa,
                job.iterations,
                job.n,
            );
            return [Some(by_scores)];
        }
        let (way, scratch) = job.working_memory(scores, false);
        backward::backward_of_plans::launch(
            &scores.client,
            job.cubes(),
            job.units(scores),
            arg(scores),
            arg(plans),
            arg(&into_contiguous(by_plans)),
            arg(history),
            arg(&by_scores),
            scratch,
            job.kappa,
            job.iterations,
            job.n,
            way == Way::Shared,
        );
        [Some(by_scores)]
    }
}

/// How an image is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// By [`powers`] where float32 holds them, else by walks, both in the workgroup's own memory; columns are added up a block of so
    /// many strides at a time.
    Powers(usize),
    /// By walks in the workgroup's own memory.
    Shared,
    /// By walks in plain memory.
    Plain,
}

impl Way {
    /// Strides of a block; 0 where it is none of powers.
    const fn block(self) -> usize {
        if let Self::Powers(block) = self { block } else { 0 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    images: usize,
    n: usize,
    iterations: usize,
    temperature: f64,
    /// `2 / (tau (N - 1))`.
    kappa: f32,
    noisy: bool,
}

impl Job {
    fn new(scores: &CubeTensor, sinkhorn: Sinkhorn) -> Self {
        let [images, n] = scores.shape().dims();
        let Sinkhorn { temperature, iterations } = sinkhorn;
        let kappa = (2.0 / (temperature * n.saturating_sub(1).max(1) as f64)) as f32;
        Self { images, n, iterations: iterations.max(1), temperature, kappa, noisy: false }
    }

    /// Plans with noise, their logarithms and the history of the iterations, the last two for `keep` alone.
    fn forward_with(
        &self,
        noise: &Noise,
        scores: &CubeTensor,
        keep: bool,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let Self { images, n, iterations, .. } = *self;
        let log_plans = noise::noisy_log_kernel(scores, noise, self.temperature);
        let plans = empty(scores, [images, n, n]);
        let history = self.history(scores, keep, log_plan::HISTORY_VECTORS);
        log_plan::forward::launch(
            &scores.client,
            self.cubes(),
            CubeDim::new_1d(UNITS as u32),
            arg(&log_plans),
            arg(&plans),
            arg(&history),
            iterations,
            n,
            keep,
        );
        (plans, log_plans, history)
    }

    /// Token weights or, with `whole`, plans; the history of the iterations, written only with `keep`; and which images were walked.
    fn forward(
        &self,
        scores: &CubeTensor,
        gain: &CubeTensor,
        keep: bool,
        whole: bool,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let Self { images, n, iterations, .. } = *self;
        let walked = empty(scores, [images]);
        let output = if whole { empty(scores, [images, n, n]) } else { empty(scores, [images, n]) };
        let history = self.history(scores, keep, forward::HISTORY_VECTORS);
        let (way, scratch) = self.working_memory(scores, !whole);
        forward::forward::launch(
            &scores.client,
            self.cubes(),
            self.units(scores),
            arg(scores),
            arg(gain),
            arg(&output),
            arg(&history),
            arg(&walked),
            scratch,
            self.kappa,
            iterations,
            n,
            keep,
            whole,
            way,
        );
        (output, history, walked)
    }

    /// Room for so many vectors of N an iteration; for nothing unless `keep`.
    fn history(&self, like: &CubeTensor, keep: bool, vectors: usize) -> CubeTensor {
        match keep {
            true => empty(like, [self.images, self.iterations, vectors, self.n]),
            false => empty(like, [1]),
        }
    }

    fn cubes(&self) -> CubeCount {
        CubeCount::Static(self.images as u32, 1, 1)
    }

    /// Enough threads for every token, as far as the device has them.
    fn units(&self, like: &CubeTensor) -> CubeDim {
        let most = like.client.properties().hardware.max_units_per_cube.min(MOST_UNITS as u32);
        CubeDim::new_1d((self.n as u32).next_multiple_of(32).min(most))
    }

    /// The quickest way for which there is memory, of token `weights` or of plans; and as much plain memory for every image as
    /// it needs.
    fn working_memory(&self, like: &CubeTensor, weights: bool) -> (Way, BufferArg) {
        let most = most_shared(like) / size_of::<f32>();
        // A thread is a token.
        let fits = self.n > 1 && self.units(like).x as usize == self.n.next_multiple_of(32);
        let powers = weights && fits && self.temperature >= COLDEST;
        let walk = lines::LANES * self.n;
        let has_room = |block: &usize| walk + powers::room(self.n, *block) <= most;
        let block = powers.then(|| (1..=powers::stride_count(self.n)).rev().find(has_room));
        let way = match block.flatten() {
            Some(block) => Way::Powers(block),
            None if walk <= most => Way::Shared,
            None => Way::Plain,
        };
        let shape = if way == Way::Plain { [self.images, walk] } else { [1, 1] };
        (way, arg(&empty(like, shape)))
    }
}

/// Bytes of memory that a workgroup can have of its own.
fn most_shared(like: &CubeTensor) -> usize {
    like.client.properties().hardware.max_shared_memory_size
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
    fn they_take_what_they_can_count() {
        const N: usize = 49;
        let sinkhorn = Sinkhorn::default();
        let most = |each: usize| u32::MAX as usize / each;
        let vectors = [forward::HISTORY_VECTORS, log_plan::HISTORY_VECTORS];
        let [history, log_history] = vectors.map(|vectors| sinkhorn.iterations * vectors * N);
        for (name, gpu) in gpus() {
            let scores = |images| Tensor::<2>::zeros([1, 1], &gpu).expand([images, N]);
            let check = |what: &str, most: usize, take: &dyn Fn(&Tensor<2>) -> bool| {
                let found = [most, most + 1].map(|images| take(&scores(images)));
                assert_eq!(found, [true, false], "{what} on {name}");
            };
            check("weights", most(history), &|scores| take(scores, sinkhorn));
            check("noisy plans", most(log_history.max(N * N)), &|scores| take_plans(scores, sinkhorn, true));
            let once = Sinkhorn { iterations: 1, ..sinkhorn };
            check("plans", most(N * N), &|scores| take_plans(scores, once, false));
        }
    }

    #[test]
    fn an_image_of_which_float32_does_not_hold_the_powers_is_walked_beside_others_that_are_not() {
        let (images, n) = (3, 49);
        let sinkhorn = Sinkhorn { temperature: 0.1, iterations: 20 };
        let mut scores: Vec<f32> = (0..images * n).map(|at| ((at * 37) % 101) as f32 / 29.0 - 1.7).collect();
        scores[n + 5] = 30.0;
        scores[2 * n + 7] = -8.0; // far out, and not too far
        let scores = TensorData::new(scores, [images, n]);
        let gain = TensorData::new((0..n).map(|k| (k as f32 * 0.7).cos()).collect::<Vec<_>>(), [n]);
        let run = |device: &Device| {
            let device = device.clone().autodiff();
            let scores = Tensor::<2>::from_data(scores.clone(), &device).require_grad();
            let gain = Tensor::<1>::from_data(gain.clone(), &device).require_grad();
            let weights = token_weights(scores.clone(), gain.clone(), Task { sinkhorn, noise: None });
            let gradients = (weights.clone() * weights.clone()).sum().backward();
            let by_scores = scores.grad(&gradients).expect("a gradient").into_data();
            let by_gain = gain.grad(&gradients).expect("a gradient").into_data();
            [weights.into_data(), by_scores, by_gain].map(|data| data.iter::<f64>().collect::<Vec<_>>())
        };
        for (name, gpu) in gpus() {
            for (found, expected) in run(&gpu).into_iter().zip(run(&Device::flex())) {
                assert_close(&name, found, expected, 1e-5);
            }
            let scores = into_contiguous(cube(Tensor::<2>::from_data(scores.clone(), &gpu)));
            let gain = cube(Tensor::<1>::from_data(gain.clone(), &gpu));
            let (_, _, walked) = Job::new(&scores, sinkhorn).forward(&scores, &gain, false, false);
            let walked = tensor::<1>(walked).into_data().try_into_vec::<f32>().expect("float32");
            assert_eq!(walked, [0.0, 1.0, 0.0], "{name}");
        }
    }
}
