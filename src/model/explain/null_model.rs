//! Null distributions of the plan diagnostics (docs/definitions.md, section 5): a diagnostic means little
//! without its value for plans that were not learned. Two nulls answer two questions. Seeded random scores
//! through the same router ignore the image: they show what the router does by itself. Untrained scorers
//! read the image's own tokens, so their scores vary over it as smoothly as those of any linear map:
//! against them a diagnostic shows what training did.

use std::ops::Range;
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::diagnostics::{MEASURES, measure};
use super::intervention::Intervention;
use super::order_test::Exchanges;
use crate::model::grid::Grid;
use crate::model::memo::{Memo, mark};
use crate::model::probe::head::scorer;
use crate::model::probe::router::{Router, standardise};
use crate::model::stats::{mean_and_deviation, normal, quantiles, student_quantile};
use crate::model::tokens::Tokens;

/// Default number of random score vectors per band.
pub const DRAWS: usize = 64;
/// Most untrained scorers per image.
pub const SCORERS: usize = 32;
/// Images of more tokens get [`SCORERS_OF_LONG`] scorers: every scorer makes a plan of N x N.
const LONG_SEQUENCE: usize = 1024;
/// Most untrained scorers of an image of more than [`LONG_SEQUENCE`] tokens.
const SCORERS_OF_LONG: usize = 8;
/// Bands of either kind in the cache; each holds a few numbers per diagnostic.
const MAX_BANDS: usize = 256;
/// Images whose untrained scores are cached for the next router, some 50 KB each.
const MAX_UNTRAINED: usize = 32;

/// Null distribution of a diagnostic under random scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    /// 5th and 95th percentile, for a single image.
    pub band: (f64, f64),
    /// Mean.
    pub mean: f64,
    /// Standard deviation; `None` for a single draw.
    pub deviation: Option<f64>,
}

/// Null distributions of all diagnostics, in the order of [`MEASURES`].
pub type Band = Arc<[Null]>;

/// Null distribution of the mean of a diagnostic over images, each with random scores of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanNull {
    /// Its mean.
    pub mean: f64,
    /// Distance from the mean to the 95th percentile of a single image, by Student's t.
    pub reach: f64,
    /// Number of random score vectors that both are estimated from.
    pub draws: usize,
}

impl MeanNull {
    /// For each of these nulls, estimated from `draws` score vectors; none for a single draw.
    pub fn from_nulls(nulls: &[Null], draws: usize) -> Vec<Self> {
        let t = student_quantile(0.05, draws.saturating_sub(1).max(1) as f64);
        let of = |null: &Null| Some(Self { mean: null.mean, reach: t * null.deviation?, draws });
        nulls.iter().filter_map(of).collect()
    }

    /// 5th and 95th percentile of the mean over `images` images, widened for the error of the mean over the draws.
    pub fn band(&self, images: usize) -> (f64, f64) {
        let reach = self.reach * (1.0 / images.max(1) as f64 + 1.0 / self.draws as f64).sqrt();
        (self.mean - reach, self.mean + reach)
    }
}

/// Null distribution of a diagnostic under untrained scorers, on one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Untrained {
    /// Value by scorer; the first is the one shown as a single value.
    pub values: Vec<f64>,
    /// Mean over the scorers.
    pub mean: f64,
    /// 5th and 95th percentile over the scorers.
    pub band: (f64, f64),
}

/// Cache of null distributions: those of random scores by router settings and grid, those of untrained
/// scorers by router settings and image. One instance serves many explanations.
pub struct NullBands {
    /// Number of random score vectors per band, at least 1.
    pub draws: usize,
    /// Seed of all random draws.
    pub seed: u64,
    bands: Memo<(String, Grid), Band>,
    untrained: Memo<(String, ImageKey), Arc<[Untrained]>>,
    scores: Memo<ImageKey, Arc<[Vec<f64>]>>,
    /// The random exchanges of tokens that order tests use.
    pub exchanges: Exchanges,
}

/// Key of an image: its grid, and a hash of its tokens.
type ImageKey = (Grid, u64);

impl NullBands {
    /// An empty cache for bands of `draws` (at least 1) seeded random score vectors, and of
    /// [`scorers`](Self::scorers) untrained scorers.
    pub fn new(draws: usize, seed: u64) -> Self {
        Self {
            draws: draws.max(1),
            seed,
            bands: Memo::new(MAX_BANDS),
            untrained: Memo::new(MAX_BANDS),
            scores: Memo::new(MAX_UNTRAINED),
            exchanges: Exchanges::new(seed),
        }
    }

