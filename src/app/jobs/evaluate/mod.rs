//! Evaluating probes on all images of a dataset: tokens from the cache on disk, then one probe after the other, a batch of images at a
//! time. What was evaluated before is read from its file.

pub mod answer_file;
mod batches;
mod split_tokens;
pub mod stored;
pub mod verb;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::batches::{EvalContext, evaluate_until};
use self::split_tokens::SplitTokens;
use super::engine::Engine;
use super::regions::RegionSource;
use super::removal::{Encoder, SubsetReader, UnreadImages};
use super::train::labelled;
use super::{BackboneId, ExplainSettings, JobError, ProbeId, Reporter};
use crate::app::format::{count, counted, noun};
use crate::app::jobs::user_error::UserError;
use crate::model::data::{Dataset, Split};
use crate::model::explain::evaluation::evaluator::{Evaluator, dataset_classes};
use crate::model::explain::evaluation::metrics::MetricsSpec;
use crate::model::explain::evaluation::{EvalSet, Evaluation};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::removal::{Mode, RemovalSpec};
use crate::model::reading::Reading;

/// The images that probes are evaluated on: one split of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalSplit {
    /// The whole dataset.
    pub dataset: Arc<Dataset>,
    /// The split.
    pub split: Split,
    /// Its samples, as indices into [`Dataset::samples`].
    pub samples: Vec<usize>,
    /// Their names and true classes.
    #[serde(rename = "asked")] // its first name, which other versions send
    pub set: Arc<EvalSet>,
}

impl EvalSplit {
    /// The images of `split`; if it is `None` or has no images, those of the held-out split.
    pub fn new(dataset: Dataset, split: Option<Split>) -> Self {
        let split = split.filter(|split| dataset.count(*split) > 0);
        let split = split.or_else(|| dataset.held_out()).unwrap_or(Split::Train);
        let samples = labelled(&dataset, split).images;
        let set = Arc::new(eval_set(&dataset, split.name(), &samples));
        Self { split, samples, set, dataset: Arc::new(dataset) }
    }

    /// Fails, in words, if its lists do not fit each other.
    pub fn check(&self) -> Result<(), String> {
        let (dataset, set, images) = (&self.dataset, &self.set, self.samples.len());
        let (found, classes) = (dataset.samples.len(), set.classes.len().min(dataset.classes.len()));
        let fits = set.images.len() == images
            && set.class.len() == images
            && self.samples.iter().all(|sample| *sample < found)
            && set.class.iter().all(|class| (*class as usize) < classes);
        fits.then_some(())
            .ok_or_else(|| format!("the images of {} and their classes do not match", dataset.name))
    }

    /// A summary in one line: `folder, 500 test images of 10 classes`.
    pub fn summary(&self) -> String {
        let (images, classes) = (self.samples.len(), counted(self.set.classes.len(), "class", "classes"));
        let noun = noun(images, "image", "images");
        format!("{}, {} {} {noun} of {classes}", self.dataset.layout, count(images), self.split.name())
    }
}

/// The dataset with these of its samples alone, in this order, so that tokens of no other image are extracted.
fn subset(dataset: &Dataset, samples: &[usize]) -> Dataset {
    let Dataset { name, root, layout, classes, skipped, notes, .. } = dataset;
    let (name, root, classes, notes) = (name.clone(), root.clone(), classes.clone(), notes.clone());
    let samples = samples.iter().map(|at| dataset.samples[*at].clone()).collect();
    Dataset { name, root, layout, classes, samples, skipped: *skipped, notes }
}

/// Names and classes of `samples`, indices into [`Dataset::samples`].
pub fn eval_set(dataset: &Dataset, split: &str, samples: &[usize]) -> EvalSet {
    EvalSet {
        dataset: dataset.name.clone(),
        split: split.to_owned(),
        classes: dataset.classes.clone(),
        images: samples.iter().map(|at| dataset.name_of_image(*at)).collect(),
        class: samples.iter().map(|at| dataset.samples[*at].class as u32).collect(),
    }
}

