//! Asking one probe about all images, some at a time, in float64 on the host: one core an image.
//!
//! For every image the prediction and its probability `softmax(W z + b)`, and of heads with a plan
//! every diagnostic of [`MEASURES`], of heads with an order test what it came to. Over the images of a class the mean of where each token came
//! (`m_i / (N - 1)`, `m_i` the expected position) and of what it counted (`N w_i`). [`Metrics`] of the same
//! images come from the same readings, where they are asked for.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use rayon::prelude::*;

use super::answer::{Answer, Maps};
use super::maps::{positions, weights};
use super::metrics::{ImageMetrics, Measured, Metrics, MetricsSpec, summarize};
use super::orders::{self, CHANCE_IMAGES, Chance, OrderTests};
use super::regions::RegionSummary;
use super::removals::{self, Heights, RemovalHeights};
use super::stability::{self, Taus};
use super::sums::Sums;
use super::vectors::{Collected, ImageVectors, rounded};
use super::{CONFIDENCE, EvalSet, Evaluation, ORDER, OTHER, OWN};
use crate::model::data::token_cache::TokenCache;
use crate::model::explain::diagnostics::{MEASURES, PlanStats};
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::explain::null_model::{MeanNull, NullBands, untrained_mean};
use crate::model::explain::plan_of;
use crate::model::explain::regions::RegionMeasures;
use crate::model::explain::{evidence, readout};
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::probe::head_output::HeadOutput;
use crate::model::probe::{Probe, ProbeError};
use crate::model::tokens::Tokens;
use crate::model::trace::OrderContrast;

/// Predictions kept of every image.
pub const TOP: usize = 5;

/// Images of up to 256 tokens that untrained scorers are asked about: their mean needs no more.
const UNTRAINED_IMAGES: usize = 64;

/// Why a probe cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The probe does not fit the tokens.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The probe cannot be changed so.
    #[error(transparent)]
    Intervention(#[from] InterventionError),
    /// The probe knows other classes.
    #[error("the probe knows none of the {classes} classes of {dataset}; it was trained on another dataset")]
    Classes {
        /// Number of classes of the dataset.
        classes: usize,
        /// Its name.
        dataset: String,
    },
    /// A logit of this image is infinite or no number.
    #[error("image {0}: the logits hold values that are not finite; the probe is damaged")]
    NotFinite(usize),
}

/// A probe and the images it is asked about.
pub struct Evaluator<'a> {
    pub(super) probe: Cow<'a, Probe>,
    pub(super) change: Intervention,
    tokens: &'a TokenCache,
    asked: Arc<EvalSet>,
    /// Of every image, its place in the cache.
    places: &'a [usize],
    /// Of every image, what seeds random orders.
    pub(super) image_seeds: &'a [u64],
    /// Of every class of the probe, the dataset's.
    known: Vec<u32>,
    nulls: &'a NullBands,
    bands: IndexMap<&'static str, (f64, f64)>,
    mean_nulls: IndexMap<&'static str, MeanNull>,
    pub(super) metrics: Option<MetricsSpec<'a>>,
    pub(super) answers: Vec<Option<Answer>>,
    positions: Sums,
    weights: Sums,
    vectors: Option<Collected>,
    /// Of every image what changes left of its order, where that was measured.
    stability: Vec<Option<Taus>>,
}

impl<'a> Evaluator<'a> {
    /// Begins. For every image of `asked`, `places` says where it is in the cache, and `image_seeds` its
    /// index in the whole dataset: what seeds random orders, whatever part is asked about.
    pub fn new(
        probe: &'a Probe,
        change: Intervention,
        tokens: &'a TokenCache,
        asked: Arc<EvalSet>,
        (places, image_seeds): (&'a [usize], &'a [u64]),
        nulls: &'a NullBands,
    ) -> Result<Self, AskError> {
        let probe = change.probe(probe)?;
        probe.fits(tokens.width(), tokens.grid().len(), tokens.cls(&[]).is_some())?;
        let known = classes(&probe, &asked)?;
        let router = probe.head().router().filter(|_| !change.bypasses_router());
        let (bands, mean_nulls) =
            router.map(|router| nulls.by_name(router, &change, tokens.grid())).unwrap_or_default();
        let (images, classes, n) = (places.len(), asked.classes.len(), tokens.grid().len());
        Ok(Self {
            probe,
            change,
            tokens,
            asked,
            places,
            image_seeds,
            known,
            nulls,
            bands,
            mean_nulls,
            metrics: None,
            answers: Vec::with_capacity(images),
            positions: Sums::new(classes, n),
            weights: Sums::new(classes, n),
            vectors: None,
            stability: Vec::new(),
        })
    }

