//! One trained probe asked about many images, in float64: accuracy, what its order was worth
//! ([`ablation`]), and how it meets known truth ([`localization`]). One core an image.

use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::model::data::token_cache::TokenCache;
use crate::model::explain::ablation::{self, Ablation};
use crate::model::explain::diagnostics::{MEASURES, Measure, measure};
use crate::model::explain::intervention::InterventionError;
use crate::model::explain::localization::{self, Truth};
use crate::model::explain::null_model::NullBands;
use crate::model::explain::plan_of;
use crate::model::explain::readout;
use crate::model::probe::Probe;
use crate::model::train::{Labelled, accuracy};

/// What is asked.
pub struct Question<'a> {
    /// Tokens of all images.
    pub tokens: &'a TokenCache,
    /// The images and their classes.
    pub images: &'a Labelled,
    /// For each of `images`, what seeds random orders: its index in the whole dataset, so that the
    /// answers do not depend on which part of it is asked about.
    pub image_seeds: &'a [u64],
    /// Whether the order is disturbed too.
    pub ablations: bool,
    /// Seed of the disturbed orders.
    pub seed: u64,
    /// For each of `images`, how much of every patch the object covers, where that is known; empty
    /// where nothing is.
    pub covers: &'a [Option<Vec<f64>>],
    /// Where null bands come from, if the plans of routers are to be measured.
    pub nulls: Option<&'a NullBands>,
}

/// Images of up to 256 tokens that untrained scorers are asked about: their mean needs no more.
const UNTRAINED_IMAGES: usize = 64;

/// A diagnostic of a router's plans over the images, beside what nothing learnt gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name in [`MEASURES`].
    pub name: String,
    /// Mean over the images.
    pub mean: f64,
    /// 5th and 95th percentile that random scores give for a single image.
    pub null: (f64, f64),
    /// Mean over untrained scorers and some of the images.
    pub untrained: f64,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of images.
    pub images: usize,
    /// Top-1 accuracy in percent.
    pub accuracy: f64,
    /// Predicted class of every image; not written to files, which keep those of the training.
    #[serde(skip)]
    pub answers: Vec<u32>,
    /// With the order disturbed at evaluation, the undisturbed reading first; empty if not asked.
    pub ablations: Vec<Outcome>,
    /// Every diagnostic of a head with a router; empty without one, or where it was not asked.
    #[serde(default)]
    pub diagnostics: Vec<Measured>,
    /// Means over the images with a known object.
    pub truth: Option<Truth>,
    /// Number of images with a known object.
    pub masks: usize,
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

/// One image: for every way of reading it the predicted class and the logit of its own class.
struct Answer {
    ways: Vec<(Ablation, u32, f64)>,
    truth: Option<Truth>,
    /// Every diagnostic, in the order of [`MEASURES`].
    measures: Option<Vec<f64>>,
}

