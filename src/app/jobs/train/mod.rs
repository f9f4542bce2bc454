//! A training from beginning to end: extracts the tokens of a dataset, trains the heads of every seed on
//! them, and writes a run's folder. The command line and the window's worker both call [`run`] and receive
//! its [`Event`]s; either may stop it between two steps, and a stopped or killed training can be resumed.

mod axes;
mod command_line;
mod cut;
mod error;
pub mod heads;
mod manifest;
mod plan;
mod preflight;
pub mod resume;
mod seeds;
mod settings;
mod split;
mod step_timing;
pub mod sweep;
pub mod tensorboard;
mod token_source;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use self::error::TrainingError;
use self::manifest::{manifest, truth};
pub use self::plan::TrainPlan;
pub use self::preflight::{Estimate, Preflight, assumed, preflight, smallest_difference};
use self::seeds::{Training, fresh};
pub use self::settings::{BATCHES, COUNTS, MAX_SEEDS, SEEDS, TrainSettings, is_rate, is_share};
pub use self::split::{Parts, labelled, readable};
pub use self::step_timing::{TimeSpec, time};
use super::extract::{self, ExtractError, Plan};
use super::open::DatasetMoved;
use crate::app::rate::Pace;
use crate::model::data::Dataset;
use crate::model::device::{Choice, DeviceError};
use crate::model::io::atomic_file;
use crate::model::train::run::{LOCK, Outcome, Run, RunError, RunLock};
use crate::model::train::{HeadTrainer, TrainCursor};

