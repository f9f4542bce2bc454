//! The process at this end of the pipe, the worker itself or ssh: the last it said, and its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::app::worker::Waker;
use crate::model::io::escape::shown_line;

/// Lines that an error repeats.
const LINES: usize = 12;
/// Lines that wait to be heard; of more the oldest go.
const ROOM: usize = 200;
/// Bytes of a line that are.
const LONGEST: u64 = 2000;
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The last lines on standard error, which is read to its end.
pub(super) struct Tail {
    kept: Arc<Mutex<StderrTail>>,
    reader: Option<JoinHandle<()>>,
}

/// The last lines, and those of them that nobody has heard.
#[derive(Default)]
struct StderrTail {
    last: VecDeque<String>,
    unheard: VecDeque<String>,
}

impl Tail {
    /// That of a child; `waker` is called after every line.
    pub(super) fn of(stderr: ChildStderr, waker: Waker) -> Self {
        let kept = Arc::<Mutex<StderrTail>>::default();
        let written = kept.clone();
        let reader = Builder::new().name("far errors".into()).spawn(move || keep(stderr, &written, &waker));
        Self { kept, reader: reader.ok() }
    }

    /// Lines that came since this was last asked.
    pub(super) fn unheard(&self) -> VecDeque<String> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner).unheard)
    }

    /// They; those of a process that has ended are all there within `patience`.
    pub(super) fn lines(&self, patience: Duration) -> Vec<String> {
        let begun = Instant::now();
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && begun.elapsed() < patience {
            sleep(LOOK);
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }
}

fn keep(stderr: ChildStderr, kept: &Mutex<StderrTail>, waker: &Waker) {
    let mut from = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line = shown_line(line.trim_end()).into_owned();
        if line.is_empty() {
            continue;
        }
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let StderrTail { last, unheard } = &mut *kept;
            for (lines, room) in [(last, LINES), (unheard, ROOM)] {
                if lines.len() == room {
                    lines.pop_front();
                }
                lines.push_back(line.clone());
            }
        }
        waker();
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
