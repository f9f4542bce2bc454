//! The folder of a pre-training: what was begun, how it went, and what it goes on from. The backbone itself
//! (`config.json`, `preprocessor_config.json`, `model.safetensors`) comes last.
//!
//! | file | holds |
//! |---|---|
//! | `pretraining.json` | [`Manifest`]: settings, plan, pictures |
//! | `metrics.jsonl` | a line every few steps and at every checkpoint ([`Point`]) |
//! | `state/checkpoint.safetensors` | what a stopped or killed one goes on from |
//! | `state/lock`, `state/owner.json` | who is at work |
//!
//! Every file is written whole or not at all, the checkpoint after the lines it goes with.

use std::fmt::Display;
use std::fs::DirEntry;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::PretrainSettings;
use crate::app::jobs::train::resume::difference;
use crate::app::user_error::Usage;
use crate::model::data::{Dataset, Sample, Split};
use crate::model::io::{atomic_file, sha256, temporary};
use crate::model::pretrain::Plan;
use crate::model::train::run::RunError;

/// The version of the folder's format.
const FORMAT: u64 = 1;
/// Upper bound of a manifest, log or checkpoint in bytes.
const MAX_BYTES: u64 = 1 << 34;
const MANIFEST: &str = "pretraining.json";

/// What is pre-trained on which pictures; fixed from the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: u64,
    /// The program and its version.
    pub program: String,
    /// The requested settings.
    pub settings: PretrainSettings,
    /// The pictures.
    pub pictures: Pictures,
    /// The plan that follows from them.
    pub plan: Plan,
}

/// The pictures of a pre-training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// The dataset's name.
    pub name: String,
    /// Which of its splits.
    pub split: Split,
    /// How many.
    pub images: usize,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// SHA-256 of names, classes and lengths of files, in order.
    pub digest: String,
}

impl Pictures {
    fn new(dataset: &Dataset, samples: &[&Sample], split: Split) -> Self {
        let line = |sample: &&Sample| {
            let file = sample.source.file();
            let name = sample.source.name();
            let name =
                name.strip_prefix(&*dataset.root.to_string_lossy()).unwrap_or(&name).replace('\\', "/");
            format!("{name}\0{}\0{}\n", sample.class, file.metadata().map_or(0, |about| about.len()))
        };
        let listed: String = samples.iter().map(line).collect();
        let digest = sha256::of_bytes(listed.as_bytes());
        let Dataset { name, classes, .. } = dataset.clone();
        Self { name, split, images: samples.len(), classes, digest }
    }
}

impl Manifest {
    /// That of a pre-training that begins.
    ///
    /// # Errors
    /// If sizes do not fit each other.
    pub fn new(settings: &PretrainSettings, dataset: &Dataset, samples: &[&Sample]) -> Result<Self, Usage> {
        Ok(Self {
            format: FORMAT,
            program: concat!("ssmprobe ", env!("CARGO_PKG_VERSION")).to_owned(),
            settings: settings.clone(),
            pictures: Pictures::new(dataset, samples, settings.split),
            plan: settings.plan(samples.len(), dataset.classes.len())?,
        })
    }
}

/// A line of `metrics.jsonl`: means over the steps since the line before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: usize,
    /// Epochs done.
    pub epoch: f64,
    /// The loss.
    pub loss: f64,
    /// Accuracy on the pictures in percent; supervised only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Learning rate of the last step.
    pub rate: f64,
    /// Pictures a second.
    pub images_per_second: f64,
}

/// A pre-training's folder.
pub struct Folder(PathBuf);

