//! The flags of `eval`, which are sent unchanged to the machine that computes.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::eval_probes::{Question, dataset_of};
use super::files::RowFormat;
use crate::app::jobs::extract::{ExtractOptions, TokenSettings};
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::inspect::{Modes, modes};
use crate::app::jobs::part::Part;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{Reporter, fetch};
use crate::app::user_error::Usage;
use crate::app::value_parser::whole_number;
use crate::model::annotations::Annotations;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::{self, Dataset, Split};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::removal::RemovalSpec;
use crate::model::io::atomic_file;
use crate::model::probe::Probe;
use crate::model::train::run::Run;

/// Probes, images and measures of an evaluation. Paths are those of the machine that computes, except that of
/// `evaluation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct EvalFlags {
    /// A run's folder: its backbone, dataset, probes and test images. What is found is kept there, for
    /// `ssmprobe report`.
    #[arg(long, value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// The backbone: a folder, or an id of the Hugging Face Hub (ORGANISATION/NAME[@REVISION]).
    #[arg(long, value_name = "DIR|HUB_ID")]
    pub backbone: Option<String>,
    /// The dataset: a folder, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE")]
    pub data: Option<PathBuf>,
    /// Probe files, or files of the Hub (hf:ORGANISATION/NAME/FILE).
    #[arg(long, value_name = "P.safetensors", conflicts_with = "run", num_args = 1..)]
    pub probe: Vec<PathBuf>,
    /// Of a run, evaluate the probes after the last epoch, not those of the best one.
    #[arg(long, requires = "run")]
    pub last: bool,
    /// The images: train, val or test [default: the test split, or val where there is none].
    #[arg(long, value_name = "SPLIT", conflicts_with = "run")]
    pub split: Option<Split>,
    /// Where regions of the images are known from: a folder of masks (PNG) with the images' names, or a dataset's folder with
    /// annotations of CUB or Stanford Cars [default: those that the dataset brings along].
    #[arg(long, value_name = "DIR")]
    pub masks: Option<PathBuf>,
    /// Also disturb the order: scrambled after routing, no routing, random order. Nothing is trained anew.
    #[arg(long)]
    pub ablations: bool,
    /// Also take every image's tokens away, and put them back, the most important first, and keep the mean heights of the
    /// probability of its own class: frozen (plan and weights stay), rerouted (the head reads what is left), patches (the
    /// encoder reads what is left) or pixels (patches are painted over). Every probe reads every image up to a thousand
    /// times, and with the last two the backbone some hundred times: give few images.
    #[arg(long, value_name = "MODE[,MODE]", value_parser = modes)]
    pub causal: Option<Modes>,
    /// Also keep the last R tokens read alone, and say what accuracy is left (the reading last=R): 1,10,49,98.
    #[arg(long, value_name = "R[,R]", value_delimiter = ',', value_parser = whole_number(1_usize..))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_last: Vec<usize>,
    /// Also measure how stable orders are: every image is flipped, cropped, darker, brighter and with noise read by the
    /// backbone some twenty times more, once for all probes, and probes that differ in their seed alone are compared.
    #[arg(long, conflicts_with_all = ["part", "join"])]
    #[serde(default)]
    pub stability: bool,
    /// How the probes read, none of them retrained: as-trained, scrambled[=SEED] (after routing), scrambled-hard[=SEED]
    /// (the hardened plan), hardened, no-routing, random-order[=SEED], order=FILE, last=R (the last R tokens alone),
    /// temperature=T or iterations=K. Of a run nothing is kept then.
    #[arg(long, value_name = "READING", default_value = "as-trained", conflicts_with = "ablations")]
    pub reading: Intervention,
    /// Also nearest neighbours and logistic regression on CLS and mean tokens of the training images.
    #[arg(long)]
    pub anchors: bool,
    /// Also write what every probe makes of every image into this folder: <probe>.survey.json, which
    /// `ssmprobe figures --evaluation` draws and `ssmprobe similar` compares images by, and <probe>.csv, a row an image.
    #[arg(long, alias = "survey", value_name = "DIR")]
    pub evaluation: Option<PathBuf>,
    /// Formats of the rows of --evaluation: csv, parquet or both [default: csv].
    #[arg(
        long,
        value_name = "FORMAT",
        value_delimiter = ',',
        requires = "evaluation",
        hide_possible_values = true
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub format: Vec<RowFormat>,
    /// Ask about one of N parts of the images alone, and keep what they give for --join; others may ask about theirs
    /// meanwhile. What --submit hands in.
    #[arg(long, value_name = "I/N")]
    #[serde(default)]
    pub part: Option<Part>,
    /// Take in what N parts have kept, and ask about what they have not. What --submit hands in last.
    #[arg(long, value_name = "N", conflicts_with = "part", value_parser = whole_number(1_u32..))]
    #[serde(default)]
    pub join: Option<u32>,
    /// Seed of disturbed orders and of null bands.
    #[arg(long, default_value_t = 0, value_parser = whole_number(0_u64..))]
    pub seed: u64,
    /// How tokens are extracted and stored.
    #[command(flatten)]
    pub tokens: FlagOverrides<TokenSettings>,
    /// Where to take tokens: cpu, wgpu, cuda or auto. Probes are read in float64 on the processor.
    #[arg(long, default_value = "auto")]
    pub device: String,
}

