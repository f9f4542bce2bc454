//! The flags of `eval`, which are sent unchanged to the machine that computes.

use std::path::{Path, PathBuf};

use anyhow::bail;
use burn::tensor::Device;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::eval_probes::{EvalImages, dataset_of};
use super::files::RowFormat;
use crate::app::jobs::extract::{ExtractOptions, TokenSettings};
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::inspect::{Modes, modes};
use crate::app::jobs::part::Part;
use crate::app::jobs::run_metrics::{self, ProbeMetrics};
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::jobs::{Reporter, fetch};
use crate::app::value_parser::whole_number;
use crate::model::annotations::Annotations;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::{self, Dataset, Split};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::removal::RemovalSpec;
use crate::model::io::atomic_file;
use crate::model::probe::Probe;
use crate::model::train::run::{ProbeCheckpoint, Run};

/// Probes, images and measures of an evaluation. Paths are those of the machine that computes, except that of
/// `evaluation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct EvalFlags {
    /// Folder of a run: evaluate its probes on its test images, with its backbone and dataset. Results are saved
    /// there, for `ssmprobe report`.
    // Required as a group: clap drops the requirement of a flag where that flag conflicts with another one.
    #[arg(long, value_name = "RUN", group = "evaluated_run")]
    pub run: Option<PathBuf>,
    /// Backbone: a folder, or an id on the Hugging Face Hub (`ORGANISATION/NAME[@REVISION]`).
    #[arg(long, value_name = "DIR|HUB_ID")]
    pub backbone: Option<String>,
    /// Dataset: a folder, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE")]
    pub data: Option<PathBuf>,
    /// Probe files, folders of them, folders of runs (their best probes), or files on the Hub
    /// (hf:ORGANISATION/NAME/FILE). A file given twice is evaluated once.
    #[arg(long, value_name = "P.safetensors", conflicts_with = "run", num_args = 1..)]
    pub probe: Vec<PathBuf>,
    /// With --run, evaluate the probes after the last epoch instead of those of the best one; `report` makes tables of the
    /// best only.
    #[arg(long, requires = "evaluated_run")]
    pub last: bool,
    /// Without --run, the split to evaluate on: train, val or test [default: test, or val if there is no test split].
    #[arg(long, value_name = "SPLIT", conflicts_with = "run")]
    pub split: Option<Split>,
    /// Regions of the images: a folder of masks (PNG) with the images' names, or a dataset's folder with annotations
    /// of CUB or Stanford Cars [default: those of the dataset].
    #[arg(long, value_name = "DIR")]
    pub masks: Option<PathBuf>,
    /// Also evaluate with disturbed orders: scrambled after routing, no routing, random order. Nothing is retrained.
    #[arg(long)]
    pub ablations: bool,
    /// Also remove every image's tokens, and put them back, the most important first, and save the mean heights of
    /// the probability of its own class: frozen (plan and weights stay), rerouted (the head reads what is left),
    /// patches (the backbone reads what is left) or pixels (patches are painted over). Every probe reads every image
    /// up to a thousand times, and with the last two the backbone hundreds of times: use few images.
    #[arg(long, value_name = "MODE[,MODE]", value_parser = modes)]
    pub causal: Option<Modes>,
    /// Also keep only the last R tokens read, and report the accuracy that is left (the reading last=R): 1,10,49,98.
    #[arg(long, value_name = "R[,R]", value_delimiter = ',', value_parser = whole_number(1_usize..))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_last: Vec<usize>,
    /// Also measure how stable orders are: the backbone reads every image about 25 more times, flipped, cropped, darker,
    /// brighter and with noise, once for all probes; probes that differ only in their seed are compared, too.
    #[arg(long, conflicts_with_all = ["part", "join"])]
    #[serde(default)]
    pub stability: bool,
    /// How the probes read, without retraining: as-trained, scrambled[=SEED] (after routing), scrambled-hard[=SEED]
    /// (the hardened plan), hardened, no-routing, random-order[=SEED], order=FILE, last=R (only the last R tokens),
    /// temperature=T or iterations=K. Nothing is saved to a run then.
    #[arg(long, value_name = "READING", default_value = "as-trained", conflicts_with = "ablations")]
    pub reading: Intervention,
    /// Also evaluate nearest neighbours and logistic regression on CLS and mean tokens of the training images.
    #[arg(long, alias = "anchors")]
    #[serde(rename = "anchors")] // its first name, which other versions send
    pub baselines: bool,
    /// Also write every probe's results for every image to this folder: `<probe>.survey.json`, for `ssmprobe figures
    /// --evaluation` and `ssmprobe similar`, and `<probe>.csv`, one row per image.
    #[arg(long, alias = "survey", value_name = "DIR")]
    pub evaluation: Option<PathBuf>,
    /// Formats of the per-image rows of --evaluation: csv, parquet or both [default: csv].
    #[arg(
        long,
        value_name = "FORMAT",
        value_delimiter = ',',
        requires = "evaluation",
        hide_possible_values = true
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub format: Vec<RowFormat>,
    /// Evaluate only one of N parts of the images, and keep the results for --join; other parts can run at the same
    /// time. Used by the tasks of --submit.
    #[arg(long, value_name = "I/N")]
    #[serde(default)]
    pub part: Option<Part>,
    /// Join the results of N parts, and evaluate what they lack. Used by the last task of --submit.
    #[arg(long, value_name = "N", conflicts_with = "part", value_parser = whole_number(1_u32..))]
    #[serde(default)]
    pub join: Option<u32>,
    /// Seed of disturbed orders, of null bands, of the changes of --stability and of the random orders of --causal. A run
    /// holds results of one seed.
    #[arg(long, default_value_t = 0, value_parser = whole_number(0_u64..))]
    pub seed: u64,
    /// How tokens are extracted and cached.
    #[command(flatten)]
    pub tokens: FlagOverrides<TokenSettings>,
    /// Where to extract tokens: cpu, wgpu, cuda or auto. Probes run in float64 on the CPU.
    #[arg(long, default_value = "auto")]
    pub device: String,
}

