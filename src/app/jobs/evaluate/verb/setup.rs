//! What an evaluation is about: checked before any image is read.

use anyhow::anyhow;
use burn::tensor::Device;

use super::{Eval, EvalImages, ProbeFile};
use crate::app::format::{counted, shell_path};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::extract::{ExtractOptions, Plan};
use crate::app::jobs::tokens::token_warning;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::train::resume::same_tokens;
use crate::app::jobs::user_error::{self, Usage};
use crate::app::jobs::{JobError, Reporter};
use crate::model::data::token_cache::TokenKey;
use crate::model::data::{Dataset, is_of_training};
use crate::model::train::run::{ProbeCheckpoint, Run};

/// Probes, images and tokens of an evaluation.
pub(super) struct Setup {
    /// The run whose probes they are.
    pub run: Option<Run>,
    /// Where the backbone runs.
    pub device: Device,
    /// How the tokens are extracted.
    pub options: ExtractOptions,
    /// The images whose tokens are extracted: with baselines or if all are cached the whole dataset, else those of `eval_images`.
    pub dataset: Dataset,
    /// Which of them are evaluated.
    pub eval_images: EvalImages,
    pub plan: Plan,
    /// The probes that fit.
    pub probes: Vec<ProbeFile>,
    /// Number of probes that do not.
    pub left_out: usize,
}

impl Eval<'_> {
    /// Opens and checks what the flags name, and sends an event for every probe that does not fit.
    pub(super) fn setup(&self, engine: &Engine, reporter: &mut dyn Reporter) -> Result<Setup, JobError> {
        let flags = self.flags;
        flags.check()?;
        let run = flags.run.as_deref().map(Run::open).transpose()?;
        let trained = run.as_ref().map(TrainSettings::of_run).transpose()?;
        let device = (engine.env.device)(&flags.device)?.device;
        let options = flags.extract_options(trained.as_ref(), &device, reporter)?;
        let dataset = flags.dataset(run.as_ref())?;
        let selection = trained.as_ref().and_then(|settings| settings.selection);
        let eval_images = match &run {
            Some(run) => EvalImages::of_run(run, &dataset, selection)?,
            None => EvalImages::of_split(&dataset, flags.split)?,
        };
        run.as_ref().map_or(Ok(()), |run| self.check_layer(run))?;
        let plan = Plan::new(options.clone(), &dataset)?;
        flags.check_tokens(plan.grid.len())?;
        let probes = match &run {
            Some(run) => self.probes_of(run, &plan, reporter)?,
            None => {
                // A run's notes were told when it was trained.
                let notes = dataset.notes.iter().filter(|note| !is_of_training(note));
                notes.for_each(|note| reporter.warn(format!("{}: {note}", dataset.name)));
                self.warn(&plan, &options, reporter);
                flags.probe.iter().map(|path| ProbeFile::of_file(path)).collect()
            }
        };
        let (probes, left_out) = self.compatible(probes, &eval_images, &plan, &dataset.classes)?;
        // Only baselines need tokens of the training images; those that are cached anyway stay in the plan.
        let keep_all = flags.baselines || plan.complete();
        let (dataset, eval_images) =
            if keep_all { (dataset, eval_images) } else { eval_images.reduce(&dataset) };
        let plan = if keep_all { plan } else { plan.for_dataset(&dataset)? };
        Ok(Setup { run, device, options, dataset, eval_images, plan, probes, left_out })
    }

    /// The probes of a run that read the tokens of `plan`, with a warning of missing ones; an error if it was trained on other
    /// images or weights.
    fn probes_of(
        &self,
        run: &Run,
        plan: &Plan,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Vec<ProbeFile>> {
        same_tokens(run, plan.source(), plan.backbone.config.as_deref())?;
        if run.manifest.tokens.dataset != plan.source().dataset {
            reporter.warn(format!(
                "image files differ in size or time from when {} was trained; `ssmprobe train --resume --verify --out {}` \
                 says whether any was changed",
                run.folder().display(),
                shell_path(run.folder())
            ));
        }
        let which = if self.flags.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best };
        let reads = |file: &ProbeFile| file.reads(run, plan.source());
        let (found, warning) = ProbeFile::of_run(run, which)?;
        warning.into_iter().for_each(|warning| reporter.warn(warning));
        Ok(found.into_iter().filter(reads).collect())
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
            "{run} has probes on the tokens after several layers ({layers}): choose one at a time, such as --layer {own}"
        );
        Err(Usage(why).into())
    }

    /// The probes that fit tokens and classes, checked before any image is read, and the number of the others, for each
    /// of which an event is sent.
    fn compatible(
        &self,
        probes: Vec<ProbeFile>,
        eval_images: &EvalImages,
        plan: &Plan,
        classes: &[String],
    ) -> anyhow::Result<(Vec<ProbeFile>, usize)> {
        let (mut compatible, all) = (Vec::new(), probes.len());
        let mut refused = true;
        for file in probes {
            let fits = file.load().and_then(|(probe, _)| {
                probe.fits(plan.backbone.hidden_size, plan.grid.len(), plan.cls)?;
                eval_images.check_classes(&probe, classes)
            });
            match fits {
                Ok(()) => compatible.push(file),
                Err(error) => {
                    refused &= !file.path.exists() || user_error::refused(&error);
                    self.leave_out(&file, &error)?;
                }
            }
        }
        if compatible.is_empty() {
            let all = counted(all, "probe", "probes");
            let why = format!("0 of {all} can be evaluated; no image was read");
            return Err(if refused { Usage(why).into() } else { anyhow!(why) });
        }
        let left_out = all - compatible.len();
        Ok((compatible, left_out))
    }

    /// Warns of every probe that was trained on other tokens.
    fn warn(&self, plan: &Plan, options: &ExtractOptions, reporter: &mut dyn Reporter) {
        let TokenKey { weights, preprocessing, .. } = plan.source();
        let own = (weights.as_str(), plan.backbone.config.as_deref());
        let token_spec = plan.canonical(&options.tokens.token_spec);
        for (path, probe) in self.flags.readable_probes() {
            let warning = token_warning((path, &probe), own, &token_spec, preprocessing);
            warning.into_iter().for_each(|warning| reporter.warn(warning));
        }
    }
}
