//! A worker in another process, on this machine or on another one through the user's own ssh: the messages on the pipe
//! ([`frame`], [`hello`]), the worker's end ([`serve`]) and the client's end ([`Remote`]). A window uses a [`Link`], which
//! never blocks and reconnects on its own.

mod address;
mod any_worker;
mod check;
mod error;
pub mod frame;
pub mod hello;
mod home;
mod install;
mod link;
mod local;
mod pending;
mod process;
pub mod serve;
mod silence;
mod ssh_config;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use self::address::DEFAULT_PROGRAM;
pub use self::address::WorkerAddress;
pub use self::any_worker::{AnyWorker, start};
pub use self::error::{RemoteError, RemoteErrorKind};
use self::error::{described, refused_by_ssh};
use self::frame::FrameError;
use self::hello::Hello;
pub use self::install::{INSTALLED, install};
pub use self::link::Link;
use self::process::{StderrTail, wait_or_kill};
use self::silence::{TIMES, Times, Watched};
pub use self::ssh_config::{hosts, user_config};
use super::jobs::user_error::UserError;
use super::jobs::{Event, Request};
use super::worker::Waker;
use super::worker::task_queue::TaskQueue;

/// Capacity of the queue of events that were received and not fetched; when it is full, the remote worker waits.
const EVENT_CAPACITY: usize = 16;
/// How long a worker may take to say hello: over ssh it logs in, starts from a shared disk and looks for devices.
const HELLO_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a worker may take to exit after its input is closed, before it is killed.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait for the rest of the standard error of a process that has ended, which says why; another may still hold it open.
const STDERR_TIMEOUT: Duration = Duration::from_secs(5);
/// The exit codes of a shell that did not find the program, or may not execute it.
const NO_PROGRAM: [i32; 2] = [127, 126];

