//! Tasks and runs on a file system without file locks.

use super::{assert_same, jobs, process};
use crate::interrupts::{end, send, signal, start, stopped, until};
use crate::preload::{hold, library, load, release};
use crate::run::prelude::*;

#[test]
fn tasks_run_here_where_there_are_no_locks() {
    let sandbox = Sandbox::new(36, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let on = |mut command: Command| {
        load(&mut command, &library).env("NO_LOCKS", "1");
        command
    };
    let folder = sandbox.path("parts");
    let owner_file = folder.join("tasks/state/.lock.owner.json");
    let submit = sandbox.train("parts", 4, &["--submit", "local", "--tasks", "2", "--array-limit", "2"]);
    done(&mut hold(&library, on(submit), "tasks/2/state/checkpoint.safetensors"));
    assert!(owner_file.exists(), "whoever runs the tasks says so");
    assert_ends(&mut on(jobs(&folder, &["--work"])), 2, &["another process is running the tasks"]);
    until("a checkpoint", || folder.join("tasks/2/state/checkpoint.safetensors").exists());
    // Killed, it leaves its owner file, which no longer counts; tasks that replace its own wait for these to end.
    let words = ["--work", folder.to_str().expect("text")];
    send("-KILL", process(words).expect("it works"));
    until("the end of the process", || process(words).is_none());
    assert!(owner_file.exists());
    release(&library);
    done(&mut on(jobs(&folder, &["--retry", "--wait"])));
    assert!(!owner_file.exists(), "it is given back");
    done(&mut sandbox.train("whole", 4, &[]));
    assert_same(&folder, &sandbox.path("whole"));
}

#[test]
fn two_machines_that_share_a_folder_without_locks_leave_a_run_to_one() {
    let sandbox = Sandbox::new(24, 12);
    let Some(library) = library(&sandbox.path("")) else { return };
    let train = |host: &str| {
        fs::write(sandbox.path(host), format!("{host}\n")).expect("a file");
        let mut command = sandbox.train("run", 100_000, &["--resume"]);
        load(&mut command, &library).env("NO_LOCKS", "1").env("HOST_FILE", sandbox.path(host));
        command
    };
    let epochs =
        || fs::read_to_string(sandbox.path("run/metrics.jsonl")).map_or(0, |text| text.lines().count());
    let first = start(&mut train("north"));
    until("an epoch", || epochs() > 0);
    let owner = fs::read_to_string(sandbox.path("run/state/owner.json")).expect("its owner");
    assert!(owner.contains("\"host\":\"north\""), "{owner}");
    // Its owner file is watched for a heartbeat, which takes at most 15 s.
    assert_ends(
        &mut train("south"),
        1,
        &["north was the last machine to train in", "by another training process on north"],
    );
    // After a kill, the same machine resumes at once.
    signal(&first, "-KILL");
    assert_eq!(end(first).0, None);
    let before = epochs();
    let again = start(&mut train("north"));
    until("another epoch", || epochs() > before);
    signal(&again, "-TERM");
    stopped(again);
    assert!(!sandbox.path("run/state/owner.json").exists());
}
