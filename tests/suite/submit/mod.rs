//! Work that is divided into tasks: run as local processes it gives the same bytes as undivided work, also if tasks are
//! killed or parts damaged; what is submitted to Slurm, and the messages when it refuses.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use ssmprobe::app::format::shell_path;
use ssmprobe::model::train::run::Run;

use crate::interrupts::{end, send, signal, start, stopped, until};
use crate::preload::{hold, library, release};
use crate::run::prelude::*;
use crate::run::tables;

mod chaos;
mod cluster;
mod locks;
mod refusals;

/// Every file of a run, without those of its tasks, and without durations.
pub fn run_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
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
    let [found, expected] = [found, expected].map(run_files);
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

/// The states of tasks by name, from the JSON output of a command.
pub fn states(command: &mut Command) -> BTreeMap<String, String> {
    let document: Value = serde_json::from_str(&done(command)).expect("JSON");
    let tasks = document["tasks"].as_array().expect("tasks");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    tasks.iter().map(|task| (text(&task["task"]), text(&task["how"]["state"]))).collect()
}

/// Writes an executable shell script. Another process does so, and puts it in place whole: what this one has open for writing a process
/// that another thread starts has for a moment, too, and no such file can be run.
pub fn write_script(path: &Path, text: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1""#;
    done(Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(text));
}

/// Writes stand-ins for Slurm's commands to `folder`, with `sbatch` of this text; the queue is always empty.
pub fn write_slurm(folder: &Path, sbatch: &str) {
    fs::create_dir_all(folder).expect("a folder");
    for (name, text) in [
        ("sbatch", sbatch),
        ("squeue", "exit 0"),
        ("scancel", "exit 0"),
        ("sacct", "echo accounting is off >&2; exit 1"),
        ("scontrol", "echo 'MaxArraySize            = 1001'"),
    ] {
        write_script(&folder.join(name), text);
    }
}

/// A sweep of four points and another head, with its tokens in `cache`.
pub fn sweep(sandbox: &Sandbox, out: &str, more: &[&str]) -> Command {
    let mut command = sandbox.on_data("sweep", "cache");
    command.args(["--grid", "temperature=0.1,1.0", "iterations=1,5", "--with", "gap"]);
    command.args(["--config", "state_dim=4"]);
    command.args(["--epochs", "2", "--batch", "16", "--out"]).arg(sandbox.path(out)).args(more);
    command
}

#[test]
fn a_training_in_parts_ends_with_the_bytes_of_an_undivided_one() {
    let sandbox = Sandbox::new(150, 12);
    let in_tasks = ["--submit", "local", "--tasks", "4", "--array-limit", "2", "--wait", "--json"];
    let (stdout, stderr) = succeeds(&mut sandbox.train("parts", 2, &in_tasks));
    let [begun, ended] = &lines(&stdout)[..] else { panic!("{stdout}") };
    assert_eq!(begun["tasks"].as_array().map(Vec::len), Some(9));
    let tasks = ended["tasks"].as_array().expect("tasks");
    assert!(tasks.len() == 9 && tasks.iter().all(|task| task["how"]["state"] == "done"), "{ended}");
    assert!(stderr.contains("submitted: 3 x tokens, then all-tokens, then 4 x train, then join"), "{stderr}");
    assert!(stderr.contains("9 of 9 tasks done"), "{stderr}");
    done(&mut sandbox.train("whole", 2, &[]));
    assert_same(&sandbox.path("parts"), &sandbox.path("whole"));
    // Tokens that three tasks extracted in parallel are equal, too.
    done(&mut sandbox.on_data("extract", "other"));
    let tokens = tree(&sandbox.path("cache"));
    assert!(tokens.len() == 7 && tokens == tree(&sandbox.path("other")));
    // Joined parts are removed; the logs and the plan stay.
    let left = tree(&sandbox.path("parts/tasks"));
    assert!(
        left.keys().all(|name| name.starts_with("log/") || name.starts_with("state/") || name == "plan.json")
    );
    assert!(states(&mut jobs(&sandbox.path("parts"), &["--json"])).values().all(|state| state == "done"));
    let (code, _, stderr) = run(&mut jobs(&sandbox.path("parts"), &["--cancel"]));
    assert!(code == 0 && stderr.contains("all tasks are done") && !stderr.contains("--retry"), "{stderr}");
    // Without a folder, those with tasks in the current folder are listed, or it is said which to name.
    let all = |home: &str| {
        let mut command = program();
        command.arg("jobs").current_dir(sandbox.path(home)).env("HOME", sandbox.path("whole"));
        command
    };
    let list = format!("{}: 9 of 9 tasks done\n", shell_path(&sandbox.path("parts")));
    assert!(done(&mut all("")).ends_with(&list));
    assert_ends(&mut all("whole"), 2, &["there are no tasks; name the folder that was passed as --out"]);
    assert_ends(all("").arg("--retry"), 2, &["required arguments were not provided", "RUN"]);
    // The result is a run like any other, to which seeds can be added.
    for name in ["parts", "whole"] {
        done(&mut sandbox.resume(name, &["--seeds", "3"]));
    }
    assert_same(&sandbox.path("parts"), &sandbox.path("whole"));
}