/// A worker in a child process: requests go in through its standard input, events come out of its standard output.
/// Dropping it ends the worker and its jobs.
pub struct Remote {
    place: WorkerAddress,
    program: String,
    child: Child,
    /// The queue to the thread that writes to the pipe, whose end closes the pipe.
    requests: Arc<TaskQueue<Request>>,
    events: Receiver<Result<Event, FrameError>>,
    stderr: StderrTail,
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
        let spawned = place.command(program).and_then(|mut command| command.spawn());
        let child = spawned.map_err(|error| RemoteError::not_started(place, program, &error))?;
        Self::greet(place, program, child, TIMES, waker)
    }

    /// Greets the worker in a child process with three pipes.
    fn greet(
        place: &WorkerAddress,
        program: Option<&str>,
        mut child: Child,
        times: Times,
        waker: Waker,
    ) -> Result<Self, RemoteError> {
        let not_started = |error| RemoteError::not_started(place, program, &error);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three are pipes");
        };
        let (hello_sender, hello) = sync_channel(1);
        let (event_sender, events) = sync_channel(EVENT_CAPACITY);
        let (last_event, last_waker) = (event_sender.clone(), waker.clone());
        let stdout = Watched::new(stdout, times, move || {
            let _ = last_event.send(Err(FrameError::Silent)); // fails if the connection was closed meanwhile
            last_waker();
        })
        .map_err(not_started)?;
        let reading = Builder::new().name("remote events".into());
        let (reader_events, reader_waker) = (event_sender.clone(), waker.clone());
        reading
            .spawn(move || read_events(BufReader::new(stdout), &hello_sender, &reader_events, &reader_waker))
            .map_err(not_started)?;
        let mut remote = Self {
            place: place.clone(),
            program: program.unwrap_or(DEFAULT_PROGRAM).to_owned(),
            child,
            requests: Arc::default(),
            events,
            stderr: StderrTail::spawn(stderr, waker.clone()),
            hello: None,
        };
        let greeted = greeting(&hello, HELLO_TIMEOUT).and_then(|hello| {
            // From here on a closed pipe is a lost connection, no longer a failed start.
            remote.hello = Some(hello);
            let (mut to, compress) = (stdin, *place != WorkerAddress::Local);
            Hello::asking(compress).write(&mut to)?;
            let requests = remote.requests.clone();
            let writing = Builder::new().name("remote requests".into());
            writing
                .spawn(move || write_requests(to, compress, times.beat, &requests, &event_sender, &waker))?;
            Ok(())
        });
        greeted.map_err(|error| remote.failed(error))?;
        Ok(remote)
    }

    /// Sends a request; never blocks. One that cannot be serialised fails its job, and a lost connection the next look for an event.
    pub fn send(&self, request: Request) {
        // While the line is blocked, only the newest list of thumbnails waits. Lists of runs are all sent: a run missing from one of
        // them is read anew for the next.
        let is_list = |request: &Request| matches!(request, Request::Thumbnails { .. });
        let replaces = is_list(&request);
        self.requests.replace(request, |old| replaces && is_list(old));
    }

    /// Waits up to `at_most` for the next event.
    ///
    /// # Errors
    /// If the connection is lost, or a message is damaged: no more events follow.
    pub fn recv_timeout(&mut self, at_most: Duration) -> Result<Option<Event>, RemoteError> {
        self.receive(at_most).map_err(|error| self.failed(error))
    }

    /// [`recv_timeout`](Self::recv_timeout) without the wait for the process to end, which finds the cause of a failure.
    fn receive(&self, at_most: Duration) -> Result<Option<Event>, FrameError> {
        match self.events.recv_timeout(at_most) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(FrameError::Torn),
        }
    }

    /// Takes the lines of standard error that were not taken before.
    fn log(&self) -> VecDeque<String> {
        self.stderr.take_unread()
    }

    /// Closes the pipe, waits for the process to end, and finds the cause of a failure.
    fn failed(&mut self, error: FrameError) -> RemoteError {
        self.requests.close();
        // Another program, or one that hangs, may not exit when its input is closed.
        let exits = !matches!(error, FrameError::Foreign { .. } | FrameError::Silent);
        let timeout = if exits { TIMEOUT } else { Duration::ZERO };
        let ended = wait_or_kill(&mut self.child, timeout);
        let stderr = self.stderr.lines(STDERR_TIMEOUT);
        let code = ended.and_then(|status| status.code());
        let program = self.program.clone();
        let is_ssh = self.place != WorkerAddress::Local;
        let kind = match error {
            FrameError::Silent if self.hello.is_some() => {
                let status = format!("nothing has come for {} s", TIMES.silence.as_secs());
                RemoteErrorKind::Lost { status }
            }
            FrameError::Foreign { found } => RemoteErrorKind::Foreign { found },
            FrameError::Silent => RemoteErrorKind::Silent { program },
            FrameError::Protocol { found, version } => RemoteErrorKind::Protocol { found, version },
            FrameError::Large { .. } | FrameError::Damaged { .. } | FrameError::Unwritable { .. } => {
                RemoteErrorKind::Damaged { found: error.to_string() }
            }
            FrameError::Io(_) | FrameError::Torn if self.hello.is_some() => {
                RemoteErrorKind::lost(ended, is_ssh)
            }
            _ if is_ssh && let Some(kind) = refused_by_ssh(code, &stderr) => kind,
            _ if code.is_some_and(|code| NO_PROGRAM.contains(&code)) => {
                RemoteErrorKind::NoProgram { program }
            }
            _ => RemoteErrorKind::ended(program, ended, &stderr),
        };
        RemoteError { place: self.place.to_string(), kind, stderr }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.requests.close();
        // A worker that is writing events ends by that: nobody takes them any more.
        self.events = sync_channel(0).1;
        let _ = wait_or_kill(&mut self.child, TIMEOUT);
    }
}

/// Writes requests, and a heartbeat where none comes in `interval`, until the queue ends or the pipe fails, which the reading
/// thread reports.
fn write_requests(
    mut to: impl Write,
    compress: bool,
    interval: Duration,
    requests: &TaskQueue<Request>,
    events: &SyncSender<Result<Event, FrameError>>,
    waker: &Waker,
) {
    loop {
        let request = match requests.recv_timeout(interval) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) if frame::write_heartbeat(&mut to).is_ok() => continue,
            Err(_) => return,
        };
        let written = frame::write(&mut to, &request, compress).and_then(|()| Ok(to.flush()?));
        match (written, request.job()) {
            (Err(FrameError::Unwritable { found }), Some(job)) => {
                let error = UserError::new(format!("The request cannot be sent: {found}"));
                if events.send(Ok(Event::Failed(job, error))).is_err() {
                    return;
                }
                waker();
            }
            (Err(FrameError::Unwritable { .. }) | Ok(()), _) => {}
            (Err(_), _) => return,
        }
    }
}

