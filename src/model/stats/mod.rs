//! Statistics for comparing probes: spread over seeds, tests over trainings and images, and the AUC of a map that
//! locates an object; and the means, ranks and random orders that others are made of.

mod comparison;
mod crossed;
mod tails;

use rand::Rng;
use rand::seq::SliceRandom;

pub use self::comparison::{holm, mcnemar};
pub use self::crossed::{CrossedMean, permutation};
pub use self::tails::{normal_tail, student_quantile, student_tail};

/// Mean of the values; `None` if there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.into_iter().fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// The sum of `terms`, as that of four partial sums of every fourth term: their additions overlap. Adding to `sums[i % 4]` takes
/// twice as long, as the sums are then kept in memory.
pub fn sum_by_fours(mut terms: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 4];
    'all: loop {
        for sum in &mut sums {
            let Some(term) = terms.next() else { break 'all };
            *sum += term;
        }
    }
    sums.iter().sum()
}

/// Mean of rows of `width` values, `[width]`.
pub fn mean_row<'a, T: Copy + Into<f64> + 'a>(
    rows: impl ExactSizeIterator<Item = &'a [T]>,
    width: usize,
) -> Vec<f64> {
    let (mut mean, count) = (vec![0.0; width], rows.len() as f64);
    for row in rows {
        mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += x.into() / count);
    }
    mean
}

/// Index of the largest value, the first of equals; 0 if there are none.
pub fn argmax(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, at| if values[at] > values[best] { at } else { best })
}

/// The indices of the values from the lowest up; ties by index.
pub fn argsort(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Mean and sample standard deviation (n - 1), which is absent for a single value.
pub fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Half width of the 95 % interval of the mean of `n` values with this standard deviation, by Student's t (to three decimals
/// up to 31 values, beyond that within 0.003); NaN for fewer than two values.
pub fn mean_interval(deviation: f64, n: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let Some(freedom) = n.checked_sub(1).filter(|freedom| *freedom > 0) else { return f64::NAN };
    let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64);
    t * deviation / (n as f64).sqrt()
}

/// A uniformly random order of `n` items.
pub fn shuffled(n: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(rng);
    order
}

/// A draw from the standard normal distribution, by the cosine of the Box-Muller transform.
pub fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// The quantiles `at` (each 0 to 1) of at least one value, linearly interpolated.
///
/// # Panics
/// If there is no value: a bug of the caller.
pub fn quantiles<const M: usize>(values: &[f64], at: [f64; M]) -> [f64; M] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    at.map(|q| {
        let at = q * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    })
}

/// Ranks from 0, ties at their mean.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for tie in argsort(values).chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = start as f64 + (tie.len() - 1) as f64 / 2.0;
        tie.iter().for_each(|&at| ranks[at] = rank);
        start += tie.len();
    }
    ranks
}

/// Kendall's tau-b of two lists of equal length, in O(N log N): the pairs of items that both order alike less those that they
/// order differently, as a share of the pairs that each orders (geometric mean); 0 if one of the lists is constant, NaN if a value is.
pub fn kendall(a: &[f64], b: &[f64]) -> f64 {
    fn tied_pairs<T>(sorted: &[T], tie: impl Fn(&T, &T) -> bool) -> usize {
        sorted.chunk_by(tie).map(|run| run.len() * (run.len() - 1) / 2).sum()
    }
    if a.iter().chain(b).any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let mut items: Vec<(f64, f64)> = b.iter().copied().zip(a.iter().copied()).collect();
    items.sort_by(|x, y| x.partial_cmp(y).expect("none is NaN"));
    let n = items.len();
    let pairs = n * n.saturating_sub(1) / 2;
    let tied_in_both = tied_pairs(&items, |x, y| x == y);
    let ordered_by_b = pairs - tied_pairs(&items, |x, y| x.0 == y.0);
    // Items that tie in b are sorted by a, so that they add no inversion.
    let mut a: Vec<f64> = items.into_iter().map(|(_, a)| a).collect();
    let discordant = inversions(&mut a, &mut vec![0.0; n]);
    let ordered_by_a = pairs - tied_pairs(&a, |x, y| x == y);
    if ordered_by_a == 0 || ordered_by_b == 0 {
        return 0.0;
    }
    let ordered_by_both = ordered_by_a + ordered_by_b + tied_in_both - pairs;
    (ordered_by_both as f64 - 2.0 * discordant as f64) / (ordered_by_a as f64 * ordered_by_b as f64).sqrt()
}

