//! `ssmprobe bench` from the command line, in tiny sizes: names, units and signs of its figures are checked, not times.

use std::collections::HashMap;
use std::process::Output;

use crate::run::prelude::*;

const TINY: &[&str] =
    &["--batch", "2", "--tokens", "6", "--width", "24", "--classes", "3", "--rounds", "2", "--device", "cpu"];

fn bench(arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("bench").args(arguments);
    command
}

/// Value and unit of every figure that `ssmprobe bench` reports in JSON, by name.
fn figures(arguments: &[&str]) -> HashMap<String, (f64, String)> {
    let list: Vec<Value> = serde_json::from_str(&done(bench(TINY).args(arguments).arg("--json"))).unwrap();
    let figure = |value: Value| {
        assert_eq!(value["device"], "cpu");
        let text = |key: &str| value[key].as_str().unwrap().to_owned();
        (text("name"), (value["value"].as_f64().unwrap(), text("unit")))
    };
    list.into_iter().map(figure).collect()
}

#[test]
fn every_figure_has_a_name_a_positive_value_and_its_unit() {
    let backbone = root().join("tests/fixtures/inspect/backbone");
    let backbone = backbone.to_str().unwrap();
    let figures = figures(&["--heads", "gap,sinkhorn", "--longest", "196", "--backbone", backbone]);
    let mut expected = HashMap::from([
        ("head/gap/step", "s"),
        ("head/gap/vs-gap", "x"),
        ("head/sinkhorn/step", "s"),
        ("head/sinkhorn/vs-gap", "x"),
        ("heads/joint/step", "s"),
        ("cached/gap/step", "s"),
        ("cached/sinkhorn/step", "s"),
        ("heads/joint/rate", "steps/s"),
        ("backbone/backbone/forward", "s"),
        ("backbone/backbone/rate", "images/s"),
        ("decode/rate", "images/s"),
        ("lookup/16", "s"),
        ("lookup/16/first", "s"),
        ("lookup/sinkhorn/n-196", "s"),
        ("sinkhorn/n-196", "s"),
    ]);
    if cfg!(target_os = "linux") && figures.contains_key("head/gap/memory") {
        let memory = ["head/gap/memory", "head/sinkhorn/memory", "sinkhorn/n-196/memory"];
        expected.extend(memory.map(|name| (name, "MiB")));
    }
    assert_eq!(figures.len(), expected.len(), "{figures:?}");
    for (name, unit) in expected {
        let (value, found) = &figures[name];
        assert_eq!(found, unit, "{name}");
        assert!(value.is_finite() && *value > 0.0, "{name}: {value}");
    }
    assert_eq!(figures["head/gap/vs-gap"].0, 1.0);
    let ratio = figures["head/sinkhorn/step"].0 / figures["head/gap/step"].0;
    assert!((figures["head/sinkhorn/vs-gap"].0 - ratio).abs() < 1e-9 * ratio);
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let alone = figures(&["--heads", "gap,sinkhorn", "--only", "head/sinkhorn/step"]);
    assert_eq!(alone.keys().collect::<Vec<_>>(), ["head/sinkhorn/step"]);
    let against = figures(&["--heads", "sinkhorn", "--only", "head/sinkhorn/vs-gap"]);
    assert_eq!(against.keys().collect::<Vec<_>>(), ["head/sinkhorn/vs-gap"], "GAP is beside it, unasked");
}

#[test]
fn the_table_names_sizes_and_heads() {
    let text = done(bench(TINY).args(["--heads", "gap,cls", "--only", "head/*/step"]));
    assert!(
        text.starts_with("cpu: ") && text.contains("2 images of 6 tokens of width 24, 3 classes"),
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with("cls ") && line.contains(" ms ")), "{text}");
}

/// A batch of 65,535 × 10⁶ × 10⁶ float32 values: 262,140 TB of tokens.
const LARGE: &[&str] = &[
    "--device",
    "cpu",
    "--quick",
    "--only",
    "head/gap/step",
    "--width",
    "1000000",
    "--tokens",
    "1000000",
    "--batch",
    "65535",
];

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    for (arguments, code, said) in [
        (&["--only", "heads/single"][..], 2, "lookup/16"),
        (&["--only", "head/gap/step,head/gpa/step"], 2, "--only head/gpa/step matches none"),
        (&["--heads", "pooling"], 2, "pooling"),
        (&["--tokens", "1", "--only", "head/gap/step"], 1, "at least 2 patch tokens"),
        (&["--rounds", "0"], 2, "whole number from 1"),
        (&["--backbone", "none"], 2, "--backbone none: no such folder"), // before the heads are measured
        (&["--backbone", "tests/fixtures"], 2, "config.json"),
        (LARGE, 2, "--batch, --tokens, --width and --classes"),
    ] {
        assert_ends(&mut bench(arguments), code, &[said]);
    }
}

