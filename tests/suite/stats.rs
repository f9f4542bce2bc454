//! Statistics against numpy, scipy and scikit-learn (`tests/reference/stats.py`), bands against order statistics of the
//! very same draws, and which tokens count as on an object.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use burn::tensor::Tensor;
use serde_json::Value;
use ssmprobe::app::jobs::train::smallest_difference;
use ssmprobe::model::explain::diagnostics::{MEASURES, kendall_tau, measure};
use ssmprobe::model::explain::evidence::exact;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::localization::{self, TokenValues};
use ssmprobe::model::explain::null_model::{
    MeanNull, NullBands, Untrained, untrained, untrained_mean, untrained_scores,
};
use ssmprobe::model::explain::readout::token_weight;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::Classifier;
use ssmprobe::model::probe::head_output::{Form, HeadOutput, Plan, PlanRows};
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::probe::router::{Routed, Router};
use ssmprobe::model::probe::settings::Config;
use ssmprobe::model::regions::{cover, members};
use ssmprobe::model::stats::{
    CrossedMean, holm, mcnemar, mean_and_deviation, normal_tail, permutation, quantiles, roc_auc,
    student_quantile, student_tail,
};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::Picture;

use crate::close::assert_close;
use crate::evidence::{floats, floats32, number};

fn cases(key: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(include_str!("../fixtures/stats/stats.json")).expect("JSON");
    let cases = document[key].as_array().expect("cases").clone();
    assert!(!cases.is_empty());
    cases
}

fn flags(value: &Value) -> Vec<bool> {
    value.as_array().expect("a list").iter().map(|x| x.as_bool().expect("true or false")).collect()
}

#[test]
fn quantiles_and_spreads_are_those_of_numpy() {
    for case in cases("quantiles") {
        let values = floats(&case["values"]);
        let at: [f64; 8] = floats(&case["at"]).try_into().expect("eight");
        assert_close("quantiles", quantiles(&values, at), floats(&case["quantiles"]), 1e-9);
    }
    for case in cases("spreads") {
        let (mean, deviation) = mean_and_deviation(&floats(&case["values"]));
        let expected = [number(&case["mean"]), number(&case["deviation"])];
        assert_close("mean and deviation", [mean, deviation.expect("several")], expected, 1e-12);
    }
    assert_eq!(mean_and_deviation(&[5.0]), (5.0, None));
}

#[test]
fn tau_is_that_of_scipy_and_auc_that_of_scikit_learn() {
    for case in cases("taus") {
        assert_close("tau", kendall_tau(&floats(&case["positions"])), number(&case["tau"]), 1e-12);
    }
    for case in cases("aucs") {
        let auc = roc_auc(&floats(&case["scores"]), &flags(&case["truth"])).expect("both kinds");
        assert_close("AUC", auc, number(&case["auc"]), 1e-12);
    }
    assert_eq!(roc_auc(&[1.0, 2.0], &[true, true]), None);
}

#[test]
fn mcnemar_is_the_exact_binomial_test_of_scipy() {
    assert_eq!(mcnemar(&[true, false], &[true, false]), 1.0, "nothing differs");
    for case in cases("mcnemars") {
        let counts: Vec<usize> = floats(&case["counts"]).into_iter().map(|x| x as usize).collect();
        let answers = |right: [bool; 4]| -> Vec<bool> {
            counts.iter().zip(right).flat_map(|(&count, right)| vec![right; count]).collect()
        };
        let (first, second) = (answers([true, false, true, false]), answers([false, true, true, false]));
        let expected = number(&case["p"]);
        assert_close(format!("{counts:?}"), mcnemar(&first, &second) / expected, 1.0, 1e-9);
        assert_close(format!("{counts:?}, turned"), mcnemar(&second, &first) / expected, 1.0, 1e-9);
    }
}

#[test]
fn tails_are_those_of_scipy() {
    for case in cases("tails") {
        let (t, expected) = (number(&case["t"]), number(&case["tail"]));
        match case["df"].as_f64() {
            None => assert_close(format!("normal, {t}"), normal_tail(t) / expected, 1.0, 1e-12),
            Some(df) => {
                assert_close(format!("{df} degrees, {t}"), student_tail(t, df) / expected, 1.0, 1e-4);
                if t > 0.0 {
                    assert_close(format!("{df} degrees, {t}"), student_quantile(expected, df) / t, 1.0, 1e-3);
                }
            }
        }
    }
}

