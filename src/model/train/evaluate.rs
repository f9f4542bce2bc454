//! Evaluation on the selection and test splits: after every epoch, of which the best is kept, and within epochs.

use std::cell::LazyCell;
use std::ops::ControlFlow;

use burn::tensor::Tensor;

use super::batches::{batch_of, give_back};
use super::redraw;
use super::{Epoch, Event, HeadProgress, HeadTrainer, Running, Snapshot, Task};
use crate::model::data::token_cache::TokenSourceError;
use crate::model::ops::cpu::{flex, on_cpu};
use crate::model::ops::pooling::Pooling;
use crate::model::ops::pooling::pass::Pass;
use crate::model::probe::head::Batch;

/// Predicted class of each image, for each head.
type Predictions = Vec<Vec<u32>>;

/// Predicted class of each of `images` after `done` steps by every head that still trains; empty for the others.
fn predict(
    task: &Task,
    trainers: &[HeadTrainer],
    images: &[usize],
    done: usize,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<ControlFlow<(), Predictions>, TokenSourceError> {
    let mut predictions = vec![Vec::with_capacity(images.len()); trainers.len()];
    let chunks = || images.chunks(task.config.batch);
    let batches = chunks().map(<[usize]>::to_vec).collect();
    for (chunk, layers) in chunks().zip(task.tokens.read(batches, task.device)) {
        for (layer, rows) in layers?.enumerate() {
            let batch = batch_of(task, rows, chunk, redraw::Pass::Evaluation(done));
            let trains = |trainer: &HeadTrainer| trainer.layer == layer && trainer.progress.failure.is_none();
            let (trained, own): (Vec<_>, Vec<_>) =
                trainers.iter().zip(&mut predictions).filter(|(trainer, _)| trains(trainer)).unzip();
            let argmax = |logits: Tensor<2>| logits.argmax(1).squeeze_dim::<1>(1); // [B]
            // All heads' predictions are launched before the first is waited for.
            let classes: Vec<_> = logits(&trained, &batch).into_iter().map(argmax).collect();
            for (classes, predictions) in classes.into_iter().zip(own) {
                let classes = classes.into_data().convert::<u32>();
                predictions.extend(classes.try_to_vec::<u32>().expect("class indices"));
            }
            give_back(task, batch);
        }
        if on_event(Event::Evaluation).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(predictions))
}

/// The logits of every head, `[B, C]` each. On the CPU, all heads that pool the tokens share a read of them.
pub fn logits(trainers: &[&HeadTrainer], batch: &Batch) -> Vec<Tensor<2>> {
    let device = batch.patches.device();
    if !on_cpu(&device) {
        return trainers.iter().map(|trainer| trainer.model.logits(batch)).collect();
    }
    let pooling = |trainer: &&HeadTrainer| trainer.model.head().pooling(trainer.model.params(), batch);
    let poolings: Vec<Option<Pooling>> = trainers.iter().map(pooling).collect();
    let requests = poolings.iter().flatten().map(Pooling::request).collect();
    let (pooled, _) = Pass::forward(&flex(batch.patches.clone()), requests, false);
    let (mut pooled, wide) = (pooled.into_iter(), LazyCell::new(|| batch.in_float32()));
    let logits = |(trainer, pooling): (&&HeadTrainer, Option<Pooling>)| match pooling {
        Some(pooling) => {
            let pooled = pooling.tensor(pooled.next().expect("an answer to every request"), &batch.patches);
            trainer.model.logits_of(pooled, batch)
        }
        None if trainer.model.reads_float32(None) => trainer.model.logits(&wide),
        None => trainer.model.logits(batch),
    };
    trainers.iter().zip(poolings).map(logits).collect()
}

/// [`predict`] for the selection split and the test split, in one go if they are the same.
fn predict_both(
    task: &Task,
    trainers: &[HeadTrainer],
    done: usize,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<ControlFlow<(), [Predictions; 2]>, TokenSourceError> {
    let ControlFlow::Continue(select) = predict(task, trainers, &task.select.images, done, on_event)? else {
        return Ok(ControlFlow::Break(()));
    };
    let test = match task.select == task.test {
        true => ControlFlow::Continue(select.clone()),
        false => predict(task, trainers, &task.test.images, done, on_event)?,
    };
    Ok(test.map_continue(|test| [select, test]))
}

/// The metrics of epoch number `epoch` (from 1).
fn epoch_of(task: &Task, epoch: usize, running: Running, select: &[u32], test: &[u32]) -> Epoch {
    Epoch {
        epoch,
        step: None,
        loss: running.loss().unwrap_or(f64::NAN),
        train: running.accuracy().unwrap_or(f64::NAN),
        select: accuracy(select, &task.select.classes),
        test: accuracy(test, &task.test.classes),
    }
}

/// Evaluates every head within an epoch after `done` steps, unless a run that was stopped had done so. Does not influence training.
pub(super) fn evaluate_within_epoch(
    task: &Task,
    trainers: &mut [HeadTrainer],
    done: usize,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, TokenSourceError> {
    let step = Some(done);
    let is_due = |trainer: &HeadTrainer| {
        let HeadProgress { failure, between, .. } = &trainer.progress;
        failure.is_none() && between.last().is_none_or(|last| last.step < step)
    };
    if !trainers.iter().any(is_due) {
        return Ok(ControlFlow::Continue(()));
    }
    let ControlFlow::Continue([select, test]) = predict_both(task, trainers, done, on_event)? else {
        return Ok(ControlFlow::Break(()));
    };
    for ((trainer, select), test) in trainers.iter_mut().zip(select).zip(test) {
        let progress = &mut trainer.progress;
        if progress.failure.is_none() {
            let epoch = progress.history.len() + 1;
            progress.between.push(Epoch { step, ..epoch_of(task, epoch, progress.running, &select, &test) });
        }
    }
    Ok(on_event(Event::Between { trainers }))
}

/// Ends an epoch after `done` steps in all: evaluates every head and keeps its best epoch.
pub(super) fn close_epoch(
    task: &Task,
    trainers: &mut [HeadTrainer],
    done: usize,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, TokenSourceError> {
    // After the last step, no further loss would reveal that its update made a parameter NaN or infinite.
    for trainer in trainers.iter_mut().filter(|trainer| trainer.progress.failure.is_none()) {
        if !trainer.model.params().are_finite() {
            trainer.fail("a parameter became NaN or infinite");
        }
    }
    let ControlFlow::Continue([select, test]) = predict_both(task, trainers, done, on_event)? else {
        return Ok(ControlFlow::Break(()));
    };
    for ((trainer, select), test) in trainers.iter_mut().zip(select).zip(test) {
        let arrays = || trainer.model.params().to_arrays();
        let progress = &mut trainer.progress;
        let running = std::mem::take(&mut progress.running);
        if progress.failure.is_some() {
            continue;
        }
        let epoch = epoch_of(task, progress.history.len() + 1, running, &select, &test);
        let best = progress.best.as_ref().map(|best| progress.history[best.epoch].select);
        if best.is_none_or(|best| epoch.select > best) {
            let epoch = progress.history.len();
            progress.best = Some(Snapshot { epoch, arrays: arrays(), predictions: test.clone() });
        }
        progress.history.push(epoch);
        progress.predictions = test;
    }
    Ok(ControlFlow::Continue(()))
}

/// Share of correct predictions, in percent.
pub fn accuracy(predictions: &[u32], classes: &[usize]) -> f64 {
    let right =
        predictions.iter().zip(classes).filter(|&(&prediction, &class)| prediction as usize == class).count();
    100.0 * right as f64 / classes.len() as f64
}
