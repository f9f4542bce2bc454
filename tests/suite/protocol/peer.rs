//! The program's run and the peer's, number by number: rates, losses, accuracies, best epochs, predictions, parameters, and
//! everywhere that these are reported.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde_json::Value;
use ssmprobe::app::jobs::history::{TrainHistory, disk};
use ssmprobe::app::jobs::train::Event;
use ssmprobe::app::report::{FORMATS, Source, TABLES};
use ssmprobe::model::device;
use ssmprobe::model::io::array::Arrays;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::{self, Dims};
use ssmprobe::model::train::classifier::Model;
use ssmprobe::model::train::run::{Metric, Outcome, ProbeCheckpoint, Run};
use ssmprobe::model::train::{HeadTrainer, TrainCursor};

use super::{GRID, SEEDS, Sandbox, WIDTH, arrays, below, folder, peer, shuffle};
use crate::close::assert_close;
use crate::evidence::{floats, number};
use crate::run::{done, lines, program, succeeds};

const HEADS: [&str; 4] = ["gap", "linear-bn", "raster", "sinkhorn"];
/// Tolerance of float32 against float64, after all steps.
const TOLERANCE: f64 = 1e-4;

/// The peer's numbers of a head and seed.
fn of<'a>(peer: &'a Value, head: &str, seed: u64) -> &'a Value {
    let runs = peer["runs"].as_array().expect("runs");
    runs.iter().find(|run| run["head"] == *head && run["seed"] == seed).expect("the head")
}

/// Loss, train, select and test of an epoch.
fn four(epoch: &Value) -> [f64; 4] {
    ["loss", "train", "select", "test"].map(|key| number(&epoch[key]))
}

/// The peer's accuracy on the test images, at the best epoch or after the last.
fn reported(peer: &Value, which: ProbeCheckpoint) -> f64 {
    let epochs = peer["epochs"].as_array().expect("epochs");
    let at = match which {
        ProbeCheckpoint::Best => number(&peer["best_epoch"]) as usize,
        ProbeCheckpoint::Last => epochs.len() - 1,
    };
    number(&epochs[at]["test"])
}

/// The rate of a head's last step, from how far it moved its classifier: AdamW moves a value by the rate times
/// `m / (sqrt(v) + 1e-8)`, both moments corrected for their start (Kingma and Ba 2015, algorithm 1).
fn rate(before: &Arrays, trainer: &HeadTrainer) -> f64 {
    let (adam, after) = (trainer.optimizer.to_arrays(), trainer.model.params().to_trained());
    let name = "classifier.weight";
    let moment = |kind: &str| adam[&format!("{name}.{kind}")].to_f64();
    let (mean, variance, step) = (moment("mean"), moment("variance"), adam["steps"].to_f64()[0]);
    let moved = before[name].to_f64().into_iter().zip(after[name].to_f64()).map(|(old, new)| old - new);
    let far = moved.enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let (at, moved) = far.expect("a classifier");
    let (m, v) = (mean[at] / (1.0 - 0.9_f64.powf(step)), variance[at] / (1.0 - 0.999_f64.powf(step)));
    moved * (v.sqrt() + 1e-8) / m
}

