//! The window's connection to a worker in another process: no call blocks. A lost connection is made again without the
//! window's help, and the new worker is sent everything that was open and every request without an answer.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::pending::PendingRequests;
use super::{AnyWorker, Remote, RemoteError, RemoteErrorKind, WorkerAddress, described};
use crate::app::jobs::similarity::{self, SimilarityRequest};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Compute, Event, JobId, Request};
use crate::app::state::connection::{Connection, Host};
use crate::app::worker::Waker;

/// The longest delay between two attempts to connect.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// A connection to a worker in another process. Dropping it ends the worker.
pub struct Link {
    host: Host,
    place: WorkerAddress,
    waker: Waker,
    phase: Phase,
    pending: PendingRequests,
    /// Events made here in the worker's place, as for jobs cancelled while it is away.
    local_events: VecDeque<Event>,
    /// Comparisons of images, which are made here, with their last events.
    comparisons: Vec<(JobId, Receiver<Vec<Event>>)>,
    log: VecDeque<String>,
    /// Attempts in a row that failed, or whose connection was soon lost, before a job finished other than one that opens again what was
    /// open.
    attempts: u32,
    /// Whether a connection was ever established.
    was_connected: bool,
    /// The error of the last attempt or connection; cleared once connected.
    last_error: Option<String>,
}

enum Phase {
    /// A thread is connecting.
    Starting(Receiver<Result<Remote, RemoteError>>),
    /// Connected, and since when.
    Up { remote: Box<Remote>, hello: String, since: Instant },
    /// Lost; a thread is finding out why.
    Ending(Receiver<RemoteError>),
    /// Not connected. The next attempt is at this time; absent if only the user starts one.
    Down(Option<Instant>),
}

impl Link {
    /// Begins to connect. `waker` is called whenever there may be an event or a change of the connection.
    ///
    /// # Errors
    /// If the host's address is not valid.
    pub fn start(host: Host, waker: Waker) -> Result<Self, String> {
        let place = host.place.parse().map_err(|why| format!("{}: {why}", host.place))?;
        let mut link = Self::new(host, place, waker);
        link.connect();
        Ok(link)
    }

    /// A process on this machine that takes the place of a worker and answers what is `pending` there; `why` that one is lost.
    pub(super) fn in_place_of(pending: PendingRequests, why: &str, waker: Waker) -> Self {
        let host = Host { place: WorkerAddress::Local.word(), program: None };
        let mut link = Self::new(host, WorkerAddress::Local, waker);
        (link.pending, link.last_error) = (pending, Some(why.to_owned()));
        link.local_events.extend(link.pending.lost());
        link.phase = Phase::Down(Some(Instant::now()));
        link
    }

    fn new(host: Host, place: WorkerAddress, waker: Waker) -> Self {
        Self {
            host,
            place,
            waker,
            phase: Phase::Down(None),
            pending: PendingRequests::default(),
            local_events: VecDeque::new(),
            comparisons: Vec::new(),
            log: VecDeque::new(),
            attempts: 0,
            was_connected: false,
            last_error: None,
        }
    }

    /// Compares images on a thread here: the vectors of 50,000 are here already, and take seconds to send and 0.2 s to compare.
    fn compare(&mut self, job: JobId, spec: SimilarityRequest) {
        let compare = move || match UserError::catch(|| anyhow::Ok(similarity::run(&spec))) {
            Ok(space) => vec![Event::ImagesCompared(job, space), Event::Finished(job)],
            Err(error) => vec![Event::Failed(job, error)],
        };
        match spawn_task(&self.waker, "similarity", compare) {
            Ok(outcome) => {
                self.local_events.push_back(Event::Started(job));
                self.comparisons.push((job, outcome));
            }
            Err(error) => self.local_events.push_back(Event::Failed(job, UserError::from_error(error))),
        }
    }

