//! Weighted k-nearest-neighbour classifier, the usual evaluation of self-supervised backbones (Wu et al. 2018;
//! Caron et al. 2021, DINO): the k training images of largest cosine similarity `s` each vote for their
//! class with `exp(s / T)`; k 20, T 0.07. Ties go to the earlier image and to the lower class.

use ndarray::{ArrayView2, s};
use rayon::prelude::*;

use super::Vectors;
use crate::model::stats::argmax;

/// Test images (rows) and training images (columns) in one matrix product.
const ROWS: usize = 64;
const COLUMNS: usize = 4096;

/// Number of neighbours that vote; all training images if there are fewer.
pub const K: usize = 20;
/// Temperature T that similarities are divided by before the exponential.
pub const TEMPERATURE: f64 = 0.07;

/// The training images.
pub struct Neighbours<'a> {
    train: Vectors,
    classes: &'a [usize],
    count: usize,
}

impl<'a> Neighbours<'a> {
    /// From `train` vectors with their `classes`, of which there are `count`.
    pub fn new(train: Vectors, classes: &'a [usize], count: usize) -> Self {
        Self { train: normalised(train), classes, count }
    }

    /// Predicted class of every vector of `test`.
    pub fn predict(&self, test: Vectors) -> Vec<u32> {
        let (train, test) = (&self.train, normalised(test));
        let train =
            ArrayView2::from_shape((train.count(), train.width), &train.values).expect("whole vectors");
        let classify = |block: &[f32]| {
            let block =
                ArrayView2::from_shape((block.len() / test.width, test.width), block).expect("whole vectors");
            let mut nearest = vec![Vec::with_capacity(K + 1); block.nrows()];
            for from in (0..train.nrows()).step_by(COLUMNS) {
                let to = (from + COLUMNS).min(train.nrows());
                let similar = block.dot(&train.slice(s![from..to, ..]).t()); // [rows, columns]
                for (row, nearest) in similar.rows().into_iter().zip(&mut nearest) {
                    for (i, &similarity) in row.iter().enumerate() {
                        insert(nearest, similarity, from + i);
                    }
                }
            }
            nearest.into_iter().map(|nearest| vote(&nearest, self.classes, self.count)).collect::<Vec<_>>()
        };
        test.values.par_chunks(ROWS * test.width.max(1)).flat_map_iter(classify).collect()
    }
}

/// Inserts an image into the list of the k most similar, best first, if it belongs there.
fn insert(nearest: &mut Vec<(f32, usize)>, similarity: f32, image: usize) {
    if nearest.len() == K && nearest.last().is_none_or(|last| similarity <= last.0) {
        return;
    }
    let at = nearest.partition_point(|other| other.0 >= similarity);
    nearest.insert(at, (similarity, image));
    nearest.truncate(K);
}

fn vote(nearest: &[(f32, usize)], classes: &[usize], count: usize) -> u32 {
    let mut votes = vec![0.0; count];
    for &(similarity, image) in nearest {
        votes[classes[image]] += (f64::from(similarity) / TEMPERATURE).exp();
    }
    argmax(&votes) as u32
}

/// The vectors scaled to length 1; a zero vector stays as it is.
fn normalised(mut vectors: Vectors) -> Vectors {
    for row in vectors.values.chunks_exact_mut(vectors.width.max(1)) {
        let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
    }
    vectors
}
