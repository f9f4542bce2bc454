//! The worker's end of the pipe: requests come in on standard input, and nothing but events goes out on standard output.
//! The end of the input ends the process, whatever jobs are running.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::frame::{self, FrameError};
use super::hello::{Hello, PROTOCOL};
use crate::app::jobs::{Event, Request};
use crate::app::process_memory;
use crate::app::terminal::stdout::say;
use crate::app::worker::{Worker, WorkerEnv};

/// Capacity of the event queue, beyond which the worker waits; small, as an event may hold a whole file.
const EVENT_CAPACITY: usize = 16;
/// How often the memory of this process is measured.
const MEMORY_PERIOD: Duration = Duration::from_secs(2);
/// Changes of fewer bytes are not reported.
const MEMORY_STEP: u64 = 1 << 20;
/// The memory is reported at least this often: only a write tells the system that the client's machine is gone, and so ends
/// this process.
const MAX_SILENCE: Duration = Duration::from_mins(1);
/// Capacity of the queue of requests and wake-ups.
const INPUT_CAPACITY: usize = 64;

/// What the main loop waits for.
enum Input {
    Request(Request),
    /// The worker may have events.
    Wake,
    /// The input has ended, with the error if it failed.
    End(Option<FrameError>),
}

/// Runs the worker until the input ends.
///
/// # Errors
/// If the client speaks another protocol or sends an invalid request, or closes the output before the input.
pub fn serve() -> anyhow::Result<()> {
    let mut out = BufWriter::new(claim_stdout().context("standard output is not available")?);
    Hello::serving().write(&mut out).context("the other side has disconnected")?;
    let compress = match Hello::read(&mut io::stdin().lock()) {
        Ok(theirs) => theirs.packs,
        Err(FrameError::Protocol { found, version }) => bail!(
            "the other side speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}); update the \
             older one",
            env!("CARGO_PKG_VERSION")
        ),
        Err(error) => {
            return Err(anyhow::Error::new(error)
                .context("no client has connected; `ssmprobe` starts this command by itself"));
        }
    };
    let (sender, inputs) = sync_channel(INPUT_CAPACITY);
    let wake = sender.clone();
    // A full queue needs no wake-up: events are fetched after every input.
    let waker = Arc::new(move || drop(wake.try_send(Input::Wake)));
    let mut worker = Worker::with_queue(WorkerEnv::default(), waker, EVENT_CAPACITY, compress)
        .context("cannot start the compute threads")?;
    let listening = Builder::new().name("requests".into());
    listening.spawn(move || read_requests(&sender)).context("cannot start the listening thread")?;
    let (mut memory, mut patience) = (MemoryReporter::default(), MEMORY_PERIOD);
    loop {
        // All that has come in is looked at before the next event: over a slow line many of those wait, and a request may call off what
        // they are of.
        let input = inputs.recv_timeout(std::mem::take(&mut patience));
        match input {
            Ok(Input::Request(request)) => {
                worker.send(request);
                continue;
            }
            Ok(Input::Wake) => continue,
            Ok(Input::End(None)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Input::End(Some(error))) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(event) = worker.event() {
            write_event(&mut out, &event, compress)?;
            continue;
        }
        if let Some(bytes) = memory.changed() {
            write_event(&mut out, &Event::Memory(bytes), compress)?;
        }
        out.flush()?;
        patience = MEMORY_PERIOD;
    }
}

/// The resident memory that was last reported, in bytes, and when; and when it was last measured.
#[derive(Default)]
struct MemoryReporter {
    reported: Option<(u64, Instant)>,
    measured: Option<Instant>,
}

impl MemoryReporter {
    /// The resident bytes, if it is time to measure and they are to be reported.
    fn changed(&mut self) -> Option<u64> {
        if self.measured.is_some_and(|measured| measured.elapsed() < MEMORY_PERIOD) {
            return None;
        }
        self.measured = Some(Instant::now());
        let bytes = process_memory::resident().filter(|bytes| self.is_due(*bytes))?;
        self.reported = Some((bytes, Instant::now()));
        Some(bytes)
    }

    /// Whether these bytes differ by [`MEMORY_STEP`] or more from those last reported, or these are [`MAX_SILENCE`] old.
    fn is_due(&self, bytes: u64) -> bool {
        self.reported.is_none_or(|(before, reported)| {
            bytes.abs_diff(before) >= MEMORY_STEP || reported.elapsed() >= MAX_SILENCE
        })
    }
}

/// Writes an event; in place of one that cannot be serialised, a warning of its job. One of no job is left out: the next worker would
/// be asked for the same, and end as this one.
fn write_event(out: &mut impl Write, event: &Event, compress: bool) -> Result<(), FrameError> {
    match (frame::write(out, event, compress), event.job()) {
        (Err(FrameError::Unwritable { found }), Some(job)) => {
            let text = format!("A message cannot be sent: {found}");
            frame::write(out, &Event::Warning { job, text }, compress)
        }
        (Err(FrameError::Unwritable { found }), None) => {
            say!("a message cannot be sent: {found}");
            Ok(())
        }
        (written, _) => written,
    }
}

fn read_requests(sender: &SyncSender<Input>) {
    let mut from = io::stdin();
    loop {
        let next = match frame::read(&mut from) {
            Ok(Some(request)) => Input::Request(request),
            Ok(None) => Input::End(None),
            Err(error) => Input::End(Some(error)),
        };
        let ends = matches!(next, Input::End(_));
        if sender.send(next).is_err() || ends {
            return;
        }
    }
}

/// Reserves standard output for messages: from now on all other output, a driver's too, goes to standard error.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn claim_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open for as long as the process runs; no Rust value owns descriptor 1, which is replaced.
    #[expect(unsafe_code, reason = "a call of C that makes one number of a file mean another file")]
    let replaced = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if replaced < 0 { Err(io::Error::last_os_error()) } else { Ok(own.into()) }
}

