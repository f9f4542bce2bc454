//! Calibration of the statistics. On simulated answers of equal heads and on meaningless orders, tests must reject at
//! their level, intervals cover the truth at theirs, and the smallest difference that a training can show must be found
//! at the stated power. `scripts/test-all calibration` makes 2000 runs of each (`SSMPROBE_CALIBRATION`) and prints the
//! tables of docs/calibration.md.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use ssmprobe::app::jobs::train::smallest_difference;
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::order_test::{self, Exchanges, OrderTester};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::{Config, Dims};
use ssmprobe::model::stats::{CrossedMean, holm, mcnemar, normal, permutation};
use ssmprobe::model::tokens::Tokens;

use crate::heads;

/// Standard deviations of the logit of a right answer, beside that of the images' difficulty ([`DIFFICULTY`]).
struct Scenario {
    name: &'static str,
    /// Between trainings of a head.
    training: f64,
    /// Between heads on an image, the same in all trainings.
    image: f64,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "only chance varies", training: 0.0, image: 0.0 },
    Scenario { name: "trainings vary", training: 0.4, image: 0.0 },
    Scenario { name: "heads differ by image", training: 0.0, image: 1.0 },
    Scenario { name: "both, images more", training: 0.1, image: 1.0 },
    Scenario { name: "both, trainings more", training: 0.3, image: 0.5 },
];
const IMAGES: usize = 300;
/// Mean logit of a right answer.
const EASY: f64 = 0.8;
/// Standard deviation of that logit between images, the same for all heads.
const DIFFICULTY: f64 = 1.5;
/// Logits by which the better of two heads is better.
const BETTER: f64 = 0.4;

type Rows = Vec<Vec<f64>>;

fn runs() -> usize {
    std::env::var("SSMPROBE_CALIBRATION").map_or(150, |runs| runs.parse().expect("a number of runs"))
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

impl Scenario {
    /// Points (0 or 100) of `heads` heads on the same images, one row per training; the last head is `better` logits better.
    fn points(&self, heads: usize, seeds: usize, better: f64, rng: &mut ChaCha8Rng) -> Vec<Rows> {
        let easy: Vec<f64> = (0..IMAGES).map(|_| EASY + DIFFICULTY * normal(rng)).collect();
        let mut head = |at: usize| -> Rows {
            let own: Vec<f64> = easy.iter().map(|easy| easy + self.image * normal(rng)).collect();
            let mut training = |_| {
                let moved = self.training * normal(rng) + if at + 1 == heads { better } else { 0.0 };
                own.iter().map(|own| 100.0 * f64::from(rng.random::<f64>() < sigmoid(own + moved))).collect()
            };
            (0..seeds).map(&mut training).collect()
        };
        (0..heads).map(&mut head).collect()
    }

    /// The true difference in points of a head that is [`BETTER`], over all images and trainings, by numerical integration.
    fn truth(&self) -> f64 {
        let spread = (DIFFICULTY.powi(2) + self.training.powi(2) + self.image.powi(2)).sqrt();
        let mean = |better: f64| {
            let at = |i: i32| f64::from(i) * 0.01;
            let density = |z: f64| (-0.5 * z * z).exp();
            let all: f64 = (-800..=800).map(|i| density(at(i))).sum();
            let right = |i| density(at(i)) * sigmoid(EASY + better + spread * at(i));
            (-800..=800).map(right).sum::<f64>() / all
        };
        100.0 * (mean(BETTER) - mean(0.0))
    }
}

fn difference(first: &Rows, second: &Rows) -> CrossedMean {
    let subtract = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
    let rows: Rows = first.iter().zip(second).map(subtract).collect();
    CrossedMean::new(&rows, 100.0 / (IMAGES + 2) as f64)
}

/// In how many of the runs each result of `trial` is true, in percent.
fn rates<const N: usize>(seed: u64, trial: impl Fn(&mut ChaCha8Rng) -> [bool; N] + Sync) -> [f64; N] {
    let run = |run: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(run as u64);
        trial(&mut rng)
    };
    let all: Vec<[bool; N]> = (0..runs()).into_par_iter().map(run).collect();
    std::array::from_fn(|at| 100.0 * all.iter().filter(|results| results[at]).count() as f64 / runs() as f64)
}

/// Three standard errors of a share of the runs, in percent.
fn slack(share: f64) -> f64 {
    3.0 * 100.0 * (share * (1.0 - share) / runs() as f64).sqrt()
}

