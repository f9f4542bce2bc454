//! Methods of attribution besides exact evidence, and their results: one description for flags, traces, window and files.
//! [`explain::attribution`](super::explain::attribution) computes them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

listed! {
    /// A method of attribution (docs/definitions.md, section 11).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Attribution {
        /// Gradient x token.
        Gradient: "gradient", "Gradient × token";
        /// Integrated gradients, from the mean token.
        Integrated: "integrated", "Integrated gradients";
        /// Attention rollout, of the backbone.
        Rollout: "rollout", "Attention rollout";
    }
}

impl FromStr for Attribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::find(text).ok_or_else(|| format!("expected {}", Self::ALL.map(Self::id).join(", ")))
    }
}

/// A set of methods, those to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Attribution>", into = "Vec<Attribution>")]
pub struct AttributionSet([bool; Attribution::ALL.len()]);

impl AttributionSet {
    /// Whether `method` is in the set.
    pub fn contains(self, method: Attribution) -> bool {
        self.0[method as usize]
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The set with `method` added, or removed if not `included`.
    pub fn with(mut self, method: Attribution, included: bool) -> Self {
        self.0[method as usize] = included;
        self
    }

    /// The methods of the set, in the order of [`Attribution::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Attribution> {
        Attribution::ALL.into_iter().filter(move |method| self.contains(*method))
    }
}

impl From<Vec<Attribution>> for AttributionSet {
    fn from(methods: Vec<Attribution>) -> Self {
        methods.into_iter().fold(Self::default(), |set, method| set.with(method, true))
    }
}

impl From<AttributionSet> for Vec<Attribution> {
    fn from(set: AttributionSet) -> Self {
        set.iter().collect()
    }
}

/// A result, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Found<T> {
    /// There is none.
    None {
        /// Why.
        none: String,
    },
    /// The result.
    Some(T),
}

impl<T> Found<T> {
    /// The result, if there is one.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::None { .. } => None,
            Self::Some(found) => Some(found),
        }
    }
}

impl<T> From<Result<T, String>> for Found<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(found) => Self::Some(found),
            Err(none) => Self::None { none },
        }
    }
}

/// What a method attributes to the tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attributed {
    /// `[N]`; in units of the logit, except for rollout.
    pub token: Vec<f32>,
    /// For integrated gradients: their sum less what it should be, in units of the logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_error: Option<f64>,
}

impl From<Vec<f32>> for Attributed {
    fn from(token: Vec<f32>) -> Self {
        Self { token, completeness_error: None }
    }
}
