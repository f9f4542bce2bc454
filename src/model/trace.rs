//! Everything computed for one image with one probe: plain host data, the interface between the maths and the
//! figures. A trace on disk draws the same figure with no weights and no GPU.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use super::attribution::{Attributed, Attribution, AttributionSet, Found};
pub use super::data::synsets::same_class;
use super::grid::Grid;
pub use super::io::escape::slug;
use super::io::{Format, block};
pub use super::picture::Picture;
pub use super::reading::Reading;
pub use super::regions::{Region, Regions, members};

/// A dense row-major float32 matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// `rows * cols` values, row-major.
    #[serde(with = "block")]
    pub data: Vec<f32>,
}

/// In which order the probe read the tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// A pooling head: no order.
    #[default]
    None,
    /// One or more fixed sweeps; `orders[s][k]` is the token read at step `k` of sweep `s`.
    Orders(Vec<Vec<u32>>),
    /// A soft permutation `[N, N]`: rows are tokens, columns are positions in the order of reading.
    Plan(Matrix),
}

/// One class and its logit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Index of the class.
    pub index: usize,
    /// Name of the class.
    pub name: String,
    /// Logit.
    pub logit: f32,
    /// Softmax probability.
    pub probability: f32,
}

/// A diagnostic, with its null band for the same router settings (docs/definitions.md, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Its value for this image.
    pub value: f64,
    /// 5th and 95th percentile over seeded random scores; absent where no null model was computed.
    pub null: Option<(f64, f64)>,
    /// Its value with one untrained scorer on the same image; absent for heads with no scorer.
    pub untrained: Option<f64>,
    /// 5th and 95th percentile over untrained scorers on the same image; [`untrained`](Self::untrained) is the first of them.
    #[serde(default)]
    pub untrained_band: Option<(f64, f64)>,
}

/// Evidence for one class (docs/definitions.md, section 6). Exact evidence sums, with the bias, to the logit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Index of the class.
    pub class: usize,
    /// The part of the logit that comes from no token: the classifier's bias of that class, plus the contribution
    /// of biases within the head.
    pub bias: f32,
    /// Exact, by position read, `[N]`; absent for heads without an order. Several sweeps: averaged
    /// position by position.
    pub position: Option<Vec<f32>>,
    /// Exact, by position, if the same S4 had read the tokens row by row, `[N]`, to show the effect of the router.
    /// Only for an S4 behind a learned router.
    #[serde(default)]
    pub position_raster: Option<Vec<f32>>,
    /// Exact, by token, `[N]`; absent for heads that are not linear in the tokens.
    pub token: Option<Vec<f32>>,
    /// The paper's proxy by position, `[N]`; absent for heads without an order.
    pub proxy: Option<Vec<f32>>,
    /// The proxy if the tokens had been read in raster order, `[N]`.
    pub proxy_raster: Option<Vec<f32>>,
    /// Why there is no exact evidence, if there is none.
    pub why_none: Option<String>,
}

/// Number of bins of [`Reassigned::histogram`].
pub const HISTOGRAM_BINS: usize = 40;
/// Half the range of that histogram, in standard deviations from the mean.
pub const HISTOGRAM_END: f64 = 4.0;

/// Whether the order matters (docs/definitions.md, section 10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderTest {
    /// For the logit of the class that evidence is for.
    pub logit: OrderContrast,
    /// For its margin over the other class with the largest logit for a bag of the same tokens; absent with only one class.
    pub margin: Option<OrderContrast>,
}

/// A logit or margin as read, compared with all other orders. In units of the logit, including the bias, except
/// [`fixed_order`](Self::fixed_order) and [`routing`](Self::routing), which are differences without the bias.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderContrast {
    /// Its value in the order that was read.
    pub value: f64,
    /// The other class, for a margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<usize>,
    /// Whether the class was chosen because it was predicted: p is then descriptive, not a test.
    pub descriptive: bool,
    /// Its distribution over exchanges of the tokens' rows of the plan.
    pub reassigned: Reassigned,
    /// The largest value of any exchange.
    pub best: f64,
    /// The smallest value of any exchange.
    pub worst: f64,
    /// `(value - mean) / (best - mean)`, at most 1; absent if all exchanges give the same value.
    pub headroom: Option<f64>,
    /// Its value for a bag of the same tokens.
    pub content: f64,
    /// The difference that raster order, or the scan, adds to that.
    pub fixed_order: f64,
    /// The difference that routing adds to that; 0 for a scan.
    pub routing: f64,
}

/// The distribution over all exchanges of tokens: mean and deviation are exact, p is estimated from random draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reassigned {
    /// Mean over all exchanges.
    pub mean: f64,
    /// Standard deviation over all exchanges.
    pub std: f64,
    /// `(value - mean) / std`; absent if all give the same value.
    pub z: Option<f64>,
    /// `(1 + draws at least as high) / (draws + 1)`.
    pub p: f64,
    /// p by the normal distribution with that mean and deviation.
    pub p_normal: f64,
    /// Number of draws.
    pub draws: usize,
    /// Number of draws in each of [`HISTOGRAM_BINS`] equal bins from [`HISTOGRAM_END`] deviations below the mean to as many
    /// above, outliers in the outermost bins; empty if all give the same value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<u32>,
}

/// Everything computed for one image with one probe. The default is empty, for a head without an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Version of the file format; absent in files of earlier versions.
    #[serde(default)]
    pub format: Format<1>,
    /// Image file name.
    pub image: String,
    /// Probe file name.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// How the probe's reading was changed, if at all.
    #[serde(default, skip_serializing_if = "Reading::is_as_trained")]
    pub reading: Reading,
    /// Backbone id.
    pub backbone: String,
    /// Patch grid.
    pub grid: Grid,
    /// The image as the model saw it, resized and cropped.
    pub seen: Picture,
    /// Standardised scores, `[N]`.
    pub scores: Option<Vec<f32>>,
    /// The order in which the tokens were read.
    pub routing: Routing,
    /// The mean position of every token under the plan, `[N]`, as the diagnostics count positions; absent
    /// without a plan.
    #[serde(default)]
    pub expected: Option<Vec<f64>>,
    /// Measured kernel of the first sweep, `[N, 1]` or `[N, d]`: row `j` is `j` steps before the end.
    pub kernel: Option<Matrix>,
    /// Kernels of the further sweeps, in order.
    #[serde(default)]
    pub other_kernels: Vec<Matrix>,
    /// Spectral radius of the first sweep's transition matrix.
    pub radius: Option<f32>,
    /// Weight of every token in the pooled representation, `[N]`; absent for channel-wise and opaque heads.
    pub token_weight: Option<Vec<f32>>,
    /// Logits of all classes.
    pub logits: Vec<f32>,
    /// Most probable classes, best first.
    pub top: Vec<Prediction>,
    /// Evidence for one class.
    pub evidence: Evidence,
    /// Diagnostics by name, in the order of docs/definitions.md, section 5; empty without a plan.
    pub diagnostics: IndexMap<String, Diagnostic>,
    /// The trace that was subtracted from this one; never written to a file. Scores, weights, evidence, attributions, logits,
    /// classes, diagnostics and the order test are then differences; plan, orders and kernels are this trace's own.
    #[serde(skip)]
    pub minus: Option<Box<Self>>,
    /// Whether the order matters; absent from traces of versions without this test.
    #[serde(default)]
    pub order_test: Option<Found<OrderTest>>,
    /// Attributions for the class of the evidence, by the methods that were requested.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub attributions: IndexMap<Attribution, Found<Attributed>>,
    /// Annotated regions of the image; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Regions>,
}
