//! The order of a plan by expected positions, and how far it is from raster order.

use crate::model::grid::Grid;
use crate::model::ops::simd::vectorised;
use crate::model::stats::kendall;

/// Kendall's tau-b of `positions[i]` against `i`.
pub fn kendall_tau(positions: &[f64]) -> f64 {
    let raster: Vec<f64> = (0..positions.len()).map(|i| i as f64).collect();
    kendall(&raster, positions)
}

/// Mean Euclidean distance, in patches, between consecutive tokens of an order: 1 for a path along
/// neighbours. `order[k]` is the token at step `k`.
pub fn path_length(order: &[usize], grid: Grid) -> f64 {
    let cell = |i: usize| ((i / grid.cols) as f64, (i % grid.cols) as f64);
    let steps = order.windows(2).map(|pair| {
        let ((r0, c0), (r1, c1)) = (cell(pair[0]), cell(pair[1]));
        (r1 - r0).hypot(c1 - c0)
    });
    steps.sum::<f64>() / order.len().saturating_sub(1).max(1) as f64
}

/// Statistics of one row of a plan, that of one token.
pub(super) struct Row {
    pub sum: f64,
    pub max: f64,
    /// The first position of the largest share.
    pub best: usize,
    /// Expected position.
    pub expected: f64,
    /// Standard deviation of the position.
    pub spread: f64,
}

impl Row {
    pub fn from_shares(row: &[f64]) -> Self {
        let n = row.len() as f64;
        let [sum, moment, max] = row_moments(row);
        let best = row.iter().position(|&share| share == max).unwrap_or(0);
        if sum <= 0.0 {
            let (expected, spread) = ((n - 1.0) / 2.0, ((n * n - 1.0) / 12.0).sqrt());
            return Self { sum, max, best, expected, spread };
        }
        let expected = moment / sum;
        Self { sum, max, best, expected, spread: (second_moment(row, expected) / sum).sqrt() }
    }
}

/// Partial sums of a row: independent, so that they vectorise.
const LANES: usize = 16;

vectorised! {
    /// Sum, sum of positions times shares, and largest share of a row.
    fn row_moments<const FUSED: bool>(row: &[f64]) -> [f64; 3] {
        let (blocks, rest) = row.as_chunks::<LANES>();
        let [mut sums, mut moments, mut largest] = [[0.0; LANES], [0.0; LANES], [f64::NEG_INFINITY; LANES]];
        for (at, block) in blocks.iter().enumerate() {
            let first = (at * LANES) as f64;
            for lane in 0..LANES {
                sums[lane] += block[lane];
                moments[lane] += (first + lane as f64) * block[lane];
                largest[lane] = if block[lane] > largest[lane] { block[lane] } else { largest[lane] };
            }
        }
        let first = blocks.len() * LANES;
        for (lane, &share) in rest.iter().enumerate() {
            sums[lane] += share;
            moments[lane] += (first + lane) as f64 * share;
            largest[lane] = if share > largest[lane] { share } else { largest[lane] };
        }
        let max = largest.into_iter().fold(f64::NEG_INFINITY, f64::max);
        [sums.into_iter().sum(), moments.into_iter().sum(), max]
    }
}

vectorised! {
    /// `sum_k (k - mean)^2 row[k]`.
    fn second_moment<const FUSED: bool>(row: &[f64], mean: f64) -> f64 {
        let (blocks, rest) = row.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (at, block) in blocks.iter().enumerate() {
            let first = (at * LANES) as f64 - mean;
            for lane in 0..LANES {
                let deviation = first + lane as f64;
                sums[lane] += deviation * deviation * block[lane];
            }
        }
        let first = (blocks.len() * LANES) as f64 - mean;
        for (lane, share) in rest.iter().enumerate() {
            let deviation = first + lane as f64;
            sums[lane] += deviation * deviation * share;
        }
        sums.into_iter().sum()
    }
}
