//! Work that is cut into tasks: run as processes here it comes to the same bytes as in one piece, also where tasks are
//! killed or parts damaged; what Slurm gets, and what it says where it refuses.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::faults::tree;
use crate::interrupts::until;
use crate::run::{Desk, backbone, done, program, run, tables};

mod cluster;
mod refusals;

/// Every file of a run without what is about its tasks, and without times.
pub fn came_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = tree(folder);
    files.retain(|name, _| !name.starts_with("tasks/") && name != "results.csv");
    assert!(files.len() > 8, "{:?}", files.keys());
    for (_, bytes) in
        files.iter_mut().filter(|(name, _)| name.starts_with("answers/") && !name.ends_with("truth.json"))
    {
        let mut answers: Value = serde_json::from_slice(bytes).expect("JSON");
        assert!(answers["seconds"].take().is_f64());
        *bytes = answers.to_string().into_bytes();
    }
    let (rows, _) = tables(folder);
    files.insert("results.csv".into(), format!("{rows:?}").into_bytes());
    files
}

/// Asserts that two runs have the same files.
pub fn assert_same(found: &Path, expected: &Path) {
    let [found, expected] = [found, expected].map(came_of);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in &expected {
        assert!(found[name] == *bytes, "{name} has other bytes");
    }
}

/// `ssmprobe jobs RUN`.
pub fn jobs(folder: &Path, more: &[&str]) -> Command {
    let mut command = program();
    command.arg("jobs").arg(folder).args(more);
    command
}

/// How the tasks go, by name.
pub fn states(command: &mut Command) -> BTreeMap<String, String> {
    let document: Value = serde_json::from_str(&done(command)).expect("JSON");
    let tasks = document["tasks"].as_array().expect("tasks");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    tasks.iter().map(|task| (text(&task["task"]), text(&task["how"]["state"]))).collect()
}

/// A program in `folder` that a shell runs.
pub fn script(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it may be run");
}

/// A sweep of four points beside another head, with its tokens in `cache`.
pub fn sweep(desk: &Desk, out: &str, more: &[&str]) -> Command {
    let mut command = desk.verb("sweep", "cache");
    command.arg("--backbone").arg(backbone()).arg("--data").arg(desk.data()).args(["--device", "cpu"]);
    command.args([
        "--grid",
        "temperature=0.1,1.0",
        "iterations=1,5",
        "--with",
        "gap",
        "--config",
        "state_dim=4",
    ]);
    command.args(["--epochs", "2", "--batch", "16", "--out"]).arg(desk.path(out)).args(more);
    command
}

#[test]
fn a_training_in_parts_comes_to_the_bytes_of_one_in_a_piece() {
    let desk = Desk::new(150, 12);
    let in_tasks = ["--submit", "local", "--tasks", "4", "--array-limit", "2", "--wait"];
    let (code, _, said) = run(&mut desk.train("parts", 2, &in_tasks));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("handed in: 3 x tokens, then all-tokens, then 4 x train, then join"), "{said}");
    assert!(said.contains("9 of 9 tasks done"), "{said}");
    done(&mut desk.train("whole", 2, &[]));
    assert_same(&desk.path("parts"), &desk.path("whole"));
    // The tokens, too, that three tasks took side by side.
    let mut extract = desk.verb("extract", "other");
    extract.arg("--backbone").arg(backbone()).arg("--data").arg(desk.data()).args(["--device", "cpu"]);
    done(&mut extract);
    let tokens = tree(&desk.path("cache"));
    assert!(tokens.len() == 7 && tokens == tree(&desk.path("other")));
    // Parts are gone once they are joined; the logs and the plan stay.
    let left = tree(&desk.path("parts/tasks"));
    assert!(
        left.keys().all(|name| name.starts_with("log/") || name.starts_with("state/") || name == "plan.json")
    );
    assert!(states(&mut jobs(&desk.path("parts"), &["--json"])).values().all(|state| state == "done"));
    // And it is a run as any other, which takes more seeds.
    for name in ["parts", "whole"] {
        done(desk.verb("train", "cache").args(["--resume", "--seeds", "3", "--out"]).arg(desk.path(name)));
    }
    assert_same(&desk.path("parts"), &desk.path("whole"));
}

#[test]
fn a_sweep_in_parts_comes_to_the_bytes_of_one_in_a_piece() {
    let desk = Desk::new(24, 12);
    done(&mut sweep(&desk, "whole", &["--seeds", "3"]));
    // Blocks of two and of three of the five heads; and parts of several seeds.
    for (name, tasks) in [("six", "6"), ("two", "2")] {
        let more = ["--seeds", "3", "--submit", "local", "--tasks", tasks, "--wait"];
        let (code, _, said) = run(&mut sweep(&desk, name, &more));
        assert!(code == 0 && said.contains(&format!("handed in: {tasks} x train, then join")), "{said}");
        assert_same(&desk.path(name), &desk.path("whole"));
    }
    let (code, _, said) =
        run(&mut sweep(&desk, "seven", &["--seeds", "3", "--submit", "local", "--tasks", "7"]));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("3 seeds of 5 heads cannot be cut into 7 parts"), "{said}");
    assert!(!desk.path("seven").exists());
}

