//! A worker in another process, on this machine or on another one through the user's own ssh: the messages on the pipe
//! ([`frame`], [`hello`]), the worker's end ([`serve`]) and the client's end ([`Remote`]). A window uses a [`Link`], which
//! never blocks and reconnects on its own.

mod address;
mod check;
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
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use self::address::DEFAULT_PROGRAM;
pub use self::address::WorkerAddress;
pub use self::error::{RemoteError, RemoteErrorKind};
use self::frame::FrameError;
use self::hello::Hello;
pub use self::install::{INSTALLED, install};
pub use self::link::Link;
use self::process::{Heard, StderrTail, wait_or_kill};
pub use self::ssh_config::{hosts, user_config};
use super::jobs::{Event, Request};
use super::user_error::UserError;
use super::worker::Waker;
use super::worker::task_queue::TaskQueue;

/// Capacity of the queue of events that were received and not fetched; when it is full, the far worker waits.
const EVENT_CAPACITY: usize = 16;
/// How long a worker may take to say hello: over ssh it logs in, starts from a shared disk and looks for devices.
const HELLO_PATIENCE: Duration = Duration::from_mins(2);
/// How long nothing may come of a worker that reports its memory, which it does at least once a minute. `ssh` notices a lost network
/// sooner, but not where it shares a connection that another `ssh` of the user keeps.
const MAX_SILENCE: Duration = Duration::from_mins(3);
/// How long a worker may take to exit after its input is closed, before it is killed.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait for the rest of the standard error of a process that has ended.
const STDERR_PATIENCE: Duration = Duration::from_secs(1);
/// The exit code of ssh for failures of its own.
const SSH_FAILED: i32 = 255;
/// The exit codes of a shell that did not find the program, or may not execute it.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// A worker in a child process: requests go in through its standard input, events come out of its standard output.
/// Dropping it ends the worker and its jobs.
pub struct Remote {
    place: WorkerAddress,
    program: String,
    child: Child,
    /// Absent once it is closed, or a thread writes to it ([`queue`](Self::queue)).
    requests: Option<ChildStdin>,
    events: Receiver<Result<Event, FrameError>>,
    event_sender: SyncSender<Result<Event, FrameError>>,
    stderr: StderrTail,
    /// When anything last came.
    heard: Arc<Mutex<Instant>>,
    /// Whether the worker reports its memory, which not every system tells it.
    reports_memory: bool,
    /// The first look at which nothing had come for long; `None` once something has.
    doubted: Option<Instant>,
    waker: Waker,
    /// The worker's hello; absent until it has arrived.
    pub hello: Option<Hello>,
}

impl Remote {
    /// Starts a worker, by default `ssmprobe`, or this executable if local, and waits for its hello.
    ///
    /// # Errors
    /// If the machine is not reached, the program is missing, does not answer or speaks another protocol; the message says
    /// what to do.
    pub fn start(place: &WorkerAddress, program: Option<&str>) -> Result<Self, RemoteError> {
        Self::with_waker(place, program, Arc::new(|| {}))
    }

