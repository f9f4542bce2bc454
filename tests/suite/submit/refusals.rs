//! What is submitted to Slurm and how refusals are reported, with stand-ins for its commands that record their arguments.

use std::os::unix::ffi::OsStrExt;

use super::{assert_same, jobs, states, write_script, write_slurm};
use crate::run::prelude::*;

/// An `sbatch` that accepts everything and numbers the jobs.
const TAKES: &str = r#"echo "$@" >> "$0.calls"; wc -l < "$0.calls""#;

/// Makes a command use the stand-ins in `folder`.
fn on(folder: &Path, mut command: Command) -> Command {
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command
}

/// Writes stand-ins for Slurm's commands, with `text` as `sbatch`; their folder.
fn slurm(sandbox: &Sandbox, text: &str) -> std::path::PathBuf {
    write_slurm(&sandbox.path("bin"), text);
    sandbox.path("bin")
}

/// The arguments of all calls of `sbatch`, without the folder of the scripts.
fn calls(folder: &Path, home: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("sbatch.calls")).expect("calls");
    text.lines().map(|line| line.replace(&format!("{}/", home.display()), "")).collect()
}

#[test]
fn what_sbatch_would_get_is_one_page_and_nothing_is_submitted() {
    let sandbox = Sandbox::new(24, 12);
    let mut train =
        sandbox.train("run", 3, &["--submit", "slurm", "--dry-run", "--tasks", "4", "--array-limit", "3"]);
    train.args("--partition gpu --account vision --time 2:00:00 --gpus 1 --cpus 8".split(' '));
    train.args(["--memory", "32G", "--slurm", "comment=two\nwords", "--slurm", "exclusive"]);
    let printed = done(&mut train);
    let (folder, root) = (sandbox.path(""), root());
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_ssmprobe")).expect("a program");
    let own = [
        (program.to_str().expect("text"), "PROGRAM"),
        (folder.to_str().expect("text"), "DESK/"),
        (root.to_str().expect("text"), "HERE"),
    ];
    let printed = own.iter().fold(printed, |text, (path, name)| text.replace(path, name));
    // Which words are quoted depends on where this runs; the tasks that run here need their quotes.
    let unquoted = |text: &str| text.replace(['\'', '"'], "");
    assert_eq!(unquoted(&printed), unquoted(include_str!("dry_run.txt")));
    assert!(!sandbox.path("run").exists());
}

#[test]
fn what_slurm_refuses_is_told_in_its_own_words() {
    let sandbox = Sandbox::new(24, 12);
    let submit = ["--submit", "slurm", "--partition", "nowhere"];
    // There is no `sbatch`.
    let mut train = sandbox.train("run", 1, &submit);
    assert_ends(train.env("PATH", sandbox.path("none")), 1, &["there is no `sbatch` on the PATH"]);

    let refuses = "echo 'sbatch: error: invalid partition specified: nowhere' >&2; exit 1";
    let bin = slurm(&sandbox, refuses);
    let refused =
        ["sbatch failed: sbatch: error: invalid partition specified: nowhere", "nothing was submitted"];
    assert_ends(&mut on(&bin, sandbox.train("run", 1, &submit)), 1, &refused);

    // The second call is refused: accepted tasks are known, and the rest is submitted later.
    write_script(
        &bin.join("sbatch"),
        &format!(
            "[ ! -e \"$0.calls\" ] || [ $(wc -l < \"$0.calls\") -lt 1 ] || {{ echo 'Job violates accounting/QOS policy' >&2; exit 1; }}; {TAKES}"
        ),
    );
    let words = [
        "1 of 4 tasks are submitted",
        "--retry` submits the others",
        "sbatch failed: Job violates accounting/QOS policy",
    ];
    assert_ends(&mut on(&bin, sandbox.train("run", 1, &submit)), 1, &words);
    assert_ends(&mut on(&bin, sandbox.train("run", 1, &submit)), 2, &["has tasks already"]);
    // What they join later would be refused beside another run.
    for mut train in [sandbox.train("run", 1, &[]), sandbox.resume("run", &[])] {
        assert_ends(&mut train, 2, &["run has tasks already; `ssmprobe jobs "]);
    }
    let mut report = program();
    assert_ends(report.arg("report").arg(sandbox.path("run")), 2, &["it has tasks: `ssmprobe jobs`"]);
}