#[test]
fn a_sweep_in_parts_ends_with_the_bytes_of_an_undivided_one() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sweep(&sandbox, "whole", &["--seeds", "3"]));
    // Blocks of two and of three of the five heads, and parts of several seeds.
    for (name, tasks) in [("six", "6"), ("two", "2")] {
        let more = ["--seeds", "3", "--submit", "local", "--tasks", tasks, "--wait"];
        assert_ends(
            &mut sweep(&sandbox, name, &more),
            0,
            &[&format!("submitted: {tasks} x train, then join")],
        );
        assert_same(&sandbox.path(name), &sandbox.path("whole"));
    }
    let mut seven = sweep(&sandbox, "seven", &["--seeds", "3", "--submit", "local", "--tasks", "7"]);
    assert_ends(&mut seven, 2, &["3 seeds of 5 heads cannot be split into 7 parts"]);
    assert!(!sandbox.path("seven").exists());
}

#[test]
fn tokens_are_extracted_in_parts() {
    let sandbox = Sandbox::new(150, 12);
    let extract = |cache: &str, more: &[&str]| {
        let mut command = sandbox.on_data("extract", cache);
        command.args(more);
        command
    };
    assert_ends(&mut extract("parts", &["--submit", "local"]), 2, &["--tasks 8"]);
    let small = ["--submit", "local", "--tasks", "2", "--cache-limit", "0.0001"];
    assert_ends(&mut extract("parts", &small), 1, &["--cache-limit", "162 images"]);
    // Of three shards no more tasks than three.
    let printed = done(&mut extract("parts", &["--submit", "slurm", "--tasks", "8", "--dry-run"]));
    assert!(printed.contains("--part=$task/3"), "{printed}");
    done(&mut extract("parts", &["--submit", "local", "--tasks", "2", "--wait"]));
    done(&mut extract("whole", &[]));
    let mut parts = tree(&sandbox.path("parts"));
    parts.retain(|name, _| !name.starts_with("tasks-"));
    assert!(parts.len() == 7 && parts == tree(&sandbox.path("whole")));
    // A single part extracts its shards only: of three shards the first.
    done(&mut extract("part", &["--part", "1/3"]));
    let part = tree(&sandbox.path("part"));
    assert!(part.len() == 3 && part.iter().all(|(name, bytes)| parts[name] == *bytes), "{:?}", part.keys());
}

