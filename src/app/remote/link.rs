//! A worker elsewhere as a window asks it: no call waits. A connection that is lost is made again by itself, and the
//! worker at its other end is asked for what was open and for what has no answer yet.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::pending::PendingRequests;
use super::{Remote, RemoteError, RemoteErrorKind, WorkerAddress};
use crate::app::jobs::{Event, Request};
use crate::app::state::connection::{Connection, Host};
use crate::app::worker::Waker;
use crate::app::worker::task_queue::TaskQueue;

/// The longest time between two tries.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The way to a worker elsewhere. Dropping it ends the worker.
pub struct Link {
    host: Host,
    place: WorkerAddress,
    waker: Waker,
    phase: Phase,
    asked: PendingRequests,
    /// What is told in the worker's place.
    told: VecDeque<Event>,
    log: VecDeque<String>,
    /// Tries in a row that came to nothing, or to nothing that was answered.
    tries: u32,
    /// Whether it stood at some time.
    stood: bool,
    /// Why it does not stand, where it did not at the last look.
    why: Option<String>,
}

/// How far it has come.
enum Phase {
    /// It is being made.
    Starting(Receiver<Result<Remote, RemoteError>>),
    /// It stands.
    Up { remote: Box<Remote>, requests: TaskQueue<Request>, hello: String },
    /// It is lost; it is found out why.
    Ending(Receiver<RemoteError>),
    /// It is made again then, if by itself.
    Down(Option<Instant>),
}

impl Link {
    /// Begins to connect. `waker` is called whenever there is something to hear.
    ///
    /// # Errors
    /// If the host names no place.
    pub fn start(host: Host, waker: Waker) -> Result<Self, String> {
        let place = host.place.parse().map_err(|why| format!("{}: {why}", host.place))?;
        let (told, log) = (VecDeque::new(), VecDeque::new());
        let (asked, phase) = (PendingRequests::default(), Phase::Down(None));
        let mut link =
            Self { host, place, waker, phase, asked, told, log, tries: 0, stood: false, why: None };
        link.connect();
        Ok(link)
    }

    /// Tries now what is tried again later, or by nobody.
    pub fn connect(&mut self) {
        if !matches!(self.phase, Phase::Down(_)) {
            return;
        }
        let (place, program, waker) = (self.place.clone(), self.host.program.clone(), self.waker.clone());
        let start = move || Remote::with_waker(&place, program.as_deref(), waker);
        self.phase = match beside(&self.waker, "connect", start) {
            Ok(outcome) => Phase::Starting(outcome),
            Err(error) => return self.down(self.not_started(&error)),
        };
    }

    /// How it stands.
    pub fn connection(&mut self) -> Connection {
        self.advance();
        let host = self.host.clone();
        let lost =
            |why: &str, retry| Connection::Lost { host, why: why.to_owned(), stood: self.stood, retry };
        match (&self.phase, &self.why) {
            (Phase::Up { hello, .. }, _) => {
                Connection::Connected { host: self.host.clone(), hello: hello.clone() }
            }
            (Phase::Starting(_), None) => Connection::Connecting(self.host.clone()),
            (Phase::Starting(_), Some(why)) => lost(why, Some(Duration::ZERO)),
            (Phase::Ending(_), why) => lost(why.as_deref().unwrap_or_default(), Some(Duration::ZERO)),
            (Phase::Down(at), why) => {
                // In whole seconds: what is shown changes once a second.
                let left = at.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f64().ceil());
                lost(why.as_deref().unwrap_or_default(), left.map(|left| Duration::from_secs(left as u64)))
            }
        }
    }

    /// What the worker said beside its answers.
    pub fn log(&mut self) -> Option<String> {
        if let Phase::Up { remote, .. } = &self.phase {
            self.log.extend(remote.log());
        }
        self.log.pop_front()
    }

    /// Takes a request; of one that nobody hears now, whoever comes next is asked.
    pub fn send(&mut self, request: Request) {
        let waits = self.asked.waits();
        let hears = matches!(self.phase, Phase::Up { .. }) && !waits;
        self.asked.sent(&request, hears);
        match &mut self.phase {
            Phase::Up { requests, .. } if hears => requests.send(request),
            _ => self.told.extend(self.asked.ended()),
        }
    }

    /// The next event, if one comes in time.
    pub fn soon(&mut self, at_most: Duration) -> Option<Event> {
        self.advance();
        loop {
            if let Some(event) = self.told.pop_front() {
                return Some(event);
            }
            let Phase::Up { remote, requests, .. } = &mut self.phase else { return None };
            requests.pump();
            match remote.hear(at_most) {
                Ok(Some(event)) => {
                    self.tries = tries_after(&event, self.tries);
                    let news = self.asked.heard(event);
                    self.asked.rest().into_iter().for_each(|request| requests.send(request));
                    if news.is_some() {
                        return news;
                    }
                }
                Ok(None) => return None,
                Err(error) => self.lost(|remote| remote.failed(error)),
            }
        }
    }

    /// Goes on with what was begun.
    fn advance(&mut self) {
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
                    let status = "nobody knows how it ended".to_owned();
                    self.down(self.error(RemoteErrorKind::Lost { status }));
                }
            },
            Phase::Down(Some(at)) if *at <= Instant::now() => self.connect(),
            Phase::Down(_) | Phase::Up { .. } => {}
        }
    }

    /// Somebody is there: asks for what is to be asked.
    fn up(&mut self, mut remote: Box<Remote>) {
        let hello = remote.hello.as_ref().map(ToString::to_string).unwrap_or_default();
        match remote.queue() {
            Ok(mut requests) => {
                let first = self.asked.again();
                first.into_iter().chain(self.asked.rest()).for_each(|request| requests.send(request));
                self.phase = Phase::Up { remote, requests, hello };
                (self.stood, self.why) = (true, None);
            }
            Err(error) => self.down(self.not_started(&error)),
        }
    }

    /// Nobody is there any more: `why` finds out why.
    fn lost(&mut self, why: impl FnOnce(&mut Remote) -> RemoteError + Send + 'static) {
        let Phase::Up { mut remote, requests, .. } = std::mem::replace(&mut self.phase, Phase::Down(None))
        else {
            return;
        };
        drop(requests);
        self.log.extend(remote.log());
        self.told.extend(self.asked.lost());
        let find_out = move || why(&mut remote);
        match beside(&self.waker, "far end", find_out) {
            Ok(outcome) => self.phase = Phase::Ending(outcome),
            Err(error) => self.down(self.not_started(&error)),
        }
    }

    fn down(&mut self, error: RemoteError) {
        let tries = match error.fault {
            RemoteErrorKind::Protocol { .. } => false,
            _ => self.stood || error.fault.may_pass(),
        };
        let wait = wait_after(self.tries);
        self.tries += 1;
        self.why = Some(error.to_string());
        self.phase = Phase::Down(tries.then(|| Instant::now() + wait));
    }

    fn error(&self, fault: RemoteErrorKind) -> RemoteError {
        RemoteError { place: self.place.to_string(), fault, said: Vec::new() }
    }

    fn not_started(&self, error: &io::Error) -> RemoteError {
        let program = self.place.starter(self.host.program.as_deref());
        self.error(RemoteErrorKind::NotStarted { program, why: error.to_string() })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Phase::Up { remote, requests, .. } = std::mem::replace(&mut self.phase, Phase::Down(None)) else {
            return;
        };
        drop(requests);
        // It ends with its input; a window does not wait for that. Nor does this program, whose end closes the pipe.
        let _ = Builder::new().name("far end".into()).spawn(move || drop(remote));
    }
}

