//! Who answers a window's requests: the threads of this program, a worker elsewhere, or a test in their place.

use std::thread::Builder;
use std::time::Duration;

use crate::app::jobs::{Event, Request};
use crate::app::remote::Link;
use crate::app::state::connection::{Connection, Host};
use crate::app::worker::{Waker, Worker, WorkerEnv};

/// Who answers requests. No call waits but [`soon`](Self::soon), as long as it is told.
pub trait Engine {
    /// Takes a request.
    fn send(&mut self, request: Request);

    /// The next event, if there is one.
    fn event(&mut self) -> Option<Event> {
        self.soon(Duration::ZERO)
    }

    /// The next event, if one comes in time.
    fn soon(&mut self, at_most: Duration) -> Option<Event>;

    /// How it stands with the way there.
    fn connection(&mut self) -> Connection {
        Connection::Here
    }

    /// Tries to connect now, where it is not.
    fn connect(&mut self) {}

    /// What was said there beside the answers.
    fn log(&mut self) -> Option<String> {
        None
    }

    /// Nobody asks any more.
    fn end(self: Box<Self>) {}
}

impl Engine for Worker {
    fn send(&mut self, request: Request) {
        Self::send(self, request);
    }

    fn event(&mut self) -> Option<Event> {
        Self::event(self)
    }

    fn soon(&mut self, at_most: Duration) -> Option<Event> {
        Self::soon(self, at_most)
    }

    fn end(self: Box<Self>) {
        // It waits for the job under way to notice, and a window does not.
        let _ = Builder::new().name("ending".into()).spawn(move || drop(self));
    }
}

impl Engine for Link {
    fn send(&mut self, request: Request) {
        Self::send(self, request);
    }

    fn soon(&mut self, at_most: Duration) -> Option<Event> {
        Self::soon(self, at_most)
    }

    fn connection(&mut self) -> Connection {
        Self::connection(self)
    }

    fn connect(&mut self) {
        Self::connect(self);
    }

    fn log(&mut self) -> Option<String> {
        Self::log(self)
    }
}

/// Who computes at a host, or in this program where none is named; `waker` asks the window for a frame.
///
/// # Errors
/// If the host names no place, or this system gives no threads.
pub fn start(host: Option<&Host>, waker: Waker) -> Result<Box<dyn Engine>, String> {
    Ok(match host {
        Some(host) => Box::new(Link::start(host.clone(), waker)?),
        None => Box::new(
            Worker::start(WorkerEnv::default(), waker)
                .map_err(|error| format!("Cannot start the threads that compute: {error}"))?,
        ),
    })
}
