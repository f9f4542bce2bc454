//! Both objectives against float64 PyTorch (`tests/reference/pretraining.py`), and on scenes; resuming, to the same bits.

use std::ops::ControlFlow;

use burn::tensor::{Device, Tensor, TensorData};

use super::{
    Batch, Objective, Plan, Pretraining, Recipe, encoder, folder, masked, patchify, pretrain, supervised,
};
use crate::close::assert_close;
use crate::model::backbone::Backbone;
use crate::model::backbone::preprocess::resample::resize;
use crate::model::backbone::preprocess::{Filter, Preprocessor};
use crate::model::data::image::Photo;
use crate::model::data::scenes;
use crate::model::data::token_cache::Precision;
use crate::model::io::array::{Array, Arrays};
use crate::model::picture::Picture;
use crate::model::probe::params::{Params, Spec};
use crate::model::train::optim::{AdamW, gradients};

const PLAN: Plan = Plan {
    objective: Objective::Masked,
    width: 32,
    layers: 1,
    steps: 12,
    batch: 12,
    rate: 2e-3,
    seed: 1,
    recipe: Recipe::SCENES,
};

fn trained(plan: &Plan) -> (Arrays, Vec<f32>) {
    let mut losses = Vec::new();
    let arrays = pretrain(plan, &Device::flex(), &mut |progress| {
        losses.push(progress.loss);
        ControlFlow::Continue(())
    });
    assert!(arrays.keys().all(|name| !name.contains("decoder") && !name.contains("classifier")));
    (arrays, losses)
}

/// Asserts that a backbone saved in float32 gives the encoder's tokens of a scene when opened.
fn opens_as_it_was(plan: &Plan, weights: &Arrays) {
    let device = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    folder::save(folder.path(), plan, weights, Precision::Float32).unwrap();
    let backbone = Backbone::open(folder.path(), &device).unwrap();
    let photo = Photo { name: "scene".into(), picture: scenes::draw(5, 7).picture };
    let pixels = Preprocessor::open(folder.path()).unwrap().apply(&photo).unwrap();
    let side = plan.recipe.side;
    assert_eq!((pixels.width, pixels.height), (side, side));
    let byte = |i: usize| ((pixels.values[i % 3 * side * side + i / 3] + 1.0) * 127.5).round() as u8;
    let picture = Picture { width: side, height: side, rgb: (0..3 * side * side).map(byte).collect() };
    assert!(side != scenes::SIDE || picture == photo.picture);
    let opened = backbone.forward(&[pixels]).unwrap().remove(0);

    let params = Params::from_arrays(encoder::specs(plan), weights, &device);
    let patches = TensorData::new(patchify(plan, &picture), [plan.tokens(), plan.pixels()]);
    let tokens = encoder::encode(&params, plan, Tensor::from_data(patches, &device), None, 1);
    let expected: Vec<f32> = tokens.into_data().try_to_vec().unwrap(); // [1 + N, d]
    let found = [opened.cls.unwrap(), opened.patches].concat();
    assert_close("tokens", found, expected, 1e-4);
}

