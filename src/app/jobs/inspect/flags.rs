//! The flags of `inspect`. They are sent unchanged to the machine that computes, and resolved there.

use std::path::PathBuf;

use clap::Args;
use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::{Loaded, Source, Spec, sources};
use crate::app::jobs::engine::WorkerEnv;
use crate::app::jobs::flag_overrides::FlagOverrides;
use crate::app::jobs::user_error::Usage;
use crate::app::jobs::{Reporter, fetch};
use crate::app::value_parser::{fraction, whole_number};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model;
use crate::model::explain::removal::{MAX_STEPS, Mode, RemovalSpec, STEPS};
use crate::model::io::escape::slug;
use crate::model::probe::Probe;
use crate::model::trace::Attribution;

/// Images to explain, probes that explain them, and files to write. Paths are those of the machine that computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct InspectFlags {
    /// Backbone: a folder laid out as on the Hugging Face Hub, or an id on the Hub (`ORGANISATION/NAME[@REVISION]`),
    /// which is downloaded to the cache shared with Python.
    #[arg(long, value_name = "DIR|HUB_ID")]
    pub backbone: String,
    /// Probe files, folders of them, folders of runs (their best probes), or files on the Hub
    /// (hf:ORGANISATION/NAME/FILE).
    #[arg(long, value_name = "P.safetensors", required = true, num_args = 1..)]
    pub probe: Vec<PathBuf>,
    /// Images, or folders to search for images, subfolders included.
    #[arg(long, value_name = "IMAGE|FOLDER", required = true, num_args = 1..)]
    pub image: Vec<PathBuf>,
    /// Classes to compute evidence for, each with its own results: comma-separated names, or indices from 0 [default:
    /// the predicted class].
    #[arg(long, value_name = "NAME|INDEX[,...]")]
    pub class: Option<String>,
    /// How the probes read, without retraining: as-trained, scrambled[=SEED] (after routing), scrambled-hard[=SEED]
    /// (the hardened plan), hardened, no-routing, random-order[=SEED], order=FILE, last=R (only the last R tokens),
    /// temperature=T or iterations=K; several can be given at once.
    #[arg(long, value_name = "READING", num_args = 1.., default_value = "as-trained")]
    pub reading: Vec<Intervention>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Layer, image size, token order and arithmetic of the tokens.
    #[command(flatten)]
    pub token_spec: FlagOverrides<TokenSpec>,
    /// Also write the tokens, `tokens [N, d]` and `cls [d]`.
    #[arg(long)]
    pub save_tokens: bool,
    /// Also write the whole trace as `<probe>.trace.json`, which `ssmprobe figures` draws.
    #[arg(long)]
    pub save_traces: bool,
    /// Also write the reading step by step as `<probe>.gif`, for probes that read in an order: what the memory holds,
    /// and the evidence at that position.
    #[arg(long)]
    pub save_gif: bool,
    /// Also measure how stable each order is: `<probe>.stability.json`, which `ssmprobe figures --stability` draws.
    /// Every image is read about 25 more times: flipped, cropped, with noise, darker, brighter; probes that
    /// differ only in their seed are compared, too.
    #[arg(long)]
    pub stability: bool,
    /// Also remove the tokens, the most important first, and put them back, reading the class after every step:
    /// `<probe>.causal.npz` and .json. Where they are removed: frozen (plan and weights stay), rerouted (the head reads
    /// what is left), patches (the backbone does), pixels (they are painted over). The last two need
    /// hundreds of backbone passes per image and probe; their number is printed first.
    #[arg(long, value_name = "MODE[,MODE]", value_parser = modes)]
    pub causal: Option<Modes>,
    /// Steps of --causal from all tokens to none.
    #[arg(long, value_name = "K", default_value_t = STEPS, value_parser = whole_number(1..=MAX_STEPS), requires = "causal")]
    pub steps: usize,
    /// Also compute attribution baselines for the class of the evidence: gradient (gradient x token), integrated (64
    /// gradients on the way from the mean token: seconds per image) and rollout (the backbone's attention: another
    /// pass of the image).
    #[arg(long, value_name = "METHOD", value_delimiter = ',', num_args = 1..)]
    pub attributions: Vec<Attribution>,
    /// Also report how regions of the images are read: a folder of masks (PNG) with the images' names, or a dataset's
    /// folder with masks, or annotations of CUB or Stanford Cars. The results are in `<probe>.json` and in traces.
    #[arg(long, value_name = "DIR")]
    pub masks: Option<PathBuf>,
    /// Decay of the proxy per position, instead of the spectral radius; 0 to 1.
    #[arg(long, value_name = "X", value_parser = fraction::<f64>)]
    pub rho: Option<f64>,
    /// Number of random scores for each null band, and of untrained scorers for theirs (of these at most 32, above
    /// 1024 tokens 8).
    #[arg(long, value_name = "K", default_value_t = null_model::DRAWS, value_parser = whole_number(2_usize..=100_000))]
    pub null_draws: usize,
    /// Seed of null bands, of untrained scorers, of the orders that order tests draw, of the changes of --stability and of
    /// the random orders of --causal.
    #[arg(long, default_value_t = 0, value_parser = whole_number(0_u64..))]
    pub seed: u64,
    /// Images in one forward pass.
    #[arg(long, value_name = "B", default_value_t = 16, value_parser = whole_number(1_usize..=4096))]
    pub batch: usize,
}

