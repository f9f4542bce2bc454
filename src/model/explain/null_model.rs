//! What chance gives: diagnostics of a plan only speak beside those of plans nothing was learnt for
//! (docs/definitions.md, section 5). There are two nulls, for two questions. Seeded random scores
//! through the same router know nothing of the image: they say what the router does by itself. Untrained
//! scorers read the image's own tokens, so their scores lie over it as smoothly as any linear map's do:
//! beside them a diagnostic says what training did.

use std::sync::Arc;

use indexmap::IndexMap;
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

/// Random scores a band is made of, unless asked otherwise.
pub const DRAWS: usize = 64;
/// Untrained scorers an image is asked about, unless random scores are fewer.
pub const SCORERS: usize = 32;
/// Images of more tokens are asked about by fewer scorers: a plan is N x N, and every image has its own.
const LONG_SEQUENCE: usize = 1024;
/// How many fewer at most.
const SCORERS_OF_LONG: usize = 8;
/// Bands of either kind kept before the oldest is forgotten; each holds a few numbers a diagnostic.
const MAX_BANDS: usize = 256;
/// Images whose untrained scores are kept, for the next router: some 50 KB each.
const MAX_UNTRAINED: usize = 32;

/// A diagnostic under random scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Null {
    /// 5th and 95th percentile: of a single image.
    pub band: (f64, f64),
    /// Mean.
    pub mean: f64,
    /// Standard deviation; absent of a single draw.
    pub deviation: Option<f64>,
}

/// Something of every diagnostic.
pub type ByName<T> = IndexMap<&'static str, T>;

/// Every diagnostic under random scores, in the order of [`MEASURES`].
pub type Band = Arc<[Null]>;

/// What random scores give for the mean of a diagnostic over images, each of which has scores of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanNull {
    /// Where the mean lies.
    pub mean: f64,
    /// How far the 95th percentile of a single image lies from there, by Student's t.
    pub reach: f64,
    /// Random scores that both are known of.
    pub draws: usize,
}

impl MeanNull {
    /// Of each of these nulls, of which `draws` scores are known; none of a single one.
    pub fn from_nulls(nulls: &[Null], draws: usize) -> Vec<Self> {
        let t = student_quantile(0.05, draws.saturating_sub(1).max(1) as f64);
        let of = |null: &Null| Some(Self { mean: null.mean, reach: t * null.deviation?, draws });
        nulls.iter().filter_map(of).collect()
    }

    /// 5th and 95th percentile of the mean over so many images: as far as they and the draws let it be known.
    pub fn band(&self, images: usize) -> (f64, f64) {
        let reach = self.reach * (1.0 / images.max(1) as f64 + 1.0 / self.draws as f64).sqrt();
        (self.mean - reach, self.mean + reach)
    }
}

/// A diagnostic under untrained scorers on one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Untrained {
    /// Every scorer's, of which the first is shown alone.
    pub values: Vec<f64>,
    /// The mean of all.
    pub mean: f64,
    /// 5th and 95th percentile of all.
    pub band: (f64, f64),
}

/// Null bands by router settings and grid, and those of untrained scorers by router settings and
/// image, computed once. Owned by whoever explains many images.
pub struct NullBands {
    draws: usize,
    seed: u64,
    known: Memo<(String, Grid), Band>,
    untrained: Memo<(String, Image), Arc<[Untrained]>>,
    scores: Memo<Image, Arc<[Vec<f64>]>>,
    exchanges: Exchanges,
}

/// The grid of an image, and a number that tells its tokens from another's.
type Image = (Grid, u64);

impl NullBands {
    /// Bands of `draws` (at least 1) seeded random scores, and as many untrained scorers as
    /// [`scorers`](Self::scorers) says.
    pub fn new(draws: usize, seed: u64) -> Self {
        Self {
            draws: draws.max(1),
            seed,
            known: Memo::new(MAX_BANDS),
            untrained: Memo::new(MAX_BANDS),
            scores: Memo::new(MAX_UNTRAINED),
            exchanges: Exchanges::new(seed),
        }
    }

    /// The exchanges of tokens that order tests count over.
    pub fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    /// Random scores a band is made of.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// Seed of all that is drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Untrained scorers a band is made of, for images of `n` tokens: as many as there are random
    /// scores, at most [`SCORERS`], and 8 above 1024 tokens.
    pub fn scorers(&self, n: usize) -> usize {
        self.draws.min(if n > LONG_SEQUENCE { SCORERS_OF_LONG } else { SCORERS })
    }

