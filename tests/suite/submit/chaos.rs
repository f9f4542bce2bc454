//! A sweep on a real Slurm with repeated failures, drawn from a seed: whatever is lost, the joined run equals an
//! undisturbed one.

use std::fmt::Write;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cluster::Slurm;
use super::{assert_same, jobs, process, states};
use crate::run::prelude::*;

/// The kinds of failures.
const LOSSES: [&str; 7] = [
    "sent away by an urgent job",
    "requeued",
    "out of time",
    "killed with its script",
    "killed",
    "the node died",
    "the node got out of sight",
];
/// Number of tasks of a sweep.
const TASKS: usize = 12;
/// Time between two failures, in milliseconds.
const PAUSE: std::ops::Range<u64> = 1_000..5_000;
/// Longer than all sweeps take, with all their failures.
const TIMEOUT: Duration = Duration::from_mins(40);

/// A number from an environment variable, or `usual`.
fn env_number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Causes a failure of this kind in a running task; a description, or `None` if the task had ended.
fn cause_failure(
    slurm: &Slurm,
    folder: &Path,
    kind: usize,
    rng: &mut ChaCha8Rng,
    lost_nodes: &mut Vec<String>,
) -> Option<String> {
    let running = slurm.running();
    if running.is_empty() {
        return None;
    }
    let (task, id, node) = &running[rng.random_range(0..running.len())];
    let part = format!("--part={task}/{TASKS}");
    match kind {
        0 => {
            let place = format!("--nodelist={node}");
            let urgent =
                ["--partition=urgent", "--exclusive", &place, "--output=/dev/null", "--wrap=sleep 1"];
            drop(slurm.call("sbatch", &urgent));
        }
        1 => try_call(slurm, "scontrol", &["requeue", id])?,
        2 => try_call(slurm, "scancel", &["--batch", "--signal=USR1", id])?,
        3 => try_call(slurm, "scancel", &["--full", "--signal=KILL", id])?,
        4 => {
            let pid = process([&part, folder.to_str().expect("text")])?.to_string();
            Command::new("kill").args(["-KILL", &pid]).status().ok()?.success().then_some(())?;
        }
        _ if lost_nodes.contains(node) => return None,
        _ => {
            slurm.node(if kind == 5 { "lose" } else { "cut" }, node);
            lost_nodes.push(node.clone());
        }
    }
    Some(format!("train-{task} on {node}: {}", LOSSES[kind]))
}

/// Runs a command that may fail, as its task may have ended.
fn try_call(slurm: &Slurm, name: &str, words: &[&str]) -> Option<()> {
    slurm.on(Command::new(name)).args(words).output().expect("it runs").status.success().then_some(())
}

#[test]
fn a_sweep_with_many_faults_ends_with_the_bytes_of_an_undivided_one() {
    let Some(slurm) = Slurm::start() else { return };
    let (seed, wanted) = (env_number("SSMPROBE_CHAOS", 1), env_number("SSMPROBE_LOSSES", 5) as usize);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sandbox = Sandbox::new(48, 12);
    // Three axes: eight points, and no other head.
    let points = ["--grid", "temperature=0.1,1.0", "iterations=1,5", "state_dim=2,8", "--seeds", "3"];
    // Every kind equally often, in a seeded order.
    let mut kinds: Vec<usize> = (0..wanted).map(|at| at % LOSSES.len()).collect();
    kinds.shuffle(&mut rng);
    let epochs = (40 * wanted).to_string();
    let one = |out: &str, more: &[&str]| {
        let mut command = sandbox.on_data("sweep", "cache");
        command.args(points).args(["--batch", "16", "--epochs", &epochs, "--out"]);
        command.arg(sandbox.path(out)).args(more);
        command
    };
    let begun = Instant::now();
    done(&mut one("whole", &[]));
    let alone = begun.elapsed().as_secs_f64();
    let (mut report, mut sweeps) = (String::new(), 0);
    let (begun, mut retries) = (Instant::now(), 0);
    // As many sweeps as it takes: on a fast machine one ends before all failures have happened.
    while !kinds.is_empty() {
        sweeps += 1;
        let folder = sandbox.path(&format!("sweep-{sweeps}"));
        let tasks = TASKS.to_string();
        let submit = ["--submit", "slurm", "--tasks", &tasks, "--cpus", "1", "--array-limit", "4"];
        done(&mut slurm.on(one(&format!("sweep-{sweeps}"), &submit)));
        let (mut next, mut lost_nodes) = (Instant::now(), Vec::<String>::new());
        loop {
            assert!(begun.elapsed() < TIMEOUT, "{report}");
            std::thread::sleep(Duration::from_millis(500));
            let now = states(&mut slurm.on(jobs(&folder, &["--json"])));
            if now.values().all(|state| state == "done") {
                break;
            }
            if now.values().any(|state| matches!(state.as_str(), "failed" | "stopped" | "lost")) {
                retries += 1;
                done(&mut slurm.on(jobs(&folder, &["--retry"])));
            }
            if !kinds.is_empty() && Instant::now() >= next {
                // A lost node is back at the next failure.
                lost_nodes.drain(..).for_each(|node| slurm.node("back", &node));
                if let Some(what) = cause_failure(&slurm, &folder, kinds[0], &mut rng, &mut lost_nodes) {
                    kinds.remove(0);
                    let (number, at) = (wanted - kinds.len(), begun.elapsed().as_secs_f64());
                    writeln!(report, "{number:>3} at {at:>6.1} s: {what}").expect("a line");
                }
                next = Instant::now() + Duration::from_millis(rng.random_range(PAUSE));
            } else if kinds.is_empty() {
                lost_nodes.drain(..).for_each(|node| slurm.node("back", &node));
            }
        }
        lost_nodes.drain(..).for_each(|node| slurm.node("back", &node));
        assert_same(&folder, &sandbox.path("whole"));
    }
    let took = begun.elapsed().as_secs_f64();
    print!("seed {seed}\n{report}");
    println!(
        "{sweeps} sweeps of 3 seeds x 8 points, {retries} times `jobs --retry`: {took:.0} s in {TASKS} tasks, {alone:.0} s alone"
    );
    println!("every file but tasks/ is that of the run in a piece, byte for byte but for times");
}
