//! Everything one look at one image through one probe showed: plain host data, the waist between
//! the maths and the pictures. A trace on disk draws the same figure with no weights and no GPU.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use super::attribution::{Attributed, Attribution, AttributionSet};
use super::grid::Grid;
use super::io::block;
pub use super::reading::{Reading, slug};
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
    /// A soft permutation `[N, N]`: rows are tokens, columns positions, the last read last.
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

/// A diagnostic with what chance gives for the same router settings (docs/definitions.md, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Of this image.
    pub value: f64,
    /// 5th and 95th percentile over seeded random scores; absent where chance says nothing.
    pub null: Option<(f64, f64)>,
    /// Of one untrained scorer on the same image; absent for heads with no scorer.
    pub untrained: Option<f64>,
    /// 5th and 95th percentile over untrained scorers on the same image, of which that is the first.
    #[serde(default)]
    pub untrained_band: Option<(f64, f64)>,
}

/// Evidence for one class (docs/definitions.md, section 6). Exact evidence sums, with the bias, to the logit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The class it speaks for.
    pub class: usize,
    /// What no token says: the classifier's bias of that class, and what a bias within the head
    /// adds to it.
    pub bias: f32,
    /// Exact, by position read, `[N]`; absent for heads without an order. Several sweeps: averaged
    /// position by position.
    pub position: Option<Vec<f32>>,
    /// Exact, by position, had the same memory read the tokens row by row, `[N]`: what the router is
    /// worth. Absent but for an S4 behind a learned router.
    #[serde(default)]
    pub position_raster: Option<Vec<f32>>,
    /// Exact, by token, `[N]`; absent for heads that are not linear in the tokens.
    pub token: Option<Vec<f32>>,
    /// The paper's proxy by position, `[N]`; absent for heads without an order.
    pub proxy: Option<Vec<f32>>,
    /// The proxy had the tokens been read in raster order, `[N]`.
    pub proxy_raster: Option<Vec<f32>>,
    /// Why there is no exact evidence, where there is none.
    pub why_none: Option<String>,
}

/// Bins of the histogram of drawn exchanges.
pub const HISTOGRAM_BINS: usize = 40;
/// Where it ends, in deviations either side of the mean.
pub const HISTOGRAM_END: f64 = 4.0;

/// Whether the order matters (docs/definitions.md, section 10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "there is one a trace")]
pub enum OrderTest {
    /// There is no such test.
    None {
        /// Why.
        none: String,
    },
    /// What came out.
    Tested {
        /// Of the logit of the class that evidence is for.
        logit: OrderContrast,
        /// Of its margin over the strongest other class of a bag of the same tokens; absent where there is no other.
        margin: Option<OrderContrast>,
    },
}

/// What was read of a logit or of a margin, beside all other orders. In units of the logit, the bias included, but for
/// the two parts of the split that an order adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderContrast {
    /// As it was read.
    pub value: f64,
    /// The other class of a margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<usize>,
    /// Whether the class was picked because it was predicted: p then describes, and does not test.
    pub descriptive: bool,
    /// What exchanging the tokens' rows of the plan gives.
    pub reassigned: Reassigned,
    /// The largest value of any exchange.
    pub best: f64,
    /// The smallest value of any exchange.
    pub worst: f64,
    /// `(value - mean) / (best - mean)`, at most 1; absent where all exchanges give the same.
    pub headroom: Option<f64>,
    /// What a bag of the same tokens gives.
    pub content: f64,
    /// What raster order, or the scan, adds to it.
    pub fixed_order: f64,
    /// What routing adds to that; 0 of a scan.
    pub routing: f64,
}

/// All exchanges of tokens: mean and deviation exact, p counted over drawn ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reassigned {
    /// Mean of all.
    pub mean: f64,
    /// Standard deviation of all.
    pub std: f64,
    /// `(value - mean) / std`; absent where all give the same.
    pub z: Option<f64>,
    /// `(1 + draws at least as high) / (draws + 1)`.
    pub p: f64,
    /// The same by the normal distribution of that mean and deviation.
    pub p_normal: f64,
    /// How many were drawn.
    pub draws: usize,
    /// How many of them lie in each of [`HISTOGRAM_BINS`] equal bins from [`HISTOGRAM_END`] deviations below the mean to as
    /// many above, those beyond in the outermost; empty where all give the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<u32>,
}

/// Everything one look showed. By default nothing, of a head without an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Image file name.
    pub image: String,
    /// Probe file name.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// What was changed in how the probe read.
    #[serde(default, skip_serializing_if = "Reading::is_as_trained")]
    pub reading: Reading,
    /// Backbone id.
    pub backbone: String,
    /// Patch grid.
    pub grid: Grid,
    /// What the model saw: RGB, row-major, `height * width * 3` bytes.
    pub seen: Picture,
    /// Standardised scores, `[N]`.
    pub scores: Option<Vec<f32>>,
    /// Who came when.
    pub routing: Routing,
    /// Where every token is expected under the plan, `[N]`, in positions, as the diagnostics count it;
    /// absent without a plan.
    #[serde(default)]
    pub expected: Option<Vec<f64>>,
    /// Measured kernel, `[N, 1]` or `[N, d]`: row `j` is `j` steps before the end. The first sweep's.
    pub kernel: Option<Matrix>,
    /// Those of the further sweeps, in order.
    #[serde(default)]
    pub other_kernels: Vec<Matrix>,
    /// Spectral radius of the transition matrix. The first sweep's.
    pub radius: Option<f32>,
    /// What every token counts, `[N]`; absent for channel-wise and opaque heads.
    pub token_weight: Option<Vec<f32>>,
    /// Logits of all classes.
    pub logits: Vec<f32>,
    /// Most probable classes, best first.
    pub top: Vec<Prediction>,
    /// Evidence for one class.
    pub evidence: Evidence,
    /// Diagnostics by name, in the order of docs/definitions.md, section 5; empty without a plan.
    pub diagnostics: IndexMap<String, Diagnostic>,
    /// What was subtracted, which no file holds. Scores, weights, evidence, attributions, logits, classes, diagnostics and the
    /// order test are then differences; plan, orders and kernels are the trace's own, beside those of the other.
    #[serde(skip)]
    pub minus: Option<Box<Self>>,
    /// Whether the order matters; absent from traces of programs that did not ask.
    #[serde(default)]
    pub order_test: Option<OrderTest>,
    /// What methods of attribution found, as far as they were asked for the class of the evidence.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub attributions: IndexMap<Attribution, Attributed>,
    /// What is known to be where in the image; absent where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Regions>,
}

/// An RGB picture on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// `height * width * 3` bytes, row-major, RGB.
    #[serde(with = "block")]
    pub rgb: Vec<u8>,
}