/// A list of modes in one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modes(pub Vec<Mode>);

/// Modes of removal curves, commas between.
pub fn modes(text: &str) -> Result<Modes, String> {
    Mode::list(text).map(Modes)
}

impl InspectFlags {
    /// Resolves the flags on this machine: finds the images, opens the probes, fetches the backbone and opens the device.
    pub(super) fn open(&self, env: WorkerEnv, reporter: &mut dyn Reporter) -> anyhow::Result<Spec<'_>> {
        let images = sources::images(&self.image)?;
        let probes = self.probes(&fetch::probes(&self.probe, reporter)?)?;
        let backbone = fetch::backbone(&self.backbone, reporter)?;
        let device = (env.device)(&self.device)?.device;
        let of_files = probes.iter().map(|loaded| (loaded.path.as_path(), &loaded.probe));
        let token_spec = self.token_spec.of_probes(of_files, &backbone, &device)?;
        let causal = self.causal.clone();
        Ok(Spec {
            flags: self,
            backbone,
            token_spec,
            device,
            probes,
            images,
            causal: causal.map(|Modes(modes)| RemovalSpec { modes, steps: self.steps, seed: self.seed }),
            attributions: self.attributions.clone().into(),
        })
    }

    /// Opens the probes and finds the class of the evidence in each.
    fn probes(&self, files: &[PathBuf]) -> anyhow::Result<Vec<Loaded>> {
        let mut loaded = Vec::new();
        for Source { path, stem } in sources::probes(files)? {
            let (probe, sha256) = Probe::load_known(&path)?;
            let named = self.class.as_deref().map(|names| classes(&probe, names)).transpose()?;
            let classes: Vec<Option<usize>> =
                named.map_or_else(|| vec![None], |all| all.into_iter().map(Some).collect());
            for change in &self.reading {
                let read = if change.is_none() { stem.clone() } else { format!("{stem}-{}", change.id()) };
                for (at, &class) in classes.iter().enumerate() {
                    let stem = match class.filter(|_| classes.len() > 1) {
                        Some(class) => format!("{read}-for-{}", name_of(&probe, class)),
                        None => read.clone(),
                    };
                    let (path, probe, sha256) = (path.clone(), probe.clone(), sha256.clone());
                    let change = change.clone();
                    let is_first_class = at == 0;
                    loaded.push(Loaded { path, stem, probe, sha256, change, class, is_first_class });
                }
            }
        }
        let stems = sources::numbered(loaded.iter().map(|loaded| loaded.stem.clone()), &[]);
        loaded.iter_mut().zip(stems).for_each(|(loaded, stem)| loaded.stem = stem);
        Ok(loaded)
    }
}

/// The indices of the requested classes of a probe, each once. Names may hold commas (ImageNet's do): if the whole text is
/// a class, it is that one.
///
/// # Errors
/// If the probe has no such class, or several of that name; the error says what it has.
pub fn classes(probe: &Probe, asked: &str) -> anyhow::Result<Vec<usize>> {
    let parts: Vec<&str> = asked.split(',').map(str::trim).collect();
    let whole = class(probe, asked);
    if whole.is_ok() || parts.len() == 1 {
        return Ok(vec![whole?]);
    }
    let found: anyhow::Result<IndexSet<usize>> = parts.iter().map(|part| class(probe, part)).collect();
    Ok(found?.into_iter().collect())
}

/// A class as it appears in file names.
fn name_of(probe: &Probe, class: usize) -> String {
    let name = probe.meta.classes.get(class).map(|name| slug(name)).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| class.to_string())
}

/// The index of the requested class of a probe.
fn class(probe: &Probe, asked: &str) -> anyhow::Result<usize> {
    probe.class(asked).map_err(|error| Usage(error.to_string()).into())
}
