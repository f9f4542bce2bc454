//! The thread that follows runs on disk: it looks once a second whether a folder has changed, and
//! reads it only then. A run that has come to its end is read once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::event_sender::EventSender;
use crate::app::jobs::history::disk::{Stamp, read};
use crate::app::jobs::{Cancel, Event};
use crate::app::user_error::UserError;
use crate::model::io::catch_panic::contain;

/// How often a folder is looked at.
const PERIOD: Duration = Duration::from_secs(1);

pub(super) struct Follower {
    outbox: EventSender,
    closing: Cancel,
    /// The folders, and how each was when it was read.
    runs: BTreeMap<PathBuf, Option<Stamp>>,
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
                    let stamp = |folder: &PathBuf| known.get(folder).cloned().flatten();
                    self.runs = folders.into_iter().map(|folder| (folder.clone(), stamp(&folder))).collect();
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
            if known.as_ref() == Some(&stamp) {
                continue;
            }
            // What is written while it is read changes the stamp, and is read again.
            let reading = match contain(|| read(folder)) {
                Ok(reading) => reading.map(Arc::new).map_err(UserError::from_error),
                Err(said) => Err(UserError::from_panic(said)),
            };
            *known = Some(stamp);
            self.outbox.tell(Event::RunRead { job: None, folder: folder.clone(), reading });
        }
    }
}
