//! A mean over crossed trainings and images: every training answers the same images. Both other trainings and other images
//! would change it (docs/definitions.md, section 13).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::tails::{solve_decreasing, t_scales};
use super::{normal_tail, student_tail};

/// Steps of an integral over the scale of Student's t ([`t_scales`]).
const STEPS: usize = 100;
/// Steps of an integral over the estimates of a variance.
const ESTIMATES: usize = 128;

/// A mean over trainings and images, with the variance that both give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossedMean {
    /// The mean.
    pub mean: f64,
    /// The part of the mean's variance that is treated as Student's t, and its degrees of freedom: that of trainings where
    /// there are several, else that of images.
    t_part: (f64, f64),
    /// The part that is treated as normal: that of images where there are several trainings, else 0.
    normal_part: f64,
}

/// Mean squares of a table, by the analysis of variance of two crossed random effects without replication.
struct MeanSquares {
    mean: f64,
    /// Mean of every image over trainings, `[n]`.
    images: Vec<f64>,
    between_trainings: f64,
    between_images: f64,
    residual: f64,
}

impl MeanSquares {
    /// The mean squares of `rows[training][image]`. A mean square between trainings or images is 0 where there is only one of them.
    fn new(rows: &[Vec<f64>]) -> Self {
        let (s, n) = (rows.len() as f64, rows.first().map_or(0, Vec::len) as f64);
        let trainings: Vec<f64> = rows.iter().map(|row| row.iter().sum::<f64>() / n).collect();
        let images: Vec<f64> =
            (0..n as usize).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / s).collect();
        let mean = trainings.iter().sum::<f64>() / s;
        let sum_of_squares = |values: &[f64]| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        let row_residual = |(row, training): (&Vec<f64>, &f64)| -> f64 {
            row.iter().zip(&images).map(|(v, image)| (v - training - image + mean).powi(2)).sum()
        };
        let residual: f64 = rows.iter().zip(&trainings).map(row_residual).sum();
        Self {
            mean,
            between_trainings: n * sum_of_squares(&trainings) / (s - 1.0).max(1.0),
            between_images: s * sum_of_squares(&images) / (n - 1.0).max(1.0),
            residual: residual / ((s - 1.0) * (n - 1.0)).max(1.0),
            images,
        }
    }
}

impl CrossedMean {
    /// The mean of `rows[training][image]`. The variance between trainings includes how they differ on single images; what images add
    /// to it counts if it is positive. The standard error is at least `least`, as no number of images that agree gives
    /// certainty. With one training, the mean generalises to other images alone.
    pub fn new(rows: &[Vec<f64>], least: f64) -> Self {
        let (trainings, images) = (rows.len(), rows.first().map_or(0, Vec::len));
        let squares = MeanSquares::new(rows);
        let cells = (trainings * images) as f64;
        let image_variance = (squares.between_images - squares.residual).max(0.0) / cells;
        Self::from_parts(
            squares.mean,
            (squares.between_trainings / cells, trainings),
            (image_variance, images),
            least,
        )
    }

    /// The distribution to expect, before any training, of the mean difference of two heads in percent, if `share` of the images
    /// are answered correctly by one of the two alone, half of those alike in all trainings.
    pub fn expected(images: usize, trainings: usize, share: f64) -> Self {
        let variance = 1e4 * share / images as f64;
        let alike_in_all = if trainings > 1 { 0.5 } else { 1.0 };
        let within = (1.0 - alike_in_all) * variance / trainings as f64;
        Self::from_parts(0.0, (within, trainings), (alike_in_all * variance, images), 0.0)
    }

    /// From the variance of the mean due to trainings and due to images, each with their number, and the least standard error.
    fn from_parts(mean: f64, trainings: (f64, usize), images: (f64, usize), least: f64) -> Self {
        let least = least.powi(2);
        let n = images.1 as f64;
        if trainings.1 < 2 {
            return Self { mean, t_part: (images.0.max(least), (n - 1.0).max(1.0)), normal_part: 0.0 };
        }
        // The variance if this part were Student's t with n - 1 degrees of freedom.
        let image_variance = images.0 * (n - 1.0) / (n - 3.0).max(1.0);
        let t_part = (trainings.0.max(f64::MIN_POSITIVE), (trainings.1 - 1) as f64);
        Self { mean, t_part, normal_part: image_variance.max(least - trainings.0) }
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        (self.t_part.0 + self.normal_part).sqrt()
    }

    /// The probability that the mean lies `distance` or more above the true one: its error is the sum of a Student's t and a
    /// normal variable (Behrens and Fisher).
    fn tail(&self, distance: f64) -> f64 {
        self.tail_over(&self.scales(), distance)
    }

