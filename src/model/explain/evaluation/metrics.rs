//! An evaluation in few numbers: accuracy, what its order was worth ([`ablation`]), its diagnostics, and how
//! it meets known truth ([`localization`]). The [`Evaluator`](super::evaluator::Evaluator) takes them with
//! everything else from one reading of every image.

use serde::{Deserialize, Serialize};

use super::orders::OrderTests;
use super::regions::RegionSummary;
use super::removals::RemovalHeights;
use super::stability::StabilitySummary;
use crate::model::explain::ablation::{self, Ablation};
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::explain::localization::{self, Truth};
use crate::model::explain::readout;
use crate::model::explain::removal::RemovalSpec;
use crate::model::probe::Probe;
use crate::model::probe::head_output::HeadOutput;
use crate::model::regions::Regions;
use crate::model::tokens::Tokens;

/// What is asked about every image, besides what the probe takes it for.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsSpec<'a> {
    /// Seed of disturbed orders; none where the order is left as it is.
    pub ablations: Option<u64>,
    /// Which tokens are removed, and how; none where no removal curve is wanted.
    pub causal: Option<&'a RemovalSpec>,
    /// Numbers of tokens of which the last read alone are kept; none where that is not asked.
    pub last: &'a [usize],
    /// For each image what is known to be where in it; empty where nothing is of any.
    pub regions: &'a [Option<Regions>],
}

/// A diagnostic of a router's plans over the images, beside what nothing learnt gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name in [`MEASURES`](crate::model::explain::diagnostics::MEASURES).
    pub name: String,
    /// Mean over the images.
    pub mean: f64,
    /// 5th and 95th percentile that random scores give for a single image.
    pub null: (f64, f64),
    /// Mean over untrained scorers and some of the images.
    pub untrained: f64,
    /// 5th and 95th percentile that random scores give for the mean over the images. Earlier programs knew that of a single
    /// image alone.
    #[serde(default)]
    pub null_mean: Option<(f64, f64)>,
    /// The same of untrained scorers, each of which reads all of some of the images.
    #[serde(default)]
    pub untrained_mean: Option<(f64, f64)>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of images.
    pub images: usize,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// With the order disturbed at evaluation, the undisturbed reading first; empty if not asked.
    pub ablations: Vec<Outcome>,
    /// Every diagnostic of a head with a router; empty without one. Earlier programs did not keep them.
    #[serde(default)]
    pub diagnostics: Vec<Measured>,
    /// Whether its orders beat chance; absent of a head without an order test. Earlier programs did not ask.
    #[serde(default)]
    pub order: Option<OrderTests>,
    /// Heights of removal curves; empty where they were not asked. Earlier programs did not know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removals: Vec<RemovalHeights>,
    /// With the tokens that are read last alone; empty where that was not asked, or the head has no memory by position. Earlier
    /// programs did not ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<LastTokens>,
    /// What small changes and other seeds leave of its orders; empty where that was not asked. Earlier programs did not ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stability: Vec<StabilitySummary>,
    /// Means over the images with a known object.
    pub truth: Option<Truth>,
    /// Number of images with a known object.
    pub masks: usize,
    /// How it read the regions of the images, where some are known. Earlier programs did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionSummary>,
}

/// One way of reading the images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which.
    pub ablation: Ablation,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// Mean change of the logit of the image's own class against the undisturbed reading.
    pub logit_change: f64,
}

/// The images as they are read when so many tokens that are read last are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastTokens {
    /// How many.
    pub tokens: usize,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// Mean change of the logit of the image's own class against all tokens.
    pub logit_change: f64,
}

/// What one image adds: for every way of reading it whether it was right, and the logit of its own class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ImageMetrics {
    ways: Vec<(Ablation, bool, f64)>,
    /// The same with the last tokens alone, by how many.
    #[serde(default)]
    last: Vec<(usize, bool, f64)>,
    truth: Option<Truth>,
}

impl ImageMetrics {
    /// Of an image of the probe's `class`, read undisturbed with these logits `[C]`; `ablations` and
    /// `image_seed` seed what is disturbed, and `cover` says where the object is.
    pub(super) fn new(
        probe: &Probe,
        tokens: &Tokens,
        output: &HeadOutput,
        logits: Vec<f64>,
        class: usize,
        (spec, image_seed): (&MetricsSpec<'_>, u64),
        cover: Option<&[f64]>,
    ) -> Result<Self, InterventionError> {
        let (row, bias) = (probe.classifier.row(class), probe.classifier.bias[class]);
        let truth = cover.map(|cover| localization::truth(output, tokens, row, bias, cover));
        let last = |&tokens_kept: &usize| {
            let change = Intervention::Last(tokens_kept);
            let output = change.change(probe, tokens, output.clone(), image_seed).ok()?;
            let (weight, bias) = (&probe.classifier.weight, &probe.classifier.bias);
            let logits = readout::logits(&output, tokens, weight, bias);
            Some((tokens_kept, best(&logits) == class, logits[class]))
        };
        let last = spec.last.iter().filter_map(last).collect();
        let ways = match spec.ablations {
            Some(seed) => ablation::logits(probe, tokens, output, seed, image_seed)?,
            None => vec![(Ablation::Normal, logits)],
        };
        let way =
            |(ablation, logits): (Ablation, Vec<f64>)| (ablation, best(&logits) == class, logits[class]);
        Ok(Self { ways: ways.into_iter().map(way).collect(), last, truth })
    }
}

/// Means over the images, of which there is one at least; all but diagnostics, order tests and removal curves.
pub(super) fn summarize(images: &[&ImageMetrics], ablations: bool) -> Metrics {
    let mean = |sum: f64| sum / images.len() as f64;
    let outcome = |(way, &(ablation, ..)): (usize, &(Ablation, bool, f64))| Outcome {
        ablation,
        accuracy: mean(100.0 * images.iter().filter(|image| image.ways[way].1).count() as f64),
        logit_change: mean(images.iter().map(|image| image.ways[way].2 - image.ways[0].2).sum()),
    };
    let outcomes: Vec<Outcome> = images[0].ways.iter().enumerate().map(outcome).collect();
    let kept = |(at, &(tokens, ..)): (usize, &(usize, bool, f64))| LastTokens {
        tokens,
        accuracy: mean(100.0 * images.iter().filter(|image| image.last[at].1).count() as f64),
        logit_change: mean(images.iter().map(|image| image.last[at].2 - image.ways[0].2).sum()),
    };
    let last = images[0].last.iter().enumerate().map(kept).collect();
    let truths: Vec<Truth> = images.iter().filter_map(|image| image.truth).collect();
    Metrics {
        images: images.len(),
        accuracy: outcomes[0].accuracy,
        ablations: if ablations { outcomes } else { Vec::new() },
        diagnostics: Vec::new(),
        order: None,
        removals: Vec::new(),
        last,
        stability: Vec::new(),
        truth: (!truths.is_empty()).then(|| localization::mean(&truths)),
        masks: truths.len(),
        regions: None,
    }
}

/// The class of the largest logit, the first of equals.
fn best(logits: &[f64]) -> usize {
    (0..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
}
