//! A training that the window submits to Slurm on the worker's machine, with a stand-in for `sbatch`: the tasks are shown
//! beforehand, watched, retried after one got lost, and end in a run like any other.

use std::fs;

use ssmprobe::app::jobs::history::disk::{RunSnapshot, read};
use ssmprobe::app::jobs::tasks::{TaskForm, TaskPhase, TrainPlace, TrainPlaceSettings};
use ssmprobe::app::state::command::Command;
use ssmprobe::app::state::{Phase, WatchedRun};

use super::{kill, read_pid, worker, write_script};
use crate::live_window::LiveWindow;
use crate::run::{Sandbox, done};
use crate::submit::write_slurm;

/// Runs all tasks at once, or only the first if there is a file `lose`.
const SBATCH: &str = r#"echo "$@" >> "$0.calls"
for script; do :; done
tasks=$(echo "$*" | sed -n 's/.*array=\([0-9-]*\).*/\1/p' | tr - ' ')
[ ! -e "$0.lose" ] || case "$script" in *train.sh) tasks=1;; *) tasks=;; esac
if [ "$tasks" ] || [ ! -e "$0.lose" ]; then
    for task in $(echo ${tasks:-1} | xargs -n1 | sort -un); do SLURM_ARRAY_TASK_ID=$task bash "$script" >&2; done
fi
wc -l < "$0.calls""#;

fn run(live: &LiveWindow) -> Option<&WatchedRun> {
    live.state().training.runs.values().next()
}

fn count(live: &LiveWindow, phase: TaskPhase) -> usize {
    run(live).and_then(|run| run.tasks.as_ref()).map_or(0, |tasks| tasks.count(phase))
}

#[test]
fn a_training_is_handed_to_slurm_from_the_window_and_what_got_lost_is_retried() {
    let sandbox = Sandbox::new(24, 12);
    let bin = sandbox.path("bin");
    write_slurm(&bin, SBATCH);
    let mut live = LiveWindow::new();
    let script = live.folder.path().join("with-slurm");
    let (bin_shown, real) = (bin.display(), env!("CARGO_BIN_EXE_ssmprobe"));
    write_script(&script, &format!("PATH='{bin_shown}':/usr/bin:/bin exec '{real}' \"$@\""));
    live.connect("local", &script);
    live.until("a connection", LiveWindow::stands);
    assert_eq!(live.state().train_places(), [TrainPlace::Detached]);
    let form = TaskForm { partition: "gpu".into(), ..TaskForm::default() };
    let place = TrainPlaceSettings { place: TrainPlace::Slurm, slurm: form };
    live.wants(Command::SetTrainPlace(Box::new(place)));
    live.plan_training(sandbox.settings(2));
    assert_eq!(live.state().train_place(), TrainPlace::Slurm);
    // Two seeds of two heads cannot be divided into three tasks.
    let mut uncut = live.state().settings.training.clone();
    uncut.slurm.tasks = "3".into();
    live.wants(Command::SetTrainPlace(Box::new(uncut.clone())));
    live.wants(Command::PlanTasks);
    live.until("a refusal", |s| match s.state().planned_tasks().0 {
        Some(Err(error)) => error.to_string().contains("cannot be split into 3 parts"),
        _ => false,
    });
    assert!(!live.state().can_start_training());
    uncut.slurm.tasks.clear();
    live.wants(Command::SetTrainPlace(Box::new(uncut)));
    live.wants(Command::PlanTasks);
    live.until("the tasks", |s| s.state().can_start_training());
    let Some(Ok(stages)) = live.state().planned_tasks().0 else { panic!("they are known") };
    let named: Vec<(&str, usize)> = stages.iter().map(|stage| (stage.name.as_str(), stage.tasks)).collect();
    assert_eq!(named, [("all-tokens", 1), ("train", 2), ("join", 1)]);
    assert!(stages[1].script.contains("#SBATCH --partition=gpu") && stages[1].script.contains("--array=1-2"));
    assert!(!sandbox.path("run").exists());

    // The second training task gets lost, and nothing is joined.
    fs::write(bin.join("sbatch.lose"), "").expect("a file");
    done(&mut sandbox.on_data("extract", "cache"));
    live.wants(Command::StartTraining);
    live.until("tasks that are submitted", |s| s.says("The tasks are submitted and write to"));
    fs::remove_file(bin.join("sbatch.lose")).expect("a file");
    live.until("a task that got lost", |s| count(s, TaskPhase::Failed) == 1);
    let shown = run(&live).expect("a run");
    assert_eq!(shown.history.about.seeds, [0]);
    assert!(shown.history.finished() && matches!(shown.phase, Phase::Open { .. }));
    assert_eq!(shown.history.about.folder, sandbox.path("run"));
    assert!(live.state().library.probes.is_empty() && !live.state().can_start_training());
    live.wants(Command::RetryTasks(sandbox.path("run")));
    live.until("tasks that are submitted again", |s| s.says("tasks resubmitted"));
    live.until("the run", |s| run(s).is_some_and(|run| run.phase == Phase::Done));
    let shown = run(&live).expect("a run");
    assert!(shown.tasks.as_ref().is_some_and(ssmprobe::app::jobs::tasks::Tasks::are_done));
    assert_eq!(shown.history.about.seeds, [0, 1]);
    live.until("its probes", |s| s.state().library.probes.len() == 8);
}

