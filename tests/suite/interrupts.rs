//! Signals: a read that never ends does not delay the exit, no partial file is left, and an interrupted
//! training resumes to the same bits.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Child;

use super::run::{inspect, with_hub};
use crate::run::prelude::*;

pub fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Sends a signal, such as `-KILL`, to a process.
pub fn send(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

pub fn signal(child: &Child, name: &str) {
    send(name, child.id());
}

/// Sends two signals to the stopped process, so that both are pending when it continues: it must end at once.
fn signal_twice(child: &Child) {
    for name in ["-STOP", "-TERM", "-INT", "-CONT"] {
        signal(child, name);
    }
}

/// Interrupts a child, and waits until it says so.
pub fn interrupt(child: &mut Child) {
    signal(child, "-INT");
    let stderr = child.stderr.as_mut().expect("piped");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"stopping") {
        stderr.read_exact(&mut byte).expect("it says that it stops");
        said.extend(byte);
    }
}

/// Waits for a child: its exit code and its standard error.
pub fn end(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
    (child.wait().expect("a child").code(), stderr)
}

/// Waits for a program that a signal stopped, and returns what it said.
pub fn stopped(child: Child) -> String {
    let (code, stderr) = end(child);
    assert_eq!(code, Some(130), "{stderr}");
    stderr
}

pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_mins(5), "{what} does not appear");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a temporary file of the program lies in a folder.
pub fn has_temporary(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".ssmprobe-"))
}

/// `ssmprobe train` with a backbone of a Hub that this machine serves at `port`.
fn from_hub(sandbox: &Sandbox, port: u16) -> Command {
    let mut command = sandbox.verb("train", "cache");
    command
        .args(["--backbone", "org/name", "--heads", "gap", "--device", "cpu", "--data"])
        .arg(sandbox.data());
    command.arg("--out").arg(sandbox.path("run"));
    with_hub(&mut command, &sandbox.path("hub"), port);
    command
}

/// A server that accepts the connection and never answers.
#[test]
fn a_silent_server_does_not_outlive_a_signal() {
    let sandbox = Sandbox::new(2, 1);
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let mut child = start(&mut from_hub(&sandbox, port));
    let (connection, _) = server.accept().expect("a question");
    let begun = Instant::now();
    signal(&child, "-TERM");
    until("the end", || child.try_wait().expect("a child").is_some());
    let took = begun.elapsed();
    let stderr = stopped(child);
    assert!(took >= Duration::from_secs(2), "it had less than two seconds: {took:?}, {stderr}");
    assert_says(stderr, &["stopping; interrupt again to quit at once", "stopped midway"]);
    drop(connection);

    // A second signal ends it at once.
    let child = start(&mut from_hub(&sandbox, port));
    let (connection, _) = server.accept().expect("a question");
    signal_twice(&child);
    let (code, stderr) = end(child);
    assert!(code == Some(130) && !stderr.contains("stopped midway"), "{code:?}: {stderr}");
    drop(connection);
}

/// Standard error as behind `2>&1 | less`, where nobody scrolls on.
#[test]
fn a_pipe_that_nobody_reads_does_not_outlive_a_signal() {
    let sandbox = Sandbox::new(2, 1);
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (unread, mut full) = std::io::pipe().expect("a pipe");
    let stderr = full.try_clone().expect("a pipe");
    // Blocks once the pipe takes no more, and ends with its other end.
    let fill = move || while full.write(&[b'x'; 4096]).is_ok() {};
    let filling = std::thread::Builder::new().spawn(fill).expect("a thread");
    let mut command = from_hub(&sandbox, server.local_addr().expect("an address").port());
    let mut child = command.stdout(Stdio::null()).stderr(stderr).spawn().expect("it starts");
    let connection = server.accept().expect("a question");
    signal(&child, "-TERM");
    until("the end", || child.try_wait().expect("a child").is_some());
    assert_eq!(child.wait().expect("a child").code(), Some(130));
    drop((connection, unread));
    filling.join().expect("it ends");
}

/// Files that are incomplete when the program ends at once are deleted.
#[test]
fn no_temporary_file_is_left() {
    let sandbox = Sandbox::new(60, 1);
    let out = sandbox.path("out");
    let mut inspect = inspect(20_000);
    inspect.arg("--image").arg(sandbox.data()).arg("--probe").arg(fixture("probes"));
    inspect.arg("--out").arg(&out);
    let mut ended_at_once = || {
        let child = start(&mut inspect);
        until("the summary that is being written", || has_temporary(&out));
        signal_twice(&child);
        let stderr = stopped(child);
        assert!(!has_temporary(&out), "{stderr}");
        // Where others keep the processor busy it may end in order between the two signals.
        let in_order = stderr.contains("images explained");
        assert_eq!(in_order, out.join("summary.csv").exists(), "{stderr}");
        let _ = fs::remove_dir_all(&out);
        !in_order
    };
    assert!((0..50).any(|_| ended_at_once()), "it ended in order fifty times");

    // A verb that does not handle signals ends at the first.
    let mut scenes = program();
    let folder = sandbox.path("drawn");
    let child =
        start(scenes.args(["scenes", "--train", "100000", "--val", "12", "--out"]).arg(folder.join("set")));
    until("the first scene", || tree(&folder).keys().any(|name| name.ends_with(".png")));
    signal(&child, "-TERM");
    let (code, stderr) = end(child);
    assert!(code == Some(130) && !stderr.contains("stopp"), "{code:?}: {stderr}");
    assert!(tree(&folder).is_empty(), "some of the scenes are left");
}

#[test]
fn a_training_that_nohup_started_outlives_its_terminal() {
    let sandbox = Sandbox::new(36, 12);
    let train = sandbox.train("run", 100_000, &["--seeds", "1"]);
    let child = start(Command::new("nohup").arg(train.get_program()).args(train.get_args()));
    let epochs =
        || fs::read_to_string(sandbox.path("run/metrics.jsonl")).map_or(0, |text| text.lines().count());
    until("an epoch", || epochs() > 0);
    signal(&child, "-HUP");
    let before = epochs();
    until("later epochs", || epochs() > before + 10);
    signal(&child, "-TERM");
    stopped(child);
}

#[test]
fn a_training_whose_starter_is_gone_is_saved() {
    let sandbox = Sandbox::new(36, 12);
    let train = sandbox.train("run", 100_000, &["--seeds", "1"]);
    let mut program = Command::new(train.get_program());
    program.arg("--ends-with-input").args(train.get_args()).stdin(Stdio::piped());
    let mut child = start(&mut program);
    let input = child.stdin.take();
    until("a checkpoint", || sandbox.path("run/state/checkpoint.safetensors").exists());
    assert!(child.try_wait().expect("a child").is_none(), "its input has not ended");
    drop(input);
    stopped(child);
}

#[cfg(target_os = "linux")]
#[test]
fn a_training_that_is_ended_at_once_goes_on_to_the_same_bits() {
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = super::preload::library(&sandbox.path("")) else { return };
    crate::run::done(&mut sandbox.train("whole", 4, &["--seeds", "1"]));
    let cut = sandbox.train("cut", 4, &["--seeds", "1"]);
    let child = start(&mut super::preload::hold(&library, cut, "cut/state/checkpoint.safetensors"));
    until("a checkpoint", || sandbox.path("cut/state/checkpoint.safetensors").exists());
    signal_twice(&child);
    stopped(child);
    for folder in ["", "probes", "answers", "losses", "state"] {
        assert!(!has_temporary(&sandbox.path("cut").join(folder)), "{folder}");
    }
    super::run::assert_resumes_to_the_same(&sandbox);
}
