//! Extraction of a dataset's tokens as a job, for the window's evaluations and for every verb.

use std::ops::ControlFlow;
use std::path::PathBuf;

use burn::tensor::Device;

use super::{Event, ExtractError, Plan, Spent};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::part::Part;
use crate::app::jobs::{JobError, Reporter};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenCache;

/// The result of an extraction.
pub struct Extracted {
    /// All tokens, including those cached before; with several layers, those of the first.
    pub cache: TokenCache,
    /// Where the time went; `None` if all tokens were cached.
    pub spent: Option<Spent>,
    /// Damaged shards: their content did not match their digests.
    pub damaged: Vec<PathBuf>,
    /// Samples whose images have changed.
    pub changed: Vec<usize>,
    /// Number of images found unreadable in this extraction.
    pub unreadable: usize,
}

/// Verifies the cached tokens of a plan for the images of a dataset, and extracts the missing ones on a device.
pub fn run(
    engine: &mut Engine,
    plan: &Plan,
    (dataset, device): (&Dataset, &Device),
    reporter: &mut dyn Reporter,
) -> Result<Extracted, JobError> {
    let (mut spent, mut damaged, mut changed, mut unreadable) = (None, Vec::new(), Vec::new(), 0);
    reporter.begin(plan.done as u64);
    let result = plan.run(dataset, device, &mut |event| {
        let flow = report(engine, reporter, &event, dataset);
        match event {
            Event::Done(seconds) => spent = Some(seconds),
            Event::Damaged(damage) => damaged.push(damage.path.clone()),
            Event::Changed { samples } => changed.extend(samples),
            Event::Unreadable { .. } => unreadable += 1,
            _ => {}
        }
        flow
    });
    let mut caches = result.map_err(|error| job_error(error, reporter, dataset))?;
    let cache = caches.swap_remove(0);
    Ok(Extracted { cache, spent, damaged, changed, unreadable })
}

/// Extracts the missing tokens of a part of a plan's images.
pub fn run_part(
    engine: &mut Engine,
    (plan, part): (&Plan, Part),
    (dataset, device): (&Dataset, &Device),
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    reporter.begin(plan.done as u64);
    let result = plan.run_part(part, dataset, device, &mut |event| report(engine, reporter, &event, dataset));
    result.map_err(|error| job_error(error, reporter, dataset))
}

/// Reports an event; returns whether the extraction continues.
fn report(
    engine: &mut Engine,
    reporter: &mut dyn Reporter,
    event: &Event<'_>,
    dataset: &Dataset,
) -> ControlFlow<()> {
    reporter.extract(event, dataset);
    let paused = match event {
        Event::Verifying { .. } | Event::Progress(_) | Event::Waiting { .. } => reporter.pause(engine),
        _ => reporter.cancel().check(),
    };
    if paused.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The job's error for an extraction that did not finish; reports that it was stopped.
fn job_error(error: ExtractError, reporter: &mut dyn Reporter, dataset: &Dataset) -> JobError {
    if matches!(error, ExtractError::Stopped { .. }) {
        reporter.extract(&Event::Stopped(&error), dataset);
    }
    error.into()
}
