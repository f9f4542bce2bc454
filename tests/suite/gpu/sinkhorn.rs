//! The fused Sinkhorn kernels of GPUs against the processor's operation in float64. A software Vulkan runs them too.

use burn::tensor::{Device, Tensor};
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::probe::router::{Router, standardise};

use super::{Parity, all};
use crate::gpus::gpus;
use crate::routing::reference::*;

/// Standardised scores of several images, one of them with an outlier 14 deviations away.
fn scores(n: usize, images: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for image in 0..images {
        let mut scores = standardise(&normal(n, 40 + image as u64));
        if image == 1 {
            scores[n / 3] = 14.0;
        }
        all.extend(scores.iter().map(|&score| f64::from(score as f32)));
    }
    all
}

/// Token weights of a batch on a device, and the gradients of scores and gain.
fn weights_and_gradients(
    router: &dyn Router,
    scores: &[f64],
    n: usize,
    seeds: Option<&[u64]>,
    device: &Device,
) -> [Vec<f64>; 3] {
    let device = &device.clone().autodiff();
    let scores = matrix(scores, n, device).require_grad();
    let gain = vector(&normal(n, 50), device).require_grad();
    let weights = router.token_weights(scores.clone(), gain.clone(), seeds);
    let cotangent = matrix(&normal(scores.dims()[0] * n, 51), n, device);
    let gradients = (weights.clone() * cotangent).sum().backward();
    [host(weights), gradient(&scores, &gradients), gradient(&gain, &gradients)]
}

/// Plans of a batch on a device, and the gradient of the scores.
fn plans_and_gradient(
    router: &dyn Router,
    scores: &[f64],
    n: usize,
    seeds: Option<&[u64]>,
    device: &Device,
) -> [Vec<f64>; 2] {
    let device = &device.clone().autodiff();
    let scores = matrix(scores, n, device).require_grad();
    let plans = router.plans(scores.clone(), seeds);
    let images = scores.dims()[0];
    let cotangent = matrix(&normal(images * n * n, 52), n, device).reshape([images, n, n]);
    let gradients = (plans.clone() * cotangent).sum().backward();
    [host(plans), gradient(&scores, &gradients)]
}

const WEIGHTS: [&str; 3] = ["weights", "gradient by scores", "gradient by gain"];
const PLANS: [&str; 2] = ["plans", "plans' gradient by scores"];

/// Compares what `make` gives on a GPU, values and their gradients, with what it gives on the processor.
fn compare<const K: usize>(
    parity: &mut Parity,
    (name, gpu): (&str, &Device),
    case: &str,
    parts: [&str; K],
    make: impl Fn(&Device) -> [Vec<f64>; K],
) {
    let (found, expected) = (make(gpu), make(&Device::flex()));
    parity.check(name, &format!("{case}, {}", parts[0]), apart(&found[0], &expected[0]), PLAN);
    for i in 1..K {
        let apart = apart_of_largest(&found[i], &expected[i]);
        parity.check(name, &format!("{case}, {}", parts[i]), apart, GRADIENT);
    }
}

#[test]
fn token_weights_and_their_gradient_equal_the_processors() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        let many = [64, 196, 256, 1024, 4096].map(|n| [0.01, 0.1, 1.0].map(|tau| (n, tau, 20)));
        let many = if all() { many.as_flattened() } else { &[] };
        let few = [
            (2, 0.1, 20),
            (49, 0.01, 20),
            (49, 0.0005, 7),
            (49, 30.0, 20),
            (196, 0.1, 20),
            (196, 0.01, 1),
            (257, 0.03, 20),
            (257, 1.0, 20),
            (1024, 0.1, 2), // more than shared memory holds on most devices
            (576, 0.1, 20),
            (1000, 0.1, 20), // more than a software Vulkan runs: plain tensor operations instead
        ];
        for &(n, temperature, iterations) in few.iter().chain(many) {
            let sinkhorn = Sinkhorn { temperature, iterations, noisy: false };
            let scores = scores(n, 2);
            let case = format!("Sinkhorn of N {n}, tau {temperature}, {iterations} iterations");
            let make = |device: &_| weights_and_gradients(&sinkhorn, &scores, n, None, device);
            compare(&mut parity, (&name, &gpu), &case, WEIGHTS, make);
        }
    }
}

#[test]
fn plans_and_their_gradient_equal_the_processors() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        for (n, temperature) in [(2, 0.1), (49, 0.01), (196, 0.1)] {
            let sinkhorn = Sinkhorn { temperature, ..Sinkhorn::default() };
            let scores = scores(n, 2);
            let case = format!("Sinkhorn of N {n}, tau {temperature}");
            let make = |device: &_| plans_and_gradient(&sinkhorn, &scores, n, None, device);
            compare(&mut parity, (&name, &gpu), &case, PLANS, make);
        }
    }
}

#[test]
fn noise_on_every_entry_is_the_processors_and_so_is_what_it_comes_to() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        let few = [(2, 0.1, 20), (30, 1.0, 20), (49, 0.01, 20), (130, 0.1, 7), (257, 0.1, 1)];
        let many = [(196, 0.1, 20), (196, 0.01, 20), (576, 0.03, 20)];
        for &(n, temperature, iterations) in few.iter().chain(if all() { &many[..] } else { &[] }) {
            let router = Sinkhorn { temperature, iterations, noisy: true };
            let (scores, seeds) = (scores(n, 3), Some(&[7, 1 << 40, 3][..]));
            let case = format!("Gumbel-Sinkhorn of N {n}, tau {temperature}, {iterations} iterations");
            let make = |device: &_| plans_and_gradient(&router, &scores, n, seeds, device);
            compare(&mut parity, (&name, &gpu), &case, PLANS, make);
            let make = |device: &_| weights_and_gradients(&router, &scores, n, seeds, device);
            compare(&mut parity, (&name, &gpu), &case, WEIGHTS, make);
        }
    }
}

#[test]
fn equal_scores_share_and_a_broken_one_spreads() {
    for (name, gpu) in gpus() {
        let alike = [0.5, -1.0, 0.5, 0.5, 0.5];
        let sinkhorn = Sinkhorn::default();
        let weights = |scores: &[f64], device: &Device| {
            host(sinkhorn.token_weights(matrix(scores, 5, device), vector(&normal(5, 3), device), None))
        };
        let (found, expected) = (weights(&alike, &gpu), weights(&alike, &Device::flex()));
        assert!(apart(&found, &expected) < PLAN, "{name}: {found:?}, not {expected:?}");
        let broken = weights(&[f64::NAN; 5], &gpu);
        assert!(broken.iter().all(|weight| weight.is_nan()), "{name}: {broken:?}");
        let single: Tensor<2> = sinkhorn.token_weights(matrix(&[0.7], 1, &gpu), vector(&[2.0], &gpu), None);
        assert_eq!(host(single), [2.0], "{name}");
    }
}
