//! The tokens a probe was trained on: recorded in its file, read from it, and never mistaken for
//! others; and training without a token cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use ssmprobe::model::probe::Probe;

use crate::run::{Desk, backbone, done, files, lines, program, run, tables};

/// A copy of the backbone with one weight changed, in the folder `name`.
fn other_backbone(desk: &Desk, name: &str) -> PathBuf {
    let folder = desk.path(name);
    fs::create_dir_all(&folder).expect("a folder");
    for (file, mut bytes) in files(&backbone()) {
        if file == "model.safetensors" {
            let last = bytes.len() - 4;
            bytes[last] ^= 1;
        }
        fs::write(folder.join(file), bytes).expect("a file");
    }
    folder
}

/// `ssmprobe eval` of one probe file.
fn eval_probe(desk: &Desk, backbone: &Path, probe: &Path, more: &[&str]) -> Command {
    let mut eval = desk.verb("eval", "cache");
    eval.args(["--device", "cpu", "--json"]).arg("--backbone").arg(backbone);
    eval.arg("--data").arg(desk.data()).arg("--probe").arg(probe).args(more);
    eval
}

/// The evaluation of the first probe in the output of `eval`.
fn evaluation(stdout: &str) -> Value {
    lines(stdout).into_iter().find(|line| line["event"] == "probe").expect("a probe")["evaluation"].clone()
}

#[test]
fn a_probe_is_asked_about_the_tokens_it_was_trained_on() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("run", 2, &["--layer", "1", "--size", "48"]));
    done(&mut desk.train("last", 1, &[]));
    let of = |run: &str| desk.path(run).join("probes/sinkhorn-s0-best.safetensors");
    let training = Probe::load(of("run")).expect("a probe").meta.training.expect("how it was trained");
    assert_eq!((&training["tokens"]["layer"], &training["size"]), (&"1".into(), &48.into()));

    let mut eval = desk.verb("eval", "cache");
    let of_run = done(eval.args(["--device", "cpu", "--json", "--run"]).arg(desk.path("run")));
    let of_run = lines(&of_run).into_iter().find(|line| line["head"] == "sinkhorn" && line["seed"] == 0);
    let (code, alone, stderr) = run(&mut eval_probe(&desk, &backbone(), &of("run"), &[]));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(evaluation(&alone), of_run.expect("its evaluation")["evaluation"]);
    assert!(!stderr.contains("warning"), "{stderr}");
    // A flag overrides the file, with a warning about what it contradicts.
    let (code, _, stderr) = run(&mut eval_probe(&desk, &backbone(), &of("run"), &["--layer", "2"]));
    let expected = "was trained on other tokens (tokens after layer 1, not tokens after the last layer)";
    assert!(code == 0 && stderr.contains(expected), "{stderr}");
    // Two probes of different tokens cannot be evaluated together.
    let two = of("last").display().to_string();
    let (code, _, stderr) = run(&mut eval_probe(&desk, &backbone(), &of("run"), &[&two]));
    assert!(code == 2 && stderr.contains("different tokens") && stderr.contains("--layer"), "{stderr}");
    // A probe that does not name its tokens is not given those of another.
    let mut silent = Probe::load(of("last")).expect("a probe");
    silent.meta.training = None;
    silent.save(desk.path("silent.safetensors")).expect("a file");
    let silent = desk.path("silent.safetensors").display().to_string();
    let (code, _, stderr) = run(&mut eval_probe(&desk, &backbone(), &of("run"), &[&silent]));
    assert!(code == 2 && stderr.contains("a file that does not say"), "{stderr}");
    let (code, _, stderr) = run(&mut eval_probe(&desk, &backbone(), &of("last"), &[&silent]));
    assert_eq!(code, 0, "{stderr}");

    let inspect = |out: &str, more: &[&str]| {
        let mut inspect = program();
        inspect.args(["inspect", "--device", "cpu", "--null-draws", "2", "--backbone"]).arg(backbone());
        inspect.arg("--image").arg(desk.data().join("val")).arg("--out").arg(desk.path(out));
        let (code, _, stderr) = run(inspect.arg("--probe").arg(of("run")).args(more));
        assert_eq!(code, 0, "{stderr}");
        let first =
            files_below(&desk.path(out)).into_iter().find(|path| path.extension() == Some("json".as_ref()));
        let text = fs::read_to_string(first.expect("a result")).expect("text");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        (document["grid"]["rows"].as_u64(), stderr)
    };
    let (rows, stderr) = inspect("own", &[]);
    assert!(rows == Some(6) && !stderr.contains("warning"), "{stderr}");
    let (rows, stderr) = inspect("other", &["--size", "32"]);
    assert!(rows == Some(4) && stderr.contains("images of 48 pixels, not images of 32 pixels"), "{stderr}");
}

/// All files in a folder and below, sorted.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { all.extend(files_below(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

#[test]
fn other_weights_are_told_and_never_kept() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("run", 1, &[]));
    let other = other_backbone(&desk, "twin");
    let probe = desk.path("run/probes/sinkhorn-s0-best.safetensors");
    let (code, _, stderr) = run(&mut eval_probe(&desk, &other, &probe, &[]));
    assert!(code == 0 && stderr.contains("was trained on other weights"), "{stderr}");
    let eval = |more: &[&str]| {
        let mut eval = desk.verb("eval", "cache");
        run(eval.args(["--device", "cpu", "--run"]).arg(desk.path("run")).args(more))
    };
    let kept = desk.path("run/evaluation.json");
    for (more, field) in [
        (&["--backbone", &other.display().to_string()][..], "tokens.weights"),
        (&["--layer", "1"], "tokens.layer"),
        (&["--size", "48"], "tokens.preprocessing"),
        (&["--precision", "float32"], "tokens.precision"),
    ] {
        let (code, _, stderr) = eval(more);
        assert!(code == 2 && stderr.contains(&format!("another `{field}`")), "{more:?}: {stderr}");
        assert!(!kept.exists(), "{more:?}");
    }
    let (code, _, stderr) = eval(&["--layer", "2"]); // the last layer, by its number
    assert!(code == 0 && kept.exists(), "{stderr}");
}