#[test]
fn corrected_p_values_are_those_of_holms_steps() {
    for case in cases("holms") {
        assert_close("Holm", holm(&floats(&case["p"])), floats(&case["corrected"]), 1e-12);
    }
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
}

#[test]
fn a_mean_over_trainings_and_images_is_as_sure_as_scipy_says() {
    let clear: Vec<f64> = (0..200).map(|image| if image < 50 { 100.0 } else { 0.0 }).collect();
    assert!(CrossedMean::new(&[clear.clone(), clear], 0.0).p() < 1e-9);
    for case in cases("crossed") {
        let rows =
            |key: &str| -> Vec<Vec<f64>> { case[key].as_array().expect("rows").iter().map(floats).collect() };
        let (first, second) = (rows("first"), rows("second"));
        let subtract = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
        let differences: Vec<Vec<f64>> = first.iter().zip(&second).map(subtract).collect();
        let name = format!("{} trainings", rows("first").len());
        let found = CrossedMean::new(&differences, number(&case["least"]));
        assert_close(
            &name,
            [found.mean, found.error()],
            [number(&case["mean"]), number(&case["error"])],
            1e-9,
        );
        let (low, high) = found.interval();
        assert_close(
            format!("{name}, interval"),
            [low, high],
            floats(&case["interval"]),
            1e-3 * found.error(),
        );
        assert_close(format!("{name}, p"), found.p(), number(&case["p"]), 1e-6);
        let equivalence = found.equivalence(number(&case["margin"]));
        assert_close(format!("{name}, equivalence"), equivalence, number(&case["equivalence"]), 1e-6);
        // The reference has other draws of signs: within five binomial deviations of 9999 draws.
        let expected = number(&case["permutation"]);
        let p = permutation(&first, &second, 9999, 0);
        let allowed = 5.0 * (expected * (1.0 - expected) / 9999.0).sqrt() + 2e-4;
        assert_close(format!("{name}, permutation"), p, expected, allowed);
        assert_eq!(p, permutation(&first, &second, 9999, 0), "not the same again");
        assert_ne!(p, permutation(&first, &second, 9999, 1), "draws that ignore the seed");
    }
}

#[test]
fn the_smallest_difference_is_found_with_its_power() {
    for case in cases("detectables") {
        let [images, seeds] = ["images", "seeds"].map(|key| number(&case[key]) as usize);
        let ratio = smallest_difference(images, seeds).expect("a difference") / number(&case["points"]);
        assert_close(format!("{images} images, {seeds} seeds"), ratio, 1.0, 5e-3);
    }
}

/// Sinkhorn, recording the scores that it is given.
#[derive(Debug)]
struct RecordingSinkhorn {
    router: Sinkhorn,
    scores: Mutex<Vec<Vec<f64>>>,
}

impl RecordingSinkhorn {
    fn new() -> Self {
        Self { router: Sinkhorn::default(), scores: Mutex::default() }
    }

    /// Every diagnostic of all recorded scores, sorted: `[measure][draw]`.
    fn sorted(&self, grid: Grid) -> Vec<Vec<f64>> {
        let scores = self.scores.lock().expect("no panic");
        let all: Vec<Vec<f64>> =
            scores.iter().map(|scores| measure(&self.router.plan(scores), grid)).collect();
        let column = |m: usize| {
            let mut column: Vec<f64> = all.iter().map(|values| values[m]).collect();
            column.sort_by(f64::total_cmp);
            column
        };
        (0..MEASURES.len()).map(column).collect()
    }
}

impl Router for RecordingSinkhorn {
    fn settings(&self) -> Config {
        self.router.settings()
    }
    fn flops(&self, n: u64) -> u64 {
        self.router.flops(n)
    }
    fn plan(&self, scores: &[f64]) -> Plan {
        self.router.plan(scores)
    }
    fn rows(&self, scores: &[f64]) -> Box<dyn PlanRows> {
        self.scores.lock().expect("no panic").push(scores.to_vec());
        Box::new(self.router.plan(scores))
    }
    fn route(&self, scores: &[f64], image_seed: Option<u64>) -> Box<dyn Routed> {
        self.router.route(scores, image_seed)
    }
    fn plans(&self, scores: Tensor<2>, image_seeds: Option<&[u64]>) -> Tensor<3> {
        self.router.plans(scores, image_seeds)
    }
}