/// Tries in a row that came to nothing, once this is heard: a job that comes to its end shows that the way stands.
fn tries_after(event: &Event, tries: u32) -> u32 {
    if matches!(event, Event::Finished(_)) { 0 } else { tries }
}

/// How long nobody tries after so many tries in a row before this one came to nothing: a second, then twice as long each time.
fn wait_after(tries: u32) -> Duration {
    Duration::from_secs(1 << tries.min(10)).min(MAX_WAIT)
}

/// Does something that takes its time on a thread of its own; what comes of it.
fn beside<T: Send + 'static>(
    waker: &Waker,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (tell, told) = sync_channel(1);
    let waker = waker.clone();
    let run = move || {
        // Whoever asked may be gone: then what came of it ends here.
        let _ = tell.send(work());
        waker();
    };
    Builder::new().name(name.into()).spawn(run)?;
    Ok(told)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::jobs::JobId;

    /// A link that was never made.
    fn link() -> Link {
        let host = Host { place: "local".to_owned(), program: None };
        let (told, log) = (VecDeque::new(), VecDeque::new());
        let (asked, phase, place) = (PendingRequests::default(), Phase::Down(None), WorkerAddress::Local);
        let waker: Waker = Arc::new(|| {});
        Link { host, place, waker, phase, asked, told, log, tries: 0, stood: false, why: None }
    }

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_half_a_minute() {
        let seconds = [0, 1, 2, 3, 4, 5, 6, 40, u32::MAX].map(|tries| wait_after(tries).as_secs());
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
            // It is said in whole seconds, rounded up, and nobody tries before they are over.
            let Connection::Lost { retry, why, .. } = link.connection() else { panic!("it is lost") };
            assert_eq!(retry, Some(wait), "{why}");
        }
        // One job done, and the next try comes as soon as the first did; what has begun is not done.
        assert_eq!(tries_after(&Event::Started(JobId(1)), link.tries), 7);
        assert_eq!(wait_after(tries_after(&Event::Finished(JobId(1)), link.tries)), Duration::from_secs(1));
        // What does not pass by itself is tried by nobody, unless it stood before; another version never is.
        let ended = || RemoteErrorKind::Ended { program: "ssmprobe".to_owned(), status: "1".to_owned() };
        let other = || RemoteErrorKind::Protocol { found: 0, version: "0".to_owned() };
        for (stood, fault, again) in
            [(false, ended(), false), (true, ended(), true), (true, other(), false), (false, lost(), true)]
        {
            link.stood = stood;
            link.down(link.error(fault));
            assert_eq!(matches!(link.phase, Phase::Down(Some(_))), again);
        }
    }
}
