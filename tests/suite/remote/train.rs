//! `train --on`: a training as a process of its own, which continues when a client that follows it ends.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr};

use super::sshd::Sshd;
use super::{children, end, is_alive, kill, signal, start, until, write_script};
use crate::preload::{hold, library, load, release};
use crate::run::prelude::*;
use crate::run::{assert_same_training, files, shell};

const REAL: &str = env!("CARGO_BIN_EXE_ssmprobe");

/// The process id of the training in the run `out`, once it is known.
pub fn training_pid(sandbox: &Sandbox, out: &str) -> u32 {
    let path = sandbox.path(out).join("train.json");
    until("its process", || path.exists());
    let known: serde_json::Value = json(path);
    known["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process")
}

fn epochs(sandbox: &Sandbox, out: &str) -> usize {
    fs::read_to_string(sandbox.path(out).join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// `train` with this number of epochs, elsewhere.
fn there(sandbox: &Sandbox, out: &str, epochs: usize) -> Command {
    sandbox.train(out, epochs, &["--on", "local", "--remote-program", REAL])
}

fn assert_same(sandbox: &Sandbox, out: &str) {
    assert_same_training(&sandbox.path("here"), &sandbox.path(out));
}

#[test]
fn a_training_elsewhere_says_what_one_here_says_and_makes_the_same() {
    let sandbox = Sandbox::new(24, 12);
    let here = done(&mut sandbox.train("here", 3, &[]));
    let (found, stderr) = succeeds(&mut there(&sandbox, "there", 3));
    assert_eq!(found, here);
    assert!(stderr.contains("started as process ") && stderr.contains("the run is in "), "{stderr}");
    assert_same(&sandbox, "there");
    // The folder holds a run now, and resuming it trains nothing.
    assert_ends(&mut there(&sandbox, "there", 3), 2, &["--resume"]);
    assert_ends(there(&sandbox, "there", 3).arg("--resume"), 0, &["nothing was trained"]);
    let mut json = sandbox.train("json", 2, &["--json", "--on", "local", "--remote-program", REAL]);
    let events = crate::run::lines(&done(&mut json));
    assert_eq!(events.last().expect("an end")["finished"], true);
}

/// Waits until a client has said these words of the training; all that it said, and where the rest is read.
fn says(client: &mut Child, words: &str) -> (String, BufReader<ChildStderr>) {
    let mut lines = BufReader::new(client.stderr.take().expect("piped"));
    let mut stderr = String::new();
    while !stderr.contains(words) {
        assert!(lines.read_line(&mut stderr).expect("text") > 0, "{stderr}");
    }
    (stderr, lines)
}

/// Lets a client find the training, which is held, and follow it to its end.
fn follows(client: &mut Command, library: &Path) {
    let mut client = start(client);
    let (mut stderr, mut lines) = says(&mut client, "found as process");
    release(library);
    lines.read_to_string(&mut stderr).expect("text");
    assert!(client.wait().expect("a child").success(), "{stderr}");
}

#[test]
fn ctrl_c_leaves_it_running_and_the_command_it_names_follows_it() {
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    done(&mut sandbox.train("here", 4, &[]));
    let train = there(&sandbox, "there", 4);
    let mut client = start(&mut hold(&library, train, "there/state/checkpoint.safetensors"));
    let (mut stderr, mut lines) = says(&mut client, "started as process");
    let pid = training_pid(&sandbox, "there");
    signal(&client, "-INT");
    lines.read_to_string(&mut stderr).expect("text");
    assert_eq!(client.wait().expect("a child").code(), Some(130), "{stderr}");
    assert!(stderr.contains(&format!("save and stop it: kill {pid}")), "{stderr}");
    let look =
        stderr.lines().find_map(|line| line.split_once("Follow it again: ssmprobe ")).expect("a command").1;
    follows(&mut shell(&format!("exec ssmprobe {look}")), &library);
    assert_same(&sandbox, "there");
    until("the end of the training", || !is_alive(pid));
}

#[test]
fn a_sweep_of_layers_and_rates_through_ssh_is_one_here() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new(36, 12);
    let sweep = |out: &str| {
        let mut sweep = sandbox.on_data("sweep", &format!("{out}-cache"));
        sweep.args(["--grid", "iterations=1,5", "--config", "state_dim=4", "--layers", "1,last"]);
        sweep.args(["--rates", "1e-3,1e-2", "--select-split", "0.3", "--epochs", "2", "--batch", "16"]);
        sweep.args(["--seeds", "2", "--out"]).arg(sandbox.path(out));
        sweep
    };
    let here = done(&mut sweep("here"));
    let mut there = sweep("there");
    sshd.on(&mut there, REAL);
    let (code, found, stderr) = run(&mut there);
    assert!(code == 0 && stderr.contains("started as process "), "{stderr}");
    assert_eq!(found, here);
    assert_eq!(
        files(&sandbox.path("there/probes")).len(),
        2 * 2 * 2 * 2 * 2,
        "points, layers, rates, seeds, ends"
    );
    assert_same(&sandbox, "there");
    assert!(tree(&sandbox.path("there-cache")) == tree(&sandbox.path("here-cache")), "tokens of both layers");
}

#[test]
fn a_training_whose_disk_is_full_says_so_and_goes_on_where_there_is_room() {
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    done(&mut sandbox.train("here", 40, &[]));
    let out = sandbox.path("there");
    let full = |after: &str| {
        let mut command = there(&sandbox, "there", 40);
        load(&mut command, &library).env("FULL_BELOW", &out).env("FULL_AFTER", after);
        command
    };
    // The disk is full at once, then in the middle.
    for after in ["0", "300000"] {
        let words = [out.to_str().expect("text"), "No space left on device", "free some space"];
        assert_ends(full(after).arg("--resume"), 1, &words);
    }
    assert!((1..80).contains(&epochs(&sandbox, "there")), "some epochs are kept");
    done(there(&sandbox, "there", 40).arg("--resume"));
    assert_same(&sandbox, "there");
}

#[test]
fn who_trains_elsewhere_is_known_where_there_are_no_locks() {
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let owner_file = sandbox.path("there/train.lock.owner.json");
    let there = || {
        let mut command = there(&sandbox, "there", 4);
        load(&mut command, &library).env("NO_LOCKS", "1");
        command
    };
    done(&mut sandbox.train("here", 4, &[]));
    let client = start(&mut hold(&library, there(), "there/state/checkpoint.safetensors"));
    until("an epoch", || epochs(&sandbox, "there") > 0);
    let pid = training_pid(&sandbox, "there");
    let owner = fs::read_to_string(&owner_file).expect("an owner file");
    assert!(owner.contains(&format!("\"process\":{pid},")), "{owner}");
    assert_ends(&mut there(), 1, &["a training is already running in it"]);
    // The training continues when its clients are killed, and can be followed again.
    children(client.id()).into_iter().for_each(kill);
    signal(&client, "-KILL");
    assert_eq!(end(client).0, None);
    follows(there().arg("--resume"), &library);
    assert_same(&sandbox, "there");
    until("the end of the training", || !is_alive(pid));
    assert!(!owner_file.exists(), "it is given back");
}

#[test]
fn who_trains_on_another_machine_is_left_to_it_where_locks_are_of_one_machine() {
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let there = |host: &str| {
        fs::write(sandbox.path(host), format!("{host}\n")).expect("a file");
        let mut command = there(&sandbox, "there", 100_000);
        load(&mut command, &library).env("HOST_FILE", sandbox.path(host));
        command
    };
    let client = start(&mut there("north"));
    until("an epoch", || epochs(&sandbox, "there") > 0);
    let pid = training_pid(&sandbox, "there");
    let log = || fs::read(sandbox.path("there/train.log")).expect("a log");
    let before = log();
    let mut other = start(there("south").env("OWN_LOCKS", "1").arg("--resume"));
    // The owner file is watched for a heartbeat, which takes at most 15 s.
    let (mut stderr, mut lines) = says(&mut other, "found as process");
    signal(&other, "-INT");
    lines.read_to_string(&mut stderr).expect("text");
    let code = other.wait().expect("a child").code();
    assert!(code == Some(130) && stderr.contains("north was the last machine to train in"), "{stderr}");
    assert!(stderr.contains(&format!("kill {pid}, on north")), "{stderr}");
    assert!(log().starts_with(&before) && training_pid(&sandbox, "there") == pid);
    kill(pid);
    let (code, stderr) = end(client);
    assert!(code == Some(1) && stderr.contains("was killed (signal: 9"), "{stderr}");
}

#[test]
fn what_goes_wrong_there_is_told_here() {
    let sandbox = Sandbox::new(6, 3);
    let mut train = sandbox.verb("train", "cache");
    train.args(["--data", "nowhere", "--heads", "gap", "--device", "cpu", "--backbone"]).arg(backbone());
    train.args(["--on", "local", "--remote-program", REAL, "--out"]).arg(sandbox.path("run"));
    let (code, _, stderr) = run(&mut train);
    assert!(code == 2 && stderr.matches("error: ").count() == 1 && stderr.contains("nowhere"), "{stderr}");
    // One that is refused before it takes the owner file over leaves none.
    let mut train = sandbox.on_data("train", "cache");
    train.args(["--heads", "nothing", "--on", "local", "--remote-program", REAL, "--out"]);
    assert_ends(train.arg(sandbox.path("run")), 2, &["there is no head `nothing`"]);
    assert!(!sandbox.path("run/train.lock.owner.json").exists());
    let mut train = sandbox.train("run", 1, &["--on", "ssh://127.0.0.1:1"]);
    let (code, _, stderr) = run(&mut train);
    assert!(
        code == 1 && (stderr.contains("it cannot be reached") || stderr.contains("cannot be started")),
        "{stderr}"
    );
    let odd: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9");
    let mut train = program();
    assert_ends(
        train.args(["train", "--on", "local", "--resume", "--out"]).arg(odd),
        2,
        &["is not valid Unicode"],
    );
    // A second training in the same folder is refused.
    let client = start(&mut there(&sandbox, "two", 100_000));
    until("an epoch", || epochs(&sandbox, "two") > 0);
    assert_ends(&mut there(&sandbox, "two", 100_000), 1, &["a training is already running in it"]);
    let pid = training_pid(&sandbox, "two");
    // Stopped by the command of the message, it is saved.
    assert!(
        Command::new("kill")
            .arg(pid.to_string())
            .stdout(Stdio::null())
            .status()
            .expect("kill runs")
            .success()
    );
    let (code, stderr) = end(client);
    assert!(code == Some(1) && stderr.contains("stopped and saved"), "{code:?}: {stderr}");
}

#[test]
fn a_training_never_notices_that_ssh_or_a_worker_is_killed() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    done(&mut sandbox.train("here", 4, &[]));
    let mut train = sandbox.train("there", 4, &[]);
    // sshd passes no environment on.
    let held = hold(&library, Command::new(REAL), "there/state/checkpoint.safetensors");
    let set = |(name, value): (&OsStr, Option<&OsStr>)| {
        format!("{}='{}' ", name.display(), value.expect("a value").display())
    };
    let environment: String = held.get_envs().map(set).collect();
    let program = sandbox.path("held");
    write_script(&program, &format!("{environment}exec '{REAL}' \"$@\""));
    sshd.on(&mut train, program.to_str().expect("text"));
    let script = sshd.folder.path().join("ssh");
    let text = fs::read_to_string(&script).expect("a script");
    write_script(&script, &text.replace("exec ", "echo 'a word of ssh' >&2\nexec "));
    let client = start(&mut train);
    let ssh = || children(client.id()).first().copied();
    until("an epoch", || epochs(&sandbox, "there") > 0);
    let pid = training_pid(&sandbox, "there");
    let first = ssh().expect("ssh runs");
    kill(first);
    until("another connection", || ssh().is_some_and(|ssh| ssh != first));
    release(&library);
    let (code, stderr) = end(client);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("connection lost; the training keeps running there"), "{stderr}");
    assert!(stderr.contains("(signal: 9 (SIGKILL))\nits last output:\n  a word of ssh\n"), "{stderr}");
    // It is found, not started, where the connection was lost before it was said to be started.
    assert_eq!(stderr.matches(&format!("as process {pid} on ")).count(), 1, "{stderr}");
    assert_same(&sandbox, "there");
    until("the end of the training", || !is_alive(pid));
}

#[test]
fn a_sweep_elsewhere_is_one_here() {
    let sandbox = Sandbox::new(24, 12);
    let sweep = |out: &str, more: &[&str]| {
        let mut command = crate::submit::sweep(&sandbox, out, &["--seeds", "1"]);
        command.args(more);
        command
    };
    let here = done(&mut sweep("here", &[]));
    let on = ["--on", "local", "--remote-program", REAL];
    let (code, found, stderr) = run(&mut sweep("there", &on));
    assert!(code == 0 && stderr.contains("started as process "), "{stderr}");
    assert_eq!(found, here);
    assert_same(&sandbox, "there");
    // It is resumed like any run.
    let mut resume = program();
    resume.args(["sweep", "--resume", "--out"]).arg(sandbox.path("there")).args(on);
    assert_ends(&mut resume, 0, &["nothing was trained"]);
    assert_ends(&mut sweep("other", &[&on[..], &["--submit", "local"]].concat()), 2, &["--submit"]);
}
