//! Tests over images: of a share of them, and of two probes on the same ones; correction of several p values.

use super::{argsort, mean_and_deviation, student_quantile, student_tail};

/// A share of images, estimated over trainings and images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Mean over both, 0 to 1.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// One-sided p against the share that chance gives.
    pub p: f64,
}

/// The share of images of a kind, tested against `chance`. `rows[s][i]`: whether image `i` is of the kind in training `s`. Both
/// other trainings and other images would change the share: its variance is that over trainings plus that over images, by
/// Student's t with Welch-Satterthwaite degrees of freedom. The variance over images is at least that of a share with two
/// more images of either kind, so that images that all agree give no certainty.
pub fn share(rows: &[Vec<bool>], chance: f64) -> Share {
    let (trainings, images) = (rows.len() as f64, rows.first().map_or(0, Vec::len) as f64);
    let ratio = |row: &Vec<bool>| row.iter().filter(|is| **is).count() as f64 / images;
    let training_means: Vec<f64> = rows.iter().map(ratio).collect();
    let mean = training_means.iter().sum::<f64>() / trainings;
    let image_mean = |at: usize| rows.iter().filter(|row| row[at]).count() as f64 / trainings;
    let image_means: Vec<f64> = (0..images as usize).map(image_mean).collect();
    let variance = |values: &[f64]| {
        mean_and_deviation(values).1.map_or(0.0, |deviation| deviation.powi(2) / values.len() as f64)
    };
    let smoothed = (mean * images + 2.0) / (images + 4.0);
    let over_images = variance(&image_means).max(smoothed * (1.0 - smoothed) / (images + 4.0));
    let over_trainings = variance(&training_means);
    let total = over_images + over_trainings;
    let parts =
        over_images.powi(2) / (images - 1.0).max(1.0) + over_trainings.powi(2) / (trainings - 1.0).max(1.0);
    let df = total.powi(2) / parts;
    let half_width = student_quantile(0.025, df) * total.sqrt();
    Share {
        mean,
        interval: ((mean - half_width).max(0.0), (mean + half_width).min(1.0)),
        p: student_tail((mean - chance) / total.sqrt(), df),
    }
}

/// p values corrected for multiple testing by Holm's step-down method, in the order of `p`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let (mut corrected, mut largest) = (vec![0.0; p.len()], 0.0f64);
    for (rank, at) in argsort(p).into_iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        corrected[at] = largest;
    }
    corrected
}

/// Exact two-sided McNemar test on paired right/wrong answers: the probability that heads of equal
/// accuracy disagree at least this unevenly. `first[i]` and `second[i]`: whether each is right on image `i`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == '1').collect()
    }

    #[test]
    fn a_share_of_images_is_as_sure_as_its_trainings_and_images() {
        let kind = |every: usize| (0..400).map(|i| i % every == 0).collect::<Vec<bool>>();
        let chance = share(&[kind(20)], 0.05);
        assert!(chance.mean == 0.05 && chance.interval.0 < 0.05 && chance.interval.1 > 0.05, "{chance:?}");
        assert!((chance.p - 0.5).abs() < 1e-6, "{chance:?}");
        let many = share(&[kind(5)], 0.05);
        assert!(many.interval.0 > 0.15 && many.interval.1 < 0.25 && many.p < 1e-9, "{many:?}");
        // Two trainings that disagree give less certainty than one.
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
}