#[test]
fn what_is_asked_of_slurm_prevails_over_what_a_user_has_set_for_sbatch() {
    let sandbox = Sandbox::new(24, 12);
    let bin = slurm(&sandbox, &format!("env | grep ^SBATCH_ > \"$0.env\"; {TAKES}"));
    let asked = ["--submit", "slurm", "--partition", "gpu", "--time", "30", "--memory", "1G"];
    let mut train = on(&bin, sandbox.train("run", 1, &asked));
    train.args(["--slurm", "gpus-per-node=2", "--slurm", "exclusive"]);
    let names = "PARTITION TIMELIMIT MEM_PER_NODE GPUS_PER_NODE EXCLUSIVE OUTPUT ERROR NO_REQUEUE ARRAY_INX CLUSTERS ACCOUNT";
    for name in names.split(' ') {
        train.env(format!("SBATCH_{name}"), "other");
    }
    done(&mut train);
    let left = fs::read_to_string(bin.join("sbatch.env")).expect("variables");
    assert_eq!(left, "SBATCH_ACCOUNT=other\n");
}

#[test]
fn tasks_that_cannot_be_recorded_are_cancelled() {
    let sandbox = Sandbox::new(24, 12);
    let plan = sandbox.path("run/tasks/plan.json");
    let in_the_way = format!("rm '{0}' && mkdir '{0}'; echo 7", plan.display());
    let bin = slurm(&sandbox, &in_the_way);
    write_script(&bin.join("scancel"), r#"echo "$@" >> "$0.calls""#);
    let words = ["plan.json", "it is a folder"];
    assert_ends(&mut on(&bin, sandbox.train("run", 1, &["--submit", "slurm"])), 1, &words);
    assert_eq!(fs::read_to_string(bin.join("scancel.calls")).expect("calls"), "7\n");
}

#[test]
fn more_tasks_than_an_array_may_have_are_several_arrays() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("whole", 1, &["--seeds", "5"]));
    let bin = slurm(&sandbox, TAKES);
    write_script(&bin.join("scontrol"), "echo 'MaxArraySize            = 3'");
    let more = ["--seeds", "5", "--submit", "slurm", "--array-limit", "2"];
    let pages = done(&mut on(&bin, sandbox.train("run", 1, &[&more[..], &["--dry-run"]].concat())));
    assert!(pages.contains("#SBATCH --array=1-2%2\n") && pages.contains("SSMPROBE_BEFORE"), "{pages}");
    done(&mut on(&bin, sandbox.train("run", 1, &more)));
    let (home, folder) = (sandbox.path("run/tasks"), sandbox.path("run"));
    let expected = [
        "--parsable --array=1-2%2 train.sh",
        "--parsable --array=1-2%2 --export=ALL,SSMPROBE_BEFORE=2 train.sh",
        "--parsable --array=1%2 --export=ALL,SSMPROBE_BEFORE=4 train.sh",
        "--parsable --dependency=afterok:1:2:3 --kill-on-invalid-dep=yes join.sh",
    ];
    assert_eq!(calls(&bin, &home), expected);
    // As called by Slurm: the second task of the second array is the fourth task, with that task's log.
    let task = |before: &str, index: &str| {
        let mut bash = on(&bin, Command::new("bash"));
        bash.arg(home.join("train.sh")).env("SLURM_ARRAY_JOB_ID", "2").env("SLURM_ARRAY_TASK_ID", index);
        run(bash.env("SSMPROBE_BEFORE", before))
    };
    let (code, ..) = task("2", "2");
    assert_eq!(code, 0);
    assert!(home.join("4/run.json").exists() && home.join("log/train-4.txt").exists());
    assert_eq!(fs::read_to_string(home.join("state/train-4")).expect("a code"), "0\n");
    for (before, index) in [("0", "1"), ("0", "2"), ("2", "1")] {
        assert_eq!(task(before, index).0, 0);
    }
    let how = states(&mut on(&bin, jobs(&folder, &["--json"])));
    assert_eq!(
        (how["train-4"].as_str(), how["train-5"].as_str(), how["join"].as_str()),
        ("done", "lost", "not-handed-in")
    );
    // The last one got lost: it and the join are submitted again.
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry"])), 0, &["submitted 2 tasks"]);
    let again = [
        "--parsable --array=1%2 --export=ALL,SSMPROBE_BEFORE=4 train.sh",
        "--parsable --dependency=afterok:5 --kill-on-invalid-dep=yes join.sh",
    ];
    assert_eq!(calls(&bin, &home)[4..], again);
    assert_eq!(task("4", "1").0, 0);
    assert_eq!(run(Command::new("bash").arg(home.join("join.sh"))).0, 0);
    assert_same(&folder, &sandbox.path("whole"));
    // Once all are done, Slurm is not asked any more.
    write_script(&bin.join("squeue"), "exit 1");
    assert!(states(&mut on(&bin, jobs(&folder, &["--json"]))).values().all(|state| state == "done"));
}