    /// Asks for metrics, too. The probe is to know the class of every image.
    #[must_use]
    pub fn with_metrics(self, spec: MetricsSpec<'a>) -> Self {
        Self { metrics: Some(spec), ..self }
    }

    /// Keeps what every token of every image came to, too: [`vector_bytes`](super::vectors::vector_bytes) says how many bytes.
    #[must_use]
    pub fn with_vectors(self) -> Self {
        let collected = Collected::new(self.places.len(), self.tokens.grid().len());
        Self { vectors: Some(collected), ..self }
    }

    /// Tells also how stable the orders are: what was measured of every image.
    #[must_use]
    pub fn with_stability(self, stability: Vec<Option<Taus>>) -> Self {
        Self { stability, ..self }
    }

    /// How many images there are to ask about.
    pub fn images(&self) -> usize {
        self.places.len()
    }

    /// How many images have been asked about.
    pub fn done(&self) -> usize {
        self.answers.len()
    }

    /// The most probable classes of an image, at most [`TOP`], and their probabilities, best first; none
    /// of one that cannot be read or has not been asked about.
    pub fn top(&self, image: usize) -> Vec<(String, f32)> {
        let answer = self.answers.get(image).and_then(Option::as_ref);
        let named = |&(class, probability): &(usize, f32)| {
            let name = self.probe.meta.classes.get(class).or_else(|| self.asked.classes.get(class));
            (name.cloned().unwrap_or_else(|| class.to_string()), probability)
        };
        answer.map_or(Vec::new(), |answer| answer.top.iter().map(named).collect())
    }

    /// Asks about some images, for [`take`](Self::take), here or elsewhere: none of one that cannot be read.
    pub fn answers(&self, images: Range<usize>) -> Result<Vec<Option<Answer>>, AskError> {
        images.into_par_iter().map(|image| self.ask(image)).collect()
    }

    /// Takes in what the next images gave. What comes of all does not depend on who asked about which: sums go image by
    /// image.
    pub fn take(&mut self, answers: Vec<Option<Answer>>) {
        for mut answer in answers {
            let class = self.asked.class[self.answers.len()] as usize;
            let maps = answer.as_mut().map(|answer| std::mem::take(&mut answer.maps)).unwrap_or_default();
            self.positions.add(class, maps.positions.as_deref());
            self.weights.add(class, maps.weights.as_deref());
            if let Some(all) = &mut self.vectors {
                all.push(maps.vectors);
            }
            self.answers.push(answer);
        }
    }

    fn ask(&self, image: usize) -> Result<Option<Answer>, AskError> {
        let place = self.places[image];
        if !self.tokens.readable(place) {
            return Ok(None);
        }
        let (probe, tokens) = (&*self.probe, self.tokens.tokens(place));
        let output = self.change.read(probe, &tokens, self.image_seeds[image])?;
        let logits = readout::logits(&output, &tokens, &probe.classifier.weight, &probe.classifier.bias);
        if !logits.iter().all(|logit| logit.is_finite()) {
            return Err(AskError::NotFinite(image));
        }
        let (top, probabilities) = judge(&logits);
        let best = top[0];
        let own = self.own_class(image);
        let order = own.and_then(|class| {
            orders::margin(probe, self.change.clone(), &output, &tokens, class, self.nulls).map(Box::new)
        });
        let router = probe.head().router().filter(|_| !self.change.bypasses_router());
        let sketch = plan_of(&output, router).map(|plan| PlanStats::from_plan(&*plan, tokens.grid));
        let known = self.metrics.as_ref().and_then(|spec| spec.regions.get(image)?.as_ref());
        let regions = own
            .zip(known)
            .map(|(class, known)| Box::new(RegionMeasures::of_output(probe, &output, &tokens, class, known)));
        let own_and_spec = own.zip(self.metrics.as_ref());
        let metrics = own_and_spec.map(|(class, spec)| {
            let cover = known.map(|regions| &regions.object[..]);
            let asked = (spec, self.image_seeds[image]);
            ImageMetrics::new(probe, &tokens, &output, logits, class, asked, cover).map(Box::new)
        });
        let of_kept = self.removes().filter(|spec| !spec.needs_encoder());
        let removals = own.zip(of_kept).map(|(class, spec)| {
            removals::heights_of_kept(
                probe,
                self.change.clone(),
                &tokens,
                (class, self.image_seeds[image]),
                spec,
            )
        });
        let (positions, weights) = (positions(&output, sketch.as_ref()), weights(&output, tokens.grid));
        let kept = self.vectors.as_ref();
        let vectors = kept.map(|_| self.image_vectors(&output, &tokens, own, (&positions, &weights)));
        Ok(Some(Answer {
            predicted: self.known[best],
            confidence: probabilities[best] as f32,
            top: top.into_iter().map(|class| (class, probabilities[class] as f32)).collect(),
            own: own.map_or(f32::NAN, |class| probabilities[class] as f32),
            measures: sketch.as_ref().map(PlanStats::measures),
            order,
            removals: removals.transpose()?,
            metrics: metrics.transpose()?,
            regions,
            maps: Maps { positions, weights, vectors },
        }))
    }

