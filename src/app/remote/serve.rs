//! The worker alone, for who asks through a pipe: requests come on standard input, events go out on standard output,
//! and nothing else does. The end of the input ends it, whatever it is doing.

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
use crate::app::worker::{Worker, WorkerEnv};

/// Events that wait before the worker waits itself: each may be a file.
const ROOM: usize = 16;
/// How often it looks at its memory.
const LOOK: Duration = Duration::from_secs(2);
/// Less of it, in bytes, is no news.
const MEMORY_STEP: u64 = 1 << 20;
/// Requests and wake-ups that wait.
const TURNS: usize = 64;

/// What happens next.
enum Turn {
    Ask(Request),
    /// There may be events.
    Tell,
    /// Nobody asks any more.
    End(Option<FrameError>),
}

/// Serves until the input ends.
///
/// # Errors
/// If the other side speaks another protocol, sends what is no request, or goes before it has heard all.
pub fn serve() -> anyhow::Result<()> {
    let mut out = BufWriter::new(output().context("standard output cannot be had")?);
    Hello::serving().write(&mut out).context("the other side has gone")?;
    let packs = match Hello::read(&mut io::stdin().lock()) {
        Ok(theirs) => theirs.packs,
        Err(FrameError::Protocol { found, version }) => bail!(
            "the other side speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}); update the \
             older one",
            env!("CARGO_PKG_VERSION")
        ),
        Err(error) => {
            return Err(
                anyhow::Error::new(error).context("no program greets; `ssmprobe` asks this one by itself")
            );
        }
    };
    let (turn, turns) = sync_channel(TURNS);
    let waker = turn.clone();
    // Where there is no room, something waits after which events are looked for anyway.
    let waker = Arc::new(move || drop(waker.try_send(Turn::Tell)));
    let mut worker = Worker::with_room(WorkerEnv::default(), waker, ROOM)
        .context("cannot start the threads that compute")?;
    let listening = Builder::new().name("requests".into());
    listening.spawn(move || listen(&turn)).context("cannot start the thread that listens")?;
    let mut memory = Memory::default();
    loop {
        match turns.recv_timeout(LOOK) {
            Ok(Turn::Ask(request)) => worker.send(request),
            Ok(Turn::Tell) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Turn::End(None)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Turn::End(Some(error))) => return Err(error.into()),
        }
        while let Some(event) = worker.event() {
            tell(&mut out, &event, packs)?;
        }
        if let Some(bytes) = memory.news() {
            tell(&mut out, &Event::Memory(bytes), packs)?;
        }
        out.flush()?;
    }
}

/// What was told of this program's memory, and when it was looked at.
#[derive(Default)]
struct Memory {
    told: u64,
    looked: Option<Instant>,
}

impl Memory {
    /// What it takes, where that is news.
    fn news(&mut self) -> Option<u64> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return None;
        }
        self.looked = Some(Instant::now());
        let bytes = process_memory::resident().filter(|bytes| bytes.abs_diff(self.told) >= MEMORY_STEP)?;
        self.told = bytes;
        Some(bytes)
    }
}

/// Tells an event; of one that cannot be written down, why.
fn tell(out: &mut impl Write, event: &Event, packs: bool) -> Result<(), FrameError> {
    match (frame::write(out, event, packs), event.job()) {
        (Err(FrameError::Unwritable { found }), Some(job)) => {
            let text = format!("Something cannot be told: {found}");
            frame::write(out, &Event::Warning { job, text }, packs)
        }
        (told, _) => told,
    }
}

fn listen(turn: &SyncSender<Turn>) {
    let mut from = io::stdin();
    loop {
        let next = match frame::read(&mut from) {
            Ok(Some(request)) => Turn::Ask(request),
            Ok(None) => Turn::End(None),
            Err(error) => Turn::End(Some(error)),
        };
        let ends = matches!(next, Turn::End(_));
        if turn.send(next).is_err() || ends {
            return;
        }
    }
}

/// Standard output for messages alone: whatever else prints, a driver too, prints to standard error from now on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn output() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both numbers are open files of this process, whose names are swapped; nothing owns the first alone.
    #[expect(unsafe_code, reason = "a call of C that makes one number of a file mean another file")]
    let told = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if told < 0 { Err(io::Error::last_os_error()) } else { Ok(own.into()) }
}

/// Standard output, where the system offers no way to keep it for messages alone; the program itself prints nothing.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn output() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}
