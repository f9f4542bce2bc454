//! Attribution baselines against float64 PyTorch (`tests/reference/heads.py`), against exact evidence, and rollout against
//! the attention transformers gives (`tests/reference/backbones.py`).

use burn::tensor::Device;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::{Backbone, BackboneError};
use ssmprobe::model::explain::attribution::{gradient, integrated};
use ssmprobe::model::explain::evidence::exact;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::tokens::Tokens;

use crate::backbones::{CASES, difference, fixtures, image, read};
use crate::close::{assert_close, distance};
use crate::heads::{assert_near, each_case, largest, values_in};

/// The class that the reference asks of each image.
const ASKED: [usize; 3] = [2, 0, 4];

#[test]
fn every_head_equals_the_reference() {
    let expected = values_in("attribution.safetensors");
    each_case(|case, probe, images, _| {
        let all = |found: &dyn Fn(&Tokens, usize, u64) -> Vec<f64>| -> Vec<f64> {
            images
                .iter()
                .zip(ASKED)
                .zip(0..)
                .flat_map(|((tokens, class), seed)| found(tokens, class, seed))
                .collect()
        };
        if probe.meta.head == "cls" {
            let why = gradient(probe, &images[0], 0, 0).expect_err("no patch token is read");
            assert_eq!(integrated(probe, &images[0], 0, 0).expect_err("nor here"), why);
            assert!(why.contains("CLS token alone"), "{why}");
            return;
        }
        let of = |name: &str| &expected[&format!("{case}/{name}")];
        let gradients = all(&|tokens, class, seed| gradient(probe, tokens, class, seed).expect(case));
        assert_near(format!("{case}, gradient"), &gradients, of("gradient"), 1e-9);
        let way = all(&|tokens, class, seed| integrated(probe, tokens, class, seed).expect(case).token);
        // What a choice passes over is read in float32.
        let share = if probe.head().chooses() { 1e-6 } else { 1e-9 };
        assert_near(format!("{case}, integrated"), &way, of("integrated"), share);
        let error = all(&|tokens, class, seed| {
            vec![integrated(probe, tokens, class, seed).expect(case).completeness_error]
        });
        assert_close(
            format!("{case}, completeness"),
            &error,
            of("completeness_error"),
            share * largest(&way).max(1.0),
        );
    });
}

fn evidence(probe: &Probe, tokens: &Tokens, class: usize, seed: u64) -> Option<Vec<f64>> {
    let features = probe.classifier.weight.len() / probe.classes();
    let row = &probe.classifier.weight[class * features..][..features];
    let reading = probe.reading(tokens, seed).expect("tokens that fit");
    exact(&reading, tokens, row, 0.0).ok().map(|exact| exact.token)
}

/// Heads whose weights look at the tokens, smoothly.
const LOOKING: [&str; 3] = ["attention", "content", "efficient"];

#[test]
fn gradient_x_token_is_exact_evidence_but_for_the_gradient_of_the_weights() {
    let (mut fixed, mut routed) = (0, 0);
    each_case(|case, probe, images, _| {
        for ((tokens, class), seed) in images.iter().zip(ASKED).zip(0..) {
            let Some(evidence) = evidence(probe, tokens, class, seed) else { return };
            let found = gradient(probe, tokens, class, seed).expect(case);
            let (apart, size) = (distance(case, &found, evidence.clone()), largest(&evidence));
            let router = probe.head().router().filter(|router| router.is_soft());
            if router.is_none() && !LOOKING.contains(&probe.meta.head.as_str()) {
                assert!(apart <= 1e-9 * size, "{case}: {apart} of {size}");
                fixed += 1;
                continue;
            }
            assert!(apart > 1e-3 * size, "{case}: the weights have a gradient of their own");
            if router.is_some() {
                // Standardised scores stay as they are when all tokens grow: what routing gives one token it takes from others.
                let [sum, of_evidence] = [&found, &evidence].map(|values| values.iter().sum::<f64>());
                assert_close(case, sum, of_evidence, 1e-4 * size);
                routed += 1;
            }
        }
    });
    assert!(fixed >= 120 && routed >= 60, "{fixed} images of fixed weights, {routed} behind a router");
}

#[test]
fn tokens_without_a_finite_gradient_are_refused() {
    each_case(|case, probe, images, _| {
        if !case.starts_with("sinkhorn/") {
            return;
        }
        // All scores are equal: their standardisation has no derivative.
        let equal = Tokens { patches: vec![0.5; images[0].patches.len()], ..images[0].clone() };
        let why = gradient(probe, &equal, 0, 0).expect_err("no gradient");
        assert!(why.contains("no finite gradient"), "{why}");
        assert!(gradient(probe, &images[0], 99, 0).expect_err("no such class").contains("5 classes"));
    });
}

#[test]
fn rollout_equals_the_attention_of_transformers() {
    for (case, sizes) in CASES {
        let folder = fixtures().join(case);
        let expected = read(&folder.join("rollout.safetensors"));
        let backbone = Backbone::open(&folder, &Device::flex()).expect(case);
        for &(height, width) in *sizes {
            for layer in 1..=backbone.layers() {
                let array = &expected[&format!("{height}x{width}.{layer}")]; // [2, N]
                for k in 0..2 {
                    let found = backbone.rollout(&image(k, height, width), layer).expect(case);
                    let error = difference(&found, &array.data[k * found.len()..][..found.len()]);
                    assert!(error <= 1e-6, "{case}, {height}x{width}, image {k}, layer {layer}: {error}");
                }
            }
        }
        let refused =
            |layer| backbone.rollout(&image(0, sizes[0].0, sizes[0].1), layer).expect_err("refused");
        assert!(matches!(refused(0), BackboneError::BeforeAttention), "{case}");
        assert!(matches!(refused(99), BackboneError::Layer { layer: 99, .. }), "{case}");
    }
}

#[test]
fn rollout_lies_as_the_tokens_are_handed_out() {
    let open = || Backbone::open(&fixtures().join("vit-mae"), &Device::flex()).expect("a backbone");
    let (pixels, order) = (image(0, 16, 16), MaeOrder::Shuffled(3));
    let kept = open().rollout(&pixels, 2).expect("a rollout");
    let shuffled = open().with_mae_order(order).rollout(&pixels, 2).expect("a rollout");
    let expected: Vec<f32> = order.permutation(kept.len(), &pixels).into_iter().map(|i| kept[i]).collect();
    assert_ne!(kept, expected);
    assert_eq!(shuffled, expected);
}
