//! The same on a real Slurm, which these tests start if run by `scripts/test-slurm`: four nodes on loopback, and a
//! partition whose jobs preempt others.

use super::{assert_same, jobs, process, states, sweep};
use crate::interrupts::{self, send};
use crate::preload::{hold, library, release};
use crate::run::prelude::*;

/// Epochs of a training that is disturbed after the first.
const EPOCHS: usize = 8;

/// A Slurm that is stopped on drop.
pub struct Slurm {
    folder: TempDir,
}

fn starter() -> Command {
    Command::new(root().join("scripts/slurm"))
}

impl Slurm {
    /// Starts one of four nodes; `None`, with a note, without `SSMPROBE_SLURM`.
    pub fn start() -> Option<Self> {
        if std::env::var_os("SSMPROBE_SLURM").is_none() {
            skip::because("scripts/test-slurm runs it");
            return None;
        }
        let folder = TempDir::new().expect("a folder");
        // Its daemons must not keep this process's output open.
        let mut start = starter();
        start
            .arg("start")
            .arg(folder.path())
            .arg("4")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let slurm = Self { folder };
        if !start.status().expect("a shell").success() {
            let logs = crate::faults::tree(&slurm.folder.path().join("log"));
            let logs: Vec<_> =
                logs.iter().map(|(name, text)| (name, String::from_utf8_lossy(text))).collect();
            panic!("no Slurm: {logs:#?}");
        }
        Some(slurm)
    }

    /// Makes a command use it.
    pub fn on(&self, mut command: Command) -> Command {
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"));
        command
    }

    /// Runs one of Slurm's commands; its standard output.
    pub fn call(&self, name: &str, words: &[&str]) -> String {
        let mut command = self.on(Command::new(name));
        command.args(words).stdin(Stdio::null());
        done(&mut command)
    }

    /// Kills a node (`lose`), disconnects it (`cut`) or restores it (`back`).
    pub fn node(&self, what: &str, node: &str) {
        let mut command = starter();
        command.arg(what).arg(self.folder.path()).arg(node);
        let how = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(how.expect("a shell").success(), "{what} {node}");
    }

    /// The running training tasks: number, Slurm's id, and node.
    pub fn running(&self) -> Vec<(usize, String, String)> {
        let stdout = self.call(
            "squeue",
            &["--noheader", "--array", "--states=RUNNING", "--name=ssmprobe-train", "--format=%K %F_%K %N"],
        );
        let task = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?.parse().ok()?, words.next()?, words.next()?))
        };
        stdout.lines().filter_map(task).collect()
    }

    /// Whether the first training task of a run went back to the queue, where it is not for long.
    fn has_requeued(&self, folder: &Path) -> bool {
        let plan = fs::read_to_string(folder.join("tasks/plan.json")).expect("a plan");
        let stdout = self.call(
            "squeue",
            &[
                "--noheader",
                "--array",
                "--states=all",
                "--name=ssmprobe-train",
                "--Format=ArrayJobID,ArrayTaskID,RestartCnt",
            ],
        );
        stdout.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [id, "1", restarts] = words[..] else { return false };
            restarts != "0" && plan.contains(&format!("\"id\": \"{id}\""))
        })
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = starter().arg("stop").arg(self.folder.path()).status();
    }
}

/// Waits for a condition that asks Slurm, and not as often as [`interrupts::until`].
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    interrupts::until(what, || {
        std::thread::sleep(Duration::from_millis(100));
        so()
    });
}

/// The process of a run's first training task.
fn trains(folder: &Path) -> Option<u32> {
    process(["--part=1/2", folder.to_str().expect("text")])
}

/// Submits a training of two tasks, and suspends the process of the first at its first checkpoint, so that it cannot end before what
/// the test does to it.
fn suspended(slurm: &Slurm, library: &Path, sandbox: &Sandbox, out: &str) -> u32 {
    let submit = sandbox.train(out, EPOCHS, &["--submit", "slurm", "--cpus", "1"]);
    let checkpoint = format!("{out}/tasks/1/state/checkpoint.safetensors");
    done(&mut slurm.on(hold(library, submit, &checkpoint)));
    until("the first checkpoint", || sandbox.path(&checkpoint).exists());
    let process = trains(&sandbox.path(out)).expect("it trains");
    send("-STOP", process);
    release(library);
    process
}

