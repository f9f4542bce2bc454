//! The process at this end of the pipe, the worker itself or ssh: the last it said, and its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::model::io::escape::shown_line;

/// Lines that are kept.
const LINES: usize = 12;
/// Bytes of a line that are.
const LONGEST: u64 = 2000;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The last lines on standard error, which is read to its end.
pub(super) struct Tail {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Tail {
    /// That of a child.
    pub(super) fn of(stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = lines.clone();
        let reader = Builder::new().name("far errors".into()).spawn(move || keep(stderr, &kept));
        Self { lines, reader: reader.ok() }
    }

    /// They; those of a process that has ended are all there within `patience`.
    pub(super) fn lines(&self, patience: Duration) -> Vec<String> {
        let begun = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && begun.elapsed() < patience {
            sleep(LOOK);
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn keep(stderr: ChildStderr, lines: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = shown_line(line.trim_end()).into_owned();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        if !line.is_empty() {
            lines.push_back(line);
        }
    }
}

/// How a process ends whose pipe is closed; one that does not within `patience` is ended.
pub(super) fn ended(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        match child.try_wait() {
            Ok(None) => sleep(LOOK),
            Ok(status) => return status,
            Err(_) => break,
        }
    }
    let _ = child.kill(); // it has ended by itself
    child.wait().ok()
}
