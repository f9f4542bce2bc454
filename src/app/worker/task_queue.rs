//! A queue to a thread: a short bounded channel, and an unbounded backlog before it on the sender's side. Sending never
//! blocks, and a task in the backlog can be replaced when it is out of date.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Capacity of the channel.
const CAPACITY: usize = 16;
/// Time between two looks for room in the channel.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The sending end, which clones share: tasks arrive in the order in which they were sent, whoever sent them.
pub(in crate::app) struct TaskQueue<T>(Arc<Mutex<Ends<T>>>);

struct Ends<T> {
    /// Absent once closed. `None` in place of a task only wakes the thread.
    sender: Option<SyncSender<Option<T>>>,
    /// Tasks for which the channel had no room yet.
    backlog: VecDeque<T>,
}

impl<T> Clone for TaskQueue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> TaskQueue<T> {
    pub(in crate::app) fn new() -> (Self, Receiver<Option<T>>) {
        let (sender, receiver) = sync_channel(CAPACITY);
        let ends = Ends { sender: Some(sender), backlog: VecDeque::new() };
        (Self(Arc::new(Mutex::new(ends))), receiver)
    }

    fn ends(&self) -> MutexGuard<'_, Ends<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::app) fn send(&self, task: T) {
        self.ends().send(task);
    }

    /// Sends a task and waits until the channel has room for it: for a thread that may block.
    pub(in crate::app) fn send_blocking(&self, task: T) {
        self.send(task);
        while !self.pump() {
            sleep(POLL_INTERVAL);
        }
    }

    /// Sends a task in place of those in the backlog for which `is_old` holds.
    pub(in crate::app) fn replace(&self, task: T, is_old: impl Fn(&T) -> bool) {
        let mut ends = self.ends();
        ends.backlog.retain(|task| !is_old(task));
        ends.send(task);
    }

    /// Moves tasks from the backlog into the channel while it has room; whether none is left.
    pub(in crate::app) fn pump(&self) -> bool {
        let mut ends = self.ends();
        ends.pump();
        ends.backlog.is_empty()
    }

    /// Drops the backlog, wakes a thread that waits for a task, and closes the channel. With a full channel none waits.
    pub(in crate::app) fn close(&self) {
        let mut ends = self.ends();
        ends.backlog.clear();
        if let Some(sender) = ends.sender.take() {
            let _ = sender.try_send(None);
        }
    }
}

impl<T> Ends<T> {
    fn send(&mut self, task: T) {
        self.backlog.push_back(task);
        self.pump();
    }

    fn pump(&mut self) {
        let Some(sender) = &self.sender else { return self.backlog.clear() };
        while let Some(task) = self.backlog.pop_front() {
            match sender.try_send(Some(task)) {
                Ok(()) | Err(TrySendError::Full(None)) => {}
                Err(TrySendError::Full(Some(task))) => return self.backlog.push_front(task),
                Err(TrySendError::Disconnected(_)) => return self.backlog.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_another_thread_comes_after_those_that_wait() {
        let (queue, received) = TaskQueue::new();
        let waiting = CAPACITY + 14;
        (0..waiting).for_each(|task| queue.send(task));
        let tasks: Vec<usize> = std::thread::scope(|threads| {
            threads.spawn(|| queue.clone().send_blocking(waiting));
            received.iter().take(waiting + 1).flatten().collect()
        });
        assert_eq!(tasks, (0..=waiting).collect::<Vec<_>>());
    }
}