#[test]
fn a_run_is_that_of_pytorch() {
    let (sandbox, peer, values) = (Sandbox::new(), peer(), arrays("peer.safetensors"));
    let start = arrays("start.safetensors");
    let mut rates: HashMap<(String, u64), Vec<f64>> = HashMap::new();
    let mut before: HashMap<(String, u64), Arrays> = HashMap::new();
    let summary = sandbox.train(&sandbox.train_plan(&HEADS), "run", &mut |event| {
        if let Event::Step { seed, trainers, .. } = event {
            for trainer in trainers {
                let key = (trainer.name.clone(), seed);
                let begin = below(&start, &format!("s{seed}/{}/", trainer.name));
                let last = before.insert(key.clone(), trainer.model.params().to_trained()).unwrap_or(begin);
                rates.entry(key).or_default().push(rate(&last, trainer));
            }
        }
        ControlFlow::Continue(())
    });
    let run = &summary.run;
    let outcomes = run.outcomes().expect("answers");
    assert_eq!(outcomes.len(), HEADS.len() * SEEDS.len());
    for outcome in &outcomes {
        let Outcome { head, seed, .. } = outcome;
        let (name, expected) = (format!("{head}, seed {seed}"), of(&peer, head, *seed));
        // Rates begin at 0.02; the smallest change between two steps is 0.0002.
        assert_close(format!("{name}: rates"), &rates[&(head.clone(), *seed)], floats(&peer["rates"]), 4e-6);
        let losses = run.losses(*seed).expect("losses").expect("some");
        let (_, points) = losses.heads.iter().find(|(other, _)| other == head).expect("the head");
        assert_close(format!("{name}: losses"), points, floats(&expected["losses"]), TOLERANCE);
        let epochs: Vec<[f64; 4]> =
            outcome.epochs.iter().map(|e| [e.loss, e.train, e.select, e.test]).collect();
        let others: Vec<[f64; 4]> = expected["epochs"].as_array().expect("epochs").iter().map(four).collect();
        assert_close(format!("{name}: loss, train, select, test"), epochs, others, TOLERANCE);
        assert_eq!(outcome.best_epoch, Some(number(&expected["best_epoch"]) as usize), "{name}");
        for (which, answers) in ProbeCheckpoint::ALL.into_iter().zip([&outcome.best, &outcome.last]) {
            let key = which.name();
            assert_close(format!("{name}: answers, {key}"), answers, floats(&expected[key]), 0.0);
            let probe = Probe::load(run.probe_path(head, *seed, which)).expect("a probe");
            let mut all = probe.arrays.clone();
            let [weight, bias] = ["weight", "bias"].map(|part| format!("classifier.{part}"));
            let parameters = below(&values, &format!("s{seed}/{head}/{key}/"));
            assert_close(
                format!("{name}: {weight}"),
                &probe.classifier.weight,
                &parameters[&weight].data,
                TOLERANCE,
            );
            assert_close(
                format!("{name}: {bias}"),
                &probe.classifier.bias,
                &parameters[&bias].data,
                TOLERANCE,
            );
            for (parameter, other) in parameters.iter().filter(|(p, _)| **p != weight && **p != bias) {
                let own = all.shift_remove(parameter).expect("the same parameters");
                assert_close(
                    format!("{name}: {parameter}, {key}"),
                    (&own.shape, &own.data),
                    (&other.shape, &other.data),
                    TOLERANCE,
                );
            }
            assert!(all.is_empty(), "{name}: {all:?}");
        }
    }
    assert_reported_everywhere(run, &peer);
}

