//! Weighted nearest neighbours as self-supervised backbones are compared by (Wu et al. 2018; Caron et
//! al. 2021, DINO): cosine similarity `s`, the k most similar training images, each voting for its
//! class with `exp(s / T)`; k 20, T 0.07. Ties go to the earlier image and to the lower class.

use ndarray::{ArrayView2, s};
use rayon::prelude::*;

use super::Vectors;

/// Test images of one block, and training images of one product.
const ROWS: usize = 64;
const COLUMNS: usize = 4096;

/// Nearest neighbours by cosine similarity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knn {
    /// Neighbours that vote; all of them where there are fewer.
    pub k: usize,
    /// What similarities are divided by before the exponential.
    pub temperature: f64,
}

impl Default for Knn {
    fn default() -> Self {
        Self { k: 20, temperature: 0.07 }
    }
}

impl Knn {
    /// Class of every vector of `asked`, by the classes of `known`.
    pub fn predict(&self, known: &Vectors, classes: &[usize], asked: &Vectors, count: usize) -> Vec<u32> {
        let (known, asked) = (unit(known), unit(asked));
        let known = view(&known);
        let vote = |block: &[f32]| {
            let block = ArrayView2::from_shape((block.len() / asked.width, asked.width), block)
                .expect("whole vectors");
            let mut nearest = vec![Vec::with_capacity(self.k + 1); block.nrows()];
            for from in (0..known.nrows()).step_by(COLUMNS) {
                let to = (from + COLUMNS).min(known.nrows());
                let similar = block.dot(&known.slice(s![from..to, ..]).t()); // [rows, columns]
                for (row, nearest) in similar.rows().into_iter().zip(&mut nearest) {
                    for (i, &similarity) in row.iter().enumerate() {
                        self.meet(nearest, similarity, from + i);
                    }
                }
            }
            nearest.into_iter().map(|nearest| self.elect(&nearest, classes, count)).collect::<Vec<_>>()
        };
        asked.values.par_chunks(ROWS * asked.width.max(1)).flat_map_iter(vote).collect()
    }

    /// Keeps the k most similar, best first.
    fn meet(&self, nearest: &mut Vec<(f32, usize)>, similarity: f32, image: usize) {
        if nearest.len() == self.k && nearest.last().is_none_or(|last| similarity <= last.0) {
            return;
        }
        let at = nearest.partition_point(|known| known.0 >= similarity);
        nearest.insert(at, (similarity, image));
        nearest.truncate(self.k);
    }

    fn elect(&self, nearest: &[(f32, usize)], classes: &[usize], count: usize) -> u32 {
        let mut votes = vec![0.0; count];
        for &(similarity, image) in nearest {
            votes[classes[image]] += (f64::from(similarity) / self.temperature).exp();
        }
        let best = (0..count).fold(0, |best, class| if votes[class] > votes[best] { class } else { best });
        best as u32
    }
}

/// The vectors at length 1; a vector of zeros stays.
fn unit(vectors: &Vectors) -> Vectors {
    let mut values = vectors.values.clone();
    for row in values.chunks_exact_mut(vectors.width.max(1)) {
        let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
    }
    Vectors { width: vectors.width, values }
}

fn view(vectors: &Vectors) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((vectors.len(), vectors.width), &vectors.values).expect("whole vectors")
}
