//! Pre-trains a backbone on images of a dataset, into a folder that is a backbone when it has finished. A pre-training
//! may be stopped between two steps, and resumed after a stop or kill.

mod folder;
mod settings;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use burn::tensor::Device;

use self::folder::{Folder, MANIFEST};
pub use self::folder::{Manifest, Pictures, Point};
use self::settings::PART;
pub use self::settings::PretrainSettings;
use super::open::DatasetMoved;
use crate::app::format;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::rate::{Pace, RateMeter};
use crate::model::data::image::ImageError;
use crate::model::data::token_cache::Precision;
use crate::model::data::{self, Dataset, Sample, Split};
use crate::model::device;
use crate::model::pretrain::photographs::Photographs;
use crate::model::pretrain::{Plan, Pretraining, Progress, folder as backbone};
use crate::model::train::run::{RunError, RunLock};

/// How often a pre-training is saved within an epoch.
const CHECKPOINT_INTERVAL: Duration = Duration::from_mins(10);
/// Steps between two lines of the log.
const LOG_INTERVAL: usize = 20;

/// The input of [`run`].
pub struct PretrainSpec {
    /// Pictures, objective and hyperparameters.
    pub settings: PretrainSettings,
    /// Its folder, which becomes the backbone.
    pub out: PathBuf,
    /// Whether to resume the pre-training that `out` holds, if any.
    pub resume: bool,
}

/// Progress of a pre-training. A callback that returns `Break` stops it after the current step, saved.
pub enum Event<'a> {
    /// Another machine was the last to pre-train in the folder: it takes up to three minutes to see whether it still does.
    Watch {
        /// Its name.
        host: String,
    },
    /// The pre-training begins or resumes.
    Begin {
        /// Its settings, pictures and plan.
        manifest: &'a Manifest,
        /// Name of the compute device.
        device: &'a str,
        /// Number of steps done before.
        step: usize,
    },
    /// A picture cannot be read and is left out; sent once per picture.
    Unreadable(&'a ImageError),
    /// A step is done.
    Step {
        /// Number of the current epoch, from 1.
        epoch: usize,
        /// Means since the last log line.
        point: &'a Point,
        /// Progress in pictures, over all epochs.
        progress: Pace,
    },
}

/// The result of a pre-training.
pub struct Summary {
    /// Its last log line.
    pub last: Option<Point>,
    /// Whether it ran to its end.
    pub finished: bool,
}

/// The settings of the pre-training in a folder; `None` if it is empty or absent.
pub fn settings_in(out: &std::path::Path) -> anyhow::Result<Option<PretrainSettings>> {
    Ok(Folder::manifest(out)?.map(|manifest| manifest.settings))
}

/// Sums over the steps since the last log line.
struct RunningSums {
    images: usize,
    loss: f64,
    /// Number of correct answers; supervised only.
    correct: Option<f64>,
    begun: Instant,
}

impl RunningSums {
    fn new() -> Self {
        Self { images: 0, loss: 0.0, correct: None, begun: Instant::now() }
    }

    /// Adds a step on this number of pictures.
    fn add(&mut self, step: &Progress, pictures: usize) {
        self.images += pictures;
        self.loss += f64::from(step.loss) * pictures as f64;
        if let Some(accuracy) = step.accuracy {
            *self.correct.get_or_insert(0.0) += f64::from(accuracy) * pictures as f64;
        }
    }

    /// The log line of these sums.
    fn point(&self, step: usize, epoch: f64, rate: f64) -> Point {
        let images = self.images.max(1) as f64;
        Point {
            step,
            epoch,
            loss: self.loss / images,
            accuracy: self.correct.map(|correct| 100.0 * correct / images),
            rate,
            images_per_second: images / self.begun.elapsed().as_secs_f64().max(1e-6),
        }
    }
}