#[test]
fn the_loss_falls_and_the_backbone_opens() {
    for (objective, share) in [(Objective::Masked, 0.8), (Objective::Supervised, 1.0)] {
        let plan = Plan { objective, ..PLAN };
        let (weights, losses) = trained(&plan);
        assert!(losses[11] < share * losses[0] && losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        opens_as_it_was(&plan, &weights);
    }
}

/// The sizes of the reference.
const SMALL: Plan = Plan {
    objective: Objective::Masked,
    width: 64,
    layers: 2,
    steps: 4,
    batch: 3,
    rate: 1e-3,
    seed: 0,
    recipe: Recipe {
        side: 16,
        patch: 4,
        classes: 3,
        labels_tokens: false,
        mask_ratio: 0.75,
        flat: 1e-6,
        weight_decay: 0.1,
        warm_up: None,
        part: Some(2),
    },
};

/// The formula of the reference, in [-1, 1).
fn hashed(name: &str, i: usize) -> f64 {
    let seed =
        name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mut x = (i as u32).wrapping_mul(0x9e37_79b1).wrapping_add(seed);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    f64::from(x ^ (x >> 16)) / f64::from(1_u32 << 31) - 1.0
}

fn start(spec: &Spec) -> Array {
    let name = &spec.name;
    if name.contains("pos") {
        return spec.start(0, "fixed");
    }
    let value = |i| match name {
        _ if name.contains("norm") && name.ends_with(".weight") => 1.0 + 0.1 * hashed(name, i),
        _ if name.ends_with(".bias") => 0.05 * hashed(name, i),
        _ => 0.1 * hashed(name, i),
    };
    Array::new(spec.shape.clone(), (0..spec.len()).map(|i| value(i) as f32).collect())
}

#[test]
fn losses_gradients_and_steps_are_those_of_the_reference() {
    let theirs = include_str!("../../../tests/fixtures/pretraining/steps.json");
    let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
    let device = Device::flex();
    let both = [(Objective::Masked, "masked"), (Objective::Supervised, "supervised")];
    // With burn's own operations, and with fused ones.
    for ((objective, key), part) in both.into_iter().flat_map(|both| [(both, None), (both, Some(2))]) {
        let plan = Plan { objective, recipe: Recipe { part, ..SMALL.recipe }, ..SMALL };
        let count = 3 * plan.tokens() * plan.pixels();
        let patches: Vec<f32> = (0..count).map(|i| hashed("patches", i) as f32).collect();
        let order = |b: usize| {
            let mut order: Vec<usize> = (0..plan.tokens()).collect();
            order.sort_by(|i, j| {
                hashed(&format!("order.{b}"), *i).total_cmp(&hashed(&format!("order.{b}"), *j))
            });
            order
        };
        let orders: Vec<Vec<usize>> = (0..3).map(order).collect();
        let mut specs = encoder::specs(&plan);
        specs.extend(match objective {
            Objective::Masked => masked::specs(&plan),
            Objective::Supervised => supervised::specs(&plan),
        });
        let values = specs.iter().map(|spec| (spec.name.clone(), start(spec))).collect();
        let mut params = Params::from_arrays(specs, &values, &device);
        let mut adam = AdamW::default().with_decay(0.1);
        let mut losses = Vec::new();
        for rate in [1e-3, 2e-3, 5e-4, 1e-3] {
            let tracked = params.tracked();
            let loss = match objective {
                Objective::Masked => masked::masked_loss(&tracked, &plan, patches.clone(), &orders, &device),
                Objective::Supervised => {
                    let batch =
                        Batch { patches: patches.clone(), classes: vec![0, 1, 2], ..Batch::default() };
                    supervised::supervised_loss(&tracked, &plan, batch, &device).0
                }
            };
            let graph = loss.backward();
            if losses.is_empty() {
                let mut compared = 0;
                for (spec, value) in tracked.iter() {
                    let Some(gradient) = value.grad(&graph) else { continue };
                    let all = gradient.into_data().try_to_vec::<f32>().unwrap();
                    let all: Vec<f64> = all.into_iter().map(f64::from).collect();
                    let length = all.iter().map(|x| x * x).sum::<f64>().sqrt();
                    let expected: Vec<f64> =
                        serde_json::from_value(theirs[key]["gradients"][&spec.name].clone())
                            .unwrap_or_else(|error| panic!("{}: {error}", spec.name));
                    let found = [all[0], all[all.len() - 1], length];
                    assert_close(format!("{key} {}", spec.name), found.to_vec(), expected, 2e-6);
                    compared += 1;
                }
                assert_eq!(compared, theirs[key]["gradients"].as_object().unwrap().len());
            }
            params = adam.step(params, gradients(&tracked, &[&graph]), rate);
            losses.push(f64::from(loss.inner().into_scalar::<f32>()));
        }
        let expected: Vec<f64> = serde_json::from_value(theirs[key]["losses"].clone()).unwrap();
        assert_close(key, losses, expected, 2e-5);
    }
}

/// Scenes, resized.
fn small_batch(plan: &Plan, step: usize) -> Batch {
    let picture = |i: u64| {
        let scene = scenes::draw(1, i);
        (resize(&scene.picture, (16, 16), 0..16, 0..16, Filter::Bilinear), scene.class % 3)
    };
    let pictures: Vec<_> = (0..3).map(|i| picture(3 * step as u64 + i)).collect();
    Batch::from_pictures(plan, &pictures)
}

#[test]
fn a_checkpoint_goes_on_to_the_same_bits_and_one_of_other_sizes_is_refused() {
    let device = Device::flex();
    for objective in [Objective::Masked, Objective::Supervised] {
        let plan = Plan { objective, ..SMALL };
        let mut whole = Pretraining::start(&plan, &device);
        let mut kept = vec![whole.save().unwrap()];
        for step in 0..plan.steps {
            whole.step(&small_batch(&plan, step));
            kept.push(whole.save().unwrap());
        }
        for (step, bytes) in kept.iter().enumerate() {
            let mut again = Pretraining::restore(&plan, &device, bytes).unwrap();
            assert_eq!(again.steps_done(), step);
            for step in step..plan.steps {
                again.step(&small_batch(&plan, step));
            }
            assert!(again.save().unwrap() == kept[plan.steps], "from step {step}");
            assert!(again.weights() == whole.weights());
        }
        let refused = |plan: &Plan, bytes: &[u8]| Pretraining::restore(plan, &device, bytes).err().unwrap();
        let last = &kept[plan.steps];
        for (other, expected) in [
            (Plan { layers: 3, ..plan }, "parameters"),
            (Plan { width: 32, ..plan }, "parameters"),
            (Plan { steps: 3, ..plan }, "it is at step 4"),
        ] {
            let said = refused(&other, last);
            assert!(said.contains(expected), "{said}");
        }
        for torn in [&last[..last.len() - 1], &last[..100], b"", b"no checkpoint of anything"] {
            assert!(refused(&plan, torn).contains("not a complete file"));
        }
    }
}

/// Parts of a step add up to the whole step, to the same bits on any number of threads.
#[test]
fn a_step_in_parts_is_the_step() {
    let device = Device::flex();
    for objective in [Objective::Masked, Objective::Supervised] {
        let run = |part: Option<usize>, threads: usize| {
            let plan = Plan { objective, recipe: Recipe { part, ..SMALL.recipe }, ..SMALL };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut pretraining = Pretraining::start(&plan, &device);
                let steps = (0..4).map(|step| pretraining.step(&small_batch(&plan, step)));
                let steps: Vec<(f32, f32)> =
                    steps.map(|now| (now.loss, now.accuracy.unwrap_or(0.0))).collect();
                (steps.into_iter().unzip::<f32, f32, Vec<_>, Vec<_>>(), pretraining.weights())
            })
        };
        let ((losses, right), _) = run(None, 1);
        for part in [1, 2, 3] {
            let found = run(Some(part), 1);
            assert!(found == run(Some(part), 3), "parts of {part} on three threads");
            let (found_losses, found_right) = found.0;
            assert_close("losses", found_losses, &losses[..], 1e-4);
            assert_close("right", found_right, &right[..], 1e-6);
        }
    }
}