/// Of 21 values in order, the 5th percentile is the second and the 95th the last but one, with nothing between to
/// interpolate (`numpy.percentile`).
fn ends(sorted: &[Vec<f64>]) -> Vec<[f64; 2]> {
    assert!(sorted.iter().all(|values| values.len() == 21));
    sorted.iter().map(|values| [values[1], values[19]]).collect()
}

#[test]
fn a_null_band_is_the_5th_to_95th_percentile_of_random_scores() {
    let (grid, router) = (Grid::new(7, 7), RecordingSinkhorn::new());
    let band = NullBands::new(21, 3).band(&router, &Intervention::None, grid);
    let found: Vec<[f64; 2]> = band.iter().map(|null| [null.band.0, null.band.1]).collect();
    let sorted = router.sorted(grid);
    assert_close("bands", found, ends(&sorted), 1e-9);
    let wide = band.iter().filter(|null| null.band.0 < null.band.1).count();
    assert!(wide >= 10, "a band without a width can be turned: {band:?}");
    // The band of a mean over images: around the draws' mean, wider as only 21 of them estimate it.
    let of_means = MeanNull::from_nulls(&band, 21);
    for (at, (null, values)) in of_means.iter().zip(&sorted).enumerate() {
        let (mean, deviation) = mean_and_deviation(values);
        // scipy.stats.t.ppf(0.95, 20) = 1.724718.
        for (images, shrunk) in
            [(1, (1.0 + 1.0 / 21.0f64).sqrt()), (900, (1.0 / 900.0 + 1.0 / 21.0f64).sqrt())]
        {
            let reach = 1.724_718 * deviation.expect("several") * shrunk;
            let (low, high) = null.band(images);
            let name = format!("{}, {images} images", MEASURES[at].name);
            assert_close(name, [low, high], [mean - reach, mean + reach], 1e-4 * mean.abs().max(1.0));
        }
    }
    assert_eq!(of_means.len(), MEASURES.len());

    // Scores are standardised, Gaussian and all different, and others with another seed.
    let scores = router.scores.into_inner().expect("no panic");
    for one in &scores {
        let (mean, deviation) =
            (one.iter().sum::<f64>() / 49.0, one.iter().map(|s| s * s).sum::<f64>() / 49.0);
        assert_close("mean and variance", [mean, deviation], [0.0, 1.0], 1e-5);
    }
    let other = RecordingSinkhorn::new();
    NullBands::new(200, 4).band(&other, &Intervention::None, grid);
    let other = other.scores.into_inner().expect("no panic");
    let all: Vec<f64> = other.concat();
    let share = |most: f64| all.iter().filter(|score| **score < most).count() as f64 / all.len() as f64;
    // The normal distribution function at -1, 0 and 1.6449; 9800 scores have a standard error of 0.005 at most.
    assert_close("shares below", [share(-1.0), share(0.0), share(1.6449)], [0.158_66, 0.5, 0.95], 0.02);
    let bits = |scores: &[Vec<f64>]| -> HashSet<u64> { scores.iter().map(|s| s[0].to_bits()).collect() };
    assert_eq!((bits(&scores).len(), bits(&other).len()), (21, 200), "two draws of the same scores");
    assert!(bits(&scores).is_disjoint(&bits(&other)), "draws that ignore the seed");
}

