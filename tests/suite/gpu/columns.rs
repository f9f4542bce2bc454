//! Routers without the plans of a batch: NeuralSort, SoftSort and hard sorting as kernels against the processor's in float64, and an S4 for
//! every channel, some images at a time.

use std::sync::Arc;

use burn::tensor::Device;
use ssmprobe::model::probe::router::channelwise::{Channelwise, Order};
use ssmprobe::model::probe::router::hard_sort::HardSort;
use ssmprobe::model::probe::router::neuralsort::NeuralSort;
use ssmprobe::model::probe::router::softsort::SoftSort;
use ssmprobe::model::probe::router::{ROUTERS, Router};
use ssmprobe::model::probe::settings::Config;

use super::{Parity, all};
use crate::gpus::gpus;
use crate::heads::largest;
use crate::pooling::read_channels;
use crate::routing::reference::*;

/// Scores of two images, the second with ties and one token far from the others.
fn scores(n: usize) -> Vec<f64> {
    let mut scores = normal(2 * n, 60);
    scores[n] = 14.0;
    if n > 4 {
        scores[n + 3] = scores[n + 1];
    }
    scores.iter().map(|&score| f64::from(score as f32)).collect()
}

#[test]
fn token_weights_and_their_gradient_equal_the_processors() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        let many: &[usize] = if all() { &[64, 196, 256, 1024, 4096] } else { &[196] };
        for &n in [2, 49, 257].iter().chain(many) {
            for temperature in [0.01, 1.0, 100.0] {
                let routers: [Box<dyn Router>; 4] = [
                    Box::new(NeuralSort { temperature }),
                    Box::new(SoftSort { power: 1, temperature }),
                    Box::new(SoftSort { power: 2, temperature }),
                    Box::new(HardSort { temperature }),
                ];
                for (at, router) in routers.iter().enumerate() {
                    let (raw, gains) = (scores(n), normal(n, 61));
                    let gains: Vec<f64> = gains.iter().map(|&gain| f64::from(gain as f32)).collect();
                    let by = normal(2 * n, 62);
                    let (mut weights, mut by_scores, mut by_gain) = (Vec::new(), Vec::new(), vec![0.0; n]);
                    // What float32 adds up to a gradient: where all places weigh alike, far more than is left of it.
                    let mut added = vec![0.0; n];
                    for (scores, by) in raw.chunks(n).zip(by.chunks(n)) {
                        let routed = router.route(scores, None);
                        let own = routed.weights(&gains);
                        let (of_scores, of_gain) = routed.vjp(&gains, &own, by);
                        let sizes: Vec<f64> = by.iter().map(|by| by.abs()).collect();
                        let (_, of_sizes) = routed.vjp(&gains, &own, &sizes);
                        added.iter_mut().zip(of_sizes).for_each(|(sum, own)| *sum += own);
                        weights.extend(own);
                        by_scores.extend(of_scores);
                        by_gain.iter_mut().zip(of_gain).for_each(|(sum, own)| *sum += own);
                    }
                    let device = &gpu.clone().autodiff();
                    let asked = matrix(&raw, n, device).require_grad();
                    let gain = vector(&gains, device).require_grad();
                    let found = router.token_weights(asked.clone(), gain.clone(), None);
                    let gradients = (found.clone() * matrix(&by, n, device)).sum().backward();
                    let power = ["", " of distances", " of squares", ""][at];
                    let case = format!("{}{power} of N {n}, tau {temperature}", router.id());
                    parity.check(
                        &name,
                        &format!("{case}, weights"),
                        apart_of_largest(&host(found), &weights),
                        2e-5,
                    );
                    let of_gain = apart(&gradient(&gain, &gradients), &by_gain) / largest(&added);
                    parity.check(&name, &format!("{case}, gradient by gain"), of_gain, 2e-5);
                    let of_scores = apart_of_largest(&gradient(&asked, &gradients), &by_scores);
                    // Roundings of a sum of N terms add up as its root.
                    let most = GRADIENT * (n as f64 / 256.0).sqrt().max(1.0);
                    parity.check(&name, &format!("{case}, gradient by scores"), of_scores, most);
                }
            }
        }
    }
}

#[test]
fn a_weight_for_every_channel_is_the_processors_in_parts_of_any_size() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        // Software adapters take long for what sorts by comparing all pairs; one router does, and all of a single token.
        let tried = |n: usize, id: &str| n == 1 || all() || id == "sinkhorn";
        for (kind, n) in
            ROUTERS.iter().flat_map(|kind| [(kind, 1), (kind, 7)]).filter(|(kind, n)| tried(*n, kind.id))
        {
            let router = Arc::from((kind.build)(&Config::default()).expect("defaults are right"));
            let order = Order::Learned { router, image_seeds: None };
            let shape = [5, n, 24];
            let expected = read_channels(&order, shape, &Device::flex(), Channelwise::pool_plain);
            let two = |asked: &Channelwise, tokens: &_| asked.pool_in_parts(tokens, Some(2));
            for (of, pool) in [("2", two as crate::pooling::PoolChannels), ("all", Channelwise::pool)] {
                let found = read_channels(&order, shape, &gpu, pool);
                assert_eq!(found.len(), expected.len());
                for (what, (found, expected)) in
                    ["sum", "gradient by gain", "by query"].iter().zip(found.iter().zip(&expected))
                {
                    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                    let (found, expected) = (wide(found), wide(expected));
                    let apart = apart(&found, &expected) / largest(&expected).max(1.0);
                    parity.check(
                        &name,
                        &format!("{} of N {n} by channel in parts of {of}, {what}", kind.id),
                        apart,
                        GRADIENT,
                    );
                }
            }
        }
    }
}