/// A request to evaluate probes on one split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalRequest {
    /// The images.
    pub part: Arc<EvalSplit>,
    /// The probes, in the order in which they are evaluated.
    pub subjects: Vec<EvalProbe>,
    /// Settings of null bands.
    pub settings: ExplainSettings,
    /// Where regions of the images come from.
    #[serde(default)]
    pub regions: RegionSource,
    /// Modes of removal curves to compute for every image.
    #[serde(default)]
    pub removals: Vec<Mode>,
    /// Further probes, whose evaluations are looked up and not computed: those that are not known have no answer.
    #[serde(default)]
    pub stored: Vec<EvalProbe>,
}

/// A probe, the backbone whose tokens it reads, and an intervention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalProbe {
    /// The probe.
    pub probe: ProbeId,
    /// The backbone.
    pub backbone: BackboneId,
    /// What is changed in how the probe reads.
    pub change: Intervention,
}

/// The result of evaluating one probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvalAnswer {
    /// The probe.
    pub subject: EvalProbe,
    /// The evaluation, or why it failed.
    pub result: Result<Arc<Evaluation>, UserError>,
}

/// Evaluates every subject, or looks it up, and reports each as soon as it is done.
pub fn run(
    engine: &mut Engine,
    spec: &EvalRequest,
    reporter: &mut dyn Reporter,
    tell: &mut dyn FnMut(EvalAnswer) -> anyhow::Result<()>,
) -> Result<(), JobError> {
    let (mut tokens, digest, unread) = (None, stored::request_digest(spec), UnreadImages::default());
    let request = (spec, digest.as_deref());
    // A stored evaluation is shown with the removal curves that it has.
    let lookup = EvalRequest { removals: Vec::new(), ..spec.clone() };
    let mut answer = |subject: &EvalProbe, result| tell(EvalAnswer { subject: subject.clone(), result });
    for subject in &spec.stored {
        reporter.pause(engine)?;
        match stored_evaluation(engine, (&lookup, request.1), subject, &mut tokens, reporter) {
            Ok(Some(stored)) => answer(subject, Ok(stored))?,
            // If the lookup failed, evaluating it will report why.
            Ok(None) | Err(JobError::Failed(_)) => {}
            Err(JobError::Cancelled) => return Err(JobError::Cancelled),
        }
    }
    for (at, subject) in spec.subjects.iter().enumerate() {
        reporter.pause(engine)?;
        if let Some(stored) = stored_evaluation(engine, request, subject, &mut tokens, reporter)? {
            answer(subject, Ok(stored))?;
            continue;
        }
        // No tokens are extracted, which may take hours, for a probe that has no class of the dataset.
        if let Ok(loaded) = engine.probe(subject.probe)
            && let Err(error) = dataset_classes(&loaded.probe, &spec.part.set)
        {
            answer(subject, Err(UserError::from_error(error)))?;
            continue;
        }
        let tokens = of_backbone(&mut tokens, engine, spec, subject.backbone, reporter)?;
        tokens.complete(engine, spec, reporter)?;
        // Named before the evaluation: meanwhile another file may be opened in the probe's place.
        let file = stored::file(engine, request, subject);
        let result = JobError::answer(evaluate_probe(engine, spec, at, (tokens, &unread), reporter))?;
        answer(subject, result.clone())?;
        // An encoder that was opened on another device meanwhile has made some of the curves.
        let is_of_one = spec.removals.is_empty() || stored::file(engine, request, subject) == file;
        if let (Some(file), Ok(evaluation)) = (file.filter(|_| is_of_one), result) {
            tokens.store(&file, &evaluation, reporter);
        }
    }
    Ok(())
}

/// The evaluation of a probe, if it is stored; without a file of it, neither tokens nor regions are looked at.
fn stored_evaluation(
    engine: &mut Engine,
    request: (&EvalRequest, Option<&str>),
    subject: &EvalProbe,
    tokens: &mut Option<SplitTokens>,
    reporter: &mut dyn Reporter,
) -> Result<Option<Arc<Evaluation>>, JobError> {
    let files =
        stored::file(engine, request, subject).map_or_else(Vec::new, |file| stored::candidates(&file));
    if files.is_empty() {
        return Ok(None);
    }
    let tokens = of_backbone(tokens, engine, request.0, subject.backbone, reporter)?;
    tokens.stored(engine, request.0, &files, reporter)
}

