//! From a dataset to a token cache: the backbone runs once per image.
//!
//! [`Plan::run`] decodes, computes and writes side by side. What is stopped, killed or runs out of disk
//! goes on after its last whole shard.

mod flow;
mod trial;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

pub use self::flow::Spent;
pub use self::trial::TRIED;
use super::pace::Progress;
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::config::Config;
use crate::model::backbone::order::MaeOrder;
use crate::model::backbone::weights::{Weights, WeightsError};
use crate::model::backbone::{self, BackboneError};
use crate::model::data::{self, Dataset};
use crate::model::features::{CacheError, Precision, Source, TokenCache, Writer, image_bytes};
use crate::model::grid::Grid;
use crate::model::preprocess::{PreprocessError, Preprocessor};
use crate::model::probe::BackboneMeta;

/// Whose tokens, and how they are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The backbone's folder.
    pub backbone: PathBuf,
    /// The layer whose tokens are taken; the last where absent.
    pub layer: Option<usize>,
    /// In which order ViT-MAE hands out its patch tokens.
    pub mae_order: MaeOrder,
    /// Side of the images in pixels, where it is not the backbone's own.
    pub size: Option<usize>,
    /// In which numbers the backbone multiplies.
    pub arithmetic: Arithmetic,
    /// How tokens are kept.
    pub precision: Precision,
    /// Folder of all token caches.
    pub root: PathBuf,
    /// Most bytes a cache may take.
    pub limit: u64,
}

/// Why tokens cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The backbone's configuration.
    #[error(transparent)]
    Config(#[from] backbone::config::ConfigError),
    /// The backbone's weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The backbone.
    #[error(transparent)]
    Backbone(#[from] BackboneError),
    /// What prepares the images.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The cache would be larger than allowed.
    #[error(
        "the tokens of {images} images take {} and the limit is {}; allow more (--cache-limit), keep them in \
         float16 (--precision float16), or make the dataset or the images (--size) smaller",
        bytes_text(*bytes), bytes_text(*limit)
    )]
    Limit {
        /// Number of images.
        images: usize,
        /// Bytes of their tokens.
        bytes: u64,
        /// Most bytes allowed.
        limit: u64,
    },
    /// The disk would be full.
    #[error(
        "{root}: the tokens still to be taken need {} and the disk has {} left; free some (`ssmprobe cache \
         clear`), name a folder on another disk (--cache), or keep them in float16 (--precision float16)",
        bytes_text(*bytes), bytes_text(*free), root = root.display()
    )]
    Disk {
        /// Folder of all caches.
        root: PathBuf,
        /// Bytes still to be written.
        bytes: u64,
        /// Bytes there are.
        free: u64,
    },
    /// Images keep their proportions.
    #[error(
        "{folder}: its preprocessor_config.json neither crops nor resizes to one size, so images have \
         different numbers of tokens; probes are trained on one grid: add a crop_size",
        folder = folder.display()
    )]
    Sizes {
        /// The backbone's folder.
        folder: PathBuf,
    },
    /// Nothing to train on.
    #[error("none of the {images} images can be read; the first: {why}")]
    Unreadable {
        /// Number of images.
        images: usize,
        /// What is wrong with the first.
        why: String,
    },
    /// A thread could not be started.
    #[error("the threads that decode images and write tokens cannot be started: {0}")]
    Thread(std::io::Error),
    /// Whoever listens asked for it.
    #[error("stopped after {done} of {images} images; the same command goes on from there")]
    Stopped {
        /// Images whose tokens are kept.
        done: usize,
        /// All images.
        images: usize,
    },
}

/// Told while tokens are taken.
pub enum Event<'a> {
    /// A batch is done.
    Progress(Progress),
    /// An image was left out.
    Unreadable {
        /// Index of the sample.
        sample: usize,
        /// Why.
        why: &'a str,
    },
    /// All are done.
    Done(Spent),
}

/// What taking the tokens of a dataset comes to, known before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    wanted: Wanted,
    preprocessor: Preprocessor,
    layer: usize,
    /// What the tokens depend on.
    pub source: Source,
    /// Whose they are.
    pub backbone: BackboneMeta,
    /// How the patch tokens lie.
    pub grid: Grid,
    /// Number of images.
    pub images: usize,
    /// Those whose tokens are there already.
    pub done: usize,
    /// Bytes of all tokens.
    pub bytes: u64,
    /// Bytes the disk has left, where the system says.
    pub free: Option<u64>,
}

