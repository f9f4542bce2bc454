//! Does the evidence cause the class? Removal curves of one image through one probe (docs/definitions.md, section 12).
//!
//! Tokens are taken away (deletion) or put back (insertion), the most important first, and the class's logit, margin and
//! probability are read after every step. A [`ranking`] says which is the most important, a [`Mode`] where tokens leave. What a
//! step reads depends on the set of tokens that are left alone, so a [`Schedule`] names every set once: curves that agree in
//! a set share what is computed for it.

mod file;
mod measure;
pub mod ranking;
mod reader;
pub mod road;
mod schedule;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use self::measure::{Image, Passes, RemovalSpec, Subject, measure};
pub use self::ranking::{Orders, RANDOM, RANKINGS};
pub use self::reader::Reader;
pub use self::schedule::{Curve, Curves, Schedule, Sets, counts};
use crate::model::grid::Grid;
use crate::model::reading::Reading;
use crate::model::trace::Picture;

/// Steps from all tokens to none, unless told otherwise.
pub const STEPS: usize = 20;
/// Most steps.
pub const MAX_STEPS: usize = 1000;

/// Where tokens are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Behind the router: plan and weights stay as they are, and the token's share is dropped. Exact evidence, summed up.
    Frozen,
    /// Before the head: scores, plan and kernel are made anew for the tokens that are left, and a scan skips those that are not.
    Rerouted,
    /// Before the encoder: the patch is left out with its position.
    Patches,
    /// In the picture: the patch is painted over from what lies around it.
    Pixels,
}

impl Mode {
    /// All of them, in the order of their depth.
    pub const ALL: [Self; 4] = [Self::Frozen, Self::Rerouted, Self::Patches, Self::Pixels];

    /// Its name in files and flags.
    pub fn id(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Rerouted => "rerouted",
            Self::Patches => "patches",
            Self::Pixels => "pixels",
        }
    }

    /// Those of this list of ids, commas between, each once.
    ///
    /// # Errors
    /// If one is no mode.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let mode = |id: &str| {
            let ids = || Self::ALL.map(Self::id).join(", ");
            Self::ALL
                .into_iter()
                .find(|mode| mode.id() == id)
                .ok_or_else(|| format!("`{id}` is none of {}", ids()))
        };
        let mut modes = text.split(',').map(|id| mode(id.trim())).collect::<Result<Vec<_>, _>>()?;
        modes.sort_unstable();
        modes.dedup();
        Ok(modes)
    }

    /// What it is called on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frozen => "Tokens, frozen",
            Self::Rerouted => "Tokens, rerouted",
            Self::Patches => "Patches",
            Self::Pixels => "Pixels",
        }
    }

    /// Whether the encoder reads every step anew.
    pub fn needs_encoder(self) -> bool {
        matches!(self, Self::Patches | Self::Pixels)
    }

    /// How many random orders are drawn.
    pub fn draws(self) -> usize {
        if self.needs_encoder() { 4 } else { 16 }
    }
}

/// What was found, or why there is nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Found<T> {
    /// There is none.
    None {
        /// Why.
        none: String,
    },
    /// It.
    Some(T),
}

impl<T> Found<T> {
    /// It, if it was found.
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

/// A ranking of the tokens by how important they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// How important each token is, `[N]`.
    pub values: Vec<f64>,
    /// Tokens, the most important first, `[N]`.
    pub order: Vec<usize>,
    /// Of integrated gradients, their sum less what it should be, in units of the logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_error: Option<f64>,
}

/// One image's removal curves through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Removal {
    /// Name of the image's file.
    pub image: String,
    /// Name of the probe's file.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// What was changed in how the probe read.
    #[serde(default, skip_serializing_if = "Reading::is_as_trained")]
    pub reading: Reading,
    /// Patch grid.
    pub grid: Grid,
    /// What the model saw.
    pub seen: Picture,
    /// The class whose logit is read, and what it is called.
    pub class: (usize, String),
    /// The other class of the margin: the strongest of the whole image. Absent where there is one class alone.
    pub rival: Option<(usize, String)>,
    /// Share of the tokens that was taken away, or put back, `[F]`.
    pub fraction: Vec<f64>,
    /// The rankings by their ids.
    pub rankings: IndexMap<String, Found<Ranked>>,
    /// Of every mode asked for, the curves by the ids of rankings, beside `random`, `random_low` and `random_high`.
    pub modes: IndexMap<Mode, Found<Curves>>,
}
