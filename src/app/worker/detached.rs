//! A training as a process of its own: started here and followed through its files. It continues if this worker ends.
//!
//! The process inherits the lock on `train.lock` as its standard input, so the lock is held exactly as long as it runs,
//! whoever started it. For other machines, and where there are no locks, a file beside it names the owner, and the process keeps
//! it fresh.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::event_sender::JobEvents;
use super::follower::{Follower, is_running};
use super::growing_log::MAX_READ;
use super::tasks::{absolute, refusal};
use crate::app::child_process::{ask_to_stop, own_session};
use crate::app::format::watching;
use crate::app::jobs::detached::{LAST_OUTPUT, LOGS, OWNER_FILE, SWEEP, Started, lock};
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::jobs::{Cancel, Reporter, TrainCommand};
use crate::app::paths::{make_folder, program};
use crate::app::submit::status::end_of;
use crate::model::io::atomic_file;
use crate::model::io::file_lock::{ExclusiveLock, LockError, owner_file};
use crate::model::io::process::host_name;
use crate::model::io::temporary;
use crate::model::train::run::RunLock;

/// Time between two looks at its files: each locks one and opens two, perhaps on a network file system.
const PERIOD: Duration = Duration::from_secs(1);
/// Largest file that describes the process, in bytes.
const FILE_LIMIT: u64 = 1 << 20;
/// How long the status of a process that has given its lock back is waited for: on a busy machine it takes a while to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Last lines of its log that an error quotes.
const MAX_LINES: usize = 12;
/// The exit code of a verb that refuses its command line.
const REFUSED: i32 = 2;
/// How the message of a failed verb begins.
const ERROR_PREFIX: &str = "error: ";

/// Receives how a process that was started here ends.
type Exit = Receiver<io::Result<ExitStatus>>;

/// Starts a training, unless it runs, and follows it. Its cancellation stops the training, which saves; `closing` only the following.
///
/// # Errors
/// If it cannot be started, another one runs in its folder, or it ends before it has finished.
pub(super) fn run(request: &TrainCommand, events: &mut JobEvents, closing: &Cancel) -> anyhow::Result<()> {
    if cfg!(windows) {
        // On Windows a lock belongs to the process that took it, and ends with it.
        refuse!("a detached training needs Linux or macOS; train without --on here");
    }
    let out = absolute(&request.out)?;
    make_folder(&out)?;
    if let Some(host) = ExclusiveLock::other_machine(&lock(&out)).or_else(|| RunLock::other_machine(&out)) {
        events.warn(watching(&host, &format!("train in {}", out.display())));
    }
    let held = take_lock(&out)?;
    if held.is_some() && (events.cancel().is_cancelled() || closing.is_cancelled()) {
        return Ok(()); // while it was watched
    }
    let exit = start(&out, request, held)?;
    let started = read_started(&out)
        .with_context(|| format!("{} does not name the training's process", Started::path(&out).display()))?;
    let (pid, began) = (started.pid, exit.is_some());
    let host = Some(started.host.clone()).filter(|host| !host.is_empty() && *host != host_name());
    events.training(TrainEvent::Detached { folder: out.clone(), pid, began, host });
    let (mut follower, mut stopped) = (Follower::new(&out), false);
    while !follower.poll(events)? {
        // A worker that shuts down sets `closing` before it cancels every job: that must not stop the training.
        if events.cancel().is_cancelled() && !closing.is_cancelled() && !stopped {
            // As of now: whoever had just started it may have been about to replace what an earlier training left.
            stop(&out, read_started(&out).as_ref().unwrap_or(&started))?;
            stopped = true;
        }
        if closing.is_cancelled() {
            return Ok(());
        }
        sleep(PERIOD);
    }
    let Follower { logs, last, .. } = follower;
    let log = end_of(&logs[0].path, MAX_READ);
    let failed = ends_with_error(&log);
    let finished =
        !failed && last.as_ref().is_some_and(|snapshot| TrainHistory::of_snapshot(snapshot).finished());
    if !failed && (finished || stopped) {
        let failures = last.map(|snapshot| snapshot.failures.clone()).unwrap_or_default();
        events.training(TrainEvent::Ended { finished, failures });
        return Ok(());
    }
    Err(failure(&out, &log, exit.and_then(|exit| exit.recv_timeout(EXIT_TIMEOUT).ok()?.ok())))
}