#[test]
fn tests_reject_and_intervals_cover_as_often_as_they_say() {
    println!("{} runs of {IMAGES} images; in percent", runs());
    println!(
        "| what varies | seeds | p | permutation p | Holm of 5 heads | equivalence p | interval covers |"
    );
    println!("|---|---|---|---|---|---|---|");
    let highest = 5.0 + slack(0.05);
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        let truth = scenario.truth();
        for seeds in [1, 3, 5] {
            let rates = rates(100 * at as u64 + seeds as u64, |rng| {
                let heads = scenario.points(6, seeds, 0.0, rng);
                let p: Vec<f64> = heads[1..].iter().map(|head| difference(head, &heads[0]).p()).collect();
                let equal = scenario.points(2, seeds, BETTER, rng);
                let better = difference(&equal[1], &equal[0]);
                let (low, high) = better.interval();
                [
                    p[0] < 0.05,
                    permutation(&heads[1], &heads[0], 999, 0) < 0.05,
                    holm(&p).into_iter().any(|p| p < 0.05),
                    better.equivalence(truth) < 0.05,
                    low < truth && truth < high,
                ]
            });
            let [p, permuted, any, equivalent, covers] = rates.map(|rate| format!("{rate:.1}"));
            println!("| {} | {seeds} | {p} | {permuted} | {any} | {equivalent} | {covers} |", scenario.name);
            // With one seed, the variance between trainings cannot be estimated.
            if seeds > 1 || scenario.training == 0.0 {
                for (rate, what) in rates.iter().zip(["p", "permutation", "Holm", "equivalence"]) {
                    assert!(*rate <= highest, "{}, {seeds} seeds: {what} rejects {rate} %", scenario.name);
                }
                assert!(rates[4] >= 95.0 - slack(0.05), "{}, {seeds} seeds: {}", scenario.name, rates[4]);
            }
            if seeds == 5 {
                let covers = rates[4];
                let far = slack(0.05) * 2.0 / 3.0;
                assert!((93.0 - far..=97.0 + far).contains(&covers), "{}: {covers} %", scenario.name);
            }
        }
    }
}

/// McNemar's test compares two probes, so it sees differences between trainings too; equal probes it must not reject.
#[test]
fn mcnemar_rejects_equal_probes_no_more_than_it_says() {
    let [rejects] = rates(7, |rng| {
        let heads = SCENARIOS[0].points(2, 1, 0.0, rng);
        let right = |rows: &Rows| rows[0].iter().map(|points| *points > 0.0).collect::<Vec<bool>>();
        [mcnemar(&right(&heads[0]), &right(&heads[1])) < 0.05]
    });
    println!("McNemar on equal probes: {rejects:.1} %");
    assert!(rejects <= 5.0 + slack(0.05), "{rejects} %");
}

/// Answers as [`smallest_difference`] assumes: on a tenth of the images one head alone is right, half of them in all trainings.
#[test]
fn a_difference_that_a_training_can_show_is_found_four_times_of_five() {
    println!("| test images | seeds | smallest difference (points) | found (%) |\n|---|---|---|---|");
    for (images, seeds) in [(500, 1), (500, 3), (500, 5), (2000, 3)] {
        let points = smallest_difference(images, seeds).expect("a difference");
        let [found] = rates((images + seeds) as u64, |rng| {
            let draw = |rng: &mut ChaCha8Rng| match rng.random::<f64>() - 0.9 {
                below if below < 0.0 => 0.0,
                alone if alone < 0.5 * (0.1 + points / 100.0) => 100.0,
                _ => -100.0,
            };
            let mut rows: Rows = vec![vec![0.0; images]; seeds];
            for image in 0..images {
                let (same, all) = (rng.random::<bool>(), draw(rng));
                rows.iter_mut().for_each(|row| row[image] = if same { all } else { draw(rng) });
            }
            [CrossedMean::new(&rows, 100.0 / (images + 2) as f64).p() < 0.05]
        });
        println!("| {images} | {seeds} | {points:.1} | {found:.1} |");
        assert!((found - 80.0).abs() < 5.0 + slack(0.2), "{images} images, {seeds} seeds: {found} %");
    }
}

/// A share of images as `report --table order` counts it. Chance draws it anew in every training; of a larger share, half of the
/// images are alike in all trainings.
#[test]
fn the_interval_of_a_share_of_images_is_as_wide_as_it_must_be() {
    const TESTED: usize = 500;
    println!("| true share (%) | seeds | p below 0.05 (%) | interval covers (%) |\n|---|---|---|---|");
    for (share, alike) in [(0.05, 0.0), (0.3, 0.5)] {
        for seeds in [1, 3, 5] {
            let variance = share * (1.0 - share) * (alike + (1.0 - alike) / seeds as f64) / TESTED as f64;
            let [rejects, covers, wide] = rates((1000.0 * share) as u64 + seeds as u64, |rng| {
                let draw = |rng: &mut ChaCha8Rng| f64::from(rng.random::<f64>() < share);
                let mut rows: Rows = vec![vec![0.0; TESTED]; seeds];
                for image in 0..TESTED {
                    let (same, all) = (rng.random::<f64>() < alike, draw(rng));
                    rows.iter_mut().for_each(|row| row[image] = if same { all } else { draw(rng) });
                }
                let found = CrossedMean::new(&rows, 1.0 / (TESTED + 2) as f64);
                let (low, high) = found.interval();
                [
                    found.p_above(share) < 0.05,
                    low < share && share < high,
                    found.error() > 1.8 * variance.sqrt(),
                ]
            });
            println!("| {:.0} | {seeds} | {rejects:.1} | {covers:.1} |", 100.0 * share);
            assert!(rejects <= 5.0 + slack(0.05), "{share}, {seeds} seeds: {rejects} %");
            // The binomial distribution of a small share is skewed: one training covers it in 94 % of runs.
            assert!(covers >= 93.0 - slack(0.05), "{share}, {seeds} seeds: {covers} %");
            assert!(wide < 10.0 + slack(0.1), "{share}, {seeds} seeds: too wide in {wide} %");
        }
    }
}