#[test]
fn one_process_at_a_time_submits_the_tasks_of_a_plan() {
    let sandbox = Sandbox::new(24, 12);
    let bin = slurm(&sandbox, TAKES);
    let (home, folder) = (sandbox.path("run/tasks"), sandbox.path("run"));
    let submit = || on(&bin, sandbox.train("run", 1, &["--submit", "slurm"]));
    let retry = || on(&bin, jobs(&folder, &["--retry"]));
    let hold = || {
        fs::create_dir_all(home.join("state")).expect("a folder");
        let file = fs::File::create(home.join("state/.submit")).expect("a file");
        file.lock().expect("a lock");
        file
    };
    let words = ["another process is submitting the tasks of"];
    let held = hold();
    assert_ends(&mut submit(), 2, &words);
    assert!(!bin.join("sbatch.calls").exists());
    held.unlock().expect("a lock"); // a child process may still have the file
    done(&mut submit());
    let held = hold();
    assert_ends(&mut retry(), 2, &words);
    held.unlock().expect("a lock");
    assert_ends(&mut retry(), 0, &["submitted 4 tasks"]);
    assert_eq!(calls(&bin, &home).len(), 6);
}

#[test]
fn tasks_whose_submission_was_killed_are_not_submitted_twice() {
    let sandbox = Sandbox::new(24, 12);
    let (home, folder) = (sandbox.path("run/tasks"), sandbox.path("run"));
    // It accepts some tasks, and the process that submits is killed before it hears of that.
    let bin = slurm(&sandbox, r#"echo "$@" >> "$0.calls"; kill -KILL $PPID"#);
    let submit = || {
        let mut command = on(&bin, sandbox.train("run", 1, &["--submit", "slurm"]));
        command.env("SQUEUE_STATES", "RUNNING"); // a filter of the user's own
        command
    };
    let queue_as = |state: &str, id: u32, script: &str| {
        let line = format!("{id}|1|{state}|9:00|Priority|{}", home.join(script).display());
        let line = format!("[ \"$SQUEUE_STATES\" ] || echo '{line}'");
        write_script(&bin.join("squeue"), &line);
    };
    let queue = |id: u32, script: &str| queue_as("PENDING", id, script);
    assert_eq!(submit().status().expect("the program runs").code(), None);
    write_script(&bin.join("sbatch"), TAKES);
    write_script(&bin.join("squeue"), "exit 1"); // which is no empty queue
    assert_ends(&mut submit(), 1, &["squeue", "repeat this where squeue answers"]);
    assert_ends(&mut on(&bin, jobs(&folder, &["--cancel"])), 1, &["squeue"]);
    queue(1, "all-tokens.sh");
    assert_ends(&mut submit(), 2, &["submission was interrupted", "`scancel 1`"]);
    assert_eq!(calls(&bin, &home).len(), 1);
    write_script(&bin.join("scancel"), r#"echo "$@" >> "$0.calls""#);
    done(&mut on(&bin, jobs(&folder, &["--cancel"])));
    assert_eq!(fs::read_to_string(bin.join("scancel.calls")).expect("calls"), "1\n");
    queue(1, "elsewhere/all-tokens.sh");
    done(&mut submit());
    let retry = || on(&bin, jobs(&folder, &["--retry"]));
    std::os::unix::fs::symlink(&home, sandbox.path("tasks")).expect("a link"); // another way to the same folder
    for (id, script, code, words) in [
        (9, "join.sh", 2, "`scancel 9`"),
        (8, "../../tasks/join.sh", 2, "`scancel 8`"),
        (2, "join.sh", 0, "submitted 4 tasks"),
    ] {
        queue(id, script);
        assert_ends(&mut retry(), code, &[words]);
    }
    // One that is ending takes nothing from the others.
    queue_as("COMPLETING", 9, "join.sh");
    assert_ends(&mut retry(), 0, &["submitted"]);
}

#[test]
fn tasks_beyond_the_submit_limit_are_submitted_as_there_is_room() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("whole", 1, &["--seeds", "4"]));
    // It accepts two tasks at most, runs them at once, and has room again after some calls of `squeue`.
    let bin = slurm(&sandbox, "");
    let takes = r#"[ ! -e "$0.full" ] || { echo 'Job violates accounting/QOS policy (job submit limit)' >&2; exit 1; }
case "$*" in *array=1-4*) echo 'QOSMaxSubmitJobPerUserLimit' >&2; exit 1;; esac
case "$*" in *array=3-4*) [ -e "$0.late" ] || { touch "$0.late"; echo 'Socket timed out' >&2; exit 1; };; esac
touch "$0.full"; echo "$@" >> "$0.calls"
for script; do :; done
tasks=$(echo "$*" | sed -n 's/.*array=\([0-9-]*\).*/\1/p' | tr - ' ')
for task in ${tasks:-1}; do SLURM_ARRAY_TASK_ID=$task bash "$script" >&2; done
wc -l < "$0.calls""#;
    write_script(&bin.join("sbatch"), takes);
    // The first call of `squeue` fails, and the next ones still find no room.
    let looks = r#"echo x >> "$0.looks"; looks=$(wc -l < "$0.looks")
