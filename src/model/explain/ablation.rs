//! What an order was worth: one trained probe read again with its order disturbed (paper,
//! Observation 3). Nothing is trained anew, so a drop says what this probe leans on, not what a probe
//! trained without the order could do.
//!
//! Every way is an [`Intervention`], so that the window says the same of the same probe. Orders are
//! drawn for every image from (seed, image). Logits `[C]` are exact, in float64.

use serde::{Deserialize, Serialize};

use super::intervention::{Intervention, InterventionError};
use super::readout;
use crate::model::probe::Probe;
use crate::model::probe::head_output::HeadOutput;
use crate::model::tokens::Tokens;

/// One way of reading a trained probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablation {
    /// As it was trained.
    Normal,
    /// A random permutation of positions behind the router and before the S4.
    Scrambled,
    /// The S4 on the tokens as they lie, row by row.
    NoRouting,
    /// The S4 on the tokens in random order.
    RandomOrder,
}

impl Ablation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Scrambled, Self::NoRouting, Self::RandomOrder];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Scrambled => "Scrambled after routing",
            Self::NoRouting => "No routing (raster)",
            Self::RandomOrder => "Random order",
        }
    }

    /// What is changed for it; `seed` is that of random orders.
    pub fn change(self, seed: u64) -> Intervention {
        match self {
            Self::Normal => Intervention::None,
            Self::Scrambled => Intervention::Scrambled(seed),
            Self::NoRouting => Intervention::NoRouting,
            Self::RandomOrder => Intervention::Random(seed),
        }
    }

    /// What can be asked of a probe, [`Normal`](Self::Normal) first: heads with a learned order have
    /// all of it, those with a fixed one can be read in a random one, and those that read tokens as
    /// a set have nothing to disturb.
    pub fn all_of(probe: &Probe) -> &'static [Self] {
        match probe.head() {
            head if head.router().is_some() => &Self::ALL,
            head if head.has_fixed_order() => &[Self::Normal, Self::RandomOrder],
            _ => &[Self::Normal],
        }
    }
}

/// The logits of one image in every way of [`Ablation::all_of`], in that order. `output`: how the probe
/// reads it undisturbed; `image`: its index in its dataset, which seeds what is drawn.
pub fn logits(
    probe: &Probe,
    tokens: &Tokens,
    output: &HeadOutput,
    seed: u64,
    image: u64,
) -> Result<Vec<(Ablation, Vec<f64>)>, InterventionError> {
    let ways = Ablation::all_of(probe).iter().map(|&ablation| {
        let output = ablation.change(seed).change(probe, tokens, output.clone(), image)?;
        Ok((ablation, readout::logits(&output, tokens, &probe.classifier.weight, &probe.classifier.bias)))
    });
    ways.collect()
}
