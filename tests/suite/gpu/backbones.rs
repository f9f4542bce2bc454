//! Backbones: tokens of whole images and of half their patches, and attention rollout, of every family in float32, and tokens and
//! the demo probes' predictions in half precision.

use std::path::Path;

use burn::tensor::Device;
use ssmprobe::app::demo::DemoInfo;
use ssmprobe::model::backbone::arithmetic::Arithmetic;
use ssmprobe::model::backbone::config::Config;
use ssmprobe::model::backbone::preprocess::{Pixels, Preprocessor};
use ssmprobe::model::backbone::{Backbone, FAMILIES};
use ssmprobe::model::data::image::Photo;
use ssmprobe::model::data::scenes::{self, FIRST_VAL};
use ssmprobe::model::probe::Probe;
use ssmprobe::model::tokens::Tokens;

use super::{Parity, all};
use crate::backbones::{CASES, difference, fixtures, flat, image};
use crate::gpus::gpus;
use crate::heads::{batch, model_of, values};
use crate::skip;

/// Largest difference of numbers in float32 to the processor's, as a share of the largest.
const FLOAT32: f64 = 1e-5;
/// The same of tokens in float16 and bfloat16.
const HALVES: f64 = 2e-2;

/// The largest difference as a share of the largest value.
fn share(found: &[f32], expected: &[f32]) -> f64 {
    let largest = expected.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    f64::from(difference(found, expected) / largest)
}

#[test]
fn every_family_gives_the_processors_numbers() {
    let mut parity = Parity::default();
    for (name, gpu) in gpus() {
        for family in FAMILIES {
            let own = |case: &&(&str, _)| {
                Config::open(&fixtures().join(case.0)).unwrap().family.model_type == family.model_type
            };
            let cases: Vec<_> = CASES.iter().filter(own).collect();
            for (case, sizes) in if all() { &cases[..] } else { &cases[..1] } {
                for &(height, width) in if all() { sizes } else { &sizes[..1] } {
                    let images = [image(0, height, width), image(1, height, width)];
                    let numbers = |device: &Device| {
                        let backbone = Backbone::open(&fixtures().join(case), device).unwrap();
                        let layers: Vec<usize> = (0..=backbone.layers()).collect();
                        let grid = backbone.grid(height, width).unwrap();
                        let stages = backbone.forward_layers(&images, &layers, true).unwrap();
                        let rollout = backbone.rollout(&images[0], backbone.layers()).unwrap();
                        let half: Vec<usize> = (0..grid.len() / 2).collect();
                        let rest: Vec<usize> = half.iter().map(|patch| patch + half.len()).collect();
                        let halves =
                            backbone.forward_subset(&images[0], &[&half, &rest], backbone.layers()).unwrap();
                        stages.iter().flatten().chain(&halves).map(flat).chain([rollout]).collect::<Vec<_>>()
                    };
                    let (found, expected) = (numbers(&gpu), numbers(&Device::flex()));
                    let shares = found.iter().zip(&expected).map(|(found, expected)| share(found, expected));
                    let largest = shares.fold(0.0, f64::max);
                    parity.check(
                        &name,
                        &format!("{case}, {height} x {width}, every layer, half the patches, rollout"),
                        largest,
                        FLOAT32,
                    );
                }
            }
        }
    }
}

/// Tokens of scenes that no training saw, from a backbone of the demo.
fn tokens(folder: &Path, scenes: u64, device: &Device, arithmetic: Arithmetic) -> Vec<Tokens> {
    let preprocessor = Preprocessor::open(folder).unwrap();
    let pixels = |index| {
        let picture = scenes::draw(7, FIRST_VAL + index).picture;
        preprocessor.apply(&Photo { name: "scene".into(), picture }).unwrap()
    };
    let pixels: Vec<Pixels> = (0..scenes).map(pixels).collect();
    let backbone = Backbone::open_in(folder, device, arithmetic).unwrap();
    pixels.chunks(50).flat_map(|batch| backbone.forward(batch).unwrap()).collect()
}

/// Two logits closer than this share of their image's range are a tie: either may be the larger.
const TIE: f64 = 2e-2;

#[test]
fn halves_give_the_same_tokens_to_two_digits_and_the_same_predictions() {
    let mut parity = Parity::default();
    let refused = Backbone::open_in(&fixtures().join("vit"), &Device::flex(), Arithmetic::Float16);
    assert_eq!(
        refused.err().unwrap().to_string(),
        "the CPU does not support float16; it supports float32: use one of these, or another device"
    );
    let demo = crate::run::root().join("assets/demo");
    let about = DemoInfo::open(&demo).unwrap();
    let scenes = if all() { 500 } else { 4 };
    for (name, gpu) in gpus() {
        for arithmetic in [Arithmetic::Float16, Arithmetic::Bfloat16] {
            if !arithmetic.on(&gpu) {
                skip::because(format!("{name} has no {}", arithmetic.name()));
                let refused = Backbone::open_in(&fixtures().join("vit"), &gpu, arithmetic).err().unwrap();
                assert!(refused.to_string().contains("does not support"), "{refused}");
                continue;
            }
            for backbone in &about.backbones {
                let folder = demo.join(&backbone.id);
                let exact = tokens(&folder, scenes, &Device::flex(), Arithmetic::Float32);
                let rounded = tokens(&folder, scenes, &gpu, arithmetic);
                let apart =
                    exact.iter().zip(&rounded).map(|(exact, rounded)| share(&flat(rounded), &flat(exact)));
                let apart = apart.fold(0.0, f64::max);
                let what = format!("{} of {scenes} scenes in {}", backbone.id, arithmetic.name());
                assert!(apart > 0.0, "{what}: not in halves");
                parity.check(&name, &format!("{what}, tokens"), apart, HALVES);
                let mut ties = 0;
                for head in &backbone.heads {
                    let probe = Probe::load(backbone.probe(&demo, &head.id)).unwrap();
                    let model = model_of(&probe, exact[0].grid, &Device::flex());
                    let logits = |tokens: &[Tokens]| -> Vec<f64> {
                        let batches = tokens.chunks(50).map(|images| batch(images, &Device::flex()));
                        batches.flat_map(|batch| values(model.logits(&batch))).collect()
                    };
                    let classes = probe.meta.classes.len();
                    let (exact, rounded) = (logits(&exact), logits(&rounded));
                    for (exact, rounded) in exact.chunks(classes).zip(rounded.chunks(classes)) {
                        let best = |logits: &[f64]| {
                            (0..classes).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap()
                        };
                        let (found, expected) = (best(rounded), best(exact));
                        let lowest = exact.iter().copied().fold(f64::INFINITY, f64::min);
                        let lead = (exact[expected] - exact[found]) / (exact[expected] - lowest);
                        assert!(
                            lead < TIE,
                            "{what}, {}: another class, {lead:.1e} of the range below",
                            head.id
                        );
                        ties += usize::from(found != expected);
                    }
                }
                let predictions = scenes as usize * backbone.heads.len();
                println!(
                    "parity {name}: {what}: {ties} of {predictions} predictions are ties that went the other way"
                );
            }
        }
    }
}
