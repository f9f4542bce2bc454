//! The way to a thread, or to a worker elsewhere: a short bounded queue, and before it what has no room yet. The window's
//! side never waits, and what is out of date before it starts is not even queued.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Tasks in the queue itself.
const ROOM: usize = 16;

/// The sending end; nothing in the place of a task only wakes the thread.
pub(in crate::app) struct TaskQueue<T> {
    /// Absent once closed.
    sender: Option<SyncSender<Option<T>>>,
    waiting: VecDeque<T>,
}

impl<T> TaskQueue<T> {
    pub(in crate::app) fn new() -> (Self, Receiver<Option<T>>) {
        let (sender, receiver) = sync_channel(ROOM);
        (Self { sender: Some(sender), waiting: VecDeque::new() }, receiver)
    }

    /// Another way in, for a thread that may wait; absent once closed.
    pub(in crate::app) fn sender(&self) -> Option<SyncSender<Option<T>>> {
        self.sender.clone()
    }

    pub(in crate::app) fn send(&mut self, task: T) {
        self.waiting.push_back(task);
        self.pump();
    }

    /// Sends a task in the place of those that wait and are `old`.
    pub(in crate::app) fn replace(&mut self, task: T, old: impl Fn(&T) -> bool) {
        self.waiting.retain(|waits| !old(waits));
        self.send(task);
    }

    /// Moves on what has room.
    pub(in crate::app) fn pump(&mut self) {
        let Some(sender) = &self.sender else { return self.waiting.clear() };
        while let Some(task) = self.waiting.pop_front() {
            match sender.try_send(Some(task)) {
                Ok(()) | Err(TrySendError::Full(None)) => {}
                Err(TrySendError::Full(Some(task))) => return self.waiting.push_front(task),
                Err(TrySendError::Disconnected(_)) => return self.waiting.clear(),
            }
        }
    }

    /// Lets nothing more through, and wakes a thread that waits for a task; where there is no room for
    /// that, the thread does not wait.
    pub(in crate::app) fn close(&mut self) {
        self.waiting.clear();
        if let Some(sender) = self.sender.take() {
            let _ = sender.try_send(None);
        }
    }
}
