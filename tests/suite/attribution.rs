//! Attribution baselines against float64 PyTorch (`tests/reference/heads.py`) and against exact evidence, and rollout
//! against the attention of transformers (`tests/reference/backbones.py`).

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use ndarray::ArrayD;
use serde_json::Value;
use ssmprobe::app::jobs::{Compute, Event, Request};
use ssmprobe::app::state::command::Command;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::{Backbone, BackboneError};
use ssmprobe::model::explain::attribution::{gradient, integrated};
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::{Attribution, AttributionSet, Picture, Trace};

use crate::backbones::{CASES, difference, fixtures, image, read};
use crate::close::{assert_close, distance};
use crate::heads::{assert_near, each_case, largest, values_in};
use crate::npz;
use crate::run::{self, fixture};
use crate::window::{Window, succeed};

/// The class that the reference explains for each image.
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
            let why = gradient(&reading(probe, &images[0], 0), 0).expect_err("no patch token is read");
            assert_eq!(integrated(&reading(probe, &images[0], 0), 0).expect_err("nor here"), why);
            assert!(why.contains("CLS token alone"), "{why}");
            return;
        }
        let of = |name: &str| &expected[&format!("{case}/{name}")];
        let gradients =
            all(&|tokens, class, seed| gradient(&reading(probe, tokens, seed), class).expect(case));
        assert_near(format!("{case}, gradient"), &gradients, of("gradient"), 1e-9);
        let path_integral =
            all(&|tokens, class, seed| integrated(&reading(probe, tokens, seed), class).expect(case).token);
        // Heads that choose tokens read the ones they pass over in float32.
        let share = if probe.head().has_hard_choice() { 1e-6 } else { 1e-9 };
        assert_near(format!("{case}, integrated"), &path_integral, of("integrated"), share);
        let error = all(&|tokens, class, seed| {
            vec![integrated(&reading(probe, tokens, seed), class).expect(case).completeness_error]
        });
        assert_close(
            format!("{case}, completeness"),
            &error,
            of("completeness_error"),
            share * largest(&path_integral).max(1.0),
        );
    });
}

fn reading<'a>(probe: &'a Probe, tokens: &'a Tokens, seed: u64) -> ImageReading<'a> {
    ImageReading::new(probe, Intervention::None, tokens, seed).expect("tokens that fit")
}

fn evidence(probe: &Probe, tokens: &Tokens, class: usize, seed: u64) -> Option<Vec<f64>> {
    reading(probe, tokens, seed).evidence(class).ok().map(|exact| exact.token)
}

/// Heads whose pooling weights are smooth functions of the tokens.
const ATTENTIVE: [&str; 6] = ["attention", "content", "efficient", "abmilp", "simpool", "coca"];

#[test]
fn gradient_x_token_is_exact_evidence_but_for_the_gradient_of_the_weights() {
    let (mut fixed, mut routed) = (0, 0);
    each_case(|case, probe, images, _| {
        for ((tokens, class), seed) in images.iter().zip(ASKED).zip(0..) {
            let Some(evidence) = evidence(probe, tokens, class, seed) else { return };
            let found = gradient(&reading(probe, tokens, seed), class).expect(case);
            let (apart, size) = (distance(case, &found, evidence.clone()), largest(&evidence));
            let router = probe.head().router().filter(|router| router.is_soft());
            if router.is_none() && !ATTENTIVE.contains(&probe.meta.head.as_str()) {
                assert!(apart <= 1e-9 * size, "{case}: {apart} of {size}");
                fixed += 1;
                continue;
            }
            assert!(apart > 1e-3 * size, "{case}: the weights have a gradient of their own");
            if router.is_some() {
                // Standardised scores do not change when all tokens are scaled, so gradient × token of the routing sums to 0.
                let [sum, of_evidence] = [&found, &evidence].map(|values| values.iter().sum::<f64>());
                assert_close(case, sum, of_evidence, 1e-4 * size);
                routed += 1;
            }
        }
    });
    assert!(fixed >= 120 && routed >= 60, "{fixed} images of fixed weights, {routed} behind a router");
}

