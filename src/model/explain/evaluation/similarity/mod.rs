//! Similarity of the images of a dataset by what a probe did with their tokens (docs/definitions.md, section 14): each image's
//! vector `[N]` is scaled to length 1, so that cosine and Spearman's correlation of any two are their dot product.
//! Ranks are computed once; a query is one pass over `[M, N]` in float32. [`Projection`] maps the same vectors to two axes.

mod pca;

use half::f16;
use half::slice::HalfFloatSliceExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use self::pca::Projection;
use super::Evaluation;
use super::vectors::{TokenVectors, VectorKind};
use crate::model::grid::Grid;
use crate::model::ops::simd;
use crate::model::stats::ranks;

/// Fewest images that a core compares at a time.
const BLOCK: usize = 512;

listed! {
    /// Similarity measure of two vectors.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Similarity {
        /// The cosine of the angle between them.
        #[default]
        Cosine: "cosine", "Cosine";
        /// Spearman's correlation of their ranks, ties at their mean rank.
        Spearman: "spearman", "Spearman";
    }
}

/// The vectors of all images, scaled for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageSpace {
    /// Grid of the N tokens.
    grid: Grid,
    /// `[M, N]`, each row of length 1, or zeros if the image has no vector to compare.
    rows: Vec<f32>,
    /// Whether each image has one.
    known: Vec<bool>,
    /// The vectors on two principal axes, or why there is none.
    pub projection: Result<Projection, String>,
}

impl ImageSpace {
    /// From vectors over `grid`. An image has no vector to compare if a value is missing, all are 0, or, for
    /// [`Similarity::Spearman`], all are equal.
    pub fn new(vectors: &TokenVectors, grid: Grid, similarity: Similarity) -> Self {
        let tokens = grid.len();
        let mut rows = vec![0.0; vectors.values().len()];
        let pairs = rows.par_chunks_mut(tokens).zip(vectors.values().par_chunks(tokens));
        let known: Vec<bool> = pairs.map(|(row, values)| normalise(values, similarity, row)).collect();
        let projection = pca::project(&rows, &known, tokens);
        Self { grid, rows, known, projection }
    }

    /// Whether every image has a row of one number per token.
    pub fn is_consistent(&self) -> bool {
        !self.grid.is_empty() && self.known.len().checked_mul(self.grid.len()) == Some(self.rows.len())
    }

    /// Whether an image has a vector to compare.
    pub fn knows(&self, image: usize) -> bool {
        self.known.get(image).is_some_and(|known| *known)
    }

    /// Whether there are several vectors, all equal: then no image is more similar to another than the rest.
    pub fn is_uniform(&self) -> bool {
        let rows = self.rows.chunks_exact(self.grid.len()).zip(&self.known);
        let mut known = rows.filter_map(|(row, known)| known.then_some(row));
        let [first, second] = [known.next(), known.next()];
        second.is_some() && second == first && known.all(|row| Some(row) == first)
    }

    /// Similarity of every image to `image`, -1 to 1, `[M]`; NaN if either has no vector. If `flipped`, the larger of the
    /// similarities to it and to its mirror image (left-right).
    pub fn similarities(&self, image: usize, flipped: bool) -> Vec<f32> {
        if !self.knows(image) {
            return vec![f32::NAN; self.known.len()];
        }
        let tokens = self.grid.len();
        let own = &self.rows[image * tokens..][..tokens];
        let mirrored: Option<Vec<f32>> = flipped
            .then(|| own.chunks_exact(self.grid.cols).flat_map(|line| line.iter().rev().copied()).collect());
        let similarity = |row: &[f32]| {
            let mirrored = mirrored.as_ref().map_or(-1.0, |mirrored| simd::dot(mirrored, row));
            simd::dot(own, row).max(mirrored).clamp(-1.0, 1.0)
        };
        let pairs = self.rows.par_chunks(tokens).zip(&self.known).with_min_len(BLOCK);
        pairs.map(|(row, known)| if *known { similarity(row) } else { f32::NAN }).collect()
    }

    /// The `count` images most similar to `image` by [`similarities`](Self::similarities), with their similarity, the most
    /// similar first, ties to the earlier image; without the image itself and those that have no vector.
    pub fn nearest(&self, image: usize, count: usize, flipped: bool) -> Vec<(usize, f32)> {
        let all = self.similarities(image, flipped).into_iter().enumerate();
        let mut found: Vec<(usize, f32)> =
            all.filter(|(at, value)| *at != image && !value.is_nan()).collect();
        let before = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if count < found.len() {
            found.select_nth_unstable_by(count, before);
            found.truncate(count);
        }
        found.sort_unstable_by(before);
        found
    }
}

/// Writes the vector, or its ranks less their mean, into `row`, scaled to length 1; returns whether that is possible.
fn normalise(values: &[f16], similarity: Similarity, row: &mut [f32]) -> bool {
    let values: Vec<f64> = values.to_f32_vec().into_iter().map(f64::from).collect();
    if !values.iter().all(|value| value.is_finite()) {
        return false;
    }
    let centred: Vec<f64> = match similarity {
        Similarity::Cosine => values,
        Similarity::Spearman => {
            let mean = (values.len() as f64 - 1.0) / 2.0;
            ranks(&values).into_iter().map(|rank| rank - mean).collect()
        }
    };
    let length = centred.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length > 0.0 {
        row.iter_mut().zip(centred).for_each(|(row, x)| *row = (x / length) as f32);
    }
    length > 0.0
}

impl Evaluation {
    /// The vectors of a kind, scaled for comparison, or why there are none.
    pub fn space(&self, kind: VectorKind, similarity: Similarity) -> Result<ImageSpace, String> {
        Ok(ImageSpace::new(self.vectors_of(kind)?, self.grid, similarity))
    }
}
