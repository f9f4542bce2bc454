//! The folder of a pre-training: its manifest, log and checkpoint. The backbone itself (`config.json`,
//! `preprocessor_config.json`, `model.safetensors`) is written last.
//!
//! | file | content |
//! |---|---|
//! | `pretraining.json` | [`Manifest`]: settings, plan, images |
//! | `metrics.jsonl` | one [`Point`] per line, every few steps and at every checkpoint |
//! | `state/checkpoint.safetensors` | the state to resume from after a stop or kill |
//! | `state/lock`, `state/owner.json` | the process that works on it |
//!
//! Every file is written atomically, the checkpoint after the log lines it belongs to.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::PretrainSettings;
use crate::app::jobs::train::resume::difference;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::model::data::{Dataset, Sample, Split, synsets};
use crate::model::io::{Format, atomic_file, if_there, sha256, temporary};
use crate::model::pretrain::Plan;
use crate::model::train::run::{RunError, RunLock};

/// Upper bound on the size of a manifest, log or checkpoint in bytes.
const MAX_BYTES: u64 = 1 << 34;
pub(super) const MANIFEST: &str = "pretraining.json";

/// The settings, pictures and plan of a pre-training, fixed when it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: Format<1>,
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
    /// The split they are from.
    pub split: Split,
    /// Number of pictures.
    pub images: usize,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// SHA-256 of the pictures' names, classes and file lengths, in order.
    pub digest: String,
}

impl Pictures {
    fn new(dataset: &Dataset, samples: &[&Sample], split: Split) -> Self {
        let line = |sample: &&Sample| {
            let file = &sample.source.path;
            let name = sample.source.to_string();
            let name =
                name.strip_prefix(&*dataset.root.to_string_lossy()).unwrap_or(&name).replace('\\', "/");
            format!("{name}\0{}\0{}\n", sample.class, file.metadata().map_or(0, |metadata| metadata.len()))
        };
        let listed: String = samples.iter().map(line).collect();
        let digest = sha256::of_bytes(listed.as_bytes());
        let (name, classes) = (dataset.name.clone(), dataset.classes.clone());
        Self { name, split, images: samples.len(), classes, digest }
    }
}

impl Manifest {
    /// The manifest of a new pre-training.
    ///
    /// # Errors
    /// If the sizes do not fit each other, or the dataset's path cannot be recorded.
    pub fn new(settings: &PretrainSettings, dataset: &Dataset, samples: &[&Sample]) -> Result<Self, Usage> {
        if let Some(odd) = settings.data.as_deref().filter(|data| data.to_str().is_none()) {
            let why = format!("is not valid Unicode, as {MANIFEST} is; rename the folder");
            refuse!("--data {}: {why}", odd.display());
        }
        Ok(Self {
            format: Format,
            program: concat!("ssmprobe ", env!("CARGO_PKG_VERSION")).to_owned(),
            settings: settings.clone(),
            pictures: Pictures::new(dataset, samples, settings.split),
            plan: settings.plan(samples.len(), dataset.classes.len())?,
        })
    }
}

/// A line of `metrics.jsonl`: means over the steps since the previous line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: usize,
    /// Epochs done.
    pub epoch: f64,
    /// Mean training loss.
    pub loss: f64,
    /// Training accuracy in percent; supervised only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Learning rate of the last step.
    pub rate: f64,
    /// Throughput in pictures per second.
    pub images_per_second: f64,
}

pub struct Folder(PathBuf);

impl Folder {
    /// The manifest of the pre-training in `folder`; `None` if the folder does not exist, or holds nothing but temporary
    /// files of a killed process.
    ///
    /// # Errors
    /// If it cannot be written to, or holds other files, or a manifest that cannot be read.
    pub fn manifest(folder: &Path) -> anyhow::Result<Option<Manifest>> {
        atomic_file::can_write(folder)
            .with_context(|| format!("--out {}: cannot be written to", folder.display()))?;
        let path = folder.join(MANIFEST);
        if path.exists() {
            let bytes = atomic_file::read(&path, MAX_BYTES).map_err(RunError::io("read", &path))?;
            return Ok(Some(serde_json::from_slice(&bytes).map_err(RunError::damaged(&path))?));
        }
        let is_temporary = |entry: io::Result<DirEntry>| {
            entry.is_ok_and(|entry| temporary::is_temporary(&entry.file_name().to_string_lossy()))
        };
        let entries = if_there(std::fs::read_dir(folder))
            .with_context(|| format!("{}: cannot be read", folder.display()))?;
        if entries.is_none_or(|mut entries| entries.all(is_temporary)) || RunLock::is_alone_in(folder) {
            return Ok(None);
        }
        refuse!(
            "--out {}: the folder has files but no {MANIFEST}, so it is not an earlier pre-training; give a new or \
             empty one",
            folder.display()
        )
    }

