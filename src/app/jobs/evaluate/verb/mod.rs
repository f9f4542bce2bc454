//! Evaluates trained probes on images (the verb `eval`), on this or another machine: accuracy, the effect of their
//! order, agreement with annotated objects, and baselines. A run's numbers are stored in its folder;
//! everything else is sent as events.

mod eval_probes;
mod files;
mod flags;
mod one_probe;
mod parts;
mod run_results;
mod setup;
mod stability;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

pub use self::eval_probes::{EvalImages, EvaluatedProbe, ProbeFile, dataset_of};
pub use self::files::RowFormat;
pub use self::flags::EvalFlags;
use self::one_probe::Inputs;
use self::run_results::RunResults;
use self::setup::Setup;
use super::eval_set;
use crate::app::format::{self, counted, noun};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::extract::{self, ExtractOptions, Extracted, Plan, describe};
use crate::app::jobs::inspect::sources::{probe_files, stems};
use crate::app::jobs::regions::{RegionSource, of_samples};
use crate::app::jobs::removal::{Encoder, SubsetReader, UnreadImages};
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::tokens::{TokenReader, preprocessor};
use crate::app::jobs::train::readable;
use crate::app::jobs::user_error::{lines, refuse};
use crate::app::jobs::{JobError, Reporter, Sink, Unit, fetch};
use crate::model::annotations::RegionSet;
use crate::model::data::Dataset;
use crate::model::data::token_cache::image_digests;
use crate::model::explain::baselines::{Baseline, baselines};
use crate::model::explain::evaluation::metrics::MetricsSpec;
use crate::model::explain::evaluation::stability::Taus;
use crate::model::explain::evaluation::vectors::vector_bytes;
use crate::model::explain::null_model::{DRAWS, NullBands};
use crate::model::explain::removal::{RANKINGS, RemovalSpec};
use crate::model::grid::Grid;
use crate::model::io::sha256;
use crate::model::train::Labelled;

/// The note where nothing can be kept.
const STOPPED: &str = "stopped before the first probe was evaluated on every image";

/// Progress and results of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum EvalEvent {
    /// A remark for the user.
    Note(String),
    /// The tokens are ready; results are kept from here on.
    Begun,
    /// A probe cannot be evaluated.
    LeftOut { probe: PathBuf, error: String },
    /// A probe was evaluated on every image.
    #[serde(rename = "Asked")] // its first name, which other versions send
    Evaluated(Box<EvaluatedProbe>),
    /// The results of a probe on every image, if requested.
    #[serde(rename = "Survey")]
    Evaluation { probe: PathBuf, files: Vec<ResultFile> },
    /// A baseline on the same tokens.
    #[serde(rename = "Anchor")]
    Baseline(Baseline),
    /// Every probe that could be evaluated was evaluated.
    Found {
        /// A description of the images, for the user.
        title: String,
        /// Number of images that could be read.
        images: usize,
        /// Number of these that have a mask.
        masks: usize,
    },
    /// The results are stored; for a run, in this file.
    Kept(Option<PathBuf>),
}

/// Evaluates every probe.
///
/// # Errors
/// If none can be evaluated or the sink fails; if it is cancelled, after sending and keeping the results so far.
pub fn run(
    engine: &mut Engine,
    flags: &EvalFlags,
    reporter: &mut dyn Reporter,
    sink: &Sink<'_, EvalEvent>,
) -> Result<(), JobError> {
    let probe = probe_files(&fetch::probes(&flags.probe, reporter)?)?;
    let flags = &EvalFlags { probe, ..flags.clone() };
    Eval { flags, sink }.run(engine, reporter)
}

/// An evaluation under way.
struct Eval<'a> {
    flags: &'a EvalFlags,
    sink: &'a Sink<'a, EvalEvent>,
}

