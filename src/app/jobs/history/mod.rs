//! The history of a training as plain data: filled by a training that runs in the window, or read from the folder
//! of any other.

mod curve;
pub mod disk;
mod figure;
mod rates;
mod score;
mod settings;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::curve::{Band, Curve, Measure, smooth};
use self::disk::RunSnapshot;
pub use self::score::Score;
use crate::model::train::Epoch;
use crate::model::train::run::{Manifest, Metric, Outcome, Run, StepLosses, check_trainings};

/// The part of a run's manifest that is shown to the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The run's folder.
    pub folder: PathBuf,
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the backbone.
    pub backbone: String,
    /// Name of the compute device.
    pub device: String,
    /// Names of the heads and their variants.
    pub heads: Vec<String>,
    /// Number of epochs.
    pub epochs: usize,
    /// Batch size, in images.
    pub batch: usize,
    /// Seeds: all heads are trained once with each.
    pub seeds: Vec<u64>,
    /// Number of training images.
    pub train: usize,
    /// Number of test images, on which the reported accuracy is measured.
    pub test: usize,
}

impl About {
    /// The description of a run, from its manifest.
    pub fn from_run(run: &Run) -> Self {
        let Manifest { backbone, dataset, heads, config, seeds, device, .. } = &run.manifest;
        Self {
            folder: run.folder().to_owned(),
            dataset: dataset.name.clone(),
            backbone: backbone.id.clone(),
            device: device.clone(),
            heads: heads.iter().map(|head| head.name.clone()).collect(),
            epochs: config.epochs,
            batch: config.batch,
            seeds: seeds.clone(),
            train: dataset.train,
            test: dataset.test,
        }
    }

    /// An error if it has more trainings than a run may.
    pub fn check(&self) -> Result<(), String> {
        check_trainings(self.heads.len(), self.seeds.len())
    }

    /// The run's name, which is its folder's.
    pub fn name(&self) -> String {
        crate::app::format::file_name(&self.folder)
    }

    /// Optimiser steps per epoch, at least 1.
    fn steps_per_epoch(&self) -> f64 {
        self.train.div_ceil(self.batch.max(1)).max(1) as f64
    }
}

/// A head that stopped before the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The head's name.
    pub head: String,
    /// The seed it was trained with.
    pub seed: u64,
    /// The reason.
    pub why: String,
}

/// Mean losses of the steps since the previous report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The seed being trained.
    pub seed: u64,
    /// The middle of these steps, in epochs.
    pub at: f64,
    /// Mean loss of every head; `None` for one that has stopped.
    pub losses: Vec<Option<f64>>,
}

/// The history of a run: every head with every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainHistory {
    /// The run's description.
    pub about: About,
    /// One per head and seed: all seeds of the first head, then those of the second, and so on.
    lines: Vec<Line>,
}

/// The history of one head with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Evaluations after each epoch so far.
    pub epochs: Vec<Epoch>,
    /// Evaluations within epochs.
    pub between: Vec<Epoch>,
    /// Why the training stopped before the end, if it did.
    pub failure: Option<String>,
    /// Losses of steps, averaged over up to [`BINS`] equal parts of the run.
    steps: Vec<Bin>,
}

/// Number of equal parts of a run over which losses of steps are averaged; it bounds their memory.
const BINS: usize = 1024;

/// A running mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    /// Sum of the steps' positions, in epochs.
    at: f64,
    /// Sum of the losses.
    sum: f64,
    count: u32,
}

impl TrainHistory {
    /// A history without any epoch or loss.
    pub fn new(about: About) -> Self {
        let lines = vec![Line::default(); about.heads.len() * about.seeds.len()];
        Self { about, lines }
    }

    /// The history of a run as its folder holds it.
    pub fn of_snapshot(snapshot: &RunSnapshot) -> Self {
        let mut history = Self::new(snapshot.about.clone());
        history.update(snapshot);
        history
    }

    /// Brings it up to date with what the run's folder holds now.
    pub fn update(&mut self, snapshot: &RunSnapshot) {
        self.epochs(&snapshot.epochs);
        self.losses(&snapshot.losses);
        self.failures(&snapshot.failures);
    }

    /// The history of a run with these outcomes, without losses of steps.
    pub fn of_outcomes(run: &Run, outcomes: &[Outcome]) -> Self {
        let mut history = Self::new(About::from_run(run));
        history.epochs(&metrics_of(outcomes));
        history.failures(&failures_of(outcomes));
        history
    }

