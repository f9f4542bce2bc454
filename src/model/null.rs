//! What chance gives: diagnostics of a plan only speak beside those of random scores through the
//! same router, and of an untrained scorer on the same image (docs/definitions.md, section 5).

use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::diagnostics::{MEASURES, measure, quantile};
use super::grid::Grid;
use super::params::{Init, Spec};
use super::router::{Router, standardise};
use super::tokens::Tokens;

/// Random scores a band is made of, unless asked otherwise.
pub const DRAWS: usize = 64;
/// Bands kept before the oldest is forgotten; each holds two numbers a diagnostic.
const KEPT: usize = 256;

/// 5th and 95th percentile of every diagnostic, in the order of [`MEASURES`].
pub type Band = Arc<[(f64, f64)]>;

/// Null bands by router settings and grid, computed once. Owned by whoever explains many images.
pub struct NullBands {
    draws: usize,
    seed: u64,
    known: Mutex<IndexMap<(String, Grid), Band>>,
}

impl NullBands {
    /// Bands of `draws` (at least 1) seeded random scores.
    pub fn new(draws: usize, seed: u64) -> Self {
        Self { draws: draws.max(1), seed, known: Mutex::default() }
    }

    /// Random scores a band is made of.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The band of a router over a grid of at least two patches. `settings` names the router and
    /// everything its plans depend on.
    pub fn band(&self, settings: &str, router: &dyn Router, grid: Grid) -> Band {
        let key = (settings.to_owned(), grid);
        if let Some(band) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return band.clone();
        }
        // Computed without the lock: a rayon thread that waits on it could be the one to release it.
        let band: Band = band(router, grid, self.draws, self.seed).into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.shift_remove_index(0);
        }
        known.insert(key, band.clone());
        band
    }
}

/// 5th and 95th percentile of every diagnostic over `draws` sets of seeded Gaussian scores.
pub fn band(router: &dyn Router, grid: Grid, draws: usize, seed: u64) -> Vec<(f64, f64)> {
    let drawn: Vec<Vec<f64>> = (0..draws as u64)
        .into_par_iter()
        .map(|draw| measure(&router.plan(&gaussian_scores(grid.len(), seed, draw)), grid))
        .collect();
    let column = |m: usize| drawn.iter().map(|values| values[m]).collect::<Vec<_>>();
    let columns = (0..MEASURES.len()).map(column);
    columns.map(|values| (quantile(&values, 0.05), quantile(&values, 0.95))).collect()
}

/// Standardised Gaussian scores `[N]`, the same for the same seed and draw.
fn gaussian_scores(n: usize, seed: u64, draw: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(draw);
    let raw: Vec<f64> = (0..n)
        .map(|_| {
            let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
            radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
        })
        .collect();
    standardise(&raw)
}

/// Every diagnostic of the same image under a scorer fresh from PyTorch's default, in the order of
/// [`MEASURES`].
pub fn untrained(router: &dyn Router, tokens: &Tokens, seed: u64) -> Vec<f64> {
    let bound = 1.0 / (tokens.width as f32).sqrt();
    let spec = Spec::new("scorer.weight", [1, tokens.width], Init::Uniform(bound));
    let weight = spec.start(seed, "untrained").data; // [d]
    let score = |i| super::readout::dot(tokens.patch(i), &weight);
    let scores: Vec<f64> = (0..tokens.grid.len()).map(score).collect();
    measure(&router.plan(&standardise(&scores)), tokens.grid)
}