/// The id of a process whose command line contains both words.
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
    let sandbox = Sandbox::new(36, 12);
    let folder = sandbox.path("parts");
    let words = ["--part=1/2", folder.to_str().expect("text")];
    let Some(library) = library(&sandbox.path("")) else { return };
    let submit = sandbox.train("parts", 4, &["--submit", "local"]);
    done(&mut hold(&library, submit, "tasks/1/state/checkpoint.safetensors"));
    until("a checkpoint of the first task", || folder.join("tasks/1/state/checkpoint.safetensors").exists());
    send("-KILL", process(words).expect("it trains"));
    let words =
        ["train-1 failed with exit code 137", "train-1.txt ends with:", "--retry` submits what is not done"];
    assert_ends(&mut jobs(&folder, &["--wait"]), 1, &words);
    let how = states(&mut jobs(&folder, &["--json"]));
    assert_eq!(
        (how["train-1"].as_str(), how["train-2"].as_str(), how["join"].as_str()),
        ("failed", "done", "not-handed-in")
    );
    assert!(!folder.join("run.json").exists());

    assert_ends(&mut jobs(&folder, &["--retry", "--wait"]), 0, &["submitted 2 tasks"]);
    done(&mut sandbox.train("whole", 4, &[]));
    assert_same(&folder, &sandbox.path("whole"));
    assert_ends(&mut jobs(&folder, &["--retry"]), 0, &["nothing to submit"]);
}

#[test]
fn ctrl_c_ends_the_wait_and_not_the_tasks() {
    use std::os::unix::process::CommandExt;
    let sandbox = Sandbox::new(36, 12);
    let folder = sandbox.path("parts");
    let words = ["--part=1/2", folder.to_str().expect("text")];
    let Some(library) = library(&sandbox.path("")) else { return };
    let submit = ["--submit", "local", "--tasks", "2", "--array-limit", "2", "--wait"];
    let mut submit =
        hold(&library, sandbox.train("parts", 4, &submit), "tasks/1/state/checkpoint.safetensors");
    let client = start(submit.process_group(0));
    until("a checkpoint", || folder.join("tasks/1/state/checkpoint.safetensors").exists());
    until("the end of the other task, beside it", || {
        fs::read(folder.join("tasks/state/train-2")).is_ok_and(|code| code == b"0\n")
    });
    let task = process(words).expect("it trains");
    // Like a terminal, to the whole process group.
    let group = format!("-{}", client.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().expect("kill runs").success());
    let stderr = stopped(client);
    let look = format!(
        "the tasks keep running; `ssmprobe jobs {}` shows them, --wait waits for them",
        shell_path(&folder)
    );
    assert!(stderr.contains(&look), "{stderr}");
    assert_eq!(process(words), Some(task));
    assert_eq!(states(&mut jobs(&folder, &["--json"]))["train-1"], "running");
    release(&library);
    assert_ends(&mut jobs(&folder, &["--wait"]), 0, &["4 of 4 tasks done"]);
    done(&mut sandbox.train("whole", 4, &[]));
    assert_same(&folder, &sandbox.path("whole"));
}

#[test]
fn tasks_that_are_ended_save_and_go_on() {
    let sandbox = Sandbox::new(36, 12);
    let folder = sandbox.path("parts");
    let Some(library) = library(&sandbox.path("")) else { return };
    let submit = sandbox.train("parts", 4, &["--submit", "local", "--array-limit", "2"]);
    done(&mut hold(&library, submit, "tasks/2/state/checkpoint.safetensors"));
    until("a checkpoint", || folder.join("tasks/2/state/checkpoint.safetensors").exists());
    let cancel = start(&mut jobs(&folder, &["--cancel"]));
    until("the task is asked to stop", || {
        fs::read_to_string(folder.join("tasks/log/train-2.txt")).is_ok_and(|log| log.contains("stopping"))
    });
    release(&library);
    let (code, stderr) = end(cancel);
    assert_eq!(code, Some(0), "{stderr}");
    let words = ["--part=", folder.to_str().expect("text")];
    assert_eq!(process(words), None);
    let how = states(&mut jobs(&folder, &["--json"]));
    assert!(how["train-2"] == "stopped" && how["join"] == "not-handed-in", "{how:?}");
    done(&mut jobs(&folder, &["--retry", "--wait"]));
    done(&mut sandbox.train("whole", 4, &[]));
    assert_same(&folder, &sandbox.path("whole"));
}

