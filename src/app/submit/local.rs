//! Tasks as processes on this machine, started by a background process, so that they outlive the submitting process.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::plan::{Plan, Task};
use super::status::{RUNNING, State, states};
use crate::app::child_process::{ask_to_stop, own_group, stops_with_this_process};
use crate::app::format::watching;
use crate::app::jobs::extract::Retries;
use crate::app::jobs::user_error::refuse;
use crate::app::terminal::interrupt;
use crate::app::terminal::stdout::say;
use crate::model::io::file_lock::{ExclusiveLock, LockError};
use crate::model::io::{atomic_file, is_of_file};

/// Time between two looks at processes and locks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A lock that is held for longer belongs to another process that runs the tasks.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long the background process may take to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The exit code of a task that could not be started, as of a shell that finds no program.
const NOT_STARTED: i32 = 127;
/// The exit code of a task that a signal ended, as of a shell for SIGKILL.
const KILLED: i32 = 137;

/// Starts the background process that runs the tasks of `plan`, and returns once it holds the lock, or has done them all.
pub fn start(plan: &Plan) -> anyhow::Result<()> {
    let log = plan.home().join("log/local.txt");
    let mut command = Command::new(&plan.program);
    command.arg("jobs").arg(&plan.folder).arg("--work").current_dir(&plan.directory);
    command.stdin(Stdio::null()).stdout(open_log(&log)?).stderr(open_log(&log)?);
    own_group(&mut command);
    let mut child =
        command.spawn().with_context(|| format!("{} cannot be started", plan.program.display()))?;
    let begun = Instant::now();
    // A lock that cannot be looked at is looked at again.
    while !is_running(plan).unwrap_or(false) {
        if let Some(status) = child.try_wait().context("the process that runs the tasks cannot be checked")? {
            if status.success() {
                break; // it has done them all
            }
            let said = atomic_file::text(&log, 1 << 20).unwrap_or_default();
            bail!("the process that runs the tasks exited immediately: {}", last_message(&said));
        }
        if begun.elapsed() > START_TIMEOUT {
            bail!("the process that runs the tasks does not start; see {}", log.display());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// The last message of a log, with the lines that say why, which are indented.
fn last_message(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    match lines.iter().rposition(|line| !line.starts_with(' ')) {
        Some(first) => lines[first..].join("\n"),
        None => "no output".to_owned(),
    }
}

/// Whether a background process runs the tasks. One of another machine counts until this process has seen no heartbeat for minutes.
///
/// # Errors
/// If that cannot be found out, as while a network disk does not answer.
pub fn is_running(plan: &Plan) -> Result<bool, LockError> {
    ExclusiveLock::is_held(&lock(plan))
}

/// Whether a background process runs the tasks, for certain: one of another machine is watched for a heartbeat, which may take
/// minutes, and what a dead one left is removed.
pub fn confirm_running(plan: &Plan) -> Result<bool, LockError> {
    tell_of_other_machine(plan);
    ExclusiveLock::take(&lock(plan)).map(|held| held.is_none())
}

/// Says why what follows may take minutes, if another machine has run the tasks.
fn tell_of_other_machine(plan: &Plan) {
    if let Some(host) = ExclusiveLock::other_machine(&lock(plan)) {
        say!("{}", watching(&host, &format!("run the tasks of {}", plan.folder.display())));
    }
}

/// The background process: runs every unfinished task by stages, `array_limit` at a time; returns whether all are done.
///
/// # Errors
/// If another process runs them, or the disk refuses.
pub fn work(plan: &Plan) -> anyhow::Result<bool> {
    interrupt::listen();
    let begun = Instant::now();
    // A process that calls `is_running` holds the lock for a moment.
    let held = loop {
        match ExclusiveLock::take(&lock(plan))? {
            Some(held) => break held,
            None if begun.elapsed() < TIMEOUT => std::thread::sleep(POLL_INTERVAL),
            None => {
                let folder = plan.folder.display();
                refuse!("another process is running the tasks of {folder}");
            }
        }
    };
    plan.forget_cancelled();
    let states = states(plan)?;
    let limit = plan.slurm.array_limit.unwrap_or(1) as usize;
    let mut failed: Vec<usize> = Vec::new();
    for stage in 0..plan.stages.len() {
        if failed.iter().any(|earlier| plan.waits(stage, *earlier)) {
            continue;
        }
        let unfinished = states.iter().filter(|(task, state)| task.stage == stage && *state != State::Done);
        let waiting: VecDeque<Task> = unfinished.map(|(task, _)| *task).collect();
        waiting.iter().for_each(|task| drop(std::fs::remove_file(plan.state(*task))));
        if !run(plan, waiting, limit, &held)? {
            failed.push(stage);
        }
    }
    Ok(failed.is_empty())
}

/// Cancels the tasks, and waits until the background process has ended. What they did is kept.
pub fn cancel(plan: &Plan) -> anyhow::Result<()> {
    tell_of_other_machine(plan);
    loop {
        // A background process that has just started removes a mark, as left by an earlier one.
        if !plan.is_cancelled() {
            plan.mark_cancelled()?;
        }
        if !is_running(plan)? || interrupt::flow().is_break() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Running tasks. Dropping them, as on an error, asks them to save and stop, and waits for that.
struct Running(Vec<(Task, Child)>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, child)| stop(child));
        self.0.iter_mut().for_each(|(_, child)| drop(child.wait()));
    }
}

/// Runs the tasks of a stage, at most `limit` at a time; returns whether all of them succeeded.
fn run(plan: &Plan, mut waiting: VecDeque<Task>, limit: usize, held: &ExclusiveLock) -> anyhow::Result<bool> {
    let mut tasks = Running(Vec::new());
    let running = &mut tasks.0;
    let (mut all_succeeded, mut stop_sent) = (true, false);
    loop {
        // If another machine has taken the lock over because this one seemed dead, the tasks here save and end.
        let lost = held.owner.beat().is_err();
        let stopping = lost || interrupt::flow().is_break() || plan.is_cancelled();
        if stopping {
            all_succeeded &= waiting.is_empty();
            waiting.clear();
            if !stop_sent {
                running.iter_mut().for_each(|(_, child)| stop(child));
                stop_sent = true;
            }
        }
        while running.len() < limit
            && let Some(task) = waiting.pop_front()
        {
            write_state(plan, task, RUNNING)?;
            match spawn(plan, task) {
                Ok(child) => running.push((task, child)),
                Err(error) => {
                    write_state(plan, task, &format!("{NOT_STARTED}\n"))?;
                    return Err(error);
                }
            }
        }
        let mut index = 0;
        while index < running.len() {
            let (task, child) = &mut running[index];
            match child.try_wait().context("a task cannot be checked")? {
                Some(status) => {
                    let code = status.code().unwrap_or(KILLED); // a process that a signal ended has none
                    write_state(plan, *task, &format!("{code}\n"))?;
                    all_succeeded &= status.success();
                    running.remove(index);
                }
                None => index += 1,
            }
        }
        if running.is_empty() && waiting.is_empty() {
            return Ok(all_succeeded);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Writes the state of a task. A disk that does not take it is waited for, as an error stops the tasks that run.
fn write_state(plan: &Plan, task: Task, content: &str) -> anyhow::Result<()> {
    let (path, mut retries) = (plan.state(task), Retries::default());
    let mut waits = || interrupt::flow().is_continue() && retries.pause();
    loop {
        match atomic_file::write(&path, content.as_bytes()) {
            Err(why) if !is_of_file(why.kind()) && waits() => {}
            written => return written.with_context(|| format!("{}: cannot be written", path.display())),
        }
    }
}

fn spawn(plan: &Plan, task: Task) -> anyhow::Result<Child> {
    let (log, program) = (plan.log(task), &plan.program);
    let mut command = Command::new(program);
    command.args(plan.words(task)).current_dir(&plan.directory).stdin(Stdio::null());
    command.stdout(open_log(&log)?).stderr(open_log(&log)?);
    own_group(&mut command); // a signal from the terminal reaches the task once, through this process
    stops_with_this_process(&mut command);
    command.spawn().with_context(|| format!("{} cannot be started", program.display()))
}

/// Asks a task to save and stop; kills it on systems without that signal.
fn stop(child: &mut Child) {
    let is_asked = cfg!(unix) && ask_to_stop(child.id()).is_ok_and(|status| status.success());
    if !is_asked {
        let _ = child.kill(); // fails if it has ended
    }
}

fn open_log(path: &Path) -> anyhow::Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.with_context(|| format!("{}: cannot be written", path.display()))
}

/// The lock that the background process holds.
fn lock(plan: &Plan) -> PathBuf {
    plan.home().join("state/.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_state_of_a_task_is_written_once_its_disk_takes_it() {
        use crate::app::paths::make_folder;
        use crate::app::submit::flags::{SlurmFlags, SubmitTarget};
        use crate::app::submit::plan::Stage;
        let folder = tempfile::tempdir().unwrap();
        let stages = vec![Stage::single("train", Vec::new())];
        let plan = Plan::new(folder.path(), SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        let task = Task { stage: 0, index: 0 };
        let [states, disk, link] = ["state", "disk", "link"].map(|name| plan.home().join(name));
        make_folder(&disk).unwrap();
        std::os::unix::fs::symlink(&states, &states).unwrap(); // a link to itself cannot be followed
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                std::fs::rename(&link, &states).unwrap();
            });
            write_state(&plan, task, "0\n").unwrap();
        });
        assert_eq!(std::fs::read_to_string(plan.state(task)).unwrap(), "0\n");
    }

    #[test]
    fn the_message_of_a_process_that_ended_names_the_file() {
        let error = "error: tasks/state/.lock: cannot be locked\n  because: Input/output error";
        for before in ["", "a task has begun\n"] {
            assert_eq!(last_message(&format!("{before}{error}\n")), error);
        }
        assert_eq!((last_message("").as_str(), last_message("one\ntwo").as_str()), ("no output", "two"));
    }
}