    /// What is kept of an image's tokens.
    fn image_vectors(
        &self,
        output: &HeadOutput,
        tokens: &Tokens,
        own: Option<usize>,
        (positions, weights): (&Option<Vec<f64>>, &Option<Vec<f64>>),
    ) -> ImageVectors {
        let evidence = own.ok_or("The probe knows the class of no image").and_then(|class| {
            let (row, bias) = (self.probe.classifier.row(class), self.probe.classifier.bias[class]);
            Ok(evidence::exact(output, tokens, row, bias)?.token)
        });
        let positions = positions.as_deref().ok_or("This head has no single order in which it reads");
        let weights = weights.as_deref().ok_or("A token has no single weight in this head");
        [positions.and_then(rounded), evidence.and_then(|token| rounded(&token)), weights.and_then(rounded)]
            .map(|kept| kept.map_err(Cow::from))
    }

    /// The probe's number of an image's own class, if it knows it.
    pub(super) fn own_class(&self, image: usize) -> Option<usize> {
        self.known.iter().position(|class| *class == self.asked.class[image])
    }

    /// The metrics of the readable images asked about so far; none where they were not asked for, or none
    /// could be read.
    pub fn metrics(&self) -> Option<Metrics> {
        let spec = self.metrics.as_ref()?;
        let read =
            self.answers.iter().enumerate().filter_map(|(image, answer)| Some((image, answer.as_ref()?)));
        let (places, answers): (Vec<usize>, Vec<&Answer>) =
            read.map(|(image, answer)| (self.places[image], answer)).unzip();
        let images: Vec<&ImageMetrics> =
            answers.iter().filter_map(|answer| answer.metrics.as_deref()).collect();
        let metrics = (!images.is_empty()).then(|| summarize(&images, spec.ablations.is_some()))?;
        let removals: Vec<&Heights> = answers.iter().filter_map(|answer| answer.removals.as_ref()).collect();
        let removals = RemovalHeights::of_images(&removals);
        let (diagnostics, order) = (self.diagnostics(&places, &answers), self.orders());
        let stability = stability::summarize(self.stability.iter().flatten(), self.tokens.grid().len());
        Some(Metrics { diagnostics, order, removals, stability, regions: self.regions(false), ..metrics })
    }

    /// How the regions of the images asked about are read, `all` or those that could be read; none where nothing is known of any.
    fn regions(&self, all: bool) -> Option<RegionSummary> {
        let answers = self.answers.iter().filter(|answer| all || answer.is_some());
        let of = answers.map(|answer| answer.as_ref()?.regions.as_deref());
        RegionSummary::new(&of.collect::<Vec<_>>())
    }

    /// The order tests of all images, beside those of orders that nothing was learnt for; none without a test.
    fn orders(&self) -> Option<OrderTests> {
        let all = self.answers.iter().enumerate();
        let (images, tested): (Vec<usize>, Vec<&OrderContrast>) =
            all.filter_map(|(image, answer)| Some((image, answer.as_ref()?.order.as_deref()?))).unzip();
        let chance = |image: &usize| -> Option<Chance> {
            let (probe, seed) = (&*self.probe, self.image_seeds[*image]);
            let tokens = self.tokens.tokens(self.places[*image]);
            let output = self.change.read(probe, &tokens, seed).ok()?;
            Some(Chance::new(probe, &output, &tokens, (self.own_class(*image)?, seed), self.nulls))
        };
        let some: Vec<&usize> = images.iter().step_by(images.len().div_ceil(CHANCE_IMAGES).max(1)).collect();
        let chance: Vec<Chance> = some.into_par_iter().filter_map(chance).collect();
        (!tested.is_empty()).then(|| OrderTests::new(&tested, &chance))
    }

