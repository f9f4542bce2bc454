//! Honest comparisons: spread over seeds, paired tests between heads, and how well a map finds an
//! object.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mean and sample standard deviation (n - 1); the deviation of a single value is absent.
pub fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Half width of the 95 % interval of the mean of `n` values of this standard deviation, by Student's t (three decimals up
/// to 31 values, beyond within 0.003); 0 of a single one.
pub fn mean_interval(deviation: f64, n: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let Some(freedom) = n.checked_sub(1).filter(|freedom| *freedom > 0) else { return 0.0 };
    let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64);
    t * deviation / (n as f64).sqrt()
}

/// A draw from the standard normal distribution, by Box and Muller's cosine.
pub fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// The probability that a standard normal draw is at least `z`, to 1e-14: Marsaglia's series near 0, a continued
/// fraction in the tail.
pub fn normal_tail(z: f64) -> f64 {
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z.abs() < 3.0 {
        let (mut sum, mut term, mut k) = (0.0, z, 1.0);
        while sum + term != sum {
            sum += term;
            k += 2.0;
            term *= z * z / k;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=120).rev().fold(z.abs(), |below, k| z.abs() + f64::from(k) / below);
    if z > 0.0 { density / fraction } else { 1.0 - density / fraction }
}

/// The probability that a draw from Student's t distribution with `df` degrees of freedom is at least `t`, to four digits:
/// with `t = sqrt(df) tan(angle)` it is the share of `cos(angle)^(df - 1)` that lies beyond.
pub fn student_tail(t: f64, df: f64) -> f64 {
    const STEPS: usize = 4096;
    if df > 1e5 {
        return normal_tail(t);
    }
    // Simpson's rule from an angle to the end.
    let beyond = |from: f64| {
        let step = (std::f64::consts::FRAC_PI_2 - from) / STEPS as f64;
        let at = |i: usize| (from + i as f64 * step).cos().max(0.0).powf(df - 1.0);
        let inner: f64 = (1..STEPS).map(|i| if i % 2 == 1 { 4.0 * at(i) } else { 2.0 * at(i) }).sum();
        (at(0) + inner + at(STEPS)) * step / 3.0
    };
    let tail = 0.5 * beyond((t.abs() / df.sqrt()).atan()) / beyond(0.0);
    if t < 0.0 { 1.0 - tail } else { tail }
}

/// The number that a share `tail`, below a half, of draws from Student's t distribution exceeds.
pub fn student_quantile(tail: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_tail(high, df) > tail && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if student_tail(middle, df) > tail { low = middle } else { high = middle }
    }
    high
}

/// What a share of images came to, over trainings and images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Mean over both, 0 to 1.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// One-sided p against what chance gives.
    pub p: f64,
}

/// How many images are of a kind (`rows`: a training each; columns: the same images) beside `chance`. Another training and
/// other images would both change it: the mean's variance is that over trainings plus that over images, by Student's t
/// with Welch and Satterthwaite's degrees of freedom. No image counts as certain: the variance over images is at least
/// that of a share with two more of either kind.
pub fn share(rows: &[Vec<bool>], chance: f64) -> Share {
    let (trainings, images) = (rows.len() as f64, rows.first().map_or(0, Vec::len) as f64);
    let ratio = |row: &Vec<bool>| row.iter().filter(|is| **is).count() as f64 / images;
    let means: Vec<f64> = rows.iter().map(ratio).collect();
    let mean = means.iter().sum::<f64>() / trainings;
    let of_image = |at: usize| rows.iter().filter(|row| row[at]).count() as f64 / trainings;
    let each: Vec<f64> = (0..images as usize).map(of_image).collect();
    let variance = |values: &[f64]| {
        mean_and_deviation(values).1.map_or(0.0, |deviation| deviation.powi(2) / values.len() as f64)
    };
    let softer = (mean * images + 2.0) / (images + 4.0);
    let over_images = variance(&each).max(softer * (1.0 - softer) / (images + 4.0));
    let over_trainings = variance(&means);
    let total = over_images + over_trainings;
    let parts =
        over_images.powi(2) / (images - 1.0).max(1.0) + over_trainings.powi(2) / (trainings - 1.0).max(1.0);
    let df = total.powi(2) / parts;
    let reach = student_quantile(0.025, df) * total.sqrt();
    Share {
        mean,
        interval: ((mean - reach).max(0.0), (mean + reach).min(1.0)),
        p: student_tail((mean - chance) / total.sqrt(), df),
    }
}

