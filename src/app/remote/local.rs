//! The worker of a window in this program, until its GPU is lost: burn opens a GPU once in a process, and may wait for ever for one that
//! is lost. A separate process, which opens it anew, then takes the place of the threads.

use std::collections::VecDeque;
use std::io;
use std::iter::from_fn;
use std::time::Duration;

use super::pending::PendingRequests;
use super::{AnyWorker, Link};
use crate::app::crash;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Event, Request};
use crate::app::state::connection::Connection;
use crate::app::worker::{Waker, Worker, WorkerEnv};

/// The threads of this program, or the process in their place.
pub(super) struct LocalWorker {
    worker: Box<dyn AnyWorker>,
    /// What the process must be sent; absent once there is one.
    pending: Option<PendingRequests>,
    /// The last events of the threads.
    events: VecDeque<Event>,
    waker: Waker,
}

impl LocalWorker {
    pub(super) fn start(waker: Waker) -> io::Result<Self> {
        let worker = Worker::start(WorkerEnv::default(), waker.clone())?;
        Ok(Self::new(Box::new(worker), waker))
    }

    fn new(worker: Box<dyn AnyWorker>, waker: Waker) -> Self {
        Self { worker, pending: Some(PendingRequests::default()), events: VecDeque::new(), waker }
    }

    /// Puts a process in the place of the threads, if they still answer.
    fn replace(&mut self) {
        let Some(mut pending) = self.pending.take() else { return };
        // What has ended is not requested again, unless it failed, perhaps because the GPU was lost.
        let said = from_fn(|| self.worker.event()).filter(|event| !matches!(event, Event::Failed(..)));
        self.events.extend(said.filter_map(|event| pending.receive(event)));
        let lost = "The GPU was lost: it failed, its driver was reset, or it is gone";
        // The thread that trained holds the run's folder until this program ends.
        let remedy =
            "Restart the program, which reopens what is open now, and resume the run from its checkpoint";
        let error = UserError::new(lost).remedy(remedy);
        self.events.extend(pending.take_trainings().into_iter().map(|job| Event::Failed(job, error.clone())));
        let why =
            format!("{lost}. Everything on screen is kept, and a separate process computes from now on");
        let link = Link::in_place_of(pending, &why, self.waker.clone());
        std::mem::replace(&mut self.worker, Box::new(link)).end();
    }
}

impl AnyWorker for LocalWorker {
    fn send(&mut self, request: Request) {
        self.pending.iter_mut().for_each(|pending| pending.record(&request, true));
        self.worker.send(request);
    }

    fn recv_timeout(&mut self, at_most: Duration) -> Option<Event> {
        if crash::is_gpu_lost() {
            self.replace();
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let event = self.worker.recv_timeout(at_most)?;
        match &mut self.pending {
            Some(pending) => pending.receive(event),
            None => Some(event),
        }
    }

    fn connection(&mut self) -> Connection {
        self.worker.connection()
    }

    fn connect(&mut self) {
        self.worker.connect();
    }

    fn log(&mut self) -> Option<String> {
        self.worker.log()
    }

    fn end(self: Box<Self>) {
        self.worker.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::jobs::{Fetch, Files, JobId};

    /// A worker that has said these events and waits for ever.
    struct Hung(VecDeque<Event>);

    impl AnyWorker for Hung {
        fn send(&mut self, _: Request) {}

        fn recv_timeout(&mut self, _: Duration) -> Option<Event> {
            self.0.pop_front()
        }
    }

    #[test]
    fn what_a_lost_gpu_leaves_unanswered_a_process_is_sent_but_no_training() {
        let failed = Event::Failed(JobId(3), UserError::new("Device is lost"));
        let said = [Event::Started(JobId(1)), Event::Finished(JobId(2)), failed];
        let mut local = LocalWorker::new(Box::new(Hung(said.into())), Arc::new(|| {}));
        let images = |job| Request::Files(JobId(job), Files::OpenImages { paths: vec!["x.png".into()] });
        local.send(Request::Fetch(JobId(1), Fetch::Begin(Box::default())));
        (2..5).for_each(|job| local.send(images(job)));
        local.send(Request::Cancel(JobId(4)));
        assert_eq!(local.connection(), Connection::Here);
        local.replace();
        let Connection::Lost { host, why, was_connected: false, retry: Some(Duration::ZERO) } =
            local.connection()
        else {
            panic!("nobody takes the place")
        };
        assert!(host.is_here() && why.starts_with("The GPU was lost"), "{why}");
        let events: Vec<Event> = from_fn(|| local.event()).collect();
        let [
            Event::Started(_),
            Event::Finished(JobId(2)),
            Event::Failed(JobId(1), error),
            Event::Cancelled(JobId(4)),
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert!(error.remedy.as_ref().is_some_and(|remedy| remedy.contains("resume")), "{error}");
    }
}
