//! Verbs whose work is done elsewhere (`--on`): the same bytes as locally, by a child process and through a real sshd;
//! error messages when the other end is not a proper worker; and no worker outlives its client.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::process::{Child, Output};

use ssmprobe::app::jobs::{Event, ImageId, Request};
use ssmprobe::app::remote::frame;
use ssmprobe::app::remote::hello::Hello;
use ssmprobe::model::data::ImageSource;

use crate::interrupts::{end, has_temporary, send, signal, start, stopped, until};
use crate::run;
use crate::run::prelude::*;
use crate::submit::write_script;

mod errors;
mod sshd;
mod tasks;
mod train;
mod window;

/// `ssmprobe inspect` on the fixture's images, into a folder.
fn inspect(out: &Path, more: &[&str]) -> Command {
    let mut command = run::inspect(16);
    command.args(["--seed", "3", "--batch", "2", "--image"]).arg(fixture("images"));
    command.arg("--out").arg(out).args(more);
    command
}

/// `ssmprobe inspect` of a few probes with every kind of output.
fn everything(out: &Path) -> Command {
    let mut command =
        inspect(out, &["--save-tokens", "--save-traces", "--save-gif", "--stability", "--json"]);
    command.args(["--causal", "frozen,pixels", "--steps", "2", "--attributions", "gradient,rollout"]);
    command.args(["--reading", "as-trained", "random-order=5", "--layer", "1", "--probe"]);
    command.args(
        ["gap", "sinkhorn", "vmamba"].map(|name| fixture("probes").join(format!("{name}.safetensors"))),
    );
    command
}

/// Standard output and files of a command that writes into `out`, which is then removed.
fn outcome(command: &mut Command, out: &Path) -> (String, BTreeMap<String, Vec<u8>>) {
    let stdout = done(command);
    let files = tree(out);
    fs::remove_dir_all(out).expect("a folder of results");
    (stdout, files)
}

/// Asserts that a command gives the same bytes elsewhere.
fn same_elsewhere(command: &dyn Fn() -> Command, elsewhere: &dyn Fn(&mut Command), out: &Path) {
    let (said, here) = outcome(&mut command(), out);
    let mut there = command();
    elsewhere(&mut there);
    let (said_there, there) = outcome(&mut there, out);
    assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
    for (name, bytes) in &there {
        assert!(*bytes == here[name], "{name} has other bytes");
    }
    assert_eq!(said_there, said);
}

fn on_local(command: &mut Command) {
    command.args(["--on", "local"]);
}

#[test]
fn what_a_child_process_explains_has_the_same_bytes() {
    let sandbox = TempDir::new().expect("a folder");
    let out = sandbox.path().join("out");
    let (stdout, files) = outcome(&mut everything(&out), &out);
    // At least one file of each kind, so that none is missing from both.
    for ending in [".npz", ".trace.json", ".gif", ".stability.json", ".causal.json", "summary.csv"] {
        assert!(files.iter().any(|(name, _)| name.ends_with(ending)), "{ending}");
    }
    assert!(stdout.lines().count() > 12 && files.iter().any(|(_, bytes)| bytes.len() > 20_000));
    same_elsewhere(&|| everything(&out), &on_local, &out);
}

#[test]
fn what_is_refused_elsewhere_is_refused_alike() {
    let sandbox = TempDir::new().expect("a folder");
    let out = sandbox.path().join("out");
    let probe = fixture("probes/gap.safetensors").display().to_string();
    for (more, code, words) in [
        (
            ["--probe", "nowhere.safetensors"].as_slice(),
            2,
            "--probe nowhere.safetensors: no such file or folder",
        ),
        (&["--probe", &probe, "--layer", "9"], 2, "has layers 1 to 2"),
        (&["--probe", &probe, "--class", "unicorn"], 2, "unicorn"),
        (&["--probe", &fixture("images/one.png").display().to_string()], 1, "one.png"),
    ] {
        let (here, there) = (run(&mut inspect(&out, more)), run(inspect(&out, more).args(["--on", "local"])));
        assert!(here.0 == code && here.2.contains(words), "{here:?}");
        assert!(there.0 == code && there.2.contains(words) && there.2.contains("on the worker"), "{there:?}");
        assert!(!out.exists());
    }
}