    /// The scales of the Student's t part, with their probabilities ([`t_scales`]).
    fn scales(&self) -> Vec<(f64, f64)> {
        t_scales(self.t_part.1, STEPS).collect()
    }

    /// [`tail`](Self::tail) with given [`scales`](Self::scales).
    fn tail_over(&self, scales: &[(f64, f64)], distance: f64) -> f64 {
        let ((t_variance, df), normal_variance) = (self.t_part, self.normal_part);
        if distance == 0.0 {
            return 0.5; // the distribution is symmetric; the shares of the scales sum to 1 but for rounding
        }
        if normal_variance == 0.0 {
            return student_tail(distance / t_variance.sqrt(), df);
        }
        let deviation = |scale: f64| (t_variance / (scale * scale) + normal_variance).sqrt();
        scales.iter().map(|(scale, share)| share * normal_tail(distance / deviation(*scale))).sum()
    }

    /// Half width of the 95 % interval, with given [`scales`](Self::scales).
    fn half_width(&self, scales: &[(f64, f64)]) -> f64 {
        solve_decreasing(0.025, |errors| self.tail_over(scales, errors * self.error())) * self.error()
    }

    /// The 95 % interval of the mean.
    pub fn interval(&self) -> (f64, f64) {
        let half_width = self.half_width(&self.scales());
        (self.mean - half_width, self.mean + half_width)
    }

    /// [`interval`](Self::interval) of a quantity that lies within `range`: what is cut off is no possible value of the true mean, so
    /// that it contains this as often.
    pub fn interval_within(&self, range: RangeInclusive<f64>) -> (f64, f64) {
        let (low, high) = self.interval();
        (low.max(*range.start()), high.min(*range.end()))
    }

    /// Two-sided p of the hypothesis that the true mean is 0.
    pub fn p(&self) -> f64 {
        (2.0 * self.tail(self.mean.abs())).min(1.0)
    }

    /// One-sided p of the hypothesis that the true mean is `value` or less.
    pub fn p_above(&self, value: f64) -> f64 {
        self.tail(self.mean - value)
    }

    /// p of the hypothesis that the true mean is `margin` or more from 0: the larger of two one-sided tests (TOST).
    pub fn equivalence(&self, margin: f64) -> f64 {
        self.tail(margin - self.mean.abs())
    }

    /// The smallest true mean that a two-sided test at 5 % detects with probability `power`, if trainings and images vary as they
    /// do here.
    pub fn detectable(&self, power: f64) -> f64 {
        let (t_variance, df) = self.t_part;
        // The variance of the t part is itself an estimate: for each value of it, how far from 0 the mean must be.
        let scales = self.scales();
        let half_width_at = |&(scale, share): &(f64, f64)| {
            (Self { t_part: (t_variance * scale * scale, df), ..*self }.half_width(&scales), share)
        };
        let estimates: Vec<(f64, f64)> = t_scales(df, ESTIMATES).collect();
        let half_widths: Vec<(f64, f64)> = estimates.par_iter().map(half_width_at).collect();
        let missed = |errors: f64| {
            let within = |half_width: f64| {
                normal_tail(-half_width / self.error() - errors)
                    - normal_tail(half_width / self.error() - errors)
            };
            half_widths.iter().map(|(half_width, share)| share * within(*half_width)).sum()
        };
        solve_decreasing(1.0 - power, missed) * self.error()
    }
}