/// p values corrected for their number by Holm's step-down method, in the order they came.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut corrected, mut largest) = (vec![0.0; p.len()], 0.0f64);
    for (rank, at) in order.into_iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        corrected[at] = largest;
    }
    corrected
}

/// Exact two-sided McNemar test on paired right/wrong answers: the probability that heads of equal
/// accuracy disagree at least this unevenly. `first` and `second` hold one answer an image.
pub fn mcnemar(first: &[bool], second: &[bool]) -> f64 {
    let only = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|&(&x, &y)| x && !y).count();
    let (first_only, second_only) = (only(first, second), only(second, first));
    let n = first_only + second_only;
    let log_factorials: Vec<f64> = std::iter::once(0.0)
        .chain((1..=n).scan(0.0, |sum, k| {
            *sum += (k as f64).ln();
            Some(*sum)
        }))
        .collect();
    let probability = |k: usize| {
        let choose = log_factorials[n] - log_factorials[k] - log_factorials[n - k];
        (choose - n as f64 * std::f64::consts::LN_2).exp()
    };
    let tail: f64 = (0..=first_only.min(second_only)).map(probability).sum();
    (2.0 * tail).min(1.0)
}

/// 95 % bootstrap interval of the mean over trainings (rows) and images (columns), from 2000 seeded
/// resamples of both: of all images anew, and of all trainings where there are several.
pub fn bootstrap_mean(values: &[Vec<f64>], seed: u64) -> (f64, f64) {
    const RESAMPLES: usize = 2000;
    let (rows, n) = (values.len(), values.first().map_or(0, Vec::len));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means = vec![0.0; n];
    let mut resample = || {
        let drawn: Vec<&Vec<f64>> = (0..rows).map(|_| &values[rng.random_range(0..rows)]).collect();
        // Every image's mean in order first: reading that is quick, and drawing reads one number each.
        for (i, mean) in means.iter_mut().enumerate() {
            *mean = drawn.iter().map(|row| row[i]).sum::<f64>() / rows as f64;
        }
        (0..n).map(|_| means[rng.random_range(0..n)]).sum::<f64>() / n as f64
    };
    let [low, high] = quantiles(&(0..RESAMPLES).map(|_| resample()).collect::<Vec<_>>(), [0.025, 0.975]);
    (low, high)
}

/// Linearly interpolated quantiles, each from 0 to 1, of at least one value.
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

