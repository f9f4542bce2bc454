//! Flags of every verb that takes tokens: whose, of what, how they are kept, and where.

use std::path::{Path, PathBuf};

use anyhow::Context;
use burn::tensor::Device;
use clap::{Args, ValueEnum};

use super::fetch;
use crate::app::jobs::extract::ExtractOptions;
use crate::app::paths;
use crate::app::terminal::error::Usage;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::config::Config;
use crate::model::backbone::order::MaeOrder;
use crate::model::backbone::token_spec::{TokenSpec, Trained, describe_differences};
use crate::model::data::token_cache::Precision;
use crate::model::probe::Probe;
use crate::model::train::run::Run;

/// Where token caches lie.
#[derive(Args, Clone)]
pub struct CacheRoot {
    /// Folder of all token caches [default: $SSMPROBE_CACHE, else `tokens` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

impl CacheRoot {
    /// The folder.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        self.cache
            .clone()
            .or_else(paths::tokens)
            .context("this user has no home folder to keep tokens in; name one with --cache DIR")
    }
}

/// How tokens are taken and kept.
#[derive(Args, Clone)]
pub struct TokenFlags {
    #[command(flatten)]
    root: CacheRoot,
    /// Largest token cache, in GB; a larger one is refused before anything is done.
    #[arg(long, value_name = "GB", default_value_t = 50.0, value_parser = limit)]
    cache_limit: f64,
    /// How cached tokens are kept [default: float16].
    #[arg(long, value_enum)]
    precision: Option<PrecisionArg>,
    /// Also read every image and compare it (SHA-256) with what it was when its tokens were taken: one
    /// that was rewritten with the same size and time is named, and its tokens are taken again.
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    pub taking: TakingFlags,
}

/// How tokens are taken from the backbone.
#[derive(Args, Clone)]
pub struct TakingFlags {
    /// Numbers the backbone multiplies in; halves on GPUs that have them, with float32 between layers
    /// [default: float32].
    #[arg(long, value_name = "float32|float16|bfloat16", value_parser = arithmetic)]
    arithmetic: Option<Arithmetic>,
    /// Take the tokens after this layer (0: embeddings), final norm included [default: the last].
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// Side of the images in pixels [default: the backbone's own].
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    /// Order of ViT-MAE's patch tokens: kept, or shuffled[:SEED] as transformers does on every forward
    /// pass (token `i` is then not patch `i` of the image) [default: kept].
    #[arg(long, value_name = "ORDER", value_parser = mae_order)]
    mae_order: Option<MaeOrder>,
}

impl TakingFlags {
    /// What the flags say, and `base` where they say nothing.
    pub fn over(&self, base: TokenSpec) -> TokenSpec {
        TokenSpec {
            layer: self.layer.or(base.layer),
            size: self.size.or(base.size),
            mae_order: self.mae_order.unwrap_or(base.mae_order),
            arithmetic: self.arithmetic.unwrap_or(base.arithmetic),
        }
    }

    /// The tokens that probes are asked about: those they were trained on, where no flag says otherwise;
    /// a file that does not say it is taken to mean the last layer and the backbone's own size. Numbers
    /// that the device does not have are float32.
    ///
    /// # Errors
    /// If two of them were trained on different tokens and no flag says which.
    pub fn of_probes<'a>(
        &self,
        probes: impl IntoIterator<Item = (&'a Path, &'a Probe)>,
        backbone: &Path,
        device: &Device,
    ) -> anyhow::Result<TokenSpec> {
        let config = Config::open(backbone)?;
        let settled = |taking: TokenSpec| taking.settled(config.layers, config.family.model_type);
        let mut first: Option<(&Path, TokenSpec)> = None;
        let mut silent = false;
        for (path, probe) in probes {
            let trained = Trained::from_training(probe.meta.training.as_ref()).map(|trained| trained.taking);
            silent |= trained.is_none();
            let taking = settled(self.over(trained.unwrap_or_default()));
            let (before, known) = *first.get_or_insert((path, taking));
            let differences = known.differences(&taking);
            if !differences.is_empty() {
                let note = match silent {
                    true => "; a file that does not say is taken to mean the backbone's own",
                    false => "",
                };
                return Err(Usage(format!(
                    "{} and {} were trained on different tokens ({}{note}); ask them one after the other, or \
                     say which with --layer, --size or --mae-order",
                    before.display(),
                    path.display(),
                    describe_differences(&differences)
                ))
                .into());
            }
        }
        let mut taking = first.map_or_else(|| self.over(TokenSpec::default()), |(_, taking)| taking);
        if self.arithmetic.is_none() && !taking.arithmetic.on(device) {
            taking.arithmetic = Arithmetic::Float32;
        }
        Ok(taking)
    }
}

fn arithmetic(text: &str) -> Result<Arithmetic, String> {
    let known = Arithmetic::ALL.into_iter().find(|known| known.name() == text);
    known.ok_or_else(|| "expected float32, float16 or bfloat16".into())
}

/// How cached tokens are kept.
#[derive(Clone, Copy, ValueEnum)]
enum PrecisionArg {
    /// 2 bytes a value.
    Float16,
    /// 4 bytes a value.
    Float32,
}

impl TokenFlags {
    /// Whose tokens are wanted; fetches the backbone where it is named by its id.
    pub fn wanted(&self, backbone: &str) -> anyhow::Result<ExtractOptions> {
        self.wanted_of(fetch::backbone(backbone)?, self.taking.over(TokenSpec::default()))
    }

    /// The tokens of the backbone in a folder, taken so.
    pub fn wanted_of(&self, backbone: PathBuf, taking: TokenSpec) -> anyhow::Result<ExtractOptions> {
        let precision = self.precision().unwrap_or_default();
        let (root, limit, verify) = (self.root.path()?, self.limit(), self.verify);
        Ok(ExtractOptions { backbone, taking, precision, root, limit, verify })
    }

    /// What the flags say instead of what a run was begun with.
    pub fn over(&self, wanted: &mut ExtractOptions) {
        wanted.taking = self.taking.over(wanted.taking);
        wanted.precision = self.precision().unwrap_or(wanted.precision);
        wanted.verify |= self.verify;
    }

    fn precision(&self) -> Option<Precision> {
        self.precision.map(|kept| match kept {
            PrecisionArg::Float16 => Precision::Float16,
            PrecisionArg::Float32 => Precision::Float32,
        })
    }

    /// Folder of all token caches: as the flag says, else as the run has it, else the usual one.
    pub fn root(&self, run: &Run) -> anyhow::Result<PathBuf> {
        let cache = self.root.cache.clone().or_else(|| run.cache());
        CacheRoot { cache }.path()
    }

    /// Most bytes a cache may take.
    pub fn limit(&self) -> u64 {
        (self.cache_limit * 1e9) as u64
    }
}

fn limit(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gigabytes) if gigabytes > 0.0 => Ok(gigabytes),
        _ => Err("expected a number of GB above 0".into()),
    }
}

fn mae_order(text: &str) -> Result<MaeOrder, String> {
    let seed = match text.split_once(':') {
        None if text == "kept" => return Ok(MaeOrder::Kept),
        None if text == "shuffled" => Some(0),
        Some(("shuffled", seed)) => seed.parse().ok(),
        _ => None,
    };
    seed.map(MaeOrder::Shuffled).ok_or_else(|| "expected kept, shuffled or shuffled:SEED".into())
}
