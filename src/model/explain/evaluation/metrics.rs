//! Summary metrics of an evaluation: accuracy, order ablations ([`ablation`]), diagnostics, and [`localization`] of known
//! objects. The [`Evaluator`](super::evaluator::Evaluator) computes them with everything else from one reading
//! of every image.

use serde::{Deserialize, Serialize};

use super::digits;
use super::orders::OrderTests;
use super::regions::RegionSummary;
use super::removals::RemovalHeights;
use super::stability::StabilitySummary;
use crate::model::explain::ablation::{self, Ablation};
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::explain::localization::{self, Localization};
use crate::model::explain::removal::RemovalSpec;
use crate::model::regions::Regions;
use crate::model::stats::argmax;

/// Which metrics to compute, besides the accuracy.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsSpec<'a> {
    /// Seed of the order ablations; `None` leaves them out.
    pub ablations: Option<u64>,
    /// Settings of the removal curves; `None` leaves them out.
    pub causal: Option<&'a RemovalSpec>,
    /// Each `r` for which only the last `r` tokens are read; empty leaves this out.
    pub last: &'a [usize],
    /// Known regions of every image; empty if there are none.
    pub regions: &'a [Option<Regions>],
}

/// Mean of a diagnostic over the images, beside its values under the nulls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name in [`MEASURES`](crate::model::explain::diagnostics::MEASURES).
    pub name: String,
    /// Mean over the images.
    pub mean: f64,
    /// 5th and 95th percentile under random scores, for a single image.
    pub null: (f64, f64),
    /// Mean over untrained scorers and a sample of the images.
    pub untrained: f64,
    /// 5th and 95th percentile under random scores, for the mean over the images. Absent in files of earlier versions.
    #[serde(default)]
    pub null_mean: Option<(f64, f64)>,
    /// The same under untrained scorers, each of which reads the whole sample of images.
    #[serde(default)]
    pub untrained_mean: Option<(f64, f64)>,
    /// Number of images in that sample, and of untrained scorers. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrained_sample: Option<(usize, usize)>,
}

/// The metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of images.
    pub images: usize,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// The images that are right, as [`digits`]. Empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub right: String,
    /// Results of the order ablations, the undisturbed reading first; empty if not requested.
    pub ablations: Vec<Outcome>,
    /// Every diagnostic of a head with a router; empty without one, and in files of earlier versions.
    #[serde(default)]
    pub diagnostics: Vec<Measured>,
    /// Order tests; absent for a head without one, and in files of earlier versions.
    #[serde(default)]
    pub order: Option<OrderTests>,
    /// Heights of removal curves; empty if not requested, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<RemovalHeights>,
    /// Results of reading the last tokens only; empty if not requested, if the head has no kernel by position, and in files of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<LastTokens>,
    /// Stability of its orders under small changes and other seeds; empty if not requested, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stability: Vec<StabilitySummary>,
    /// Localization measures, means over the images in which a known object covers a patch.
    #[serde(rename = "truth")]
    pub localization: Option<Localization>,
    /// Number of these images.
    pub masks: usize,
    /// Region measures, if regions of some image are known. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionSummary>,
}

impl Metrics {
    /// Whether it holds results that are measured on request only.
    pub fn has_requested(&self) -> bool {
        let Self { ablations, removals, last, stability, .. } = self;
        !(ablations.is_empty() && removals.is_empty() && last.is_empty() && stability.is_empty())
    }
}

/// Result of one order ablation over the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The ablation.
    pub ablation: Ablation,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// Mean change of the logit of the image's own class against the undisturbed reading.
    pub logit_change: f64,
    /// The images that are right, as [`digits`]. Empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub right: String,
}

/// Result of reading only the last tokens of every image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastTokens {
    /// Number of tokens read.
    pub tokens: usize,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// Mean change of the logit of the image's own class against reading all tokens.
    pub logit_change: f64,
    /// The images that are right, as [`digits`]. Empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub right: String,
}

/// Metrics of one image: for every ablation whether the prediction is right, and the logit of the image's own class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ImageMetrics {
    ways: Vec<(Ablation, bool, f64)>,
    /// The same for each number of last tokens.
    #[serde(default)]
    last: Vec<(usize, bool, f64)>,
    #[serde(rename = "truth")]
    localization: Option<Localization>,
}

impl ImageMetrics {
    /// The metrics of an image of the probe's class `class`, with the logits `[C]` of the undisturbed `reading`, and `localization` if its
    /// object is known.
    pub(super) fn new(
        reading: &ImageReading<'_>,
        logits: Vec<f64>,
        class: usize,
        spec: &MetricsSpec<'_>,
        localization: Option<Localization>,
    ) -> Result<Self, InterventionError> {
        let last = |&tokens_kept: &usize| {
            let logits = reading.reordered(Intervention::Last(tokens_kept)).ok()?.logits();
            Some((tokens_kept, argmax(&logits) == class, logits[class]))
        };
        let last = spec.last.iter().filter_map(last).collect();
        let ways = match spec.ablations {
            Some(seed) => ablation::logits(reading, seed)?,
            None => vec![(Ablation::Normal, logits)],
        };
        let way =
            |(ablation, logits): (Ablation, Vec<f64>)| (ablation, argmax(&logits) == class, logits[class]);
        Ok(Self { ways: ways.into_iter().map(way).collect(), last, localization })
    }
}

/// Means over the images, at least one; without diagnostics, order tests, removal curves, stability and regions.
pub(super) fn summarize(images: &[&ImageMetrics], ablations: bool) -> Metrics {
    let mean = |sum: f64| sum / images.len() as f64;
    // Accuracy, mean change of the logit, and the images that are right, of a way of reading.
    let means = |of: &dyn Fn(&ImageMetrics) -> (bool, f64)| {
        let right = images.iter().filter(|image| of(image).0).count();
        let change = images.iter().map(|image| of(image).1 - image.ways[0].2).sum();
        (mean(100.0 * right as f64), mean(change), digits::write(images.iter().map(|image| of(image).0)))
    };
    let outcome = |(at, &(ablation, ..)): (usize, &(Ablation, bool, f64))| {
        let (accuracy, logit_change, right) = means(&|image| (image.ways[at].1, image.ways[at].2));
        Outcome { ablation, accuracy, logit_change, right }
    };
    let outcomes: Vec<Outcome> = images[0].ways.iter().enumerate().map(outcome).collect();
    let last = |(at, &(tokens, ..)): (usize, &(usize, bool, f64))| {
        let (accuracy, logit_change, right) = means(&|image| (image.last[at].1, image.last[at].2));
        LastTokens { tokens, accuracy, logit_change, right }
    };
    let last = images[0].last.iter().enumerate().map(last).collect();
    let found: Vec<Localization> = images.iter().filter_map(|image| image.localization).collect();
    Metrics {
        images: images.len(),
        accuracy: outcomes[0].accuracy,
        right: outcomes[0].right.clone(),
        ablations: if ablations { outcomes } else { Vec::new() },
        last,
        localization: (!found.is_empty()).then(|| localization::mean(&found)),
        masks: found.len(),
        ..Metrics::default()
    }
}
