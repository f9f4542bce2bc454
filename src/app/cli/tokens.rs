//! Flags of every verb that takes tokens: whose, of what, how they are kept, and where.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::fetch;
use crate::app::extract::Wanted;
use crate::app::places;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::order::MaeOrder;
use crate::model::features::Precision;

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
            .or_else(places::tokens)
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
    #[command(flatten)]
    arithmetic: ArithmeticFlag,
    /// How cached tokens are kept.
    #[arg(long, value_enum, default_value_t = Kept::Float16)]
    precision: Kept,
    /// Take the tokens after this layer (0: embeddings), final norm included [default: the last].
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// Side of the images in pixels [default: the backbone's own].
    #[arg(long, value_name = "PIXELS")]
    size: Option<usize>,
    /// Order of ViT-MAE's patch tokens: kept, or shuffled[:SEED] as transformers does.
    #[arg(long, value_name = "ORDER", default_value = "kept", value_parser = mae_order)]
    mae_order: MaeOrder,
}

/// In which numbers the backbone multiplies.
#[derive(Args, Clone)]
pub struct ArithmeticFlag {
    /// Numbers the backbone multiplies in; halves on GPUs that have them, with float32 between layers.
    #[arg(long, value_name = "float32|float16|bfloat16", default_value = "float32", value_parser = arithmetic)]
    arithmetic: Arithmetic,
}

impl ArithmeticFlag {
    /// The numbers.
    pub fn chosen(&self) -> Arithmetic {
        self.arithmetic
    }
}

fn arithmetic(text: &str) -> Result<Arithmetic, String> {
    let known = Arithmetic::ALL.into_iter().find(|known| known.name() == text);
    known.ok_or_else(|| "expected float32, float16 or bfloat16".into())
}

/// How cached tokens are kept.
#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// 2 bytes a value.
    Float16,
    /// 4 bytes a value.
    Float32,
}

impl TokenFlags {
    /// Whose tokens are wanted; fetches the backbone where it is named by its id.
    pub fn wanted(&self, backbone: &str) -> anyhow::Result<Wanted> {
        Ok(Wanted {
            backbone: fetch::backbone(backbone)?,
            layer: self.layer,
            mae_order: self.mae_order,
            size: self.size,
            arithmetic: self.arithmetic.chosen(),
            precision: match self.precision {
                Kept::Float16 => Precision::Float16,
                Kept::Float32 => Precision::Float32,
            },
            root: self.root.path()?,
            limit: self.limit(),
        })
    }

    /// Folder of all token caches.
    pub fn root(&self) -> anyhow::Result<PathBuf> {
        self.root.path()
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
