//! Evaluates one probe on all images of a dataset, a batch at a time, in float64 on the host: one core per image.
//!
//! For every image: the prediction, its probability `softmax(W z + b)`, the diagnostics of a plan ([`MEASURES`]) and the order
//! test, if the head has them. For every class: the mean over its images of the position of each token (`m_i / (N - 1)`,
//! `m_i` the expected position) and of its weight (`N w_i`). [`Metrics`], if requested, come from the same readings.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use rayon::prelude::*;

use super::answer::{Answer, Maps};
use super::metrics::{ImageMetrics, Measured, Metrics, MetricsSpec, summarize};
use super::orders::{self, CHANCE_IMAGES, Chance, OrderTests, WithMargin};
use super::regions::RegionSummary;
use super::removals::{self, Heights, RemovalHeights};
use super::stability::{self, Taus};
use super::vectors::{ImageVectors, VectorCollector, to_f16};
use super::{CONFIDENCE, ClassSums, EvalSet, Evaluation, Means, ORDER, OTHER, OWN};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::token_cache::TokenCache;
use crate::model::explain::diagnostics::{MEASURES, PlanStats};
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::explain::localization::{self, TokenValues};
use crate::model::explain::null_model::{Band, MeanNull, Null, NullBands, untrained_mean};
use crate::model::explain::readout::token_weight;
use crate::model::explain::regions::RegionMeasures;
use crate::model::explain::removal::measure_head;
use crate::model::io::Format;
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::probe::{Probe, ProbeError};
use crate::model::regions::Regions;
use crate::model::stats::mean;
use crate::model::tokens::Tokens;
use crate::model::trace::OrderContrast;

/// Predictions stored of every image.
pub const TOP: usize = 5;

/// Images of up to 256 tokens that untrained scorers read, enough for a mean; of longer ones fewer.
const UNTRAINED_IMAGES: usize = 64;

/// Why a probe cannot be evaluated.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The probe does not fit the tokens.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The intervention does not apply to the probe.
    #[error(transparent)]
    Intervention(#[from] InterventionError),
    #[error("the probe has none of the {classes} classes of {dataset}; it was trained on another dataset")]
    Classes { classes: usize, dataset: String },
    #[error("{0}: the logits contain non-finite values: the probe may be damaged; train it again")]
    NotFinite(String),
}