#[test]
fn what_a_run_was_not_begun_with_is_refused_and_seeds_are_added() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("run", 2, &[]));
    let before = files(&desk.path("run/probes"));
    let resume = |more: &[&str]| {
        let mut train = desk.verb("train", "cache");
        run(train.arg("--resume").arg("--out").arg(desk.path("run")).args(more))
    };
    for (more, field) in [
        (&["--epochs", "5"][..], "protocol.epochs"),
        (&["--rate", "5"], "protocol.rate"),
        (&["--batch", "8"], "protocol.batch"),
        (&["--heads", "cls"], "heads"),
        (&["--layer", "1"], "tokens.layer"),
        (&["--precision", "float32"], "tokens.precision"),
        (&["--seeds", "1"], "seeds"),
        (&["--select-split", "0.3"], "selection"),
    ] {
        let (code, _, stderr) = resume(more);
        assert!(code == 2 && stderr.contains(&format!("another `{field}`")), "{more:?}: {stderr}");
    }
    assert!(before == files(&desk.path("run/probes")));
    let (_, _, stderr) = resume(&["--heads", "cls"]);
    assert!(stderr.contains("there, cls now;"), "one head by its name, too: {stderr}");
    let (code, _, stderr) = resume(&["--config", "state_dim=3"]);
    assert!(code == 2 && stderr.contains("--heads"), "{stderr}");
    // More seeds: existing probes stay as they are, new ones are those of a run with three seeds.
    let (code, _, stderr) = resume(&["--seeds", "3"]);
    assert_eq!(code, 0, "{stderr}");
    done(&mut desk.train("whole", 2, &["--seeds", "3"]));
    let [grown, whole] = ["run", "whole"].map(|name| desk.path(name));
    assert_eq!(files(&grown.join("probes")).len(), 3 * 2 * 2);
    assert!(files(&grown.join("probes")) == files(&whole.join("probes")));
    assert!(tables(&grown) == tables(&whole));
}

#[test]
fn a_run_goes_on_with_the_cache_it_was_begun_with() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("run", 1, &[]));
    for verb in ["train --resume --out", "eval --run"] {
        let mut command = program();
        command.args(verb.split(' ')).arg(desk.path("run")).args(["--device", "cpu"]);
        done(command.env("SSMPROBE_CACHE", desk.path("elsewhere")));
    }
    assert!(!desk.path("elsewhere").exists());
}

#[test]
fn without_a_cache_a_training_ends_with_the_same_bits() {
    let desk = Desk::new(36, 12);
    fs::write(desk.data().join("train/disc-dots/broken.png"), "no picture").expect("a file");
    let (code, _, stderr) = run(&mut desk.train("refused", 6, &["--cache-limit", "0.00001"]));
    assert!(code == 1 && stderr.contains("--recompute") && stderr.contains(" each here"), "{stderr}");
    done(&mut desk.train("cached", 6, &["--select-split", "0.34"]));
    fs::remove_dir_all(desk.path("cache")).expect("removed");
    let anew = ["--select-split", "0.34", "--recompute", "--cache-limit", "0.00001"];
    let begun = Instant::now();
    let stdout = done(&mut desk.train("anew", 6, &[&anew[..], &["--json"]].concat()));
    let whole = begun.elapsed();
    assert!(lines(&stdout).iter().any(|line| line["event"] == "unreadable"), "{stdout}");
    // Killed in the middle, it resumes without its flags.
    let mut child = desk.train("cut", 6, &anew);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while !desk.path("cut/metrics.jsonl").exists() && begun.elapsed() < 20 * whole {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(desk.path("cut/metrics.jsonl").exists(), "nothing was trained");
    child.kill().expect("killed");
    assert!(!child.wait().expect("a child").success(), "it was over before it was killed");
    let mut resume = desk.verb("train", "cache");
    done(resume.args(["--resume", "--cache-limit", "0.00001", "--out"]).arg(desk.path("cut")));
    assert!(!desk.path("cache").exists(), "tokens were kept");
    for name in ["anew", "cut"] {
        let [own, cached] = [name, "cached"].map(|name| desk.path(name));
        assert!(files(&own.join("probes")) == files(&cached.join("probes")), "{name}");
        assert!(tables(&own) == tables(&cached), "{name}");
    }
    // The CLS token, which those heads do not read, is rounded to the cache's precision, too.
    let cls = |out: &str, more: &[&str]| {
        let mut command = desk.verb("train", out);
        command.arg("--backbone").arg(backbone()).arg("--data").arg(desk.data()).args(["--heads", "cls"]);
        command.args(["--epochs", "1", "--batch", "16", "--device", "cpu", "--out"]).arg(desk.path(out));
        done(command.args(more));
        files(&desk.path(out).join("probes"))
    };
    assert!(cls("cls-kept", &[]) == cls("cls-anew", &["--recompute", "--cache-limit", "0.00001"]));
}