/// An untrained probe of this head with random classifier weights.
fn untrained(head: &str, seed: u64) -> Probe {
    let dims = Dims { width: 12, grid: Grid::new(7, 7), classes: 4 };
    let config = Config { state_dim: Some(16), ..Config::default() };
    let mut probe = heads::untrained(head, &config, dims, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
    probe.classifier.weight.iter_mut().for_each(|weight| *weight = normal(&mut rng) as f32);
    probe
}

/// Tokens that vary smoothly over the image, as those of a backbone do: waves in random directions, and noise.
fn smooth(seed: u64) -> Tokens {
    let (grid, width) = (Grid::new(7, 7), 12);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let wave =
        |rng: &mut ChaCha8Rng| [normal(rng) * 0.5, normal(rng) * 0.5, 7.0 * rng.random::<f64>(), normal(rng)];
    let waves: Vec<[f64; 4]> = (0..3 * width).map(|_| wave(&mut rng)).collect();
    let mut patches = Vec::with_capacity(grid.len() * width);
    for patch in 0..grid.len() {
        let (row, column) = ((patch / grid.cols) as f64, (patch % grid.cols) as f64);
        for three in waves.chunks_exact(3) {
            let sum: f64 =
                three.iter().map(|[y, x, phase, high]| high * (y * row + x * column + phase).cos()).sum();
            patches.push((sum + 0.3 * normal(&mut rng)) as f32);
        }
    }
    Tokens { grid, width, cls: None, registers: Vec::new(), patches }
}

/// Kolmogorov-Smirnov test of p values against the uniform distribution: the distance, and its asymptotic p value.
fn kolmogorov(mut p: Vec<f64>) -> (f64, f64) {
    p.sort_by(f64::total_cmp);
    let n = p.len() as f64;
    let gap = |(at, p): (usize, &f64)| (p - at as f64 / n).abs().max(((at + 1) as f64 / n - p).abs());
    let distance = p.iter().enumerate().map(gap).fold(0.0, f64::max);
    let scaled = distance * n.sqrt();
    let term = |k: i32| f64::from(1 - 2 * (k % 2)) * (-2.0 * f64::from(k * k) * scaled * scaled).exp();
    (distance, (-2.0 * (1..100).map(term).sum::<f64>()).clamp(0.0, 1.0))
}

/// Random orders follow the null of an order test. Orders of untrained scorers follow the picture, so the share of
/// significant images of a trained probe is compared with theirs and not with 5 %.
#[test]
fn random_orders_have_uniform_p_and_untrained_scorers_have_not() {
    const TESTED: usize = 500;
    const PROBES: usize = 20;
    println!(
        "| orders | images with p < 0.05 (%) | Kolmogorov-Smirnov distance | its p |\n|---|---|---|---|"
    );
    let exchanges = Exchanges::new(0);
    let tested = |head: &str| -> (f64, f64, f64) {
        let probes: Vec<Probe> = (0..PROBES).map(|seed| untrained(head, seed as u64)).collect();
        let margin = |image: usize| {
            let (probe, tokens) = (&probes[image % PROBES], smooth(image as u64));
            let reading = ImageReading::new(probe, Intervention::None, &tokens, image as u64);
            let reading = reading.expect("tokens that fit");
            let test = OrderTester::new(&reading, &exchanges).expect("a test");
            test.margin(image % 4)
        };
        let margins = (0..TESTED).into_par_iter().map(margin).collect();
        let tests = order_test::tested(margins, &exchanges).into_iter();
        let p: Vec<f64> = tests.map(|test| test.expect("a rival").reassigned.p).collect();
        let below = 100.0 * p.iter().filter(|p| **p < 0.05).count() as f64 / TESTED as f64;
        let (distance, probability) = kolmogorov(p);
        println!("| {head} | {below:.1} | {distance:.3} | {probability:.4} |");
        (below, distance, probability)
    };
    let (below, _, probability) = tested("random-dynamic");
    // Three binomial standard deviations of 500 images, in percent.
    assert!((below - 5.0).abs() < 2.93 && probability > 0.01, "{below} %, {probability}");
    for head in ["sinkhorn", "neuralsort", "softsort"] {
        let (below, _, probability) = tested(head);
        assert!(below > 10.0 && probability < 0.01, "{head}: {below} %, {probability}");
    }
}