impl Eval<'_> {
    fn run(&self, engine: &mut Engine, reporter: &mut dyn Reporter) -> Result<(), JobError> {
        let Self { flags, sink } = *self;
        let setup = self.setup(engine, reporter)?;
        let Setup { run, device, options, dataset, eval_images, plan, probes, left_out } = &setup;
        sink(EvalEvent::Note(describe(plan)))?;
        let causal = flags.removal();
        let encoder = causal.as_ref().filter(|spec| spec.needs_encoder());
        let encoder = encoder.map(|spec| self.encoder(spec, plan, device)).transpose()?;
        let Extracted { cache, .. } = extract::run(engine, plan, (dataset, device), reporter)?;
        let _working = reporter.cancel().working();
        sink(EvalEvent::Begun)?;
        let samples = &eval_images.evaluated.images;
        if flags.evaluation.is_some() {
            let bytes = format::bytes(vector_bytes(samples.len(), cache.grid().len()));
            let note = match options.tokens.token_spec.mae_order.is_shuffled() {
                true => {
                    "keeping no numbers per token, as the patches of shuffled tokens are unknown".to_owned()
                }
                false => {
                    format!("keeping three numbers per token: {bytes} per probe, a third more in its file")
                }
            };
            sink(EvalEvent::Note(note))?;
        }
        let [evaluated, training] = [&eval_images.evaluated, &eval_images.training]
            .map(|set| readable(set, |image| cache.readable(image)));
        if evaluated.images.is_empty() {
            let images = counted(samples.len(), "image", "images");
            return Err(anyhow!("0 of {images} can be read (split {})", eval_images.split).into());
        }
        let own = flags.part.map_or(0..samples.len(), |part| part.range(samples.len()));
        let read = |(image, &at): (usize, &usize)| (own.contains(&image) && cache.readable(at)).then_some(at);
        let own_samples: Vec<Option<usize>> = samples.iter().enumerate().map(read).collect();
        let regions = self.regions(engine, (dataset, &own_samples), options, cache.grid(), reporter)?;
        let is_cut = flags.part.is_some() || flags.join.is_some();
        let home = if is_cut { flags.home()? } else { PathBuf::new() };
        let image_digests = match is_cut || run.is_some() || flags.evaluation.is_some() {
            true => image_digests(&plan.root, plan.source(), plan.images),
            false => Vec::new(),
        };
        let known = samples.iter().map(|&at| image_digests.get(at)?.as_deref()).collect::<Option<String>>();
        let image_files = known.map(|digests| sha256::of_bytes(digests.as_bytes()));
        if let (Some(run), Some(files), true) = (run, &image_files, flags.reading.is_none()) {
            flags.check_images(run, files)?;
        }
        let unread = UnreadImages::default();
        let inputs = Inputs {
            flags,
            setup: &setup,
            cache: &cache,
            set: Arc::new(eval_set(dataset, eval_images.split, samples)),
            nulls: NullBands::new(DRAWS, flags.seed),
            metrics: MetricsSpec {
                ablations: flags.ablations.then_some(flags.seed),
                causal: causal.as_ref(),
                last: &flags.keep_last,
                regions: &regions.of,
            },
            image_digests,
            image_files: image_files.clone(),
            subset_reader: encoder
                .as_ref()
                .map(|reader| SubsetReader::new(Encoder::Own(reader), (dataset, &samples[..]), &unread)),
            home: &home,
        };
        let taus = match self.stability(engine, &setup, &own_samples, reporter) {
            Err(JobError::Cancelled) => {
                sink(EvalEvent::Note(STOPPED.into()))?;
                return Err(JobError::Cancelled);
            }
            taus => taus?,
        };
        let mut results = RunResults::new(run.as_ref().filter(|_| flags.reading.is_none()), image_files);
        let (complete, partial) = self.evaluate_all(engine, &inputs, taus, &mut results, reporter)?;
        let end = reporter.cancel().check();
        match flags.part {
            Some(part) if partial > 0 => {
                let images = counted(part.range(samples.len()).len(), "image", "images");
                let how = if end.is_err() { "stopped; saved" } else { "saved" };
                let probes = counted(partial, "probe", "probes");
                sink(EvalEvent::Note(format!("{how} the answers of {probes} on part {part}, {images}")))?;
                return end;
            }
            _ if complete == 0 && end.is_err() => {
                sink(EvalEvent::Note(STOPPED.into()))?;
                return end;
            }
            _ if complete == 0 => {
                let all = counted(probes.len() + left_out, "probe", "probes");
                return Err(anyhow!("0 of {all} could be evaluated").into());
            }
            _ => {}
        }
        let baselines = end.and_then(|()| self.baselines(&inputs, (&training, &evaluated), reporter));
        let (baselines, end) = baselines.map_or_else(|end| (Vec::new(), Err(end)), |found| (found, Ok(())));
        baselines.iter().try_for_each(|baseline| sink(EvalEvent::Baseline(baseline.clone())))?;
        let title = self.title(&setup, evaluated.images.len());
        sink(EvalEvent::Found { title, images: evaluated.images.len(), masks: regions.known() })?;
        results.set_baselines(baselines);
        sink(EvalEvent::Kept(results.store()?))?;
        if let Some(parts) = flags.join.filter(|_| end.is_ok()) {
            // On NFS, files stay as long as a process here has them open; the results are stored.
            if let Err(error) = parts::remove(&home, parts as usize) {
                reporter.warn(format!("{error:#}; it is no longer needed"));
            }
        }
        end
    }

    /// The regions of the `samples`; none where their tokens are shuffled.
    fn regions(
        &self,
        engine: &mut Engine,
        (dataset, samples): (&Dataset, &[Option<usize>]),
        options: &ExtractOptions,
        grid: Grid,
        reporter: &mut dyn Reporter,
    ) -> Result<RegionSet, JobError> {
        let mut from = RegionSource::new(self.flags.masks.clone());
        let spec = &options.tokens.token_spec;
        if spec.mae_order.is_shuffled() && from.of_dataset(dataset)?.is_some() {
            reporter.warn("left out: regions, as the patches of shuffled tokens are unknown".to_owned());
            from = RegionSource::Nowhere;
        }
        let preprocessor = preprocessor(&options.backbone, spec.size)?;
        of_samples(engine, (&from, true), (dataset, samples), &preprocessor, grid, reporter)
    }

    /// Evaluates the probes, until it is cancelled; how many were evaluated on every image, and how many on a part of them.
    fn evaluate_all(
        &self,
        engine: &mut Engine,
        inputs: &Inputs<'_>,
        taus: Vec<Vec<Option<Taus>>>,
        results: &mut RunResults<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<(usize, usize), JobError> {
        let probes = &inputs.setup.probes;
        let names = stems(probes.iter().map(|file| file.path.as_path()), &[]);
        let (mut complete, mut partial) = (0, 0);
        for ((file, name), taus) in probes.iter().zip(&names).zip(taus) {
            match inputs.evaluate(engine, (file, name), taus, reporter) {
                Ok(Some((answer, files))) => {
                    complete += 1;
                    results.add(&answer, self.flags.seed)?;
                    (self.sink)(EvalEvent::Evaluated(Box::new(answer)))?;
                    if let Some(files) = files.transpose()? {
                        (self.sink)(EvalEvent::Evaluation { probe: file.path.clone(), files })?;
                    }
                }
                Ok(None) => partial += 1,
                Err(error) => self.leave_out(file, &error)?,
            }
            // After a cancellation the results so far are still sent.
            if reporter.cancel().is_cancelled() {
                break;
            }
        }
        Ok((complete, partial))
    }

    /// The baselines on the images that could be read, if they are requested.
    fn baselines(
        &self,
        inputs: &Inputs<'_>,
        images: (&Labelled, &Labelled),
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Baseline>, JobError> {
        if !self.flags.baselines {
            return Ok(Vec::new());
        }
        let tell = &mut |what: &str, done: usize, all: usize| {
            reporter.progress(what, done as u64, Some(all as u64), Unit::Items);
            reporter.cancel().check()
        };
        baselines(inputs.cache, images, inputs.setup.dataset.classes.len(), tell)
    }

    /// What was evaluated: `1,000 test images of birds, hardened plan`.
    fn title(&self, setup: &Setup, images: usize) -> String {
        let (split, dataset, change) = (setup.eval_images.split, &setup.dataset.name, &self.flags.reading);
        let reading = if change.is_none() { String::new() } else { format!(", {change}") };
        let noun = noun(images, "image", "images");
        format!("{} {split} {noun} of {dataset}{reading}", format::count(images))
    }

    /// Stability of the orders under small changes and other seeds, as `[probe][image]`, on the readable `samples`; no
    /// image without the flag.
    fn stability(
        &self,
        engine: &mut Engine,
        setup: &Setup,
        samples: &[Option<usize>],
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Vec<Option<Taus>>>, JobError> {
        let EvalFlags { stability, reading, seed, .. } = self.flags;
        let Setup { probes, eval_images, plan, dataset, device, .. } = setup;
        if !stability {
            return Ok(vec![Vec::new(); probes.len()]);
        }
        let cost = format!(
            "the stability of orders costs {} full backbone passes per image, once for all probes",
            stability::passes(*seed)
        );
        (self.sink)(EvalEvent::Note(cost))?;
        let reader = plan.open(device)?;
        if let Some(why) = reader.backbone.why_no_subset() {
            refuse!("--stability: {why}");
        }
        let images: Vec<(Option<usize>, u64)> =
            samples.iter().copied().zip(eval_images.image_seeds.iter().copied()).collect();
        stability::measure(engine, &reader, (probes, reading, *seed), (dataset, &images), reporter)
    }

    /// Opens the backbone for removal curves that need it, and sends a note on their cost.
    fn encoder(&self, spec: &RemovalSpec, plan: &Plan, device: &Device) -> anyhow::Result<TokenReader> {
        let reader = plan.open(device)?;
        if let Some(why) = reader.backbone.why_no_subset() {
            bail!("{why}; use `--causal frozen` or `rerouted`");
        }
        let passes = spec.passes(RANKINGS.len());
        let cost = format!("removal curves cost up to {passes:.0} full backbone passes per image and probe");
        (self.sink)(EvalEvent::Note(cost))?;
        Ok(reader)
    }

    /// Sends the event that a probe cannot be evaluated.
    fn leave_out(&self, file: &ProbeFile, error: &anyhow::Error) -> anyhow::Result<()> {
        (self.sink)(EvalEvent::LeftOut { probe: file.path.clone(), error: lines(error).join(": ") })
    }
}
