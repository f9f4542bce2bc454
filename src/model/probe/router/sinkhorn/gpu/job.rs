//! The sizes of a batch, and by them the method, its memory and the workgroups; launches of the forward kernels.

use burn::backend::TensorMetadata;
use burn_cubecl::cubecl::prelude::{BufferArg, CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;

use super::super::Sinkhorn;
use super::super::noise::Noise;
use super::{UNITS, forward, lines, log_plan, noise, powers};
use crate::model::ops::gpu::{arg, empty};

/// Most threads of a workgroup, but for plans with noise: enough for the tokens of 24 x 24 patches, and few enough for 96 registers each.
pub(super) const MAX_UNITS: usize = 640;
/// Lowest temperature at which powers are tried: below it float32 holds those of no image.
const MIN_POWERS_TEMPERATURE: f64 = 1.0 / 64.0;

/// How the sums over rows and columns are computed, and in which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Method {
    /// By [`powers`] for images whose kernel float32 holds, by walks for the others, both in shared memory. Columns are added up in
    /// blocks of this many strides.
    Powers(usize),
    /// By walks in shared memory.
    WalkShared,
    /// By walks in global memory.
    WalkGlobal,
}

impl Method {
    /// Strides of a block of [`powers`]; 0 for walks.
    pub(super) const fn block(self) -> usize {
        if let Self::Powers(block) = self { block } else { 0 }
    }
}

/// A batch of scores, `[B, N]`, and the settings that they are routed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub images: usize,
    pub n: usize,
    pub iterations: usize,
    pub temperature: f64,
    /// `2 / (tau (N - 1))`.
    pub kappa: f32,
    pub noisy: bool,
}

impl Job {
    pub fn new(scores: &CubeTensor, sinkhorn: Sinkhorn) -> Self {
        let [images, n] = scores.shape().dims();
        let Sinkhorn { temperature, iterations, .. } = sinkhorn;
        let kappa = (2.0 / (temperature * n.saturating_sub(1).max(1) as f64)) as f32;
        Self { images, n, iterations: iterations.max(1), temperature, kappa, noisy: false }
    }

    /// Plans with noise, their logarithms and the history of the iterations; the last two are valid only with `keep`.
    pub fn forward_with(
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

    /// Token weights or, with `make_plans`, plans; the history of the iterations, written only with `keep`; and a flag for each image
    /// that was walked.
    pub fn forward(
        &self,
        scores: &CubeTensor,
        gain: &CubeTensor,
        keep: bool,
        make_plans: bool,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let Self { images, n, iterations, .. } = *self;
        let walked = empty(scores, [images]);
        let output = if make_plans { empty(scores, [images, n, n]) } else { empty(scores, [images, n]) };
        let history = self.history(scores, keep, forward::HISTORY_VECTORS);
        let (method, scratch) = self.working_memory(scores, !make_plans);
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
            make_plans,
            method,
        );
        (output, history, walked)
    }

    /// A buffer for that many vectors of N an iteration; of one element unless `keep`.
    fn history(&self, like: &CubeTensor, keep: bool, vectors: usize) -> CubeTensor {
        match keep {
            true => empty(like, [self.images, self.iterations, vectors, self.n]),
            false => empty(like, [1]),
        }
    }

    pub fn cubes(&self) -> CubeCount {
        CubeCount::Static(self.images as u32, 1, 1)
    }

    /// A thread for every token, up to what the device allows.
    pub fn units(&self, like: &CubeTensor) -> CubeDim {
        let most = like.client.properties().hardware.max_units_per_cube.min(MAX_UNITS as u32);
        CubeDim::new_1d((self.n as u32).next_multiple_of(32).min(most))
    }

    /// The fastest method whose memory the device has, for token `weights` or for plans; and a buffer in global memory for every
    /// image, if the method needs one.
    pub fn working_memory(&self, like: &CubeTensor, weights: bool) -> (Method, BufferArg) {
        let available = max_shared_memory(like) / size_of::<f32>();
        // Powers need a thread for every token.
        let fits = self.n > 1 && self.units(like).x as usize == self.n.next_multiple_of(32);
        let powers = weights && fits && self.temperature >= MIN_POWERS_TEMPERATURE;
        let walk = lines::LANES * self.n;
        let has_room = |block: &usize| walk + powers::room(self.n, *block) <= available;
        let block = powers.then(|| (1..=powers::stride_count(self.n)).rev().find(has_room));
        let method = match block.flatten() {
            Some(block) => Method::Powers(block),
            None if walk <= available => Method::WalkShared,
            None => Method::WalkGlobal,
        };
        let shape = if method == Method::WalkGlobal { [self.images, walk] } else { [1, 1] };
        (method, arg(&empty(like, shape)))
    }
}

/// Bytes of shared memory that a workgroup can have.
pub(super) fn max_shared_memory(like: &CubeTensor) -> usize {
    like.client.properties().hardware.max_shared_memory_size
}