    /// The band of a router, read with `change`, over a grid of at least two patches.
    pub fn band(&self, router: &dyn Router, change: &Intervention, grid: Grid) -> Band {
        self.known
            .get((key(router, change), grid), || band(router, change, grid, self.draws, self.seed).into())
    }

    /// The same by the name of the diagnostic: of a single image, and of means over images.
    pub fn by_name(
        &self,
        router: &dyn Router,
        change: &Intervention,
        grid: Grid,
    ) -> (ByName<(f64, f64)>, ByName<MeanNull>) {
        let band = self.band(router, change, grid);
        let names = || MEASURES.iter().map(|measure| measure.name);
        let single = names().zip(band.iter().map(|null| null.band)).collect();
        (single, names().zip(MeanNull::from_nulls(&band, self.draws)).collect())
    }

    /// What untrained scorers make of an image through the same router, in the order of [`MEASURES`].
    pub fn untrained(&self, router: &dyn Router, change: &Intervention, tokens: &Tokens) -> Arc<[Untrained]> {
        let bits = |value: f32| u64::from(value.to_bits());
        let image = (tokens.grid, mark(tokens.width as u64, &tokens.patches, bits));
        self.untrained.get((key(router, change), image), || {
            let scores = self
                .scores
                .get(image, || untrained_scores(tokens, self.scorers(tokens.grid.len()), self.seed).into());
            untrained(router, change, tokens.grid, &scores).into()
        })
    }
}

/// Everything that plans depend on.
fn key(router: &dyn Router, change: &Intervention) -> String {
    let change = if change.replans() { change.id() } else { String::new() };
    format!("{} {} {change}", router.id(), serde_json::to_string(&router.settings()).unwrap_or_default())
}

/// Draws by diagnostic: `[m][draw]`.
fn columns(
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
fn ends(values: &[f64]) -> (f64, f64) {
    quantiles(values, [0.05, 0.95]).into()
}

/// Every diagnostic over `draws` sets of seeded Gaussian scores.
fn band(router: &dyn Router, change: &Intervention, grid: Grid, draws: usize, seed: u64) -> Vec<Null> {
    let scores = |draw| gaussian_scores(grid.len(), seed, draw as u64);
    let drawn = columns(draws, scores, (router, change), grid);
    let null = |values: &Vec<f64>| {
        let (mean, deviation) = mean_and_deviation(values);
        Null { band: ends(values), mean, deviation }
    };
    drawn.iter().map(null).collect()
}

/// Standardised Gaussian scores `[N]`, the same for the same seed and draw.
fn gaussian_scores(n: usize, seed: u64, draw: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(draw);
    standardise(&(0..n).map(|_| normal(&mut rng)).collect::<Vec<_>>())
}

/// Standardised scores of an image, `[N]`, by each of `scorers` scorers as training begins with them.
pub fn untrained_scores(tokens: &Tokens, scorers: usize, seed: u64) -> Vec<Vec<f64>> {
    let spec = scorer::spec(tokens.width);
    let scores = |draw: usize| {
        let scope = if draw == 0 { "untrained".to_owned() } else { format!("untrained {draw}") };
        let weight = spec.start(seed, &scope).data; // [d]
        let score = |i| super::readout::dot(tokens.patch(i), &weight);
        standardise(&(0..tokens.grid.len()).map(score).collect::<Vec<_>>())
    };
    (0..scorers).into_par_iter().map(scores).collect()
}

/// Every diagnostic of an image under untrained scorers, at least one, in the order of [`MEASURES`].
pub fn untrained(
    router: &dyn Router,
    change: &Intervention,
    grid: Grid,
    scores: &[Vec<f64>],
) -> Vec<Untrained> {
    let drawn = columns(scores.len(), |draw| scores[draw].clone(), (router, change), grid);
    let of = |values: Vec<f64>| Untrained {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        band: ends(&values),
        values,
    };
    drawn.into_iter().map(of).collect()
}

/// 5th and 95th percentile, over the scorers, of the mean over images of diagnostic `at`: every scorer reads all images.
pub fn untrained_mean(images: &[Arc<[Untrained]>], at: usize) -> (f64, f64) {
    let scorers = images.iter().map(|image| image[at].values.len()).min().unwrap_or(0);
    let mean = |scorer| {
        images.iter().map(|image: &Arc<[Untrained]>| image[at].values[scorer]).sum::<f64>()
            / images.len() as f64
    };
    ends(&(0..scorers).map(mean).collect::<Vec<f64>>())
}
