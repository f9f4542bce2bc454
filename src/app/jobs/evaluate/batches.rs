//! Evaluating one probe batch by batch, for the window's job and for the verb `eval`.

use std::ops::Range;

use crate::app::jobs::engine::Engine;
use crate::app::jobs::removal::SubsetReader;
use crate::app::jobs::{JobError, Reporter, Unit};
use crate::model::explain::evaluation::answer::Answer;
use crate::model::explain::evaluation::evaluator::Evaluator;

const BATCH: usize = 32;
/// Images of a batch whose tokens are also removed, which takes hundreds of times as long.
const REMOVED_BATCH: usize = 4;

/// What all batches of a probe share.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    /// Its description in progress messages.
    pub what: &'a str,
    /// How many probes were evaluated before, and of how many: progress is that of all.
    pub probe: [usize; 2],
    /// Encodes the remaining patches, for removal before the backbone.
    pub subset_reader: Option<SubsetReader<'a>>,
}

/// Evaluates every image before `end` that has no answer yet.
pub fn evaluate_until(
    engine: &mut Engine,
    evaluator: &mut Evaluator<'_>,
    end: usize,
    context: EvalContext<'_>,
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    let [before, total] = context.probe.map(|probes| (probes * evaluator.images()) as u64);
    reporter.begin(before + evaluator.done() as u64);
    while evaluator.done() < end {
        let images = evaluator.done()..(evaluator.done() + batch_size(evaluator)).min(end);
        let answers = evaluate_batch(engine, evaluator, images, context, reporter)?;
        evaluator.take(answers);
        let done = before + evaluator.done() as u64;
        reporter.progress(context.what, done, Some(total), Unit::Items);
        reporter.pause(engine)?;
    }
    Ok(())
}

/// Evaluates those of `images` that `found` lacks and adds the results; calls `save` after each batch.
pub fn evaluate_range(
    engine: &mut Engine,
    evaluator: &Evaluator<'_>,
    images: Range<usize>,
    found: &mut Vec<Option<Answer>>,
    (context, reporter): (EvalContext<'_>, &mut dyn Reporter),
    save: &mut dyn FnMut(&[Option<Answer>]) -> anyhow::Result<()>,
) -> Result<(), JobError> {
    reporter.begin(found.len() as u64);
    while found.len() < images.len() {
        let next = images.start + found.len();
        let some = next..(next + batch_size(evaluator)).min(images.end);
        found.extend(evaluate_batch(engine, evaluator, some, context, reporter)?);
        reporter.progress(context.what, found.len() as u64, Some(images.len() as u64), Unit::Items);
        save(found)?;
        reporter.pause(engine)?;
    }
    Ok(())
}

/// Evaluates a batch of images in parallel.
fn evaluate_batch(
    engine: &mut Engine,
    evaluator: &Evaluator<'_>,
    images: Range<usize>,
    context: EvalContext<'_>,
    reporter: &mut dyn Reporter,
) -> Result<Vec<Option<Answer>>, JobError> {
    let mut found = evaluator.answers(images.clone())?;
    for (image, answer) in images.zip(&mut found) {
        if let (Some(reader), Some(answer)) = (context.subset_reader, answer) {
            reader.remove(engine, evaluator, (image, answer), reporter)?;
        }
    }
    Ok(found)
}

/// Images between two pauses.
fn batch_size(evaluator: &Evaluator<'_>) -> usize {
    if evaluator.removes().is_some() { REMOVED_BATCH } else { BATCH }
}
