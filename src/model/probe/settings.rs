//! The settings of heads and routers, as the `config` of a probe file holds them, and their errors.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::model::hand_order::HandOrder;

/// Largest width of tokens, and of the features made of them: enough for all layers of the largest vision backbones, joined.
pub(super) const MAX_WIDTH: usize = 262_144;

/// Whether all channels share one S4 (docs/definitions.md, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// One A, B, C, D and step for every channel (the paper's text).
    #[default]
    Shared,
    /// A fixed; B, C and D for every channel (the paper's parameter table).
    Channel,
}

/// The rule by which S4's continuous-time system is discretised to steps from token to token (docs/definitions.md, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discretization {
    /// The bilinear rule, Tustin's (the paper's).
    #[default]
    Bilinear,
    /// The zero-order hold: the input is constant during a step.
    Zoh,
}

/// The norm between a head and its classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Batch normalisation without weight and bias.
    Batch,
    /// Nothing.
    None,
}

/// The use of a self-attention in front of AbMILP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelfAttention {
    /// There is none.
    #[default]
    None,
    /// The weights are computed from its output; the original tokens are pooled.
    Map,
    /// The weights are computed from its output, which is also what is pooled.
    Both,
}

/// The settings of a head, as the `config` field of a probe file holds them. A head reads those it
/// knows; the others are kept and written back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The discretisation rule of S4 (default `bilinear`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discretization: Option<Discretization>,
    /// SoftSort's distance exponent, 1 or 2 (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<u32>,
    /// How many tokens `topk` keeps (default 16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k: Option<usize>,
    /// Seed of the random orders (default: the training's seed; 0 in a probe file without it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Attention heads of `transformer` and `v-jepa` (default 12) and of `coca` (8), or the largest divisor of d below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<usize>,
    /// Queries of `efficient` (default 32, or the largest divisor of its width below).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<usize>,
    /// Width of the values of `efficient`, and number of its features (default d).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// Number of layers concatenated in the tokens of `cls-mean`, whose mean is of the last of them alone (default 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// Whether AbMILP's network is gated (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<bool>,
    /// Whether a self-attention stands in front of AbMILP: none, map or both (default none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_attention: Option<SelfAttention>,
    /// Exponent of SimPool's mean (default none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma: Option<f64>,
    /// The norm before the classifier of published poolings (default: the authors' for a new training; none in a probe file
    /// without it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// The order of the head `order`, as given by its order file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<HandOrder>,
    /// Unknown fields, kept as found; boxed, because they are rare.
    #[serde(flatten)]
    pub rest: Box<serde_json::Map<String, serde_json::Value>>,
}

impl Config {
    /// The fields that are set, by name, with their values as in a file; an order by its file's name.
    pub fn fields(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(mut map)) = serde_json::to_value(self) else { return Vec::new() };
        if let (Some(order), Some(shown)) = (&self.order, map.get_mut("order")) {
            *shown = order.file().map_or_else(|| order.words(), str::to_owned).into();
        }
        let word = |value: serde_json::Value| value.as_str().map_or(value.to_string(), str::to_owned);
        map.into_iter().map(|(name, value)| (name, word(value))).collect()
    }
}

/// A setting that a head refuses.
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

/// Returns `value` if it lies within `range`, else an error; `expected` describes the range.
pub(super) fn within<T: PartialOrd + ToString>(
    field: &'static str,
    value: T,
    range: RangeInclusive<T>,
    expected: &'static str,
) -> Result<T, ConfigError> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(ConfigError { field, found: value.to_string(), expected }),
    }
}

/// The number of attention heads: the one of the settings, else the largest divisor of the hidden size up to `most`.
#[derive(Clone, Copy)]
pub(super) struct AttentionHeads {
    requested: Option<usize>,
    most: usize,
}

impl AttentionHeads {
    /// From the settings; fails for 0.
    pub fn new(config: &Config, most: usize) -> Result<Self, ConfigError> {
        let expected = "a whole number from 1 that divides the hidden size";
        let requested =
            config.heads.map(|heads| within("heads", heads, 1..=usize::MAX, expected)).transpose()?;
        Ok(Self { requested, most })
    }

    /// Their number at hidden size `width`.
    pub fn at(self, width: usize) -> usize {
        self.requested.unwrap_or_else(|| largest_divisor(width, self.most))
    }

    /// An error unless they divide the hidden size.
    pub fn check(self, width: usize) -> Result<(), ConfigError> {
        divides("heads", self.at(width), width)
    }

    /// The settings of a head that has no others.
    pub fn settings(self, width: usize) -> Config {
        Config { heads: Some(self.at(width)), ..Config::default() }
    }
}

/// An error unless `value` divides the hidden size.
pub(super) fn divides(field: &'static str, value: usize, width: usize) -> Result<(), ConfigError> {
    if width.is_multiple_of(value) {
        return Ok(());
    }
    let found = format!("{value}, but the hidden size is {width}");
    Err(ConfigError { field, found, expected: "a divisor of the hidden size" })
}

/// The largest divisor of `width` up to `most`.
pub(super) fn largest_divisor(width: usize, most: usize) -> usize {
    (1..=most).rev().find(|m| width.is_multiple_of(*m)).expect("1 divides everything")
}