#[test]
fn tokens_are_taken_in_parts() {
    let desk = Desk::new(150, 12);
    let extract = |cache: &str, more: &[&str]| {
        let mut command = desk.verb("extract", cache);
        command.arg("--backbone").arg(backbone()).arg("--data").arg(desk.data()).args(["--device", "cpu"]);
        command.args(more);
        command
    };
    let (code, _, said) = run(&mut extract("parts", &["--submit", "local"]));
    assert!(code == 2 && said.contains("--tasks 8"), "{said}");
    done(&mut extract("parts", &["--submit", "local", "--tasks", "2", "--wait"]));
    done(&mut extract("whole", &[]));
    let mut parts = tree(&desk.path("parts"));
    parts.retain(|name, _| !name.starts_with("tasks-"));
    assert!(parts.len() == 7 && parts == tree(&desk.path("whole")));
    // A part alone takes its shards and no other: of three shards the first.
    done(&mut extract("part", &["--part", "1/3"]));
    let part = tree(&desk.path("part"));
    assert!(part.len() == 3 && part.iter().all(|(name, bytes)| parts[name] == *bytes), "{:?}", part.keys());
}

/// The process of a task, by words of its command line.
pub fn process(words: [&str; 2]) -> Option<u32> {
    let own = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        words.iter().all(|word| line.contains(word))
    };
    let found = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path()).find(own)?;
    found.file_name()?.to_str()?.parse().ok()
}

#[test]
fn a_killed_task_is_named_and_goes_on() {
    let desk = Desk::new(36, 12);
    let folder = desk.path("parts");
    let words = ["--part=1/2", folder.to_str().expect("text")];
    let (code, _, said) = run(&mut desk.train("parts", 40, &["--submit", "local"]));
    assert_eq!(code, 0, "{said}");
    until("a checkpoint of the first task", || folder.join("tasks/1/state/checkpoint.safetensors").exists());
    let pid = process(words).expect("it trains").to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().expect("kill runs").success());
    let (code, _, said) = run(&mut jobs(&folder, &["--wait"]));
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("train-1 failed with exit code 137") && said.contains("train-1.txt ends with:"),
        "{said}"
    );
    assert!(said.contains("--retry` hands in what is not done"), "{said}");
    let how = states(&mut jobs(&folder, &["--json"]));
    assert_eq!(
        (how["train-1"].as_str(), how["train-2"].as_str(), how["join"].as_str()),
        ("failed", "done", "not-handed-in")
    );
    assert!(!folder.join("run.json").exists());

    let (code, _, said) = run(&mut jobs(&folder, &["--retry", "--wait"]));
    assert!(code == 0 && said.contains("handed in 2 tasks"), "{said}");
    done(&mut desk.train("whole", 40, &[]));
    assert_same(&folder, &desk.path("whole"));
    let (code, _, said) = run(&mut jobs(&folder, &["--retry"]));
    assert!(code == 0 && said.contains("nothing is to be handed in"), "{said}");
}

#[test]
fn tasks_that_are_ended_save_and_go_on() {
    let desk = Desk::new(36, 12);
    let folder = desk.path("parts");
    done(&mut desk.train("parts", 120, &["--submit", "local", "--array-limit", "2"]));
    until("a checkpoint", || folder.join("tasks/2/state/checkpoint.safetensors").exists());
    done(&mut jobs(&folder, &["--cancel"]));
    let words = ["--part=", folder.to_str().expect("text")];
    assert_eq!(process(words), None);
    let how = states(&mut jobs(&folder, &["--json"]));
    assert!(how.values().any(|state| state == "stopped") && how["join"] == "not-handed-in", "{how:?}");
    let (code, _, said) = run(&mut jobs(&folder, &["--retry", "--wait"]));
    assert_eq!(code, 0, "{said}");
    done(&mut desk.train("whole", 120, &[]));
    assert_same(&folder, &desk.path("whole"));
}

/// Asserts that two documents are the same, their numbers but for the last bits that a reader of JSON may miss.
fn assert_alike(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{place}");
            found
                .iter()
                .for_each(|(key, value)| assert_alike(value, &expected[key], &format!("{place}.{key}")));
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{place}");
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_alike(found, expected, &format!("{place}.{at}"));
            }
        }
        (Value::Number(one), Value::Number(other)) => {
            let [one, other] = [one, other].map(|number| number.as_f64().expect("a number"));
            assert!((one - other).abs() <= 1e-14 * other.abs(), "{place}: {one}, expected {other}");
        }
        (found, expected) => assert_eq!(found, expected, "{place}"),
    }
}

#[test]
fn an_evaluation_in_parts_comes_to_that_of_one_in_a_piece() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("parts", 1, &[]));
    done(&mut desk.train("whole", 1, &[]));
    let eval = |run: &str, more: &[&str]| {
        let mut command = desk.verb("eval", "cache");
        command.arg("--run").arg(desk.path(run)).args(["--device", "cpu", "--anchors", "--ablations"]);
        command.arg("--evaluation").arg(desk.path("files").join(run)).args(more);
        command
    };
    let (code, _, said) = run(&mut eval("parts", &["--submit", "local"]));
    assert!(code == 2 && said.contains("--tasks 8"), "{said}");
    let kept = |name: &str| -> Value {
        let bytes = fs::read(desk.path(name).join("evaluation.json")).expect("what was kept");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    // More parts than probes; and once more, as nothing is under way.
    for tasks in ["3", "5"] {
        let more = ["--submit", "local", "--tasks", tasks, "--array-limit", "3", "--wait"];
        let (code, _, said) = run(&mut eval("parts", &more));
        assert!(code == 0 && said.contains(&format!("handed in: {tasks} x eval")), "{said}");
        done(&mut eval("whole", &[]));
        assert_alike(&kept("parts"), &kept("whole"), tasks);
        assert!(tree(&desk.path("files/parts")) == tree(&desk.path("files/whole")));
        fs::remove_file(desk.path("parts/evaluation.json")).expect("removed");
        fs::remove_file(desk.path("whole/evaluation.json")).expect("removed");
    }
}