/// The evaluation of a probe in progress.
pub struct Evaluator<'a> {
    pub(super) probe: Cow<'a, Probe>,
    pub(super) change: Intervention,
    tokens: &'a TokenCache,
    /// Whether a token is of a different patch in every image: nothing is then averaged or compared patch by patch.
    is_shuffled: bool,
    set: Arc<EvalSet>,
    /// Index in the token cache of every image.
    cache_indices: &'a [usize],
    /// Seed of random orders of every image.
    pub(super) image_seeds: &'a [u64],
    /// Class of the dataset for every class of the probe, or [`OTHER`].
    dataset_class: Vec<u32>,
    nulls: &'a NullBands,
    /// Null distributions of the diagnostics; empty without a router.
    band: Band,
    /// Metrics to compute, too: the probe must then have the class of every image.
    pub metrics: Option<MetricsSpec<'a>>,
    pub(super) answers: Vec<Option<Answer>>,
    positions: ClassSums,
    weights: ClassSums,
    vectors: Option<VectorCollector>,
    /// Stability of the order of every image, if it was measured.
    pub stability: Vec<Option<Taus>>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator without results. For every image of `set`, `cache_indices` has its index in the cache, and
    /// `image_seeds` its index in the whole dataset, which seeds random orders whatever part is evaluated.
    pub fn new(
        probe: &'a Probe,
        change: Intervention,
        tokens: &'a TokenCache,
        set: Arc<EvalSet>,
        (cache_indices, image_seeds): (&'a [usize], &'a [u64]),
        nulls: &'a NullBands,
    ) -> Result<Self, EvalError> {
        let probe = change.probe(probe)?;
        probe.fits(tokens.width(), tokens.grid().len(), tokens.cls(&[]).is_some())?;
        let dataset_class = dataset_classes(&probe, &set)?;
        let router = change.router(&probe);
        let band = router.map(|router| nulls.band(router, &change, tokens.grid())).unwrap_or_default();
        let (images, classes, n) = (cache_indices.len(), set.classes.len(), tokens.grid().len());
        Ok(Self {
            probe,
            change,
            tokens,
            is_shuffled: TokenSpec::is_shuffled(tokens.layer()),
            set,
            cache_indices,
            image_seeds,
            dataset_class,
            nulls,
            band,
            metrics: None,
            answers: Vec::with_capacity(images),
            positions: ClassSums::new(classes, n),
            weights: ClassSums::new(classes, n),
            vectors: None,
            stability: Vec::new(),
        })
    }

    /// Stores the values of every token of every image, too; their size is [`vector_bytes`](super::vectors::vector_bytes).
    pub fn keep_vectors(&mut self) {
        self.vectors = Some(match self.is_shuffled {
            true => VectorCollector::of_shuffled(),
            false => VectorCollector::new(self.cache_indices.len(), self.tokens.grid().len()),
        });
    }

    /// Number of images to evaluate.
    pub fn images(&self) -> usize {
        self.cache_indices.len()
    }

    /// Number of images evaluated so far.
    pub fn done(&self) -> usize {
        self.answers.len()
    }

    /// The most probable classes of an image, at most [`TOP`], with their probabilities, best first, by the dataset's names for them
    /// where it has them; empty for one that cannot be read or has not been evaluated.
    pub fn top(&self, image: usize) -> Vec<(String, f32)> {
        let answer = self.answers.get(image).and_then(Option::as_ref);
        let named = |&(class, probability): &(usize, f32)| {
            let own = self.dataset_class.get(class).and_then(|own| self.set.classes.get(*own as usize));
            let name = own.or_else(|| self.probe.meta.classes.get(class));
            (name.cloned().unwrap_or_else(|| class.to_string()), probability)
        };
        answer.map_or(Vec::new(), |answer| answer.top.iter().map(named).collect())
    }

    /// On how many of the images evaluated so far it predicts another class than `earlier` has, by the dataset's numbers.
    pub fn changed(&self, earlier: &[u32]) -> usize {
        let all = self.answers.iter().zip(earlier);
        all.filter(|(answer, class)| answer.as_ref().is_some_and(|own| own.predicted != **class)).count()
    }

    /// Results of some images, for [`take`](Self::take) of this or another evaluator; `None` for one that cannot be read.
    pub fn answers(&self, images: Range<usize>) -> Result<Vec<Option<Answer>>, EvalError> {
        let found =
            images.into_par_iter().map(|image| self.evaluate(image)).collect::<Result<Vec<_>, _>>()?;
        Ok(orders::with_tests(found, self.nulls))
    }

    /// Adds the results of the next images. Sums are updated image by image, so that the totals do not depend on how the
    /// images were split into parts.
    pub fn take(&mut self, answers: Vec<Option<Answer>>) {
        for mut answer in answers {
            let class = self.set.class[self.answers.len()] as usize;
            let maps = answer.as_mut().map(|answer| std::mem::take(&mut answer.maps)).unwrap_or_default();
            if !self.is_shuffled {
                self.positions.add(class, maps.positions.as_deref());
                self.weights.add(class, maps.weights.as_deref());
            }
            if let Some(all) = &mut self.vectors {
                all.push(maps.vectors);
            }
            self.answers.push(answer);
        }
    }

    fn evaluate(&self, image: usize) -> Result<Option<WithMargin>, EvalError> {
        let cache_index = self.cache_indices[image];
        if !self.tokens.readable(cache_index) {
            return Ok(None);
        }
        let tokens = self.tokens.tokens(cache_index);
        let reading = self.read(image, &tokens)?;
        let logits = reading.logits();
        if !logits.iter().all(|logit| logit.is_finite()) {
            return Err(EvalError::NotFinite(self.set.images[image].clone()));
        }
        let (top, probabilities) = top_classes(&logits);
        let best = top[0];
        let own = self.own_class(image);
        let margin = own.and_then(|class| orders::margin(&reading, class, self.nulls));
        let stats = reading.plan_stats();
        let image_regions = self.metrics.as_ref().and_then(|spec| spec.regions.get(image)?.as_ref());
        let weight = token_weight(&reading.output);
        // Computed once, and only for what needs it.
        let evidence = LazyCell::new(|| {
            let own = own.ok_or("No image is of a class that the probe has");
            own.and_then(|class| Ok(reading.evidence(class)?.token))
        });
        let evidence = || evidence.as_deref().map_err(|why: &&'static str| *why);
        let values = || TokenValues { weight: weight.as_deref(), evidence: evidence().ok() };
        let own_regions = image_regions.filter(|_| own.is_some());
        let regions = own_regions
            .map(|regions| Box::new(RegionMeasures::of_output(&reading.output, values(), regions)));
        let metrics = own.zip(self.metrics.as_ref()).map(|(class, spec)| {
            // An object that covers no patch, of an empty mask or outside the crop, could not be found.
            let covers = |regions: &&Regions| regions.object.iter().any(|&cover| cover > 0.0);
            let localization =
                own_regions.filter(covers).map(|regions| localization::measure(values(), &regions.object));
            ImageMetrics::new(&reading, logits, class, spec, localization).map(Box::new)
        });
        let without_encoder = self.removes().filter(|spec| !spec.needs_encoder());
        let removals = own
            .zip(without_encoder)
            .map(|(class, spec)| removals::heights(&measure_head(&reading, class, spec)));
        let positions = reading.positions(stats.as_ref());
        let times_n = |weight: &Vec<f64>| weight.iter().map(|w| w * tokens.grid.len() as f64).collect();
        let weights: Option<Vec<f64>> = weight.as_ref().map(times_n);
        let vectors = self
            .vectors
            .as_ref()
            .map(|_| image_vectors(positions.as_deref(), evidence(), weights.as_deref()));
        let answer = Answer {
            predicted: self.dataset_class[best],
            confidence: probabilities[best] as f32,
            top: top.into_iter().map(|class| (class, probabilities[class] as f32)).collect(),
            own: own.map_or(f32::NAN, |class| probabilities[class] as f32),
            measures: stats.as_ref().map(PlanStats::measures),
            order: None,
            removals,
            metrics: metrics.transpose()?,
            regions,
            maps: Maps { positions, weights, vectors },
        };
        Ok(Some((answer, margin)))
    }

    /// An image as the probe reads it.
    fn read<'t>(&'t self, image: usize, tokens: &'t Tokens) -> Result<ImageReading<'t>, InterventionError> {
        let probe = Cow::Borrowed(&*self.probe);
        ImageReading::by_changed(probe, self.change.clone(), tokens, self.image_seeds[image])
    }

    /// The probe's index of an image's own class, if it has it.
    pub(super) fn own_class(&self, image: usize) -> Option<usize> {
        self.dataset_class.iter().position(|class| *class == self.set.class[image])
    }

    /// The metrics of the readable images evaluated so far; `None` if they were not requested, or no image
    /// could be read.
    pub fn metrics(&self) -> Option<Metrics> {
        let spec = self.metrics.as_ref()?;
        let all = self.cache_indices.iter().zip(&self.answers);
        let (cache_indices, answers): (Vec<usize>, Vec<&Answer>) =
            all.filter_map(|(&index, answer)| Some((index, answer.as_ref()?))).unzip();
        let images: Vec<&ImageMetrics> =
            answers.iter().filter_map(|answer| answer.metrics.as_deref()).collect();
        let metrics = (!images.is_empty()).then(|| summarize(&images, spec.ablations.is_some()))?;
        let removals: Vec<&Heights> = answers.iter().filter_map(|answer| answer.removals.as_ref()).collect();
        let removals = RemovalHeights::of_images(&removals);
        let (diagnostics, order) = (self.diagnostics(&cache_indices, &answers), self.orders());
        let stability = stability::summarize(&self.stability, self.tokens.grid().len());
        Some(Metrics { diagnostics, order, removals, stability, regions: self.regions(false), ..metrics })
    }

    /// Region measures of the images evaluated, `all` or only those that could be read; `None` if no regions are known.
    fn regions(&self, all: bool) -> Option<RegionSummary> {
        let answers = self.answers.iter().filter(|answer| all || answer.is_some());
        let of = answers.map(|answer| answer.as_ref()?.regions.as_deref());
        RegionSummary::new(&of.collect::<Vec<_>>())
    }

    /// The order tests of all images, beside those of unlearned orders; `None` for a head without a test.
    fn orders(&self) -> Option<OrderTests> {
        let all = self.answers.iter().enumerate();
        let (images, tested): (Vec<usize>, Vec<&OrderContrast>) =
            all.filter_map(|(image, answer)| Some((image, answer.as_ref()?.order.as_deref()?))).unzip();
        let chance = |image: &usize| -> Option<Chance> {
            let tokens = self.tokens.tokens(self.cache_indices[*image]);
            let reading = self.read(*image, &tokens).ok()?;
            Some(Chance::new(&reading, self.own_class(*image)?, self.nulls))
        };
        let sample: Vec<&usize> =
            images.iter().step_by(images.len().div_ceil(CHANCE_IMAGES).max(1)).collect();
        let chance: Vec<Chance> = sample.into_par_iter().filter_map(chance).collect();
        (!tested.is_empty()).then(|| OrderTests::new(&tested, &chance))
    }

    /// Mean diagnostics of a head with a router over all images, beside their nulls; empty without a plan.
    fn diagnostics(&self, cache_indices: &[usize], answers: &[&Answer]) -> Vec<Measured> {
        let all: Vec<&Vec<f64>> = answers.iter().filter_map(|answer| answer.measures.as_ref()).collect();
        let Some(router) = self.probe.head().router().filter(|_| !all.is_empty()) else { return Vec::new() };
        // The cost of an image is that of its N x N plans: fewer images of longer sequences.
        let n = self.tokens.grid().len();
        let count = (UNTRAINED_IMAGES * 256 * 256 / (n * n)).clamp(1, UNTRAINED_IMAGES);
        let sample = cache_indices.iter().step_by(cache_indices.len().div_ceil(count));
        let read = |index: &usize| self.nulls.untrained(router, &self.change, &self.tokens.tokens(*index));
        let untrained: Vec<_> = sample.map(read).collect();
        let mean_nulls = MeanNull::from_nulls(&self.band, self.nulls.draws);
        let measured = |(at, null): (usize, &Null)| Measured {
            name: MEASURES[at].name.to_owned(),
            mean: mean(all.iter().map(|values| values[at])).unwrap_or(f64::NAN),
            null: null.band,
            untrained: mean(untrained.iter().map(|image| image[at].mean)).unwrap_or(f64::NAN),
            null_mean: mean_nulls.get(at).map(|null| MEASURES[at].within(null.band(all.len()))),
            untrained_mean: Some(untrained_mean(&untrained, at)),
            untrained_sample: Some((untrained.len(), self.nulls.scorers(n))),
        };
        self.band.iter().enumerate().map(measured).collect()
    }

    /// The evaluation of the images so far; `name` is that of the probe, `backbone` the id of the backbone.
    pub fn finish(self, name: String, backbone: String) -> Evaluation {
        let column = |of: &dyn Fn(&Answer) -> f32| -> Vec<f32> {
            self.answers.iter().map(|answer| answer.as_ref().map_or(f32::NAN, of)).collect()
        };
        let mut measures =
            IndexMap::from([(CONFIDENCE, column(&|a| a.confidence)), (OWN, column(&|a| a.own))]);
        // Columns in which at least one image has a value.
        let mut add = |names: &[&'static str], value: &dyn Fn(usize, usize) -> Option<f32>| {
            for (at, &name) in names.iter().enumerate() {
                let values: Vec<_> = (0..self.answers.len()).map(|image| value(image, at)).collect();
                if values.iter().any(Option::is_some) {
                    measures.insert(name, values.into_iter().map(|v| v.unwrap_or(f32::NAN)).collect());
                }
            }
        };
        let names: Vec<_> = MEASURES.iter().map(|measure| measure.name).collect();
        add(&names, &|image, at| Some(self.answers[image].as_ref()?.measures.as_ref()?[at] as f32));
        add(&ORDER, &|image, at| {
            let order = self.answers[image].as_ref()?.order.as_deref()?;
            let numbers = [order.reassigned.z, Some(order.reassigned.p), order.headroom];
            Some(numbers[at].map_or(f32::NAN, |number| number as f32))
        });
        let heights: Vec<_> = removals::COLUMNS.iter().map(|column| column.name.as_str()).collect();
        add(&heights, &|image, at| self.answers[image].as_ref()?.removals.as_ref()?[at]);
        add(&stability::COLUMNS.map(|(name, _)| name), &|image, at| self.stability.get(image)?.as_ref()?[at]);
        let of_diagnostics = || names.iter().copied();
        Evaluation {
            format: Format,
            regions: self.regions(true),
            probe: name,
            head: self.probe.meta.head.clone(),
            change: if self.change.is_none() { String::new() } else { self.change.to_string() },
            backbone,
            grid: self.tokens.grid(),
            predicted: self.answers.iter().map(|a| a.as_ref().map_or(OTHER, |a| a.predicted)).collect(),
            measures,
            nulls: of_diagnostics().zip(self.band.iter().map(|null| null.band)).collect(),
            mean_nulls: of_diagnostics().zip(MeanNull::from_nulls(&self.band, self.nulls.draws)).collect(),
            positions: self.positions.mean(),
            weights: self.weights.mean(),
            vectors: self.vectors.map(VectorCollector::finish).unwrap_or_default(),
            set: self.set,
            provenance: None,
            means: Means::default(),
        }
    }
}

