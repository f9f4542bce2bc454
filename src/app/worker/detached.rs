//! A training as a process of its own: begun here, followed by its files, and none the worse for it where who follows goes.
//!
//! The process holds the lock of `train.lock` as its standard input, so whether it runs is known whoever began it, however it
//! ended; where a file system has no locks, a file beside it says whose the right is, which the process keeps.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::{Context, bail};

use super::event_sender::JobEvents;
use crate::app::jobs::detached::{Detached, LOGS, OWNER_FILE, SWEEP, Said, Started, lock};
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::history::disk::{Stamp, read};
use crate::app::jobs::training::{RunSnapshot, TrainEvent};
use crate::app::jobs::{Cancel, Event, Unit};
use crate::app::paths::expanded;
use crate::model::io::atomic_file;
use crate::model::io::file_lock::{ExclusiveLock, sign};

/// How often its files are looked at.
const PERIOD: Duration = Duration::from_millis(200);
/// No file that says who runs it is larger.
const FILE_LIMIT: u64 = 1 << 20;
/// Most bytes of its words that are read at once.
const MAX_READ: u64 = 1 << 20;
/// Its last words that an error repeats.
const LINES: usize = 12;
/// How a failed verb begins what it says.
const FAILED: &str = "error: ";
/// Tries to get a lock that somebody else only looks at.
const TRIES: usize = 5;

/// Begins a training, unless it runs already, and follows it to its end. Cancelling stops it, saved; `closing` only ends
/// the following.
///
/// # Errors
/// If it cannot be begun, another one runs in its folder, or it ends before its end.
pub(super) fn run(
    asked: &Detached,
    events: &JobEvents,
    cancel: &Cancel,
    closing: &Cancel,
) -> anyhow::Result<()> {
    let out = asked.out.to_str().map_or_else(|| asked.out.clone(), expanded);
    let out = std::path::absolute(&out).with_context(|| format!("{}", out.display()))?;
    atomic_file::make_folder(&out).with_context(|| format!("{}: cannot be made", out.display()))?;
    let began = match claim(&out)? {
        Some(held) if asked.again && started(&out).is_some_and(|known| known.words == asked.words) => {
            drop(held); // it has ended meanwhile
            false
        }
        Some(held) => {
            begin(&out, &asked.words, held)?;
            true
        }
        None if asked.again || asked.resumes() => false,
        None => bail!(
            "{}: a training runs in there already; `--resume` follows it, another folder begins another",
            out.display()
        ),
    };
    let pid = started(&out).with_context(|| format!("{} says nobody", Started::path(&out).display()))?.pid;
    let tell = |news| events.outbox.tell(Event::Training { job: events.job, news });
    tell(TrainEvent::Detached { folder: out.clone(), pid, began });
    let mut logs = LOGS.map(|name| Log { path: out.join(name), read: 0 });
    let (mut known, mut stopped, mut last) = (None, false, None);
    loop {
        let ended = !runs(&out)?;
        for (log, file) in logs.iter_mut().enumerate() {
            file.lines(ended, |line, at| {
                if last.is_none() && log == 0 {
                    events.progress(line.clone(), 0, None, Unit::Files);
                }
                tell(TrainEvent::Said(Said { line, log, at }));
            });
        }
        let stamp = Stamp::read(&out);
        if known.as_ref() != Some(&stamp) && out.join("run.json").exists() {
            known = Some(stamp);
            // What is written while it is read changes the stamp, and is read again.
            if let Ok(snapshot) = read(&out) {
                let snapshot = Arc::new(snapshot);
                progress(events, &snapshot);
                tell(TrainEvent::Begun(snapshot.clone()));
                tell(TrainEvent::Probes(snapshot.probes.clone()));
                last = Some(snapshot);
            }
        }
        if ended {
            break;
        }
        // The end of this worker cancels everything, after it has said that it closes.
        if cancel.is_cancelled() && !closing.is_cancelled() && !stopped {
            stop(pid)?;
            stopped = true;
        }
        if closing.is_cancelled() {
            return Ok(());
        }
        sleep(PERIOD);
    }
    let words = atomic_file::text(&logs[0].path, u64::MAX).unwrap_or_default();
    let failed = words.lines().any(|line| line.starts_with(FAILED));
    let finished = !failed && last.as_ref().is_some_and(|snapshot| history(snapshot).finished());
    if !failed && (finished || stopped) {
        let failures = last.map(|snapshot| snapshot.failures.clone()).unwrap_or_default();
        tell(TrainEvent::Ended { finished, failures });
        return Ok(());
    }
    let lines: Vec<&str> = words.lines().collect();
    let lines = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
    bail!("the training in {} ended before its end; the last it said:\n  {lines}", out.display())
}

/// The right to train there; nothing while a training runs.
fn claim(out: &Path) -> anyhow::Result<Option<ExclusiveLock>> {
    let path = lock(out);
    for attempt in 0..TRIES {
        let right =
            ExclusiveLock::ask(&path).with_context(|| format!("{}: cannot be locked", path.display()))?;
        if right.is_some() {
            return Ok(right);
        }
        if attempt + 1 < TRIES {
            sleep(Duration::from_millis(2));
        }
    }
    Ok(None)
}

/// Whether a training runs there.
fn runs(out: &Path) -> anyhow::Result<bool> {
    let path = lock(out);
    for _ in 0..TRIES {
        if !ExclusiveLock::is_held(&path).with_context(|| format!("{}: cannot be locked", path.display()))? {
            return Ok(false);
        }
        sleep(Duration::from_millis(2)); // somebody may look at the same moment
    }
    Ok(true)
}