/// Asserts that tables, the window's scores and the report have the peer's accuracies on the test images.
fn assert_reported_everywhere(run: &Run, peer: &Value) {
    let mut table = csv::Reader::from_path(run.folder().join("results.csv")).expect("a table");
    let rows: Vec<csv::StringRecord> = table.records().map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), HEADS.len() * SEEDS.len());
    for row in &rows {
        let expected = of(peer, &row[0], row[1].parse().expect("a seed"));
        for (which, at) in [(ProbeCheckpoint::Best, 2), (ProbeCheckpoint::Last, 3)] {
            let cell: f64 = row[at].parse().expect("a number");
            assert_close(format!("results.csv, {row:?}"), cell, reported(expected, which), 6e-4);
        }
        assert_eq!(row[4], (number(&expected["best_epoch"]) + 1.0).to_string());
    }
    let snapshot = disk::read(run.folder()).expect("a run");
    for Metric { head, seed, epoch } in &snapshot.epochs {
        let expected = four(&of(peer, head, *seed)["epochs"][epoch.epoch - 1]);
        let found = [epoch.loss, epoch.train, epoch.select, epoch.test];
        assert_close(format!("metrics.jsonl, {head}, seed {seed}"), found, expected, TOLERANCE);
    }
    assert_eq!(snapshot.epochs.len(), HEADS.len() * SEEDS.len() * 4);
    let course = TrainHistory::of_snapshot(&snapshot);
    let sources = [Source::open(run.folder()).expect("a run")];
    let main = TABLES.iter().find(|table| table.id == "main").expect("a table").tables(&sources).remove(0);
    let csv = (FORMATS.iter().find(|format| format.id == "csv").expect("a format").render)(&main);
    for (at, head) in HEADS.into_iter().enumerate() {
        let mean = |which| {
            SEEDS.iter().map(|&seed| reported(of(peer, head, seed), which)).sum::<f64>() / SEEDS.len() as f64
        };
        let expected = [mean(ProbeCheckpoint::Best), mean(ProbeCheckpoint::Last)];
        let score = course.score(at).expect("epochs");
        assert_close(format!("the window's {head}"), [score.best.0, score.last.0], expected, 1e-6);
        let title = head::find(head).expect("a head").name;
        let row = csv.lines().find(|line| line.split(',').nth(1) == Some(title)).expect("a row");
        let cells: Vec<f64> =
            row.split(',').skip(3).step_by(2).take(2).map(|x| x.parse().expect("a number")).collect();
        assert_close(format!("report main, {head}"), cells, expected, 1e-6);
    }
}