/// Evaluations of a run, with all of their files.
#[test]
fn what_a_child_process_evaluates_has_the_same_bytes() {
    let sandbox = Sandbox::new(12, 6);
    done(&mut sandbox.train("run", 1, &[]));
    let (run, out) = (sandbox.path("run"), sandbox.path("evaluations"));
    let of_run = || {
        let mut eval = sandbox.eval("run", &["--ablations", "--anchors", "--json", "--evaluation"]);
        eval.arg(&out);
        eval
    };
    let kept = run.join("evaluation.json");
    same_elsewhere(&of_run, &on_local, &out);
    let there = fs::read(&kept).expect("what is kept in the run");
    fs::remove_file(&kept).expect("a file");
    let (stdout, files) = outcome(&mut of_run(), &out);
    assert!(fs::read(&kept).expect("what is kept in the run") == there);
    assert!(files.len() >= 4 && stdout.contains("\"anchor\"") && stdout.contains("\"survey\""), "{stdout}");
    // Without --json, of probe files, and with a broken image.
    let broken = sandbox.data().join("val");
    fs::write(entries(&broken)[0].join("broken.png"), "no picture").expect("a file");
    let probes = tree(&run.join("probes"));
    let (name, _) = probes.iter().find(|(name, _)| name.starts_with("sinkhorn")).expect("a probe");
    let of_files = || {
        let mut eval = sandbox.on_data("eval", "cache");
        eval.args(["--causal", "frozen", "--reading", "random-order", "--evaluation"]).arg(&out);
        eval.arg("--probe").arg(run.join("probes").join(name));
        eval
    };
    same_elsewhere(&of_files, &on_local, &out);
    fs::remove_dir_all(sandbox.path("cache")).expect("a cache");
    let (_, _, stderr) = run::run(of_files().args(["--on", "local"]));
    assert!(stderr.contains("left out") && stderr.contains("broken.png"), "{stderr}");
}

/// Tokens are cached where they are extracted, and equal those extracted locally.
#[test]
fn what_a_child_process_extracts_has_the_same_bytes() {
    let sandbox = Sandbox::new(6, 3);
    let class = &entries(&sandbox.data().join("train"))[0];
    fs::write(class.join("broken.png"), "no picture").expect("a file");
    let extract = |cache: &str, more: &[&str]| {
        let (stdout, stderr) = succeeds(sandbox.on_data("extract", cache).arg("--json").args(more));
        (serde_json::from_str::<serde_json::Value>(&stdout).expect("one document"), stderr)
    };
    let (plan, _) = extract("there", &["--plan", "--on", "local"]);
    assert_eq!((&plan["images"], &plan["done"]), (&10.into(), &0.into()), "{plan}");
    let [(here, said_here), (there, said_there)] =
        [extract("here", &[]), extract("there", &["--on", "local"])];
    for document in [&here, &there] {
        assert_eq!((&document["done"], &document["unreadable"]), (&10.into(), &1.into()), "{document}");
    }
    for stderr in [said_here, said_there] {
        assert!(stderr.contains("tokens of 9 of 10 images in ") && stderr.contains("left out: "), "{stderr}");
    }
    let (_, said) = extract("here", &[]);
    assert!(
        said.contains("left out: 1 image that could not be read when"),
        "it is cached that there is none: {said}"
    );
    let tokens = |cache: &str| {
        let shards = tree(&sandbox.path(cache)).into_iter();
        shards.filter(|(name, _)| name.ends_with(".safetensors")).collect::<Vec<_>>()
    };
    assert!(!tokens("here").is_empty() && tokens("here") == tokens("there"));
}

/// The child processes of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let lists: Vec<String> = lists.collect();
    lists.iter().flat_map(|list| list.split_whitespace()).map(|pid| pid.parse().expect("a number")).collect()
}

fn kill(pid: u32) {
    send("-KILL", pid);
}

/// A script that writes its process id to a file and then becomes the program, with its cache in `folder`; script and file.
fn worker(folder: &Path) -> (PathBuf, PathBuf) {
    let (script, pid) = (folder.join("worker"), folder.join("pid"));
    let real = env!("CARGO_BIN_EXE_ssmprobe");
    write_script(
        &script,
        &format!(
            "export XDG_CACHE_HOME='{1}'; echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec '{real}' \"$@\"",
            pid.display(),
            folder.display()
        ),
    );
    (script, pid)
}

/// The process id in a file.
fn read_pid(pid: &Path) -> u32 {
    fs::read_to_string(pid).expect("a number").trim().parse().expect("a number")
}

/// Whether a process exists and has not ended; a zombie has.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// [`start_job`] on a worker in a child process; the client, the worker's process id, and the folder of the results.
fn start_local_job(sandbox: &Sandbox) -> (Child, u32, PathBuf) {
    let (script, pid) = worker(&sandbox.path(""));
    let out = sandbox.path("out");
    let on = ["--on", "local", "--remote-program", script.to_str().expect("text")];
    let (client, server) = start_job(sandbox, &on, &out, &pid, None);
    (client, server, out)
}