/// Asks `probe`; `told` is called after every image, from any thread, and may stop it: then there is
/// no answer.
pub fn evaluate(
    probe: &Probe,
    question: &Question,
    told: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<Option<Metrics>, InterventionError> {
    let Question { tokens: cache, images, .. } = question;
    let has_cls = cache.cls(&[]).is_some();
    probe.fits(cache.width(), cache.grid().len(), has_cls)?;
    let ask = |at: usize| -> Result<Answer, InterventionError> {
        let (image, class, image_seed) = (images.images[at], images.classes[at], question.image_seeds[at]);
        let tokens = cache.tokens(image);
        let reading = probe.reading(&tokens, image_seed)?;
        let classifier = &probe.classifier;
        let features = classifier.weight.len() / classifier.bias.len().max(1);
        let truth = question.covers.get(at).and_then(Option::as_ref).map(|cover| {
            let row = &classifier.weight[class * features..][..features];
            localization::truth(&reading, &tokens, row, classifier.bias[class], cover)
        });
        let plan = probe.head().router().filter(|_| question.nulls.is_some());
        let plan = plan.and_then(|router| plan_of(&reading, Some(router)));
        let measures = plan.map(|plan| measure(&*plan, tokens.grid));
        let ways = match question.ablations {
            true => ablation::logits(probe, &tokens, &reading, question.seed, image_seed)?,
            false => {
                let logits = readout::logits(&reading, &tokens, &classifier.weight, &classifier.bias);
                vec![(Ablation::Normal, logits)]
            }
        };
        let ways = ways.into_iter().map(|(ablation, logits)| (ablation, best(&logits), logits[class]));
        Ok(Answer { ways: ways.collect(), truth, measures })
    };
    // The error of who was stopped is none.
    let ask = |at: usize| {
        let answer = ask(at).map_err(Some)?;
        if told().is_break() { Err(None) } else { Ok(answer) }
    };
    let answers: Result<Vec<Answer>, _> = (0..images.images.len()).into_par_iter().map(ask).collect();
    let answers = match answers {
        Ok(answers) => answers,
        Err(None) => return Ok(None),
        Err(Some(error)) => return Err(error),
    };
    let found = sum(&answers, images, question.ablations);
    Ok(Some(Metrics { diagnostics: diagnostics(probe, &answers, question), ..found }))
}

/// The diagnostics of all images, beside what nothing learnt gives.
fn diagnostics(probe: &Probe, answers: &[Answer], question: &Question) -> Vec<Measured> {
    let all: Vec<&Vec<f64>> = answers.iter().filter_map(|answer| answer.measures.as_ref()).collect();
    let (Some(router), Some(nulls)) = (probe.head().router(), question.nulls) else { return Vec::new() };
    if all.is_empty() {
        return Vec::new();
    }
    let band = nulls.band(router, question.tokens.grid());
    let images = &question.images.images;
    // A plan is N x N: of longer sequences fewer images.
    let n = question.tokens.grid().len();
    let count = (UNTRAINED_IMAGES * 256 * 256 / (n * n)).clamp(1, UNTRAINED_IMAGES);
    let some = (0..images.len()).step_by(images.len().div_ceil(count));
    let fresh: Vec<_> = some.map(|at| nulls.untrained(router, &question.tokens.tokens(images[at]))).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
    let measured = |(at, measure): (usize, &Measure)| Measured {
        name: measure.name.to_owned(),
        mean: mean(&mut all.iter().map(|values| values[at]), all.len()),
        null: band[at],
        untrained: mean(&mut fresh.iter().map(|one| one[at].mean), fresh.len()),
    };
    MEASURES.iter().enumerate().map(measured).collect()
}

fn sum(answers: &[Answer], images: &Labelled, ablations: bool) -> Metrics {
    let ways = answers.first().map_or(0, |answer| answer.ways.len());
    let outcomes = (0..ways).map(|way| {
        let predicted: Vec<u32> = answers.iter().map(|answer| answer.ways[way].1).collect();
        let change: f64 = answers.iter().map(|answer| answer.ways[way].2 - answer.ways[0].2).sum();
        Outcome {
            ablation: answers[0].ways[way].0,
            accuracy: accuracy(&predicted, &images.classes),
            logit_change: change / answers.len() as f64,
        }
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    let truths: Vec<Truth> = answers.iter().filter_map(|answer| answer.truth).collect();
    Metrics {
        images: answers.len(),
        accuracy: outcomes.first().map_or(0.0, |normal| normal.accuracy),
        answers: answers.iter().map(|answer| answer.ways[0].1).collect(),
        ablations: if ablations { outcomes } else { Vec::new() },
        diagnostics: Vec::new(),
        truth: (!truths.is_empty()).then(|| localization::mean(&truths)),
        masks: truths.len(),
    }
}

/// The class of the largest logit, the first of equals.
fn best(logits: &[f64]) -> u32 {
    (0..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best }) as u32
}
