//! Properties of routers that hold for all values.

use burn::tensor::Device;
use ssmprobe::model::ops::matmul::PreciseMatmul as _;
use ssmprobe::model::probe::head::Config;
use ssmprobe::model::probe::router::hard_sort::HardSort;
use ssmprobe::model::probe::router::sinkhorn::{Sinkhorn, noise::Noise};
use ssmprobe::model::probe::router::softsort::SoftSort;
use ssmprobe::model::probe::router::{self, Router};
use ssmprobe::model::stats::argmax;

use super::reference::*;

#[test]
fn a_batch_is_its_images() {
    let device = Device::flex();
    let scores = normal(3 * 50, 5);
    let gain = normal(50, 6);
    for kind in router::ROUTERS {
        let router = (kind.build)(&Config::default()).unwrap();
        let batch = router.token_weights(matrix(&scores, 50, &device), vector(&gain, &device), None);
        let one_by_one: Vec<f64> =
            scores.chunks(50).flat_map(|scores| router.route(scores, None).weights(&gain)).collect();
        assert!(apart(&host(batch), &one_by_one) < PLAN, "{}", kind.id);
    }
}

#[test]
fn a_single_token_is_read_whole() {
    let device = training_device();
    for kind in router::ROUTERS {
        let router = (kind.build)(&Config::default()).unwrap();
        assert_eq!(router.plan(&[0.7]).share, [1.0], "{}", kind.id);
        let scores = matrix(&[0.7, -3.0], 1, &device).require_grad();
        let weights = router.token_weights(scores.clone(), vector(&[2.0], &device), None);
        assert_eq!(host(weights), [2.0, 2.0], "{}", kind.id);
        assert!(apart(&host(router.plans(scores, None)), &[1.0, 1.0]) < PLAN, "{}", kind.id);
    }
}

#[test]
fn the_two_sinkhorn_paths_agree_at_any_temperature_and_score() {
    let device = training_device();
    for (temperature, far) in [(0.1, 3.0), (0.003, 14.0), (0.1, 200.0), (0.05, 14.0), (10.0, -1e4)] {
        let sinkhorn = Sinkhorn { temperature, ..Sinkhorn::default() };
        let mut scores = normal(40, 7);
        scores[11] = far;
        let gain = vector(&normal(40, 8), &device);
        let both = [true, false].map(|fused| {
            let scores = matrix(&scores, 40, &device).require_grad();
            let weights = match fused {
                true => sinkhorn.token_weights(scores.clone(), gain.clone(), None),
                false => {
                    let plans = sinkhorn.plans_plain(scores.clone(), None);
                    plans.precise_matmul(gain.clone().reshape([1, -1, 1])).squeeze_dim(2)
                }
            };
            let loss = (weights.clone() * matrix(&normal(40, 9), 40, &device)).sum();
            (host(weights), gradient(&scores, &loss.backward()))
        });
        let case = format!("temperature {temperature}, a score at {far}");
        assert!(apart(&both[0].0, &both[1].0) < PLAN, "{case}: {:.1e}", apart(&both[0].0, &both[1].0));
        let gradients = apart_of_largest(&both[1].1, &both[0].1);
        assert!(gradients < GRADIENT, "gradients at {case}: {gradients:.1e}");
    }
}

#[test]
fn random_scores_spread_as_published() {
    let draws = 40;
    let (mut coverage, mut entropy, mut sharpest) = (0.0, 0.0, 0.0);
    for seed in 0..draws {
        let n = 196;
        let plan = Sinkhorn::default().plan(&router::standardise(&normal(n, seed)));
        let mut histogram = vec![0.0; n];
        let mut tops: Vec<f64> = (0..n)
            .map(|i| {
                let (place, top) = plan
                    .row(i)
                    .iter()
                    .enumerate()
                    .fold((0, -1.0), |best, (k, &share)| if share > best.1 { (k, share) } else { best });
                histogram[place] += 1.0 / n as f64;
                top
            })
            .collect();
        tops.sort_by(f64::total_cmp);
        let at = 0.95 * (n - 1) as f64;
        sharpest += tops[at as usize] + at.fract() * (tops[at as usize + 1] - tops[at as usize]);
        coverage += histogram.iter().filter(|&&share| share > 0.0).count() as f64 / n as f64;
        let terms = histogram.iter().filter(|&&share| share > 0.0).map(|share| -share * share.ln());
        entropy += terms.sum::<f64>() / (n as f64).ln();
    }
    let [coverage, entropy, sharpest] = [coverage, entropy, sharpest].map(|sum| sum / draws as f64);
    println!("coverage {coverage:.3}, entropy {entropy:.3}, row_max_p95 {sharpest:.4}");
    assert!((coverage - 0.61).abs() < 0.015, "coverage {coverage}");
    assert!((entropy - 0.88).abs() < 0.01, "entropy {entropy}");
    assert!((sharpest - 0.051).abs() < 0.002, "row_max_p95 {sharpest}");
}

