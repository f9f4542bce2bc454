//! Explains how one probe reads one image: computes a [`Trace`] from the image's tokens, in float64 on
//! the host.

pub mod ablation;
pub mod attribution;
pub mod baselines;
pub mod by_hand;
pub mod diagnostics;
pub mod evaluation;
pub mod evidence;
pub mod harden;
pub mod image_reading;
pub mod intervention;
pub mod localization;
pub mod null_model;
pub mod order_test;
pub mod readout;
pub mod regions;
pub mod removal;
pub mod stability;

use indexmap::IndexMap;
use rayon::prelude::*;

use super::probe::Probe;
use super::tokens::Tokens;
use super::trace::{Diagnostic, Evidence, Found, Matrix, Picture, Prediction, Reading, Routing, Trace};
use crate::model::explain::by_hand::HandOrderReader;
use crate::model::explain::diagnostics::{MEASURES, PlanStats};
use crate::model::explain::evidence::raster;
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::{Intervention, InterventionError, permutation};
use crate::model::explain::null_model::NullBands;
use crate::model::explain::readout::token_weight;
use crate::model::io::Format;
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::probe::head_output::{HeadOutput, Plan};

/// Fewest entries of a plan that a thread converts.
const MIN_SHARES_PER_THREAD: usize = 1 << 16;

/// Most predictions of a trace.
const TOP: usize = 24;

/// What to explain of one image and one probe.
#[derive(Default)]
pub struct Question<'a> {
    /// Image file name, for the trace.
    pub image: String,
    /// Probe file name, for the trace.
    pub probe: String,
    /// Class that the evidence is for; the predicted one if `None`.
    pub class: Option<usize>,
    /// Decay of the evidence proxy per position, in place of the spectral radius.
    pub rho: Option<f64>,
    /// Seed of random orders: the image's index in its dataset.
    pub image_seed: u64,
    /// Source of null bands and order tests; `None` leaves them out.
    pub nulls: Option<&'a NullBands>,
    /// How the tokens differ from those the probe was trained on, in words.
    pub tokens_changed: Vec<String>,
}

/// Error of an explanation.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The probe does not fit the tokens, or the intervention does not apply to it.
    #[error(transparent)]
    Intervention(#[from] InterventionError),
    #[error("class {class} requested, but the probe has {classes} classes, counted from 0")]
    Class { class: usize, classes: usize },
    #[error(
        "the tokens contain non-finite values: they overflowed in the backbone; read them in float32 \
         (`--arithmetic float32`), or if they already are, download the weights again"
    )]
    NotFinite,
    #[error("{0} exceed the largest float32 (3.4e38), so no trace can hold them; train the probe again")]
    TooLarge(&'static str),
}