    /// Number of untrained scorers for images of `n` tokens: that of random score vectors, but at most
    /// [`SCORERS`], and at most 8 above 1024 tokens.
    pub fn scorers(&self, n: usize) -> usize {
        self.draws.min(if n > LONG_SEQUENCE { SCORERS_OF_LONG } else { SCORERS })
    }

    /// Null distributions of a router's plans, read under `change`, over a grid of at least two patches.
    pub fn band(&self, router: &dyn Router, change: &Intervention, grid: Grid) -> Band {
        self.bands
            .get((key(router, change), grid), || band(router, change, grid, self.draws, self.seed).into())
    }

    /// Diagnostics of an image under untrained scorers and the same router, in the order of [`MEASURES`].
    pub fn untrained(&self, router: &dyn Router, change: &Intervention, tokens: &Tokens) -> Arc<[Untrained]> {
        let bits = |value: f32| u64::from(value.to_bits());
        let image = (tokens.grid, mark(tokens.width as u64, &tokens.patches, bits));
        self.untrained.get((key(router, change), image), || {
            let scores = self.scores.get(image, || {
                untrained_scores(tokens, 0..self.scorers(tokens.grid.len()), self.seed).into()
            });
            untrained(router, change, tokens.grid, &scores).into()
        })
    }
}

/// Cache key: everything that plans depend on besides scores and grid.
fn key(router: &dyn Router, change: &Intervention) -> String {
    let change = if change.modifies_plan() { change.id() } else { String::new() };
    format!("{router:?} {change}")
}

/// Values of the diagnostics over score vectors: `[diagnostic][draw]`.
fn values_by_measure(
    draws: usize,
    scores: impl Fn(usize) -> Vec<f64> + Sync,
    (router, change): (&dyn Router, &Intervention),
    grid: Grid,
) -> Vec<Vec<f64>> {
    let measured = |draw| measure(&*change.rows(router, &scores(draw), draw as u64), grid);
    let drawn: Vec<Vec<f64>> = (0..draws).into_par_iter().map(measured).collect();
    (0..MEASURES.len()).map(|m| drawn.iter().map(|values| values[m]).collect()).collect()
}

/// 5th and 95th percentile.
fn percentile_band(values: &[f64]) -> (f64, f64) {
    quantiles(values, [0.05, 0.95]).into()
}

/// Null distributions of all diagnostics over `draws` seeded Gaussian score vectors.
fn band(router: &dyn Router, change: &Intervention, grid: Grid, draws: usize, seed: u64) -> Vec<Null> {
    let scores = |draw: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(draw as u64);
        standardise(&(0..grid.len()).map(|_| normal(&mut rng)).collect::<Vec<_>>())
    };
    let drawn = values_by_measure(draws, scores, (router, change), grid);
    let null = |values: &Vec<f64>| {
        let (mean, deviation) = mean_and_deviation(values);
        Null { band: percentile_band(values), mean, deviation }
    };
    drawn.iter().map(null).collect()
}

/// Standardised scores `[N]` of an image by each of these draws of a scorer at its random initialisation.
pub fn untrained_scores(tokens: &Tokens, draws: Range<usize>, seed: u64) -> Vec<Vec<f64>> {
    let spec = scorer::spec(tokens.width);
    let scores = |draw: usize| {
        let scope = if draw == 0 { "untrained".to_owned() } else { format!("untrained {draw}") };
        let weight = spec.start(seed, &scope).data; // [d]
        let score = |i| super::readout::dot(tokens.patch(i), &weight);
        standardise(&(0..tokens.grid.len()).map(score).collect::<Vec<_>>())
    };
    draws.into_par_iter().map(scores).collect()
}

/// Diagnostics of an image under untrained scorers, in the order of [`MEASURES`], from the scores `[N]` of at least one.
pub fn untrained(
    router: &dyn Router,
    change: &Intervention,
    grid: Grid,
    scores: &[Vec<f64>],
) -> Vec<Untrained> {
    let drawn = values_by_measure(scores.len(), |draw| scores[draw].clone(), (router, change), grid);
    let of = |values: Vec<f64>| Untrained {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        band: percentile_band(&values),
        values,
    };
    drawn.into_iter().map(of).collect()
}

/// 5th and 95th percentile over scorers of the mean of diagnostic `at` over images; every scorer reads all images.
pub fn untrained_mean(images: &[Arc<[Untrained]>], at: usize) -> (f64, f64) {
    let scorers = images.iter().map(|image| image[at].values.len()).min().unwrap_or(0);
    let mean = |scorer| {
        images.iter().map(|image: &Arc<[Untrained]>| image[at].values[scorer]).sum::<f64>()
            / images.len() as f64
    };
    percentile_band(&(0..scorers).map(mean).collect::<Vec<f64>>())
}