/// Number of pairs out of order, by merge sort; sorts `items`. `buffer` must be at least as long.
fn inversions(items: &mut [f64], buffer: &mut [f64]) -> usize {
    let n = items.len();
    if n < 2 {
        return 0;
    }
    let (left, right) = items.split_at_mut(n / 2);
    let mut count = inversions(left, buffer) + inversions(right, buffer);
    let (mut l, mut r) = (0, 0);
    for slot in &mut buffer[..n] {
        if r == right.len() || (l < left.len() && left[l] <= right[r]) {
            *slot = left[l];
            l += 1;
        } else {
            *slot = right[r];
            count += left.len() - l;
            r += 1;
        }
    }
    items.copy_from_slice(&buffer[..n]);
    count
}

/// Area under the ROC curve of `scores` as a predictor of `truth`: the probability that a token on the object
/// scores higher than one off it, ties counted half. None if all tokens are on the object, or all off it.
pub fn roc_auc(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let positives = truth.iter().filter(|&&t| t).count();
    let negatives = truth.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    let rank_sum: f64 = ranks(scores).iter().zip(truth).filter(|(_, is)| **is).map(|(rank, _)| rank).sum();
    let p = positives as f64;
    Some((rank_sum - p * (p - 1.0) / 2.0) / (p * negatives as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_term_is_in_the_same_partial_sum() {
        assert_eq!(sum_by_fours((1..=10).map(f64::from)), 55.0);
        // In a row, 1 would be lost beside the first term.
        assert_eq!(sum_by_fours([1e17, 1.0, 0.0, 0.0, -1e17].into_iter()), 1.0);
    }

    #[test]
    fn of_equally_large_values_the_first_is_the_largest() {
        assert_eq!((argmax(&[1.0, 3.0, -3.0, 3.0]), argmax(&[])), (1, 0));
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // scipy.stats.t.ppf(0.975, df) for df = 1, 2, 30, 60.
        for (n, t) in [(2, 12.706_204_7), (3, 4.302_652_7), (31, 2.042_272_5), (61, 2.000_297_8)] {
            let half = mean_interval(2.0, n);
            assert!((half - 2.0 * t / (n as f64).sqrt()).abs() < 0.003, "{n}: {half}");
        }
        assert!(mean_interval(2.0, 1).is_nan() && mean_interval(2.0, 0).is_nan());
    }

    #[test]
    fn tau_counts_every_pair_as_the_definition_does() {
        let a = [3.0, 1.0, 1.0, 7.5, 0.0, 3.0, 3.0, 9.0, -2.0];
        let raster = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        for b in [raster, [2.0, 5.0, 5.0, 0.0, -0.0, 2.0, 4.0, 1.0, 5.0]] {
            let (mut sum, mut in_a, mut in_b) = (0.0, 0.0, 0.0);
            for (i, j) in (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
                in_a += f64::from(a[i] != a[j]);
                in_b += f64::from(b[i] != b[j]);
                if a[i] != a[j] && b[i] != b[j] {
                    sum += f64::signum(a[i] - a[j]) * f64::signum(b[i] - b[j]);
                }
            }
            assert!((kendall(&a, &b) - sum / f64::sqrt(in_a * in_b)).abs() < 1e-15);
            assert_eq!(kendall(&a, &b), kendall(&b, &a));
        }
        assert_eq!((kendall(&a, &a), kendall(&a, &[2.0; 9]), kendall(&[], &[])), (1.0, 0.0, 0.0));
        assert_eq!(kendall(&[0.0, 1.0, 2.0], &[2.0, 1.0, 0.0]), -1.0);
        assert!(
            kendall(&[0.0, f64::NAN], &[0.0, 1.0]).is_nan()
                && kendall(&[0.0, 1.0], &[0.0, f64::NAN]).is_nan()
        );
    }
}