#[test]
fn a_sweep_on_four_nodes_ends_with_the_bytes_of_an_undivided_one() {
    let Some(slurm) = Slurm::start() else { return };
    let sandbox = Sandbox::new(36, 12);
    let points = ["--grid", "state_dim=2,8", "--seeds", "3"];
    let in_tasks = ["--submit", "slurm", "--tasks", "6", "--cpus", "1", "--wait"];
    let (_, stderr) = succeeds(&mut slurm.on(sweep(&sandbox, "parts", &[&points[..], &in_tasks].concat())));
    assert!(stderr.contains("submitted: all-tokens, then 6 x train, then join"), "{stderr}");
    assert!(stderr.contains("8 of 8 tasks done"), "{stderr}");
    done(&mut sweep(&sandbox, "whole", &points));
    assert_same(&sandbox.path("parts"), &sandbox.path("whole"));

    // An unknown partition is refused.
    let train = sandbox.train("other", 1, &["--submit", "slurm", "--partition", "nowhere"]);
    assert_ends(&mut slurm.on(train), 1, &["sbatch failed", "invalid partition"]);

    // A failed task is named, its dependants do not start, and it alone is retried.
    let folder = sandbox.path("failing");
    fs::create_dir_all(folder.join("tasks/2")).expect("a folder");
    fs::write(folder.join("tasks/2/run.json"), "no run").expect("a file");
    let submit = ["--submit", "slurm", "--cpus", "1", "--wait"];
    let mut failing = slurm.on(sandbox.train("failing", 2, &submit));
    assert_ends(&mut failing, 1, &["train-2 failed with exit code 1", "run.json"]);
    let how = states(&mut slurm.on(jobs(&folder, &["--json"])));
    assert_eq!((how["train-1"].as_str(), how["join"].as_str()), ("done", "not-handed-in"));
    assert_ends(&mut slurm.on(jobs(&folder, &["--retry", "--wait"])), 0, &["submitted 2 tasks"]);
    done(&mut sandbox.train("plain", 2, &[]));
    assert_same(&folder, &sandbox.path("plain"));
}

#[test]
fn tasks_that_are_sent_away_out_of_time_or_ended_go_on_to_the_same_bytes() {
    let Some(slurm) = Slurm::start() else { return };
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let folder = sandbox.path("parts");
    let process = suspended(&slurm, &library, &sandbox, "parts");
    // The signal that Slurm sends before the time limit.
    let (_, id, _) = slurm.running().into_iter().find(|(task, ..)| *task == 1).expect("it runs");
    slurm.call("scancel", &["--batch", "--signal=USR1", &id]);
    until("a task out of time", || {
        // It saves as soon as it continues, and is gone then.
        let _ = Command::new("kill").args(["-CONT", &process.to_string()]).stderr(Stdio::null()).status();
        slurm.has_requeued(&folder)
    });
    let code = fs::read_to_string(folder.join("tasks/state/train-1")).unwrap_or_default();
    assert!(["", "0\n"].contains(&code.as_str()), "it was not over: {code}");

    // Another task is preempted by an urgent job.
    let other = sandbox.path("sent-away");
    suspended(&slurm, &library, &sandbox, "sent-away"); // Slurm itself continues what it ends
    let urgent = ["--partition=urgent", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap=sleep 1"];
    slurm.call("sbatch", &urgent);
    until("a task that is sent away", || slurm.has_requeued(&other));

    // A third is cancelled, and resumes on request.
    let ended = sandbox.path("ended");
    suspended(&slurm, &library, &sandbox, "ended");
    done(&mut slurm.on(jobs(&ended, &["--cancel"])));
    let list = || states(&mut slurm.on(jobs(&ended, &["--json"])));
    until("the end of all tasks", || list().values().all(|state| state != "running" && state != "waiting"));
    done(&mut slurm.on(jobs(&ended, &["--retry"])));

    done(&mut sandbox.train("whole", EPOCHS, &[]));
    for folder in [&ended, &folder, &other] {
        done(&mut slurm.on(jobs(folder, &["--wait"])));
        assert_same(folder, &sandbox.path("whole"));
    }
}

#[test]
fn the_tasks_of_a_lost_node_go_on_elsewhere_and_wait_for_one_that_is_only_out_of_sight() {
    let Some(slurm) = Slurm::start() else { return };
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    done(&mut sandbox.train("whole", EPOCHS, &[]));
    for what in ["lose", "cut"] {
        let folder = sandbox.path(what);
        let before = suspended(&slurm, &library, &sandbox, what);
        let (_, _, node) = slurm.running().into_iter().find(|(task, ..)| *task == 1).expect("it runs");
        slurm.node(what, &node);
        let log = folder.join("tasks/log/train-1.txt");
        match what {
            "lose" => until("the end of the process", || trains(&folder) != Some(before)),
            _ => {
                let waits =
                    || fs::read_to_string(&log).is_ok_and(|log| log.contains("this task waits for it"));
                until("a task that waits", waits);
                send("-CONT", before);
            }
        }
        assert_ends(&mut slurm.on(jobs(&folder, &["--wait"])), 0, &["3 of 3 tasks done"]);
        assert_same(&folder, &sandbox.path("whole"));
        slurm.node("back", &node);
        let idle =
            || slurm.call("sinfo", &["--noheader", "--partition=main", "--format=%T"]).trim() == "idle";
        until("the node", idle);
    }
}
