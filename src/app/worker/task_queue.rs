//! A queue to a thread: a short bounded channel, and an unbounded backlog before it on the sender's side. Sending never
//! blocks, and a task in the backlog can be replaced when it is out of date.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Capacity of the channel.
const CAPACITY: usize = 16;

/// The sending end. `None` in place of a task only wakes the thread.
pub(in crate::app) struct TaskQueue<T> {
    /// Absent once closed.
    sender: Option<SyncSender<Option<T>>>,
    /// Tasks for which the channel had no room yet.
    backlog: VecDeque<T>,
}

impl<T> TaskQueue<T> {
    pub(in crate::app) fn new() -> (Self, Receiver<Option<T>>) {
        let (sender, receiver) = sync_channel(CAPACITY);
        (Self { sender: Some(sender), backlog: VecDeque::new() }, receiver)
    }

    /// The channel itself, for a thread that may block; `None` once closed.
    pub(in crate::app) fn sender(&self) -> Option<SyncSender<Option<T>>> {
        self.sender.clone()
    }

    pub(in crate::app) fn send(&mut self, task: T) {
        self.backlog.push_back(task);
        self.pump();
    }

    /// Sends a task in place of those in the backlog for which `is_old` holds.
    pub(in crate::app) fn replace(&mut self, task: T, is_old: impl Fn(&T) -> bool) {
        self.backlog.retain(|task| !is_old(task));
        self.send(task);
    }

    /// Moves tasks from the backlog into the channel while it has room.
    pub(in crate::app) fn pump(&mut self) {
        let Some(sender) = &self.sender else { return self.backlog.clear() };
        while let Some(task) = self.backlog.pop_front() {
            match sender.try_send(Some(task)) {
                Ok(()) | Err(TrySendError::Full(None)) => {}
                Err(TrySendError::Full(Some(task))) => return self.backlog.push_front(task),
                Err(TrySendError::Disconnected(_)) => return self.backlog.clear(),
            }
        }
    }

    /// Drops the backlog, wakes a thread that waits for a task, and closes the channel. With a full channel none waits.
    pub(in crate::app) fn close(&mut self) {
        self.backlog.clear();
        if let Some(sender) = self.sender.take() {
            let _ = sender.try_send(None);
        }
    }
}