/// Starts the training with the lock `held`, unless it runs or the same request started it before; how it ends is received.
fn start(out: &Path, request: &TrainCommand, held: Option<ExclusiveLock>) -> anyhow::Result<Option<Exit>> {
    match held {
        // The earlier request started it, and it has ended meanwhile.
        Some(_) if request.again && read_started(out).is_some_and(|known| known.words == request.words) => {
            Ok(None)
        }
        Some(held) => spawn(out, &request.words, held).map(Some),
        None if request.again || request.words.iter().any(|word| word == "--resume") => Ok(None),
        None => bail!(
            "{}: a training is already running in it; use `--resume` to follow it, or choose another folder",
            out.display()
        ),
    }
}

/// The error of a training that ended before it had finished, with the end of its log; `status` is known if it was started here.
fn failure(out: &Path, log: &str, status: Option<ExitStatus>) -> anyhow::Error {
    if status.and_then(|status| status.code()) == Some(REFUSED) {
        return Usage(refusal(log, "exit code 2")).into();
    }
    let lines: Vec<&str> = log.lines().collect();
    let lines = lines[lines.len().saturating_sub(MAX_LINES)..].join("\n  ");
    let killed = |status| {
        format!("was killed ({status}); SIGKILL usually means that memory ran out: free some, and resume it")
    };
    let how = match status.filter(|status| status.code().is_none()) {
        Some(status) => killed(status),
        None if ends_with_error(log) => "ended early".to_owned(),
        // It was started by another worker, or is stopped from elsewhere.
        None => "ended early; if it was stopped or killed, resume it".to_owned(),
    };
    anyhow!("{LAST_OUTPUT}\n  {lines}").context(format!("the training in {} {how}", out.display()))
}

/// Whether the log's last message is an error of a verb, whose causes are indented: libraries print errors of their own before.
fn ends_with_error(log: &str) -> bool {
    let last = log.lines().rfind(|line| !line.is_empty() && !line.starts_with(' '));
    last.is_some_and(|line| line.starts_with(ERROR_PREFIX))
}

/// Takes the lock to train there; `None` while a training runs. A machine that died has left the run's own lock, too: that is watched
/// at the same time, not afterwards by the training.
fn take_lock(out: &Path) -> Result<Option<ExclusiveLock>, LockError> {
    std::thread::scope(|scope| {
        if RunLock::other_machine(out).is_some() {
            let watching = Builder::new().name("run lock".into());
            // If it cannot be started, or the run is in use, the training says so.
            let _ = watching.spawn_scoped(scope, || drop(RunLock::take(out)));
        }
        ExclusiveLock::take(&lock(out))
    })
}

/// The process that runs, or ran, the training there.
fn read_started(out: &Path) -> Option<Started> {
    serde_json::from_slice(&atomic_file::read(&Started::path(out), FILE_LIMIT).ok()?).ok()
}

/// Starts the training in a session of its own, which signals to this process do not reach; how it ends is received.
fn spawn(out: &Path, words: &[String], held: ExclusiveLock) -> anyhow::Result<Exit> {
    let mut command = Command::new(program()?);
    // The words of `train` are all flags; those of a sweep begin with the verb.
    let verb = if words.first().is_some_and(|word| word == SWEEP) { None } else { Some("train") };
    command.args(verb).args(words).arg("--out").arg(out);
    let log = |name: &str| {
        let path = out.join(name);
        let file = File::options().write(true).create(true).truncate(true).open(&path);
        file.with_context(|| format!("{}: cannot be written", path.display()))
    };
    let [stderr, stdout] = LOGS;
    let ExclusiveLock { owner, file } = held;
    command.stdin(file.map_or_else(Stdio::null, Stdio::from)).arg(OWNER_FILE).arg(owner_file(&lock(out)));
    command.stderr(log(stderr)?).stdout(log(stdout)?);
    own_session(&mut command);
    let mut child = command.spawn().context("cannot start the training")?;
    let known = Started { pid: child.id(), host: host_name(), words: words.to_owned() };
    let path = Started::path(out);
    let written = owner.hand_to(child.id()).and_then(|handed| {
        let bytes = serde_json::to_vec(&known).map_err(io::Error::other)?;
        temporary::write_again(&path, &bytes)?;
        Ok(handed)
    });
    let handed = match written {
        Ok(handed) => handed,
        Err(error) => {
            let _ = child.kill().and_then(|()| child.wait()); // nobody would know of it
            return Err(error).with_context(|| format!("{}: cannot be written", path.display()));
        }
    };
    // Waits for it, so that it leaves no zombie process, and no owner file where it was refused before it took that over.
    let (sender, exit) = sync_channel(1);
    let wait = move || {
        let ended = child.wait();
        drop(handed);
        sender.send(ended)
    };
    Builder::new().name("training".into()).spawn(wait).context("cannot start a thread that waits for it")?;
    Ok(exit)
}