/// Starts a job elsewhere that takes minutes, and waits until it writes; the client, and the worker's process id.
fn start_job(sandbox: &Sandbox, more: &[&str], out: &Path, pid: &Path, path: Option<&str>) -> (Child, u32) {
    let mut command = run::inspect(16);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(["--batch", "1", "--stability", "--save-gif", "--causal", "frozen,rerouted,pixels"]);
    command.args(["--steps", "30", "--image"]).arg(sandbox.data()).arg("--probe").arg(fixture("probes"));
    let child = start(command.args(more).arg("--out").arg(out));
    until("the summary that is being written", || has_temporary(out));
    (child, read_pid(pid))
}

#[test]
fn a_worker_ends_with_who_asked_it() {
    let sandbox = Sandbox::new(60, 1);
    let (client, server, _) = start_local_job(&sandbox);
    assert!(is_alive(server));
    signal(&client, "-KILL");
    assert_eq!(end(client).0, None);
    until("the end of the worker", || !is_alive(server));
}

#[test]
fn a_worker_that_is_killed_is_told_of() {
    let sandbox = Sandbox::new(60, 1);
    let (client, server, out) = start_local_job(&sandbox);
    kill(server);
    let (code, stderr) = end(client);
    assert!(code == Some(1) && stderr.contains("its program was killed (signal: 9"), "{code:?} {stderr}");
    assert!(stderr.contains("the worker on this machine") && stderr.contains("the same command"), "{stderr}");
    assert!(!has_temporary(&out) && !out.join("summary.csv").exists());
}

#[test]
fn ctrl_c_stops_the_work_elsewhere_and_keeps_what_was_done() {
    let sandbox = Sandbox::new(60, 1);
    let (client, server, out) = start_local_job(&sandbox);
    until("a first result", || tree(&out).keys().any(|name| name.ends_with(".npz")));
    signal(&client, "-INT");
    let stderr = stopped(client);
    let table = fs::read_to_string(out.join("summary.csv")).expect("the summary");
    let own = |name: &&String| name.ends_with(".npz") && !name.ends_with(".causal.npz");
    let results = tree(&out).keys().filter(own).count();
    assert!(results > 0 && table.lines().count() == results + 1, "{results} results\n{table}");
    let images = results / tree(&fixture("probes")).len();
    assert!(stderr.contains(&format!("{images} of 61 images explained, {results} results")), "{stderr}");
    until("the end of the worker", || !is_alive(server));
}

/// Over a slow line many events wait: a newer list of thumbnails calls off those of an older one all the same.
#[test]
fn what_is_cancelled_is_not_sent_to_its_end() {
    const ALL: u64 = 400;
    let mut command = program();
    command.args(["serve", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let (mut to, mut from) = (child.stdin.take().expect("a pipe"), child.stdout.take().map(BufReader::new));
    let from = from.as_mut().expect("a pipe");
    Hello::read(from).expect("a greeting");
    Hello::asking(false).write(&mut to).expect("a greeting");
    let place = ImageSource::from(fixture("images/one.png"));
    let mut ask = |images: std::ops::RangeInclusive<u64>| {
        let wanted = images.map(|id| (ImageId(id), place.clone())).collect();
        frame::write(&mut to, &Request::Thumbnails { wanted, side: 112 }, false).expect("a request");
        to.flush().expect("a request");
    };
    ask(1..=ALL);
    let mut received = 0;
    loop {
        std::thread::sleep(Duration::from_millis(10));
        match frame::read(from).expect("an event").expect("an event") {
            Event::ThumbnailReady { image: ImageId(0), .. } => break,
            Event::ThumbnailReady { .. } => received += 1,
            _ => continue,
        }
        if received == 1 {
            ask(0..=0);
        }
    }
    assert!(received < ALL / 2, "{received} of {ALL}");
    drop(to);
    assert!(child.wait().expect("an end").success());
}

/// Output printed in a worker does not get into the pipe of its messages.
#[test]
fn standard_output_of_a_worker_is_for_messages_alone() {
    let mut command = program();
    command.args(["serve", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let place = |number: u8| fs::read_link(format!("/proc/{}/fd/{number}", child.id())).ok();
    until("the greeting", || place(1).is_some() && place(1) == place(2));
    drop(child.stdin.take());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(
        stdout.starts_with(b"ssmprobe") && stderr.contains("no client has connected"),
        "{status} {stderr}"
    );
}