#[test]
fn tasks_end_with_whoever_runs_them_and_nothing_is_changed_beside_him() {
    let sandbox = Sandbox::new(36, 12);
    let folder = sandbox.path("parts");
    let text = folder.to_str().expect("text");
    let (first, words) = (folder.join("tasks/1/run.json"), ["--part=2/2", text]);
    fs::create_dir_all(folder.join("tasks/1")).expect("a folder");
    fs::write(&first, "no run").expect("a file");
    done(&mut sandbox.train("parts", 100_000, &["--submit", "local", "--array-limit", "2"]));
    until("the end of the first", || {
        fs::read(folder.join("tasks/state/train-1")).is_ok_and(|code| code == b"1\n")
    });
    until("an epoch", || folder.join("tasks/2/metrics.jsonl").exists());
    assert_ends(&mut jobs(&folder, &["--retry"]), 2, &["are still running"]);
    assert!(first.exists() && states(&mut jobs(&folder, &["--json"]))["train-1"] == "failed");

    // When the worker is killed, its tasks end, too.
    send("-KILL", process(["--work", text]).expect("it works"));
    until("the end of the second", || process(words).is_none());
    // The ended task is started again by another worker.
    done(&mut jobs(&folder, &["--cancel"]));
    let worker = start(&mut jobs(&folder, &["--work"]));
    until("the second again", || process(words).is_some());
    signal(&worker, "-TERM");
    end(worker);
    assert_eq!(process(words), None);
}

/// `ssmprobe eval` of a run with all results that are sums over images, and files per image.
fn eval(sandbox: &Sandbox, run: &str, more: &[&str]) -> Command {
    let mut command = sandbox.eval(run, &["--anchors", "--ablations", "--causal", "frozen"]);
    command.arg("--evaluation").arg(sandbox.path("files").join(run)).args(more);
    command
}

/// The evaluation file of a run, and its files per image.
fn evaluated(sandbox: &Sandbox, run: &str) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    let kept = fs::read(sandbox.path(run).join("evaluation.json")).expect("what was kept");
    let files = tree(&sandbox.path("files").join(run));
    assert!(kept.len() > 1000 && files.len() > 7, "{:?}", files.keys());
    (kept, files)
}

