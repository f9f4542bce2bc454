//! The worker of a window, wherever it is: the threads of this program, one in another process, or a test double.

use std::thread::Builder;
use std::time::Duration;

use super::Link;
use super::local::LocalWorker;
use crate::app::jobs::{Event, Request};
use crate::app::state::connection::{Connection, Host};
use crate::app::worker::{Waker, Worker};

/// Answers requests with events. No call blocks except [`recv_timeout`](Self::recv_timeout), for at most the time given.
pub trait AnyWorker {
    /// Enqueues a request.
    fn send(&mut self, request: Request);

    /// The next event, if there is one.
    fn event(&mut self) -> Option<Event> {
        self.recv_timeout(Duration::ZERO)
    }

    /// The next event, waiting for it at most the time `at_most`.
    fn recv_timeout(&mut self, at_most: Duration) -> Option<Event>;

    /// State of the connection to the worker.
    fn connection(&mut self) -> Connection {
        Connection::Here
    }

    /// Tries to connect now, if it is not connected.
    fn connect(&mut self) {}

    /// The next line that a remote worker wrote to its standard error, if any.
    fn log(&mut self) -> Option<String> {
        None
    }

    /// Shuts down; no request follows.
    fn end(self: Box<Self>) {}
}

impl AnyWorker for Worker {
    fn send(&mut self, request: Request) {
        Self::send(self, request);
    }

    fn recv_timeout(&mut self, at_most: Duration) -> Option<Event> {
        Self::recv_timeout(self, at_most)
    }

    fn end(self: Box<Self>) {
        // Dropping waits until the running job has noticed; the window must not wait.
        let _ = Builder::new().name("ending".into()).spawn(move || drop(self));
    }
}

/// Starts the worker at `host`, or in this program if that is `None`; `waker` requests a frame of the window.
///
/// # Errors
/// If the host's address cannot be parsed, or no thread can be started.
pub fn start(host: Option<&Host>, waker: Waker) -> Result<Box<dyn AnyWorker>, String> {
    Ok(match host {
        Some(host) => Box::new(Link::start(host.clone(), waker)?),
        None => Box::new(
            LocalWorker::start(waker)
                .map_err(|error| format!("Cannot start the compute threads: {error}"))?,
        ),
    })
}