/// Standard output, on systems where it is not reserved for messages; the program itself prints nothing else.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn claim_stdout() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::{ffi::OsString, path::PathBuf, time::SystemTime};

    use super::*;
    #[cfg(unix)]
    use crate::app::jobs::{JobId, history::disk::RunSnapshot};

    #[cfg(unix)]
    #[test]
    fn an_event_that_cannot_be_written_ends_no_connection() {
        use std::os::unix::ffi::OsStringExt;
        let folder: PathBuf = OsString::from_vec(b"caf\xe9".to_vec()).into();
        let snapshot = Ok(Arc::new(RunSnapshot {
            probes: vec![(folder.clone(), SystemTime::now())],
            ..RunSnapshot::default()
        }));
        let mut out = Vec::new();
        write_event(
            &mut out,
            &Event::RunRead { job: None, folder: "run".into(), snapshot: snapshot.clone() },
            false,
        )
        .unwrap();
        assert!(out.is_empty());
        write_event(&mut out, &Event::RunRead { job: Some(JobId(7)), folder, snapshot }, false).unwrap();
        let said: Option<Event> = frame::read(&mut &out[..]).unwrap();
        let names = |text: &str| text.contains("path") && text.contains("rename");
        assert!(matches!(&said, Some(Event::Warning { job: JobId(7), text }) if names(text)), "{said:?}");
    }

    #[test]
    fn memory_is_reported_when_it_changes_and_once_a_minute() {
        let mut memory = MemoryReporter::default();
        assert!(memory.is_due(0));
        memory.reported = Some((MEMORY_STEP, Instant::now()));
        assert!(!memory.is_due(MEMORY_STEP) && memory.is_due(0) && memory.is_due(2 * MEMORY_STEP));
        memory.reported = Instant::now().checked_sub(MAX_SILENCE).map(|then| (MEMORY_STEP, then));
        assert!(memory.is_due(MEMORY_STEP));
    }
}
