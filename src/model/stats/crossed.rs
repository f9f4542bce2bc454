//! A mean over trainings and images that are crossed: every training is asked about the same images. Another training and
//! other images would both change it (docs/definitions.md, section 13).

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::tails::{below, scales};
use super::{normal_tail, student_tail};

/// Steps of an integral over what Student's t is divided by.
const STEPS: usize = 100;
/// The same over what an estimate may come to.
const ESTIMATES: usize = 128;

/// A mean, and how sure it is of other trainings and other images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossedMean {
    /// The mean.
    pub mean: f64,
    /// The variance that few give the mean, trainings where there are several, else images; and its degrees of freedom.
    few: (f64, f64),
    /// The variance that many give it: images, where there are several trainings.
    many: f64,
}

/// Mean squares of a table by the analysis of variance of two crossed random effects.
struct MeanSquares {
    mean: f64,
    /// Mean of every image, `[n]`.
    images: Vec<f64>,
    between_trainings: f64,
    between_images: f64,
    rest: f64,
}

impl MeanSquares {
    /// Of `rows`, a training each, and a column an image; 0 where there is one of either.
    fn new(rows: &[Vec<f64>]) -> Self {
        let (s, n) = (rows.len() as f64, rows.first().map_or(0, Vec::len) as f64);
        let trainings: Vec<f64> = rows.iter().map(|row| row.iter().sum::<f64>() / n).collect();
        let images: Vec<f64> =
            (0..n as usize).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / s).collect();
        let mean = trainings.iter().sum::<f64>() / s;
        let around = |values: &[f64]| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        let rest = |(row, training): (&Vec<f64>, &f64)| -> f64 {
            row.iter().zip(&images).map(|(v, image)| (v - training - image + mean).powi(2)).sum()
        };
        let rest: f64 = rows.iter().zip(&trainings).map(rest).sum();
        Self {
            mean,
            between_trainings: n * around(&trainings) / (s - 1.0).max(1.0),
            between_images: s * around(&images) / (n - 1.0).max(1.0),
            rest: rest / ((s - 1.0) * (n - 1.0)).max(1.0),
            images,
        }
    }
}

impl CrossedMean {
    /// Of `rows`, a training each, and a column an image. Trainings differ by themselves and by what they make of single
    /// images; what images add to that counts where it is more than nothing. The error is at least `least`: no number of
    /// images that agree makes certain. Of one training it speaks of images alone.
    pub fn new(rows: &[Vec<f64>], least: f64) -> Self {
        let (trainings, images) = (rows.len(), rows.first().map_or(0, Vec::len));
        let squares = MeanSquares::new(rows);
        let cells = (trainings * images) as f64;
        let of_images = (squares.between_images - squares.rest).max(0.0) / cells;
        Self::from_parts(
            squares.mean,
            (squares.between_trainings / cells, trainings),
            (of_images, images),
            least,
        )
    }

    /// What the mean difference of two heads is to be expected as before any training, where `share` of the images are
    /// answered rightly by one of the two alone, half of them by the same in every training; in percent.
    pub fn expected(images: usize, trainings: usize, share: f64) -> Self {
        let variance = 1e4 * share / images as f64;
        let alike = if trainings > 1 { 0.5 } else { 1.0 };
        let within = (1.0 - alike) * variance / trainings as f64;
        Self::from_parts(0.0, (within, trainings), (alike * variance, images), 0.0)
    }

    /// From the variance that trainings and that images give the mean, and the number of each.
    fn from_parts(mean: f64, trainings: (f64, usize), images: (f64, usize), least: f64) -> Self {
        let least = least.powi(2);
        let n = images.1 as f64;
        if trainings.1 < 2 {
            return Self { mean, few: (images.0.max(least), (n - 1.0).max(1.0)), many: 0.0 };
        }
        // As if they were t, of which this is the variance.
        let of_images = images.0 * (n - 1.0) / (n - 3.0).max(1.0);
        let many = of_images.max(least - trainings.0);
        Self { mean, few: (trainings.0.max(f64::MIN_POSITIVE), (trainings.1 - 1) as f64), many }
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        (self.few.0 + self.many).sqrt()
    }

    /// The probability that the mean lies `distance` or more above the true one: what few give is Student's t, what many
    /// give is normal (Behrens and Fisher).
    fn tail(&self, distance: f64) -> f64 {
        self.tail_over(&self.divisors(), distance)
    }

    /// What divides what few give, and with which probability.
    fn divisors(&self) -> Vec<(f64, f64)> {
        scales(self.few.1, STEPS).collect()
    }

    /// [`tail`](Self::tail) over [`divisors`](Self::divisors) that are known.
    fn tail_over(&self, divisors: &[(f64, f64)], distance: f64) -> f64 {
        let ((few, df), many) = (self.few, self.many);
        if many == 0.0 {
            return student_tail(distance / few.sqrt(), df);
        }
        divisors.iter().map(|(s, share)| share * normal_tail(distance / (few / (s * s) + many).sqrt())).sum()
    }

    /// How far from the true one the mean is in 5 % of cases.
    fn reach(&self) -> f64 {
        self.reach_over(&self.divisors())
    }

    fn reach_over(&self, divisors: &[(f64, f64)]) -> f64 {
        below(0.025, |errors| self.tail_over(divisors, errors * self.error())) * self.error()
    }

    /// The 95 % interval of the mean.
    pub fn interval(&self) -> (f64, f64) {
        let reach = self.reach();
        (self.mean - reach, self.mean + reach)
    }

    /// Two-sided p of a mean of 0.
    pub fn p(&self) -> f64 {
        (2.0 * self.tail(self.mean.abs())).min(1.0)
    }