/// A scorer of zeros gives equal scores whatever the tokens are: the plan does not change, so the gradient is the evidence.
#[test]
fn equal_scores_have_a_gradient_and_numbers_that_are_none_are_refused() {
    each_case(|case, probe, images, _| {
        if !case.starts_with("sinkhorn/") {
            return;
        }
        let (mut arrays, image) = (probe.arrays.clone(), &images[0]);
        arrays["scorer.weight"].data.fill(0.0);
        let blind = Probe::new(probe.meta.clone(), arrays, probe.classifier.clone());
        let found = gradient(&reading(&blind, image, 0), 0).expect("a gradient");
        assert_close(case, found, evidence(&blind, image, 0, 0).expect("evidence"), 1e-9);
        let none = Tokens { patches: vec![f32::NAN; image.patches.len()], ..image.clone() };
        let why = gradient(&reading(probe, &none, 0), 0).expect_err("no gradient");
        assert!(why.contains("no finite gradient"), "{why}");
        assert!(gradient(&reading(probe, image, 0), 99).expect_err("no such class").contains("5 classes"));
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
    // So does the picture that maps lie over.
    let picture = Picture { width: 16, height: 16, rgb: (0..=255).cycle().take(768).collect() };
    let grid = open().grid(16, 16).expect("a grid");
    let rearranged = picture.rearranged(grid, &order.permutation(grid.len(), &pixels));
    assert_eq!(open().rearranged(picture.clone(), &pixels), picture);
    assert_eq!(open().with_mae_order(order).rearranged(picture, &pixels), rearranged);
}

#[test]
fn inspect_writes_what_was_asked() {
    let out = tempfile::tempdir().expect("a folder");
    let inspect = |more: &[&str]| {
        let mut command = run::inspect(16);
        command.arg("--save-tokens").arg("--probe").arg(fixture("probes"));
        command.arg("--image").arg(fixture("images/one.png")).arg("--out").arg(out.path()).args(more);
        command
    };
    let attributions = ["--attributions", "gradient,integrated", "rollout"];
    run::done(inspect(&attributions).args(["--reading", "as-trained", "random-order=1"]));
    let mut readings = [0, 0];
    for path in run::entries(&out.path().join("one")) {
        let Some(stem) = path.to_string_lossy().strip_suffix(".json").map(str::to_owned) else { continue };
        let document: Value = run::json(&path);
        let found = npz::read(fs::File::open(format!("{stem}.npz")).expect("a file")).expect("an archive");
        let array = |name: &str| -> Option<ArrayD<f32>> {
            found.get(name).map(|npy| npz::array(npy).expect("numbers"))
        };
        let said = |method: &str| &document["attributions"][method];
        let values =
            |name: &str| array(name).map(|array| array.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
        let flows = values("rollout").expect("a rollout");
        assert_close(&stem, flows.iter().sum::<f64>(), said("rollout")["sum"].as_f64().expect("a sum"), 1e-9);
        let trained = document["reading"] == "as trained";
        readings[usize::from(trained)] += 1;
        if !trained || document["head"] == "cls" {
            for method in ["gradient", "integrated"] {
                let why = said(method)["none"].as_str().expect("a reason");
                let expected = if trained { "CLS token alone" } else { "this reading has another" };
                assert!(why.contains(expected) && values(method).is_none(), "{stem}: {why}");
            }
            continue;
        }
        let probe = Probe::load(
            fixture("probes")
                .join(document["probe"].as_str().map(Path::new).and_then(Path::file_name).expect("a name")),
        )
        .expect("a probe");
        let (patches, cls) = (array("tokens").expect("tokens"), array("cls"));
        let side = |name: &str| document["grid"][name].as_u64().expect("a side") as usize;
        let tokens = Tokens {
            grid: Grid::new(side("rows"), side("cols")),
            width: patches.shape()[1],
            cls: cls.map(|cls| cls.iter().copied().collect()),
            registers: Vec::new(),
            patches: patches.iter().copied().collect(),
        };
        let class = document["class"]["index"].as_u64().expect("a class") as usize;
        let own = gradient(&reading(&probe, &tokens, 0), class).expect("a gradient");
        assert_near(&stem, &values("gradient").expect("a gradient"), &own, 1e-6);
        let path_integral = integrated(&reading(&probe, &tokens, 0), class).expect("integrated gradients");
        assert_near(&stem, &values("integrated").expect("integrated gradients"), &path_integral.token, 1e-6);
        let error = said("integrated")["completeness_error"].as_f64().expect("an error");
        assert_close(&stem, error, path_integral.completeness_error, 1e-9);
    }
    assert!(readings.iter().all(|count| *count > 3), "{readings:?}");
    let refused = inspect(&["--attributions", "saliency"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("gradient, integrated, rollout"), "{said}");
}

/// Answers a request with the attributions that it asks for and no others.
fn answered(request: Request) -> Vec<Event> {
    let asked = match &request {
        Request::Compute(_, Compute::Explain(look)) => look.settings.attributions,
        _ => AttributionSet::default(),
    };
    let mut events = succeed(request);
    for event in &mut events {
        let Event::Explained { results, .. } = event else { continue };
        for trace in results.iter_mut().filter_map(|answer| answer.result.as_mut().ok()) {
            let mut own = Trace::clone(trace);
            own.attributions.retain(|method, _| asked.contains(*method));
            *trace = own.into();
        }
    }
    events
}

#[test]
fn a_pane_offers_to_compute_what_nobody_asked_for() {
    let mut window = Window::new();
    window.open();
    window.answer_with(answered);
    window.show("gradient");
    assert!(window.has("differs from exact evidence by the routing's own gradient"));
    window.click("Compute gradient × token");
    assert!(window.has("Computing…") && window.idle());
    window.answer_with(answered);
    let found = |window: &Window| -> Vec<Attribution> {
        let columns = &window.state().columns;
        let trace = columns.values().find_map(|column| column.shown.trace()).expect("a trace");
        trace.attributions.keys().copied().collect()
    };
    assert_eq!(found(&window), [Attribution::Gradient]);
    assert!(window.has("For every image") && !window.has("Computing…"));
    window.click("For every image");
    window.answer_with(answered);
    assert_eq!(found(&window), []);
    assert!(window.has("Compute gradient × token"));
    // The contact sheet's requests ask for no attributions.
    window.click("Compute gradient × token");
    window.answer_with(answered);
    let app = window.harness.state_mut();
    let column = *app.state.columns.keys().next().expect("a column");
    let all = app.state.library.images.keys().map(|image| (column, *image)).collect();
    app.dispatch(Command::ShowSheet(all));
    let asked = window.take_requests();
    let many = asked
        .into_iter()
        .find_map(pick!(Request::Compute(_, Compute::ExplainMany(look)) => look.settings.attributions));
    assert_eq!((many, found(&window)), (Some(AttributionSet::default()), vec![Attribution::Gradient]));
}
