//! What has to be found out before the compute thread is asked: the folder of a backbone that may
//! have to be downloaded, what a training would come to. On a thread of its own for each request.

use std::sync::mpsc::SyncSender;

use super::compute::{Job, Kind, Task};
use super::event_sender::{EventSender, JobEvents};
use super::{detached, tasks};
use crate::app::jobs::engine::BackboneSpec;
use crate::app::jobs::extract::TRIED;
use crate::app::jobs::train::{self, TimeSpec, TrainPlan, TrainSettings, TrainSpec, TrainingError};
use crate::app::jobs::training::TrainEvent;
use crate::app::jobs::{Cancel, Event, Fetch, JobError, JobId, fetch};
use crate::app::paths;
use crate::app::user_error::UserError;
use crate::model::backbone::config::Config;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::io::catch_panic::contain;
use crate::model::train::run::Run;

/// From what a person asked to what the compute thread can do; the job goes on there.
pub(super) fn fetch(
    outbox: &EventSender,
    to_compute: &SyncSender<Option<Task>>,
    id: JobId,
    kind: Fetch,
    cancel: Cancel,
    closing: &Cancel,
) {
    let events = JobEvents::new(outbox, id, &cancel);
    if kind.is_apart() {
        let done = outbox.job(id, &cancel, |events| {
            apart(&kind, &events, &cancel, closing).map_err(JobError::Failed)?;
            cancel.check()
        });
        return done.err().into_iter().for_each(|error| outbox.tell(Event::Failed(id, error)));
    }
    let fault = match contain(|| prepare(&events, kind, &cancel)) {
        _ if cancel.is_cancelled() => return outbox.tell(Event::Cancelled(id)),
        Ok(Ok(kind)) => {
            // A compute thread that is gone needs nothing more.
            let _ = to_compute.send(Some(Task::Do(Job { id, kind, cancel })));
            return;
        }
        Ok(Err(error)) => UserError::from_error(error),
        Err(said) => UserError::from_panic(said),
    };
    outbox.tell(Event::Failed(id, fault));
}

/// What other processes do.
fn apart(kind: &Fetch, events: &JobEvents, cancel: &Cancel, closing: &Cancel) -> anyhow::Result<()> {
    let news = match kind {
        Fetch::PlanTasks(asked) => TrainEvent::TasksPlanned(tasks::plan(asked)?),
        Fetch::HandIn(asked) => TrainEvent::HandedIn(tasks::begin(asked)?),
        Fetch::RetryTasks(folder) => TrainEvent::Retried(tasks::retry(folder)?),
        Fetch::EndTasks(folder) => return tasks::end(folder),
        Fetch::Detached(asked) => return detached::run(asked, events, cancel, closing),
        Fetch::OpenBackbone { .. } | Fetch::Plan(_) | Fetch::Begin(_) | Fetch::Resume { .. } => {
            unreachable!("it is computed here")
        }
    };
    events.outbox.tell(Event::Training { job: events.job, news });
    Ok(())
}

fn prepare(events: &JobEvents, kind: Fetch, cancel: &Cancel) -> anyhow::Result<Kind> {
    Ok(match kind {
        Fetch::OpenBackbone { entry, source, device, options } => {
            let folder = fetch::backbone(&source, &mut events.clone())?;
            // What is no backbone is told before the one in use is dropped for it.
            Config::open(&folder)?;
            Preprocessor::open(&folder)?;
            Kind::OpenBackbone(BackboneSpec { entry, folder, device, options })
        }
        Fetch::Plan(settings) => {
            let backbone = fetch::backbone(&settings.backbone, &mut events.clone())?;
            let plan = TrainPlan::new(*settings, backbone)?;
            let (preflight, tokens, dataset) = train::preflight(&plan)?;
            let news = TrainEvent::Planned(Box::new(preflight.clone()));
            if !cancel.is_cancelled() {
                events.outbox.tell(Event::Training { job: events.job, news });
            }
            let tried = if tokens.complete() { 0 } else { TRIED };
            let samples = dataset.samples.into_iter().take(tried).collect();
            Kind::Time(Box::new(TimeSpec { plan, preflight, tokens, samples }))
        }
        Fetch::Begin(settings) => {
            let backbone = fetch::backbone(&settings.backbone, &mut events.clone())?;
            let plan = TrainPlan::new(*settings, backbone)?;
            let out = plan.settings.out.clone().or_else(|| paths::run("run")).ok_or(TrainingError::NoOut)?;
            Kind::Train(Box::new(TrainSpec { plan, out, resume: false }))
        }
        Fetch::Detached(_)
        | Fetch::PlanTasks(_)
        | Fetch::HandIn(_)
        | Fetch::RetryTasks(_)
        | Fetch::EndTasks(_) => unreachable!("it computes nothing here"),
        Fetch::Resume { folder: out, device, cache } => {
            let run = Run::open(&out)?;
            let mut settings = TrainSettings::of_run(&run)?;
            settings.tokens.cache = settings.tokens.cache.or(cache);
            settings.device = device.unwrap_or(settings.device);
            let backbone = fetch::backbone(&settings.backbone, &mut events.clone())?;
            let plan = TrainPlan { settings, backbone, heads: run.manifest.heads };
            Kind::Train(Box::new(TrainSpec { plan, out, resume: true }))
        }
    })
}