/// Runs the pre-training, or the steps of it that remain.
pub fn run(
    spec: &PretrainSpec,
    on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> anyhow::Result<Summary> {
    let PretrainSpec { settings, out, resume } = spec;
    let begun = match Folder::manifest(out)? {
        Some(_) if !resume => return Err(RunError::Exists { folder: out.clone() }.into()),
        begun => begun,
    };
    let Some(data) = &settings.data else {
        refuse!("{} has nothing to resume; --data starts a pre-training", out.display());
    };
    let dataset = match &begun {
        Some(begun) if begun.settings.data.as_ref() == Some(data) => {
            let recorded_in = out.join(MANIFEST);
            data::open(data).map_err(|source| DatasetMoved { recorded_in, source })?
        }
        _ => data::open(data)?,
    };
    let samples = samples(&dataset, settings.split)?;
    let manifest = Manifest::new(settings, &dataset, &samples)?;
    let choice = device::choose(&settings.device)?;
    check_memory(&manifest.plan, &choice.device)?;
    let folder = match &begun {
        Some(begun) => Folder::resume(out, begun, &manifest)?,
        None => Folder::create(out, &manifest)?,
    };
    if let Some(host) = RunLock::other_machine(out) {
        let _ = on_event(Event::Watch { host }); // the next event decides whether to stop
    }
    let lock = RunLock::take(out)?;
    folder.tidy()?;
    let plan = &manifest.plan;
    let mut pretraining = match folder.checkpoint()? {
        Some(bytes) => Pretraining::restore(plan, &choice.device, &bytes)
            .map_err(RunError::damaged(&folder.checkpoint_path()))?,
        None => Pretraining::start(plan, &choice.device),
    };
    let mut log = folder.log(pretraining.steps_done())?;
    let stopped = |log: Vec<Point>| Ok(Summary { last: log.into_iter().next_back(), finished: false });
    let begin =
        Event::Begin { manifest: &manifest, device: &choice.found.name, step: pretraining.steps_done() };
    if on_event(begin).is_break() {
        return stopped(log);
    }
    let (images, batch) = (samples.len(), plan.batch);
    let photographs = Photographs::new(samples, settings.augment);
    let epoch_steps = Photographs::steps(images, batch);
    let images_done = |step: usize| step / epoch_steps * images + (step % epoch_steps * batch).min(images);
    let meter = RateMeter::new(images_done(plan.steps), images_done(pretraining.steps_done()));
    let (mut sums, mut unreadable, mut kept) = (RunningSums::new(), HashSet::new(), Instant::now());
    while pretraining.steps_done() < plan.steps {
        lock.beat()?;
        let (pictures, left_out) = photographs.batch(plan, pretraining.steps_done());
        for error in left_out.iter().filter(|error| unreadable.insert(error.to_string())) {
            let _ = on_event(Event::Unreadable(error)); // the step's event decides whether to stop
        }
        let step = pretraining.steps_done() + 1;
        if let Some(error) = left_out.into_iter().next().filter(|_| pictures.is_empty()) {
            return Err(anyhow::Error::from(error).context(format!("step {step}: no image can be read")));
        }
        let rate = plan.rate(step - 1);
        let result = pretraining.step(&pictures);
        let fail = |found: String| -> anyhow::Result<Summary> {
            bail!(
                "step {step}: {found}; start again with a lower --rate than {}, in another folder",
                plan.rate
            )
        };
        if !result.loss.is_finite() {
            return fail(format!("the loss became {}", result.loss));
        }
        sums.add(&result, pictures.len());
        let point = sums.point(step, images_done(step) as f64 / images as f64, rate);
        let epoch = step.div_ceil(epoch_steps);
        let progress = meter.at(images_done(step));
        let stops = on_event(Event::Step { epoch, point: &point, progress }).is_break();
        let is_due = match settings.checkpoint_every {
            Some(steps) => step.is_multiple_of(steps),
            None => step.is_multiple_of(epoch_steps) || kept.elapsed() >= CHECKPOINT_INTERVAL,
        };
        let saves = stops || step == plan.steps || is_due;
        if saves || step.is_multiple_of(LOG_INTERVAL) {
            log.push(point);
            sums = RunningSums::new();
        }
        if saves {
            if !pretraining.is_finite() {
                return fail("the weights became infinite or NaN".to_owned());
            }
            let bytes = pretraining.save().map_err(RunError::damaged(&folder.checkpoint_path()))?;
            folder.keep(&log, &bytes)?;
            kept = Instant::now();
        }
        if stops && step < plan.steps {
            return stopped(log);
        }
    }
    backbone::save(out, plan, &pretraining.weights(), Precision::Float32)?;
    Ok(Summary { last: log.pop(), finished: true })
}

/// Refuses a step of which no part fits in main memory: running out of it would end the program without a message.
fn check_memory(plan: &Plan, device: &Device) -> Result<(), Usage> {
    let memory = device::main_memory().unwrap_or(u64::MAX);
    match plan.part_bytes(device).filter(|bytes| *bytes > memory) {
        Some(bytes) => refuse!(
            "a step of this size takes {} or more, and this machine has {}; give a larger --patch, a smaller --size, \
             --width or --layers, or a --batch below {PART}",
            format::bytes(bytes),
            format::bytes(memory)
        ),
        None => Ok(()),
    }
}

/// The pictures of a split; an error if there are none.
fn samples(dataset: &Dataset, split: Split) -> Result<Vec<&Sample>, Usage> {
    let samples: Vec<&Sample> = dataset.samples.iter().filter(|sample| sample.split == split).collect();
    if samples.is_empty() {
        let others = Split::ALL.map(|split| format!("{} {}", dataset.count(split), split.name())).join(", ");
        refuse!("--split {}: {} has no such images ({others})", split.name(), dataset.root.display());
    }
    Ok(samples)
}