impl EvalFlags {
    /// Refuses flags that do not determine probes and images, masks that do not exist, and a folder for results that
    /// cannot be written.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let is_complete = self.backbone.is_some() && self.data.is_some() && !self.probe.is_empty();
        if self.run.is_none() && !is_complete {
            refuse!("pass --run RUN, or --backbone, --data and --probe");
        }
        if let Some(masks) = &self.masks {
            Annotations::check(masks).map_err(|error| Usage(format!("--masks {error}")))?;
        }
        self.check_seed()?;
        let run = self.run.clone().filter(|_| self.reading.is_none());
        let in_parts = self.part.is_some() || self.join.is_some();
        let Some(folder) = (if in_parts { Some(self.home()?) } else { run }) else { return Ok(()) };
        atomic_file::can_write(&folder).map_err(|why| {
            let (flag, remedy) = match self.run {
                Some(_) => (
                    "--run",
                    "; if it is another user's, copy it, or give its probes (--probe), --backbone and --data",
                ),
                None => ("--evaluation", ""),
            };
            let folder = folder.display();
            Usage(format!("{flag}: results are saved to {folder}, which cannot be written to: {why}{remedy}"))
        })
    }

    /// Refuses a seed other than that of stored results that were requested and took long: its own would replace them; and
    /// stored results that cannot be read, to which none can be added.
    fn check_seed(&self) -> Result<(), Usage> {
        let run = self.run.as_ref().filter(|_| self.reading.is_none()).and_then(|run| Run::open(run).ok());
        let Some(run) = run else { return Ok(()) };
        let stored = self.requested(&run)?;
        match stored.iter().filter_map(|probe| probe.draws).find(|seed| *seed != self.seed) {
            None => Ok(()),
            Some(other) => refuse!(
                "--seed {}: would replace what the run holds of --ablations, --causal, --keep-last or --stability with \
                 --seed {other}; pass that one, or move its {} away first",
                self.seed,
                run_metrics::FILE
            ),
        }
    }

    /// Refuses images with other files than those of such results: with them, one table would be of both.
    pub(super) fn check_images(&self, run: &Run, files: &str) -> anyhow::Result<()> {
        if self.requested(run)?.iter().any(|probe| probe.has_other_images(files)) {
            bail!(
                "{}: it holds results of --ablations, --causal, --keep-last or --stability on images that have changed since; \
                 restore the images, or move its {} away first",
                run.folder().display(),
                run_metrics::FILE
            );
        }
        Ok(())
    }

    /// What the run holds of such results of the probes that are evaluated.
    fn requested(&self, run: &Run) -> Result<Vec<ProbeMetrics>, Usage> {
        let stored = run_metrics::read(run).map_err(|error| Usage(error.to_string()))?;
        let mut stored = stored.unwrap_or_default();
        stored.drop_stale(run); // of probes that were trained again, nothing is kept
        let which = if self.last { ProbeCheckpoint::Last } else { ProbeCheckpoint::Best };
        stored.probes.retain(|probe| probe.which == which && probe.metrics.has_requested());
        Ok(stored.probes)
    }

    /// Refuses a reading that images of `n` tokens do not have.
    pub(super) fn check_tokens(&self, n: usize) -> Result<(), Usage> {
        let last = self.keep_last.iter().map(|kept| ("--keep-last", Intervention::Last(*kept)));
        let mut readings = last.chain([("--reading", self.reading.clone())]);
        readings.try_for_each(|(flag, reading)| {
            reading.fits(n).map_err(|error| Usage(format!("{flag}: {error}")))
        })
    }

    /// Opens the dataset: that of `--data`, else that of the run.
    pub(super) fn dataset(&self, run: Option<&Run>) -> anyhow::Result<Dataset> {
        match (&self.data, run) {
            (None, Some(run)) => Ok(dataset_of(run)?),
            (data, _) => Ok(data::open(data.as_deref().expect("asked for above"))?),
        }
    }

    /// Number of evaluated images.
    pub fn images(&self) -> anyhow::Result<usize> {
        self.check()?;
        match &self.run {
            Some(run) => Ok(Run::open(run)?.truth()?.indices.len()),
            None => Ok(EvalImages::of_split(&self.dataset(None)?, self.split)?.evaluated.images.len()),
        }
    }

    /// Settings of the removal curves, if `--causal` asks for any.
    pub(super) fn removal(&self) -> Option<RemovalSpec> {
        let modes = self.causal.clone()?.0;
        Some(RemovalSpec { modes, seed: self.seed, ..RemovalSpec::default() })
    }

    /// The folder that holds the files of an evaluation in parts.
    pub fn home(&self) -> Result<PathBuf, Usage> {
        let home = self.run.as_ref().map(|run| run.join("evaluation")).or(self.evaluation.clone());
        home.ok_or_else(|| {
            Usage("in parts: pass the run (--run), or the folder for files of images (--evaluation)".into())
        })
    }

    /// The tokens to extract: those of the run, or those the probes were trained on, as far as their files say it and
    /// no flag overrides it.
    pub(super) fn extract_options(
        &self,
        begun: Option<&TrainSettings>,
        device: &Device,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<ExtractOptions> {
        let backbone = match (&self.backbone, &self.run, begun) {
            (None, Some(run), Some(begun)) => {
                fetch::backbone(&begun.backbone, reporter).map_err(|error| fetch::moved(run, error))?
            }
            (source, ..) => fetch::backbone(source.as_ref().expect("asked for without --run"), reporter)?,
        };
        let mut tokens = self.tokens.over(begun.map(|begun| begun.tokens.clone()).unwrap_or_default());
        if begun.is_none() {
            let probes = self.readable_probes();
            let probes = probes.iter().map(|(path, probe)| (*path, probe));
            tokens.token_spec = self.tokens.part::<TokenSpec>().of_probes(probes, &backbone, device)?;
        }
        Ok(ExtractOptions::new(backbone, tokens))
    }

    /// The probes that can be read, with their paths; errors of the others are reported when they are evaluated.
    pub(super) fn readable_probes(&self) -> Vec<(&Path, Probe)> {
        self.probe.iter().filter_map(|path| Some((path.as_path(), Probe::load(path).ok()?))).collect()
    }
}