/// Asks the process that trains in `out` to save and end (SIGTERM); one that has just ended by itself needs no signal.
///
/// # Errors
/// If it runs on another machine, or cannot be signalled.
fn stop(out: &Path, Started { pid, host, .. }: &Started) -> anyhow::Result<()> {
    if !host.is_empty() && *host != host_name() {
        bail!("the training runs on {host}, not on this machine: `kill -TERM {pid}` there stops it");
    }
    let sent = ask_to_stop(*pid).with_context(|| format!("process {pid} cannot be stopped"))?;
    if !sent.success() && is_running(out).unwrap_or(true) {
        bail!("process {pid} cannot be stopped ({sent})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_request_started_is_not_begun_again_and_another_training_is() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let known = Started { pid: 1, host: host_name(), words: vec!["--epochs=1".to_owned()] };
        temporary::write_again(&Started::path(out), &serde_json::to_vec(&known).unwrap()).unwrap();
        // Nothing can be started where a folder takes the place of its log.
        make_folder(&out.join(LOGS[0])).unwrap();
        let ask = |words: Vec<String>| {
            let request = TrainCommand { words, out: out.to_owned(), again: true };
            start(out, &request, take_lock(out).unwrap())
        };
        assert!(ask(known.words.clone()).unwrap().is_none());
        let error = ask(vec!["--epochs=2".to_owned()]).map(drop).unwrap_err().to_string();
        assert!(error.ends_with("cannot be written"), "{error}");
    }

    #[test]
    fn the_last_message_says_whether_a_training_failed() {
        // What libwayland prints where there is no desktop.
        let library = "error: XDG_RUNTIME_DIR is invalid or not set in the environment.\n";
        assert!(!ends_with_error(&format!("{library}epoch 9 of 9\nthe run is in out\n")));
        let own = "error: out: the run has other settings\n  because: heads differ\n";
        assert!(ends_with_error(own) && ends_with_error(&format!("{library}epoch 3 of 9\n{own}")));
        assert!(!ends_with_error(""));
        let said = |log: &str| failure(Path::new("run"), log, None).to_string();
        assert!(said(own).ends_with("run ended early") && said("epoch 3 of 9\n").ends_with("resume it"));
    }

    #[test]
    fn a_process_of_another_machine_is_not_stopped() {
        // A number that no process here has.
        let on = |host: &str| Started { pid: u32::MAX >> 1, host: host.to_owned(), words: Vec::new() };
        let folder = tempfile::tempdir().unwrap();
        let held = take_lock(folder.path()).unwrap().expect("nobody trains");
        let said = stop(folder.path(), &on("another-machine")).unwrap_err().to_string();
        assert!(said.contains("another-machine") && said.contains("kill -TERM 2147483647"), "{said}");
        for here in [String::new(), host_name()] {
            let said = stop(folder.path(), &on(&here)).unwrap_err().to_string();
            assert!(said.contains("cannot be stopped"), "{here}: {said}");
        }
        // One that has ended since it was last looked at.
        drop(held);
        stop(folder.path(), &on("")).unwrap();
        let earlier: Started = serde_json::from_str(r#"{"pid": 7, "words": []}"#).unwrap();
        assert_eq!(earlier.host, "");
    }

    #[test]
    fn who_trains_is_alone_and_its_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let held = take_lock(folder.path()).unwrap().expect("nobody trains");
        assert!(take_lock(folder.path()).unwrap().is_none());
        drop(held);
        assert!(take_lock(folder.path()).unwrap().is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_there_are_no_locks_who_trains_is_known_by_its_heartbeat() {
        use super::super::follower::{ATTEMPTS, has_ended};
        use crate::model::io::failpoint;
        let folder = tempfile::tempdir().unwrap();
        failpoint::locks(Some(libc::ENOLCK));
        assert!(!is_running(folder.path()).unwrap());
        let held = take_lock(folder.path()).unwrap().expect("nobody trains");
        assert!(is_running(folder.path()).unwrap() && take_lock(folder.path()).unwrap().is_none());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let _handed = held.owner.hand_to(child.id()).unwrap();
        assert!(is_running(folder.path()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_running(folder.path()).unwrap() && take_lock(folder.path()).unwrap().is_some());
        // A file system that fails for a moment does not end what is followed.
        failpoint::locks(Some(libc::EIO));
        let mut failures = 0;
        assert!((0..ATTEMPTS).all(|_| !has_ended(folder.path(), &mut failures).unwrap()));
        assert!(has_ended(folder.path(), &mut failures).is_err());
        failpoint::locks(None);
        assert!(has_ended(folder.path(), &mut failures).unwrap());
    }
}