#[test]
fn hard_sort_is_a_permutation_with_the_gradient_of_softsort() {
    let device = training_device();
    let scores = [0.5, -1.0, 0.5, 2.0]; // a tie: by index
    let plan = HardSort { temperature: 1.0 }.plan(&scores);
    let places: Vec<usize> = (0..4).map(|i| plan.row(i).iter().position(|&x| x == 1.0).unwrap()).collect();
    assert_eq!(places, [1, 0, 2, 3]);
    let mut scores = normal(30, 1);
    scores[20] = scores[3];
    let cotangent = matrix(&normal(900, 2), 30, &device).unsqueeze_dim::<3>(0);
    let run = |router: &dyn Router| {
        let scores = matrix(&scores, 30, &device).require_grad();
        let plans = router.plans(scores.clone(), None);
        (host(plans.clone()), gradient(&scores, &(plans * cotangent.clone()).sum().backward()))
    };
    let hard = run(&HardSort { temperature: 0.3 });
    assert_eq!(hard.0, HardSort { temperature: 1.0 }.plan(&scores).share);
    assert_eq!(hard.1, run(&SoftSort { power: 1, temperature: 0.3 }).1);
}

/// Ranks alone put 38 of 196 tokens into the tenths at both ends.
#[test]
fn softsort_of_distances_keeps_every_rank_and_of_squares_collapses_to_the_edges() {
    for seed in 0..3 {
        let scores = router::standardise(&normal(196, seed));
        let best = |router: &dyn Router| -> Vec<usize> {
            let plan = router.plan(&scores);
            (0..196).map(|i| argmax(plan.row(i))).collect()
        };
        let ranks = best(&HardSort { temperature: 1.0 });
        for temperature in [0.01, 1.0, 10.0] {
            assert_eq!(best(&SoftSort { power: 1, temperature }), ranks, "temperature {temperature}");
        }
        let squares = best(&SoftSort { power: 2, temperature: 1.0 });
        let at_edge = squares.into_iter().filter(|k| !(19..196 - 19).contains(k)).count();
        assert!(at_edge > 55, "{at_edge} at the edges");
    }
}

#[test]
fn gumbel_noise_is_seeded_and_only_for_training() {
    let device = training_device();
    let scores = matrix(&normal(60, 3), 30, &device).require_grad();
    let router = Sinkhorn { noisy: true, ..Sinkhorn::default() };
    let plain = host(Sinkhorn::default().plans(scores.clone(), None));
    assert_eq!(host(router.plans(scores.clone(), None)), plain);
    let drawn = router.plans(scores.clone(), Some(&[1, 2]));
    assert_eq!(host(drawn.clone()), host(router.plans(scores.clone(), Some(&[1, 2]))));
    let other = host(router.plans(scores.clone(), Some(&[1, 3])));
    assert_eq!(host(drawn.clone())[..900], other[..900]);
    assert!(apart(&host(drawn.clone())[900..], &other[900..]) > 0.01);
    assert!(apart(&host(drawn.clone()), &plain) > 0.01);
    let columns = host(drawn.clone().sum_dim(1));
    assert!(apart(&columns, &vec![1.0; 60]) < PLAN);
    let gain = vector(&normal(30, 4), &device);
    let weights = router.token_weights(scores.clone(), gain.clone(), Some(&[1, 2]));
    assert!(apart(&host(weights), &host(drawn.clone().precise_matmul(gain.reshape([1, -1, 1])))) < PLAN);
    let cotangent = matrix(&normal(1800, 5), 30, &device).reshape([2, 30, 30]);
    let moved = gradient(&scores, &(drawn.clone() * cotangent.clone()).sum().backward());
    let noise = Noise { image_seeds: vec![1, 2] }.tensor(&scores);
    let plainly = router.plans_plain(scores.clone(), Some(noise));
    assert!(apart(&host(drawn), &host(plainly.clone())) < PLAN);
    let by_plain = gradient(&scores, &(plainly * cotangent).sum().backward());
    assert!(apart_of_largest(&moved, &by_plain) < GRADIENT);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let build = |id: &str, config: Config| (router::find(id).unwrap().build)(&config).err().unwrap();
    let refused = build("sinkhorn", Config { temperature: Some(0.0), ..Config::default() });
    assert_eq!(refused.to_string(), "config field `temperature` is 0; expected a number from 1e-4 to 1e4");
    let nan = build("neuralsort", Config { temperature: Some(f64::NAN), ..Config::default() });
    assert_eq!(nan.field, "temperature");
    assert_eq!(build("sinkhorn", Config { iterations: Some(0), ..Config::default() }).field, "iterations");
    assert_eq!(build("softsort", Config { power: Some(3), ..Config::default() }).field, "power");
    assert!(router::find("raster").is_none());
}
