//! Two principal axes of the vectors of all images: the eigenvectors of their covariance `[N, N]` (float64) with the largest
//! eigenvalues, by subspace iteration (Rutishauser, "Simultaneous iteration method for symmetric matrices", 1970). The covariance
//! is computed once, whatever the number of images; each step is then a product with a block of a few vectors.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::model::ops::gemm::Matrix;
use crate::model::ops::simd;
use crate::model::stats::{mean_row, normal};

/// Dimension of the iterated subspace: the more beyond two, the fewer steps.
const SUBSPACE: usize = 12;
/// Most steps.
const MAX_STEPS: usize = 2_000;
/// Largest residual `|A v - lambda v|` of an axis, relative to the largest eigenvalue.
const TOLERANCE: f64 = 1e-9;
/// Images whose products are summed at a time.
const BLOCK: usize = 256;
/// Most partial sums of the covariance: a fixed number, so that the result does not depend on the number of cores.
const MAX_PARTS: usize = 8;
/// Most bytes of the partial sums.
const MAX_BYTES: usize = 128 << 20;
/// Most tokens: their covariance is 134 MB.
const MAX_TOKENS: usize = 4096;
/// Variance below which all images are taken to be the same, for vectors of length 1 in float32.
const MIN_VARIANCE: f64 = 1e-12;

/// Coordinates of every image on the two principal axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Projection {
    /// `[M]`; `None` if an image has no vector.
    pub points: Vec<Option<[f32; 2]>>,
    /// Share of the variance along each axis.
    pub explained: [f32; 2],
}

/// Projects the rows `[M, N]` on two axes; of each axis the loading of largest magnitude (the first of equals) is positive.
///
/// # Errors
/// If fewer than two images are known, all are the same, or they have too many tokens.
pub(super) fn project(rows: &[f32], known: &[bool], n: usize) -> Result<Projection, String> {
    let images: Vec<&[f32]> =
        rows.chunks_exact(n).zip(known).filter(|(_, known)| **known).map(|(row, _)| row).collect();
    if images.len() < 2 {
        return Err(format!("{} image has such numbers, but a map needs two", images.len()));
    }
    if n > MAX_TOKENS {
        return Err(format!("A map takes at most {MAX_TOKENS} tokens per image, but these have {n}"));
    }
    let mean = mean_row(images.iter().copied(), n);
    let covariance = covariance(&images, &mean);
    let variance: f64 = (0..n).map(|at| covariance[at * n + at]).sum();
    if variance < MIN_VARIANCE {
        return Err("All images have the same numbers here: there is nothing to map".to_owned());
    }
    let (values, axes) = leading_eigenvectors(&covariance, n);
    let offsets = [0, 1].map(|axis| simd::dot(&mean, &axes[axis]));
    let point = |(row, known): (&[f32], &bool)| {
        let wide: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        known.then(|| [0, 1].map(|axis| (simd::dot(&wide, &axes[axis]) - offsets[axis]) as f32))
    };
    let points = rows.par_chunks(n).zip(known).map(point).collect();
    Ok(Projection { points, explained: values.map(|value| (value / variance).clamp(0.0, 1.0) as f32) })
}

/// The covariance `[N, N]`, divided by M - 1.
fn covariance(images: &[&[f32]], mean: &[f64]) -> Vec<f64> {
    let n = mean.len();
    let parts = (MAX_BYTES / (8 * n * n)).clamp(1, MAX_PARTS);
    let sum = |images: &[&[f32]]| {
        let mut sum = vec![0.0; n * n];
        for block in images.chunks(BLOCK) {
            let centred =
                block.iter().flat_map(|row| row.iter().zip(mean).map(|(x, mean)| f64::from(*x) - mean));
            let centred: Vec<f64> = centred.collect(); // [B, N]
            let block = Matrix::new(&centred, n);
            block.transposed().times(block, &mut sum);
        }
        sum
    };
    let sums: Vec<Vec<f64>> = images.par_chunks(images.len().div_ceil(parts)).map(sum).collect();
    let mut total = vec![0.0; n * n];
    let share = 1.0 / (images.len() as f64 - 1.0);
    sums.iter().for_each(|sum| simd::add_scaled(share, sum, &mut total));
    total
}