impl Folder {
    /// What was begun in a folder; nothing in one that is not there, or empty but for what a kill has left.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn begun(folder: &Path) -> anyhow::Result<Option<Manifest>> {
        let path = folder.join(MANIFEST);
        if path.exists() {
            let bytes = atomic_file::read(&path, MAX_BYTES).map_err(failed("read", &path))?;
            let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error))?;
            if manifest.format != FORMAT {
                let found = format!("its format is {}; this program reads {FORMAT}", manifest.format);
                return Err(damaged(&path, found).into());
            }
            return Ok(Some(manifest));
        }
        let is_left = |entry: io::Result<DirEntry>| {
            entry.is_ok_and(|entry| temporary::is_temporary(&entry.file_name().to_string_lossy()))
        };
        match std::fs::read_dir(folder).map(|mut entries| entries.all(is_left)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}: cannot be read", folder.display())),
            Ok(true) => Ok(None),
            Ok(false) => bail!(Usage(format!(
                "--out {}: the folder holds files and no {MANIFEST}, so it is no earlier pre-training; give a new or an \
                 empty one",
                folder.display()
            ))),
        }
    }

    /// Begins in an empty folder, which is made where absent.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(folder: &Path, manifest: &Manifest) -> anyhow::Result<Self> {
        atomic_file::make_folder(folder).map_err(failed("make", folder))?;
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        let path = folder.join(MANIFEST);
        atomic_file::write(&path, text.as_bytes()).map_err(failed("write", &path))?;
        Ok(Self(folder.to_owned()))
    }

    /// Goes on with what was begun, where `asked` is the same.
    ///
    /// # Errors
    /// If it is another, naming the first thing that is.
    pub fn resume(folder: &Path, begun: &Manifest, asked: &Manifest) -> anyhow::Result<Self> {
        let free = |field: &str| {
            let moved = ["program", "settings.data", "settings.device", "settings.checkpoint_every"];
            moved.contains(&field) || field == "pictures.name"
        };
        let [found, now] = [begun, asked].map(serde_json::to_value);
        if let Some((field, found, asked)) = difference("", &found?, &now?, &free) {
            let why = match field.starts_with("pictures") {
                true => "an image was added, removed, renamed or written anew since; put the dataset back",
                false => "resume with `--resume --out` alone",
            };
            bail!(Usage(format!(
                "{}: `{field}` is {found} in what was begun there, not {asked}; {why}, or choose another folder",
                folder.display()
            )));
        }
        Ok(Self(folder.to_owned()))
    }

    /// Removes temporary files that a kill has left; only for who has claimed the folder.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn tidy(&self) -> Result<(), RunError> {
        for folder in [self.0.clone(), self.0.join("state")] {
            temporary::tidy(&folder, Duration::ZERO).map_err(failed("tidy", &folder))?;
        }
        Ok(())
    }

    /// The bytes of the checkpoint to resume from; `None` before the first.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn checkpoint(&self) -> Result<Option<Vec<u8>>, RunError> {
        let path = self.checkpoint_path();
        match atomic_file::read(&path, MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(failed("read", &path)),
        }
    }

    /// Where the checkpoint lies.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.0.join("state/checkpoint.safetensors")
    }

    /// The log lines of the first `steps` steps.
    ///
    /// # Errors
    /// If the log cannot be read or a line is malformed.
    pub fn log(&self, steps: usize) -> Result<Vec<Point>, RunError> {
        let path = self.0.join("metrics.jsonl");
        let text = match atomic_file::text(&path, MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(failed("read", &path))?,
        };
        let read = |line: &str| serde_json::from_str(line).map_err(|error| damaged(&path, error));
        let mut points = text.lines().map(read).collect::<Result<Vec<Point>, _>>()?;
        points.retain(|point| point.step <= steps);
        Ok(points)
    }

    /// Writes the log, then the checkpoint.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(&self, log: &[Point], checkpoint: &[u8]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for point in log {
            serde_json::to_writer(&mut lines, point)?;
            lines.push(b'\n');
        }
        let (metrics, state) = (self.0.join("metrics.jsonl"), self.checkpoint_path());
        atomic_file::write(&metrics, &lines).map_err(failed("write", &metrics))?;
        Ok(atomic_file::write(&state, checkpoint).map_err(failed("write", &state))?)
    }
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::Io { what, path: path.to_owned(), source }
}

/// A file that is not what a pre-training wrote.
pub fn damaged(path: &Path, found: impl Display) -> RunError {
    RunError::Damaged { path: path.to_owned(), found: found.to_string() }
}