    /// The histories of head `head` of the list, one per seed; empty if there is no such head.
    pub fn lines(&self, head: usize) -> &[Line] {
        let seeds = self.about.seeds.len();
        self.lines.get(head * seeds..(head + 1) * seeds).unwrap_or_default()
    }

    /// Adds losses of steps.
    pub fn step(&mut self, steps: &Steps) {
        let Self { about, lines } = self;
        let Some(seed) = about.seeds.iter().position(|known| *known == steps.seed) else { return };
        for (line, loss) in lines.chunks_mut(about.seeds.len()).zip(&steps.losses) {
            loss.iter().for_each(|loss| line[seed].add_loss(steps.at, about.epochs, *loss));
        }
    }

    /// Replaces the step losses of seeds by those from a run's folder.
    fn losses(&mut self, losses: &[StepLosses]) {
        let Self { about, lines } = self;
        let index = line_index(about);
        for StepLosses { seed, parts, heads } in losses {
            for (head, points) in heads {
                let Some(line) = index(head, *seed).and_then(|at| lines.get_mut(at)) else { continue };
                line.steps.clear();
                for (at, loss) in points.iter().enumerate().filter(|(_, loss)| loss.is_finite()) {
                    let at = (at as f64 + 0.5) / *parts as f64;
                    line.add_loss(at, about.epochs, f64::from(*loss));
                }
            }
        }
    }

    /// Adds epochs; a repeated one, as a resumed run reports it, replaces the earlier one and all after it.
    pub fn epochs(&mut self, metrics: &[Metric]) {
        let Self { about, lines } = self;
        let index = line_index(about);
        for Metric { head, seed, epoch } in metrics {
            let Some(line) = index(head, *seed).and_then(|at| lines.get_mut(at)) else { continue };
            if epoch.step.is_some() {
                line.between.truncate(line.between.partition_point(|known| known.step < epoch.step));
                line.between.push(epoch.clone());
                continue;
            }
            line.between.truncate(line.between.partition_point(|known| known.epoch <= epoch.epoch));
            line.epochs.truncate(line.epochs.partition_point(|known| known.epoch < epoch.epoch));
            line.epochs.push(epoch.clone());
        }
    }

    /// Records heads that stopped before the end.
    pub fn failures(&mut self, failures: &[Failure]) {
        let Self { about, lines } = self;
        let index = line_index(about);
        for Failure { head, seed, why } in failures {
            let line = index(head, *seed).and_then(|at| lines.get_mut(at));
            line.into_iter().for_each(|line| line.failure = Some(why.clone()));
        }
    }

    /// Epochs done and their total, over all heads and seeds; all epochs of a head that failed count as done.
    pub fn done(&self) -> (usize, usize) {
        let epochs_done = |line: &Line| match line.failure {
            Some(_) => self.about.epochs,
            None => line.epochs.len(),
        };
        (self.lines.iter().map(epochs_done).sum(), self.lines.len() * self.about.epochs)
    }

    /// Whether there is any epoch or loss of a step.
    pub fn has_data(&self) -> bool {
        self.lines.iter().any(|line| !line.epochs.is_empty() || !line.steps.is_empty())
    }

    /// Whether every head has finished or failed with every seed.
    pub fn finished(&self) -> bool {
        let (done, all) = self.done();
        done >= all
    }
}

impl Line {
    /// Adds a loss at the position `at`, in epochs, of a run of this many `epochs`.
    fn add_loss(&mut self, at: f64, epochs: usize, loss: f64) {
        let epochs = epochs.max(1) as f64;
        let at = at.max(0.0).min(epochs);
        let bin = ((at / epochs * BINS as f64) as usize).min(BINS - 1);
        if self.steps.len() <= bin {
            self.steps.resize(bin + 1, Bin::default());
        }
        let bin = &mut self.steps[bin];
        bin.at += at;
        bin.sum += loss;
        bin.count += 1;
    }
}

/// The index of the line of a head with a seed, without a search: a run has hundreds of heads, and a hostile file any number.
fn line_index(about: &About) -> impl Fn(&str, u64) -> Option<usize> {
    let heads: HashMap<&str, usize> = about.heads.iter().map(String::as_str).zip(0..).collect();
    let seeds: HashMap<u64, usize> = about.seeds.iter().copied().zip(0..).collect();
    move |head, seed| Some(heads.get(head)? * about.seeds.len() + seeds.get(&seed)?)
}