/// The vectors of an image, by kind, or why there are none.
fn image_vectors(
    positions: Option<&[f64]>,
    evidence: Result<&[f64], &'static str>,
    weights: Option<&[f64]>,
) -> ImageVectors {
    let positions = positions.ok_or("This head has no single order in which it reads");
    let weights = weights.ok_or("A token has no single weight in this head");
    [positions, evidence, weights].map(|values| values.and_then(to_f16).map_err(Cow::from))
}

/// The dataset's class for every class of the probe, or [`OTHER`]; fails if it has none of them.
pub fn dataset_classes(probe: &Probe, set: &EvalSet) -> Result<Vec<u32>, EvalError> {
    let mut dataset_class = vec![OTHER; probe.classes()];
    for (class, number) in (0..).zip(probe.numbers(&set.classes)?) {
        number.into_iter().for_each(|number| dataset_class[number] = class);
    }
    if dataset_class.iter().all(|class| *class == OTHER) {
        return Err(EvalError::Classes { classes: set.classes.len(), dataset: set.dataset.clone() });
    }
    Ok(dataset_class)
}

/// The at most [`TOP`] classes of the largest logits, best first, ties to the lower one; and the probabilities of all classes.
fn top_classes(logits: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let mut top: Vec<usize> = (0..logits.len()).collect();
    top.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    top.truncate(TOP);
    (top, softmax(logits))
}
