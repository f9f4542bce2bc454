//! Order ablations: one trained probe read again with its order disturbed (paper, Observation 3).
//! Nothing is retrained, so a drop in accuracy says what this probe relies on, not what a probe trained
//! without the order could do.
//!
//! Every ablation is an [`Intervention`], so that the window shows the same of the same probe. Random orders
//! are drawn for every image from (seed, image). Logits `[C]` are exact, in float64.

use serde::{Deserialize, Serialize};

use super::intervention::{Intervention, InterventionError};
use super::readout;
use crate::model::probe::Probe;
use crate::model::probe::head_output::HeadOutput;
use crate::model::tokens::Tokens;

/// A way of reading a trained probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablation {
    /// As it was trained.
    Normal,
    /// A random permutation of positions between the router and the S4.
    Scrambled,
    /// The S4 on the tokens as they lie, row by row.
    NoRouting,
    /// The S4 on the tokens in random order.
    RandomOrder,
}

impl Ablation {
    /// Every ablation.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Scrambled, Self::NoRouting, Self::RandomOrder];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Scrambled => "Scrambled after routing",
            Self::NoRouting => "No routing (raster)",
            Self::RandomOrder => "Random order",
        }
    }

    /// The intervention of this ablation; `seed` is that of random orders.
    pub fn change(self, seed: u64) -> Intervention {
        match self {
            Self::Normal => Intervention::None,
            Self::Scrambled => Intervention::Scrambled(seed),
            Self::NoRouting => Intervention::NoRouting,
            Self::RandomOrder => Intervention::Random(seed),
        }
    }

    /// The ablations that apply to a probe, [`Normal`](Self::Normal) first: all for heads with a learned
    /// order, a random order for those with a fixed one, and nothing else for heads that read the tokens
    /// as a set.
    pub fn all_of(probe: &Probe) -> &'static [Self] {
        match probe.head() {
            head if head.router().is_some() => &Self::ALL,
            head if head.has_fixed_order() => &[Self::Normal, Self::RandomOrder],
            _ => &[Self::Normal],
        }
    }
}

/// Logits `[C]` of one image under every ablation of [`Ablation::all_of`], in that order. `output` is the
/// undisturbed output of the head; `image`, the image's index in its dataset, seeds what is drawn.
pub fn logits(
    probe: &Probe,
    tokens: &Tokens,
    output: &HeadOutput,
    seed: u64,
    image: u64,
) -> Result<Vec<(Ablation, Vec<f64>)>, InterventionError> {
    let readings = Ablation::all_of(probe).iter().map(|&ablation| {
        let output = ablation.change(seed).change(probe, tokens, output.clone(), image)?;
        Ok((ablation, readout::logits(&output, tokens, &probe.classifier.weight, &probe.classifier.bias)))
    });
    readings.collect()
}