    /// p of a mean that is `margin` or more from 0 on either side: the larger of two one-sided tests.
    pub fn equivalence(&self, margin: f64) -> f64 {
        self.tail(margin - self.mean.abs())
    }

    /// The smallest true mean that a two-sided test at 5 % finds with probability `power`, where trainings and images vary
    /// as they do here.
    pub fn detectable(&self, power: f64) -> f64 {
        let (few, df) = self.few;
        // What few vary by is estimated, well or badly: so far must the mean be then.
        let divisors = self.divisors();
        let tested = |&(scale, share): &(f64, f64)| {
            (Self { few: (few * scale * scale, df), ..*self }.reach_over(&divisors), share)
        };
        let estimates: Vec<(f64, f64)> = scales(df, ESTIMATES).collect();
        let reaches: Vec<(f64, f64)> = estimates.par_iter().map(tested).collect();
        let missed = |errors: f64| {
            let within = |reach: f64| {
                normal_tail(-reach / self.error() - errors) - normal_tail(reach / self.error() - errors)
            };
            reaches.iter().map(|(reach, share)| share * within(*reach)).sum()
        };
        below(1.0 - power, missed) * self.error()
    }
}

/// Two-sided p of equal means by permutation, over `draws` seeded draws. `first` and `second` hold a row a training and a
/// column an image. Each draw deals all trainings anew to the two heads, and gives what every image adds to the difference
/// one sign or the other, as far as images differ by more than trainings do within them. Of one training each it turns
/// the signs of images alone.
pub fn permutation(first: &[Vec<f64>], second: &[Vec<f64>], draws: usize, seed: u64) -> f64 {
    let subtract =
        |(a, b): (&Vec<f64>, &Vec<f64>)| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let differences: Vec<Vec<f64>> = first.iter().zip(second).map(subtract).collect();
    let MeanSquares { mean, images, between_images, rest, .. } = MeanSquares::new(&differences);
    let (s, n) = (differences.len(), images.len() as f64);
    // What trainings vary within an image is in the trainings that are dealt.
    let share = if between_images > rest { (1.0 - rest / between_images).sqrt() } else { 0.0 };
    let images: Vec<f64> = match s {
        1 => images,
        _ => images.iter().map(|image| share * (image - mean)).collect(),
    };
    let trainings: Vec<f64> = first.iter().chain(second).map(|row| row.iter().sum::<f64>() / n).collect();
    let as_far = |draw: &u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(*draw);
        let signed: f64 = images.chunks(64).map(|chunk| signed_sum(chunk, rng.random())).sum();
        let mut dealt = trainings.clone();
        dealt.shuffle(&mut rng);
        let (own, other) = dealt.split_at(s);
        let trained = (own.iter().sum::<f64>() - other.iter().sum::<f64>()) / s as f64;
        let drawn = signed / n + if s == 1 { 0.0 } else { trained };
        drawn.abs() >= mean.abs() * (1.0 - 1e-9) - 1e-12
    };
    let count = (0..draws as u64).into_par_iter().filter(as_far).count();
    (1 + count) as f64 / (1 + draws) as f64
}

/// The sum of at most 64 values, each with the sign that its bit says.
fn signed_sum(values: &[f64], signs: u64) -> f64 {
    // Four sums: none waits for the one before.
    let mut sums = [0.0; 4];
    for (at, value) in values.iter().enumerate() {
        sums[at % 4] += f64::from_bits(value.to_bits() ^ (signs >> at << 63));
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_difference_excludes_zero() {
        let difference: Vec<f64> = (0..200).map(|i| if i % 4 == 0 { 100.0 } else { 0.0 }).collect();
        let mean = CrossedMean::new(&[difference.clone(), difference], 0.5);
        let (low, high) = mean.interval();
        assert!(low > 15.0 && high < 35.0 && mean.mean == 25.0, "{mean:?}");
        assert!(mean.p() < 1e-9 && mean.equivalence(40.0) < 1e-4 && mean.equivalence(20.0) > 0.9);
    }

    #[test]
    fn one_training_apart_widens_the_interval() {
        let rows = [vec![0.0; 200], vec![0.0; 200], vec![-12.0; 200]];
        // All images agree: three trainings alone, t of two degrees of freedom.
        let apart = CrossedMean::new(&rows, 0.1);
        assert!((apart.error() - 4.0).abs() < 1e-9, "{apart:?}");
        let (low, high) = apart.interval();
        assert!((high - low - 8.0 * 4.302_652_7).abs() < 1e-2, "{low} {high}");
        // And one training knows nothing of others: what is left is that no image is certain.
        let alone = CrossedMean::new(&rows[2..], 0.1);
        assert!((alone.interval().1 + 12.0 - 0.1 * 1.972_017_5).abs() < 1e-5, "{alone:?}");
    }

    /// Beside integrals over four million logarithms of what divides: far tails are those of trainings that happen to be alike.
    #[test]
    fn small_p_are_those_of_fine_integrals() {
        for (few, many, mean, p) in [
            ((1.0, 1.0), 1.0, 20.0, 0.015_942_140_2),
            ((1.0, 1.0), 1.0, 2000.0, 0.000_159_154_970),
            ((1.0, 2.0), 4.0, 300.0, 5.556_203_8e-6),
            ((1.0, 4.0), 1.0, 12.0, 0.000_148_015_775),
            ((1.0, 9.0), 1.0, 8.0, 2.052_401_1e-5),
        ] {
            let found = CrossedMean { mean, few, many }.p();
            assert!((found / (2.0 * p) - 1.0).abs() < 1e-6, "{few:?} {mean}: {found}");
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
