//! Evaluates trained probes on images (the verb `eval`), on this or another machine: accuracy, the effect of their
//! order, agreement with annotated objects, and anchors as baselines. A run's numbers are stored in its folder;
//! everything else is sent as events.

mod eval_probes;
mod files;
mod flags;
mod parts;
mod stability;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

pub use self::eval_probes::{EvaluatedProbe, Question, Subject, dataset_of};
pub use self::files::RowFormat;
pub use self::flags::EvalFlags;
use self::parts::PartFile;
use super::engine::Engine;
use super::evaluate::{Asking, ask_all, eval_set};
use super::extract::{self, ExtractOptions, Extracted, Plan, describe};
use super::inspect::sources::{distinct, stems};
use super::part::Part;
use super::regions::{RegionSource, of_samples};
use super::removal::{Encoder, SubsetReader};
use super::result_file::ResultFile;
use super::run_metrics::{ProbeMetrics, RunMetrics};
use super::tokens::{TokenReader, doubt, preprocessor};
use super::train::resume::same_tokens;
use super::train::{TrainSettings, readable};
use super::{JobError, Reporter};
use crate::app::format::{self, counted, noun};
use crate::app::user_error::{Usage, lines};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenKey;
use crate::model::explain::baselines::{Anchor, anchors};
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::explain::evaluation::metrics::MetricsSpec;
use crate::model::explain::evaluation::stability::Taus;
use crate::model::explain::evaluation::vectors::vector_bytes;
use crate::model::explain::null_model::{DRAWS, NullBands};
use crate::model::explain::removal::{RANKINGS, RemovalSpec};
use crate::model::train::run::{ProbeCheckpoint, Run};

/// Progress and results of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EvalEvent {
    /// A remark for the user.
    Note(String),
    /// The tokens are ready; results are kept from here on.
    Begun,
    /// A probe cannot be evaluated.
    LeftOut {
        /// Its file.
        probe: PathBuf,
        /// The error.
        error: String,
    },
    /// A probe was evaluated on every image.
    Asked(Box<EvaluatedProbe>),
    /// The results of a probe on every image, if requested.
    Survey {
        /// Its file.
        probe: PathBuf,
        /// The files that hold them.
        files: Vec<ResultFile>,
    },
    /// An anchor on the same tokens.
    Anchor(Anchor),
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

/// Receives the events; an error it returns ends the job.
pub type EvalSink<'a> = dyn Fn(EvalEvent) -> anyhow::Result<()> + Sync + 'a;

/// Evaluates every probe.
///
/// # Errors
/// If none can be evaluated or the sink fails; if it is cancelled, after sending and keeping the results so far.
pub fn run(
    engine: &mut Engine,
    flags: &EvalFlags,
    reporter: &mut dyn Reporter,
    sink: &EvalSink<'_>,
) -> Result<(), JobError> {
    let probe = distinct(super::fetch::probes(&flags.probe, reporter)?);
    let flags = &EvalFlags { probe, ..flags.clone() };
    Eval { flags, sink }.run(engine, reporter)
}

/// An evaluation under way.
struct Eval<'a> {
    flags: &'a EvalFlags,
    sink: &'a EvalSink<'a>,
}