#[test]
fn a_backbone_of_photographs_opens_as_it_was() {
    let mut pretraining = Pretraining::start(&SMALL, &Device::flex());
    for step in 0..3 {
        assert!(pretraining.step(&small_batch(&SMALL, step)).loss.is_finite());
    }
    opens_as_it_was(&SMALL, &pretraining.weights());
}

#[test]
fn the_rate_rises_and_falls_and_some_patches_are_always_seen_and_some_hidden() {
    let plan = Plan { steps: 100, recipe: Recipe { warm_up: Some(10), ..SMALL.recipe }, ..SMALL };
    let rates: Vec<f64> = (0..100).map(|step| plan.rate(step)).collect();
    assert!(rates[..10].is_sorted() && rates[10..].is_sorted_by(|a, b| a > b), "{rates:?}");
    assert!(rates[99] < 1e-6 && (rates[10] / 1e-3 - 1.0).abs() < 0.03, "{rates:?}");
    let visible =
        |side, mask_ratio| Plan { recipe: Recipe { side, mask_ratio, ..SMALL.recipe }, ..SMALL }.visible();
    assert_eq!((visible(16, 0.75), visible(16, 0.99), visible(16, 0.001), visible(40, 0.9)), (4, 1, 15, 10));
    assert_eq!(Plan { recipe: Recipe::SCENES, ..SMALL }.visible(), 78);
}
