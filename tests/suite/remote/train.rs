//! `train --on`: a training as a process of its own, which none of those who follow it can end by going.

use std::fs;
use std::process::{Command, Stdio};

use super::sshd::Sshd;
use super::{children, end, kill, lives, signal, start, until};
use crate::run::{Desk, done, files, program, run, tables};

const REAL: &str = env!("CARGO_BIN_EXE_ssmprobe");

/// The process that trains there.
fn trains(desk: &Desk, out: &str) -> u32 {
    let known = fs::read(desk.path(out).join("train.json")).expect("who trains");
    let known: serde_json::Value = serde_json::from_slice(&known).expect("JSON");
    known["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process")
}

fn epochs(desk: &Desk, out: &str) -> usize {
    fs::read_to_string(desk.path(out).join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

/// `train` with these epochs, elsewhere.
fn there(desk: &Desk, out: &str, epochs: usize) -> Command {
    desk.train(out, epochs, &["--on", "local", "--remote-program", REAL])
}

fn same(desk: &Desk, out: &str) {
    for kind in ["probes", "losses"] {
        let [here, there] = ["here", out].map(|name| files(&desk.path(name).join(kind)));
        assert!(!here.is_empty() && here == there, "{kind}");
    }
    assert!(tables(&desk.path("here")) == tables(&desk.path(out)));
}

#[test]
fn a_training_elsewhere_says_what_one_here_says_and_makes_the_same() {
    let desk = Desk::new(24, 12);
    let here = done(&mut desk.train("here", 3, &[]));
    let (code, found, said) = run(&mut there(&desk, "there", 3));
    assert_eq!(code, 0, "{said}");
    assert_eq!(found, here);
    assert!(said.contains("started as process ") && said.contains("the run is in "), "{said}");
    same(&desk, "there");
    // In there is a run now; going on with it has nothing to do.
    let (code, _, said) = run(&mut there(&desk, "there", 3));
    assert!(code == 1 && said.contains("--resume"), "{said}");
    let (code, _, said) = run(there(&desk, "there", 3).arg("--resume"));
    assert!(code == 0 && said.contains("nothing was trained"), "{said}");
    let mut json = desk.train("json", 2, &["--json", "--on", "local", "--remote-program", REAL]);
    let events = crate::run::lines(&done(&mut json));
    assert_eq!(events.last().expect("an end")["finished"], true);
}

#[test]
fn ctrl_c_leaves_it_running_and_the_command_it_names_follows_it() {
    let desk = Desk::new(24, 12);
    done(&mut desk.train("here", 300, &[]));
    let client = start(&mut there(&desk, "there", 300));
    until("an epoch", || epochs(&desk, "there") > 0);
    let pid = trains(&desk, "there");
    signal(&client, "-INT");
    let (code, said, _) = end(client);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains(&format!("stop it, saved: kill {pid}")), "{said}");
    let look = said.lines().find_map(|line| line.split_once("Look again: ssmprobe ")).expect("a command").1;
    let (code, _, said) = run(program().args(look.split(' ')));
    assert_eq!(code, 0, "{said}");
    same(&desk, "there");
    until("the end of the training", || !lives(pid));
}

#[test]
fn what_goes_wrong_there_is_told_here() {
    let desk = Desk::new(6, 3);
    let mut train = desk.verb("train", "cache");
    train
        .arg("--backbone")
        .arg(crate::run::backbone())
        .args(["--data", "nowhere", "--heads", "gap", "--device", "cpu"]);
    train.args(["--on", "local", "--remote-program", REAL, "--out"]).arg(desk.path("run"));
    let (code, _, said) = run(&mut train);
    assert!(code == 1 && said.contains("ended before its end") && said.contains("nowhere"), "{said}");
    let mut train = desk.train("run", 1, &["--on", "ssh://127.0.0.1:1"]);
    let (code, _, said) = run(&mut train);
    assert!(
        code == 1 && (said.contains("it is not reached") || said.contains("cannot be started")),
        "{said}"
    );
    // Two at once in one folder are refused.
    let client = start(&mut there(&desk, "two", 100_000));
    until("an epoch", || epochs(&desk, "two") > 0);
    let (code, _, said) = run(&mut there(&desk, "two", 100_000));
    assert!(code == 1 && said.contains("a training runs in there already"), "{said}");
    let pid = trains(&desk, "two");
    // Stopped as the message says, it is saved.
    assert!(
        Command::new("kill")
            .arg(pid.to_string())
            .stdout(Stdio::null())
            .status()
            .expect("kill runs")
            .success()
    );
    let (code, said, _) = end(client);
    assert!(code == Some(1) || code == Some(130), "{said}");
    assert!(said.contains("stopped and saved"), "{said}");
}

#[test]
fn a_training_never_notices_that_ssh_or_a_worker_is_killed() {
    let Some(sshd) = Sshd::start() else { return };
    let desk = Desk::new(24, 12);
    done(&mut desk.train("here", 300, &[]));
    let mut train = desk.train("there", 300, &[]);
    sshd.on(&mut train, REAL);
    let client = start(&mut train);
    let ssh = || children(client.id()).first().copied();
    until("an epoch", || epochs(&desk, "there") > 0);
    let pid = trains(&desk, "there");
    let first = ssh().expect("ssh runs");
    kill(first);
    until("another connection", || ssh().is_some_and(|ssh| ssh != first) || epochs(&desk, "there") >= 1200);
    let (code, said, _) = end(client);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the connection is lost; the training goes on there"), "{said}");
    assert!(said.matches("started as process").count() == 1 && said.contains("the run is in "), "{said}");
    same(&desk, "there");
    until("the end of the training", || !lives(pid));
}

#[test]
fn a_sweep_elsewhere_is_one_here() {
    let desk = Desk::new(24, 12);
    let sweep = |out: &str, more: &[&str]| {
        let mut command = crate::submit::sweep(&desk, out, &["--seeds", "1"]);
        command.args(more);
        command
    };
    let here = done(&mut sweep("here", &[]));
    let on = ["--on", "local", "--remote-program", REAL];
    let (code, found, said) = run(&mut sweep("there", &on));
    assert!(code == 0 && said.contains("started as process "), "{said}");
    assert_eq!(found, here);
    same(&desk, "there");
    // It is gone on with as every run.
    let (code, _, said) =
        run(program().args(["sweep", "--resume", "--out"]).arg(desk.path("there")).args(on));
    assert!(code == 0 && said.contains("nothing was trained"), "{said}");
    let (code, _, said) = run(&mut sweep("other", &[&on[..], &["--submit", "local"]].concat()));
    assert!(code == 2 && said.contains("--submit"), "{said}");
}
