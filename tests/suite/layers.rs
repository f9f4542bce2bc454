//! Layers and learning rates as axes of a training: one backbone pass for all of them, every cell equal to the bit to a
//! run of its own, resumption, division into tasks, and the choice by the selection images.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ssmprobe::app::jobs::extract::{self, ExtractOptions, Plan, TokenSettings};
use ssmprobe::app::jobs::train::{self, Event, TrainPlan, TrainSettings, TrainSpec, TrainingError};
use ssmprobe::app::report::Source;
use ssmprobe::app::report::html::choose;
use ssmprobe::model::backbone::token_spec::{Layer, TokenSpec};
use ssmprobe::model::data;
use ssmprobe::model::data::Split;
use ssmprobe::model::data::token_cache::{Precision, TokenSource as _};
use ssmprobe::model::device;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::train::TrainCursor;
use ssmprobe::model::train::run::{Outcome, ProbeCheckpoint, Run};

use crate::run::files;
use crate::run::prelude::*;

const LAYERS: [Layer; 2] = [Layer(Some(1)), Layer(None)];
const RATES: [f64; 2] = [1e-3, 1e-2];
const IMAGES: usize = 42;

fn sandbox() -> Sandbox {
    Sandbox::new(30, 12)
}

/// Two heads with every layer and rate, two seeds.
fn settings(sandbox: &Sandbox, cache: &str) -> TrainSettings {
    TrainSettings {
        backbone: backbone().display().to_string(),
        data: Some(sandbox.data()),
        heads: ["gap", "sinkhorn"].map(str::to_owned).into(),
        head_settings: "state_dim=4 iterations=3".into(),
        epochs: 2,
        batch: 8,
        seeds: 2,
        rates: RATES.into(),
        layers: LAYERS.into(),
        selection: Some(0.3),
        device: "cpu".into(),
        tokens: TokenSettings { cache: Some(sandbox.path(cache)), ..TokenSettings::default() },
        ..TrainSettings::default()
    }
}

type OnEvent<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

fn train(settings: TrainSettings, out: &Path, on_event: OnEvent) -> Result<train::Summary, TrainingError> {
    let plan = TrainPlan::new(settings, backbone()).expect("a plan");
    train::run(device::choose, &TrainSpec { plan, out: out.to_owned(), resume: true }, on_event)
}

fn trained(settings: TrainSettings, out: &Path) -> Run {
    let summary = train(settings, out, &mut |_| ControlFlow::Continue(())).expect("a training");
    assert!(summary.finished);
    summary.run
}

/// The training record of a probe file without its variant's name.
fn training(probe: &Probe) -> Value {
    let mut training = probe.meta.training.clone().expect("how it was trained");
    training["variant"] = Value::Null;
    training
}

/// Every variant of `run` that reads `layer` at `rate` is the head of `solo`, to the bit.
fn assert_solo(run: &Run, layer: Layer, rate: f64, solo: &Run) {
    for &seed in &solo.manifest.seeds {
        let [losses, alone] = [run, solo].map(|run| run.losses(seed).expect("readable").expect("kept"));
        for head in &solo.manifest.heads {
            let name = format!("{}[layer={layer},rate={rate}]", head.name);
            let plain = |outcome: Outcome| Outcome { head: String::new(), seconds: 0.0, ..outcome };
            let [found, expected] = [(run, &name), (solo, &head.name)]
                .map(|(run, name)| plain(run.outcome(name, seed).expect("an outcome")));
            assert_eq!(found, expected, "{name}, seed {seed}");
            for which in ProbeCheckpoint::ALL {
                let probe =
                    |run: &Run, name: &str| Probe::load(run.probe_path(name, seed, which)).expect("a probe");
                let (found, expected) = (probe(run, &name), probe(solo, &head.name));
                assert!(
                    found.arrays == expected.arrays && found.classifier == expected.classifier,
                    "{name}, seed {seed}: other values"
                );
                assert_eq!(training(&found), training(&expected), "{name}, seed {seed}");
            }
            let points = |losses: &[(String, Vec<f32>)], name: &str| {
                losses.iter().find(|(own, _)| own == name).map(|(_, points)| points.clone()).expect("losses")
            };
            assert_eq!(points(&losses.heads, &name), points(&alone.heads, &head.name), "{name}, seed {seed}");
        }
    }
}

