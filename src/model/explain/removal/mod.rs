//! Removal curves: does the evidence cause the class? Of one image through one probe (docs/definitions.md, section 12).
//!
//! Tokens are removed (deletion) or put back (insertion), the most important first, and the class's logit, margin and
//! probability are measured after every step. A [`ranking`] gives the importance, a [`Mode`] the stage at which tokens are
//! removed. A step depends only on the set of tokens that are left, so a [`Schedule`] lists every set once: curves that
//! pass through the same set share its computation.

mod file;
mod measure;
pub mod ranking;
mod reader;
pub mod road;
mod schedule;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use self::measure::{EncoderPasses, Image, MeasuredProbe, RemovalSpec, measure, measure_head};
pub use self::ranking::{Orders, RANDOM, RANKINGS};
pub use self::schedule::{Curve, Curves, Schedule, Sets, counts};
pub use crate::model::attribution::Found;
use crate::model::data::synsets;
use crate::model::grid::Grid;
use crate::model::io::Format;
use crate::model::reading::Reading;
use crate::model::trace::Picture;

/// Default number of steps from all tokens to none.
pub const STEPS: usize = 20;
/// Most steps.
pub const MAX_STEPS: usize = 1000;

listed! {
    /// Stage at which tokens are removed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// After the router: plan and weights stay as they are, and the token's share is dropped. A sum of exact evidence.
        Frozen: "frozen", "Tokens, frozen";
        /// Before the head: scores, plan and kernel are recomputed for the tokens that are left; a scan skips the others.
        Rerouted: "rerouted", "Tokens, rerouted";
        /// Before the backbone: the patch is left out with its position.
        Patches: "patches", "Patches";
        /// In the picture: the patch is painted over from what lies around it.
        Pixels: "pixels", "Pixels";
    }
}

impl Mode {
    /// Parses a comma-separated list of ids; sorted, without repetitions.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let mode = |id: &str| {
            let ids = || Self::ALL.map(Self::id).join(", ");
            Self::find(id).ok_or_else(|| format!("`{id}` is not one of {}", ids()))
        };
        let mut modes = text.split(',').map(|id| mode(id.trim())).collect::<Result<Vec<_>, _>>()?;
        modes.sort_unstable();
        modes.dedup();
        Ok(modes)
    }

    /// Whether every step needs a forward pass of the encoder.
    pub fn needs_encoder(self) -> bool {
        matches!(self, Self::Patches | Self::Pixels)
    }

    /// Number of random orders.
    pub fn draws(self) -> usize {
        if self.needs_encoder() { 4 } else { 16 }
    }
}

/// The tokens ranked by importance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Importance of every token, `[N]`.
    pub values: Vec<f64>,
    /// Tokens, the most important first, `[N]`.
    pub order: Vec<usize>,
    /// For integrated gradients, their sum less its target, in units of the logit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completeness_error: Option<f64>,
}

/// Removal curves of one image through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Removal {
    /// Version of the file format; absent in files of earlier versions.
    #[serde(default)]
    pub format: Format<1>,
    /// Name of the image's file.
    pub image: String,
    /// Name of the probe's file.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// How the probe read the image.
    #[serde(default, skip_serializing_if = "Reading::is_as_trained")]
    pub reading: Reading,
    /// Patch grid.
    pub grid: Grid,
    /// The picture as the model sees it.
    pub seen: Picture,
    /// Class of the curves, and its name.
    pub class: (usize, String),
    /// The other class of the margin: the strongest on the whole image. `None` if there is only one class.
    pub rival: Option<(usize, String)>,
    /// Share of the tokens removed, or put back, at every step, `[F]`.
    pub fraction: Vec<f64>,
    /// Rankings by their ids.
    pub rankings: IndexMap<String, Found<Ranked>>,
    /// For every mode requested, the curves by the ids of rankings, and `random`, `random_low` and `random_high`.
    pub modes: IndexMap<Mode, Found<Curves>>,
}

impl Removal {
    /// Whether its class is that of another.
    pub fn has_class_of(&self, other: &Self) -> bool {
        identity(&self.class) == identity(&other.class)
    }

    /// Whether its rival is that of another, or neither has one.
    pub fn has_rival_of(&self, other: &Self) -> bool {
        self.rival.as_ref().map(identity) == other.rival.as_ref().map(identity)
    }
}

/// What tells a class from others: its index, and its name whether or not a [word](synsets) stands before its WordNet id.
fn identity((index, name): &(usize, String)) -> (usize, &str) {
    (*index, synsets::id(name))
}
