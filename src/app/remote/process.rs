//! The child process, the worker itself or ssh: the last lines of its standard error, and how it ends.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::app::worker::Waker;
use crate::model::io::escape::shown_line;

/// Last lines that an error quotes.
const MAX_LAST: usize = 12;
/// Lines that are kept unread; beyond that the oldest are dropped.
const MAX_UNREAD: usize = 200;
/// Bytes at which a longer line is split.
const MAX_LINE_BYTES: u64 = 2000;
/// How often the child and the reading thread are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The last lines on a child's standard error, which a thread reads to its end.
pub(super) struct StderrTail {
    shared: Arc<Mutex<TailLines>>,
    reader: Option<JoinHandle<()>>,
}

/// The last lines, and those that were not taken yet.
#[derive(Default)]
struct TailLines {
    last: VecDeque<String>,
    unread: VecDeque<String>,
}

impl StderrTail {
    /// Starts to read; `waker` is called after every line.
    pub(super) fn spawn(stderr: ChildStderr, waker: Waker) -> Self {
        let shared = Arc::<Mutex<TailLines>>::default();
        let writer = shared.clone();
        let reader =
            Builder::new().name("remote errors".into()).spawn(move || read_lines(stderr, &writer, &waker));
        Self { shared, reader: reader.ok() }
    }

    /// Takes the lines that came since the last call.
    pub(super) fn take_unread(&self) -> VecDeque<String> {
        std::mem::take(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner).unread)
    }

    /// The last lines, after waiting up to `timeout` for the end of the stream.
    pub(super) fn lines(&self, timeout: Duration) -> Vec<String> {
        let begun = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && begun.elapsed() < timeout {
            sleep(POLL_INTERVAL);
        }
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }
}

fn read_lines(stderr: ChildStderr, shared: &Mutex<TailLines>, waker: &Waker) {
    let mut from = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = shown_line(line.trim_end()).into_owned();
        if line.is_empty() {
            continue;
        }
        {
            let mut lines = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let TailLines { last, unread } = &mut *lines;
            for (lines, limit) in [(last, MAX_LAST), (unread, MAX_UNREAD)] {
                if lines.len() == limit {
                    lines.pop_front();
                }
                lines.push_back(line.clone());
            }
        }
        waker();
    }
}

/// Waits for a child to exit, and kills it after `timeout`. Returns the status with which it exited by itself, if the system tells it.
pub(super) fn wait_or_kill(child: &mut Child, timeout: Duration) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < timeout {
        match child.try_wait() {
            Ok(None) => sleep(POLL_INTERVAL),
            Ok(status) => return status,
            Err(_) => break,
        }
    }
    let _ = child.kill(); // fails if it has exited meanwhile
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_process_that_is_killed_here_has_no_exit_status_of_its_own() {
        use super::*;
        let ended = |script: &str, timeout| {
            let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            wait_or_kill(&mut child, timeout).map(|status| status.code())
        };
        assert_eq!(ended("exec sleep 600", POLL_INTERVAL), None);
        assert_eq!(ended("exit 3", Duration::from_mins(1)), Some(Some(3)));
    }
}