[ $looks -gt 1 ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }
[ $looks -lt 4 ] || rm -f "${0%squeue}sbatch.full""#;
    write_script(&bin.join("squeue"), looks);
    let more = ["--seeds", "4", "--submit", "slurm", "--wait"];
    let (_, stderr) = succeeds(&mut on(&bin, sandbox.train("run", 1, &more)));
    assert!(
        stderr.contains("2 of 5 tasks are submitted") && stderr.contains("5 of 5 tasks done"),
        "{stderr}"
    );
    assert!(stderr.contains("Unable to contact slurm controller; retrying"), "{stderr}");
    assert!(stderr.contains("Socket timed out; retrying"), "{stderr}");
    let expected =
        ["--parsable --array=1-2 train.sh", "--parsable --array=3-4 train.sh", "--parsable join.sh"];
    assert_eq!(calls(&bin, &sandbox.path("run/tasks")), expected);
    assert_same(&sandbox.path("run"), &sandbox.path("whole"));
}

#[test]
fn tasks_beyond_the_submit_limit_are_retried_as_there_is_room() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("whole", 1, &[]));
    let bin = slurm(&sandbox, TAKES);
    done(&mut on(&bin, sandbox.train("run", 1, &["--submit", "slurm"])));
    let (folder, home) = (sandbox.path("run"), sandbox.path("run/tasks"));
    done(&mut sandbox.train("run", 1, &["--part", "1/2", "--resume"]));
    fs::write(home.join("state/train-1"), "0\n").expect("a code");
    // It refuses the first task, then runs each at once.
    let takes = r#"[ -e "$0.late" ] || { touch "$0.late"; echo 'QOSMaxSubmitJobPerUserLimit' >&2; exit 1; }
