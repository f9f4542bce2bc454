//! The same tasks as processes on this machine: one process of its own starts them, so that they go on when who handed
//! them in has gone.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::plan::{Plan, Task};
use super::status::{RUNNING, State, states};
use crate::app::terminal::interrupt;
use crate::app::user_error::Usage;
use crate::model::io::atomic_file;
use crate::model::io::file_lock::ExclusiveLock;

/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A lock that is held for longer is another process's.
const PATIENCE: Duration = Duration::from_secs(3);
/// Within this time the process that starts the others is at work.
const START: Duration = Duration::from_mins(1);

/// Starts the process that runs what is to be run of `plan`.
///
/// # Errors
/// If it cannot be started, or one is at work already.
pub fn start(plan: &Plan) -> anyhow::Result<()> {
    let log = plan.home().join("log/local.txt");
    let mut command = Command::new(&plan.program);
    command.arg("jobs").arg(&plan.folder).arg("--work").current_dir(&plan.directory);
    command.stdin(Stdio::null()).stdout(appended(&log)?).stderr(appended(&log)?);
    // What ends the terminal's programs does not reach it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child =
        command.spawn().with_context(|| format!("{} cannot be started", plan.program.display()))?;
    let begun = Instant::now();
    while !is_running(plan) {
        if let Some(status) = child.try_wait().context("the process that runs the tasks is not seen")? {
            if status.success() {
                break; // it has done them all
            }
            let said = atomic_file::text(&log, 1 << 20).unwrap_or_default();
            bail!(
                "the process that runs the tasks ended at once: {}",
                said.lines().last().unwrap_or("it said nothing")
            );
        }
        if begun.elapsed() > START {
            bail!("the process that runs the tasks does not begin; {} says more", log.display());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a process runs the tasks.
pub fn is_running(plan: &Plan) -> bool {
    ExclusiveLock::is_held(&lock(plan)).unwrap_or(false)
}

/// Runs every task that is not done, stage by stage, at most so many at a time as the plan says; whether all are done.
///
/// # Errors
/// If another process does so, or the disk refuses.
pub fn work(plan: &Plan) -> anyhow::Result<bool> {
    interrupt::listen();
    let path = lock(plan);
    let begun = Instant::now();
    // Who looks whether somebody works holds it for a moment.
    let right = loop {
        match ExclusiveLock::ask(&path).with_context(|| path.display().to_string())? {
            Some(right) => break right,
            None if begun.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            None => {
                let folder = plan.folder.display();
                return Err(Usage(format!("another process runs the tasks of {folder}")).into());
            }
        }
    };
    plan.forget_cancelled();
    let states = states(plan)?;
    let most = plan.slurm.array_limit.unwrap_or(1) as usize;
    let mut failed: Vec<usize> = Vec::new();
    for stage in 0..plan.stages.len() {
        if failed.iter().any(|earlier| plan.waits(stage, *earlier)) {
            continue;
        }
        let open = states.iter().filter(|(task, state)| task.stage == stage && *state != State::Done);
        let waiting: VecDeque<Task> = open.map(|(task, _)| *task).collect();
        waiting.iter().for_each(|task| drop(std::fs::remove_file(plan.state(*task))));
        if !run(plan, waiting, most, &right)? {
            failed.push(stage);
        }
    }
    Ok(failed.is_empty())
}

/// Ends the tasks: what they did is kept.
///
/// # Errors
/// If the disk refuses.
pub fn cancel(plan: &Plan) -> anyhow::Result<()> {
    loop {
        // Who has just begun may have taken it for one of before.
        if !plan.is_cancelled() {
            plan.mark_cancelled()?;
        }
        if !is_running(plan) || interrupt::flow().is_break() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Tasks at work. Where something keeps this process from looking after them, they save and stop.
struct Running(Vec<(Task, Child)>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|(_, child)| stop(child));
        self.0.iter_mut().for_each(|(_, child)| drop(child.wait()));
    }
}

/// Runs the tasks of a stage; whether all of them are done.
fn run(plan: &Plan, mut waiting: VecDeque<Task>, most: usize, right: &ExclusiveLock) -> anyhow::Result<bool> {
    let mut tasks = Running(Vec::new());
    let running = &mut tasks.0;
    let (mut all, mut told) = (true, false);
    loop {
        // Another machine has taken over from one that showed no life: what runs here saves and ends.
        let lost = right.beat().is_err();
        let stopping = lost || interrupt::flow().is_break() || plan.is_cancelled();
        if stopping {
            all &= waiting.is_empty();
            waiting.clear();
            if !told {
                running.iter_mut().for_each(|(_, child)| stop(child));
                told = true;
            }
        }
        while running.len() < most
            && let Some(task) = waiting.pop_front()
        {
            atomic_file::write(&plan.state(task), RUNNING.as_bytes())?;
            match spawn(plan, task) {
                Ok(child) => running.push((task, child)),
                Err(error) => {
                    atomic_file::write(&plan.state(task), b"127\n")?;
                    return Err(error);
                }
            }
        }
        let mut index = 0;
        while index < running.len() {
            let (task, child) = &mut running[index];
            match child.try_wait().context("a task is not seen")? {
                Some(status) => {
                    // One that a signal ended has no code of its own.
                    match status.code() {
                        Some(code) => atomic_file::write(&plan.state(*task), format!("{code}\n").as_bytes())?,
                        None => atomic_file::write(&plan.state(*task), b"137\n")?,
                    }
                    all &= status.success();
                    running.remove(index);
                }
                None => index += 1,
            }
        }
        if running.is_empty() && waiting.is_empty() {
            return Ok(all);
        }
        std::thread::sleep(LOOK);
    }
}

fn spawn(plan: &Plan, task: Task) -> anyhow::Result<Child> {
    let (log, program) = (plan.log(task), &plan.program);
    let mut command = Command::new(program);
    command.args(plan.words(task)).current_dir(&plan.directory).stdin(Stdio::null());
    command.stdout(appended(&log)?).stderr(appended(&log)?);
    // What ends this process from a terminal asks the task once, through this one.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    stops_with_this_process(&mut command);
    command.spawn().with_context(|| format!("{} cannot be started", program.display()))
}

/// Where this process is killed, whoever ends the tasks would not find them any more: they save and stop.
#[cfg(target_os = "linux")]
fn stops_with_this_process(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let asked = || {
        // SAFETY: it changes this process alone, and takes a number.
        #[expect(unsafe_code, reason = "a call of C that asks for a signal")]
        let refused = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) };
        if refused < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: what is done between fork and exec takes no lock and no memory.
    #[expect(unsafe_code, reason = "what a child does before it becomes the program")]
    unsafe {
        command.pre_exec(asked);
    }
}

#[cfg(not(target_os = "linux"))]
fn stops_with_this_process(_: &mut Command) {}

/// Asks a task to save and stop.
fn stop(child: &mut Child) {
    #[cfg(unix)]
    let asked = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    #[cfg(unix)]
    let asked = asked.is_ok_and(|status| status.success());
    #[cfg(not(unix))]
    let asked = false;
    if !asked {
        let _ = child.kill(); // it has ended
    }
}

fn appended(path: &Path) -> anyhow::Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.with_context(|| format!("{}: cannot be written", path.display()))
}

fn lock(plan: &Plan) -> PathBuf {
    plan.home().join("state/.lock")
}
