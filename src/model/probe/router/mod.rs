//! Routers decide the order in which the tokens are read (docs/definitions.md, section 2). Each learned router has a
//! file of its own and an entry in [`ROUTERS`]; fixed orders are in [`scan`].
//!
//! Learned routers sort in ascending order: a high score is read late, where the memory keeps it.

pub mod channelwise;
mod channelwise_parts;
mod columns;
pub mod hard_sort;
pub mod learned_weights;
pub mod neuralsort;
pub mod scan;
pub mod sinkhorn;
pub mod softsort;
mod sort;
mod standardise;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use burn::tensor::Tensor;

pub use self::standardise::{standardise, standardise_batch, standardise_vjp};
use super::PaperCost;
use super::head_output::{Plan, PlanRows};
use super::settings::{Config, ConfigError, within};
use crate::model::ops::matmul::PreciseMatmul as _;

/// A learned router: maps the standardised scores of the tokens to a soft permutation, the plan `P`, `[N, N]`.
///
/// Every router is implemented twice: [`route`](Router::route) on the host, one image at a time, for explanations and
/// for training on the CPU; [`plans`](Router::plans) on tensors, for every other device. Tests compare the two.
///
/// Routers whose `Debug` is the same make the same plans: caches of what plans give tell them apart by it.
pub trait Router: Debug + Send + Sync {
    /// The values of the settings it uses; all others are absent.
    fn settings(&self) -> Config;

    /// Whether its temperature changes the plan, and not the gradient alone.
    fn is_soft(&self) -> bool {
        true
    }

    /// Whether it adds random noise to every training image.
    fn draws(&self) -> bool {
        false
    }

    /// Floating-point operations of one plan from `n` scores: the N^2 entries times the operations of each.
    fn flops(&self, n: u64) -> u64;

    /// The plan of one image, without noise. `scores`: `[N]`, standardised.
    fn plan(&self, scores: &[f64]) -> Plan {
        Plan { n: scores.len(), share: self.route(scores, None).plan() }
    }

    /// The same plan row by row, for callers that need no `[N, N]` table.
    fn rows(&self, scores: &[f64]) -> Box<dyn PlanRows> {
        Box::new(self.plan(scores))
    }

    /// Routes one image and keeps what its backward pass needs. `scores`: `[N]`, standardised. `image_seed` seeds the
    /// noise of routers that [draw](Router::draws) any; absent outside training.
    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed>;

    /// The plans of a batch. `scores`: `[B, N]`, standardised; returns `[B, N, N]`. Routers that add noise draw it from
    /// `image_seeds`, one seed per image; absent outside training.
    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3>;

    /// `P gain` for a batch: the weight of every token where position `k` has weight `gain[k]`.
    /// `scores`: `[B, N]`; `gain`: `[N]`; `image_seeds` as [`plans`](Router::plans) takes them; returns `[B, N]`.
    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        weigh(self.plans(scores, image_seeds), gain)
    }
}

/// The plan `P` of one image on the host, with its backward pass; it need not be stored as a table.
pub trait Routed: Send + Sync {
    /// `P gain` for each of M gains, `[M, N]` row-major.
    fn weights(&self, gains: &[f64]) -> Vec<f64>;

    /// The gradients of the scores, `[N]`, and of the gains, `[M, N]`, given that of `weights`, `[M, N]`, which
    /// [`weights`](Routed::weights) returned for these `gains`.
    fn vjp(&self, gains: &[f64], weights: &[f64], grad_weights: &[f64]) -> (Vec<f64>, Vec<f64>);

    /// `P`, `[N, N]` row-major: a row per token, a column per position.
    fn plan(&self) -> Vec<f64>;

    /// The gradient of the scores, `[N]`, given that of the plan, `[N, N]` row-major.
    fn vjp_of_plan(&self, grad_plan: &[f32]) -> Vec<f64>;
}

/// Operations of a softmax per entry: subtraction, exponential, addition, division.
const SOFTMAX: u64 = 4;

/// `P gain`, `[B, N]`, of `plans` `[B, N, N]` and `gain` `[N]`.
fn weigh(plans: Tensor<3>, gain: Tensor<1>) -> Tensor<2> {
    plans.precise_matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
}

/// An entry of the list of learned routers.
#[derive(Clone, Copy)]
pub struct RouterSpec {
    /// Its id, which is also the id of the head that combines it with S4.
    pub id: &'static str,
    /// Its name on the screen.
    pub name: &'static str,
    /// What the head does, in one line.
    pub summary: &'static str,
    /// Its kind of method, in the words of the paper's table of routing mechanisms.
    pub mechanism: &'static str,
    /// Its row in that table; rows are sorted by this number.
    pub table_row: u32,
    /// Whether the paper has it.
    pub in_paper: bool,
    /// The cost that the paper reports for the head.
    pub paper_cost: Option<PaperCost>,
    /// Builds it from the settings it uses; an error if one is out of range.
    pub build: fn(&Config) -> Result<Box<dyn Router>, ConfigError>,
}

/// Every learned router.
pub const ROUTERS: &[RouterSpec] =
    &[sinkhorn::SPEC, sinkhorn::noise::SPEC, softsort::SPEC, neuralsort::SPEC, hard_sort::SPEC];

/// The learned router with this id.
pub fn find(id: &str) -> Option<&'static RouterSpec> {
    ROUTERS.iter().find(|spec| spec.id == id)
}

/// Valid temperatures; below these, exponents exceed what float32 can resolve.
pub const TEMPERATURES: RangeInclusive<f64> = 1e-4..=1e4;

/// The temperature of the settings, or `default`; an error outside [`TEMPERATURES`].
fn temperature(config: &Config, default: f64) -> Result<f64, ConfigError> {
    let temperature = config.temperature.unwrap_or(default);
    within("temperature", temperature, TEMPERATURES, "a number from 1e-4 to 1e4")
}