/// Two-sided p of equal means by permutation, over `draws` seeded draws, of `first[training][image]` and `second` alike. Each draw
/// deals all trainings anew to the two heads, and flips the sign of every image's effect on the difference at random, scaled down
/// to how much images vary beyond trainings within an image. With one training each it flips the signs of images alone.
pub fn permutation(first: &[Vec<f64>], second: &[Vec<f64>], draws: usize, seed: u64) -> f64 {
    let subtract =
        |(a, b): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let differences: Vec<Vec<f64>> = first.iter().zip(second).map(subtract).collect();
    let MeanSquares { mean, images, between_images, residual, .. } = MeanSquares::new(&differences);
    let (s, n) = (differences.len(), images.len() as f64);
    // The variation of trainings within an image is already in the trainings that are dealt.
    let share = if between_images > residual { (1.0 - residual / between_images).sqrt() } else { 0.0 };
    let images: Vec<f64> = match s {
        1 => images,
        _ => images.iter().map(|image| share * (image - mean)).collect(),
    };
    // Images share few effects, as each is right or wrong in every training: for every effect a bit of each image that has it.
    let words = images.len().div_ceil(64);
    let mut sharing: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (at, image) in images.iter().enumerate() {
        sharing.entry(image.to_bits()).or_insert_with(|| vec![0; words])[at / 64] |= 1 << (at % 64);
    }
    let unsigned: f64 = images.iter().sum();
    let trainings: Vec<f64> = first.iter().chain(second).map(|row| row.iter().sum::<f64>() / n).collect();
    let is_as_extreme = |draw: &u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(*draw);
        let flips: Vec<u64> = (0..words).map(|_| rng.random()).collect();
        let flipped = |(effect, bits): (&u64, &Vec<u64>)| {
            let count: u32 = bits.iter().zip(&flips).map(|(bits, flips)| (bits & flips).count_ones()).sum();
            f64::from_bits(*effect) * f64::from(count)
        };
        let signed = unsigned - 2.0 * sharing.iter().map(flipped).sum::<f64>();
        let mut dealt = trainings.clone();
        dealt.shuffle(&mut rng);
        let (own, other) = dealt.split_at(s);
        let trained = (own.iter().sum::<f64>() - other.iter().sum::<f64>()) / s as f64;
        let drawn = signed / n + if s == 1 { 0.0 } else { trained };
        drawn.abs() >= mean.abs() * (1.0 - 1e-9) - 1e-12
    };
    let count = (0..draws as u64).into_par_iter().filter(is_as_extreme).count();
    (1 + count) as f64 / (1 + draws) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_training_apart_widens_the_interval() {
        let rows = [vec![0.0; 200], vec![0.0; 200], vec![-12.0; 200]];
        // All images agree: the variance is that of three trainings alone, t with two degrees of freedom.
        let apart = CrossedMean::new(&rows, 0.1);
        assert!((apart.error() - 4.0).abs() < 1e-9, "{apart:?}");
        let (low, high) = apart.interval();
        assert!((high - low - 8.0 * 4.302_652_7).abs() < 1e-2, "{low} {high}");
        // One training tells nothing about others: only the least error of images is left.
        let alone = CrossedMean::new(&rows[2..], 0.1);
        assert!((alone.interval().1 + 12.0 - 0.1 * 1.972_017_5).abs() < 1e-5, "{alone:?}");
    }

    #[test]
    fn a_share_of_images_is_tested_against_chance() {
        let one_in = |every: usize| (0..400).map(|i| f64::from(i % every == 0)).collect::<Vec<f64>>();
        let share = |rows: &[Vec<f64>]| CrossedMean::new(rows, 1.0 / 402.0);
        assert!((share(&[one_in(20)]).p_above(0.05) - 0.5).abs() < 1e-9);
        assert!(share(&[one_in(5)]).p_above(0.05) < 1e-9 && share(&[one_in(40)]).p_above(0.05) > 0.9);
        assert_eq!(share(&[vec![1.0, -1.0], vec![-1.0, 1.0], vec![0.0; 2]]).p(), 1.0, "no difference at all");
        // Two trainings that disagree give less certainty than one.
        assert!(share(&[one_in(20), one_in(2)]).p_above(0.05) > 0.05);
        let all = share(&[one_in(1)]);
        assert!(all.mean == 1.0 && all.interval().0 < 0.996 && all.p_above(0.99) > 1e-6, "{all:?}");
        let none = share(&[vec![0.0; 400]]);
        let [within, none_within] = [&all, &none].map(|mean| mean.interval_within(0.0..=1.0));
        assert_eq!((within, none_within), ((all.interval().0, 1.0), (0.0, none.interval().1)));
    }

    /// Against integrals with four million steps: far tails come from trainings that happen to agree.
    #[test]
    fn small_p_are_those_of_fine_integrals() {
        for (t_part, normal_part, mean, p) in [
            ((1.0, 1.0), 1.0, 20.0, 0.015_942_140_2),
            ((1.0, 1.0), 1.0, 2000.0, 0.000_159_154_970),
            ((1.0, 2.0), 4.0, 300.0, 5.556_203_8e-6),
            ((1.0, 4.0), 1.0, 12.0, 0.000_148_015_775),
            ((1.0, 9.0), 1.0, 8.0, 2.052_401_1e-5),
        ] {
            let found = CrossedMean { mean, t_part, normal_part }.p();
            assert!((found / (2.0 * p) - 1.0).abs() < 1e-6, "{t_part:?} {mean}: {found}");
        }
    }

    #[test]
    fn few_trainings_have_few_permutations() {
        let rows = |right: &[f64]| right.iter().map(|v| vec![*v; 40]).collect::<Vec<_>>();
        // 2 of the 20 ways to deal six trainings are as far apart; all images agree.
        let p = permutation(&rows(&[90.0, 91.0, 92.0]), &rows(&[10.0, 11.0, 12.0]), 9999, 0);
        assert!((p - 0.1).abs() < 0.01, "{p}");
        assert_eq!(permutation(&rows(&[50.0]), &rows(&[50.0]), 99, 0), 1.0);
    }
}
