//! Sinkhorn sorting: entropic optimal transport from scores to positions (Cuturi, Teboul and Vert 2019).
//!
//! The cost is `(s_i - p_k)^2` with `p_k = k / (N - 1)`, and `L = -cost / tau`. From `g = 0`, `iterations` times:
//! `f_i = -logsumexp_k(L + g)`, then `g_k = -logsumexp_i(L + f)`. The plan is `P = exp(L + f + g)`: its columns sum
//! to 1 exactly, its rows approximately.
//!
//! On the host, `transport` sums in float32 for training where every scaling fits (`linear`), else in float64. On tensors it is
//! one operation with its own gradient (`operation`): on the CPU in float64 (`cpu`), on GPUs by kernels (`gpu`). The plain
//! tensor form below is the tested reference, and used where a GPU's kernels do not apply. Gumbel-Sinkhorn adds `noise` to `L`.

mod cpu;
mod gpu;
mod linear;
mod logarithmic;
pub mod noise;
mod operation;
mod transport;

use std::ops::RangeInclusive;

use burn::tensor::{Tensor, activation::log_softmax};

use self::noise::Noise;
use self::operation::Task;
use self::transport::{Numerics, Transport};
use super::{Routed, Router, RouterSpec, SOFTMAX, sort, temperature, weigh};
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::PaperCost;
use crate::model::probe::head_output::{Plan, PlanRows};
use crate::model::probe::settings::{Config, ConfigError, within};

/// Its entry in [`ROUTERS`](super::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "sinkhorn",
    name: "Sinkhorn",
    summary: "S4 behind Sinkhorn's soft sorting",
    mechanism: "Doubly stochastic optimal transport",
    table_row: 5,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.97, flops: 103.99 }),
    build: |config| Ok(Box::new(Sinkhorn::new(config)?)),
};

/// Valid numbers of iterations.
pub const ITERATIONS: RangeInclusive<usize> = 1..=10_000;

/// The Sinkhorn router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinkhorn {
    /// Temperature tau, above 0.
    pub temperature: f64,
    /// Number of normalisations of rows and then columns, at least 1.
    pub iterations: usize,
    /// Whether [`noise`] is added to L in training.
    pub noisy: bool,
}

impl Default for Sinkhorn {
    fn default() -> Self {
        Self { temperature: 0.1, iterations: 20, noisy: false }
    }
}

impl Sinkhorn {
    /// With the temperature and iterations of the settings; an error if one is out of range.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let default = Self::default();
        let iterations = config.iterations.unwrap_or(default.iterations);
        let iterations = within("iterations", iterations, ITERATIONS, "a whole number from 1 to 10000")?;
        Ok(Self { temperature: temperature(config, default.temperature)?, iterations, ..default })
    }

    /// [`Router::plans`] by plain tensor operations, with `noise` `[B, N, N]` added to L: the reference of
    /// the fused operation.
    ///
    /// In float32, against float64, at temperatures 0.01 to 1 and with a score 14 standard deviations
    /// out, the measured error is 3e-7 in plans and 3e-6 of the largest in gradients. Nothing can
    /// overflow: after the first row normalisation every exponent is at most 0. Two measures keep
    /// float32 accurate. Rows are normalised first, so a constant added to a row cancels, and with `c` the
    /// position nearest to `s_i`, `L[i, k] - L[i, c] = (p_k - p_c) (2 s_i - p_k - p_c) / tau` is small near
    /// `c`, where the plan has its mass, while `s_i^2 / tau` alone would use up all digits. And the iterations
    /// update the logarithm of the plan instead of potentials: entries that matter stay near 0.
    pub fn plans_plain(&self, scores: Tensor<2>, noise: Option<Tensor<3>>) -> Tensor<3> {
        let [_, n] = scores.dims();
        let last = n.saturating_sub(1).max(1) as f64;
        let positions = sort::positions(n, &scores.device()); // [1, 1, N], k
        let scores = scores.unsqueeze_dim::<3>(2); // [B, N, 1]
        let nearest = (scores.clone().detach() * last).round().clamp(0.0, last); // [B, N, 1], c
        let difference = (positions.clone() - nearest.clone()) / last; // [B, N, N]: p_k - p_c
        let sum = (positions + nearest) / last; // [B, N, N]: p_k + p_c
        let log_kernel = difference * (scores * 2.0 - sum) / self.temperature; // [B, N, N]
        let log_kernel = match noise {
            Some(noise) => log_kernel + noise,
            None => log_kernel,
        };
        let normalise = |log_plan: Tensor<3>| log_softmax(log_softmax(log_plan, 2), 1); // rows, then columns
        (0..self.iterations.max(1)).fold(log_kernel, |log_plan, _| normalise(log_plan)).exp()
    }

    /// The noise of a batch of scores `[B, N]`, from one seed per image; `None` without seeds, and for a router without noise.
    ///
    /// # Panics
    /// If there are seeds, but not one for every image: a bug of the caller.
    fn noise(&self, scores: &Tensor<2>, image_seeds: Option<&[u64]>) -> Option<Noise> {
        let image_seeds = image_seeds.filter(|_| self.noisy)?.to_vec();
        assert_eq!(image_seeds.len(), scores.dims()[0], "one seed for every image");
        Some(Noise { image_seeds })
    }

    /// Runs the iterations of one image on the host, with `noise`, `[N, N]` row-major, added to L; empty for none.
    fn transport(&self, scores: &[f64], noise: Vec<f32>, numerics: Numerics) -> Transport {
        Transport::run(scores, self.temperature, self.iterations.max(1), noise, numerics)
    }
}

