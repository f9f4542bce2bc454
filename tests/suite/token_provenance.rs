//! The tokens a probe was trained on: recorded in its file, read from it, and never mistaken for
//! others; and training without a token cache.

use ssmprobe::model::probe::Probe;

use crate::run::prelude::*;
use crate::run::{files, inspect, tables};

/// A copy of the backbone with one weight changed, in the folder `name`.
fn other_backbone(sandbox: &Sandbox, name: &str) -> PathBuf {
    let folder = sandbox.path(name);
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
fn eval_probe(sandbox: &Sandbox, backbone: &Path, probe: &Path, more: &[&str]) -> Command {
    let mut eval = sandbox.verb("eval", "cache");
    eval.args(["--device", "cpu", "--json"]).arg("--backbone").arg(backbone);
    eval.arg("--data").arg(sandbox.data()).arg("--probe").arg(probe).args(more);
    eval
}

/// The evaluation of the first probe in the output of `eval`.
fn evaluation(stdout: &str) -> Value {
    lines(stdout).into_iter().find(|line| line["event"] == "probe").expect("a probe")["evaluation"].clone()
}

#[test]
fn a_probe_is_asked_about_the_tokens_it_was_trained_on() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("run", 2, &["--layer", "1", "--size", "48"]));
    done(&mut sandbox.train("last", 1, &[]));
    let of = |run: &str| sandbox.path(run).join("probes/sinkhorn-s0-best.safetensors");
    let training = Probe::load(of("run")).expect("a probe").meta.training.expect("how it was trained");
    assert_eq!((&training["tokens"]["layer"], &training["size"]), (&"1".into(), &48.into()));

    let of_run = lines(&done(&mut sandbox.eval("run", &["--json"])))
        .into_iter()
        .find(|line| line["head"] == "sinkhorn" && line["seed"] == 0);
    let (alone, stderr) = succeeds(&mut eval_probe(&sandbox, &backbone(), &of("run"), &[]));
    assert_eq!(evaluation(&alone), of_run.expect("its evaluation")["evaluation"]);
    assert!(!stderr.contains("warning"), "{stderr}");
    // A flag overrides the file, with a warning about what it contradicts.
    let expected = "was trained on other tokens (tokens after layer 1, not tokens after the last layer)";
    assert_ends(&mut eval_probe(&sandbox, &backbone(), &of("run"), &["--layer", "2"]), 0, &[expected]);
    // Two probes of different tokens cannot be evaluated together.
    let two = of("last").display().to_string();
    let beside = |other: &str| eval_probe(&sandbox, &backbone(), &of("run"), &[other]);
    assert_ends(&mut beside(&two), 2, &["different tokens", "--layer"]);
    // A probe that does not name its tokens is not given those of another.
    let mut silent = Probe::load(of("last")).expect("a probe");
    silent.meta.training = None;
    silent.save(sandbox.path("silent.safetensors")).expect("a file");
    let silent = sandbox.path("silent.safetensors").display().to_string();
    assert_ends(&mut beside(&silent), 2, &["a file that does not say"]);
    done(&mut eval_probe(&sandbox, &backbone(), &of("last"), &[&silent]));

    let inspect = |out: &str, more: &[&str]| {
        let mut inspect = inspect(2);
        inspect.arg("--image").arg(sandbox.data().join("val")).arg("--out").arg(sandbox.path(out));
        let (_, stderr) = succeeds(inspect.arg("--probe").arg(of("run")).args(more));
        let first = tree(&sandbox.path(out)).into_iter().find(|(name, _)| name.ends_with(".json"));
        let document: Value = serde_json::from_slice(&first.expect("a result").1).expect("JSON");
        (document["grid"]["rows"].as_u64(), stderr)
    };
    let (rows, stderr) = inspect("own", &[]);
    assert!(rows == Some(6) && !stderr.contains("warning"), "{stderr}");
    let (rows, stderr) = inspect("other", &["--size", "32", "--class", "0,1"]);
    let warnings = stderr.matches("images of 48 pixels, not images of 32 pixels").count();
    assert!(rows == Some(4) && warnings == 1, "{stderr}");
}