/// Who runs, or ran, the training there.
fn started(out: &Path) -> Option<Started> {
    serde_json::from_slice(&atomic_file::read(&Started::path(out), FILE_LIMIT).ok()?).ok()
}

/// Begins it: in a session of its own, which no signal for this one reaches.
fn begin(out: &Path, words: &[String], right: ExclusiveLock) -> anyhow::Result<()> {
    let mut command =
        Command::new(std::env::current_exe().context("this program does not know where it lies")?);
    // The words of a training are all flags.
    let verb = if words.first().is_some_and(|word| word == SWEEP) { None } else { Some("train") };
    command.args(verb).args(words).arg("--out").arg(out);
    let log = |name: &str| {
        let path = out.join(name);
        let file = File::options().write(true).create(true).truncate(true).open(&path);
        file.with_context(|| format!("{}: cannot be written", path.display()))
    };
    let [told, found] = LOGS;
    let sign_of_life = match right {
        ExclusiveLock::File(held) => {
            command.stdin(Stdio::from(held));
            None
        }
        ExclusiveLock::Sign(held) => {
            command.stdin(Stdio::null()).arg(OWNER_FILE).arg(sign(&lock(out)));
            Some(held)
        }
    };
    command.stderr(log(told)?).stdout(log(found)?);
    apart(&mut command);
    let mut child = command.spawn().context("the training cannot be started")?;
    if let Some(held) = sign_of_life {
        held.hand_to(child.id()).context("the training's process cannot be given its lock")?;
    }
    let known = Started { pid: child.id(), words: words.to_owned() };
    let path = Started::path(out);
    let kept = serde_json::to_vec(&known).map_err(std::io::Error::other);
    kept.and_then(|bytes| atomic_file::write(&path, &bytes))
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    // Asked how it ended, so that it is no process any more then.
    Builder::new().name("training".into()).spawn(move || child.wait()).context("no thread waits for it")?;
    Ok(())
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let own_session = || {
        // SAFETY: it changes this process alone, which is a child that has started no thread.
        #[expect(unsafe_code, reason = "a call of C that makes a session")]
        let session = unsafe { libc::setsid() };
        if session < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: what is done between fork and exec takes no lock and no memory.
    #[expect(unsafe_code, reason = "what a child does before it becomes the program")]
    unsafe {
        command.pre_exec(own_session);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let _ = command;
}

/// Lets it save and end.
fn stop(pid: u32) -> anyhow::Result<()> {
    let sent = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
    let sent = sent.with_context(|| format!("process {pid} cannot be stopped"))?;
    if !sent.success() {
        bail!("process {pid} cannot be stopped ({sent})");
    }
    Ok(())
}

fn history(snapshot: &RunSnapshot) -> TrainHistory {
    let mut history = TrainHistory::new(snapshot.about.clone());
    history.epochs(&snapshot.epochs);
    history.failures(&snapshot.failures);
    history
}

fn progress(events: &JobEvents, snapshot: &RunSnapshot) {
    let (done, total) = history(snapshot).done();
    events.progress("Epochs of all heads", done as u64, Some(total as u64), Unit::Files);
}

/// A file that grows by lines, and how far it was read.
struct Log {
    path: PathBuf,
    read: u64,
}

impl Log {
    /// The lines that have come, each with what stands before it; at the end what is left counts as one.
    fn lines(&mut self, ended: bool, mut tell: impl FnMut(String, u64)) {
        loop {
            let mut bytes = Vec::new();
            let read = File::open(&self.path).and_then(|mut file| {
                file.seek(SeekFrom::Start(self.read))?;
                file.take(MAX_READ).read_to_end(&mut bytes)
            });
            if read.is_err() || bytes.is_empty() {
                return;
            }
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let whole =
                if whole == 0 && (ended || bytes.len() as u64 == MAX_READ) { bytes.len() } else { whole };
            for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
                tell(String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned(), self.read);
                self.read += line.len() as u64;
            }
            if whole == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_line_by_line_as_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log { path: folder.path().join("log"), read: 0 };
        let mut told = Vec::new();
        let mut look = |text: &str, ended| {
            atomic_file::write(&folder.path().join("log"), text.as_bytes()).unwrap();
            log.lines(ended, |line, at| told.push((line, at)));
        };
        look("one\ntw", false);
        look("one\ntw", false);
        look("one\ntwo\r\n\nthr", false);
        look("one\ntwo\r\n\nthree", true);
        let expected = [("one", 0), ("two", 4), ("", 9), ("three", 10)];
        assert_eq!(told, expected.map(|(line, at)| (line.to_owned(), at)));
    }

    #[test]
    fn who_trains_is_alone_and_its_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let held = claim(folder.path()).unwrap().expect("nobody trains");
        assert!(claim(folder.path()).unwrap().is_none());
        drop(held);
        assert!(claim(folder.path()).unwrap().is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_there_are_no_locks_who_trains_is_known_by_its_sign() {
        use crate::model::io::failpoint;
        let folder = tempfile::tempdir().unwrap();
        failpoint::locks(Some(libc::ENOLCK));
        assert!(!runs(folder.path()).unwrap());
        let held = claim(folder.path()).unwrap().expect("nobody trains");
        assert!(runs(folder.path()).unwrap() && claim(folder.path()).unwrap().is_none());
        let ExclusiveLock::Sign(held) = held else { panic!("there are no locks") };
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        held.hand_to(child.id()).unwrap();
        assert!(runs(folder.path()).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!runs(folder.path()).unwrap() && claim(folder.path()).unwrap().is_some());
        failpoint::locks(None);
    }
}
