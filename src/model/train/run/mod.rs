//! The folder of a training run: its configuration, metrics, probes, predictions and checkpoint.
//!
//! | file | holds |
//! |---|---|
//! | `run.json` | [`Manifest`]: configuration, versions, hashes, seeds; written again only when seeds are added |
//! | `metrics.jsonl` | one line for every seed, head and epoch, and for every evaluation within one ([`Metric`]) |
//! | `losses/s<seed>.safetensors` | training losses within epochs, of every head ([`StepLosses`]) |
//! | `results.csv` | `head,seed,best,last,best_epoch,parameters,seconds`, accuracies in percent |
//! | `probes/<head>-s<seed>-best.safetensors`, `-last` | the probes, once a seed is done or stopped |
//! | `answers/truth.json` | test images and their classes ([`Truth`]) |
//! | `answers/<head>-s<seed>.json` | [`Outcome`]: history and predictions, once a seed is done or stopped |
//! | `state/checkpoint.safetensors` | the state from which a killed run resumes ([`checkpoint`]) |
//! | `state/unreadable.json` | images that cannot be read, if no tokens are cached |
//! | `state/lock` | nothing; locked by the process that trains ([`RunLock`]) |
//! | `state/owner.json` | which process of which machine trains ([`HostLock`](crate::model::io::host_lock::HostLock)) |
//! | `state/evaluation.lock` | nothing; locked while evaluations of the run are changed |
//!
//! Every file is written atomically, the checkpoint last, so that a run killed at any time repeats what
//! was not finished and ends with the same files.

pub mod checkpoint;
mod error;
mod join;
mod lock;
mod losses;
mod outcome;
pub mod variant_name;

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexSet;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::error::RunError;
pub use self::lock::{LOCK, RunLock};
pub use self::losses::StepLosses;
pub use self::outcome::{Outcome, ProbeCheckpoint, Truth};
use super::{Epoch, TrainConfig};
use crate::model::backbone::order::MaeOrder;
use crate::model::backbone::token_spec::{Layer, TokenSpec};
use crate::model::data::token_cache;
use crate::model::grid::Grid;
use crate::model::io::csv_cell::escape_formula;
use crate::model::io::{Format, atomic_file, temporary};
use crate::model::probe::BackboneMeta;
use crate::model::probe::head::{self, Config};

/// The images that cannot be read, below the folder.
const UNREADABLE: &str = "state/unreadable.json";
/// Largest JSON file of a run, in bytes: predictions for a hundred million images.
const MAX_JSON_BYTES: u64 = 1 << 30;
/// Most trainings of a run, of every head with every seed: each has files of its own, which readers look for one by one.
pub const MAX_TRAININGS: usize = 1_000_000;

/// A head with settings, under a unique name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in the run and its files: the head's id, if that occurs once.
    pub name: String,
    /// The head's id.
    pub head: String,
    /// Its settings; defaults if absent.
    #[serde(default)]
    pub config: Config,
    /// The layer whose tokens it reads, if not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Its peak learning rate, if not the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

impl Variant {
    /// A head with the run's layer and learning rate.
    pub fn new(name: impl Into<String>, head: impl Into<String>, config: Config) -> Self {
        Self { name: name.into(), head: head.into(), config, layer: None, rate: None }
    }
}

/// The images that pick the best epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// The images the result is reported on, as in the paper; the result is optimistically biased.
    Test,
    /// The dataset's own validation split; the result is reported on its test split.
    Val,
    /// This share of every class of the training images, which is held out of training.
    PartOfTrain(f64),
}

impl Selection {
    /// A caveat for readers of the results, if there is one.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Test => Some(
                "the best epoch was picked on the test images themselves, which flatters it; \
                 `last` does not, nor does --select-split",
            ),
            Self::Val | Self::PartOfTrain(_) => None,
        }
    }
}

/// The dataset of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetMeta {
    /// Its name.
    pub name: String,
    /// Its layout.
    pub layout: String,
    /// Its folder at the time.
    pub path: PathBuf,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Number of training images.
    pub train: usize,
    /// Number of images that pick the best epoch.
    pub select: usize,
    /// Number of test images.
    pub test: usize,
    /// Number of images left out because they cannot be read.
    pub unreadable: usize,
}

