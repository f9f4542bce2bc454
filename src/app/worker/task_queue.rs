//! A queue to a thread: sending never blocks, and a task that waits can be replaced when it is out of date.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks arrive in the order in which they were sent, whoever sent them.
pub(in crate::app) struct TaskQueue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

struct Waiting<T> {
    tasks: VecDeque<T>,
    is_closed: bool,
}

impl<T> Default for TaskQueue<T> {
    fn default() -> Self {
        let waiting = Waiting { tasks: VecDeque::new(), is_closed: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }
}

impl<T> TaskQueue<T> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::app) fn send(&self, task: T) {
        self.replace(task, |_| false);
    }

    /// Sends a task in place of those that wait and for which `is_old` holds.
    pub(in crate::app) fn replace(&self, task: T, is_old: impl Fn(&T) -> bool) {
        let mut waiting = self.waiting();
        if !waiting.is_closed {
            waiting.tasks.retain(|task| !is_old(task));
            waiting.tasks.push_back(task);
            self.changed.notify_one();
        }
    }

    /// Ends the queue: the tasks that wait are the last.
    pub(in crate::app) fn close(&self) {
        self.waiting().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for the next task; `None` once the queue has ended.
    pub(in crate::app) fn recv(&self) -> Option<T> {
        self.recv_timeout(Duration::MAX).ok()
    }

    /// Waits up to `at_most` for the next task.
    pub(in crate::app) fn recv_timeout(&self, at_most: Duration) -> Result<T, RecvTimeoutError> {
        let is_idle = |waiting: &mut Waiting<T>| waiting.tasks.is_empty() && !waiting.is_closed;
        let waited = self.changed.wait_timeout_while(self.waiting(), at_most, is_idle);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.tasks.pop_front().ok_or(match waiting.is_closed {
            true => RecvTimeoutError::Disconnected,
            false => RecvTimeoutError::Timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_all_threads_come_in_order_and_those_sent_before_the_end_are_the_last() {
        let queue = TaskQueue::default();
        assert_eq!(queue.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        (0..30).for_each(|task| queue.send(task));
        queue.replace(30, |task| task % 2 == 1);
        let tasks: Vec<i32> = std::thread::scope(|threads| {
            threads.spawn(|| {
                queue.send(31);
                queue.close();
                queue.send(32);
            });
            std::iter::from_fn(|| queue.recv()).collect()
        });
        assert_eq!(tasks, (0..=30).step_by(2).chain([31]).collect::<Vec<_>>());
    }
}
