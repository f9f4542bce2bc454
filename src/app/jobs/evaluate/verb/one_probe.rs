//! The evaluation of one probe: on all images, on a part of them, or joined from the parts.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::parts::{self, PartFile};
use super::setup::Setup;
use super::{EvalFlags, EvaluatedProbe, ProbeFile, RowFormat, files};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::evaluate::batches::{EvalContext, evaluate_until};
use crate::app::jobs::part::Part;
use crate::app::jobs::removal::SubsetReader;
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::{JobError, Reporter};
use crate::model::backbone::order::MaeOrder;
use crate::model::data::token_cache::{TokenCache, TokenKey};
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::explain::evaluation::metrics::MetricsSpec;
use crate::model::explain::evaluation::stability::Taus;
use crate::model::explain::evaluation::{EvalSet, Provenance};
use crate::model::explain::null_model::NullBands;
use crate::model::train::run::ProbeCheckpoint;

/// What every probe is evaluated on, and how.
pub(super) struct Inputs<'a> {
    pub flags: &'a EvalFlags,
    pub setup: &'a Setup,
    pub cache: &'a TokenCache,
    pub set: Arc<EvalSet>,
    pub nulls: NullBands,
    pub metrics: MetricsSpec<'a>,
    /// SHA-256 of the file of each image of the cache, where known; of no image if nothing is kept.
    pub image_digests: Vec<Option<String>>,
    /// SHA-256 of those of the evaluated images, if all are known.
    pub image_files: Option<String>,
    /// Removes patches before the backbone.
    pub subset_reader: Option<SubsetReader<'a>>,
    /// Folder of the parts' answers.
    pub home: &'a Path,
}

/// A probe's results, and the files that hold them if they are asked for, or why those cannot be made.
type Evaluated = (EvaluatedProbe, Option<anyhow::Result<Vec<ResultFile>>>);

impl Inputs<'_> {
    /// The results of a probe, whose files are called `name`, on every image; `None` if it was evaluated on one part
    /// only, or cancelled before the last image.
    pub fn evaluate(
        &self,
        engine: &mut Engine,
        (file, name): (&ProbeFile, &str),
        taus: Vec<Option<Taus>>,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Option<Evaluated>> {
        let Self { flags, cache, set, nulls, .. } = self;
        let Setup { dataset, eval_images, plan, .. } = self.setup;
        let (probe, sha256) = file.load()?;
        eval_images.check_classes(&probe, &dataset.classes)?;
        let (samples, image_seeds) = (&eval_images.evaluated.images[..], &eval_images.image_seeds[..]);
        let (reading, images) = (&flags.reading, (samples, image_seeds));
        let mut evaluator = Evaluator::new(&probe, reading.clone(), cache, set.clone(), images, nulls)?;
        (evaluator.metrics, evaluator.stability) = (Some(self.metrics), taus);
        let files = flags.evaluation.is_some();
        if files {
            evaluator.keep_vectors();
        }
        let context = EvalContext { what: &file.name(), probe: [0, 1], subset_reader: self.subset_reader };
        let digest = OnceCell::new(); // covers the names of all images: computed once for all parts
        let part_of = |part: Part| {
            let digest = digest.get_or_init(|| {
                // Without the dataset's hash: the digest covers the images themselves, and the cache may hold more.
                let tokens = TokenKey { dataset: String::new(), ..plan.source().clone() }.key();
                let config = plan.backbone.config.as_deref();
                parts::question_digest(flags, (&sha256, &tokens, config), (set, image_seeds))
            });
            let range = part.range(samples.len());
            let regions = self.metrics.regions.get(range.clone()).unwrap_or_default();
            let images = samples[range].iter().map(|&at| self.image_digests.get(at)).collect::<Vec<_>>();
            let question = parts::question_of_part(digest, &images, regions);
            PartFile::new(self.home, part, name, question, samples.len())
        };
        let done = match (flags.part, flags.join) {
            (Some(part), _) => part_of(part).evaluate(engine, &evaluator, context, reporter),
            (None, Some(of)) => (0..of as usize).try_for_each(|index| {
                part_of(Part { index, of: of as usize }).join(engine, &mut evaluator, context, reporter)
            }),
            (None, None) => evaluate_until(engine, &mut evaluator, samples.len(), context, reporter),
        };
        if JobError::unless_cancelled(done)?.is_none() || flags.part.is_some() {
            return Ok(None);
        }
        self.prediction_warning(file, &evaluator).into_iter().for_each(|warning| reporter.warn(warning));
        let metrics = evaluator.metrics().context("none of its images was read")?;
        let suffix = if reading.is_none() { String::new() } else { format!("-{}", reading.id()) };
        let TokenKey { weights, preprocessing, layer, .. } = plan.source().clone();
        let provenance = Provenance {
            probe_file: sha256.clone(),
            weights,
            config: plan.backbone.config.clone(),
            preprocessing,
            layer,
            image_files: self.image_files.clone(),
            seed: flags.seed,
            ..Provenance::new()
        };
        let (name, made_of) = (format!("{name}{suffix}"), (probe.meta.backbone.id.clone(), provenance));
        let formats: &[_] = if flags.format.is_empty() { &[RowFormat::Csv] } else { &flags.format };
        let files = files.then(|| files::result_files(&name, evaluator, made_of, formats));
        Ok(Some((EvaluatedProbe { file: file.clone(), sha256, metrics }, files)))
    }

    /// A warning of a run's probe that predicts other classes than in its training: `report` would show the accuracies of both side
    /// by side.
    fn prediction_warning(&self, file: &ProbeFile, evaluator: &Evaluator<'_>) -> Option<String> {
        let Some((head, seed, ProbeCheckpoint::Best)) = &file.of else { return None };
        let is_redrawn = self.setup.options.tokens.token_spec.mae_order == MaeOrder::Redrawn;
        let run = self.setup.run.as_ref().filter(|_| self.flags.reading.is_none() && !is_redrawn)?;
        let trained = run.outcome(head, *seed).ok()?.best;
        let (changed, images) = (evaluator.changed(&trained), trained.len());
        is_more_than_rounding(changed, images).then(|| {
            format!(
                "{}: predicts another class than in its training on {changed} of {images} test images, more than rounding \
                 explains; restore the files that were changed since: {}, those of the backbone, or the images",
                file.name(),
                file.path.display()
            )
        })
    }
}

/// Whether the predicted class `changed` for more of the images than rounding explains: a few may have two classes that are about
/// equally probable.
fn is_more_than_rounding(changed: usize, images: usize) -> bool {
    changed > 1 && 100 * changed > images
}

#[cfg(test)]
mod tests {
    use super::is_more_than_rounding;

    #[test]
    fn one_image_or_one_in_a_hundred_may_change_by_rounding() {
        let cases = [(0, 12), (1, 12), (2, 12), (2, 199), (2, 200), (11, 1000)];
        let found = cases.map(|(changed, images)| is_more_than_rounding(changed, images));
        assert_eq!(found, [false, false, true, true, false, true]);
    }
}