impl Router for Sinkhorn {
    fn settings(&self) -> Config {
        let (temperature, iterations) = (Some(self.temperature), Some(self.iterations));
        Config { temperature, iterations, ..Config::default() }
    }

    fn draws(&self) -> bool {
        self.noisy
    }

    fn flops(&self, n: u64) -> u64 {
        // The log kernel, two log-softmaxes per iteration, one exponential.
        (5 + 2 * SOFTMAX * self.iterations as u64 + 1) * n * n
    }

    fn plan(&self, scores: &[f64]) -> Plan {
        Plan { n: scores.len(), share: self.transport(scores, vec![], Numerics::Double).plan() }
    }

    fn rows(&self, scores: &[f64]) -> Box<dyn PlanRows> {
        Box::new(self.transport(scores, vec![], Numerics::Double).rows())
    }

    /// Starts in float32.
    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        let noise = image_seed.filter(|_| self.noisy).map(|seed| noise::table(seed, scores.len()));
        Box::new(self.transport(scores, noise.unwrap_or_default(), Numerics::Single))
    }

    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        let noise = self.noise(&scores, image_seeds);
        if on_cpu(&scores.device()) || gpu::supports_plans(&scores, *self, noise.is_some()) {
            return operation::plans(scores, Task { sinkhorn: *self, noise });
        }
        let noise = noise.map(|noise| noise.tensor(&scores));
        self.plans_plain(scores, noise)
    }

    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        let noise = self.noise(&scores, image_seeds);
        if on_cpu(&scores.device()) || (noise.is_none() && gpu::supports_weights(&scores, *self)) {
            return operation::token_weights(scores, gain, Task { sinkhorn: *self, noise });
        }
        weigh(self.plans(scores, image_seeds), gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_made_one_by_one_are_those_of_the_plan() {
        let scores: Vec<f64> = (0..300).map(|i| f64::from(i * 37 % 101) / 30.0 - 1.6).collect();
        for temperature in [0.1, 0.001] {
            let sinkhorn = Sinkhorn { temperature, iterations: 5, noisy: false };
            let (plan, rows) = (sinkhorn.plan(&scores), sinkhorn.rows(&scores));
            let mut room = vec![0.0; 300];
            assert_eq!(rows.tokens(), plan.n);
            assert!((0..300).all(|i| rows.row(i, &mut room) == plan.row(i)));
        }
    }
}