#[test]
fn every_cell_is_its_solo_run_to_the_bit_and_the_backbone_runs_once() {
    let sandbox = sandbox();
    let (mut read, mut passes) = (0, 0);
    let summary = train(settings(&sandbox, "cache"), &sandbox.path("all"), &mut |event| {
        if let Event::Extract { event: extract::Event::Done(spent), .. } = &event {
            (read, passes) = (read + spent.images, passes + 1);
        }
        ControlFlow::Continue(())
    })
    .expect("a training");
    assert_eq!((read, passes), (IMAGES, 1), "every image goes through the backbone once for all layers");
    assert_eq!(fs::read_dir(sandbox.path("cache")).expect("a folder").count(), LAYERS.len());
    let run = summary.run;
    assert_eq!(run.manifest.heads.len(), 8);
    assert_eq!(run.manifest.layers(), ["1", "last"]);
    // Without a token cache, the backbone gives both layers in each pass.
    let recomputed = TrainSettings { recompute: true, ..settings(&sandbox, "none") };
    let recomputed = trained(recomputed, &sandbox.path("recomputed"));
    assert!(!sandbox.path("none").exists(), "no tokens were to be kept");
    let metrics = |run: &Run| fs::read_to_string(run.folder().join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics(&run), metrics(&recomputed));
    let mut compared = 0;
    for (layer, rate) in LAYERS.into_iter().flat_map(|layer| RATES.map(|rate| (layer, rate))) {
        let mut own = settings(&sandbox, "solo");
        (own.layers, own.rates, own.rate) = (Vec::new(), Vec::new(), rate);
        own.tokens.token_spec = TokenSpec { layer: layer.0, ..TokenSpec::default() };
        let solo = trained(own, &sandbox.path(&format!("solo-{layer}-{rate}")));
        assert_solo(&run, layer, rate, &solo);
        compared += 1;
    }
    assert_eq!(compared, 4);
    assert_eq!(
        tree(&sandbox.path("cache")),
        tree(&sandbox.path("solo")),
        "tokens of one pass are those of several"
    );
}

