//! Taking the tokens of a dataset as a job: for an evaluation in the window as for every verb.

use std::ops::ControlFlow;
use std::path::PathBuf;

use burn::tensor::Device;

use super::{Event, ExtractError, Plan, Spent};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::part::Part;
use crate::app::jobs::{JobError, Reporter};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenCache;

/// Tokens to take.
pub struct ExtractSpec<'a> {
    /// What it comes to.
    pub plan: &'a Plan,
    /// The images.
    pub dataset: &'a Dataset,
    /// Where the backbone runs.
    pub device: &'a Device,
}

/// What was taken.
pub struct Extracted {
    /// All tokens, those that were there already, too; of several layers, those of the first.
    pub cache: TokenCache,
    /// Where the time went; none where all were there.
    pub spent: Option<Spent>,
    /// Shards that were not what was written.
    pub damaged: Vec<PathBuf>,
    /// Samples whose images are not what they were.
    pub changed: Vec<usize>,
    /// How many images were found unreadable now.
    pub unreadable: usize,
}

/// The tokens of a plan; those that are there are looked over, those that are missing are taken.
///
/// # Errors
/// If it was ended, or they cannot be had.
pub fn run(
    engine: &mut Engine,
    spec: &ExtractSpec<'_>,
    reporter: &mut dyn Reporter,
) -> Result<Extracted, JobError> {
    let ExtractSpec { plan, dataset, device } = spec;
    let (mut spent, mut damaged, mut changed, mut unreadable) = (None, Vec::new(), Vec::new(), 0);
    reporter.begin();
    let taken = plan.run(dataset, device, &mut |event| {
        let flow = told(engine, reporter, &event, dataset);
        match event {
            Event::Done(seconds) => spent = Some(seconds),
            Event::Damaged(damage) => damaged.push(damage.path.clone()),
            Event::Changed { sample } => changed.push(sample),
            Event::Unreadable { .. } => unreadable += 1,
            _ => {}
        }
        flow
    });
    let mut caches = taken.map_err(|error| ended(error, reporter, dataset))?;
    let cache = caches.swap_remove(0);
    Ok(Extracted { cache, spent, damaged, changed, unreadable })
}

/// The tokens of a part of a plan's images: those that are missing are taken.
///
/// # Errors
/// As [`run`].
pub fn run_part(
    engine: &mut Engine,
    spec: &ExtractSpec<'_>,
    part: Part,
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    let ExtractSpec { plan, dataset, device } = spec;
    reporter.begin();
    let taken = plan.run_part(part, dataset, device, &mut |event| told(engine, reporter, &event, dataset));
    taken.map_err(|error| ended(error, reporter, dataset))
}

/// Tells what happened, and whether to go on.
fn told(
    engine: &mut Engine,
    reporter: &mut dyn Reporter,
    event: &Event<'_>,
    dataset: &Dataset,
) -> ControlFlow<()> {
    reporter.extract(event, dataset);
    let paused = match event {
        Event::Verifying { .. } | Event::Progress(_) => reporter.pause(engine),
        _ => reporter.cancel().check(),
    };
    if paused.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The job's error for an extraction that did not finish.
fn ended(error: ExtractError, reporter: &mut dyn Reporter, dataset: &Dataset) -> JobError {
    match error {
        ExtractError::Stopped { done, images } => {
            reporter.extract(&Event::Stopped { done, images }, dataset);
            JobError::Cancelled
        }
        error => JobError::failed(error),
    }
}