/// Waits up to `timeout` for the hello.
fn greeting(hello: &Receiver<Result<Hello, FrameError>>, timeout: Duration) -> Result<Hello, FrameError> {
    hello.recv_timeout(timeout).unwrap_or_else(|error| match error {
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
    use crate::app::jobs::JobId;

    /// A client of a child process that greets, says `events`, and then does what the script says.
    #[cfg(unix)]
    fn remote(events: &[Event], script: &str, times: Times) -> Result<Remote, RemoteError> {
        use std::process::{Command, Stdio};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("says");
        let mut bytes = Vec::new();
        Hello::asking(false).write(&mut bytes).unwrap();
        events.iter().for_each(|event| frame::write(&mut bytes, event, false).unwrap());
        crate::model::io::atomic_file::write(&path, &bytes).unwrap();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("cat \"$0\"; {script}")).arg(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        Remote::greet(&WorkerAddress::Local, None, child, times, Arc::new(|| {}))
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_of_which_nothing_comes_for_minutes_is_lost() {
        // A busy machine may be silent for longer before it has started the shell.
        let silences = [2, 8, 32, 128].map(Duration::from_secs);
        let has_spoken = silences.into_iter().any(|silence| {
            let times = Times { silence, check: Duration::from_millis(100), ..TIMES };
            let Ok(mut remote) = remote(&[Event::Memory(1)], "exec sleep 600", times) else { return false };
            let mut next = || remote.recv_timeout(Duration::from_mins(5));
            let Ok(event) = next() else { return false };
            assert!(matches!(event, Some(Event::Memory(1))));
            let lost = next().unwrap_err().kind;
            assert!(matches!(&lost, RemoteErrorKind::Lost { status } if status.contains("180 s")), "{lost}");
            true
        });
        assert!(has_spoken, "its event does not arrive");
    }

    #[cfg(unix)]
    #[test]
    fn a_worker_whose_events_nobody_takes_any_more_is_not_waited_for() {
        // More than its pipe holds.
        let remote = remote(&vec![Event::Memory(1); 40_000], "exit", TIMES).unwrap();
        let begun = std::time::Instant::now();
        drop(remote);
        assert!(begun.elapsed() < TIMEOUT);
    }

    #[cfg(unix)]
    #[test]
    fn of_thumbnails_that_wait_for_the_line_only_the_newest_list_is_sent() {
        // The shell keeps its output open as long as there is input.
        let mut remote = remote(&[], "cat > /dev/null; exit", TIMES).unwrap();
        let open = std::mem::take(&mut remote.requests);
        let thumbnails = |side| Request::Thumbnails { wanted: Vec::new(), side };
        // Every other list is empty: it makes the worker forget what it has read of the run.
        let runs = |at: u32| Request::Follow(vec!["run".into(); at as usize % 2]);
        for at in 0..100 {
            remote.send(thumbnails(at));
            remote.send(runs(at));
        }
        open.close();
        remote.requests.close();
        let sent: Vec<Request> = std::iter::from_fn(|| remote.requests.recv()).collect();
        let expected = (0..99).map(runs).chain([thumbnails(99), runs(99)]);
        assert_eq!(sent, expected.collect::<Vec<_>>(), "of the lists of runs all are sent");
    }

    #[test]
    fn who_asks_for_nothing_sends_heartbeats() {
        use std::io::Read as _;
        let queue = TaskQueue::default();
        let ((mut from, to), (events, _received)) = (std::io::pipe().unwrap(), sync_channel(1));
        let interval = Duration::from_millis(1);
        let waker: Waker = Arc::new(|| {});
        let mut heartbeats = [1; 3 * 5];
        let request = std::thread::scope(|scope| {
            scope.spawn(|| write_requests(to, false, interval, &queue, &events, &waker));
            from.read_exact(&mut heartbeats).unwrap();
            queue.send(Request::Cancel(JobId(1)));
            queue.close();
            frame::read::<Request>(&mut from).unwrap()
        });
        assert_eq!((heartbeats, request), ([0; 3 * 5], Some(Request::Cancel(JobId(1)))));
    }

    #[test]
    fn a_worker_that_never_says_hello_is_not_waited_for_without_end() {
        let (sender, hello) = sync_channel(1);
        assert!(matches!(greeting(&hello, Duration::ZERO), Err(FrameError::Silent)));
        drop(sender);
        assert!(matches!(greeting(&hello, HELLO_TIMEOUT), Err(FrameError::Torn)));
    }
}
