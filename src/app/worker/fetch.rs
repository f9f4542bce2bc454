//! Long work before the compute thread is needed, as downloading a backbone: each request has a thread of its own.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::compute::{Job, Kind, Task};
use super::event_sender::{EventSender, JobEvents};
use super::task_queue::TaskQueue;
use super::{detached, tasks};
use crate::app::jobs::engine::BackboneSpec;
use crate::app::jobs::extract::MAX_TIMED_IMAGES;
use crate::app::jobs::train::{self, TimeSpec, TrainPlan, TrainSettings, TrainSpec, TrainingError};
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Cancel, Event, Fetch, JobId, Reporter as _, fetch};
use crate::app::paths;
use crate::app::submit::{Plan, submission};
use crate::model::backbone::config::Config;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::train::run::Run;

/// Held while a training is planned, which may read a large dataset: every change of a form asks for another plan.
static PLANNING: Mutex<()> = Mutex::new(());
/// How long a plan waits for another, which may never end: that of a dataset on a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at whether the other has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The turn of one plan: the next may be made once this is dropped.
struct PlanTurn {
    _held: Option<MutexGuard<'static, ()>>,
}

/// Waits until no other plan is made, but not longer than [`TIMEOUT`]; `None` if this one is not wanted any more.
fn wait_for_turn(cancel: &Cancel) -> Option<PlanTurn> {
    let begun = Instant::now();
    loop {
        let held = match PLANNING.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if cancel.is_cancelled() {
            return None;
        } else if held.is_some() || begun.elapsed() >= TIMEOUT {
            return Some(PlanTurn { _held: held });
        }
        sleep(POLL_INTERVAL);
    }
}

/// Carries out a request: what the engine computes is prepared for the compute thread, where the job continues; what other processes do
/// is followed to its end.
pub(super) fn fetch(
    sender: &EventSender,
    to_compute: &TaskQueue<Task>,
    id: JobId,
    kind: Fetch,
    cancel: Cancel,
    closing: &Cancel,
) {
    let job = FetchJob { sender, to_compute, id, cancel };
    match kind {
        Fetch::OpenBackbone { entry, source, device, options } => job.prepare(|events| {
            let folder = fetch::backbone(&source, events)?;
            // An invalid folder is refused here, before the backbone in use is dropped for it.
            Config::open(&folder)?;
            Preprocessor::open(&folder)?;
            Ok(Kind::OpenBackbone(BackboneSpec { entry, folder, device, options }))
        }),
        Fetch::Plan(settings) => job.prepare(|events| plan(*settings, events)),
        Fetch::Begin(settings) => job.prepare(|events| {
            let backbone = fetch::backbone(&settings.backbone, events)?;
            let plan = TrainPlan::new(*settings, backbone)?;
            let out = plan.settings.out.clone().or_else(|| paths::run("run")).ok_or(TrainingError::NoOut)?;
            submission::check_free(&out)?;
            Ok(Kind::Train(Box::new(TrainSpec { plan, out, resume: false })))
        }),
        Fetch::Resume { folder: out, device, cache } => job.prepare(|events| {
            let run = Run::open(&out)?;
            let mut settings = TrainSettings::of_run(&run)?;
            settings.tokens.cache = settings.tokens.cache.or(cache);
            settings.device = device.unwrap_or(settings.device);
            let backbone = fetch::backbone(&settings.backbone, events)?;
            let plan = TrainPlan { settings, backbone, heads: run.manifest.heads };
            Ok(Kind::Train(Box::new(TrainSpec { plan, out, resume: true })))
        }),
        Fetch::PlanTasks(request) => job.follow(|events| {
            if let Some(_turn) = wait_for_turn(events.cancel()) {
                events.training(TrainEvent::TasksPlanned(tasks::plan(&request)?));
            }
            Ok(())
        }),
        Fetch::SubmitTasks(request) => job.follow(|events| {
            events.training(TrainEvent::TasksSubmitted(tasks::begin(&request)?));
            Ok(())
        }),
        Fetch::RetryTasks(folder) => job.follow(|events| {
            events.training(TrainEvent::Retried(submission::retry(&mut Plan::open(&folder)?)?));
            Ok(())
        }),
        Fetch::EndTasks(folder) => job.follow(|_| submission::cancel(&Plan::open(&folder)?)),
        Fetch::Detached(request) => job.follow(|events| detached::run(&request, events, closing)),
    }
}

/// A request that is carried out.
struct FetchJob<'a> {
    sender: &'a EventSender,
    to_compute: &'a TaskQueue<Task>,
    id: JobId,
    cancel: Cancel,
}

impl FetchJob<'_> {
    /// Downloads and checks what is needed before the engine computes.
    fn prepare(self, work: impl FnOnce(&mut JobEvents) -> anyhow::Result<Kind>) {
        let Self { sender, to_compute, id, cancel } = self;
        let mut events = JobEvents::new(sender, id, &cancel);
        match UserError::catch(|| work(&mut events)) {
            _ if cancel.is_cancelled() => sender.send(Event::Cancelled(id)),
            Ok(kind) => to_compute.send(Task::Run(Job { id, kind, cancel })),
            Err(error) => sender.fail(id, error),
        }
    }

    /// Runs what other processes do, so that the engine computes nothing.
    fn follow(self, work: impl FnOnce(&mut JobEvents) -> anyhow::Result<()>) {
        let Self { sender, id, cancel, .. } = self;
        let done = sender.run_job(id, &cancel, |mut events| {
            work(&mut events)?;
            cancel.check()
        });
        done.err().into_iter().for_each(|error| sender.fail(id, error));
    }
}

/// Plans a training and tells what it costs, as far as that is known before its steps are timed.
fn plan(settings: TrainSettings, events: &mut JobEvents) -> anyhow::Result<Kind> {
    let backbone = fetch::backbone(&settings.backbone, events)?;
    let plan = TrainPlan::new(settings, backbone)?;
    plan.settings.out.as_deref().map_or(Ok(()), submission::check_free)?;
    let _turn = wait_for_turn(events.cancel()).context("another plan is wanted by now")?;
    let (preflight, tokens, dataset) = train::preflight(&plan)?;
    if !events.cancel().is_cancelled() {
        events.training(TrainEvent::Planned(Box::new(preflight.clone())));
    }
    let tried = if tokens.complete() { 0 } else { MAX_TIMED_IMAGES };
    let samples = dataset.samples.into_iter().take(tried).collect();
    Ok(Kind::Time(Box::new(TimeSpec { plan, preflight, tokens, samples })))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn what_fails_because_it_is_cancelled_has_not_failed() {
        let (sender, events) = sync_channel(1);
        let sender = EventSender::new(sender, Arc::new(|| {}), false);
        let (to_compute, cancel) = (TaskQueue::default(), Cancel::default());
        cancel.cancel();
        let job = FetchJob { sender: &sender, to_compute: &to_compute, id: JobId(1), cancel };
        job.prepare(|_| anyhow::bail!("the download was ended"));
        let event = events.try_recv().unwrap();
        assert!(matches!(event, Event::Cancelled(JobId(1))), "{event:?}");
    }

    #[test]
    fn of_plans_that_wait_only_those_that_are_still_wanted_are_made() {
        let (cancel, held) = (Cancel::default(), wait_for_turn(&Cancel::default()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait_for_turn(&cancel).is_some());
            cancel.cancel();
            drop(held);
            assert!(!waits.join().unwrap());
        });
        assert!(wait_for_turn(&Cancel::default()).is_some());
    }
}