    /// Collects the outcome of a thread that compares, connects or closes, and connects again when it is time.
    fn advance(&mut self) {
        for (job, outcome) in std::mem::take(&mut self.comparisons) {
            match outcome.try_recv() {
                Ok(ended) => self.local_events.extend(ended),
                Err(_) => self.comparisons.push((job, outcome)),
            }
        }
        match &self.phase {
            Phase::Starting(outcome) => match outcome.try_recv() {
                Ok(Ok(remote)) => self.up(Box::new(remote)),
                Ok(Err(error)) => self.down(error),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.down(self.not_started(&io::Error::other("the thread that connects has failed")));
                }
            },
            Phase::Ending(outcome) => match outcome.try_recv() {
                Ok(error) => self.down(error),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    self.down(self.error(RemoteErrorKind::Lost { status: described(None) }));
                }
            },
            Phase::Down(Some(at)) if *at <= Instant::now() => self.connect(),
            Phase::Down(_) | Phase::Up { .. } => {}
        }
    }

    /// Connected: sends what the new worker must be asked.
    fn up(&mut self, remote: Box<Remote>) {
        let hello = remote.hello.as_ref().map(ToString::to_string).unwrap_or_default();
        let reopening = self.pending.reopen_requests();
        let all = reopening.into_iter().chain(self.pending.deferred_requests());
        all.for_each(|request| remote.send(request));
        self.phase = Phase::Up { remote, hello, since: Instant::now() };
        (self.was_connected, self.last_error) = (true, None);
    }

    /// The connection is lost: a thread runs `find_cause`, which may block.
    fn lost(&mut self, find_cause: impl FnOnce(&mut Remote) -> RemoteError + Send + 'static) {
        let Phase::Up { mut remote, since, .. } = std::mem::replace(&mut self.phase, Phase::Down(None))
        else {
            return;
        };
        self.attempts = attempts_after_loss(since.elapsed(), self.attempts);
        self.log.extend(remote.log());
        self.local_events.extend(self.pending.lost());
        match spawn_task(&self.waker, "remote end", move || find_cause(&mut remote)) {
            Ok(outcome) => self.phase = Phase::Ending(outcome),
            Err(error) => self.down(self.not_started(&error)),
        }
    }

    /// Records a failure and schedules the next attempt, if another one may succeed.
    fn down(&mut self, error: RemoteError) {
        let retries = match error.kind {
            // Logins that are refused again and again may block this user there.
            RemoteErrorKind::Protocol { .. }
            | RemoteErrorKind::TooOld { .. }
            | RemoteErrorKind::ChangedHostKey
            | RemoteErrorKind::NewHostKey
            | RemoteErrorKind::Denied => false,
            _ => self.was_connected || error.kind.is_transient(),
        };
        let delay = retry_delay(self.attempts);
        self.attempts += 1;
        self.last_error = Some(error.to_string());
        self.phase = Phase::Down(retries.then(|| Instant::now() + delay));
    }

    fn error(&self, kind: RemoteErrorKind) -> RemoteError {
        RemoteError { place: self.place.to_string(), kind, stderr: Vec::new() }
    }

    fn not_started(&self, error: &io::Error) -> RemoteError {
        RemoteError::not_started(&self.place, self.host.program.as_deref(), error)
    }
}

impl AnyWorker for Link {
    /// Enqueues a request. While there is no connection, it is kept for the next worker.
    fn send(&mut self, request: Request) {
        let request = match request {
            Request::Compute(job, Compute::Similarity(spec)) => return self.compare(job, spec),
            Request::Cancel(job) if self.comparisons.iter().any(|(compares, _)| *compares == job) => {
                self.comparisons.retain(|(compares, _)| *compares != job);
                return self.local_events.push_back(Event::Cancelled(job));
            }
            other => other,
        };
        let delivers = matches!(self.phase, Phase::Up { .. }) && !self.pending.deferring;
        self.pending.record(&request, delivers);
        match &mut self.phase {
            Phase::Up { remote, .. } if delivers => remote.send(request),
            _ => self.local_events.extend(self.pending.take_ended()),
        }
    }