#[test]
fn other_weights_are_told_and_never_kept() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("run", 1, &[]));
    let other = other_backbone(&sandbox, "twin");
    let probe = sandbox.path("run/probes/sinkhorn-s0-best.safetensors");
    assert!(Probe::load(&probe).expect("a probe").meta.backbone.config.is_some());
    assert_ends(&mut eval_probe(&sandbox, &other, &probe, &[]), 0, &["was trained on other weights"]);
    let eval = |more: &[&str]| sandbox.eval("run", more);
    let kept = sandbox.path("run/evaluation.json");
    for (more, field) in [
        (&["--backbone", &other.display().to_string()][..], "tokens.weights"),
        (&["--layer", "1"], "tokens.layer"),
        (&["--size", "48"], "tokens.preprocessing"),
        (&["--precision", "float32"], "tokens.precision"),
    ] {
        assert_ends(&mut eval(more), 2, &[&format!("another `{field}`")]);
        assert!(!kept.exists(), "{more:?}");
    }
    done(&mut eval(&["--layer", "2"])); // the last layer, by its number
    assert!(kept.exists());
}

#[test]
fn what_a_run_was_not_begun_with_is_refused_and_seeds_are_added() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("run", 2, &[]));
    let before = files(&sandbox.path("run/probes"));
    let resume = |more: &[&str]| sandbox.resume("run", more);
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
        assert_ends(&mut resume(more), 2, &[&format!("another `{field}`")]);
    }
    assert_ends(&mut resume(&["--seeds", "1000000"]), 2, &["it has 2000000 trainings"]);
    assert!(before == files(&sandbox.path("run/probes")));
    // One head by its name, too.
    assert_ends(&mut resume(&["--heads", "cls"]), 2, &["there, cls now;"]);
    assert_ends(&mut resume(&["--config", "state_dim=3"]), 2, &["--heads"]);
    // More seeds: existing probes stay as they are, new ones are those of a run with three seeds.
    done(&mut resume(&["--seeds", "3"]));
    done(&mut sandbox.train("whole", 2, &["--seeds", "3"]));
    let [grown, whole] = ["run", "whole"].map(|name| sandbox.path(name));
    assert_eq!(files(&grown.join("probes")).len(), 3 * 2 * 2);
    assert!(files(&grown.join("probes")) == files(&whole.join("probes")));
    assert!(tables(&grown) == tables(&whole));
}

#[test]
fn a_run_goes_on_with_the_cache_it_was_begun_with() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("run", 1, &[]));
    for verb in ["train --resume --out", "eval --run"] {
        let mut command = program();
        command.args(verb.split(' ')).arg(sandbox.path("run")).args(["--device", "cpu"]);
        done(command.env("SSMPROBE_CACHE", sandbox.path("elsewhere")));
    }
    assert!(!sandbox.path("elsewhere").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_cache_a_training_ends_with_the_same_bits() {
    use crate::interrupts::until;
    use crate::preload::{hold, library};
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    fs::write(sandbox.data().join("train/disc-dots/broken.png"), "no picture").expect("a file");
    let too_little = ["--cache-limit", "0.00001"];
    assert_ends(&mut sandbox.train("refused", 6, &too_little), 1, &["--recompute", " each here"]);
    done(&mut sandbox.train("cached", 6, &["--select-split", "0.34"]));
    fs::remove_dir_all(sandbox.path("cache")).expect("removed");
    let anew = ["--select-split", "0.34", "--recompute", "--cache-limit", "0.00001"];
    let stdout = done(&mut sandbox.train("anew", 6, &[&anew[..], &["--json"]].concat()));
    assert!(lines(&stdout).iter().any(|line| line["event"] == "unreadable"), "{stdout}");
    // Killed in the middle, it resumes without its flags.
    let mut child = hold(&library, sandbox.train("cut", 6, &anew), "cut/state/checkpoint.safetensors");
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("a checkpoint", || sandbox.path("cut/state/checkpoint.safetensors").exists());
    child.kill().and_then(|()| child.wait()).expect("killed");
    done(&mut sandbox.resume("cut", &["--cache-limit", "0.00001"]));
    assert!(!sandbox.path("cache").exists(), "tokens were kept");
    for name in ["anew", "cut"] {
        let [own, cached] = [name, "cached"].map(|name| sandbox.path(name));
        assert!(files(&own.join("probes")) == files(&cached.join("probes")), "{name}");
        assert!(tables(&own) == tables(&cached), "{name}");
    }
    // The CLS token, which those heads do not read, is rounded to the cache's precision, too.
    let cls = |out: &str, more: &[&str]| {
        let mut command = sandbox.on_data("train", out);
        command.args(["--heads", "cls", "--epochs", "1", "--batch", "16", "--out"]).arg(sandbox.path(out));
        done(command.args(more));
        files(&sandbox.path(out).join("probes"))
    };
    assert!(cls("cls-kept", &[]) == cls("cls-anew", &["--recompute", "--cache-limit", "0.00001"]));
}