/// Explains how `probe` reads `tokens` under an intervention; `seen` is the picture that the backbone saw. For an order made by hand,
/// if order tests are wanted and the head has one, also returns what explains any other order of this image without reading it again.
pub fn explain(
    probe: &Probe,
    intervention: Intervention,
    tokens: &Tokens,
    seen: Picture,
    question: Question<'_>,
) -> Result<(Trace, Option<HandOrderReader>), ExplainError> {
    if !finite(&tokens.patches) || !tokens.cls.iter().all(|cls| finite(cls)) {
        return Err(ExplainError::NotFinite);
    }
    let read = ImageReading::new(probe, intervention, tokens, question.image_seed)?;
    let logits = read.logits();
    // Also in float32: a trace could not be written.
    if !finite(&narrow(&logits)) {
        return Err(ExplainError::TooLarge("the logits"));
    }
    let predictions = predictions(&logits, &probe.meta.classes);
    let class = question.class.unwrap_or(predictions[0].index);
    if class >= probe.classes() {
        return Err(ExplainError::Class { class, classes: probe.classes() });
    }
    let reading = Reading {
        change: read.intervention.clone(),
        tokens: question.tokens_changed.clone(),
        class: question.class.map(|class| class_name(&probe.meta.classes, class)),
        rho: question.rho,
        seed: question.nulls.map(|nulls| nulls.seed).filter(|seed| *seed != 0),
    };

    let stats = read.plan_stats();
    let by_hand = match &read.intervention {
        Intervention::Order(order) => HandOrderReader::new(&read, class, &question).zip(Some(order)),
        _ => None,
    };
    let order_test = question.nulls.map(|nulls| match &by_hand {
        Some((by_hand, order)) => Found::Some(by_hand.test(order)),
        None => order_test::order_test(&read, (class, question.class.is_none()), &nulls.exchanges),
    });
    let (directions, n) = (read.output.directions(), tokens.grid.len());
    let kernels = directions.iter().map(|direction| narrow(&direction.kernel)); // [N, 1] or [N, d]; a sweep may have none
    let kernels = kernels.filter(|data| !data.is_empty());
    let mut kernels = kernels.map(|data| Matrix { rows: n, cols: data.len() / n, data });
    let trace = Trace {
        format: Format,
        image: question.image,
        probe: question.probe,
        head: probe.meta.head.clone(),
        reading,
        backbone: probe.meta.backbone.id.clone(),
        grid: tokens.grid,
        seen,
        scores: read.output.scores.as_deref().map(narrow),
        expected: stats.as_ref().map(|stats| stats.expected().to_vec()),
        kernel: kernels.next(),
        other_kernels: kernels.collect(),
        radius: directions.first().and_then(|direction| direction.radius).map(|radius| radius as f32),
        token_weight: token_weight(&read.output).as_deref().map(narrow),
        logits: narrow(&logits),
        top: predictions,
        evidence: evidence(&read, class, question.rho),
        routing: match probe.head().is_recurrent() {
            true => bidirectional(&read.intervention, read.image_seed, n),
            false => routing(&read.output, read.plan()),
        },
        diagnostics: stats.map(|stats| diagnose(&stats, &read, question.nulls)).unwrap_or_default(),
        minus: None,
        order_test,
        attributions: IndexMap::new(),
        regions: None,
    };
    if let Some(what) = too_large(&trace) {
        return Err(ExplainError::TooLarge(what));
    }
    Ok((trace, by_hand.map(|(by_hand, _)| by_hand)))
}

/// Computes and caches the null bands of an image and a probe, each with all cores. Computed later, within one of many
/// parallel explanations, each would get a single core.
pub fn prepare_nulls(probe: &Probe, intervention: Intervention, tokens: &Tokens, nulls: &NullBands) {
    let Ok(probe) = intervention.probe(probe) else { return };
    if let Some(router) = intervention.router(&probe)
        && tokens.grid.len() >= 2
    {
        nulls.band(router, &intervention, tokens.grid);
        nulls.untrained(router, &intervention, tokens);
    }
}

/// Name of a class, or its number if it has none.
fn class_name(classes: &[String], class: usize) -> String {
    classes.get(class).cloned().unwrap_or_else(|| class.to_string())
}

/// The [`TOP`] most probable classes, best first; ties to the lower index.
fn predictions(logits: &[f64], classes: &[String]) -> Vec<Prediction> {
    let mut all: Vec<Prediction> = logits
        .iter()
        .zip(softmax(logits))
        .enumerate()
        .map(|(index, (&logit, probability))| Prediction {
            index,
            name: class_name(classes, index),
            logit: logit as f32,
            probability: probability as f32,
        })
        .collect();
    all.sort_by(|a, b| logits[b.index].total_cmp(&logits[a.index]));
    all.truncate(TOP);
    all
}

fn routing(output: &HeadOutput, plan: Option<&Plan>) -> Routing {
    if let Some(&Plan { n, ref share }) = plan {
        let data = share.par_iter().with_min_len(MIN_SHARES_PER_THREAD).map(|&x| x as f32).collect();
        return Routing::Plan(Matrix { rows: n, cols: n, data });
    }
    let Some(orders) = output.fixed_orders() else { return Routing::None };
    Routing::Orders(orders.into_iter().map(|order| order.iter().map(|&i| i as u32).collect()).collect())
}

