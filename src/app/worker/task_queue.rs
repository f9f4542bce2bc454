//! The way to a thread: a short bounded queue, and before it what has no room yet. The window's
//! side never waits, and what is out of date before it starts is not even queued.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::Task;
use crate::app::jobs::{Cancel, Request};

/// Tasks in the queue itself.
const ROOM: usize = 16;

pub(super) struct TaskQueue {
    /// Absent once closed.
    sender: Option<SyncSender<Task>>,
    waiting: VecDeque<Task>,
}

impl TaskQueue {
    pub(super) fn new() -> (Self, Receiver<Task>) {
        let (sender, receiver) = sync_channel(ROOM);
        (Self { sender: Some(sender), waiting: VecDeque::new() }, receiver)
    }

    /// Another way in, for a thread that may wait.
    pub(super) fn sender(&self) -> SyncSender<Task> {
        self.sender.clone().expect("a lane that is not closed yet")
    }

    pub(super) fn send(&mut self, task: Task) {
        // Only one wish list of thumbnails waits: it has no answer of its own, unlike a look.
        if matches!(task.request, Request::Thumbnails { .. }) {
            self.waiting.retain(|task| !matches!(task.request, Request::Thumbnails { .. }));
        }
        self.waiting.push_back(task);
        self.pump();
    }

    /// Moves on what has room.
    pub(super) fn pump(&mut self) {
        let Some(sender) = &self.sender else { return self.waiting.clear() };
        while let Some(task) = self.waiting.pop_front() {
            match sender.try_send(task) {
                Ok(()) => {}
                Err(TrySendError::Full(task)) => return self.waiting.push_front(task),
                Err(TrySendError::Disconnected(_)) => return self.waiting.clear(),
            }
        }
    }

    /// Lets nothing more through. The task sent last only wakes a thread that waits for one; where
    /// there is no room for it, the thread does not wait.
    pub(super) fn close(&mut self) {
        self.waiting.clear();
        if let Some(sender) = self.sender.take() {
            let _ = sender.try_send(Task { request: Request::Shutdown, cancel: Cancel::default() });
        }
    }
}