    /// Begins a pre-training in an empty folder, which is created if absent.
    ///
    /// # Errors
    /// If it cannot be written, or another program has begun one there since.
    pub fn create(folder: &Path, manifest: &Manifest) -> anyhow::Result<Self> {
        atomic_file::make_folder(folder).map_err(RunError::io("make", folder))?;
        let text = serde_json::to_string_pretty(manifest)? + "\n";
        let path = folder.join(MANIFEST);
        match atomic_file::write_new(&path, text.as_bytes()).map_err(RunError::io("write", &path))? {
            true => Ok(Self(folder.to_owned())),
            false => Err(RunError::Exists { folder: folder.to_owned() }.into()),
        }
    }

    /// Resumes the pre-training `begun`, if `requested` equals it but for the program, the dataset's place and name, the
    /// device and the interval of checkpoints.
    ///
    /// # Errors
    /// If another field differs; the first one is named.
    pub fn resume(folder: &Path, begun: &Manifest, requested: &Manifest) -> anyhow::Result<Self> {
        let free =
            ["program", "settings.data", "settings.device", "settings.checkpoint_every", "pictures.name"];
        // As with a run, WordNet ids may have been given words since.
        let renamed = synsets::same(&begun.pictures.classes, &requested.pictures.classes);
        let may_differ = |field: &str| free.contains(&field) || renamed && field == "pictures.classes";
        let [found, asked] = [begun, requested].map(serde_json::to_value);
        if let Some((field, found, asked)) = difference("", &found?, &asked?, &may_differ) {
            let why = match field.starts_with("pictures") {
                true => "an image was added, removed, renamed or rewritten since; restore the dataset",
                false => "resume with `--resume --out` alone",
            };
            refuse!(
                "{}: `{field}` is {found} in the pre-training started there, not {asked}; {why}, or choose another \
                 folder",
                folder.display()
            );
        }
        Ok(Self(folder.to_owned()))
    }

    /// Removes temporary files of a killed process. The caller must hold the folder's lock.
    pub fn tidy(&self) -> Result<(), RunError> {
        for folder in [self.0.clone(), self.0.join("state")] {
            temporary::tidy(&folder, Duration::ZERO).map_err(RunError::io("tidy", &folder))?;
        }
        Ok(())
    }

    /// The bytes of the checkpoint to resume from; `None` before the first.
    pub fn checkpoint(&self) -> Result<Option<Vec<u8>>, RunError> {
        let path = self.checkpoint_path();
        if_there(atomic_file::read(&path, MAX_BYTES)).map_err(RunError::io("read", &path))
    }

    pub fn checkpoint_path(&self) -> PathBuf {
        self.0.join("state/checkpoint.safetensors")
    }

    /// The log lines of the first `steps` steps.
    pub fn log(&self, steps: usize) -> Result<Vec<Point>, RunError> {
        let path = self.0.join("metrics.jsonl");
        let text = if_there(atomic_file::text(&path, MAX_BYTES)).map_err(RunError::io("read", &path))?;
        let read = |line: &str| serde_json::from_str(line).map_err(RunError::damaged(&path));
        let mut points = text.unwrap_or_default().lines().map(read).collect::<Result<Vec<Point>, _>>()?;
        points.retain(|point| point.step <= steps);
        Ok(points)
    }

    /// Writes the log, then the checkpoint.
    pub fn keep(&self, log: &[Point], checkpoint: &[u8]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for point in log {
            serde_json::to_writer(&mut lines, point)?;
            lines.push(b'\n');
        }
        let (metrics, state) = (self.0.join("metrics.jsonl"), self.checkpoint_path());
        atomic_file::write(&metrics, &lines).map_err(RunError::io("write", &metrics))?;
        Ok(atomic_file::write(&state, checkpoint).map_err(RunError::io("write", &state))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_its_classes_have_got_words_and_not_with_others() {
        let settings = PretrainSettings::default();
        let manifest = |class: &str| {
            let dataset =
                Dataset { classes: vec![class.to_owned(), "finch".to_owned()], ..Dataset::default() };
            let pictures = Pictures::new(&dataset, &[], Split::Train);
            let plan = settings.plan(100, 2).unwrap();
            Manifest { format: Format, program: String::new(), settings: settings.clone(), pictures, plan }
        };
        let resumed = |class| {
            let (begun, requested) = (manifest("n02012849"), manifest(class));
            Folder::resume(Path::new("folder"), &begun, &requested).map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(resumed("crane (n02012849)"), Ok(()));
        let refused = resumed("crane (n03126707)").unwrap_err();
        assert!(refused.contains("`pictures.classes`"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn a_dataset_whose_path_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;

        let data = PathBuf::from(std::ffi::OsString::from_vec(b"caf\xe9".to_vec()));
        let settings = PretrainSettings { data: Some(data), ..PretrainSettings::default() };
        let refused = Manifest::new(&settings, &Dataset::default(), &[]).unwrap_err().to_string();
        assert!(refused.starts_with("--data caf") && refused.contains("rename the folder"), "{refused}");
    }
}