/// Area under the ROC curve of `scores` finding `truth`: the probability that a token on the object
/// scores higher than one off it, ties counted half. Absent if there is none of either.
pub fn roc_auc(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let positives = truth.iter().filter(|&&t| t).count();
    let negatives = truth.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    let mut rank_sum = 0.0;
    let mut start = 0;
    for tie in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let rank = start as f64 + (tie.len() + 1) as f64 / 2.0; // mean rank of the tie, from 1
        rank_sum += rank * tie.iter().filter(|&&i| truth[i]).count() as f64;
        start += tie.len();
    }
    let p = positives as f64;
    Some((rank_sum - p * (p + 1.0) / 2.0) / (p * negatives as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == '1').collect()
    }

    #[test]
    fn spread_is_the_sample_deviation() {
        assert_eq!(mean_and_deviation(&[2.0, 4.0, 6.0]), (4.0, Some(2.0)));
        assert_eq!(mean_and_deviation(&[5.0]), (5.0, None));
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantiles(&[4.0, 1.0, 3.0, 2.0], [0.5, 0.0]), [2.5, 1.0]);
        assert_eq!(quantiles(&[7.0], [0.95]), [7.0]);
        assert!((quantiles(&[0.0, 10.0], [0.95])[0] - 9.5).abs() < 1e-12);
    }

    #[test]
    fn the_normal_tail_is_that_of_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_05),
            (-1.0, 0.841_344_746_068_542_9),
            (2.999, 0.001_354_336_533_727_105_7),
            (3.001, 0.001_345_472_825_084_965_3),
            (6.0, 9.865_876_450_376_946e-10),
            (-6.0, 1.0 - 9.865_876_450_376_946e-10),
        ] {
            assert!((normal_tail(z) - p).abs() < 1e-12 * p, "{z}: {}", normal_tail(z));
        }
        assert!((normal_tail(1.0) + normal_tail(-1.0) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_share_of_images_is_as_sure_as_its_trainings_and_images() {
        let kind = |every: usize| (0..400).map(|i| i % every == 0).collect::<Vec<bool>>();
        let chance = share(&[kind(20)], 0.05);
        assert!(chance.mean == 0.05 && chance.interval.0 < 0.05 && chance.interval.1 > 0.05, "{chance:?}");
        assert!((chance.p - 0.5).abs() < 1e-6, "{chance:?}");
        let many = share(&[kind(5)], 0.05);
        assert!(many.interval.0 > 0.15 && many.interval.1 < 0.25 && many.p < 1e-9, "{many:?}");
        // Trainings that disagree say less than one.
        let unsure = share(&[kind(20), kind(2)], 0.05);
        assert!(unsure.interval == (0.0, 1.0) && unsure.p > 0.05, "{unsure:?}");
        let all = share(&[vec![true; 10]], 0.05);
        assert!(all.mean == 1.0 && all.interval.0 < 0.9 && all.p > 0.0, "{all:?}");
    }

    #[test]
    fn holm_steps_down() {
        let corrected = holm(&[0.04, 0.01, 0.03, 0.5]);
        let expected = [0.09, 0.04, 0.09, 0.5];
        assert!(corrected.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{corrected:?}");
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn mcnemar_is_the_binomial_tail() {
        // 1 against 5 discordant images: 2 * (1 + 6) / 64.
        let p = mcnemar(&answers("1000001111"), &answers("0111111111"));
        assert!((p - 14.0 / 64.0).abs() < 1e-12, "{p}");
        assert_eq!(mcnemar(&answers("1010"), &answers("1010")), 1.0);
    }

    #[test]
    fn a_clear_difference_excludes_zero() {
        let difference = |of_four: f64| (0..200).map(|i| if i % 4 == 0 { of_four } else { 0.0 }).collect();
        let alike: [Vec<f64>; 2] = [difference(100.0), difference(100.0)];
        let (low, high) = bootstrap_mean(&alike, 0);
        assert!(low > 15.0 && high < 35.0 && low < 25.0 && high > 25.0, "{low} {high}");
    }

    #[test]
    fn one_training_apart_widens_the_interval() {
        let rows = [vec![0.0; 200], vec![0.0; 200], vec![-12.0; 200]];
        let (low, high) = bootstrap_mean(&rows, 0);
        // All images agree: only the draw of three trainings moves the mean.
        assert!((low, high) == (-12.0, 0.0), "{low} {high}");
        assert_eq!(bootstrap_mean(&rows[2..], 0), (-12.0, -12.0));
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // scipy.stats.t.ppf(0.975, df) for df = 1, 2, 30, 60.
        for (n, t) in [(2, 12.706_204_7), (3, 4.302_652_7), (31, 2.042_272_5), (61, 2.000_297_8)] {
            let half = mean_interval(2.0, n);
            assert!((half - 2.0 * t / (n as f64).sqrt()).abs() < 0.003, "{n}: {half}");
        }
        assert_eq!([mean_interval(2.0, 1), mean_interval(2.0, 0)], [0.0; 2]);
    }

    #[test]
    fn auc_counts_ordered_pairs() {
        assert_eq!(roc_auc(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true]), Some(0.75));
        assert_eq!(roc_auc(&[1.0, 1.0], &[true, false]), Some(0.5));
        assert_eq!(roc_auc(&[1.0, 2.0], &[true, true]), None);
    }
}