impl Eval<'_> {
    fn run(&self, engine: &mut Engine, reporter: &mut dyn Reporter) -> Result<(), JobError> {
        let Self { flags, sink } = *self;
        flags.check()?;
        let run = flags.run.as_deref().map(Run::open).transpose()?;
        let trained = run.as_ref().map(TrainSettings::of_run).transpose()?;
        let device = (engine.env.device)(&flags.device)?.device;
        let options = flags.extract_options(trained.as_ref(), &device, reporter)?;
        let dataset = flags.dataset(run.as_ref())?;
        let selection = trained.as_ref().and_then(|settings| settings.selection);
        let question = match &run {
            Some(run) => Question::of_run(run, &dataset, selection)?,
            None => Question::of_split(&dataset, flags.split)?,
        };
        run.as_ref().map_or(Ok(()), |run| self.check_layer(run))?;
        let plan = Plan::new(options.clone(), &dataset)?;
        flags.check_tokens(plan.grid.len())?;
        let subjects = match &run {
            Some(run) => self.subjects_of(run, &plan)?,
            None => {
                self.warn(&plan, &options, reporter);
                flags.probe.iter().map(|path| Subject::of_file(path)).collect()
            }
        };
        let (subjects, left_out) = self.compatible(subjects, &question, &plan, &dataset.classes)?;
        // Only anchors need tokens of the training images; those that are cached anyway stay in the plan.
        let keep_all = flags.anchors || plan.complete();
        let (dataset, question) = if keep_all { (dataset, question) } else { question.reduce(&dataset) };
        let plan = if keep_all { plan } else { plan.for_dataset(&dataset)? };
        sink(EvalEvent::Note(describe(&plan)))?;
        let causal = flags.removal();
        let encoder = causal.as_ref().filter(|spec| spec.needs_encoder());
        let encoder = encoder.map(|spec| self.encoder(spec, &plan, &device)).transpose()?;
        let Extracted { cache, .. } = extract::run(engine, &plan, (&dataset, &device), reporter)?;
        let _working = reporter.cancel().working();
        sink(EvalEvent::Begun)?;
        if flags.evaluation.is_some() {
            let bytes = format::bytes(vector_bytes(question.evaluated.images.len(), cache.grid().len()));
            let note =
                format!("keeping three numbers per token: {bytes} per probe, a third more in its file");
            sink(EvalEvent::Note(note))?;
        }
        let nulls = NullBands::new(DRAWS, flags.seed);
        let [evaluated, training] =
            [&question.evaluated, &question.training].map(|set| readable(set, &cache));
        if evaluated.images.is_empty() {
            let images = counted(question.evaluated.images.len(), "image", "images");
            return Err(anyhow!("0 of {images} can be read (split {})", question.split).into());
        }
        let (samples, image_seeds) = (&question.evaluated.images, &question.image_seeds[..]);
        let own = flags.part.map_or(0..samples.len(), |part| part.range(samples.len()));
        let read = |(image, &at): (usize, &usize)| (own.contains(&image) && cache.readable(at)).then_some(at);
        let own_samples: Vec<Option<usize>> = samples.iter().enumerate().map(read).collect();
        let from = RegionSource::new(flags.masks.clone());
        let preprocessor = preprocessor(&options.backbone, options.tokens.token_spec.size)?;
        let images = (&dataset, &own_samples[..]);
        let regions = of_samples(engine, &from, images, &preprocessor, cache.grid(), reporter)?;
        let set = Arc::new(eval_set(&dataset, question.split, samples));
        let ablations = flags.ablations.then_some(flags.seed);
        let last = &flags.keep_last;
        let spec = MetricsSpec { ablations, causal: causal.as_ref(), last, regions: &regions.of };
        let home = if flags.part.is_some() || flags.join.is_some() { flags.home()? } else { PathBuf::new() };
        // Without the dataset's hash: the digest covers the images themselves, and the cache may hold more.
        let tokens = TokenKey { dataset: String::new(), ..plan.source.clone() }.key();
        let (mut answered, mut kept) = (Vec::new(), 0);
        let change = &flags.reading;
        let suffix = if change.is_none() { String::new() } else { format!("-{}", change.id()) };
        let names = stems(subjects.iter().map(|subject| subject.path.as_path()), &[]);
        let left = encoder.as_ref().map(|reader| SubsetReader::new(Encoder::Own(reader), &dataset, samples));
        let images = (&dataset, &own_samples[..], image_seeds);
        let mut taus = self.stability(engine, &subjects, &plan, images, reporter)?;
        for (at, (subject, name)) in subjects.iter().zip(&names).enumerate() {
            let answer = subject.load().and_then(|(probe, file)| {
                question.check_classes(&probe, &dataset.classes)?;
                let images = (&samples[..], image_seeds);
                let evaluator = Evaluator::new(&probe, change.clone(), &cache, set.clone(), images, &nulls)?;
                let evaluator = evaluator.with_metrics(spec).with_stability(std::mem::take(&mut taus[at]));
                let files = flags.evaluation.is_some();
                let mut evaluator = if files { evaluator.with_vectors() } else { evaluator };
                let what = &subject.name();
                let asking = Asking { what, left };
                let digest = OnceCell::new(); // covers the names of all images: computed once for all parts
                let part_of = |part: Part| {
                    let all = || parts::question_digest(flags, (&file, &tokens), (&set, image_seeds));
                    PartFile::new(&home, part, name, digest.get_or_init(all), samples.len())
                };
                let done = match (flags.part, flags.join) {
                    (Some(part), _) => part_of(part).evaluate(engine, &evaluator, asking, reporter),
                    (None, Some(of)) => (0..of as usize).try_for_each(|index| {
                        let part = part_of(Part { index, of: of as usize });
                        part.join(engine, &mut evaluator, asking, reporter)
                    }),
                    (None, None) => ask_all(engine, &mut evaluator, asking, reporter),
                };
                if JobError::unless_cancelled(done)?.is_none() || flags.part.is_some() {
                    kept += 1;
                    return Ok(None);
                }
                let metrics = evaluator.metrics().context("none of its images was read")?;
                let (name, backbone) = (format!("{name}{suffix}"), probe.meta.backbone.id.clone());
                let formats: &[_] = if flags.format.is_empty() { &[RowFormat::Csv] } else { &flags.format };
                let files = files.then(|| files::survey(&name, evaluator, backbone, change, formats));
                Ok(Some((EvaluatedProbe { subject: subject.clone(), file, metrics }, files)))
            });
            match answer {
                Ok(Some((answer, files))) => {
                    answered.push(answer.clone());
                    sink(EvalEvent::Asked(Box::new(answer)))?;
                    if let Some(files) = files.transpose()? {
                        sink(EvalEvent::Survey { probe: subject.path.clone(), files })?;
                    }
                }
                // Cancelled before the last image, or evaluated on one part only: no results over all images.
                Ok(None) => {}
                Err(error) => self.leave_out(subject, &error)?,
            }
            // After a cancellation the results so far are still sent and stored.
            if reporter.cancel().is_cancelled() {
                break;
            }
        }
        let end = reporter.cancel().check();
        let stopped = end.is_err();
        if let Some(part) = flags.part.filter(|_| kept > 0) {
            let images = counted(part.range(samples.len()).len(), "image", "images");
            let how = if stopped { "stopped; saved" } else { "saved" };
            let kept = counted(kept, "probe", "probes");
            sink(EvalEvent::Note(format!("{how} the answers of {kept} on part {part}, {images}")))?;
            return end;
        }
        if answered.is_empty() && stopped {
            sink(EvalEvent::Note("stopped before the first probe was evaluated on every image".into()))?;
            return end;
        }
        if answered.is_empty() {
            let all = counted(subjects.len() + left_out, "probe", "probes");
            return Err(anyhow!("0 of {all} could be evaluated").into());
        }
        let anchors = match flags.anchors && !stopped {
            true => anchors(&cache, &training, &evaluated, dataset.classes.len()),
            false => Vec::new(),
        };
        anchors.iter().try_for_each(|anchor| sink(EvalEvent::Anchor(anchor.clone())))?;
        let images = evaluated.images.len();
        let reading = if change.is_none() { String::new() } else { format!(", {change}") };
        let noun = noun(images, "image", "images");
        let title = format!("{images} {} {noun} of {}{reading}", question.split, dataset.name);
        sink(EvalEvent::Found { title, images, masks: regions.known() })?;
        let run = run.as_ref().filter(|_| change.is_none());
        sink(EvalEvent::Kept(run.map(|run| store(run, flags.seed, &answered, anchors)).transpose()?))?;
        if let Some(parts) = flags.join.filter(|_| !stopped) {
            parts::remove(&home, parts as usize)?;
        }
        end
    }

    /// The probes of a run that read the tokens of `plan`; an error if the run was trained on other images or weights.
    fn subjects_of(&self, run: &Run, plan: &Plan) -> anyhow::Result<Vec<Subject>> {
        same_tokens(run, &plan.source)?;
        let which = if self.flags.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best };
        let reads = |subject: &Subject| subject.reads(run, &plan.source);
        Ok(Subject::of_run(run, which)?.into_iter().filter(reads).collect())
    }

    /// Stability of the orders under small changes and other seeds, as `[subject][image]`; no image without the flag.
    fn stability(
        &self,
        engine: &mut Engine,
        subjects: &[Subject],
        plan: &Plan,
        (dataset, samples, image_seeds): (&Dataset, &[Option<usize>], &[u64]),
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<Vec<Option<Taus>>>, JobError> {
        let EvalFlags { stability, reading, seed, device, .. } = self.flags;
        if !stability {
            return Ok(vec![Vec::new(); subjects.len()]);
        }
        let cost = format!(
            "the stability of orders costs {} full encoder passes per image, once for all probes",
            stability::passes(*seed)
        );
        (self.sink)(EvalEvent::Note(cost))?;
        let device = (engine.env.device)(device)?.device;
        let reader = plan.open(&device)?;
        if let Some(why) = reader.backbone.why_no_subset() {
            return Err(Usage(format!("--stability: {why}")).into());
        }
        let images: Vec<(Option<usize>, u64)> =
            samples.iter().copied().zip(image_seeds.iter().copied()).collect();
        stability::measure(engine, &reader, (subjects, reading, *seed), (dataset, &images), reporter)
    }

    /// Refuses a run of several layers if no flag says which of them to evaluate.
    fn check_layer(&self, run: &Run) -> anyhow::Result<()> {
        let layers = run.manifest.layers();
        // Where there are several, variants have layers of their own.
        let own = run.manifest.heads.iter().find_map(|variant| variant.layer);
        let Some(own) = own.filter(|_| layers.len() > 1 && !self.flags.tokens.has("layer")) else {
            return Ok(());
        };
        let (run, layers) = (run.folder().display(), layers.join(", "));
        let why = format!(
            "{run} has probes on the tokens after several layers ({layers}): choose one at a time, as --layer {own}"
        );
        Err(Usage(why).into())
    }

    /// Opens the backbone for removal curves that need it, and sends a note on their cost.
    fn encoder(&self, spec: &RemovalSpec, plan: &Plan, device: &Device) -> anyhow::Result<TokenReader> {
        let reader = plan.open(device)?;
        if let Some(why) = reader.backbone.why_no_subset() {
            bail!("{why}; use `--causal frozen` or `rerouted`");
        }
        let passes = spec.passes(RANKINGS.len());
        let cost = format!("removal curves cost up to {passes:.0} full encoder passes per image and probe");
        (self.sink)(EvalEvent::Note(cost))?;
        Ok(reader)
    }

    /// The probes that fit tokens and classes, checked before any image is read, and the number of the others, for each
    /// of which an event is sent.
    fn compatible(
        &self,
        subjects: Vec<Subject>,
        question: &Question,
        plan: &Plan,
        classes: &[String],
    ) -> anyhow::Result<(Vec<Subject>, usize)> {
        let (mut compatible, all) = (Vec::new(), subjects.len());
        let absent = !subjects.iter().any(|subject| subject.path.exists());
        for subject in subjects {
            let fits = subject.load().and_then(|(probe, _)| {
                probe.fits(plan.backbone.hidden_size, plan.grid.len(), plan.cls)?;
                question.check_classes(&probe, classes)
            });
            match fits {
                Ok(()) => compatible.push(subject),
                Err(error) => self.leave_out(&subject, &error)?,
            }
        }
        if compatible.is_empty() {
            let all = counted(all, "probe", "probes");
            let why = format!("0 of {all} can be evaluated; no image was read");
            return Err(if absent { Usage(why).into() } else { anyhow!(why) });
        }
        let left_out = all - compatible.len();
        Ok((compatible, left_out))
    }

    /// Sends the event that a probe cannot be evaluated.
    fn leave_out(&self, subject: &Subject, error: &anyhow::Error) -> anyhow::Result<()> {
        (self.sink)(EvalEvent::LeftOut { probe: subject.path.clone(), error: lines(error).join(": ") })
    }

    /// Warns of every probe that was trained on other tokens.
    fn warn(&self, plan: &Plan, options: &ExtractOptions, reporter: &mut dyn Reporter) {
        let TokenKey { weights, preprocessing, .. } = &plan.source;
        let token_spec = plan.settled(&options.tokens.token_spec);
        for (path, probe) in self.flags.readable_probes() {
            if let Some(why) = doubt(&probe, weights, &token_spec, preprocessing) {
                reporter.warn(format!("probe {} {why}; its numbers may mean little", path.display()));
            }
        }
    }
}

/// Stores results, whose random draws are seeded with `draws`, in the run's folder; returns the file.
fn store(run: &Run, draws: u64, results: &[EvaluatedProbe], anchors: Vec<Anchor>) -> anyhow::Result<PathBuf> {
    let probes = results.iter().filter_map(|EvaluatedProbe { subject, file, metrics }| {
        let (head, seed, which) = subject.of.clone()?;
        let (which, metrics) = (which.name().to_owned(), metrics.clone());
        Some(ProbeMetrics { head, seed, which, file: Some(file.clone()), draws: Some(draws), metrics })
    });
    Ok(RunMetrics { probes: probes.collect(), anchors }.keep(run)?)
}
