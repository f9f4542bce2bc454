//! What an evaluation is about: checked before any image is read.

use anyhow::anyhow;
use burn::tensor::Device;

use super::{Eval, Question, Subject};
use crate::app::format::{counted, shell_path};
use crate::app::jobs::engine::Engine;
use crate::app::jobs::extract::{ExtractOptions, Plan};
use crate::app::jobs::tokens::token_warning;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::train::resume::same_tokens;
use crate::app::jobs::{JobError, Reporter};
use crate::app::user_error::{self, Usage};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenKey;
use crate::model::train::run::{ProbeCheckpoint, Run};

/// Probes, images and tokens of an evaluation.
pub(super) struct Setup {
    /// The run whose probes they are.
    pub run: Option<Run>,
    /// Where the backbone runs.
    pub device: Device,
    /// How the tokens are extracted.
    pub options: ExtractOptions,
    /// The images whose tokens are extracted: with anchors or if all are cached the whole dataset, else those of `question`.
    pub dataset: Dataset,
    /// Which of them are evaluated.
    pub question: Question,
    /// The extraction.
    pub plan: Plan,
    /// The probes that fit.
    pub subjects: Vec<Subject>,
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
        let question = match &run {
            Some(run) => Question::of_run(run, &dataset, selection)?,
            None => Question::of_split(&dataset, flags.split)?,
        };
        run.as_ref().map_or(Ok(()), |run| self.check_layer(run))?;
        let plan = Plan::new(options.clone(), &dataset)?;
        flags.check_tokens(plan.grid.len())?;
        let subjects = match &run {
            Some(run) => self.subjects_of(run, &plan, reporter)?,
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
        Ok(Setup { run, device, options, dataset, question, plan, subjects, left_out })
    }

    /// The probes of a run that read the tokens of `plan`, with a warning of missing ones; an error if it was trained on other
    /// images or weights.
    fn subjects_of(
        &self,
        run: &Run,
        plan: &Plan,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Vec<Subject>> {
        same_tokens(run, plan.source())?;
        if run.manifest.tokens.dataset != plan.source().dataset {
            reporter.warn(format!(
                "images have other sizes or times than when {} was trained; `ssmprobe train --resume --verify --out {}` \
                 says whether any was changed",
                run.folder().display(),
                shell_path(run.folder())
            ));
        }
        let which = if self.flags.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best };
        let reads = |subject: &Subject| subject.reads(run, plan.source());
        let (found, warning) = Subject::of_run(run, which)?;
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
            "{run} has probes on the tokens after several layers ({layers}): choose one at a time, as --layer {own}"
        );
        Err(Usage(why).into())
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
        let mut refused = true;
        for subject in subjects {
            let fits = subject.load().and_then(|(probe, _)| {
                probe.fits(plan.backbone.hidden_size, plan.grid.len(), plan.cls)?;
                question.check_classes(&probe, classes)
            });
            match fits {
                Ok(()) => compatible.push(subject),
                Err(error) => {
                    refused &= !subject.path.exists() || user_error::refused(&error);
                    self.leave_out(&subject, &error)?;
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
        let token_spec = plan.settled(&options.tokens.token_spec);
        for (path, probe) in self.flags.readable_probes() {
            let warning = token_warning((path, &probe), own, &token_spec, preprocessing);
            warning.into_iter().for_each(|warning| reporter.warn(warning));
        }
    }
}
