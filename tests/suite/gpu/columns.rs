//! Routers that do not store the plans of a batch: the kernels of NeuralSort, SoftSort and hard sorting against the
//! processor's in float64, and an S4 per channel, some images at a time.

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
                for router in &routers {
                    let (raw, gains) = (scores(n), normal(n, 61));
                    let gains: Vec<f64> = gains.iter().map(|&gain| f64::from(gain as f32)).collect();
                    let cotangent = normal(2 * n, 62);
                    let (mut weights, mut grad_scores, mut grad_gain) =
                        (Vec::new(), Vec::new(), vec![0.0; n]);
                    // Sums of magnitudes, float32's error scale: above the gradient where positions weigh alike.
                    let mut magnitudes = vec![0.0; n];
                    for (scores, cotangent) in raw.chunks(n).zip(cotangent.chunks(n)) {
                        let routed = router.route(scores, None);
                        let own = routed.weights(&gains);
                        let (of_scores, of_gain) = routed.vjp(&gains, &own, cotangent);
                        let sizes: Vec<f64> = cotangent.iter().map(|x| x.abs()).collect();
                        let (_, of_sizes) = routed.vjp(&gains, &own, &sizes);
                        magnitudes.iter_mut().zip(of_sizes).for_each(|(sum, own)| *sum += own);
                        weights.extend(own);
                        grad_scores.extend(of_scores);
                        grad_gain.iter_mut().zip(of_gain).for_each(|(sum, own)| *sum += own);
                    }
                    let device = &gpu.clone().autodiff();
                    let scores = matrix(&raw, n, device).require_grad();
                    let gain = vector(&gains, device).require_grad();
                    let found = router.token_weights(scores.clone(), gain.clone(), None);
                    let gradients = (found.clone() * matrix(&cotangent, n, device)).sum().backward();
                    let case = format!("{router:?} of N {n}");
                    parity.check(
                        &name,
                        &format!("{case}, weights"),
                        apart_of_largest(&host(found), &weights),
                        2e-5,
                    );
                    let of_gain = apart(&gradient(&gain, &gradients), &grad_gain) / largest(&magnitudes);
                    parity.check(&name, &format!("{case}, gradient by gain"), of_gain, 2e-5);
                    let of_scores = apart_of_largest(&gradient(&scores, &gradients), &grad_scores);
                    // Rounding errors of a sum of N terms grow as the square root of N.
                    let bound = GRADIENT * (n as f64 / 256.0).sqrt().max(1.0);
                    parity.check(&name, &format!("{case}, gradient by scores"), of_scores, bound);
                }
            }
        }
    }
}

#[test]
fn a_weight_for_every_channel_is_the_processors_in_parts_of_any_size() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        // Sorting by comparing all pairs is slow on software adapters: there, one router for N > 1, and all for one token.
        let tried = |n: usize, id: &str| n == 1 || all() || id == "sinkhorn";
        for (kind, n) in
            ROUTERS.iter().flat_map(|kind| [(kind, 1), (kind, 7)]).filter(|(kind, n)| tried(*n, kind.id))
        {
            let router = Arc::from((kind.build)(&Config::default()).expect("defaults are right"));
            let order = Order::Learned { router, image_seeds: None };
            let shape = [5, n, 24];
            let expected = read_channels(&order, shape, &Device::flex(), Channelwise::pool_plain);
            let two = |channelwise: &Channelwise, tokens: &_| channelwise.pool_in_parts(tokens, Some(2));
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
