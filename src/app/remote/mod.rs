//! The worker at the other end of a pipe: what goes through it ([`frame`], [`hello`]), who serves ([`serve`]) and who
//! asks ([`Remote`]), here as a child process or on another machine through the user's own ssh. A window asks through
//! a [`Link`], which never waits and connects again by itself.

mod address;
mod error;
pub mod frame;
pub mod hello;
mod install;
mod link;
mod pending;
mod process;
pub mod serve;
mod ssh_config;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

pub use self::address::WorkerAddress;
pub use self::error::{RemoteError, RemoteErrorKind};
use self::frame::FrameError;
use self::hello::Hello;
pub use self::install::{INSTALLED, install};
pub use self::link::Link;
use self::process::{Tail, ended};
pub use self::ssh_config::{hosts, user_config};
use super::jobs::{Event, Request};
use super::user_error::UserError;
use super::worker::Waker;
use super::worker::task_queue::TaskQueue;

/// Events that wait to be fetched; then the far worker waits.
const EVENTS: usize = 16;
/// How long a worker may take to end by itself; it looks between two steps whether it should.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the last words of a process that has ended may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What ssh ends with where it failed itself.
const SSH_FAILED: i32 = 255;
/// What a shell ends with where it has no such program, or may not run it.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// A worker that is asked through a pipe: requests go in, events come out, as with one in this process. Dropping it
/// ends it, and with it what it does.
pub struct Remote {
    place: WorkerAddress,
    program: String,
    child: Child,
    /// Absent once nothing more is asked.
    requests: Option<ChildStdin>,
    events: Receiver<Result<Event, FrameError>>,
    tell: SyncSender<Result<Event, FrameError>>,
    said: Tail,
    waker: Waker,
    /// Who is at the other end; nobody before it has said so.
    pub hello: Option<Hello>,
}

impl Remote {
    /// Starts the worker `program` at a place, and waits until it has said who it is.
    ///
    /// # Errors
    /// If it cannot be reached, is not there, or speaks another protocol; the message says what to do.
    pub fn start(place: &WorkerAddress, program: Option<&str>) -> Result<Self, RemoteError> {
        Self::with_waker(place, program, Arc::new(|| {}))
    }

    /// [`start`](Self::start); `waker` is called whenever there is something to hear.
    fn with_waker(place: &WorkerAddress, program: Option<&str>, waker: Waker) -> Result<Self, RemoteError> {
        let not_started = |error: std::io::Error| RemoteError {
            place: place.to_string(),
            fault: RemoteErrorKind::NotStarted { program: place.starter(program), why: error.to_string() },
            said: Vec::new(),
        };
        let mut child =
            place.command(program).and_then(|mut command| command.spawn()).map_err(not_started)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three are pipes");
        };
        let (tell_hello, hello) = sync_channel(1);
        let (tell, events) = sync_channel(EVENTS);
        let reading = Builder::new().name("far events".into());
        let (teller, wake) = (tell.clone(), waker.clone());
        reading
            .spawn(move || listen(BufReader::new(stdout), &tell_hello, &teller, &wake))
            .map_err(not_started)?;
        let mut remote = Self {
            place: place.clone(),
            program: WorkerAddress::program(program).to_owned(),
            child,
            requests: Some(stdin),
            events,
            tell,
            said: Tail::of(stderr, waker.clone()),
            waker,
            hello: None,
        };
        let hello = hello.recv().unwrap_or(Err(FrameError::Torn)).map_err(|error| remote.failed(error))?;
        // From here on whoever goes is lost: it was there.
        remote.hello = Some(hello);
        let greeted = remote
            .requests
            .as_mut()
            .map_or(Err(FrameError::Torn), |to| Hello::asking(place.packs()).write(to));
        greeted.map_err(|error| remote.failed(error))?;
        Ok(remote)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If nobody is at the other end any more.
    pub fn send(&mut self, request: &Request) -> Result<(), RemoteError> {
        let sent = self.requests.as_mut().map_or(Err(FrameError::Torn), |to| {
            frame::write(to, request, self.place.packs())?;
            Ok(to.flush()?)
        });
        sent.map_err(|error| self.failed(error))
    }

    /// The next event, if one comes in time.
    ///
    /// # Errors
    /// If the connection is lost, or what came is damaged: nothing more comes then.
    pub fn soon(&mut self, at_most: Duration) -> Result<Option<Event>, RemoteError> {
        self.hear(at_most).map_err(|error| self.failed(error))
    }

