//! The worker: one thread that owns every tensor, some that read files, and the handle to them.
//!
//! The compute thread opens backbones and probes, answers looks and trains, looks between two steps;
//! the file thread lists folders and decodes thumbnails, so that neither waits for the other; a third
//! follows the folders of runs; a download or a plan has a thread of its own.
//! All queues are bounded, no call of the handle waits (but `soon`, as long as it is told), and nothing is shared with the window but
//! the flag of each job that asks it to end ([`Cancel`]).

mod compute;
mod detached;
mod event_sender;
mod fetch;
mod files;
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
use self::files::{FileReader, Wanted};
use self::run_watcher::Follower;
use self::task_queue::TaskQueue;
use super::jobs::engine::Engine;
pub use super::jobs::engine::WorkerEnv;
use super::jobs::{Cancel, Compute, Event, Fetch, JobId, Request};
use super::user_error::UserError;

/// What is called after every event, from any thread: it asks the window for a frame.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// How long the end waits for a job that does not notice; a training was saved after its last epoch.
const PATIENCE: Duration = Duration::from_secs(10);

/// Events that wait to be fetched before the worker waits itself.
const EVENTS: usize = 256;

/// The handle to the worker's threads. Dropping it ends them and waits for it.
pub struct Worker {
    compute: TaskQueue<compute::Task>,
    files: TaskQueue<files::Task>,
    runs: TaskQueue<Vec<PathBuf>>,
    /// Absent once the worker is shut down.
    events: Option<Receiver<Event>>,
    cancels: HashMap<JobId, Cancel>,
    /// The look, the thumbnails and the plan that a newer one ends.
    looking: Cancel,
    shrinking: Cancel,
    planning: Cancel,
    /// Tells the threads to begin nothing more.
    closing: Cancel,
    outbox: EventSender,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Starts the threads. `waker` is called whenever there are events to fetch.
    pub fn start(world: WorkerEnv, waker: Waker) -> std::io::Result<Self> {
        Self::with_room(world, waker, EVENTS)
    }

    /// [`start`](Self::start) with room for so many events that wait to be fetched before the worker waits itself.
    pub fn with_room(world: WorkerEnv, waker: Waker, room: usize) -> std::io::Result<Self> {
        let (event_sender, events) = sync_channel(room);
        let outbox = EventSender::new(event_sender, waker);
        let closing = Cancel::default();
        let (compute, tasks) = TaskQueue::new();
        let queue = compute::Queue::new(outbox.clone(), closing.clone(), tasks);
        let computing = Builder::new().name("compute".into()).spawn(move || queue.run(Engine::new(world)))?;
        let (files, tasks) = TaskQueue::new();
        let reader = FileReader::new(world, outbox.clone(), closing.clone())?;
        let reading = Builder::new().name("files".into()).spawn(move || reader.run(&tasks))?;
        let (runs, tasks) = TaskQueue::new();
        let follower = Follower::new(outbox.clone(), closing.clone());
        let following = Builder::new().name("runs".into()).spawn(move || follower.run(&tasks))?;
        Ok(Self {
            compute,
            files,
            runs,
            events: Some(events),
            cancels: HashMap::new(),
            looking: Cancel::default(),
            shrinking: Cancel::default(),
            planning: Cancel::default(),
            closing,
            outbox,
            threads: vec![computing, reading, following],
        })
    }

    /// Sends a request; never waits.
    pub fn send(&mut self, request: Request) {
        let cancel = Cancel::default();
        if let Some(job) = request.job() {
            self.cancels.insert(job, cancel.clone());
        }
        let newest = |before: &mut Cancel| std::mem::replace(before, cancel.clone()).cancel();
        match request {
            Request::Compute(id, kind) => {
                if matches!(kind, Compute::Explain(_)) {
                    newest(&mut self.looking);
                }
                let kind = compute::Kind::Asked(kind);
                self.compute.send(compute::Task::Do(compute::Job { id, kind, cancel }));
            }
            Request::Fetch(job, kind) => {
                if matches!(kind, Fetch::Plan(_)) {
                    newest(&mut self.planning);
                }
                self.fetch(job, kind, cancel);
            }
            Request::Files(job, kind) => self.files.send(files::Task::Do(job, kind, cancel)),
            Request::Thumbnails { wanted, side } => {
                newest(&mut self.shrinking);
                // Only one list waits: it has no answer of its own, unlike a job.
                let wanted = Wanted { images: wanted.into(), side, cancel };
                let old = |task: &files::Task| matches!(task, files::Task::Thumbnails(_));
                self.files.replace(files::Task::Thumbnails(wanted), old);
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

    /// Finds out what has to be known first, on a thread of its own as a download may take an hour,
    /// then asks the compute thread. It is not waited for at the end: what has arrived by then is kept.
    fn fetch(&self, job: JobId, kind: Fetch, cancel: Cancel) {
        let (Some(to_compute), outbox) = (self.compute.sender(), self.outbox.clone()) else { return };
        let fetching = Builder::new().name("fetch".into());
        let closing = self.closing.clone();
        let fetch = move || fetch::fetch(&outbox, &to_compute, job, kind, cancel, &closing);
        if let Err(error) = fetching.spawn(fetch) {
            self.outbox.try_tell(Event::Failed(job, UserError::from_error(error)));
        }
    }

    /// Sends many.
    pub fn send_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        requests.into_iter().for_each(|request| self.send(request));
    }

    /// The next event, if there is one; never waits. To be called until there is none, once a frame.
    pub fn event(&mut self) -> Option<Event> {
        self.compute.pump();
        self.files.pump();
        self.runs.pump();
        let event = self.events.as_ref()?.try_recv().ok()?;
        Some(self.heard(event))
    }

    /// The next event, if one comes in time.
    pub fn soon(&mut self, at_most: Duration) -> Option<Event> {
        self.compute.pump();
        self.files.pump();
        self.runs.pump();
        let event = self.events.as_ref()?.recv_timeout(at_most).ok()?;
        Some(self.heard(event))
    }

    fn heard(&mut self, event: Event) -> Event {
        if let Event::Finished(job) | Event::Failed(job, _) | Event::Cancelled(job) = &event {
            self.cancels.remove(job);
        }
        event
    }

    /// Ends every job and all threads, and waits until the running job notices; not for one that is held
    /// up for longer than [`PATIENCE`], by a file that is never read to its end: it ends with the program.
    pub fn shutdown(&mut self) {
        // First, as it says to a training apart that the rest does not mean it.
        self.closing.cancel();
        self.cancels.values().for_each(Cancel::cancel);
        self.looking.cancel();
        self.shrinking.cancel();
        self.compute.close();
        self.files.close();
        self.runs.close();
        // A thread that waits for room among the events is let go.
        self.events = None;
        let begun = Instant::now();
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && begun.elapsed() < PATIENCE {
                sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                // A thread that panicked outside a job has said so on standard error.
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