impl EvalFlags {
    /// Refuses flags that do not determine probes and images, masks that do not exist, and a folder for results that
    /// cannot be written.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let is_complete = self.backbone.is_some() && self.data.is_some() && !self.probe.is_empty();
        if self.run.is_none() && !is_complete {
            return Err(Usage("give --run RUN, or --backbone, --data and --probe".into()));
        }
        if let Some(masks) = &self.masks {
            Annotations::check(masks).map_err(|error| Usage(format!("--masks {error}")))?;
        }
        let run = self.run.clone().filter(|_| self.reading.is_none());
        let in_parts = self.part.is_some() || self.join.is_some();
        let Some(folder) = (if in_parts { Some(self.home()?) } else { run }) else { return Ok(()) };
        atomic_file::can_write(&folder).map_err(|why| {
            let flag = if self.run.is_some() { "--run" } else { "--evaluation" };
            let folder = folder.display();
            Usage(format!("{flag}: what is found is kept in {folder}, which cannot be written: {why}"))
        })
    }

    /// Opens the dataset: that of `--data`, else that of the run.
    pub(super) fn dataset(&self, run: Option<&Run>) -> anyhow::Result<Dataset> {
        match (&self.data, run) {
            (None, Some(run)) => dataset_of(run),
            (data, _) => Ok(data::open(data.as_deref().expect("asked for above"))?),
        }
    }

    /// Number of evaluated images.
    ///
    /// # Errors
    /// If the flags do not determine them, or the run or the dataset cannot be read.
    pub fn images(&self) -> anyhow::Result<usize> {
        self.check()?;
        match &self.run {
            Some(run) => Ok(Run::open(run)?.truth()?.indices.len()),
            None => Ok(Question::of_split(&self.dataset(None)?, self.split)?.evaluated.images.len()),
        }
    }

    /// Settings of the removal curves, if `--causal` asks for any.
    pub(super) fn removal(&self) -> Option<RemovalSpec> {
        let modes = self.causal.clone()?.0;
        Some(RemovalSpec { modes, seed: self.seed, ..RemovalSpec::default() })
    }

    /// The folder that holds the files of an evaluation in parts.
    ///
    /// # Errors
    /// If neither `--run` nor `--evaluation` is given.
    pub fn home(&self) -> Result<PathBuf, Usage> {
        let home = self.run.as_ref().map(|run| run.join("evaluation")).or(self.evaluation.clone());
        home.ok_or_else(|| {
            Usage("in parts: say of which run (--run), or where files of images go (--evaluation)".into())
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
        let source = self.backbone.as_ref().or(begun.map(|begun| &begun.backbone));
        let backbone = fetch::backbone(source.expect("asked for without --run"), reporter)?;
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