/// The same run from the command line: `train --json` prints the peer's epochs, `eval` the accuracies on the test images,
/// and baselines, fitted to the training images, have those of scikit-learn.
#[test]
fn the_verbs_say_what_the_peer_says() {
    let (sandbox, peer) = (Sandbox::new(), peer());
    let verb = |verb: &str| {
        let mut command = program();
        command.args([verb, "--json", "--device", "cpu", "--cache"]).arg(sandbox.path("tokens"));
        command
    };
    let mut train = verb("train");
    train.arg("--backbone").arg(crate::run::backbone()).arg("--data").arg(sandbox.data());
    train.args(["--heads", "gap,sinkhorn", "--config", super::STATES, "--epochs", "4", "--batch", "8"]);
    train.args(["--rate", "0.02", "--seeds", "2", "--out"]).arg(sandbox.path("run"));
    let (stdout, stderr) = succeeds(&mut train);
    for (seed, head) in SEEDS.into_iter().flat_map(|seed| ["gap", "sinkhorn"].map(|head| (seed, head))) {
        let last = &of(&peer, head, seed)["epochs"][3];
        let found = format!("{head} {:.3} {:.1} %", number(&last["loss"]), number(&last["test"]));
        let line = format!("seed {seed}, epoch 4 of 4: ");
        assert!(
            stderr.lines().any(|x| x.contains(&line) && x.contains(&found)),
            "no {line}{found} in {stderr}"
        );
    }
    let events = lines(&stdout);
    let epochs: Vec<&Value> = events.iter().filter(|event| event["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 2 * 2 * 4);
    for found in epochs {
        let (head, seed) = (found["head"].as_str().expect("a head"), found["seed"].as_u64().expect("a seed"));
        let expected = &of(&peer, head, seed)["epochs"][number(&found["epoch"]) as usize - 1];
        assert_close(format!("{head}, seed {seed}"), four(found), four(expected), TOLERANCE);
    }
    let results = events.last().expect("an end")["results"].as_array().expect("results");
    assert_eq!(results.len(), 2 * 2);
    for result in results {
        let (head, seed) =
            (result["head"].as_str().expect("a head"), result["seed"].as_u64().expect("a seed"));
        let expected = ProbeCheckpoint::ALL.map(|which| reported(of(&peer, head, seed), which));
        assert_close(
            format!("{head}, seed {seed}"),
            ["best", "last"].map(|key| number(&result[key])),
            expected,
            1e-6,
        );
    }
    for (which, flag) in [(ProbeCheckpoint::Best, "--baselines"), (ProbeCheckpoint::Last, "--last")] {
        let mut eval = verb("eval");
        let found = lines(&done(eval.arg(flag).arg("--run").arg(sandbox.path("run"))));
        let of_event =
            |event: &str| found.iter().filter(|x| x["event"] == *event).cloned().collect::<Vec<_>>();
        let probes = of_event("probe");
        assert_eq!(probes.len(), 4);
        for probe in probes {
            let (head, seed) =
                (probe["head"].as_str().expect("a head"), probe["seed"].as_u64().expect("a seed"));
            let accuracy = number(&probe["evaluation"]["accuracy"]);
            assert_close(
                format!("eval {head}, seed {seed}"),
                accuracy,
                reported(of(&peer, head, seed), which),
                1e-6,
            );
        }
        let baselines = of_event("anchor");
        assert_eq!(baselines.len(), if which == ProbeCheckpoint::Best { 4 } else { 0 });
        for baseline in baselines {
            let same = |other: &&Value| ["method", "view"].iter().all(|key| other[*key] == baseline[*key]);
            let expected = peer["baselines"].as_array().expect("baselines").iter().find(same).expect("one");
            assert!(number(&expected["train"]) > number(&expected["test"]) + 4.0, "nothing to tell apart");
            let (found, expected) = (number(&baseline["accuracy"]), number(&expected["test"]));
            assert_close(format!("{baseline}"), found, expected, 1e-6);
        }
    }
}

/// Initial values of heads and orders of images are those recorded for the peer: changing them would change every earlier run.
#[test]
fn starts_and_orders_are_those_of_earlier_runs() {
    let sandbox = Sandbox::new();
    let (plan, dataset, device) =
        (sandbox.train_plan(&HEADS), sandbox.dataset(), device::choose("cpu").expect("a device"));
    let parts = ssmprobe::app::jobs::train::Parts::divide(&dataset, None).expect("parts");
    let size = [plan.settings.batch, plan.settings.epochs];
    let mut now: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    for seed in SEEDS {
        let epochs = shuffle::batches(&parts.train.images, size, seed, TrainCursor::default());
        let images = epochs.concat().concat().into_iter().map(|image| image as f32).collect();
        now.push((format!("order/s{seed}"), vec![size[1], parts.train.images.len()], images));
        for variant in &plan.heads {
            let kind = head::find(&variant.head).expect("a head");
            let dims = Dims { width: WIDTH, grid: GRID, classes: dataset.classes.len() };
            let model = Model::start(kind, &variant.config, dims, seed, &device.device).expect("a model");
            for (name, array) in model.params().to_arrays() {
                now.push((format!("s{seed}/{}/{name}", variant.name), array.shape, array.data));
            }
        }
    }
    let path = folder().join("start.safetensors");
    let known = if path.exists() { arrays("start.safetensors") } else { Arrays::new() };
    let same = |(name, shape, data): &(String, Vec<usize>, Vec<f32>)| {
        known.get(name).is_some_and(|array| array.shape == *shape && array.data == *data)
    };
    if now.len() == known.len() && now.iter().all(same) {
        return;
    }
    // For an intended change, write the new file.
    let bytes: Vec<Vec<u8>> = now
        .iter()
        .map(|(name, _, data)| match name.starts_with("order/") {
            true => data.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect(),
            false => data.iter().flat_map(|x| x.to_le_bytes()).collect(),
        })
        .collect();
    let views = now.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        let kind = if name.starts_with("order/") { safetensors::Dtype::U32 } else { safetensors::Dtype::F32 };
        (name, safetensors::tensor::TensorView::new(kind, shape.clone(), bytes).expect("its shape"))
    });
    let other = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("start.safetensors");
    std::fs::write(&other, safetensors::serialize(views, None).expect("tensors")).expect("room");
    let different: Vec<&String> = now.iter().filter(|one| !same(one)).map(|(name, ..)| name).collect();
    panic!(
        "another start: {different:?}; if that is meant, put {} in its place and run tests/reference/protocol.py",
        other.display()
    );
}