impl Plan {
    /// Reads configuration and hashes, no image.
    pub fn new(wanted: Wanted, dataset: &Dataset) -> Result<Self, ExtractError> {
        let folder = &wanted.backbone;
        let config = Config::open(folder)?;
        let mut preprocessor = Preprocessor::open(folder)?;
        if let Some(size) = wanted.size {
            preprocessor = preprocessor.with_size(size)?;
        }
        let (height, width) =
            preprocessor.output().ok_or_else(|| ExtractError::Sizes { folder: folder.clone() })?;
        let grid = config.grid_of(height, width)?;
        let layer = wanted.layer.unwrap_or(config.layers);
        if layer > config.layers {
            return Err(BackboneError::Layer { layer, layers: config.layers }.into());
        }
        let fingerprint = Weights::open(folder)?.fingerprint().to_owned();
        let order = match wanted.mae_order {
            MaeOrder::Shuffled(seed) if *config.family == backbone::family::VIT_MAE => {
                format!(", shuffled by seed {seed}")
            }
            _ => String::new(),
        };
        let which = if layer == config.layers { "last".to_owned() } else { layer.to_string() };
        let numbers = match wanted.arithmetic {
            Arithmetic::Float32 => String::new(),
            halves => format!(", in {}", halves.name()),
        };
        let source = Source {
            weights: fingerprint.clone(),
            preprocessing: preprocessor.key(),
            dataset: key(dataset),
            layer: format!("{which}{order}{numbers}"),
            precision: wanted.precision,
        };
        let images = dataset.samples.len();
        let complete = TokenCache::find(&wanted.root, &source)?.map(|cache| cache.len());
        let done = match complete {
            Some(done) => done,
            None if wanted.root.join(source.key()).exists() => {
                Writer::open(&wanted.root, source.clone(), images)?.done()
            }
            None => 0,
        };
        Ok(Self {
            backbone: BackboneMeta {
                id: backbone::id(folder),
                model_type: config.family.model_type.to_owned(),
                hidden_size: config.width,
                fingerprint: Some(fingerprint),
                ..BackboneMeta::default()
            },
            bytes: image_bytes(grid, config.width, true, wanted.precision) * images as u64,
            free: free(&wanted.root),
            wanted,
            preprocessor,
            layer,
            source,
            grid,
            images,
            done,
        })
    }

    /// Whether all tokens are there already.
    pub fn complete(&self) -> bool {
        self.done == self.images
    }

    /// Bytes still to be written.
    pub fn missing(&self) -> u64 {
        self.bytes / self.images.max(1) as u64 * (self.images - self.done) as u64
    }

    /// The folder of this cache.
    pub fn folder(&self) -> PathBuf {
        self.wanted.root.join(self.source.key())
    }

    /// Refuses what the limit or the disk forbids. Nothing is refused that is there already.
    pub fn check(&self) -> Result<(), ExtractError> {
        let missing = self.missing();
        let (bytes, limit) = (self.bytes, self.wanted.limit);
        if missing > 0 && bytes > limit {
            return Err(ExtractError::Limit { images: self.images, bytes, limit });
        }
        match self.free {
            Some(free) if missing > free => {
                Err(ExtractError::Disk { root: self.wanted.root.clone(), bytes: missing, free })
            }
            _ => Ok(()),
        }
    }
}

/// What tells a dataset's images from others: paths (and rows) within it, sizes and times of
/// change, in order.
/// Classes and splits are not in it: tokens do not depend on them.
fn key(dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    for sample in &dataset.samples {
        let path = sample.source.file();
        let about = std::fs::metadata(path).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok());
        let changed =
            changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |t| t.as_nanos());
        let name = path.strip_prefix(&dataset.root).unwrap_or(path).to_string_lossy();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update(about.map_or(u64::MAX, |about| about.len()).to_le_bytes());
        hash.update(changed.to_le_bytes());
        if let data::Source::Row(row) = &sample.source {
            hash.update((row.number() as u64).to_le_bytes());
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes left on the disk of `folder`, which need not exist yet.
fn free(folder: &Path) -> Option<u64> {
    let mut folder = folder;
    loop {
        match fs4::available_space(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) {
            Err(error) if error.kind() == ErrorKind::NotFound => folder = folder.parent()?,
            other => return other.ok(),
        }
    }
}

/// Bytes as a person reads them, in decimal units as disks are sold.
pub fn bytes_text(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} kB", bytes / 1e3),
    }
}