/// The configuration of a run, fixed except that seeds may be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the folder's format.
    pub format: Format<1>,
    /// The program and its version.
    pub program: String,
    /// The backbone.
    pub backbone: BackboneMeta,
    /// Where the backbone is: a folder, or an id on the Hugging Face Hub.
    pub backbone_source: String,
    /// The dataset.
    pub dataset: DatasetMeta,
    /// The key of the cached tokens: all that they depend on.
    pub tokens: token_cache::TokenKey,
    /// The requested image size in pixels, if not the backbone's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// Whether tokens are computed anew for every batch instead of cached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
    /// Folder of all token caches when the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// The grid of the patch tokens.
    pub grid: Grid,
    /// The heads to train.
    pub heads: Vec<Variant>,
    /// Optimiser, schedule and batch size.
    #[serde(rename = "protocol")]
    pub config: TrainConfig,
    /// The seeds; all heads are trained once with each.
    pub seeds: Vec<u64>,
    /// The images that pick the best epoch.
    pub selection: Selection,
    /// [`Selection::warning`] for readers of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The device on which the run started.
    pub device: String,
}

impl Manifest {
    /// Whether every training can have files in the run's folder; the error says why not.
    fn check(&self) -> Result<(), String> {
        let mut names = IndexSet::new();
        for Variant { name, .. } in &self.heads {
            if name.contains(['/', '\\']) || !names.insert(name) {
                return Err(format!("`{name}` cannot name a head: names have no slash and differ"));
            }
        }
        check_trainings(self.heads.len(), self.seeds.len())
    }

    /// The key of the tokens that a variant reads.
    pub fn tokens_of(&self, variant: &Variant) -> token_cache::TokenKey {
        let mut tokens = self.tokens.clone();
        if let (Some(Layer(layer)), Some(token_spec)) = (variant.layer, TokenSpec::read(&tokens.layer, None))
        {
            tokens.layer = TokenSpec { layer, ..token_spec }.name();
        }
        tokens
    }

    /// Whether an image's tokens are permuted anew at every pass.
    pub fn redraws(&self) -> bool {
        TokenSpec::read(&self.tokens.layer, None)
            .is_some_and(|token_spec| token_spec.mae_order == MaeOrder::Redrawn)
    }

    /// The distinct layers whose tokens the variants read, as token caches name them.
    pub fn layers(&self) -> Vec<String> {
        let layers = self.heads.iter().map(|variant| self.tokens_of(variant).layer);
        layers.collect::<IndexSet<_>>().into_iter().collect()
    }
}

/// A line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name of the variant.
    pub head: String,
    /// Its seed.
    pub seed: u64,
    /// Metrics of the epoch.
    #[serde(flatten)]
    pub epoch: Epoch,
}

/// A run's folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    folder: PathBuf,
    /// Its configuration.
    pub manifest: Manifest,
}

impl Run {
    /// Starts a run in `folder`, which is created if absent.
    pub fn create(folder: &Path, manifest: Manifest, truth: &Truth) -> Result<Self, RunError> {
        let run = Self { folder: folder.to_owned(), manifest };
        let path = run.manifest_path();
        if atomic_file::is_there(&path).map_err(RunError::io("read", &path))? {
            return Err(RunError::Exists { folder: folder.to_owned() });
        }
        for folder in [folder.to_owned(), folder.join("probes"), folder.join("answers"), folder.join("state")]
        {
            atomic_file::make_folder(&folder).map_err(RunError::io("create", &folder))?;
        }
        write_json(&folder.join("answers/truth.json"), truth)?;
        write_json(&run.manifest_path(), &run.manifest)?;
        Ok(run)
    }

