//! Heads: what reads the tokens (SPEC section 4), and the one list of them.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::array::Arrays;
use super::grid::Grid;
use super::params::{Params, Spec};
use super::reading::Reading;
use super::tokens::Tokens;

/// The sizes a head is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Hidden size of the backbone, d.
    pub width: usize,
    /// Patch grid; N tokens.
    pub grid: Grid,
    /// Number of classes, C.
    pub classes: usize,
}

/// Whether all channels share one S4 (SPEC section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// One A, B, C, D and step for every channel (the paper's text).
    #[default]
    Shared,
    /// A fixed; B, C and D for every channel (the paper's parameter table).
    Channel,
}

/// The settings of a head, as the `config` field of a probe file holds them. A head reads those it
/// knows; the others are kept and written back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Temperature of the router (its own default where absent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Sinkhorn iterations (default 20).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// S4 states (default 128).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dim: Option<usize>,
    /// Whether channels share one S4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// SoftSort's distance exponent, 1 or 2 (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<u32>,
    /// How many tokens `topk` keeps (default 16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<usize>,
    /// Seed of the random orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Everything else, as found.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, serde_json::Value>,
}

impl Default for Config {
    fn default() -> Self {
        let rest = serde_json::Map::new();
        Self {
            temperature: None,
            iterations: None,
            state_dim: None,
            sharing: None,
            power: None,
            k: None,
            seed: None,
            rest,
        }
    }
}

/// The tokens of a batch on a device, as heads read them.
#[derive(Clone)]
pub struct Batch {
    /// Patch tokens, `[B, N, d]`.
    pub patches: Tensor<3>,
    /// CLS tokens, `[B, d]`; absent where the backbone has none.
    pub cls: Option<Tensor<2>>,
    /// How the patch tokens lie over the image.
    pub grid: Grid,
    /// What seeds the random order of each image, `[B]`: the image's index when evaluating, mixed
    /// with the step when training.
    pub draws: Vec<u64>,
    /// Whether this batch is trained on (batch statistics instead of running ones).
    pub training: bool,
}

/// Reads tokens into features. A pure function of parameters and tokens; the linear classifier
/// behind it belongs to the probe.
pub trait Head: Send + Sync {
    /// The parameters it trains (and its buffers), without the classifier.
    fn specs(&self, dims: &Dims) -> Vec<Spec>;

    /// Number of features it hands to the classifier, F.
    fn features_len(&self, dims: &Dims) -> usize {
        dims.width
    }

    /// Features of a batch, `[B, F]`, differentiable in `params`.
    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2>;

    /// How it reads one image, in float64 on the host. `params`: effective values, as files hold
    /// them; `draw` seeds random orders as in [`Batch::draws`].
    fn reading(&self, params: &Arrays, tokens: &Tokens, draw: u64) -> Reading;
}

/// An entry of the list of heads.
pub struct Kind {
    /// Its id in probe files and on the command line.
    pub id: &'static str,
    /// What it is called on the screen.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Builds it from its settings, with an error that names the field at fault.
    pub build: fn(&Config) -> Result<Box<dyn Head>, ConfigError>,
}

/// A setting a head cannot work with.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("config field `{field}` is {found}; expected {expected}")]
pub struct ConfigError {
    /// The field at fault.
    pub field: &'static str,
    /// What it holds.
    pub found: String,
    /// What it may hold.
    pub expected: &'static str,
}
