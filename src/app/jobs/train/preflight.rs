//! What is known of a training before it begins: its images, steps and tokens, and an estimate of its duration.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Parts, TrainPlan, TrainSettings, TrainingError, axes};
use crate::app::jobs::extract::Plan;
use crate::app::jobs::tasks::has_slurm;
use crate::app::paths;
use crate::model::data::{self, Dataset};
use crate::model::probe::head::Dims;
use crate::model::stats::CrossedMean;
use crate::model::train::run::Selection;

/// The amounts of a training and where it reads and writes, known before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// Name of the dataset.
    pub dataset: String,
    /// Id of its layout.
    #[serde(deserialize_with = "data::layout_id")]
    pub layout: data::LayoutId,
    /// Images trained on.
    pub train: usize,
    /// Images that pick the best epoch.
    pub select: usize,
    /// Images the result is reported on.
    pub test: usize,
    /// How the best epoch is picked.
    pub selection: Selection,
    /// Name of the backbone.
    pub backbone: String,
    /// Sizes of tokens, grid and classes.
    pub dims: Dims,
    /// Images of the dataset.
    pub images: usize,
    /// Images whose tokens are already cached.
    pub cached: usize,
    /// Whether no tokens are kept: the backbone reads the images anew in every epoch.
    pub recompute: bool,
    /// Bytes of all tokens.
    pub bytes: u64,
    /// Folder of the tokens.
    pub cache: PathBuf,
    /// Free bytes on the disk, if the system reports them.
    pub free: Option<u64>,
    /// Folder of the run.
    pub out: PathBuf,
    /// Remarks on the dataset and on what the protocol leaves out, for the user.
    pub notes: Vec<String>,
    /// Whether tasks can be submitted to Slurm on the machine that computes.
    #[serde(default)]
    pub slurm: bool,
}

/// Durations measured on a small sample, on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Extracting the tokens of one image; absent if all are cached.
    pub image: Option<Duration>,
    /// One training step of all heads, on `tried` images.
    pub step: Duration,
    /// Evaluating all heads on `tried` images.
    pub evaluation: Duration,
    /// Images in the measured batch.
    pub tried: usize,
}

/// How long a training takes, part by part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Extracting the tokens.
    pub tokens: Duration,
    /// Steps and evaluations.
    pub training: Duration,
}

/// Share of the test images that one of two heads alone answers rightly: what is assumed before any is trained.
const DISAGREEMENT: f64 = 0.1;

/// The smallest difference of two heads' accuracies, in points, that a training could show on this number of test images
/// with this number of seeds: found at 80 % power by a test at 5 % (docs/definitions.md, section 13); `None` if
/// none is. What it rests on is in [`assumed`].
pub fn smallest_difference(images: usize, seeds: usize) -> Option<f64> {
    let points = CrossedMean::expected(images, seeds, DISAGREEMENT).detectable(0.8);
    // Heads that differ by more than that share of images disagree on more of them, which goes by its root.
    let points = if points > 100.0 * DISAGREEMENT { points.powi(2) / (100.0 * DISAGREEMENT) } else { points };
    (points < 100.0).then_some(points)
}

/// What [`smallest_difference`] assumes where it is this number of points with this number of seeds, in words.
pub fn assumed(points: Option<f64>, seeds: usize) -> String {
    let assumed = match points {
        None => "test images and seeds are too few to detect any difference at 80 % power",
        // More than the share of images on which one of two heads alone is then right.
        Some(points) if points > 100.0 * DISAGREEMENT => {
            "at 80 % power, if the worse of two heads is right only where the better one is; more otherwise, and if results vary between seeds"
        }
        Some(_) => {
            "at 80 % power, if exactly one of two heads is right on a tenth of the test images; more if results vary between seeds"
        }
    };
    // The variance over two trainings has one degree of freedom: intervals are wide on any number of images.
    let remedy = if seeds == 2 { "; 2 seeds hardly show their variation: train 3 or more" } else { "" };
    format!("{assumed}{remedy}")
}

/// Looks at dataset, backbone and disk; nothing is written.
///
/// # Errors
/// As the training itself would fail: nothing to train on, tokens that do not fit, a folder that
/// holds another run.
pub fn preflight(plan: &TrainPlan) -> Result<(Preflight, Plan, Dataset), TrainingError> {
    plan.check()?;
    let settings = &plan.settings;
    let dataset = plan.dataset()?;
    let parts = Parts::divide(&dataset, settings.selection)?;
    axes::check_selection(&plan.heads, parts.selection)?;
    let tokens = Plan::new(plan.tokens(), &dataset)?;
    plan.check_cls(&tokens)?;
    plan.check_paths(&tokens)?;
    if let (false, Err(refused)) = (settings.recomputes(false), tokens.check()) {
        return Err(TrainingError::TooLarge { refused, epoch: None });
    }
    let suggested = || paths::run(&format!("{}-{}", dataset.name, tokens.backbone.id.replace('/', "-")));
    let out = settings.out.clone().or_else(suggested).ok_or(TrainingError::NoOut)?;
    if out.join("run.json").exists() {
        return Err(crate::model::train::run::RunError::Exists { folder: out }.into());
    }
    plan.check_out(&out)?;
    let dims = tokens.dims(&dataset);
    let notes = dataset.notes.iter().cloned().chain(settings.config().left_out());
    let preflight = Preflight {
        dataset: dataset.name.clone(),
        layout: dataset.layout,
        train: parts.train.images.len(),
        select: parts.select.images.len(),
        test: parts.test.images.len(),
        selection: parts.selection,
        backbone: tokens.backbone.id.clone(),
        dims,
        images: tokens.images,
        cached: tokens.done,
        recompute: settings.recomputes(tokens.complete()),
        bytes: tokens.bytes,
        cache: tokens.folder(),
        free: tokens.free,
        out,
        notes: notes.chain(tokens.leak_warning(&dataset)).collect(),
        slurm: has_slurm(),
    };
    Ok((preflight, tokens, dataset))
}