#[test]
fn a_training_of_several_layers_goes_on_to_the_same_bits() {
    let sandbox = sandbox();
    let results = |run: &Run| {
        let outcomes = run.outcomes().expect("answers").into_iter();
        let outcomes: Vec<Outcome> = outcomes.map(|one| Outcome { seconds: 0.0, ..one }).collect();
        (files(&run.folder().join("probes")), files(&run.folder().join("losses")), outcomes)
    };
    let whole = results(&trained(settings(&sandbox, "cache"), &sandbox.path("whole")));
    let counts =
        |event: &Event| matches!(event, Event::Step { .. } | Event::Evaluation | Event::Epoch { .. });
    for cut in [1, 3, 7, 8, 12, 15] {
        let out = sandbox.path(&format!("cut-{cut}"));
        let mut events = 0;
        let first = train(settings(&sandbox, "cache"), &out, &mut |event| {
            events += usize::from(counts(&event));
            if counts(&event) && events == cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(!first.expect("a training").finished, "event {cut} is before the end");
        // As `--resume --out` does: settings come from the run, whose heads already cover the axes.
        let run = Run::open(&out).expect("a run");
        let settings = TrainSettings::of_run(&run).expect("settings");
        assert!(settings.layers.is_empty() && settings.rates.is_empty());
        let tokens = TokenSettings { cache: Some(sandbox.path("cache")), ..settings.tokens.clone() };
        let settings = TrainSettings { tokens, device: "cpu".into(), ..settings };
        let plan = TrainPlan { settings, backbone: backbone(), heads: run.manifest.heads.clone() };
        let spec = TrainSpec { plan, out, resume: true };
        let end = train::run(device::choose, &spec, &mut |_| ControlFlow::Continue(())).expect("a training");
        assert!(end.finished && results(&end.run) == whole, "stopped after event {cut}, it ends otherwise");
    }
}

/// Within an epoch, by the user and by an image that is gone; both times the training goes on to the same bits.
#[test]
fn an_end_within_an_epoch_loses_no_step() {
    let sandbox = sandbox();
    let settings = || {
        let (layers, rates) = (Vec::new(), Vec::new());
        TrainSettings { epochs: 3, seeds: 1, recompute: true, layers, rates, ..settings(&sandbox, "none") }
    };
    let whole = trained(settings(), &sandbox.path("whole"));
    let out = sandbox.path("cut");
    let stopped = train(settings(), &out, &mut |event| match event {
        Event::Step { position: TrainCursor { epoch: 1, .. }, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let stopped = stopped.expect("a training");
    let position = || stopped.run.checkpoint().expect("a checkpoint").position;
    assert_eq!(position(), TrainCursor { epoch: 1, step: 1 });
    let epoch = |which| {
        let probe = Probe::load(stopped.run.probe_path("gap", 0, which)).expect("a probe");
        training(&probe)["epoch"].clone()
    };
    assert_eq!(epoch(ProbeCheckpoint::Best)["epoch"], 1);
    let of_a_part = serde_json::json!({ "epoch": 2 });
    assert_eq!(epoch(ProbeCheckpoint::Last), of_a_part, "metrics are those of a whole epoch");

    let dataset = data::open(sandbox.data()).expect("a dataset");
    let tested = dataset.samples.iter().find(|sample| sample.split == Split::Val).expect("a test image");
    let (image, aside) = (&*tested.source.path, sandbox.path("aside.png"));
    let ended = train(settings(), &out, &mut |event| {
        if matches!(event, Event::Begin { .. }) {
            fs::rename(image, &aside).expect("moved");
        }
        ControlFlow::Continue(())
    });
    assert_says(ended.expect_err("the test image is gone"), &["could be read before but no longer can"]);
    fs::rename(&aside, image).expect("moved back");
    let steps = stopped.run.manifest.dataset.train.div_ceil(8);
    assert_eq!(position(), TrainCursor { epoch: 1, step: steps }, "the epoch but for its evaluation");

    // The pace is that of what is done now, without the time of the callback.
    let (mut outside, mut left, mut done) = (Duration::ZERO, Instant::now(), None);
    let resumed = train(settings(), &out, &mut |event| {
        outside += left.elapsed();
        match event {
            Event::Begin { .. } => outside = Duration::ZERO,
            Event::Epoch { .. } => std::thread::sleep(16 * outside),
            Event::Step { progress, .. } => done = done.or(Some(progress.rate * outside.as_secs_f64())),
            _ => {}
        }
        left = Instant::now();
        ControlFlow::Continue(())
    });
    let (resumed, done) = (resumed.expect("a training").run, done.expect("a step"));
    assert!((2.0..24.0).contains(&done), "{done} images of a batch of 8");
    let probes = |run: &Run| files(&run.folder().join("probes"));
    assert!(probes(&resumed) == probes(&whole));
}

#[test]
fn images_whose_disk_is_away_for_a_moment_are_waited_for_unless_the_training_is_stopped() {
    let sandbox = sandbox();
    let settings = || {
        let (layers, rates) = (Vec::new(), Vec::new());
        TrainSettings { epochs: 3, seeds: 1, recompute: true, layers, rates, ..settings(&sandbox, "none") }
    };
    let probes = |run: &Run| files(&run.folder().join("probes"));
    let whole = probes(&trained(settings(), &sandbox.path("whole")));
    for (out, stops) in [("waits", false), ("stops", true)] {
        let (out, away, mut waits) = (sandbox.path(out), sandbox.path("away"), Vec::new());
        let end = train(settings(), &out, &mut |event| {
            match event {
                Event::Epoch { position: TrainCursor { epoch: 1, .. }, .. } => {
                    fs::rename(sandbox.data(), &away).expect("moved");
                }
                // Before an evaluation, each of which begins with the same image.
                Event::Step { position, steps, .. } if position.epoch > 0 && position.step == steps => {
                    fs::rename(sandbox.data(), &away).expect("moved");
                }
                Event::Waiting { why, first } => {
                    fs::rename(&away, sandbox.data()).expect("moved back");
                    waits.push((why.waited_for(), first));
                    return if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        let end = end.expect("it does not fail");
        assert_eq!(waits.len(), if stops { 1 } else { 3 }, "{waits:?}");
        let is_told =
            |(why, first): &(String, bool)| *first && why.contains("could be read before but no longer can");
        assert!(waits.iter().all(is_told), "{waits:?}");
        assert_eq!(end.finished, !stops);
        if stops {
            let position = end.run.checkpoint().expect("a checkpoint").position;
            assert_eq!(position, TrainCursor { epoch: 1, step: 0 });
        }
        assert!(probes(&trained(settings(), &out)) == whole, "it goes on to the same bits");
    }
}

/// One backbone pass over the images that any layer lacks completes the tokens of all layers.
#[test]
fn what_is_missing_of_any_layer_is_taken_in_one_pass() {
    let sandbox = Sandbox::new(150, 12);
    let dataset = data::open(sandbox.data()).expect("a dataset");
    let plan = |cache: &str, layers: &[Layer]| {
        let tokens = TokenSettings { cache: Some(sandbox.path(cache)), ..TokenSettings::default() };
        let layers = layers.to_vec();
        Plan::new(ExtractOptions { layers, ..ExtractOptions::new(backbone(), tokens) }, &dataset)
            .expect("a plan")
    };
    let device = device::choose("cpu").expect("a processor").device;
    let layers = [Layer(Some(0)), Layer(Some(1)), Layer(None)];
    for layer in layers {
        plan("solo", &[layer]).run(&dataset, &device, &mut |_| ControlFlow::Continue(())).expect("tokens");
    }
    let all = plan("cache", &layers);
    let one = plan("cache", &layers[..1]);
    assert_eq!((all.done, all.bytes), (0, 3 * one.bytes));
    let precision = Precision::Float32;
    let wide = TokenSettings { cache: Some(sandbox.path("cache")), precision, ..TokenSettings::default() };
    let wide = Plan::new(ExtractOptions::new(backbone(), wide), &dataset).expect("a plan");
    assert_eq!(wide.bytes, 2 * one.bytes, "numbers of twice as many bytes");
    // Stopped after the first shard of all of them; then the second shard of one is lost.
    let stopped = all.run(&dataset, &device, &mut |event| match event {
        extract::Event::Progress(progress) if progress.done >= 64 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(extract::ExtractError::Stopped { .. })));
    plan("cache", &layers[1..2]).run(&dataset, &device, &mut |_| ControlFlow::Continue(())).expect("tokens");
    let Plan { done, bytes_missing, .. } = plan("cache", &layers);
    assert!((64..162).contains(&done), "{done}");
    assert_eq!(bytes_missing, all.bytes / 3 / 162 * 2 * (162 - done as u64), "two layers of three miss them");
    fs::remove_file(all.folders()[1].join("tokens-000001.safetensors")).expect("it was there");
    let mut spent = None;
    let caches = plan("cache", &layers).run(&dataset, &device, &mut |event| {
        if let extract::Event::Done(seconds) = event {
            spent = Some(seconds.images);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(caches.expect("tokens").len(), 3);
    assert_eq!(spent, Some(162 - done.min(64)), "what is there of all layers is not read again");
    assert_eq!(tree(&sandbox.path("cache")), tree(&sandbox.path("solo")));
    // Two layers miss different shards.
    for (folder, shard) in all.folders().iter().zip(["tokens-000001", "tokens-000000"]) {
        fs::remove_file(folder.join(format!("{shard}.safetensors"))).expect("it was there");
    }
    let mut reached = 0;
    let caches = plan("cache", &layers).run(&dataset, &device, &mut |event| {
        if let extract::Event::Progress(progress) = event {
            reached = progress.done;
        }
        ControlFlow::Continue(())
    });
    assert_eq!((caches.expect("tokens").len(), reached), (3, 162));
    assert_eq!(tree(&sandbox.path("cache")), tree(&sandbox.path("solo")));
}

#[test]
fn a_protocol_brings_its_epochs_and_rates() {
    let sandbox = sandbox();
    let plan = |more: &[&str]| {
        let mut command = sandbox.on_data("train", "cache");
        command.args(["--heads", "gap", "--batch", "8", "--out"]).arg(sandbox.path("run")).args(more);
        command
    };
    // 13 rates need images to choose by.
    assert_ends(&mut plan(&["--protocol", "dinov2-linear"]), 2, &["--select-split 0.1"]);
    assert_ends(&mut plan(&["--protocol", "mae-linprobe", "--epochs", "10"]), 2, &["warms up for 10 epochs"]);
    assert_ends(&mut plan(&["--protocol", "dino"]), 2, &["efficient-probing"]);
    assert!(!sandbox.path("run").exists());
    let protocol =
        ["--protocol", "dinov2-linear", "--select-split", "0.3", "--evaluate-every", "5", "--json"];
    let stdout = done(&mut plan(&protocol));
    let manifest = Run::open(&sandbox.path("run")).expect("a run").manifest;
    assert_eq!(
        (manifest.heads.len(), manifest.config.epochs, manifest.config.evaluate_every),
        (13, 10, Some(5))
    );
    assert_eq!(manifest.heads[12].rate, Some(0.1 * 8.0 / 256.0));
    let events = lines(&stdout);
    let within: Vec<&Value> = events.iter().filter(|event| event["event"] == "evaluation").collect();
    let steps = manifest.dataset.train.div_ceil(8);
    let due: Vec<usize> = (1..10 * steps).filter(|step| step % 5 == 0 && step % steps != 0).collect();
    assert!(due.len() > 1 && within.len() == 13 * due.len(), "{} of {due:?}", within.len());
    let place = |key: &str| within[0][key].as_u64().expect("a number") as usize;
    assert_eq!((place("step"), place("epoch")), (due[0], due[0] / steps + 1));
    let mut report = program();
    assert_says(
        done(report.arg("report").arg(sandbox.path("run")).args(["--table", "rates"])),
        &["10 epochs of SGD with momentum 0.9, as dinov2-linear (rates 0.0000003125,"],
    );
    // A resumed run keeps its epochs and rates: another preset is refused.
    assert_ends(&mut sandbox.resume("run", &["--protocol", "mae-linprobe"]), 2, &["protocol.protocol"]);
}

/// Width, patches and CLS of the tokens of three images in a cache of the sandbox.
fn read_tokens(
    sandbox: &Sandbox,
    cache: &str,
    layer: Layer,
    blocks: Option<usize>,
) -> (usize, Vec<f32>, Vec<f32>) {
    let dataset = data::open(sandbox.data()).expect("a dataset");
    let token_spec = TokenSpec { layer: layer.0, blocks, ..TokenSpec::default() };
    let tokens = TokenSettings { cache: Some(sandbox.path(cache)), token_spec, ..TokenSettings::default() };
    let plan = Plan::new(ExtractOptions::new(backbone(), tokens), &dataset).expect("a plan");
    let device = device::choose("cpu").expect("a processor").device;
    let caches = plan.run(&dataset, &device, &mut |_| ControlFlow::Continue(())).expect("tokens");
    let rows = caches.read(vec![vec![0, 7, 3]], &device).next().expect("a batch").expect("tokens").next();
    let rows = rows.expect("a layer");
    (caches.width(), rows.patches.convert::<f32>().try_into_vec().expect("float32"), rows.cls.expect("CLS"))
}

/// Concatenated layers: tokens are those of each layer in turn, and probes trained on them are evaluated on them.
#[test]
fn joined_layers_are_trained_on_and_asked_about() {
    let sandbox = sandbox();
    let joined = |cache: &str| {
        let mut own = settings(&sandbox, cache);
        (own.layers, own.rates, own.seeds) = (Vec::new(), Vec::new(), 1);
        (own.heads, own.head_settings) = (vec!["cls-mean".into()], "blocks=2".into());
        own.tokens.token_spec.blocks = Some(2);
        own
    };
    let run_ = trained(joined("cache"), &sandbox.path("run"));
    let [first, last] = LAYERS.map(|layer| read_tokens(&sandbox, "solo", layer, None));
    let d = last.0;
    let (width, patches, cls) = read_tokens(&sandbox, "cache", LAYERS[1], Some(2));
    assert_eq!((width, run_.manifest.backbone.hidden_size), (2 * d, 2 * d));
    let side_by_side = |first: &[f32], last: &[f32]| -> Vec<f32> {
        let tokens = first.chunks_exact(d).zip(last.chunks_exact(d));
        tokens.flat_map(|(first, last)| [first, last].concat()).collect()
    };
    assert!(patches == side_by_side(&first.1, &last.1) && cls == side_by_side(&first.2, &last.2));
    assert_eq!(run_.manifest.tokens.layer, "last, 2 blocks");
    let recomputed = TrainSettings { recompute: true, ..joined("none") };
    let recomputed = trained(recomputed, &sandbox.path("recomputed"));
    let metrics = |run: &Run| fs::read_to_string(run.folder().join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics(&run_), metrics(&recomputed));
    // The probe file names its tokens: no flag is needed, and flags for others are refused.
    let file = run_.probe_path("cls-mean", 0, ProbeCheckpoint::Best);
    let probe = Probe::load(&file).expect("a probe");
    assert_eq!(probe.classifier.weight.len(), probe.classes() * 3 * d, "CLS of both, the mean of the last");
    let inspect = |more: &[&str]| {
        let image = data::open(sandbox.data()).expect("a dataset").samples[0].source.path.clone();
        let mut command = program();
        command.args(["inspect", "--device", "cpu", "--backbone"]).arg(backbone()).arg("--probe").arg(&file);
        command.arg("--image").arg(image).arg("--out").arg(sandbox.path(&format!("out{}", more.concat())));
        command.args(more);
        command
    };
    let (_, stderr) = succeeds(&mut inspect(&[]));
    assert!(!stderr.contains("mean little"), "{stderr}");
    assert_ends(&mut inspect(&["--blocks", "1"]), 2, &[&format!("hidden size {}", 2 * d)]);
    assert_ends(&mut inspect(&["--blocks", "4"]), 2, &["ending at layer 2, but there are only 3"]);
    assert_ends(&mut inspect(&["--blocks", "0"]), 2, &["expected a number of layers, from 1"]);
    done(&mut sandbox.eval("run", &[]));
    // On an axis of layers, every point concatenates the same number of layers.
    let axis = TrainSettings { layers: LAYERS.into(), ..joined("cache") };
    let axis = trained(axis, &sandbox.path("axis"));
    assert_eq!(axis.manifest.layers(), ["1, 2 blocks", "last, 2 blocks"]);
}

fn grid(sandbox: &Sandbox, out: &str, more: &[&str]) -> Command {
    sandbox.train(
        out,
        2,
        &[&["--layers", "1,last", "--rates", "1e-3,1e-2", "--select-split", "0.3"], more].concat(),
    )
}

#[cfg(target_os = "linux")]
#[test]
fn tasks_of_layers_and_rates_come_to_the_bytes_of_one_run() {
    let sandbox = Sandbox::new(150, 12);
    done(&mut grid(&sandbox, "whole", &[]));
    // Two seeds of eight heads: blocks of two, so that a task has one layer of a head and not the other.
    let in_tasks = ["--submit", "local", "--tasks", "8", "--wait"];
    // Tokens are there.
    assert_ends(&mut grid(&sandbox, "parts", &in_tasks), 0, &["submitted: 8 x train, then join"]);
    crate::submit::assert_same(&sandbox.path("parts"), &sandbox.path("whole"));
    // Without cached tokens, tasks extract them first, of both layers at once.
    let mut sweep = sandbox.on_data("sweep", "other");
    sweep.args(["--grid", "iterations=1,5", "--config", "state_dim=4", "--epochs", "1", "--batch", "32"]);
    sweep.args(["--layers", "1,last", "--select-split", "0.3", "--seeds", "2"]);
    sweep.args(["--submit", "local", "--tasks", "4", "--wait", "--out"]).arg(sandbox.path("sweep"));
    assert_ends(&mut sweep, 0, &["submitted: 3 x tokens, then all-tokens, then 4 x train, then join"]);
    assert_eq!(tree(&sandbox.path("other")), tree(&sandbox.path("cache")));
    let heads = Run::open(&sandbox.path("sweep")).expect("a run").manifest.heads;
    let names: Vec<&str> = heads.iter().map(|head| head.name.as_str()).collect();
    let expected = ["1,layer=1", "1,layer=last", "5,layer=1", "5,layer=last"];
    assert_eq!(names, expected.map(|rest| format!("sinkhorn[iterations={rest}]")));
}

#[test]
fn the_selection_images_choose_and_all_say_the_same() {
    let sandbox = sandbox();
    let events = lines(&done(&mut grid(&sandbox, "run", &["--json"])));
    let end = events.last().expect("an end");
    let chosen = end["chosen"].as_array().expect("a list");
    assert_eq!(chosen.len(), 2);
    let run_ = Run::open(&sandbox.path("run")).expect("a run");
    // Recomputed from the outcomes: the mean over seeds of the accuracy on the selection images at the best epoch.
    for (head, chosen) in ["linear-bn", "sinkhorn"].into_iter().zip(chosen) {
        let mut best: Option<(f64, String, f64)> = None;
        for variant in run_.manifest.heads.iter().filter(|variant| variant.head == head) {
            let of = |value: fn(&ssmprobe::model::train::Epoch) -> f64| {
                let seeds = run_.manifest.seeds.iter().map(|&seed| {
                    let outcome = run_.outcome(&variant.name, seed).expect("an outcome");
                    value(&outcome.epochs[outcome.best_epoch.expect("an epoch")])
                });
                seeds.sum::<f64>() / 2.0
            };
            let (select, test) = (of(|epoch| epoch.select), of(|epoch| epoch.test));
            if best.as_ref().is_none_or(|best| select > best.0 + 1e-9) {
                best = Some((select, variant.name.clone(), test));
            }
        }
        let (select, name, test) = best.expect("cells");
        assert_eq!(chosen["head"], name.as_str());
        for (key, expected) in [("selection", select), ("best", test)] {
            let found = chosen[key].as_f64().expect("a number");
            assert!((found - expected).abs() < 1e-6, "{head}: {key} {found} {expected}");
        }
    }
    // Resumed when finished, the run prints the same in words.
    let words = done(&mut grid(&sandbox, "run", &["--resume"]));
    let select = chosen[0]["selection"].as_f64().expect("a number");
    let test = chosen[0]["best"].as_f64().expect("a number");
    let verdict = format!("{select:.2} % on selection images, {test:.2} % on test images");
    assert!(words.contains("chosen for linear-bn: layer ") && words.contains(&verdict), "{words}");
    let report = |table: &str| {
        let mut command = program();
        command.arg("report").arg(sandbox.path("run")).args(["--table", table]);
        command
    };
    let table = done(&mut report("rates"));
    assert_says(table, &[&verdict, "linear-bn by layer and learning rate", "rates 0.001, 0.01, cosine"]);
    // A model card has all cells, as it comes with the probes of all.
    let mut push = program();
    let card = done(push.arg("push").arg(sandbox.path("run")).args(["a/b", "--license", "mit", "--dry-run"]));
    for head in ["linear-bn", "sinkhorn"] {
        assert!(card.contains(&format!("{head} by layer and learning rate")), "{card}");
    }
    // And these two are tested against each other.
    let table = done(&mut report("paired"));
    let sinkhorn = chosen[1]["best"].as_f64().expect("a number");
    let of =
        |chosen: &Value| chosen["head"].as_str().expect("a name").split_once('[').expect("axes").1.to_owned();
    assert!(table.contains(&format!("differences from Sinkhorn [{}", of(&chosen[1]))), "{table}");
    let row =
        table.lines().find(|line| line.contains(&format!("Linear + BN [{}", of(&chosen[0])))).expect("a row");
    assert!(row.contains(&format!(" {:+.2} ", test - sinkhorn)), "{row} {test} {sinkhorn}");
    let mut figure = program();
    figure.args(["figures", "--figure", "rates", "--heads", "linear-bn", "--run"]).arg(sandbox.path("run"));
    done(figure.arg("--out").arg(sandbox.path("rates.csv")));
    let table = fs::read_to_string(sandbox.path("rates.csv")).expect("a table");
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["head", "layer", "rate", "selection", "test", "test_last", "chosen"]);
    assert_eq!(rows.len(), 5);
    let own: Vec<&Vec<&str>> = rows[1..].iter().filter(|row| row[6] == "1").collect();
    assert_eq!(own.len(), 1);
    let name = format!("linear-bn[layer={},rate={}]", own[0][1], own[0][2]);
    assert_eq!(chosen[0]["head"], name.as_str());
    // A head of both axes is named as the run names it, with its comma.
    let mut figure = program();
    figure.args(["figures", "--heads", &name, "--run"]).arg(sandbox.path("run"));
    done(figure.arg("--out").arg(sandbox.path("curves.csv")));
    let table = fs::read_to_string(sandbox.path("curves.csv")).expect("a table");
    assert!(table.contains(&name) && !table.contains("sinkhorn"), "{table}");
}

#[test]
fn a_page_reads_every_probe_on_the_tokens_of_its_own_layer() {
    let sandbox = sandbox();
    done(&mut grid(&sandbox, "run", &["--seeds", "1"]));
    let run = Run::open(&sandbox.path("run")).expect("a run");
    let truth = run.truth().expect("test images");
    let page = |probes: &[&str], traces: &str| -> Vec<Value> {
        let mut report = program();
        report.arg("report").arg(sandbox.path("run")).arg("--html").arg(sandbox.path("page.html"));
        report.args(["--device", "cpu", "--class", "0", "--image", &truth.images[0], "--probe"]).args(probes);
        done(report.arg("--save-traces").arg(sandbox.path(traces)));
        files(&sandbox.path(traces))
            .values()
            .map(|trace| serde_json::from_slice(trace).expect("a trace"))
            .collect()
    };
    let names = ["1", "last"].map(|layer| format!("sinkhorn[layer={layer},rate=0.01]"));
    let found = page(&[&names[0], &names[1]], "both");
    assert_eq!(found.len(), 2);
    let image = data::open(sandbox.data()).expect("a dataset").samples[truth.indices[0]].source.path.clone();
    for (name, found) in names.iter().zip(&found) {
        let out = sandbox.path(name);
        let mut inspect = program();
        inspect
            .args(["inspect", "--device", "cpu", "--save-traces", "--class", "0", "--backbone"])
            .arg(backbone());
        inspect.arg("--probe").arg(run.probe_path(name, 0, ProbeCheckpoint::Best)).arg("--image").arg(&image);
        done(inspect.arg("--out").arg(&out));
        let stem = image.file_stem().expect("a name");
        let expected: Value = json(out.join(stem).join(format!("{name}-s0-best.trace.json")));
        assert_eq!(found["logits"], expected["logits"], "{name}");
    }
    assert_ne!(found[0]["logits"], found[1]["logits"]);
    // Of a head nothing is shown but what the selection images choose, asked for by its name or not.
    let source = Source::open(&sandbox.path("run")).expect("a run");
    let reported = source.reported().into_iter().map(|variant| variant.name.clone()).collect::<BTreeSet<_>>();
    let shown = choose::probes(&source, &[]).expect("probes").into_iter().map(|outcome| outcome.head.clone());
    assert_eq!(shown.collect::<BTreeSet<_>>(), reported);
    let chosen = reported.iter().find(|name| name.starts_with("sinkhorn[")).expect("a head");
    assert_eq!(page(&["sinkhorn"], "chosen")[0]["probe"], format!("{chosen}-s0-best.safetensors"));
}

#[test]
fn an_evaluation_is_of_one_layer_after_the_other() {
    let sandbox = sandbox();
    done(&mut grid(&sandbox, "run", &["--seeds", "1"]));
    let eval = |more: &[&str]| sandbox.eval("run", more);
    assert_ends(&mut eval(&[]), 2, &["(1, last): choose one at a time, such as --layer 1"]);
    let kept = |layer: &str| {
        done(&mut eval(&["--layer", layer]));
        let kept: Value = json(sandbox.path("run/evaluation.json"));
        let probes = kept["probes"].as_array().expect("probes").iter();
        probes.map(|probe| probe["head"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert!(kept("1").iter().all(|name| name.contains("[layer=1,")));
    // Results of the last layer are added to those of layer 1, and so are the baselines on its tokens.
    assert_eq!(kept("last").len(), 8);
    let own = ["last", "1"].map(|layer| {
        let told = lines(&done(&mut eval(&["--layer", layer, "--baselines", "--json"])));
        let baselines = told.iter().filter(|line| line["event"] == "anchor");
        baselines.map(|baseline| baseline["accuracy"].clone()).collect::<Vec<_>>()
    });
    let kept: Value = json(sandbox.path("run/evaluation.json"));
    let kept = kept["anchors"].as_array().expect("baselines");
    let expected = own
        .iter()
        .zip(["last", "1"])
        .flat_map(|(own, layer)| own.iter().map(move |accuracy| (accuracy, layer)));
    let found =
        kept.iter().map(|baseline| (&baseline["accuracy"], baseline["layer"].as_str().expect("a layer")));
    assert!(own[0].len() > 1 && found.eq(expected), "{kept:?} {own:?}");
    let mut report = program();
    let main = done(report.arg("report").arg(sandbox.path("run")).args(["--table", "main"]));
    let at = ["(mean tokens, layer 1)", "(mean tokens, layer last)"].map(|name| main.find(name).expect(name));
    assert!(at[0] < at[1], "{main}");
    assert_ends(
        &mut eval(&["--layer", "0"]),
        2,
        &["another `tokens.layer`: \"1\", \"last\" there, \"0\" now"],
    );
}

#[test]
fn what_cannot_be_an_axis_is_refused_before_anything_is_done() {
    let sandbox = sandbox();
    let refused = |more: &[&str], expected: &str| {
        assert_ends(&mut sandbox.train("bad", 1, more), 2, &[expected]);
        assert!(!sandbox.path("bad").exists() && !sandbox.path("cache").exists(), "{more:?}");
    };
    let split = ["--select-split", "0.3"];
    let with = |more: &[&'static str]| [more, &split].concat();
    refused(&with(&["--layers", "1,9"]), "layer 9 requested, but the backbone has layers 1 to 2");
    refused(&with(&["--layers", "1,first"]), "expected the number of a layer, from 0, or last");
    refused(&with(&["--layers", "1,1"]), "--layers: 1 is given twice");
    refused(&with(&["--layers", "2,last"]), "layer last is requested twice");
    refused(&with(&["--rates", "1e-3,0"]), "expected a number above 0");
    refused(&with(&["--rates=-1e-3"]), "expected a number above 0");
    refused(&with(&["--rates", "nan"]), "expected a number above 0");
    refused(&with(&["--rates", "0.001,1e-3"]), "--rates: 0.001 is given twice");
    refused(&with(&["--rates", "0.1", "--rate", "0.2"]), "cannot be used with");
    refused(&with(&["--layers", "1", "--layer", "1"]), "cannot be used with");
    refused(&["--mae-order", "redrawn"], "only ViT-MAE has them in another order");
    refused(&["--rates", "0.1,0.2"], "--select-split 0.1");
    // Axes without heads would otherwise be ignored silently.
    done(&mut grid(&sandbox, "run", &["--seeds", "1"]));
    assert_ends(&mut sandbox.resume("run", &["--layers", "0,1"]), 2, &["--resume --out alone"]);
}