/// The evaluations of these outcomes, after and within epochs.
fn metrics_of(outcomes: &[Outcome]) -> Vec<Metric> {
    let metrics = |Outcome { head, seed, epochs, between, .. }: &Outcome| {
        let metric = |epoch: &Epoch| Metric { head: head.clone(), seed: *seed, epoch: epoch.clone() };
        epochs.iter().chain(between).map(metric).collect::<Vec<_>>()
    };
    outcomes.iter().flat_map(metrics).collect()
}

/// The outcomes that ended early.
pub fn failures_of(outcomes: &[Outcome]) -> Vec<Failure> {
    let failure = |Outcome { head, seed, failure, .. }: &Outcome| {
        Some(Failure { head: head.clone(), seed: *seed, why: failure.clone()? })
    };
    outcomes.iter().filter_map(failure).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::app::processor_time;

    pub(super) fn history(epochs: usize, seeds: u64) -> TrainHistory {
        let heads = ["gap", "sinkhorn"].map(str::to_owned).into();
        let (folder, seeds, train, batch) = (PathBuf::from("run"), (0..seeds).collect(), 8, 4);
        TrainHistory::new(About { folder, heads, epochs, batch, seeds, train, ..About::default() })
    }

    pub(super) fn metric(head: &str, seed: u64, epoch: usize, loss: f64, test: f64) -> Metric {
        let epoch = Epoch { epoch, step: None, loss, train: test, select: test, test };
        Metric { head: head.to_owned(), seed, epoch }
    }

    /// A run resumed from its checkpoint reports some epochs again; those after them are dropped.
    #[test]
    fn an_epoch_told_again_ends_what_was_told_after_it() {
        let mut history = history(3, 1);
        let after = |epoch: usize, test: f64| metric("gap", 0, epoch, 1.0, test);
        history.epochs(&[after(1, 10.0), after(2, 20.0), after(3, 30.0)]);
        history.epochs(&[after(2, 25.0)]);
        let epochs: Vec<_> =
            history.lines(0)[0].epochs.iter().map(|epoch| (epoch.epoch, epoch.test)).collect();
        assert_eq!(epochs, [(1, 10.0), (2, 25.0)]);
    }

    #[test]
    fn losses_of_a_folder_take_the_place_of_those_heard() {
        let mut history = history(2, 1);
        history.step(&Steps { seed: 0, at: 1.9, losses: vec![Some(9.0), Some(9.0)] });
        let heads = vec![("gap".to_owned(), vec![3.0, 2.0, f32::NAN, 1.0])];
        history.losses(&[StepLosses { seed: 0, parts: 2, heads: heads.clone() }]);
        history.losses(&[StepLosses { seed: 0, parts: 2, heads }]);
        history.losses(&[StepLosses { seed: 7, parts: 2, heads: vec![("gap".to_owned(), vec![5.0])] }]);
        let (gap, other) = (history.curve(0, Measure::Loss), history.curve(1, Measure::Loss));
        assert_eq!((gap.mean, other.mean), (vec![3.0, 2.0, 1.0], vec![9.0]));
        crate::close::assert_close("at", &gap.at, [0.25, 0.75, 1.75], 0.01);
    }

    #[test]
    fn a_run_of_any_number_of_heads_is_gone_through_once() {
        let heads: Vec<String> = (0..200_000).map(|head| format!("{head:06}")).collect();
        let metrics: Vec<Metric> = heads.iter().rev().map(|head| metric(head, 0, 1, 1.0, 1.0)).collect();
        let mut history = TrainHistory::new(About { heads, epochs: 1, seeds: vec![0], ..About::default() });
        let before = processor_time::of_thread();
        history.epochs(&metrics);
        let took = processor_time::of_thread().saturating_sub(before);
        assert!(history.finished() && took < Duration::from_secs(20), "{took:?}"); // it took a minute
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let mut history = history(2, 1);
        history.epochs(&[metric("other", 0, 1, 1.0, 1.0), metric("gap", 7, 1, 1.0, 1.0)]);
        history.step(&Steps { seed: 9, at: 1.0, losses: vec![Some(1.0)] });
        history.step(&Steps { seed: 0, at: 1e9, losses: vec![Some(1.0); 9] });
        assert_eq!(history.done().0, 0);
        assert_eq!(history.lines(0)[0].steps.len(), BINS);
        assert!(history.lines(5).is_empty());
    }
}