/// The two orders of a recurrent head: the tokens as they lie, forwards and backwards.
fn bidirectional(intervention: &Intervention, image: u64, n: usize) -> Routing {
    let forward: Vec<u32> = match intervention {
        Intervention::Random(seed) => permutation(*seed, image, n).into_iter().map(|i| i as u32).collect(),
        Intervention::Order(order) => order.tokens().to_vec(),
        _ => (0..n as u32).collect(),
    };
    let backward = forward.iter().rev().copied().collect();
    Routing::Orders(vec![forward, backward])
}

fn diagnose(
    stats: &PlanStats,
    read: &ImageReading<'_>,
    nulls: Option<&NullBands>,
) -> IndexMap<String, Diagnostic> {
    let ImageReading { probe, intervention, tokens, .. } = read;
    let null_source = intervention.router(probe).zip(nulls);
    let band = null_source.map(|(router, nulls)| nulls.band(router, intervention, tokens.grid));
    let untrained = null_source.map(|(router, nulls)| nulls.untrained(router, intervention, tokens));
    let diagnostic = |at: usize| Diagnostic {
        value: (MEASURES[at].compute)(stats),
        null: band.as_ref().map(|band| band[at].band),
        untrained: untrained.as_ref().map(|untrained| untrained[at].values[0]),
        untrained_band: untrained.as_ref().map(|untrained| untrained[at].band),
    };
    MEASURES.iter().enumerate().map(|(at, m)| (m.name.to_owned(), diagnostic(at))).collect()
}

fn evidence(read: &ImageReading<'_>, class: usize, rho: Option<f64>) -> Evidence {
    let ImageReading { probe, tokens, output, .. } = read;
    let row = probe.classifier.row(class);
    let (exact, proxy) = (read.evidence(class), read.proxy(class, rho));
    let found = exact.as_ref().ok();
    let raster = probe.head().router().and_then(|_| raster(output, tokens, row));
    Evidence {
        class,
        bias: found.map_or(probe.classifier.bias[class], |e| e.bias as f32),
        position: found.and_then(|e| e.position.as_deref()).map(narrow),
        position_raster: raster.as_deref().map(narrow),
        token: found.map(|e| narrow(&e.token)),
        proxy: proxy.as_ref().map(|p| narrow(&p.routed)),
        proxy_raster: proxy.as_ref().map(|p| narrow(&p.raster)),
        why_none: exact.err().map(str::to_owned),
    }
}

/// What of a trace is beyond float32 although the logits are not: JSON has no such number, and a file of it could not be read.
fn too_large(trace: &Trace) -> Option<&'static str> {
    let Evidence { bias, position, position_raster, token, proxy, proxy_raster, .. } = &trace.evidence;
    let vectors = |all: &[&Option<Vec<f32>>]| all.iter().all(|one| one.as_deref().is_none_or(finite));
    let mut kernels = trace.kernel.iter().chain(&trace.other_kernels);
    let parts = [
        ("the kernels", kernels.all(|kernel| finite(&kernel.data))),
        ("the token weights", vectors(&[&trace.token_weight])),
        ("the evidence", bias.is_finite() && vectors(&[position, position_raster, token])),
        ("the evidence proxies", vectors(&[proxy, proxy_raster])),
    ];
    parts.into_iter().find(|(_, finite)| !finite).map(|(what, _)| what)
}

fn finite(values: &[f32]) -> bool {
    values.iter().all(|x| x.is_finite())
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_a_probability_that_float32_holds_go_by_their_logits() {
        let found = predictions(&[-300.0, 0.0, -400.0, -200.0], &[]);
        assert!(found[1..].iter().all(|class| class.probability == 0.0));
        assert_eq!(found.iter().map(|class| class.index).collect::<Vec<_>>(), [1, 3, 0, 2]);
    }
}
