//! Routers: in which order the tokens are read (docs/definitions.md, section 2). One paper a file, and the one list
//! of the learned ones. Fixed orders are in [`scan`].
//!
//! Learned routers sort ascending: a high score goes late, where the memory keeps it.

pub mod channelwise;
mod channelwise_parts;
mod columns;
pub mod gumbel;
pub mod hard_sort;
pub mod learned_weights;
pub mod neuralsort;
pub mod scan;
pub mod sinkhorn;
pub mod softsort;
mod sort;
mod standardise;

use std::ops::RangeInclusive;

use burn::tensor::Tensor;

pub use self::standardise::{standardise, standardise_batch, standardise_vjp};
use super::head_output::{Plan, PlanRows};
use super::paper_cost::PaperCost;
use super::settings::{Config, ConfigError, within};
use crate::model::ops::matmul::PreciseMatmul as _;

/// A learned router: from the standardised scores of the tokens to a soft permutation.
///
/// Every router says it twice: [`route`](Router::route) in float64 on the host, an image at a time, for explanations
/// and for training on the CPU; [`plans`](Router::plans) on tensors, for every other device. Tests hold them together.
pub trait Router: Send + Sync {
    /// Its id in the [list](ROUTERS).
    fn id(&self) -> &'static str;

    /// Those settings it knows.
    fn settings(&self) -> Config;

    /// Whether its temperature changes how an image is read, and not its gradient alone.
    fn is_soft(&self) -> bool {
        true
    }

    /// Whether it draws noise of its own for every image that is trained on.
    fn draws(&self) -> bool {
        false
    }

    /// Operations that make a plan from N scores: entries times what each costs.
    fn flops(&self, n: u64) -> u64;

    /// The plan of one image. `scores`: `[N]`, standardised.
    fn plan(&self, scores: &[f64]) -> Plan {
        Plan { n: scores.len(), share: self.route(scores, None).plan() }
    }

    /// The same row by row, for who needs no table of it.
    fn rows(&self, scores: &[f64]) -> Box<dyn PlanRows> {
        Box::new(self.plan(scores))
    }

    /// One image routed, to be read and gone back through. `image_seed` seeds the noise of routers that
    /// explore; absent outside of training.
    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed>;

    /// The plans of a batch. `scores`: `[B, N]`, standardised; returns `[B, N, N]`. Routers that explore draw their
    /// noise from `image_seeds`, one seed an image; absent outside of training.
    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3>;

    /// `P q` for a batch: what every token counts when position `k` counts `gain[k]`.
    /// `scores`: `[B, N]`; `gain`: `[N]`; `image_seeds` as [`plans`](Router::plans) takes them; returns `[B, N]`.
    fn token_weights(&self, scores: Tensor<2>, gain: Tensor<1>, image_seeds: Option<&[u64]>) -> Tensor<2> {
        weigh(self.plans(scores, image_seeds), gain)
    }
}

/// One image routed on the host: a plan that is read through any number of gains and back again,
/// and need not exist as a table.
pub trait Routed: Send + Sync {
    /// `P gain` for each of M gains, `[M, N]` row-major.
    fn weights(&self, gains: &[f64]) -> Vec<f64>;

    /// The gradients of scores `[N]` and gains `[M, N]`, given `weights` of these `gains` and their
    /// gradient.
    fn vjp(&self, gains: &[f64], weights: &[f64], by_weights: &[f64]) -> (Vec<f64>, Vec<f64>);

    /// P as a table, `[N, N]`.
    fn plan(&self) -> Vec<f64>;

    /// The gradient of the scores `[N]`, given that of the plan.
    fn vjp_of_plan(&self, by_plan: &[f32]) -> Vec<f64>;
}

/// Operations of a softmax, an entry: subtract, exponential, add, divide.
const SOFTMAX: u64 = 4;

/// `P q`: `[B, N, N]` and `[N]` to `[B, N]`.
fn weigh(plans: Tensor<3>, gain: Tensor<1>) -> Tensor<2> {
    plans.precise_matmul(gain.reshape([1, -1, 1])).squeeze_dim(2)
}

/// An entry of the list of learned routers.
#[derive(Clone, Copy)]
pub struct RouterSpec {
    /// Its id: that of the S4 head behind it.
    pub id: &'static str,
    /// What it is called on the screen.
    pub name: &'static str,
    /// What the head does, in one line.
    pub summary: &'static str,
    /// What kind of method it is, as the paper's table of routing mechanisms says it.
    pub mechanism: &'static str,
    /// Where that table has it: rows stand by increasing number.
    pub table_row: u32,
    /// Whether it is one of the paper's.
    pub in_paper: bool,
    /// What the paper says that the head costs.
    pub paper_cost: Option<PaperCost>,
    /// Builds it from the settings it knows.
    pub build: fn(&Config) -> Result<Box<dyn Router>, ConfigError>,
}

/// Every learned router.
pub const ROUTERS: &[RouterSpec] =
    &[sinkhorn::SPEC, gumbel::SPEC, softsort::SPEC, neuralsort::SPEC, hard_sort::SPEC];

/// The learned router of this id.
pub fn find(id: &str) -> Option<&'static RouterSpec> {
    ROUTERS.iter().find(|spec| spec.id == id)
}

/// Temperatures there can be; below these exponents leave what float32 can tell apart.
pub const TEMPERATURES: RangeInclusive<f64> = 1e-4..=1e4;

/// The temperature.
fn temperature(config: &Config, default: f64) -> Result<f64, ConfigError> {
    let temperature = config.temperature.unwrap_or(default);
    within("temperature", temperature, TEMPERATURES, "a number from 1e-4 to 1e4")
}
