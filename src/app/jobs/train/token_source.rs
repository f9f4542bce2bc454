//! Where a training's tokens come from: the cache, or the backbone in every epoch if none are kept.

use std::ops::ControlFlow;

use burn::tensor::Device;

use super::{Parts, TrainPlan, TrainingError};
use crate::app::jobs::extract::{Event, ExtractError, MAX_TIMED_IMAGES, Plan};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenSource;
use crate::model::train::run::Run;

/// Refuses tokens that cannot be cached; the error says how long the backbone would take per epoch without a
/// cache.
pub(super) fn allowed(
    plan: &TrainPlan,
    tokens: &Plan,
    parts: &Parts,
    dataset: &Dataset,
    device: &Device,
) -> Result<(), TrainingError> {
    let (false, Err(refused)) = (plan.settings.recomputes(false), tokens.check()) else { return Ok(()) };
    let image = tokens.time(&dataset.samples[..MAX_TIMED_IMAGES.min(dataset.samples.len())], device)?;
    let epoch = image.map(|image| image.mul_f64(parts.passes() as f64));
    Err(TrainingError::TooLarge { refused, epoch })
}

/// The tokens from the cache, extracted first if they are missing; or straight from the backbone if none are kept.
pub(super) fn open_tokens(
    plan: &TrainPlan,
    tokens: &Plan,
    run: Option<&Run>,
    dataset: &Dataset,
    device: &Device,
    tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Box<dyn TokenSource>, TrainingError> {
    if !plan.settings.recomputes(tokens.complete()) {
        // A run that has begun was trained on the images as they were: a changed one stops it.
        let mut changed = None;
        let cache = tokens.run(dataset, device, &mut |event| {
            let image = match event {
                Event::Changed { samples: [first, ..] } if run.is_some() => {
                    Some(dataset.samples[*first].source.to_string())
                }
                _ => None,
            };
            let flow = tell(event);
            let stops = image.is_some();
            changed = changed.take().or(image);
            if stops { ControlFlow::Break(()) } else { flow }
        });
        if let (Ok(_), Some(text)) = (&cache, tokens.leak_warning(dataset)) {
            let _ = tell(Event::Leak(text)); // the first step decides
        }
        return match (cache, changed) {
            (Err(ExtractError::Stopped { .. }), Some(image)) => Err(TrainingError::Changed(image)),
            (cache, _) => Ok(Box::new(cache?)),
        };
    }
    let change = (plan.settings.augment, plan.settings.protocol.crop());
    let known = run.and_then(Run::unreadable);
    let unreadable = known.map_or_else(|| tokens.unreadable(dataset, tell), Ok)?;
    Ok(Box::new(tokens.recompute(dataset, device, unreadable, change)?))
}