/// The two largest eigenvalues of a symmetric matrix `[N, N]` and their vectors; zeros if it has fewer.
fn leading_eigenvectors(matrix: &[f64], n: usize) -> ([f64; 2], [Vec<f64>; 2]) {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut basis: Vec<Vec<f64>> =
        (0..SUBSPACE.min(n)).map(|_| (0..n).map(|_| normal(&mut rng)).collect()).collect();
    orthonormalise(&mut basis);
    let product = |vector: &Vec<f64>| matrix.chunks_exact(n).map(|row| simd::dot(row, vector)).collect();
    for step in 1.. {
        let images: Vec<Vec<f64>> = basis.par_iter().map(product).collect(); // A times the basis
        let (values, rotation) =
            jacobi(basis.iter().map(|a| images.iter().map(|b| simd::dot(a, b)).collect()).collect());
        let images = combine(&images, &rotation);
        basis = combine(&basis, &rotation);
        let residual = |axis: usize| {
            let pairs = images[axis].iter().zip(&basis[axis]);
            pairs.map(|(image, own)| (image - values[axis] * own).powi(2)).sum::<f64>().sqrt()
        };
        if step >= MAX_STEPS || (0..basis.len().min(2)).all(|axis| residual(axis) <= TOLERANCE * values[0]) {
            let axis = |at: usize| basis.get(at).map_or_else(|| vec![0.0; n], |axis| with_fixed_sign(axis));
            return ([0, 1].map(|at| values.get(at).copied().unwrap_or(0.0)), [0, 1].map(axis));
        }
        basis = images;
        orthonormalise(&mut basis);
    }
    unreachable!("steps are counted")
}

/// Makes vectors orthogonal and of length 1; one that depends on those before it becomes 0.
fn orthonormalise(vectors: &mut [Vec<f64>]) {
    for at in 0..vectors.len() {
        let (before, rest) = vectors.split_at_mut(at);
        let own = &mut rest[0];
        let length = simd::dot(own, own).sqrt();
        // Gram-Schmidt twice: after one pass rounding leaves a remainder.
        for other in before.iter().chain(before.iter()) {
            let along = simd::dot(other, own);
            simd::add_scaled(-along, other, own);
        }
        let left = simd::dot(own, own).sqrt();
        let scale = if left > 1e-12 * length { 1.0 / left } else { 0.0 };
        own.iter_mut().for_each(|x| *x *= scale);
    }
}

/// Linear combinations of `vectors`, one for each list of weights.
fn combine(vectors: &[Vec<f64>], weights: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let sum = |weights: &Vec<f64>| {
        let mut sum = vec![0.0; vectors[0].len()];
        vectors.iter().zip(weights).for_each(|(vector, weight)| simd::add_scaled(*weight, vector, &mut sum));
        sum
    };
    weights.iter().map(sum).collect()
}

/// Eigenvalues of a small symmetric matrix, the largest first, and their vectors, by Jacobi rotations.
fn jacobi(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let p = matrix.len();
    let mut vectors: Vec<Vec<f64>> =
        (0..p).map(|i| (0..p).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let squared_norm: f64 = matrix.iter().flatten().map(|x| x * x).sum();
    for _ in 0..60 {
        let pairs = (0..p).flat_map(|i| (0..i).map(move |j| (i, j)));
        let off_diagonal: f64 = pairs.clone().map(|(i, j)| matrix[i][j].powi(2)).sum();
        if off_diagonal <= 1e-30 * squared_norm {
            break;
        }
        for (i, j) in pairs {
            if matrix[i][j] == 0.0 {
                continue;
            }
            let half = (matrix[j][j] - matrix[i][i]) / (2.0 * matrix[i][j]);
            let tangent = half.signum() / (half.abs() + half.hypot(1.0));
            let cosine = 1.0 / tangent.hypot(1.0);
            let sine = tangent * cosine;
            for row in &mut matrix {
                (row[i], row[j]) = (cosine * row[i] - sine * row[j], sine * row[i] + cosine * row[j]);
            }
            for rows in [&mut matrix, &mut vectors] {
                // j < i.
                let (before, from) = rows.split_at_mut(i);
                for (a, b) in from[0].iter_mut().zip(&mut before[j]) {
                    (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..p).collect();
    order.sort_by(|&a, &b| matrix[b][b].total_cmp(&matrix[a][a]));
    order.into_iter().map(|at| (matrix[at][at], std::mem::take(&mut vectors[at]))).unzip()
}

/// The vector or its negative, so that the entry of largest magnitude is positive.
fn with_fixed_sign(axis: &[f64]) -> Vec<f64> {
    let largest = axis.iter().fold(0.0, |largest: f64, x| if x.abs() > largest.abs() { *x } else { largest });
    axis.iter().map(|x| if largest < 0.0 { -x } else { *x }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_depend_on_others_are_nothing() {
        let mut vectors = vec![vec![2.0, 0.0], vec![1.0, 1.0], vec![3.0, 4.0]];
        orthonormalise(&mut vectors);
        assert_eq!(vectors, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]);
    }
}