/// A soak of 30 seconds, on a slow machine of more, does its work and judges its measurements; `scripts/test-all` runs one of an hour.
#[cfg(target_os = "linux")]
#[test]
fn a_short_soak_explains_evaluates_trains_and_gives_a_verdict() {
    let soak = |seconds: u64| {
        let output = bench(&["soak", "--seconds", &seconds.to_string(), "--headless"]).output();
        let Output { status, stdout, stderr } = output.expect("the program runs");
        let said = String::from_utf8(stderr).expect("text");
        let verdict: Value = serde_json::from_slice(&stdout).unwrap_or_else(|_| panic!("{said}"));
        (verdict, status.code(), said)
    };
    let did = |verdict: &Value| {
        let least = [("looks", 5), ("evaluations", 1), ("trainings", 1)];
        least.iter().all(|(what, least)| verdict[what].as_u64().is_some_and(|count| count >= *least))
    };
    let (verdict, code, said) = [30, 120, 480]
        .into_iter()
        .map(soak)
        .find(|(verdict, ..)| did(verdict))
        .expect("it looks, evaluates and trains");
    let samples = said.lines().filter(|line| line.contains(" MB ") && line.contains(" ms p99 ")).count();
    assert!((1..=12).contains(&samples), "{said}");
    let number = |key: &str| verdict[key].as_f64().unwrap_or_else(|| panic!("{key}: {verdict}"));
    let pair =
        |key: &str| [0, 1].map(|at| verdict[key][at].as_f64().unwrap_or_else(|| panic!("{key}: {verdict}")));
    let [half, end] = pair("memory_mb");
    // Standard input, output and error stay open, so at least three handles: the mean of a fitted line's ends, which is
    // the mean of the samples, cannot be lower, though one end of a falling line can.
    let at_least_three = |key: &str| pair(key).iter().sum::<f64>() / 2.0 > 2.99;
    assert!(half > 50.0 && end > 50.0 && at_least_three("handles") && at_least_three("threads"), "{verdict}");
    assert!((number("memory_growth_percent") - 100.0 * (end - half) / half).abs() < 0.1, "{verdict}");
    // In its first seconds a program still grows; no other fault is allowed.
    let faults: Vec<&str> =
        verdict["faults"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(faults.iter().all(|fault| fault.contains(" grew by ")), "{verdict}");
    assert_eq!(
        (verdict["kept"].as_bool(), code),
        (Some(faults.is_empty()), Some(i32::from(!faults.is_empty())))
    );
}

/// Its scenes, tokens and runs are among the system's temporary files.
#[cfg(target_os = "linux")]
#[test]
fn a_soak_that_is_interrupted_leaves_no_files() {
    use std::io::{BufRead, BufReader};

    use crate::interrupts::{signal, start};

    let folder = tempfile::tempdir().unwrap();
    // It prints ten seconds after it began, and would go on for long.
    let mut child = start(bench(&["soak", "--seconds", "120", "--headless"]).env("TMPDIR", folder.path()));
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains(" ms p99 ")), "it did not begin");
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files(), 1);
    signal(&child, "-INT");
    assert_eq!((child.wait().unwrap().code(), files()), (Some(130), 0));
}

/// The window over a worker behind the delaying relay: every look is measured, and the messages in the pipe are counted.
#[test]
#[cfg(target_os = "linux")]
fn the_window_is_measured_over_a_worker_whose_messages_are_delayed() {
    assert_ends(&mut bench(&["remote", "--looks", "2", "--images", "20"]), 2, &["--images", "1000"]);
    let assets = root().join("assets");
    let arguments = ["remote", "--delay", "5", "--looks", "3"];
    let printed = done(bench(&arguments).env("SSMPROBE_ASSETS", assets));
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let row = |what: &str| {
        rows.iter().find(|row| row[0] == what).unwrap_or_else(|| panic!("{what}: {printed}")).clone()
    };
    for (what, part) in [
        ("first look at an image", "95 %"),
        ("second look", "95 %"),
        ("a frame while scrolling 10000 thumbnails", "99 %"),
    ] {
        let found = row(what);
        let median: f64 = found[1].parse().expect("a number");
        assert!(median > 0.0 && found[2].starts_with(part), "{found:?}");
    }
    // A round trip takes at least twice the delay of 5 ms.
    for what in ["first look at an image", "second look"] {
        assert!(row(what)[1].parse::<f64>().expect("a number") >= 10.0, "{printed}");
    }
    for (what, kind) in [
        ("first look", "traces"),
        ("second look", "traces"),
        ("first look", "requests"),
        ("scrolling, a frame", "thumbnails"),
    ] {
        let known = rows.iter().any(|row| row[..2] == [what, kind]);
        assert!(known, "{what}, {kind}: {printed}");
    }
}
