//! What a detached training writes, read as it grows: the lines of its logs and the state of its folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::event_sender::JobEvents;
use super::growing_log::GrowingLog;
use crate::app::jobs::detached::{EPOCHS, LOGS, PrintedLine, lock};
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::history::disk::{RunSnapshot, Stamp, read};
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::{Reporter, Unit};
use crate::model::io::file_lock::{ExclusiveLock, LockError};

/// Looks that must fail in a row before following ends with their error: a network file system may fail for a moment.
pub(super) const ATTEMPTS: usize = 30;

/// Follows a training through its files; holds what has been reported so far.
pub(super) struct Follower<'a> {
    out: &'a Path,
    pub logs: [GrowingLog; 2],
    /// The last snapshot of its folder, the state of the folder then, and until when it is not read again.
    pub last: Option<Arc<RunSnapshot>>,
    known: Option<Stamp>,
    due: Option<Instant>,
    /// How often in a row it could not be found out whether it has ended.
    failures: usize,
    /// How often its folder could not be read since it has ended.
    unread: usize,
}

impl<'a> Follower<'a> {
    pub fn new(out: &'a Path) -> Self {
        let logs = LOGS.map(|name| GrowingLog { path: out.join(name), read: 0 });
        Self { out, logs, last: None, known: None, due: None, failures: 0, unread: 0 }
    }

    /// Tells what is new in its logs and its folder; whether it has ended and what it left is read, or cannot be.
    pub fn poll(&mut self, events: &mut JobEvents) -> anyhow::Result<bool> {
        let ended = has_ended(self.out, &mut self.failures)?;
        for (log, file) in self.logs.iter_mut().enumerate() {
            file.lines(ended, |line, at| {
                if self.last.is_none() && log == 0 {
                    events.progress(&line, 0, None, Unit::Items);
                }
                events.training(TrainEvent::Printed(PrintedLine { line, log, at }));
            });
        }
        let (stamp, begun) = (Stamp::read(self.out), self.out.join("run.json").try_exists());
        let rests = !ended && self.due.is_some_and(|due| Instant::now() < due);
        if rests || self.known.as_ref() == Some(&stamp) || matches!(begun, Ok(false)) {
            return Ok(ended);
        }
        // A write during the read changes the stamp, so that the folder is read again, as it is after a read that failed.
        let Ok(snapshot) = read(self.out).map(Arc::new) else {
            self.unread += usize::from(ended);
            return Ok(self.unread > ATTEMPTS);
        };
        (self.known, self.due) = (Some(stamp), Some(Instant::now() + events.sender.reread_delay(&snapshot)));
        let (done, total) = TrainHistory::of_snapshot(&snapshot).done();
        if self.last.is_none() {
            events.begin(done as u64); // they took none of the time since this began to follow
        }
        events.progress(EPOCHS, done as u64, Some(total as u64), Unit::Items);
        events.training(TrainEvent::Begun(snapshot.clone()));
        events.training(TrainEvent::Probes(snapshot.probes.clone()));
        self.last = Some(snapshot);
        Ok(ended)
    }
}

/// Whether a training runs there.
///
/// # Errors
/// If its lock cannot be tried.
pub(super) fn is_running(out: &Path) -> Result<bool, LockError> {
    ExclusiveLock::is_held(&lock(out))
}

/// Whether the training has ended; `false` as well where that cannot be found out, up to [`ATTEMPTS`] times in a row.
pub(super) fn has_ended(out: &Path, failures: &mut usize) -> anyhow::Result<bool> {
    match is_running(out) {
        Err(_) if *failures < ATTEMPTS => {
            *failures += 1;
            Ok(false)
        }
        running => {
            *failures = 0;
            Ok(!running?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread::sleep;
    use std::time::Duration;

    use super::super::event_sender::EventSender;
    use super::*;
    use crate::app::jobs::{Cancel, JobId};
    use crate::model::io::atomic_file;

    #[test]
    fn the_time_left_is_that_of_epochs_trained_since_it_is_followed() {
        let sender = EventSender::new(sync_channel(64).0, Arc::new(|| ()), false);
        let mut events = JobEvents::new(&sender, JobId(1), &Cancel::default());
        // Four of its epochs are done.
        let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frozen/stopped");
        assert!(Follower::new(&out).poll(&mut events).unwrap());
        sleep(Duration::from_millis(600)); // before, no speed is estimated
        let taken = |done: u64| events.clock.progress(EPOCHS, done, None, Unit::Items).elapsed;
        assert!(taken(5) > taken(8), "a fifth in this time is slower than four more");
    }

    #[test]
    fn the_end_of_a_training_is_told_once_its_folder_is_read_or_cannot_be() {
        let is_told_last = |spoil: fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            spoil(&folder.path().join("run.json"));
            let sender = EventSender::new(sync_channel(4).0, Arc::new(|| ()), false);
            let mut events = JobEvents::new(&sender, JobId(1), &Cancel::default());
            let mut follower = Follower::new(folder.path());
            (0..ATTEMPTS).all(|_| !follower.poll(&mut events).unwrap()) && follower.poll(&mut events).unwrap()
        };
        assert!(is_told_last(|run| atomic_file::write(run, b"{").unwrap()));
        // A link to itself cannot be followed, as what lies on a disk that does not answer.
        #[cfg(unix)]
        assert!(is_told_last(|run| std::os::unix::fs::symlink(run, run).unwrap()));
    }
}