#[test]
fn an_evaluation_in_parts_of_the_images_equals_an_undivided_one_to_the_bit() {
    let sandbox = Sandbox::new(24, 13);
    // One image has regions, and one cannot be read.
    let known = &entries(&entries(&sandbox.data().join("val"))[0])[0];
    fs::write(known.with_file_name("zzz.png"), "no picture").expect("a file");
    let mask = sandbox.path("masks").join(known.strip_prefix(sandbox.data()).expect("below it"));
    fs::create_dir_all(mask.parent().expect("a folder")).expect("a folder");
    let side = ssmprobe::model::data::scenes::SIDE as u32;
    let paint = |width: u32| {
        let half: Vec<u8> = (0..side * side).map(|at| if at % side < width { 255 } else { 0 }).collect();
        image::save_buffer(&mask, &half, side, side, image::ColorType::L8).expect("a mask");
    };
    paint(side / 2);
    for run in ["whole", "parts"] {
        done(&mut sandbox.train(run, 1, &["--heads", "cls,bi-gru", "--seeds", "1"]));
    }
    let masks = sandbox.path("masks");
    let masks = ["--masks", masks.to_str().expect("text")];
    done(&mut eval(&sandbox, "whole", &masks));
    assert_ends(&mut eval(&sandbox, "parts", &["--submit", "local"]), 2, &["--tasks 8"]);
    assert_ends(&mut eval(&sandbox, "parts", &["--part", "1/2", "--on", "local"]), 2, &["--part"]);
    let home = sandbox.path("parts/evaluation");
    let log = || fs::read_to_string(home.join("tasks/log/join.txt")).expect("a log");

    // No more tasks than images.
    let truth = Run::open(&sandbox.path("parts")).and_then(|run| run.truth()).expect("a run");
    let images = truth.images.len();
    let script =
        done(&mut eval(&sandbox, "parts", &["--submit", "slurm", "--tasks", "2000000", "--dry-run"]));
    let parts = [format!("--part=$task/{images} &"), format!("--join={images} &")];
    assert!(parts.iter().all(|part| script.contains(part)), "{script}");

    // In tasks, which the last one joins; it evaluates nothing itself, and leaves no part behind.
    let submit = ["--submit", "local", "--tasks", "3", "--array-limit", "3", "--wait"];
    let more = [&masks[..], &submit].concat();
    assert_ends(&mut eval(&sandbox, "parts", &more), 0, &["submitted: 3 x eval, then join"]);
    assert!(!log().contains("are evaluated"), "{}", log());
    assert!(evaluated(&sandbox, "parts") == evaluated(&sandbox, "whole"));
    assert!(!home.join("tasks/1").exists());

    // By hand, with more parts than images: one damaged, one lost, one with other settings, and one each of another mask and of
    // another image; each is reported and repeated.
    fs::remove_file(sandbox.path("parts/evaluation.json")).expect("removed");
    let evaluate = |part: usize| {
        done(&mut eval(&sandbox, "parts", &[&masks[..], &["--part", &format!("{part}/20")]].concat()));
    };
    (1..=20).for_each(evaluate);
    let part_of = |image: usize| (1..=20).find(|part| image < part * images / 20).expect("a part");
    let is_known = |name: &String| known.ends_with(name);
    let masked = part_of(truth.images.iter().position(is_known).expect("an image of the run"));
    paint(side / 4);
    evaluate(masked);
    paint(side / 2);
    let changed = part_of(images - 1);
    let last = sandbox.data().join(truth.images.last().expect("an image"));
    let (bytes, then) = (fs::read(&last), last.metadata().and_then(|metadata| metadata.modified()));
    fs::copy(known, &last).expect("another image");
    evaluate(changed);
    fs::write(&last, bytes.expect("an image")).expect("as before");
    let file = fs::File::options().append(true).open(&last).expect("an image");
    file.set_modified(then.expect("its time")).expect("set");
    assert!(!sandbox.path("parts/evaluation.json").exists());
    let file = |part: usize| home.join(format!("tasks/{part}/sinkhorn-s0-best.answers"));
    let mut bytes = fs::read(file(3)).expect("a part");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(file(3), bytes).expect("damaged");
    fs::remove_file(file(5)).expect("lost");
    done(&mut eval(&sandbox, "parts", &[&masks[..], &["--part", "7/20", "--seed", "4"]].concat()));
    let (_, stderr) = succeeds(&mut eval(&sandbox, "parts", &[&masks[..], &["--join", "20"]].concat()));
    let other = "is from another evaluation";
    for (part, words) in
        [(3, "is damaged"), (5, "cannot be read"), (7, other), (masked, other), (changed, other)]
    {
        let name = file(part).display().to_string();
        let is_reported = stderr.lines().any(|line| line.contains(&name) && line.contains(words));
        assert!(is_reported, "{name} {words}: {stderr}");
    }
    assert!(evaluated(&sandbox, "parts") == evaluated(&sandbox, "whole"));

    // A stopped evaluation keeps its results so far, and resumes from there.
    fs::remove_file(sandbox.path("parts/evaluation.json")).expect("removed");
    let (part, log) = ([&masks[..], &["--part", "1/1"]].concat(), sandbox.path("log"));
    let mut stopped = eval(&sandbox, "parts", &part)
        .stderr(fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    until("an image is asked about", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("keeping three numbers"))
    });
    signal(&stopped, "-TERM");
    assert!(matches!(stopped.wait().expect("a child").code(), Some(0 | 130)));
    done(&mut eval(&sandbox, "parts", &part));
    let (code, _, stderr) = run(&mut eval(&sandbox, "parts", &[&masks[..], &["--join", "1"]].concat()));
    assert!(code == 0 && !stderr.contains("are evaluated"), "{stderr}");
    assert!(evaluated(&sandbox, "parts") == evaluated(&sandbox, "whole"));
}

