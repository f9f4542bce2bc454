//! From a dataset to a token cache: the backbone runs once per image.
//!
//! [`Plan::run`] decodes, computes and writes concurrently. An extraction that is stopped, killed or runs
//! out of disk resumes after its last whole shard.

mod error;
mod flow;
mod job;
mod messages;
mod outage;
mod recompute;
mod settings;
pub mod verb;
mod verify;

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use burn::tensor::Device;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

pub use self::error::ExtractError;
pub use self::flow::{MAX_TIMED_IMAGES, Spent};
pub use self::job::{Extracted, run};
pub use self::messages::{Line, Messages, leak_warning, out_of_memory};
pub(in crate::app) use self::outage::Retries;
pub(super) use self::outage::is_away;
pub use self::recompute::Recompute;
pub use self::settings::{TokenSettings, cache_root};
use crate::app::format;
use crate::app::jobs::tokens::{TokenReader, preprocessor};
use crate::app::rate::Pace;
use crate::model::backbone::config::Config;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::backbone::token_spec::{Layer, TokenSpec};
use crate::model::backbone::weights::Weights;
use crate::model::backbone::{self, BackboneError};
use crate::model::data::Dataset;
use crate::model::data::token_cache::{CacheError, CacheScan, Damage, TokenKey, image_bytes, image_digests};
use crate::model::grid::Grid;
use crate::model::io::{atomic_file, is_of_file, sha256};
use crate::model::probe::BackboneMeta;
use crate::model::probe::head::Dims;

/// Which tokens to extract, and how to extract and store them.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractOptions {
    /// The backbone's folder.
    pub backbone: PathBuf,
    /// How to extract and store the tokens.
    pub tokens: TokenSettings,
    /// Layers whose tokens are extracted; if empty, the layer in `tokens`.
    pub layers: Vec<Layer>,
}

impl ExtractOptions {
    /// Options for the layer in `tokens`.
    pub fn new(backbone: PathBuf, tokens: TokenSettings) -> Self {
        Self { backbone, tokens, layers: Vec::new() }
    }
}

