//! Localization: how well weights and evidence find an object whose mask is known.
//!
//! A mask says which pixels belong to the object. Averaged over each patch it gives a cover `[N]`
//! from 0 to 1; a token is on the object if at least half of it is covered (if none is, the most
//! covered one is). Measures:
//! * the ROC AUC over tokens of `|token weight|` (a kernel may weight tokens negatively, which counts as
//!   well) and of the exact evidence for the image's own class, with its sign;
//! * the share of the evidence on the object: `sum |e_i| cover_i / sum |e_i|`, and the same of positive
//!   evidence only. Evidence spread evenly has the object's share of the image.

use serde::{Deserialize, Serialize};

use super::readout;
use crate::model::probe::head_output::HeadOutput;
use crate::model::regions::members;
use crate::model::stats::{self, roc_auc};

/// The numbers of every token, `[N]` each, that find an object or a region; each is absent if the head does not have it.
#[derive(Clone, Copy, Debug)]
pub struct TokenValues<'a> {
    /// Weight in the features.
    pub weight: Option<&'a [f64]>,
    /// Exact evidence for the image's own class.
    pub evidence: Option<&'a [f64]>,
}

/// Localization measures of one image; each is absent if the head does not have the quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Localization {
    /// ROC AUC of the absolute token weights.
    pub weight_auc: Option<f64>,
    /// ROC AUC of the evidence for the image's own class.
    pub evidence_auc: Option<f64>,
    /// Share of absolute evidence on the object.
    pub absolute_share: Option<f64>,
    /// Share of positive evidence on the object.
    pub positive_share: Option<f64>,
    /// Share of the image that the object covers.
    pub object_share: Option<f64>,
}

/// ROC AUC of the absolute token weights for being on the object; `None` if the head has no single weight
/// for a token, or all tokens are on one side.
pub fn weight_auc(output: &HeadOutput, cover: &[f64]) -> Option<f64> {
    auc_of_weights(&readout::token_weight(output)?, &members(cover))
}

/// ROC AUC of the absolute values of `weight` `[N]` for being `inside` `[N]`.
pub(super) fn auc_of_weights(weight: &[f64], inside: &[bool]) -> Option<f64> {
    let magnitudes: Vec<f64> = weight.iter().map(|weight| weight.abs()).collect();
    roc_auc(&magnitudes, inside)
}

/// All localization measures of one image.
pub fn measure(TokenValues { weight, evidence }: TokenValues<'_>, cover: &[f64]) -> Localization {
    let inside = members(cover);
    let share = |part: fn(f64) -> f64| {
        let values: Vec<f64> = evidence?.iter().map(|&e| part(e)).collect();
        let all: f64 = values.iter().sum();
        let covered: f64 = values.iter().zip(cover).map(|(e, c)| e * c).sum();
        (all > 0.0).then_some(covered / all)
    };
    Localization {
        weight_auc: weight.and_then(|weight| auc_of_weights(weight, &inside)),
        evidence_auc: evidence.and_then(|evidence| roc_auc(evidence, &inside)),
        absolute_share: share(f64::abs),
        positive_share: share(|e| e.max(0.0)),
        object_share: Some(cover.iter().sum::<f64>() / cover.len().max(1) as f64),
    }
}

/// Mean over images, of each measure over the images that have it.
pub fn mean(images: &[Localization]) -> Localization {
    let mean = |part: fn(&Localization) -> Option<f64>| stats::mean(images.iter().filter_map(part));
    Localization {
        weight_auc: mean(|found| found.weight_auc),
        evidence_auc: mean(|found| found.evidence_auc),
        absolute_share: mean(|found| found.absolute_share),
        positive_share: mean(|found| found.positive_share),
        object_share: mean(|found| found.object_share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_mean_is_over_the_images_that_have_the_measure() {
        let none = measure(TokenValues { weight: None, evidence: None }, &[1.0, 0.5]);
        assert_eq!(none, Localization { object_share: Some(0.75), ..Localization::default() });
        assert_eq!(mean(&[Localization { weight_auc: Some(1.0), ..none }, none]).weight_auc, Some(1.0));
    }
}
