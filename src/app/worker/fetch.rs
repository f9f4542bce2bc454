//! From what a person calls a backbone, a folder or an id of the Hub, to a folder on this machine.

use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::Task;
use super::outbox::{Clock, Outbox, guard};
use crate::app::fault::Fault;
use crate::app::job::{Event, Request, Unit};
use crate::model::backbone::config::Config;
use crate::model::backbone::hub;
use crate::model::preprocess::Preprocessor;

/// From what a person typed to a folder. The job goes on with the compute thread.
pub(super) fn fetch(outbox: &Outbox, to_compute: &SyncSender<Task>, task: Task) {
    let Task { request: Request::OpenBackbone { job, entry, source, device, options }, cancel } = task else {
        return;
    };
    let clock = Clock::new(outbox, job);
    let mut told = Instant::now();
    let resolved = guard(|| {
        let folder = hub::resolve(&source, &mut |progress| {
            // Ten times a second is as often as anyone looks.
            if progress.done == progress.total || told.elapsed().as_millis() >= 100 {
                told = Instant::now();
                let what = format!("Downloading {}", progress.file);
                clock.progress(what, progress.done, Some(progress.total), Unit::Bytes);
            }
            if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // What is no backbone is told before the one in use is dropped for it.
        Config::open(&folder)?;
        Preprocessor::open(&folder)?;
        anyhow::Ok(folder)
    });
    let fault = match resolved {
        _ if cancel.is_cancelled() => return outbox.tell(Event::Cancelled(job)),
        Ok(Ok(folder)) => {
            let source = folder.display().to_string();
            let request = Request::OpenBackbone { job, entry, source, device, options };
            // A compute thread that is gone needs no backbone.
            let _ = to_compute.send(Task { request, cancel });
            return;
        }
        Ok(Err(error)) => Fault::of(error),
        Err(panic) => Fault::of_panic(&*panic),
    };
    outbox.tell(Event::Failed(job, fault));
}