    fn recv_timeout(&mut self, at_most: Duration) -> Option<Event> {
        self.advance();
        loop {
            if let Some(event) = self.local_events.pop_front() {
                return Some(event);
            }
            let Phase::Up { remote, .. } = &mut self.phase else { return None };
            match remote.receive(at_most) {
                Ok(Some(event)) => {
                    let event = self.pending.receive(event);
                    self.attempts = attempts_after(event.as_ref(), self.attempts);
                    self.pending.deferred_requests().into_iter().for_each(|request| remote.send(request));
                    if event.is_some() {
                        return event;
                    }
                }
                Ok(None) => return None,
                Err(error) => self.lost(|remote| remote.failed(error)),
            }
        }
    }

    fn connection(&mut self) -> Connection {
        self.advance();
        let host = self.host.clone();
        let lost = |why: &str, retry| Connection::Lost {
            host,
            why: why.to_owned(),
            was_connected: self.was_connected,
            retry,
        };
        match (&self.phase, &self.last_error) {
            (Phase::Up { hello, .. }, _) => {
                Connection::Connected { host: self.host.clone(), hello: hello.clone() }
            }
            (Phase::Starting(_), None) => Connection::Connecting(self.host.clone()),
            (Phase::Starting(_), Some(why)) => lost(why, Some(Duration::ZERO)),
            (Phase::Ending(_), why) => lost(why.as_deref().unwrap_or_default(), Some(Duration::ZERO)),
            (Phase::Down(at), why) => {
                // In whole seconds, so that the text changes once a second.
                let left = at.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f64().ceil());
                lost(why.as_deref().unwrap_or_default(), left.map(|left| Duration::from_secs(left as u64)))
            }
        }
    }

    fn connect(&mut self) {
        if !matches!(self.phase, Phase::Down(_)) {
            return;
        }
        let (place, program, waker) = (self.place.clone(), self.host.program.clone(), self.waker.clone());
        let start = move || Remote::with_waker(&place, program.as_deref(), waker);
        self.phase = match spawn_task(&self.waker, "connect", start) {
            Ok(outcome) => Phase::Starting(outcome),
            Err(error) => return self.down(self.not_started(&error)),
        };
    }

    fn log(&mut self) -> Option<String> {
        if let Phase::Up { remote, .. } = &self.phase {
            self.log.extend(remote.log());
        }
        self.log.pop_front()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Phase::Up { remote, .. } = std::mem::replace(&mut self.phase, Phase::Down(None)) else { return };
        // The worker ends when its input is closed, also by the end of this program; a thread waits for it, not the window.
        let _ = Builder::new().name("remote end".into()).spawn(move || drop(remote));
    }
}

/// The count of failed attempts after what the window gets of an event: a job that finished shows that the connection works.
fn attempts_after(event: Option<&Event>, attempts: u32) -> u32 {
    if matches!(event, Some(Event::Finished(_))) { 0 } else { attempts }
}

/// The count of failed attempts after losing a connection that `lasted` this long: one that outlasted any delay worked, even if
/// nothing finished meanwhile, as while a training is followed.
fn attempts_after_loss(lasted: Duration, attempts: u32) -> u32 {
    if lasted > MAX_RETRY_DELAY { 0 } else { attempts }
}

/// The delay after a failure that `attempts` others preceded: a second, doubled each time up to [`MAX_RETRY_DELAY`].
fn retry_delay(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.min(10)).min(MAX_RETRY_DELAY)
}

