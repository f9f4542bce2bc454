//! Taking the tokens of a dataset as a job: for an evaluation in the window as for every verb.

use std::ops::ControlFlow;
use std::path::PathBuf;

use burn::tensor::Device;

use super::{Event, ExtractError, Plan, Spent};
use crate::app::jobs::engine::Engine;
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
    /// All tokens, those that were there already, too.
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
        reporter.extract(&event, dataset);
        let paused = match event {
            Event::Verifying { .. } | Event::Progress(_) => reporter.pause(engine),
            _ => reporter.cancel().check(),
        };
        match event {
            Event::Done(seconds) => spent = Some(seconds),
            Event::Damaged(damage) => damaged.push(damage.path.clone()),
            Event::Changed { sample } => changed.push(sample),
            Event::Unreadable { .. } => unreadable += 1,
            _ => {}
        }
        if paused.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match taken {
        Ok(cache) => Ok(Extracted { cache, spent, damaged, changed, unreadable }),
        Err(ExtractError::Stopped { done, images }) => {
            reporter.extract(&Event::Stopped { done, images }, dataset);
            Err(JobError::Cancelled)
        }
        Err(error) => Err(JobError::failed(error)),
    }
}
