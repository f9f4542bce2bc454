//! What has to be found out before the compute thread is asked: the folder of a backbone that may
//! have to be downloaded, what a training would come to. On a thread of its own for each request.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::Task;
use super::event_sender::{EventSender, JobReporter, guard};
use crate::app::jobs::extract::TRIED;
use crate::app::jobs::train::{TrainForm, TrainPlan, TrainingError, outlook};
use crate::app::jobs::training::{TrainEvent, TrainRequest, Tried};
use crate::app::jobs::{Cancel, Event, Request, Unit};
use crate::app::paths;
use crate::app::user_error::UserError;
use crate::model::backbone::config::Config;
use crate::model::backbone::hub;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::train::run::Run;

/// From what a person asked to what the compute thread can do; the job goes on there.
pub(super) fn fetch(outbox: &EventSender, to_compute: &SyncSender<Task>, task: Task) {
    let Task { request, cancel } = task;
    let Some(job) = request.job() else { return };
    let clock = JobReporter::new(outbox, job);
    let fault = match guard(|| prepare(&clock, request, &cancel)) {
        _ if cancel.is_cancelled() => return outbox.tell(Event::Cancelled(job)),
        Ok(Ok(request)) => {
            // A compute thread that is gone needs nothing more.
            let _ = to_compute.send(Task { request, cancel });
            return;
        }
        Ok(Err(error)) => UserError::of(error),
        Err(panic) => UserError::of_panic(&*panic),
    };
    outbox.tell(Event::Failed(job, fault));
}

fn prepare(clock: &JobReporter<'_>, request: Request, cancel: &Cancel) -> anyhow::Result<Request> {
    Ok(match request {
        Request::OpenBackbone { job, entry, source, device, options } => {
            let folder = resolve(clock, &source, cancel)?;
            // What is no backbone is told before the one in use is dropped for it.
            Config::open(&folder)?;
            Preprocessor::open(&folder)?;
            Request::OpenBackbone { job, entry, source: folder.display().to_string(), device, options }
        }
        Request::Training { job, ask: TrainRequest::Plan(draft) } => {
            let order = draft.order(resolve(clock, &draft.backbone, cancel)?)?;
            let (facts, plan, dataset) = outlook(&order, draft.out)?;
            let news = TrainEvent::Planned(Box::new(facts.clone()));
            if !cancel.is_cancelled() {
                clock.outbox.tell(Event::Training { job, news });
            }
            let tried = if plan.complete() { 0 } else { TRIED };
            let samples = dataset.samples.into_iter().take(tried).collect();
            Request::Training {
                job,
                ask: TrainRequest::Time(Box::new(Tried { order, facts, plan, samples })),
            }
        }
        Request::Training { job, ask: TrainRequest::Begin(draft) } => {
            let order = draft.order(resolve(clock, &draft.backbone, cancel)?)?;
            let TrainForm { out, .. } = *draft;
            let out = out.or_else(|| paths::run("run")).ok_or(TrainingError::NoOut)?;
            Request::Training { job, ask: TrainRequest::Train { order: Box::new(order), out, resume: false } }
        }
        Request::Training { job, ask: TrainRequest::Resume { folder, device, cache } } => {
            let run = Run::open(&folder)?;
            let backbone = resolve(clock, &run.manifest.backbone_source, cancel)?;
            let root = run.cache().or(cache).or_else(paths::tokens).ok_or(TrainingError::NoCache)?;
            let order = TrainPlan::of_run(&run, backbone, root, paths::TOKENS_LIMIT, device)?;
            Request::Training {
                job,
                ask: TrainRequest::Train { order: Box::new(order), out: folder, resume: true },
            }
        }
        other => other,
    })
}

/// From what a person calls a backbone, a folder or an id of the Hub, to a folder on this machine.
fn resolve(clock: &JobReporter<'_>, source: &str, cancel: &Cancel) -> anyhow::Result<PathBuf> {
    let mut told = Instant::now();
    let folder = hub::resolve(source, &mut |progress| {
        // Ten times a second is as often as anyone looks.
        if progress.done == progress.total || told.elapsed().as_millis() >= 100 {
            told = Instant::now();
            let what = format!("Downloading {}", progress.file);
            clock.progress(what, progress.done, Some(progress.total), Unit::Bytes);
        }
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(folder)
}