/// Runs blocking work on a thread of its own. The receiver gets its result; `waker` is called then.
fn spawn_task<T: Send + 'static>(
    waker: &Waker,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = sync_channel(1);
    let waker = waker.clone();
    let run = move || {
        // The link may have been dropped: then the result is dropped here.
        let _ = sender.send(work());
        waker();
    };
    Builder::new().name(name.into()).spawn(run)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use half::f16;

    use super::*;
    use crate::model::explain::evaluation::similarity::Similarity;
    use crate::model::explain::evaluation::vectors::TokenVectors;
    use crate::model::grid::Grid;

    /// A link that never connected.
    fn link() -> Link {
        let host = Host { place: "local".to_owned(), program: None };
        Link::new(host, WorkerAddress::Local, Arc::new(|| {}))
    }

    #[test]
    fn images_are_compared_here_whoever_is_connected() {
        let mut link = link();
        let vectors = TokenVectors::new([1.0, 0.0, 0.0, 1.0].map(f16::from_f32).into());
        let spec = SimilarityRequest { vectors, grid: Grid::new(1, 2), similarity: Similarity::Cosine };
        let compare = |job: u64| Request::Compute(JobId(job), Compute::Similarity(spec.clone()));
        link.send(compare(1));
        link.send(compare(2));
        link.send(Request::Cancel(JobId(2)));
        let (mut events, begun) = (Vec::new(), Instant::now());
        while !matches!(events.last(), Some(Event::Finished(_))) && begun.elapsed() < Duration::from_mins(5) {
            events.extend(link.recv_timeout(Duration::ZERO));
        }
        let [Event::Started(JobId(1)), Event::Started(JobId(2)), rest @ ..] = &events[..] else {
            panic!("{events:?}")
        };
        let [Event::Cancelled(JobId(2)), Event::ImagesCompared(JobId(1), space), Event::Finished(JobId(1))] =
            rest
        else {
            panic!("{events:?}")
        };
        assert_eq!(**space, *similarity::run(&spec));
    }

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_half_a_minute() {
        let seconds = [0, 1, 2, 3, 4, 5, 6, 40, u32::MAX].map(|attempts| retry_delay(attempts).as_secs());
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn what_may_pass_is_tried_again_ever_more_seldom() {
        let lost = || RemoteErrorKind::Lost { status: "gone".to_owned() };
        let mut link = link();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            let before = Instant::now();
            link.down(link.error(lost()));
            let Phase::Down(Some(at)) = link.phase else { panic!("nobody tries again") };
            let (least, most) = (before, Instant::now());
            let wait = Duration::from_secs(seconds);
            assert!(least + wait <= at && at <= most + wait, "{seconds} s");
            // Shown in whole seconds, rounded up; the next attempt is not earlier.
            let Connection::Lost { retry, why, .. } = link.connection() else { panic!("it is lost") };
            assert_eq!(retry, Some(wait), "{why}");
        }
        // A finished job resets the delay; a started one does not.
        let attempts = |event| attempts_after(event, link.attempts);
        assert_eq!([attempts(Some(&Event::Started(JobId(1)))), attempts(None)], [7, 7]);
        assert_eq!(retry_delay(attempts(Some(&Event::Finished(JobId(1))))), Duration::from_secs(1));
        // So does a connection that outlasted the longest delay.
        let lasted = [MAX_RETRY_DELAY, 2 * MAX_RETRY_DELAY];
        assert_eq!(lasted.map(|lasted| attempts_after_loss(lasted, link.attempts)), [7, 0]);
        // A permanent failure is retried only if there was a connection before; another protocol never is.
        let ended = || RemoteErrorKind::Ended { program: "ssmprobe".to_owned(), status: "1".to_owned() };
        let other = || RemoteErrorKind::Protocol { found: 0, version: "0".to_owned() };
        for (was_connected, kind, retries) in [
            (false, ended(), false),
            (true, ended(), true),
            (true, other(), false),
            (false, lost(), true),
            (true, RemoteErrorKind::Denied, false),
        ] {
            link.was_connected = was_connected;
            link.down(link.error(kind));
            assert_eq!(matches!(link.phase, Phase::Down(Some(_))), retries);
        }
    }
}