    /// [`start`](Self::start); `waker` is called after every event and every line of standard error.
    fn with_waker(place: &WorkerAddress, program: Option<&str>, waker: Waker) -> Result<Self, RemoteError> {
        let not_started = |error: std::io::Error| RemoteError {
            place: place.to_string(),
            fault: RemoteErrorKind::NotStarted { program: place.executable(program), why: error.to_string() },
            said: Vec::new(),
        };
        let mut child =
            place.command(program).and_then(|mut command| command.spawn()).map_err(not_started)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three are pipes");
        };
        let (hello_sender, hello) = sync_channel(1);
        let (event_sender, events) = sync_channel(EVENT_CAPACITY);
        let reading = Builder::new().name("far events".into());
        let (reader_events, reader_waker) = (event_sender.clone(), waker.clone());
        let heard = Arc::new(Mutex::new(Instant::now()));
        let stdout = Heard { from: stdout, last: heard.clone() };
        reading
            .spawn(move || read_events(BufReader::new(stdout), &hello_sender, &reader_events, &reader_waker))
            .map_err(not_started)?;
        let mut remote = Self {
            place: place.clone(),
            program: program.unwrap_or(DEFAULT_PROGRAM).to_owned(),
            child,
            requests: Some(stdin),
            events,
            event_sender,
            stderr: StderrTail::spawn(stderr, waker.clone()),
            heard,
            reports_memory: false,
            doubted: None,
            waker,
            hello: None,
        };
        let hello = greeting(&hello, HELLO_PATIENCE).map_err(|error| remote.failed(error))?;
        // From here on a closed pipe is a lost connection, no longer a failed start.
        remote.hello = Some(hello);
        let greeted = remote
            .requests
            .as_mut()
            .map_or(Err(FrameError::Torn), |to| Hello::asking(place.compresses()).write(to));
        greeted.map_err(|error| remote.failed(error))?;
        Ok(remote)
    }

    /// Writes a request to the pipe.
    ///
    /// # Errors
    /// If the connection is lost, or the request cannot be serialised.
    pub fn send(&mut self, request: &Request) -> Result<(), RemoteError> {
        let sent = self.requests.as_mut().map_or(Err(FrameError::Torn), |to| {
            frame::write(to, request, self.place.compresses())?;
            Ok(to.flush()?)
        });
        sent.map_err(|error| self.failed(error))
    }

    /// Waits up to `at_most` for the next event.
    ///
    /// # Errors
    /// If the connection is lost, or a message is damaged: no more events follow.
    pub fn soon(&mut self, at_most: Duration) -> Result<Option<Event>, RemoteError> {
        self.receive(at_most).map_err(|error| self.failed(error))
    }

    /// [`soon`](Self::soon) without the wait for the process to end, which finds the cause of a failure.
    fn receive(&mut self, at_most: Duration) -> Result<Option<Event>, FrameError> {
        let received = self.events.recv_timeout(at_most);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match received {
            Ok(event) => {
                // A window that was hidden fetches what came long ago.
                (*heard, self.doubted) = (Instant::now(), None);
                self.reports_memory |= matches!(event, Ok(Event::Memory(_)));
                event.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => {
                let silent = self.reports_memory && heard.elapsed() > MAX_SILENCE;
                // After a sleep this process has yet to read what came, and the network may be away for some seconds.
                self.doubted = self.doubted.filter(|_| silent).or_else(|| silent.then(Instant::now));
                let is_lost = self.doubted.is_some_and(|since| since.elapsed() > PATIENCE);
                if is_lost { Err(FrameError::Silent) } else { Ok(None) }
            }
            Err(RecvTimeoutError::Disconnected) => Err(FrameError::Torn),
        }
    }

    /// Moves the writing of requests to a thread, so that sending never blocks. Dropping the queue closes the pipe.
    fn queue(&mut self) -> std::io::Result<TaskQueue<Request>> {
        let (queue, requests) = TaskQueue::new();
        let (to, compress, events) =
            (self.requests.take(), self.place.compresses(), self.event_sender.clone());
        let writing = Builder::new().name("far requests".into());
        let waker = self.waker.clone();
        writing.spawn(move || {
            if let Some(to) = to {
                write_requests(to, compress, &requests, &events, &waker);
            }
        })?;
        Ok(queue)
    }

    /// Takes the lines of standard error that were not taken before.
    fn log(&self) -> VecDeque<String> {
        self.stderr.take_unread()
    }

    /// Closes the pipe, waits for the process to end, and finds the cause of a failure.
    fn failed(&mut self, error: FrameError) -> RemoteError {
        self.requests = None;
        // Another program, or one that hangs, may not exit when its input is closed.
        let exits = !matches!(error, FrameError::Foreign { .. } | FrameError::Silent);
        let patience = if exits { PATIENCE } else { Duration::ZERO };
        let status = wait_or_kill(&mut self.child, patience);
        let said = self.stderr.lines(STDERR_PATIENCE);
        let code = status.and_then(|status| status.code());
        let program = self.program.clone();
        let is_ssh = self.place != WorkerAddress::Local;
        let status = status.map_or_else(|| "exit status unknown".into(), |status| status.to_string());
        let fault = match error {
            FrameError::Silent if self.hello.is_some() => {
                let status = format!("nothing has come for {} s", MAX_SILENCE.as_secs());
                RemoteErrorKind::Lost { status }
            }
            FrameError::Foreign { found } => RemoteErrorKind::Foreign { found },
            FrameError::Silent => RemoteErrorKind::Silent { program },
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

/// Why ssh failed, by its messages; `None` if the exit code is that of the remote command.
fn refused_by_ssh(code: Option<i32>, said: &[String]) -> Option<RemoteErrorKind> {
    let says = |text: &str| said.iter().any(|line| line.contains(text));
    (code == Some(SSH_FAILED)).then(|| match () {
        () if says("Host key for") && says("has changed") => RemoteErrorKind::ChangedHostKey,
        () if says("Host key verification failed") => RemoteErrorKind::NewHostKey,
        () if says("Permission denied") || says("Too many authentication failures") => {
            RemoteErrorKind::Denied
        }
        () => RemoteErrorKind::Unreachable,
    })
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.requests = None;
        let _ = wait_or_kill(&mut self.child, PATIENCE);
    }
}

/// Writes requests until the queue is dropped or the pipe fails, which the reading thread reports.
fn write_requests(
    mut to: ChildStdin,
    compress: bool,
    requests: &Receiver<Option<Request>>,
    events: &SyncSender<Result<Event, FrameError>>,
    waker: &Waker,
) {
    for request in requests.iter().flatten() {
        let written = frame::write(&mut to, &request, compress).and_then(|()| Ok(to.flush()?));
        match (written, request.job()) {
            (Err(FrameError::Unwritable { found }), Some(job)) => {
                let error = UserError::new(format!("The request cannot be sent: {found}"));
                if events.send(Ok(Event::Failed(job, error))).is_err() {
                    return;
                }
            }
            (Err(FrameError::Unwritable { .. }) | Ok(()), _) => {}
            (Err(_), _) => return,
        }
        waker(); // the queue has room for one more
    }
}

/// Waits up to `patience` for the hello.
fn greeting(hello: &Receiver<Result<Hello, FrameError>>, patience: Duration) -> Result<Hello, FrameError> {
    hello.recv_timeout(patience).unwrap_or_else(|error| match error {
        RecvTimeoutError::Timeout => Err(FrameError::Silent),
        RecvTimeoutError::Disconnected => Err(FrameError::Torn),
    })
}

/// Reads the hello, then events, until the pipe fails or is closed: the last item sent is that error.
fn read_events(
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
        let event = frame::read(&mut from).transpose().unwrap_or(Err(FrameError::Torn)).map(check::checked);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_is_refused_is_told_from_a_machine_that_is_not_there() {
        let fault = |said: &str| refused_by_ssh(Some(SSH_FAILED), &[said.to_owned()]);
        let refused = [
            "me@gpu1: Permission denied (publickey).",
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
        ];
        assert!(refused.iter().all(|said| fault(said) == Some(RemoteErrorKind::Denied)));
        let absent = fault("ssh: connect to host gpu1 port 22: Connection timed out");
        assert_eq!(absent, Some(RemoteErrorKind::Unreachable));
        assert_eq!(refused_by_ssh(Some(1), &[]), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_of_which_nothing_comes_for_minutes_is_lost() {
        use std::io::Read as _;
        use std::process::{Command, Stdio};
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (event_sender, events) = sync_channel(1);
        let mut remote = Remote {
            place: WorkerAddress::Local,
            program: "cat".to_owned(),
            requests: child.stdin.take(),
            stderr: StderrTail::spawn(child.stderr.take().unwrap(), Arc::new(|| {})),
            child,
            events,
            event_sender,
            heard: Arc::new(Mutex::new(Instant::now())),
            reports_memory: false,
            doubted: None,
            waker: Arc::new(|| {}),
            hello: Some(Hello::default()),
        };
        let long_ago = Instant::now().checked_sub(MAX_SILENCE + PATIENCE);
        let receive = |remote: &mut Remote, event: Option<Event>| {
            *remote.heard.lock().unwrap() = long_ago.unwrap();
            event.into_iter().for_each(|event| remote.event_sender.send(Ok(event)).unwrap());
            remote.receive(Duration::ZERO).map(|event| event.is_some())
        };
        // Not every worker reports its memory, and a window fetches late what came in time.
        assert!(matches!(receive(&mut remote, None), Ok(false)));
        assert!(matches!(receive(&mut remote, Some(Event::Memory(1))), Ok(true)));
        assert!(matches!(remote.receive(Duration::ZERO), Ok(None)));
        assert!(matches!(receive(&mut remote, None), Ok(false)));
        assert!(matches!(receive(&mut remote, None), Ok(false)), "at the next look");
        remote.doubted = long_ago;
        let silent = receive(&mut remote, None).unwrap_err();
        let lost = remote.failed(silent).fault;
        assert!(matches!(&lost, RemoteErrorKind::Lost { status } if status.contains("180 s")), "{lost}");
        // A byte is a sign of life.
        let heard = Arc::new(Mutex::new(long_ago.unwrap()));
        Heard { from: &b"x"[..], last: heard.clone() }.read_exact(&mut [0]).unwrap();
        assert!(heard.lock().unwrap().elapsed() < PATIENCE);
    }

    #[test]
    fn a_worker_that_never_says_hello_is_not_waited_for_without_end() {
        let (sender, hello) = sync_channel(1);
        assert!(matches!(greeting(&hello, Duration::ZERO), Err(FrameError::Silent)));
        drop(sender);
        assert!(matches!(greeting(&hello, HELLO_PATIENCE), Err(FrameError::Torn)));
    }
}
