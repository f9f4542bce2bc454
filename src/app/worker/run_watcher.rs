//! The thread that follows runs on disk: it looks once a second whether a folder has changed, and
//! reads it only then. A run that has come to its end is read once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::event_sender::EventSender;
use super::tasks;
use crate::app::jobs::history::disk::{RunSnapshot, Stamp, read};
use crate::app::jobs::tasks::Tasks;
use crate::app::jobs::{Cancel, Event};
use crate::app::user_error::UserError;
use crate::model::io::catch_panic::contain;

/// How often a folder is looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// How often it is asked how tasks go: Slurm serves others as well.
const TASKS_PERIOD: Duration = Duration::from_secs(3);

pub(super) struct Follower {
    outbox: EventSender,
    closing: Cancel,
    /// The folders, and what is known of each.
    runs: BTreeMap<PathBuf, Known>,
}

/// How a folder was when it was read.
#[derive(Clone, Default)]
struct Known {
    stamp: Option<Stamp>,
    tasks: Option<Tasks>,
    /// When its tasks were looked at.
    looked: Option<Instant>,
}

impl Follower {
    pub(super) fn new(outbox: EventSender, closing: Cancel) -> Self {
        Self { outbox, closing, runs: BTreeMap::new() }
    }

    /// Follows until the other end of the queue is gone, or it is closed.
    pub(super) fn run(mut self, tasks: &Receiver<Option<Vec<PathBuf>>>) {
        loop {
            let task = match self.runs.is_empty() {
                true => tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => tasks.recv_timeout(PERIOD),
            };
            if self.closing.is_cancelled() {
                return;
            }
            match task {
                Ok(Some(folders)) => {
                    let known = std::mem::take(&mut self.runs);
                    let of = |folder: &PathBuf| known.get(folder).cloned().unwrap_or_default();
                    self.runs = folders.into_iter().map(|folder| (folder.clone(), of(&folder))).collect();
                }
                Ok(None) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    /// Reads what has changed.
    fn look(&mut self) {
        for (folder, known) in &mut self.runs {
            let stamp = Stamp::read(folder);
            let tasks = match known.looked {
                Some(looked) if looked.elapsed() < TASKS_PERIOD => known.tasks.clone(),
                _ => {
                    known.looked = Some(Instant::now());
                    tasks::look(folder, known.tasks.as_ref())
                }
            };
            if known.stamp.as_ref() == Some(&stamp) && known.tasks == tasks {
                continue;
            }
            // What is written while it is read changes the stamp, and is read again.
            let snapshot = match contain(|| read(folder)) {
                Ok(snapshot) => snapshot.map_err(UserError::from_error),
                Err(said) => Err(UserError::from_panic(said)),
            };
            let snapshot =
                snapshot.map(|snapshot| Arc::new(RunSnapshot { tasks: tasks.clone(), ..snapshot }));
            (known.stamp, known.tasks) = (Some(stamp), tasks);
            self.outbox.tell(Event::RunRead { job: None, folder: folder.clone(), snapshot });
        }
    }
}
