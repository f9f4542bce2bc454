//! The worker: one thread that owns every tensor, some that read files, and the handle to them.
//!
//! The compute thread opens backbones and probes, explains and trains, and answers short requests between two training
//! steps; the file thread lists folders and decodes thumbnails, so that neither waits for the other; a third watches run
//! folders; a download or a plan has a thread of its own. The queue of events is bounded, no call of the handle blocks
//! (except [`Worker::recv_timeout`], up to its timeout), and nothing is shared with the window but each job's cancellation
//! flag ([`Cancel`]).

mod compute;
mod detached;
mod event_sender;
mod fetch;
mod files;
mod follower;
mod growing_log;
mod run_watcher;
pub(in crate::app) mod task_queue;
mod tasks;
mod train_report;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use self::event_sender::EventSender;
use self::files::{FileReader, ThumbnailQueue};
use self::run_watcher::RunWatcher;
use self::task_queue::TaskQueue;
use super::jobs::engine::Engine;
pub use super::jobs::engine::WorkerEnv;
use super::jobs::user_error::UserError;
use super::jobs::{Cancel, Compute, Event, Fetch, JobId, Request};

/// Called after every event, from any thread: requests a frame of the window.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// How long a shutdown waits for a job that does not react; a training was saved after its last epoch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Capacity of the event queue, beyond which the worker waits.
const EVENT_CAPACITY: usize = 256;

/// The handle to the worker's threads. Dropping it shuts them down ([`shutdown`](Self::shutdown)).
pub struct Worker {
    compute: Arc<TaskQueue<compute::Task>>,
    files: Arc<TaskQueue<files::Task>>,
    runs: Arc<TaskQueue<Vec<PathBuf>>>,
    /// Absent once the worker is shut down.
    events: Option<Receiver<Event>>,
    cancels: HashMap<JobId, Cancel>,
    /// The flags of the latest explanation, thumbnails and plan: a newer request cancels them.
    explaining: Cancel,
    thumbnails: Cancel,
    planning: Cancel,
    /// Set at shutdown: the threads begin nothing more.
    closing: Cancel,
    sender: EventSender,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Starts the threads; an error if one cannot be started. `waker` is called after every event.
    pub fn start(env: WorkerEnv, waker: Waker) -> std::io::Result<Self> {
        Self::with_queue(env, waker, EVENT_CAPACITY, false)
    }

    /// [`start`](Self::start) with an event queue of another capacity, whose events go over a connection if it `is_remote`.
    pub fn with_queue(
        env: WorkerEnv,
        waker: Waker,
        capacity: usize,
        is_remote: bool,
    ) -> std::io::Result<Self> {
        let (event_sender, events) = sync_channel(capacity);
        let mut worker = Self {
            compute: Arc::default(),
            files: Arc::default(),
            runs: Arc::default(),
            events: Some(events),
            cancels: HashMap::new(),
            explaining: Cancel::default(),
            thumbnails: Cancel::default(),
            planning: Cancel::default(),
            closing: Cancel::default(),
            sender: EventSender::new(event_sender, waker, is_remote),
            threads: Vec::new(),
        };
        let (sender, closing) = (worker.sender.clone(), worker.closing.clone());
        let queue = compute::Queue::new(sender.clone(), closing.clone(), worker.compute.clone());
        let reader = FileReader::new(env, sender.clone(), closing.clone())?;
        let watcher = RunWatcher::new(sender, closing);
        let (files, runs) = (worker.files.clone(), worker.runs.clone());
        worker.spawn("compute", move || queue.run(Engine::new(env)))?;
        worker.spawn("files", move || reader.run(&files))?;
        worker.spawn("runs", move || watcher.run(&runs))?;
        Ok(worker)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.threads.push(Builder::new().name(name.into()).spawn(work)?);
        Ok(())
    }

    /// Sends a request; never blocks.
    pub fn send(&mut self, request: Request) {
        let cancel = Cancel::default();
        if let Some(job) = request.job() {
            self.cancels.insert(job, cancel.clone());
        }
        let supersede = |latest: &mut Cancel| std::mem::replace(latest, cancel.clone()).cancel();
        match request {
            Request::Compute(id, kind) => {
                if matches!(kind, Compute::Explain(_)) {
                    supersede(&mut self.explaining);
                }
                let kind = compute::Kind::Compute(kind);
                self.compute.send(compute::Task::Run(compute::Job { id, kind, cancel }));
            }
            Request::Fetch(job, kind) => {
                if matches!(kind, Fetch::Plan(_)) {
                    supersede(&mut self.planning);
                }
                self.fetch(job, kind, cancel);
            }
            Request::Files(job, kind) => self.files.send(files::Task::Run(job, kind, cancel)),
            Request::Thumbnails { wanted, side } => {
                supersede(&mut self.thumbnails);
                // Unlike a job it has no end that must be sent, so an older list that waits is dropped.
                let wanted = ThumbnailQueue { images: wanted.into(), side, cancel };
                let is_old = |task: &files::Task| matches!(task, files::Task::Thumbnails(_));
                self.files.replace(files::Task::Thumbnails(wanted), is_old);
            }
            Request::Follow(folders) => self.runs.send(folders),
            Request::Cancel(job) => {
                self.cancels.get(&job).into_iter().for_each(Cancel::cancel);
                self.compute.send(compute::Task::Cancel(job));
            }
            Request::Pause(job, rest) => self.compute.send(compute::Task::Pause(job, rest)),
            Request::CloseBackbone(entry) => self.compute.send(compute::Task::CloseBackbone(entry)),
            Request::CloseProbe(entry) => self.compute.send(compute::Task::CloseProbe(entry)),
        }
    }

    /// Prepares a request on a thread of its own, as a download may take an hour, then passes it on to the compute thread.
    /// A shutdown does not wait for the thread: the part of a download that has arrived is kept.
    fn fetch(&self, job: JobId, kind: Fetch, cancel: Cancel) {
        let (to_compute, sender) = (self.compute.clone(), self.sender.clone());
        let fetching = Builder::new().name("fetch".into());
        let closing = self.closing.clone();
        let fetch = move || fetch::fetch(&sender, &to_compute, job, kind, cancel, &closing);
        if let Err(error) = fetching.spawn(fetch) {
            self.sender.try_send(Event::Failed(job, UserError::from_error(error)));
        }
    }

    /// The next event, if there is one; never blocks. To be called once a frame until there is none.
    pub fn event(&mut self) -> Option<Event> {
        self.recv_timeout(Duration::ZERO)
    }

    /// Waits up to `at_most` for the next event.
    pub fn recv_timeout(&mut self, at_most: Duration) -> Option<Event> {
        let event = self.events.as_ref()?.recv_timeout(at_most).ok()?;
        if let Event::Finished(job) | Event::Failed(job, _) | Event::Cancelled(job) = &event {
            self.cancels.remove(job);
        }
        Some(event)
    }

    /// Cancels every job, ends all threads and waits for them; not longer than [`TIMEOUT`] for one that is blocked, by a
    /// file whose reading never ends: that thread ends with the program.
    pub fn shutdown(&mut self) {
        // First: it tells the follower of a detached training that the cancellation below is not meant for the training.
        self.closing.cancel();
        self.cancels.values().for_each(Cancel::cancel);
        self.thumbnails.cancel();
        self.compute.close();
        self.files.close();
        self.runs.close();
        // Unblocks a thread that waits for room in the event queue.
        self.events = None;
        let begun = Instant::now();
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && begun.elapsed() < TIMEOUT {
                sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // A panic outside a job was printed to standard error.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shutdown();
    }
}