/// An event of an extraction.
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Event<'a> {
    /// A batch is done.
    Progress(Pace),
    /// Images were checked for whether they can be read.
    Checked(Pace),
    /// Cached tokens are being compared with their digests: bytes read so far, of all to be read.
    Verifying { read: u64, total: u64 },
    /// The content of a shard does not match its digest: the tokens of its images are extracted again.
    Damaged(&'a Damage),
    /// Digests were added to this number of shards, which an earlier version wrote without them.
    Adopted { shards: usize },
    /// Images were compared with their stored digests.
    Compared(Pace),
    /// The images of these samples have changed since their tokens were extracted: they are extracted again.
    Changed { samples: &'a [usize] },
    /// The number of images whose tokens are cached without a digest of the image.
    Unknown { images: usize },
    /// The number of images that have no cached tokens because they could not be read when these were extracted.
    LeftOut { images: usize },
    /// The device ran out of memory: from here on a forward pass takes this number of images.
    OutOfMemory { images: usize },
    /// A disk does not take tokens, because of `why`: it is tried again every second, and this event sent, for a minute at most. It is
    /// to be told the `first` time.
    Waiting { why: &'a ExtractError, first: bool },
    /// The image of this sample cannot be read and is left out.
    Unreadable { sample: usize, why: &'a str },
    /// Images are in both the training and the held-out part, in the words of [`leak_warning`].
    Leak(String),
    /// The extraction has finished.
    Done(Spent),
    /// The extraction was stopped on request, with this error.
    Stopped(&'a ExtractError),
}

/// The plan of an extraction: its tokens and their size, known before any image is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    options: ExtractOptions,
    /// Folder of all token caches.
    pub root: PathBuf,
    preprocessor: Preprocessor,
    layers: usize,
    /// Everything the tokens depend on, for each layer in the order of the request: the keys of the caches.
    sources: Vec<TokenKey>,
    /// What the tokens depend on besides the weights, from the backbone's `config.json`.
    config: String,
    /// The backbone, as probe files record it.
    pub backbone: BackboneMeta,
    /// The dataset's name.
    dataset: String,
    /// The grid of the patch tokens.
    pub grid: Grid,
    /// Whether there is a CLS token.
    pub cls: bool,
    /// Number of images.
    pub images: usize,
    /// Number of images whose tokens are already cached.
    pub done: usize,
    /// Bytes of all tokens, cached ones included.
    pub bytes: u64,
    /// Bytes still to be written.
    pub bytes_missing: u64,
    /// Free bytes on the disk, if the system reports them.
    pub free: Option<u64>,
}

impl Plan {
    /// The same plan for another dataset; the weights are not read again.
    pub fn for_dataset(&self, dataset: &Dataset) -> Result<Self, ExtractError> {
        let (name, images) = (dataset.name.clone(), dataset.samples.len());
        let plan = self.with_dataset(&dataset_key(dataset)?);
        let precision = plan.source().precision;
        let image = image_bytes(plan.grid, plan.backbone.hidden_size, plan.cls, precision);
        let bytes = image * (images * plan.sources.len()) as u64;
        let cached = |source| Ok(plan.scan(source, Some(images))?.done());
        let cached = plan.sources.iter().map(cached).collect::<Result<Vec<usize>, CacheError>>()?;
        let bytes_missing = bytes - image * cached.iter().sum::<usize>() as u64;
        let done = cached.into_iter().min().unwrap_or(0);
        Ok(Self { dataset: name, images, done, bytes, bytes_missing, ..plan })
    }

    /// The state of the cache for `source`, which is to hold `images` images, if that is known.
    fn scan(&self, source: &TokenKey, images: Option<usize>) -> Result<CacheScan, CacheError> {
        CacheScan::open(&self.root, source, images)?.of_config(&self.config)
    }

    /// The same plan with `dataset`, a hash of its samples, in its cache keys.
    fn with_dataset(&self, dataset: &str) -> Self {
        let key = |source: &TokenKey| TokenKey { dataset: dataset.to_owned(), ..source.clone() };
        Self { sources: self.sources.iter().map(key).collect(), ..self.clone() }
    }

    /// Plans an extraction from the backbone's configuration and hashes; no image is decoded.
    pub fn new(options: ExtractOptions, dataset: &Dataset) -> Result<Self, ExtractError> {
        let ExtractOptions { backbone: folder, tokens, layers: requested } = &options;
        let TokenSettings { cache, precision, token_spec, .. } = tokens;
        let root = cache_root(cache.as_deref())?;
        let config = Config::open(folder)?;
        let preprocessor = preprocessor(folder, token_spec.size)?;
        let (height, width) =
            preprocessor.output().ok_or_else(|| ExtractError::Sizes { folder: folder.clone() })?;
        let grid = config.grid_of(height, width)?;
        let default = [Layer(token_spec.layer)];
        let requested = if requested.is_empty() { &default[..] } else { requested };
        let mut layers = requested.iter().map(|layer| layer.0.unwrap_or(config.layers));
        layers.try_for_each(|layer| config.check_layer(layer, token_spec.joined()))?;
        config.check_order(token_spec.mae_order)?;
        let fingerprint = Weights::open(folder)?.fingerprint();
        let key = |layer: &Layer| TokenKey {
            weights: fingerprint.clone(),
            preprocessing: preprocessor.key(),
            dataset: String::new(),
            layer: TokenSpec { layer: layer.0, ..*token_spec }
                .canonical(config.layers, config.family.model_type)
                .name(),
            precision: *precision,
        };
        let sources: Vec<TokenKey> = requested.iter().map(key).collect();
        if let Some(at) = (1..sources.len()).find(|&at| sources[..at].contains(&sources[at])) {
            return Err(ExtractError::SameLayer { layer: requested[at], layers: config.layers });
        }
        let backbone = BackboneMeta {
            id: backbone::id(folder),
            model_type: config.family.model_type.to_owned(),
            hidden_size: config.width * token_spec.joined(),
            fingerprint: Some(fingerprint),
            config: Some(config.key()),
            ..BackboneMeta::default()
        };
        Self {
            free: atomic_file::nearest_folder(&root).ok().and_then(atomic_file::free_space),
            options,
            root,
            preprocessor,
            layers: config.layers,
            sources,
            config: config.key(),
            backbone,
            dataset: String::new(),
            grid,
            cls: config.family.cls,
            images: 0,
            done: 0,
            bytes: 0,
            bytes_missing: 0,
        }
        .for_dataset(dataset)
    }

    /// The key of the cache; with several layers, that of the first.
    pub fn source(&self) -> &TokenKey {
        &self.sources[0]
    }

    /// Whether all tokens are cached already.
    pub fn complete(&self) -> bool {
        self.done == self.images
    }

    /// The warning of images in both the training and the held-out part, by the digests beside the cached tokens;
    /// `None` if there are none.
    pub fn leak_warning(&self, dataset: &Dataset) -> Option<String> {
        leak_warning(dataset, &image_digests(&self.root, self.source(), self.images))
    }

    /// The sizes that heads are built for: those of these tokens, and the classes of `dataset`.
    pub fn dims(&self, dataset: &Dataset) -> Dims {
        Dims { width: self.backbone.hidden_size, grid: self.grid, classes: dataset.classes.len() }
    }

    /// The folder of this cache; with several layers, the folder that holds all caches.
    pub fn folder(&self) -> PathBuf {
        match &self.sources[..] {
            [one] => self.root.join(one.key()),
            _ => self.root.clone(),
        }
    }

    /// The cache folder of every layer.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.sources.iter().map(|source| self.root.join(source.key())).collect()
    }

    /// Refuses tokens that exceed the limit or the free disk space. Tokens that are already cached are never refused.
    pub fn check(&self) -> Result<(), ExtractError> {
        let TokenSettings { cache_limit, precision, .. } = self.options.tokens;
        let (missing, bytes, limit) = (self.bytes_missing, self.bytes, (cache_limit * 1e9) as u64);
        if missing > 0 && bytes > limit {
            return Err(ExtractError::Limit { images: self.images, bytes, limit, precision });
        }
        match self.free {
            Some(free) if missing > free => {
                Err(ExtractError::Disk { root: self.root.clone(), bytes: missing, free, precision })
            }
            _ => Ok(()),
        }
    }

    /// The canonical form of `token_spec` for this backbone.
    pub fn canonical(&self, token_spec: &TokenSpec) -> TokenSpec {
        token_spec.canonical(self.layers, &self.backbone.model_type)
    }

    /// Opens the backbone on a device as a reader of these tokens.
    pub(in crate::app::jobs) fn open(&self, device: &Device) -> Result<TokenReader, BackboneError> {
        let ExtractOptions { backbone, tokens, layers } = &self.options;
        let reader = TokenReader::open(backbone, self.preprocessor.clone(), &tokens.token_spec, device)?;
        Ok(match &layers[..] {
            [] => reader,
            layers => reader.with_layers(layers),
        })
    }
}

/// A description of the plan, for the user.
pub fn describe(plan: &Plan) -> String {
    let (rows, cols) = (plan.grid.rows, plan.grid.cols);
    let free = plan.free.map_or(String::new(), |free| format!(", {} free", format::bytes(free)));
    let there = match plan.done {
        0 => String::new(),
        done if done == plan.images => ", all already cached".to_owned(),
        done => format!(", {done} already cached"),
    };
    let layers = match &plan.options.layers[..] {
        [] | [_] => String::new(),
        layers => {
            let names = layers.iter().map(Layer::to_string).collect::<Vec<_>>();
            format!(" after layers {} in one pass", names.join(", "))
        }
    };
    format!(
        "tokens{layers}: {} of {rows} x {cols} tokens of width {}, {}{there}{free}, in {}",
        format::counted(plan.images, "image", "images"),
        plan.backbone.hidden_size,
        format::bytes(plan.bytes),
        plan.folder().display()
    )
}

/// SHA-256 that identifies a dataset's images: their paths (and rows) within it, sizes and modification times, in
/// order. Classes and splits are not in it: tokens do not depend on them.
///
/// # Errors
/// If a disk does not answer: by another key, all tokens would be extracted anew.
fn dataset_key(dataset: &Dataset) -> Result<String, ExtractError> {
    // Rows of one file are consecutive, so its metadata is read once; that of many files at a time, as each takes a network file
    // system a while.
    let mut files: Vec<&Path> = dataset.samples.iter().map(|sample| &*sample.source.path).collect();
    files.dedup();
    let state = |path: &&Path| {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            // A table may list what is not there, or not for this user.
            Err(source) if is_of_file(source.kind()) => None,
            Err(source) => return Err(ExtractError::State { path: path.to_path_buf(), source }),
        };
        let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let length = metadata.as_ref().map_or(u64::MAX, std::fs::Metadata::len);
        Ok((length, changed.map_or(0, |time| time.as_nanos())))
    };
    let states: Vec<(u64, u128)> = files.par_iter().map(state).collect::<Result<_, _>>()?;
    let (mut hash, mut at) = (Sha256::new(), 0);
    for sample in &dataset.samples {
        let path = &*sample.source.path;
        at += usize::from(files[at] != path);
        let (length, changed) = states[at];
        let name = path.strip_prefix(&dataset.root).unwrap_or(path).to_string_lossy();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        hash.update(length.to_le_bytes());
        hash.update(changed.to_le_bytes());
        if let Some(row) = sample.source.row {
            hash.update((row as u64).to_le_bytes());
        }
    }
    Ok(sha256::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn tokens_are_not_sought_by_an_image_that_its_disk_does_not_give() {
        use super::*;
        use crate::model::data::{Sample, Split};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let sample = Sample { source: path.clone().into(), class: 0, split: Split::Test };
        let dataset = Dataset { samples: [sample].into(), ..Dataset::default() };
        assert!(dataset_key(&dataset).is_ok(), "it is not there");
        std::os::unix::fs::symlink(&path, &path).unwrap(); // a link to itself cannot be followed
        let refused = dataset_key(&dataset).unwrap_err().to_string();
        assert!(refused.contains("a.png: its size and time cannot be read"), "{refused}");
    }
}