#[test]
fn an_untrained_band_is_the_5th_to_95th_percentile_of_untrained_scorers() {
    let (grid, router) = (Grid::new(5, 4), RecordingSinkhorn::new());
    let patches = |salt: usize| (0..20 * 3).map(|i| ((i * i + salt * i) % 17) as f32).collect();
    let tokens = |salt| Tokens { grid, width: 3, cls: None, registers: Vec::new(), patches: patches(salt) };
    let scores = untrained_scores(&tokens(3), 0..21, 5);
    let found = untrained(&router, &Intervention::None, grid, &scores);
    let sorted = router.sorted(grid);
    let bands: Vec<[f64; 2]> = found.iter().map(|one| [one.band.0, one.band.1]).collect();
    assert_close("bands", &bands, ends(&sorted), 1e-9);
    let means: Vec<f64> = sorted.iter().map(|values| values.iter().sum::<f64>() / 21.0).collect();
    assert_close("means", found.iter().map(|one| one.mean).collect::<Vec<_>>(), means, 1e-9);
    // The band of every scorer's mean over two images: with the same image twice, the band of that image.
    let image: Arc<[Untrained]> = found.into();
    let other: Arc<[Untrained]> = untrained(
        &RecordingSinkhorn::new(),
        &Intervention::None,
        grid,
        &untrained_scores(&tokens(4), 0..21, 5),
    )
    .into();
    for at in 0..MEASURES.len() {
        let twice = untrained_mean(&[image.clone(), image.clone()], at);
        assert_close("one image twice", [twice.0, twice.1], [bands[at][0], bands[at][1]], 1e-12);
        let pairs = image[at].values.iter().zip(&other[at].values);
        let mut means: Vec<f64> = pairs.map(|(a, b)| 0.5 * (a + b)).collect();
        means.sort_by(f64::total_cmp);
        let found = untrained_mean(&[image.clone(), other.clone()], at);
        assert_close("means over two images", [found.0, found.1], [means[1], means[19]], 1e-12);
    }
    let first = |scores: &[Vec<f64>]| scores.iter().map(|one| one[0].to_bits()).collect::<HashSet<_>>();
    let own = first(&scores);
    assert_eq!(own.len(), 21, "two scorers that are the same");
    for other in [untrained_scores(&tokens(3), 0..21, 6), untrained_scores(&tokens(4), 0..21, 5)] {
        assert!(own.is_disjoint(&first(&other)), "scores that ignore seed or image");
    }
}

/// A mask of 32 x 32 pixels: `white` pixels in each of its four patches of 256, and `grey` in a patch's last pixel.
fn mask(white: [usize; 4], grey: u8) -> Picture {
    let mut rgb = vec![0; 3 * 32 * 32];
    for (patch, count) in white.into_iter().enumerate() {
        for pixel in 0..256 {
            let (y, x) = (patch / 2 * 16 + pixel / 16, patch % 2 * 16 + pixel % 16);
            let value = if pixel < count {
                255
            } else if pixel == 255 {
                grey
            } else {
                0
            };
            rgb[3 * (32 * y + x)..][..3].fill(value);
        }
    }
    Picture { width: 32, height: 32, rgb }
}

#[test]
fn a_token_lies_on_the_object_from_half_of_its_pixels_on() {
    let grid = Grid::new(2, 2);
    for (white, grey, expected) in [
        ([128, 127, 129, 0], 0, [true, false, true, false]),
        // A grey pixel counts by its brightness: half a pixel, and a little more than half.
        ([127, 127, 0, 255], 255, [true, true, false, true]),
        ([128, 127, 256, 0], 254, [true, false, true, false]),
        // No patch is half covered: the most covered one counts.
        ([127, 20, 100, 0], 0, [true, false, false, false]),
        ([60, 60, 59, 0], 0, [true, true, false, false]),
        ([0, 0, 1, 0], 0, [false, false, true, false]),
        ([0; 4], 0, [false; 4]),
    ] {
        let found = cover(&mask(white, grey), grid);
        let share = |count: usize| {
            let last = if count == 256 { 0.0 } else { f64::from(grey) / 255.0 };
            (count as f64 + last) / 256.0
        };
        assert_close(format!("{white:?}"), &found, white.map(share), 1e-12);
        assert_eq!(members(&found), expected, "{white:?} {grey}");
    }
}

#[test]
fn what_finds_an_object_is_judged_as_scikit_learn_judges_it() {
    for case in cases("truths") {
        let (cover, weight) = (floats(&case["cover"]), floats(&case["weight"]));
        assert_eq!(members(&cover), flags(&case["object"]));
        let output = HeadOutput { scores: None, form: Form::Pool(weight) };
        let patches = floats32(&case["tokens"]);
        let tokens = Tokens { grid: Grid::new(3, 4), width: 3, cls: None, registers: Vec::new(), patches };
        let classifier = Classifier { weight: floats32(&case["row"]), bias: vec![0.5] };
        let (weight, exact) =
            (token_weight(&output), exact(&output, &tokens, &classifier, 0).expect("a linear head"));
        let values = TokenValues { weight: weight.as_deref(), evidence: Some(&exact.token) };
        let found = localization::measure(values, &cover);
        let parts = [
            ("weight_auc", found.weight_auc),
            ("evidence_auc", found.evidence_auc),
            ("absolute_share", found.absolute_share),
            ("positive_share", found.positive_share),
            ("object_share", found.object_share),
        ];
        for (key, value) in parts {
            assert_close(key, value.expect("a number"), number(&case[key]), 1e-6);
        }
        assert_eq!(localization::weight_auc(&output, &cover), found.weight_auc);
    }
}