/// The first `sbatch` waits until the repeated request plans its tasks, which waits until the plan names those of the first.
#[test]
fn tasks_that_are_being_submitted_when_the_connection_is_lost_are_followed() {
    let sandbox = Sandbox::new(24, 12);
    let bin = sandbox.path("bin");
    write_slurm(
        &bin,
        "echo x >> \"$0.calls\"; while [ -e \"$0\" ] && [ ! -e \"$0.go\" ]; do sleep 0.1; done; wc -l < \"$0.calls\"",
    );
    let planning = r#"calls="${0%scontrol}sbatch.calls"
if [ -e "$calls" ]; then
    touch "${0%scontrol}sbatch.go"
    while [ $(wc -l < "$calls") -lt 2 ]; do sleep 0.1; done
fi"#;
    write_script(&bin.join("scontrol"), planning);
    let mut live = LiveWindow::new();
    let (script, pid) = worker(live.folder.path());
    let with_slurm = live.folder.path().join("with-slurm");
    let [path, script] = [&bin, &script].map(|path| path.display().to_string());
    write_script(&with_slurm, &format!("PATH='{path}':/usr/bin:/bin exec '{script}' \"$@\""));
    live.connect("local", &with_slurm);
    live.until("a connection", LiveWindow::stands);
    let place = TrainPlaceSettings { place: TrainPlace::Slurm, slurm: TaskForm::default() };
    live.wants(Command::SetTrainPlace(Box::new(place)));
    live.plan_training(sandbox.settings(2));
    live.wants(Command::PlanTasks);
    live.until("the tasks", |s| s.state().can_start_training());
    live.wants(Command::StartTraining);
    live.until("a submission", |_| bin.join("sbatch.calls").exists());
    kill(read_pid(&pid));
    live.until("the tasks again", |s| s.says("The tasks are submitted and write to"));
}

/// Parts that are not joined yet are read as one run.
#[test]
fn parts_are_read_as_one_run() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("whole", 2, &[]));
    let bin = sandbox.path("bin");
    write_slurm(&bin, "echo x >> \"$0.calls\"; wc -l < \"$0.calls\"");
    let mut submit = sandbox.train("run", 2, &["--submit", "slurm", "--tasks", "4"]);
    done(submit.env("PATH", format!("{}:/usr/bin:/bin", bin.display())));
    let none = read(&sandbox.path("run")).expect("a run without parts");
    assert_eq!(none, RunSnapshot::waiting(&sandbox.path("run")));
    // One part per head and seed, without the last.
    for part in ["2/4", "1/4", "3/4"] {
        done(&mut sandbox.train("run", 2, &["--part", part, "--resume"]));
    }
    let (parts, whole) =
        (read(&sandbox.path("run")).expect("parts"), read(&sandbox.path("whole")).expect("a run"));
    assert_eq!((&parts.about.heads, &parts.about.seeds), (&whole.about.heads, &whole.about.seeds));
    assert_eq!(parts.about.folder, sandbox.path("run"));
    assert!(parts.probes.is_empty() && !whole.probes.is_empty());
    let expected: Vec<_> =
        whole.epochs.iter().filter(|epoch| epoch.seed == 0 || epoch.head == "linear-bn").collect();
    assert_eq!(parts.epochs.len(), 6);
    assert!(expected.iter().all(|epoch| parts.epochs.contains(epoch)));
    for losses in &parts.losses {
        let of = whole.losses.iter().find(|of| of.seed == losses.seed).expect("losses of the seed");
        assert!(!losses.heads.is_empty() && losses.heads.iter().all(|head| of.heads.contains(head)));
    }
    // A damaged part counts as not begun.
    fs::write(sandbox.path("run/tasks/2/run.json"), "{").expect("a file");
    assert_eq!(read(&sandbox.path("run")).expect("parts").epochs.len(), 4);
}