#[test]
fn a_task_waits_for_another_that_trains_the_same() {
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let part = |part: &str| sandbox.train("parts", 2, &["--resume", "--part", part]);
    let first = start(&mut hold(&library, part("1/2"), "tasks/1/state/checkpoint.safetensors"));
    until("a checkpoint", || sandbox.path("parts/tasks/1/state/checkpoint.safetensors").exists());
    let log = fs::File::create(sandbox.path("log")).expect("a file");
    let mut second = part("1/2").stderr(log).spawn().expect("it starts");
    until("the second waits", || {
        fs::read_to_string(sandbox.path("log")).is_ok_and(|log| log.contains("this task waits for it"))
    });
    release(&library);
    assert_eq!(end(first).0, Some(0));
    assert!(second.wait().expect("a child").success());
    done(&mut part("2/2"));
    for (task, seed) in [("1", 0), ("2", 1)] {
        let run = Run::open(&sandbox.path("parts/tasks").join(task)).expect("a run");
        assert_eq!(
            (run.manifest.seeds.as_slice(), run.outcomes().expect("outcomes").len()),
            (&[seed][..], 2)
        );
    }
}

#[test]
fn several_backbones_are_a_run_each_in_one_plan() {
    let sandbox = Sandbox::new(24, 12);
    let copy = sandbox.path("models/other");
    fs::create_dir_all(&copy).expect("a folder");
    for (name, bytes) in tree(&backbone()) {
        fs::write(copy.join(name), bytes).expect("a file");
    }
    let copy = copy.to_str().expect("text");
    let both = |more: &[&str]| sandbox.train("both", 1, &[&["--backbone", copy], more].concat());
    assert_ends(&mut both(&[]), 2, &["several --backbone need --submit"]);
    let (_, stderr) = succeeds(&mut both(&["--submit", "local", "--wait"]));
    let expected = "submitted: backbone: all-tokens, then 2 x train, then join; other: all-tokens, then 2 x train, then join";
    assert!(stderr.contains(expected) && stderr.contains("8 of 8 tasks done"), "{stderr}");
    done(&mut sandbox.train("one", 1, &[]));
    assert_same(&sandbox.path("both/backbone"), &sandbox.path("one"));
    let (tables, other) = (tables(&sandbox.path("one")), tables(&sandbox.path("both/other")));
    assert!(tables == other);
    let how = states(&mut jobs(&sandbox.path("both"), &["--json"]));
    assert_eq!(how.len(), 8);
    assert_eq!(how["train-other-2"], "done");

    // A failing chain does not stop the others, and is resumed alone.
    let folder = sandbox.path("again/backbone/tasks/1");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("run.json"), "no run").expect("a file");
    let submit = ["--backbone", copy, "--submit", "local", "--wait"];
    assert_ends(&mut sandbox.train("again", 1, &submit), 1, &["train-backbone-1 failed"]);
    let how = states(&mut jobs(&sandbox.path("again"), &["--json"]));
    assert_eq!((how["join-other"].as_str(), how["join-backbone"].as_str()), ("done", "not-handed-in"));
    // A state that cannot be written is named.
    let state = sandbox.path("again/tasks/state/train-backbone-1");
    fs::remove_file(&state).expect("a state");
    fs::create_dir(&state).expect("a folder");
    let word = ["state/train-backbone-1: cannot be written"];
    assert_ends(&mut jobs(&sandbox.path("again"), &["--work"]), 1, &word);
    fs::remove_dir(&state).expect("removed");
    let words =
        ["train-backbone-1 failed", "train-backbone-1.txt ends with:", "--retry` submits what is not done"];
    assert_ends(&mut jobs(&sandbox.path("again"), &["--work"]), 1, &words);
    assert_ends(&mut jobs(&sandbox.path("again"), &["--retry", "--wait"]), 0, &["submitted 2 tasks"]);
    assert_same(&sandbox.path("again/backbone"), &sandbox.path("one"));
}