    /// The diagnostics of a head with a router over all images, beside what nothing learnt gives.
    fn diagnostics(&self, places: &[usize], answers: &[&Answer]) -> Vec<Measured> {
        let all: Vec<&Vec<f64>> = answers.iter().filter_map(|answer| answer.measures.as_ref()).collect();
        let Some(router) = self.probe.head().router().filter(|_| !all.is_empty()) else { return Vec::new() };
        // A plan is N x N: of longer sequences fewer images.
        let n = self.tokens.grid().len();
        let count = (UNTRAINED_IMAGES * 256 * 256 / (n * n)).clamp(1, UNTRAINED_IMAGES);
        let some = places.iter().step_by(places.len().div_ceil(count));
        let fresh: Vec<_> = some
            .map(|place| self.nulls.untrained(router, &self.change, &self.tokens.tokens(*place)))
            .collect();
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
        let measured = |(at, (name, null)): (usize, (&&str, &(f64, f64)))| Measured {
            name: (*name).to_owned(),
            mean: mean(&mut all.iter().map(|values| values[at]), all.len()),
            null: *null,
            untrained: mean(&mut fresh.iter().map(|one| one[at].mean), fresh.len()),
            null_mean: self.mean_nulls.get(*name).map(|null| null.band(all.len())),
            untrained_mean: Some(untrained_mean(&fresh, at)),
        };
        self.bands.iter().enumerate().map(measured).collect()
    }

    /// What came out of the images asked about; `name` and `backbone` say of what.
    pub fn finish(self, name: String, backbone: String) -> Evaluation {
        let column = |of: &dyn Fn(&Answer) -> f32| -> Vec<f32> {
            self.answers.iter().map(|answer| answer.as_ref().map_or(f32::NAN, of)).collect()
        };
        let mut measures =
            IndexMap::from([(CONFIDENCE, column(&|a| a.confidence)), (OWN, column(&|a| a.own))]);
        if self.answers.iter().flatten().any(|answer| answer.measures.is_some()) {
            for (at, measure) in MEASURES.iter().enumerate() {
                measures.insert(
                    measure.name,
                    column(&|a| a.measures.as_ref().map_or(f32::NAN, |m| m[at] as f32)),
                );
            }
        }
        if self.answers.iter().flatten().any(|answer| answer.order.is_some()) {
            let known = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
            let numbers = |order: &OrderContrast| {
                let null = &order.reassigned;
                [known(null.z), null.p as f32, known(order.headroom)]
            };
            for (at, name) in ORDER.into_iter().enumerate() {
                let number = |a: &Answer| a.order.as_deref().map_or(f32::NAN, |order| numbers(order)[at]);
                measures.insert(name, column(&number));
            }
        }
        measures.extend(removals::columns_of(&self.answers));
        measures.extend(stability::columns(&self.stability, self.answers.len()));
        Evaluation {
            regions: self.regions(true),
            probe: name,
            head: self.probe.meta.head.clone(),
            change: if self.change.is_none() { String::new() } else { self.change.to_string() },
            backbone,
            grid: self.tokens.grid(),
            predicted: self.answers.iter().map(|a| a.as_ref().map_or(OTHER, |a| a.predicted)).collect(),
            measures,
            nulls: self.bands,
            mean_nulls: self.mean_nulls,
            positions: self.positions.mean(),
            weights: self.weights.mean(),
            vectors: self.vectors.map(Collected::finish).unwrap_or_default(),
            asked: self.asked,
        }
    }
}

/// Of every class of the probe, which of the dataset's it is.
fn classes(probe: &Probe, asked: &EvalSet) -> Result<Vec<u32>, AskError> {
    let mut known = vec![OTHER; probe.classes()];
    for (class, number) in (0..).zip(probe.numbers(&asked.classes)?) {
        number.into_iter().for_each(|number| known[number] = class);
    }
    if known.iter().all(|class| *class == OTHER) {
        return Err(AskError::Classes { classes: asked.classes.len(), dataset: asked.dataset.clone() });
    }
    Ok(known)
}

/// The classes of the largest logits, best first, ties to the lower one; and all probabilities.
fn judge(logits: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let better = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
    let mut top: Vec<usize> = (0..logits.len()).collect();
    if top.len() > TOP {
        top.select_nth_unstable_by(TOP - 1, better);
        top.truncate(TOP);
    }
    top.sort_unstable_by(better);
    (top, softmax(logits))
}
