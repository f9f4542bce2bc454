//! How either end of a connection finds out that the other is gone though nothing has closed the pipe. A machine that falls asleep or
//! loses its network sends no end, TCP gives up a write after a quarter of an hour, and an `ssh` that shares another's connection
//! notices nothing.
//!
//! Both ends therefore write at least once in [`Times::beat`], a [heartbeat](super::frame::write_heartbeat) if nothing else, and consider
//! the other gone after [`Times::silence`]: the client has lost its worker, and a worker ends, which frees its memory. The client's
//! heartbeats come from the thread that writes its requests, so a window that is hidden or busy sends them, too.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// The times of a connection, the same at both ends; tests have shorter ones.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// The longest time between two writes. It is shorter than [`check`](Self::check): of two ends that were asleep together each sends
    /// a heartbeat before the other's second check, though the clock of Windows went on and no wait did.
    pub(super) beat: Duration,
    /// The longest time in which nothing may come.
    pub(super) silence: Duration,
    /// Time between two checks of whether anything has come.
    pub(super) check: Duration,
}

/// The times of every connection.
pub(super) const TIMES: Times =
    Times { beat: Duration::from_secs(10), silence: Duration::from_mins(3), check: Duration::from_secs(15) };

/// Since when a read has waited; `None` while what came is dealt with, however long that takes.
type Waiting = Mutex<Option<Instant>>;

/// What is read from the other end, which is watched for its silence until this is dropped.
pub(super) struct Watched<R> {
    from: R,
    waiting: Arc<Waiting>,
}

impl<R> Watched<R> {
    /// Calls `on_silence` once nothing comes any more, on a thread of its own.
    ///
    /// # Errors
    /// If that thread cannot be started.
    pub(super) fn new(from: R, times: Times, on_silence: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let waiting = Arc::<Waiting>::default();
        let reader = Arc::downgrade(&waiting);
        let watch = move || {
            if falls_silent(&reader, times) {
                on_silence();
            }
        };
        Builder::new().name("silence".into()).spawn(watch)?;
        Ok(Self { from, waiting })
    }

    fn note(&self, since: Option<Instant>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.note(Some(Instant::now()));
        let count = self.from.read(buffer);
        self.note(None);
        count
    }
}

/// Waits until nothing has come for too long at two checks in a row: at the first, a process that was asleep has yet to read what came,
/// and its network may be away for some seconds. `false` once the reader is dropped.
fn falls_silent(reader: &Weak<Waiting>, times: Times) -> bool {
    let mut doubted = false;
    loop {
        sleep(times.check);
        let Some(waiting) = reader.upgrade() else { return false };
        let since = *waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = since.is_some_and(|since| since.elapsed() > times.silence);
        if is_silent && doubted {
            return true;
        }
        doubted = is_silent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a reader that has waited since `since` and is dropped after this number of checks is found silent, and when.
    fn watched(since: Option<Instant>, times: Times, checks: u32) -> (bool, Duration) {
        let (waiting, begun) = (Arc::new(Mutex::new(since)), Instant::now());
        let reader = Arc::downgrade(&waiting);
        std::thread::scope(|scope| {
            let watch = scope.spawn(move || (falls_silent(&reader, times), begun.elapsed()));
            while !watch.is_finished() && begun.elapsed() < checks * times.check {
                sleep(times.check);
            }
            drop(waiting);
            watch.join().unwrap()
        })
    }

    #[test]
    fn only_a_read_that_waits_for_long_is_silence() {
        let times = Times { silence: Duration::ZERO, check: Duration::from_millis(20), ..TIMES };
        let (is_silent, after) = watched(Some(Instant::now()), times, 15_000);
        assert!(is_silent && after >= 2 * times.check, "what was asleep has until the second check to read");
        assert!(!watched(Some(Instant::now()), Times { silence: TIMES.silence, ..times }, 10).0);
        // What came waits to be fetched, by a window that is hidden.
        assert!(!watched(None, times, 10).0);
    }

    #[test]
    fn who_was_asleep_sends_a_heartbeat_before_the_second_check() {
        assert!(TIMES.beat < TIMES.check);
    }

    #[test]
    fn a_reader_waits_while_nothing_comes() {
        let (from, mut to) = io::pipe().unwrap();
        let mut from = Watched::new(from, TIMES, || {}).unwrap();
        let waiting = from.waiting.clone();
        let waits = || waiting.lock().unwrap().is_some();
        assert!(!waits());
        std::thread::scope(|scope| {
            let read = scope.spawn(|| from.read(&mut [0]).unwrap());
            while !waits() {
                std::thread::yield_now();
            }
            std::io::Write::write_all(&mut to, b"x").unwrap();
            assert_eq!(read.join().unwrap(), 1);
        });
        assert!(!waits());
    }
}