echo "$@" >> "$0.calls"
for script; do :; done
SLURM_ARRAY_TASK_ID=$(echo "$*" | sed -n 's/.*array=\([0-9]*\).*/\1/p') bash "$script" >&2
wc -l < "$0.calls""#;
    write_script(&bin.join("sbatch"), takes);
    let words = ["1 of 3 tasks are submitted", "QOSMaxSubmitJobPerUserLimit", "3 of 3 tasks done"];
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry", "--wait"])), 0, &words);
    let expected = [
        "--parsable --array=2 train.sh",
        "--parsable --dependency=afterok:3 --kill-on-invalid-dep=yes join.sh",
    ];
    assert_eq!(calls(&bin, &home)[2..], expected);
    assert_same(&folder, &sandbox.path("whole"));
}

#[test]
fn accounting_is_asked_once_and_what_was_ended_before_it_began_is_not_submitted() {
    let sandbox = Sandbox::new(24, 12);
    let bin = slurm(&sandbox, TAKES);
    let accounting = r#"echo "$@" >> "$0.calls"; echo '2_1|TIMEOUT'; echo '2_[3-4]|CANCELLED by 7'"#;
    write_script(&bin.join("sacct"), accounting);
    write_script(&bin.join("squeue"), r#"echo "$1" >> "$0.calls""#);
    done(&mut on(&bin, sandbox.train("run", 1, &["--seeds", "4", "--submit", "slurm"])));
    let (folder, home) = (sandbox.path("run"), sandbox.path("run/tasks"));
    for (file, text) in
        [("state/all-tokens", "0\n"), ("state/train-2", "0\n"), ("log/train-1.txt", "it began\n")]
    {
        fs::write(home.join(file), text).expect("a file");
    }
    let (code, list, stderr) = run(&mut on(&bin, jobs(&folder, &[])));
    assert!(code == 0 && list.contains("ended early (TIMEOUT)"), "{list}");
    assert!(list.contains("ended early (CANCELLED by 7)"), "{list}");
    assert!(stderr.contains("log/train-1.txt ends with:") && !stderr.contains("log/train-3.txt"), "{stderr}");
    // Of the user to whom the plan belongs, here this one.
    let user = std::os::unix::fs::MetadataExt::uid(&home.join("plan.json").metadata().expect("a plan"));
    let asked = fs::read_to_string(bin.join("squeue.calls")).expect("calls");
    assert_eq!(asked, format!("--user={user}\n"));
    let asked = fs::read_to_string(bin.join("sacct.calls")).expect("calls");
    assert_eq!(asked, "--noheader --allocations --parsable2 --format=JobID,State --jobs=2\n");
    done(&mut on(&bin, jobs(&folder, &["--cancel"])));
    let list = || states(&mut on(&bin, jobs(&folder, &["--json"])));
    let how = list();
    let trains = ["train-1", "train-2", "train-3", "train-4"].map(|name| how[name].as_str());
    assert_eq!(trains, ["lost", "done", "not-handed-in", "not-handed-in"]);
    // What one that is queued again printed was said before.
    write_script(&bin.join("squeue"), "echo '2|1|PENDING|9:00|BeginTime'");
    let (_, shown, _) = run(&mut on(&bin, jobs(&folder, &[])));
    assert!(shown.contains("waiting (BeginTime)\n") && !shown.contains("it began"), "{shown}");
    // One that is still ending is retried as well.
    write_script(&bin.join("squeue"), "echo '2|3|COMPLETING|9:00|None'");
    assert_eq!(list()["train-3"], "stopped");
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry"])), 0, &["submitted 4 tasks"]);
    assert_eq!(list()["train-3"], "lost");
}

#[test]
fn a_damaged_part_is_named_and_made_again() {
    let sandbox = Sandbox::new(24, 12);
    done(&mut sandbox.train("whole", 1, &[]));
    let bin = slurm(&sandbox, TAKES);
    done(&mut on(&bin, sandbox.train("run", 1, &["--submit", "slurm"])));
    let (folder, home) = (sandbox.path("run"), sandbox.path("run/tasks"));
    // Tasks are ordinary command lines.
    for part in ["1/2", "2/2"] {
        assert_ends(&mut jobs(&folder, &["--join"]), 1, &["--retry` redoes what is missing"]);
        done(&mut sandbox.train("run", 1, &["--part", part, "--resume"]));
    }
    let probe = home.join("2/probes/sinkhorn-s1-last.safetensors");
    let whole = fs::read(&probe).expect("a probe");
    fs::write(&probe, &whole[..whole.len() / 2]).expect("half of it");
    assert_ends(&mut jobs(&folder, &["--join"]), 1, &[&probe.display().to_string(), "--retry"]);
    assert!(!folder.join("run.json").exists() && home.join("1/run.json").exists());

    fs::write(home.join("state/train-1"), "0\n").expect("a code");
    // While its task runs, a part that cannot be read is left alone.
    write_script(&bin.join("squeue"), "echo '1|2|RUNNING|9:00|None'; echo '2|N/A|PENDING|9:00|Dependency'");
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry"])), 0, &["nothing to submit"]);
    assert!(probe.exists());
    write_script(&bin.join("squeue"), "echo '1|2|PENDING|9:00|launch failed requeued held'");
    assert_ends(&mut on(&bin, jobs(&folder, &[])), 0, &["1 held", "`scontrol release 1` lets them start"]);
    write_script(&bin.join("squeue"), "exit 0");
    fs::write(home.join("state/train-2"), "0\n").expect("a code");
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry"])), 0, &["submitted 2 tasks"]);
    assert_eq!(
        calls(&bin, &home)[2..],
        [
            "--parsable --array=2 train.sh",
            "--parsable --dependency=afterok:3 --kill-on-invalid-dep=yes join.sh"
        ]
    );
    assert!(home.join("2.damaged-1/run.json").exists() && !home.join("2").exists());
    done(&mut sandbox.train("run", 1, &["--part", "2/2", "--resume"]));
    // A part of another training is refused.
    let elsewhere = home.join("1");
    fs::rename(&elsewhere, home.join("own")).expect("renamed");
    done(&mut sandbox.train("run", 2, &["--part", "1/2", "--resume"]));
    assert_ends(&mut jobs(&folder, &["--join"]), 1, &["they differ in `protocol`"]);
    fs::remove_dir_all(&elsewhere).expect("removed");
    fs::rename(home.join("own"), &elsewhere).expect("renamed");
    // A join that was killed before its last file is repeated.
    for name in ["answers", "probes", "state"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    fs::copy(sandbox.path("whole/answers/truth.json"), folder.join("answers/truth.json")).expect("a copy");
    fs::copy(sandbox.path("whole/run.json"), folder.join("run.json")).expect("a copy");
    // Of the parts, one was trained elsewhere.
    let part = fs::read_to_string(home.join("2/run.json")).expect("a part");
    fs::write(home.join("2/run.json"), part.replace("\"device\": \"cpu\"", "\"device\": \"gpu\""))
        .expect("a part");
    assert_ends(&mut jobs(&folder, &["--join"]), 0, &["trained on different devices (cpu, gpu)"]);
    assert_same(&folder, &sandbox.path("whole"));
    // Joining again changes nothing.
    done(&mut jobs(&folder, &["--join"]));
    // What is left of a part whose removal was stopped is not trained again.
    fs::create_dir_all(home.join("1/state")).expect("a folder");
    for name in ["run.json", "state/checkpoint.safetensors"] {
        fs::copy(folder.join(name), home.join("1").join(name)).expect("a copy");
    }
    fs::write(home.join("state/train-2"), "0\n").expect("a code");
    assert_ends(&mut on(&bin, jobs(&folder, &["--retry"])), 0, &["submitted 1 task"]);
    assert_ends(&mut jobs(&sandbox.path("whole"), &[]), 2, &["has no tasks", "extract and eval"]);
    let evaluation = sandbox.path("whole/evaluation");
    fs::create_dir_all(evaluation.join("tasks")).expect("a folder");
    fs::write(evaluation.join("tasks/plan.json"), "{").expect("a file");
    let there = format!("those of its evaluation are in {}", evaluation.display());
    assert_ends(&mut jobs(&sandbox.path("whole"), &[]), 2, &[&there]);
}

#[test]
fn what_could_not_be_read_again_is_not_submitted() {
    let sandbox = Sandbox::new(24, 12);
    let bin = slurm(&sandbox, TAKES);
    let submit = |more: &[&str]| on(&bin, sandbox.train("run", 1, &[more, &["--submit", "slurm"]].concat()));
    let mut many = sandbox.on_data("train", "cache");
    many.args(["--heads", "gap", "--seeds", "1000000", "--submit", "slurm", "--out"])
        .arg(sandbox.path("run"));
    assert_ends(&mut on(&bin, many), 2, &["a plan has at most 1000000", "--tasks"]);
    let odd = sandbox.path("").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&odd).expect("a folder");
    assert_ends(submit(&[]).current_dir(&odd), 2, &["is not valid Unicode"]);
    for odd in ["a\\b", "a\nb"] {
        let mut train = on(&bin, sandbox.train(odd, 1, &["--submit", "slurm"]));
        assert_ends(&mut train, 2, &["Slurm takes a backslash"]);
        assert!(!sandbox.path("run").exists() && !sandbox.path(odd).exists());
    }
    done(&mut submit(&[]));
    // A plan of somebody else gives no options to Slurm's commands, and no array begins after its tasks.
    let text = fs::read_to_string(sandbox.path("run/tasks/plan.json")).expect("a plan");
    for (own, theirs, words) in [
        ("\"id\": \"1\"", "\"id\": \"--user=me\"", "`--user=me` is not the number of a job"),
        ("\"before\": 0", "\"before\": 2", "its stages and arrays do not match"),
    ] {
        fs::write(sandbox.path("run/tasks/plan.json"), text.replace(own, theirs)).expect("a plan");
        assert_ends(&mut on(&bin, jobs(&sandbox.path("run"), &["--cancel"])), 1, &[words]);
    }
    // An unreadable plan may be that of running tasks.
    fs::write(sandbox.path("run/tasks/plan.json"), "{").expect("damaged");
    assert_ends(&mut submit(&[]), 2, &["has tasks already", "plan.json"]);
    let plan = sandbox.path("run/tasks/plan.json");
    fs::remove_file(&plan).and_then(|()| std::os::unix::fs::symlink(&plan, &plan)).expect("a link to itself");
    assert_ends(&mut submit(&[]), 2, &["has tasks already", "plan.json"]);
    fs::remove_file(&plan).expect("removed");
    // The plan of a later version is one, whatever it holds.
    fs::write(sandbox.path("run/tasks/plan.json"), r#"{"format": 2}"#).expect("a plan");
    assert_ends(&mut on(&bin, jobs(&sandbox.path("run"), &[])), 1, &["`format` is 2; this program reads 1"]);
}