    /// [`soon`](Self::soon), without finding out why nothing more comes.
    fn hear(&mut self, at_most: Duration) -> Result<Option<Event>, FrameError> {
        match self.events.recv_timeout(at_most) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(FrameError::Torn),
        }
    }

    /// From now on requests are written by a thread of its own, for who must not wait. Dropping the queue closes the pipe.
    fn queue(&mut self) -> std::io::Result<TaskQueue<Request>> {
        let (queue, requests) = TaskQueue::new();
        let (to, packs, tell) = (self.requests.take(), self.place.packs(), self.tell.clone());
        let writing = Builder::new().name("far requests".into());
        let waker = self.waker.clone();
        writing.spawn(move || to.into_iter().for_each(|to| ask(to, packs, &requests, &tell, &waker)))?;
        Ok(queue)
    }

    /// What it said on standard error since this was last asked.
    fn log(&self) -> VecDeque<String> {
        self.said.unheard()
    }

    /// Closes the pipe, and finds out what has happened.
    fn failed(&mut self, error: FrameError) -> RemoteError {
        self.requests = None;
        // Whoever speaks something else need not notice that nobody listens.
        let patience = if matches!(error, FrameError::Foreign { .. }) { Duration::ZERO } else { PATIENCE };
        let status = ended(&mut self.child, patience);
        let said = self.said.lines(LAST_WORDS);
        let code = status.and_then(|status| status.code());
        let program = self.program.clone();
        let is_ssh = self.place != WorkerAddress::Local;
        let status = status.map_or_else(|| "nobody knows how it ended".into(), |status| status.to_string());
        let fault = match error {
            FrameError::Foreign { found } => RemoteErrorKind::Foreign { found },
            FrameError::Protocol { found, version } => RemoteErrorKind::Protocol { found, version },
            FrameError::Large { .. } | FrameError::Damaged { .. } | FrameError::Unwritable { .. } => {
                RemoteErrorKind::Damaged { found: error.to_string() }
            }
            FrameError::Io(_) | FrameError::Torn if self.hello.is_some() => RemoteErrorKind::Lost { status },
            _ if is_ssh && let Some(fault) = refused_by_ssh(code, &said) => fault,
            _ if code.is_some_and(|code| NO_PROGRAM.contains(&code)) => {
                RemoteErrorKind::NoProgram { program }
            }
            _ => RemoteErrorKind::Ended { program, status },
        };
        RemoteError { place: self.place.to_string(), fault, said }
    }
}

/// Why ssh ended with a code of its own, by what it said; nothing where the code is that of what it started.
fn refused_by_ssh(code: Option<i32>, said: &[String]) -> Option<RemoteErrorKind> {
    let says = |words: &str| said.iter().any(|line| line.contains(words));
    (code == Some(SSH_FAILED)).then(|| match () {
        () if says("Host key verification failed") => RemoteErrorKind::HostKey,
        () if says("Permission denied") => RemoteErrorKind::Denied,
        () => RemoteErrorKind::Unreachable,
    })
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.requests = None;
        let _ = ended(&mut self.child, PATIENCE);
    }
}

/// Writes requests until nobody has more, or nobody reads them: who listens says so.
fn ask(
    mut to: ChildStdin,
    packs: bool,
    requests: &Receiver<Option<Request>>,
    tell: &SyncSender<Result<Event, FrameError>>,
    waker: &Waker,
) {
    for request in requests.iter().flatten() {
        let written = frame::write(&mut to, &request, packs).and_then(|()| Ok(to.flush()?));
        match (written, request.job()) {
            (Err(FrameError::Unwritable { found }), Some(job)) => {
                let error = UserError::new(format!("It cannot be asked for elsewhere: {found}"));
                if tell.send(Ok(Event::Failed(job, error))).is_err() {
                    return;
                }
            }
            (Err(FrameError::Unwritable { .. }) | Ok(()), _) => {}
            (Err(_), _) => return,
        }
        waker(); // there is room for one more
    }
}

/// Reads the greeting, then events, until the pipe is closed at either end, which is the last that is told.
fn listen(
    mut from: impl BufRead,
    hello: &SyncSender<Result<Hello, FrameError>>,
    events: &SyncSender<Result<Event, FrameError>>,
    waker: &Waker,
) {
    let greeted = Hello::read(&mut from);
    let goes_on = greeted.is_ok();
    if hello.send(greeted).is_err() || !goes_on {
        return;
    }
    loop {
        let event = frame::read(&mut from).transpose().unwrap_or(Err(FrameError::Torn));
        let goes_on = event.is_ok();
        if events.send(event).is_err() {
            return;
        }
        waker();
        if !goes_on {
            return;
        }
    }
}