impl Preflight {
    /// Steps of all heads, over all epochs and seeds.
    pub fn steps(&self, settings: &TrainSettings) -> usize {
        self.train.div_ceil(settings.batch) * settings.epochs * settings.seeds
    }

    /// The estimated duration, from the measured durations of `estimate`.
    pub fn cost(&self, estimate: &Estimate, settings: &TrainSettings) -> Cost {
        let times = |time: Duration, count: f64| Duration::from_secs_f64(time.as_secs_f64() * count);
        let share = |images: usize| images as f64 / estimate.tried.max(1) as f64;
        let evaluated = self.select + if self.selection == Selection::Test { 0 } else { self.test };
        let epochs = (settings.epochs * settings.seeds) as f64;
        let steps = self.train.div_ceil(settings.batch);
        let between = settings.evaluate_every.map_or(0, |every| {
            // At the end of an epoch there is one evaluation, not two.
            let ends = (1..=settings.epochs).filter(|epoch| (epoch * steps).is_multiple_of(every)).count();
            (settings.epochs * steps / every).saturating_sub(ends) * settings.seeds
        });
        let evaluations = epochs + between as f64;
        let read = match self.recompute {
            true => self.train as f64 * epochs + evaluated as f64 * evaluations,
            false => self.images.saturating_sub(self.cached) as f64,
        };
        Cost {
            tokens: estimate.image.map_or(Duration::ZERO, |image| times(image, read)),
            training: times(estimate.step, share(self.train) * epochs)
                + times(estimate.evaluation, share(evaluated) * evaluations),
        }
    }
}

impl Cost {
    /// The total duration.
    pub fn total(&self) -> Duration {
        self.tokens + self.training
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;

    #[test]
    fn the_words_of_a_difference_agree_with_its_number() {
        let words = |images, seeds| assumed(smallest_difference(images, seeds), seeds);
        assert!(words(500, 3).contains("a tenth of the test images"));
        for seeds in [1, 3] {
            let few = words(30, seeds); // 28.0 and 29.8 points
            assert!(few.contains("right only where the better one is") && !few.contains("train 3"), "{few}");
        }
        let two = words(30, 2);
        assert!(
            two.contains("too few to detect any difference") && two.ends_with("train 3 or more"),
            "{two}"
        );
    }

    #[test]
    fn time_is_steps_evaluations_and_missing_tokens() {
        let facts = Preflight {
            dataset: "birds".into(),
            layout: "folder",
            train: 100,
            select: 50,
            test: 50,
            selection: Selection::Test,
            backbone: "tiny".into(),
            dims: Dims { width: 24, grid: Grid::new(2, 2), classes: 4 },
            images: 150,
            cached: 50,
            recompute: false,
            bytes: 1000,
            cache: "tokens".into(),
            free: None,
            out: "run".into(),
            notes: Vec::new(),
            slurm: false,
        };
        let second = Duration::from_secs(1);
        let estimate = Estimate { image: Some(second), step: 2 * second, evaluation: second, tried: 10 };
        let settings = TrainSettings { epochs: 3, batch: 40, seeds: 2, ..TrainSettings::default() };
        assert_eq!(facts.steps(&settings), 18);
        let cost = facts.cost(&estimate, &settings);
        assert_eq!((cost.tokens, cost.training), (100 * second, 6 * (20 + 5) * second));
        assert_eq!(cost.total(), 250 * second);
        // Each seed takes 9 steps, 3 an epoch: beside those of 6 epochs, evaluations are after steps 2, 4 and 8; the sixth and the
        // ninth step end an epoch.
        for (every, evaluations) in [(2, 6 + 2 * 3), (3, 6), (9, 6)] {
            let often = TrainSettings { evaluate_every: Some(every), ..settings.clone() };
            assert_eq!(facts.cost(&estimate, &often).training, (6 * 20 + evaluations * 5) * second);
        }
        let again = Preflight { recompute: true, ..facts.clone() };
        assert_eq!(again.cost(&estimate, &settings).tokens, 150 * 6 * second);
        // Where other images pick the best epoch, the test images are evaluated too.
        let picked = Preflight { selection: Selection::Val, select: 20, ..facts };
        assert_eq!(picked.cost(&estimate, &settings).training, 6 * (20 + 7) * second);
    }
}