    /// Opens the run in `folder`, finished or not.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join("run.json");
        if !atomic_file::is_there(&path).map_err(RunError::io("read", &path))? {
            return Err(RunError::Absent { folder: folder.to_owned() });
        }
        let bytes = atomic_file::read(&path, MAX_JSON_BYTES).map_err(RunError::io("read", &path))?;
        let mut manifest: Manifest = serde_json::from_slice(&bytes).map_err(RunError::damaged(&path))?;
        manifest.check().map_err(RunError::damaged(&path))?;
        // Earlier versions recorded a setting of `--config` for every head.
        for Variant { head, config, .. } in &mut manifest.heads {
            if let Some(kind) = head::find(head) {
                *config = kind.own_settings(config);
            }
        }
        Ok(Self { folder: folder.to_owned(), manifest })
    }

    /// Removes temporary files that a killed process has left; only for a process that holds the run's lock.
    pub fn tidy(&self) -> Result<(), RunError> {
        for folder in ["", "probes", "answers", "losses", "state"].map(|name| self.folder.join(name)) {
            if !folder.exists() {
                continue; // earlier versions kept no losses
            }
            temporary::tidy(&folder, Duration::ZERO).map_err(RunError::io("tidy", &folder))?;
        }
        Ok(())
    }

    /// Its path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of token caches that the run started with, if it still exists.
    pub fn cache(&self) -> Option<PathBuf> {
        self.manifest.cache.clone().filter(|cache| cache.is_dir())
    }

    /// Replaces the run's seeds by `seeds`, the old ones and new ones, in the manifest.
    pub fn set_seeds(&mut self, seeds: &[u64]) -> Result<(), RunError> {
        self.manifest.seeds = seeds.to_vec();
        write_json(&self.manifest_path(), &self.manifest)
    }

    /// Stores the indices of the dataset's images that cannot be read, so that a resumed run need not try them.
    pub fn keep_unreadable(&self, images: &[usize]) -> Result<(), RunError> {
        write_json(&self.folder.join(UNREADABLE), &images)
    }

    /// The indices of images that cannot be read, if they were stored.
    pub fn unreadable(&self) -> Option<Vec<usize>> {
        read_json(&self.folder.join(UNREADABLE)).ok()
    }

    /// The test images; an error unless each has an index and a class.
    pub fn truth(&self) -> Result<Truth, RunError> {
        let path = self.folder.join("answers/truth.json");
        let truth: Truth = read_json(&path)?;
        let [images, indices, classes] = [truth.images.len(), truth.indices.len(), truth.classes.len()];
        if indices != images || classes != images {
            let found = format!("it has {images} images, {indices} indices and {classes} classes");
            return Err(RunError::Damaged { path, found });
        }
        Ok(truth)
    }

    /// The path of a variant's probe.
    pub fn probe_path(&self, head: &str, seed: u64, which: ProbeCheckpoint) -> PathBuf {
        self.folder.join(format!("probes/{head}-s{seed}-{}.safetensors", which.name()))
    }

    /// Writes the tables of these outcomes.
    pub fn write_tables(&self, outcomes: &[Outcome]) -> Result<(), RunError> {
        Self::tables(outcomes).iter().try_for_each(|(name, bytes)| write(&self.folder.join(name), bytes))
    }

    /// Names and contents of `metrics.jsonl` and `results.csv` of these outcomes.
    pub fn tables(outcomes: &[Outcome]) -> [(&'static str, Vec<u8>); 2] {
        let mut lines = Vec::new();
        for outcome in outcomes {
            let mut epochs: Vec<&Epoch> = outcome.epochs.iter().chain(&outcome.between).collect();
            epochs.sort_by_key(|epoch| (epoch.epoch, epoch.step.unwrap_or(usize::MAX)));
            for epoch in epochs {
                let metric = Metric { head: outcome.head.clone(), seed: outcome.seed, epoch: epoch.clone() };
                serde_json::to_writer(&mut lines, &metric).expect("plain data serialises");
                lines.push(b'\n');
            }
        }
        let mut table = csv::Writer::from_writer(Vec::new());
        let whole = "a table in memory";
        table
            .write_record(["head", "seed", "best", "last", "best_epoch", "parameters", "seconds"])
            .expect(whole);
        let percent = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        for outcome in outcomes {
            let record = [
                escape_formula(&outcome.head).into_owned(),
                outcome.seed.to_string(),
                percent(outcome.best_accuracy()),
                percent(outcome.last_accuracy()),
                outcome.best_epoch.map_or(String::new(), |epoch| (epoch + 1).to_string()),
                outcome.parameters.to_string(),
                format!("{:.3}", outcome.seconds),
            ];
            table.write_record(record).expect(whole);
        }
        [("metrics.jsonl", lines), ("results.csv", table.into_inner().expect(whole))]
    }

    /// The path of the checkpoint.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.folder.join("state/checkpoint.safetensors")
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join("run.json")
    }
}

/// An error if a run of this many heads and seeds would have more than [`MAX_TRAININGS`].
pub fn check_trainings(heads: usize, seeds: usize) -> Result<(), String> {
    match heads.saturating_mul(seeds) {
        0..=MAX_TRAININGS => Ok(()),
        found => Err(format!("it has {found} trainings, expected at most {MAX_TRAININGS}")),
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RunError> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("plain data serialises");
    bytes.push(b'\n');
    write(path, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    atomic_file::write(path, bytes).map_err(RunError::io("write", path))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let bytes = atomic_file::read(path, MAX_JSON_BYTES).map_err(RunError::io("read", path))?;
    serde_json::from_slice(&bytes).map_err(RunError::damaged(path))
}