/// The tokens through a backbone; those through another are dropped.
fn of_backbone<'a>(
    tokens: &'a mut Option<SplitTokens>,
    engine: &mut Engine,
    spec: &EvalRequest,
    backbone: BackboneId,
    reporter: &mut dyn Reporter,
) -> Result<&'a mut SplitTokens, JobError> {
    let found = match tokens.take().filter(|tokens| tokens.backbone == backbone) {
        Some(found) => found,
        None => SplitTokens::find(engine, spec, backbone, reporter)?,
    };
    Ok(tokens.insert(found))
}

/// Evaluates one probe on all images.
fn evaluate_probe(
    engine: &mut Engine,
    spec: &EvalRequest,
    at: usize,
    (split, unread): (&SplitTokens, &UnreadImages),
    reporter: &mut dyn Reporter,
) -> Result<Evaluation, JobError> {
    let EvalProbe { probe, backbone, change } = spec.subjects[at].clone();
    let (SplitTokens { places, key, .. }, (tokens, regions)) = (split, split.loaded());
    // A copy: the probe may be closed, or be opened anew from another file, while it is evaluated.
    let loaded = engine.probe(probe)?.clone();
    let (name, probe) = (loaded.name(), loaded.probe);
    let nulls = NullBands::new(spec.settings.null_draws, spec.settings.seed);
    // Seeds of random orders: the images' indices in the whole dataset, wherever their tokens are cached.
    let draws: Vec<u64> = spec.part.samples.iter().map(|at| *at as u64).collect();
    let images = (&places[..], &draws[..]);
    let set = spec.part.set.clone();
    // How the tokens differ from those of the training, which the evaluator cannot know. Fails if the backbone was reopened.
    let changes = engine.same_reader(backbone, key)?.changes(&probe);
    let mut evaluator = Evaluator::new(&probe, change.clone(), tokens, set, images, &nulls)?;
    evaluator.keep_vectors();
    let removals =
        RemovalSpec { modes: spec.removals.clone(), seed: spec.settings.seed, ..RemovalSpec::default() };
    let causal = (!removals.modes.is_empty()).then_some(&removals);
    let known: &[_] = if regions.known() > 0 { &regions.of } else { &[] };
    if causal.is_some() || !known.is_empty() {
        evaluator.metrics = Some(MetricsSpec { regions: known, causal, ..MetricsSpec::default() });
    }
    let what = match spec.subjects.len() {
        1 => format!("Evaluating {name}"),
        count => format!("Evaluating {name}, {} of {count} probes", at + 1),
    };
    let images = (&*spec.part.dataset, &spec.part.samples[..]);
    let reader = SubsetReader::new(Encoder::Open(backbone, key), images, unread);
    let subset_reader = removals.needs_encoder().then_some(reader);
    let context = EvalContext { what: &what, probe: [at, spec.subjects.len()], subset_reader };
    evaluate_until(engine, &mut evaluator, places.len(), context, reporter)?;
    let mut evaluation = evaluator.finish(name, probe.meta.backbone.id.clone());
    evaluation.change =
        Reading { change, tokens: changes, ..Reading::default() }.changes().unwrap_or_default();
    Ok(evaluation)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::model::data::Sample;

    #[test]
    fn instead_of_a_split_without_images_the_one_held_out_is_evaluated() {
        let sample = |split| Sample { source: PathBuf::from("a.png").into(), class: 0, split };
        let samples = [Split::Train, Split::Val].map(sample).into();
        let dataset = Dataset { classes: vec!["bird".into()], samples, ..Dataset::default() };
        let evaluated = |split| EvalSplit::new(dataset.clone(), split).split;
        let choices = [None, Some(Split::Train), Some(Split::Test)];
        assert_eq!(choices.map(evaluated), [Split::Val, Split::Train, Split::Val]);
    }
}
