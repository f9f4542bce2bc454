//! Order ablations: one trained probe read again with its order disturbed (paper, Observation 3).
//! Nothing is retrained, so a drop in accuracy says what this probe relies on, not what a probe trained
//! without the order could do.
//!
//! Every ablation is an [`Intervention`], so that the window shows the same of the same probe. Random orders
//! are drawn for every image from (seed, image). Logits `[C]` are exact, in float64.

use serde::{Deserialize, Serialize};

use super::image_reading::ImageReading;
use super::intervention::{Intervention, InterventionError};
use crate::model::probe::Probe;

listed! {
    /// A way of reading a trained probe.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Ablation {
        /// As it was trained.
        Normal: "Normal";
        /// A random permutation of positions between the router and the S4.
        Scrambled: "Scrambled after routing";
        /// The S4 on the tokens as they lie, row by row.
        NoRouting: "No routing (raster)";
        /// The S4 on the tokens in random order.
        RandomOrder: "Random order";
    }
}

impl Ablation {
    /// The intervention of this ablation; `seed` is that of random orders.
    pub fn intervention(self, seed: u64) -> Intervention {
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

/// Logits `[C]` of one image under every ablation of [`Ablation::all_of`], in that order, given its undisturbed `reading`.
pub fn logits(reading: &ImageReading<'_>, seed: u64) -> Result<Vec<(Ablation, Vec<f64>)>, InterventionError> {
    let all = Ablation::all_of(&reading.probe).iter();
    all.map(|&ablation| Ok((ablation, reading.reordered(ablation.intervention(seed))?.logits()))).collect()
}