/// Progress of a training, passed to its callback. A callback that returns [`ControlFlow::Break`] stops the
/// training after the current batch or step.
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Event<'a> {
    /// The machine of this name was the last to train in the run's folder: it takes up to three minutes to see whether it still does.
    Watch { host: String },
    /// Before any token is extracted: the tokens to extract, the dataset of their images, the training steps over all seeds, and the
    /// smallest difference, in percentage points, that the training could show, if any ([`smallest_difference`]).
    Plan { tokens: &'a Plan, dataset: &'a Dataset, steps: usize, shows: Option<f64> },
    /// Progress of the token extraction: its own event, and the dataset of the images.
    Extract { event: extract::Event<'a>, dataset: &'a Dataset },
    /// The tokens and the run's folder are ready; training begins or resumes on the device of this name.
    Begin { run: &'a Run, device: &'a str },
    /// A step of all heads is done: the seed under way, the epoch and step reached within it, the steps of an epoch, and the images
    /// trained on over all seeds.
    Step { seed: u64, position: TrainCursor, steps: usize, trainers: &'a [HeadTrainer], progress: Pace },
    /// One batch of an evaluation is done.
    Evaluation,
    /// A disk neither takes files of the run nor gives tokens, because of `why`: it is tried again every second, and this event sent,
    /// for a minute at most. It is to be told the `first` time.
    Waiting { why: &'a TrainingError, first: bool },
    /// All heads were evaluated within an epoch, between two steps.
    Between { seed: u64, trainers: &'a [HeadTrainer] },
    /// An epoch of all heads is done, evaluated and saved.
    Epoch { seed: u64, position: TrainCursor, trainers: &'a [HeadTrainer] },
    /// A seed is done and its probes are in the run's folder.
    Seed,
}

/// The result of a training.
#[derive(Debug)]
pub struct Summary {
    /// The run and its folder.
    pub run: Run,
    /// Outcomes, seed by seed and head by head; those reached so far if the training was stopped.
    pub outcomes: Vec<Outcome>,
    /// Whether it ran to its end.
    pub finished: bool,
}

/// What to train, and into which folder.
pub struct TrainSpec {
    /// What is to be trained.
    pub plan: TrainPlan,
    /// The run's folder.
    pub out: PathBuf,
    /// Whether to resume the run that `out` holds, if it holds one.
    pub resume: bool,
}

/// Runs the training `spec` on the device that `open` returns for the name in its settings.
///
/// # Errors
/// If the training cannot begin, resume or continue; also if it is stopped before or during token extraction.
pub fn run(
    open: fn(&str) -> Result<Choice, DeviceError>,
    spec: &TrainSpec,
    tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Summary, TrainingError> {
    let TrainSpec { plan, out, resume } = spec;
    let settings = &plan.settings;
    plan.check_trainings()?; // also of a run that is resumed with more seeds
    let before = existing(spec, tell)?;
    let dataset = plan.dataset().map_err(|source| match &before {
        Some((_, run)) if settings.data.as_ref() == Some(&run.manifest.dataset.path) => {
            TrainingError::Moved(DatasetMoved { recorded_in: out.join("run.json"), source })
        }
        _ => source.into(),
    })?;
    let parts = Parts::divide(&dataset, settings.selection)?;
    axes::check_selection(&plan.heads, parts.selection)?;
    let mut token_plan = Plan::new(plan.tokens(), &dataset)?;
    plan.check_cls(&token_plan)?;
    plan.check_paths(&token_plan)?;
    let choice = open(&settings.device)?;
    token_source::allowed(plan, &token_plan, &parts, &dataset, &choice.device)?;
    if let Some((_, run)) = &before {
        let begun = &run.manifest.tokens;
        if settings.tokens.verify && begun.dataset != token_plan.source().dataset {
            let mut tell = |event: extract::Event<'_>| tell(Event::Extract { event, dataset: &dataset });
            token_plan = token_plan.as_of(begun, &dataset, &mut tell)?.unwrap_or(token_plan);
        }
        resume::compare(run, &manifest(plan, &dataset, &token_plan, &parts, 0, &choice.found.name), false)?;
    }
    // Heads are built before the backbone runs, so that a wrong setting is reported at once.
    let dims = token_plan.dims(&dataset);
    if before.is_none() {
        plan.check()?; // a run that has begun passed the checks of its time
    }
    fresh(plan, dims, 0, &choice.device)?;
    // Another process that starts the same run would extract the same tokens.
    let (lock, begun) = match before {
        Some((lock, run)) => (lock, Some(run)),
        None => (take_lock(out, tell)?, None),
    };
    let shows = smallest_difference(parts.test.images.len(), settings.seeds);
    let steps = parts.train.images.len().div_ceil(settings.batch) * settings.epochs * settings.seeds;
    if tell(Event::Plan { tokens: &token_plan, dataset: &dataset, steps, shows }).is_break() {
        return Err(ExtractError::Stopped { done: token_plan.done, images: token_plan.images }.into());
    }
    let (mut lost, run) = (None, begun.as_ref());
    let tokens = token_source::open_tokens(plan, &token_plan, run, &dataset, &choice.device, &mut |event| {
        lost = lost.take().or_else(|| lock.beat().err()); // once lost, it stays so
        match lost {
            Some(_) => ControlFlow::Break(()),
            None => tell(Event::Extract { event, dataset: &dataset }),
        }
    });
    let tokens = lost.map_or(Ok(()), Err).map_err(TrainingError::from).and(tokens)?;
    let parts = parts.readable(&*tokens, &dataset)?;
    let unreadable: Vec<usize> = (0..token_plan.images).filter(|&image| !tokens.readable(image)).collect();
    let manifest = manifest(plan, &dataset, &token_plan, &parts, unreadable.len(), &choice.found.name);
    let run = match begun {
        Some(mut run) => {
            resume::compare(&run, &manifest, true)?;
            resume::compare_truth(&run, &truth(&dataset, &parts))?;
            run.tidy()?;
            if run.manifest.seeds != manifest.seeds {
                run.set_seeds(&manifest.seeds)?;
            }
            run
        }
        None => Run::create(out, manifest, &truth(&dataset, &parts)).map_err(|error| match error {
            // Another program has created the run since this one checked.
            RunError::Exists { folder } if *resume => RunError::InUse { folder, host: None },
            other => other,
        })?,
    };
    if settings.recomputes(false) {
        run.keep_unreadable(&unreadable)?;
    }
    // The lock is held until the last file is written.
    Training { plan, dims, run, tokens, parts, choice, lock: &lock }.run(tell)
}

/// The run to resume, and the lock of its folder; `None` if a run can begin there.
fn existing(
    TrainSpec { plan, out, resume }: &TrainSpec,
    tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Option<(RunLock, Run)>, TrainingError> {
    let refused = |source| TrainingError::Out { folder: out.clone(), source };
    if atomic_file::is_there(&out.join("run.json")).map_err(refused)? {
        if !*resume {
            return Err(RunError::Exists { folder: out.clone() }.into());
        }
        // Locked before it is read: whoever trained there until now may have added seeds.
        return Ok(Some((take_lock(out, tell)?, Run::open(out)?)));
    }
    // Before the backbone runs over all images.
    plan.check_out(out)?;
    atomic_file::can_write(out).map_err(refused)?;
    if out.join(LOCK).exists() {
        drop(take_lock(out, tell)?); // who waits for a run tries often: it is refused before the dataset is listed
    }
    Ok(None)
}

/// Locks a run's folder; says first if another machine trained there last, which is then watched.
fn take_lock(out: &Path, tell: &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<RunLock, RunError> {
    if let Some(host) = RunLock::other_machine(out) {
        let _ = tell(Event::Watch { host }); // the next event decides whether to stop
    }
    RunLock::take(out)
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_run_that_its_disk_does_not_give_is_not_begun_anew() {
        use super::*;
        let folder = tempfile::tempdir().unwrap();
        let plan = TrainPlan { settings: TrainSettings::default(), backbone: "".into(), heads: Vec::new() };
        let spec = TrainSpec { plan, out: folder.path().to_owned(), resume: true };
        let found = || existing(&spec, &mut |_| ControlFlow::Continue(())).map(|run| run.is_some());
        assert!(matches!(found(), Ok(false)));
        let manifest = folder.path().join("run.json");
        std::os::unix::fs::symlink(&manifest, &manifest).unwrap(); // a link to itself cannot be followed
        assert!(matches!(found(), Err(TrainingError::Out { .. })));
    }
}
