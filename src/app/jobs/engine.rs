//! The state that jobs compute with: open backbones and probes, cached tokens, null bands. It lives on one thread, which owns every
//! tensor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use indexmap::IndexMap;

use super::extract::{Retries, is_away};
use super::info::{BackboneInfo, ProbeInfo};
use super::token_memory::TokenMemory;
use super::tokens::{TokenReader, preprocessor};
use super::{BackboneId, BackboneOptions, ExplainSettings, JobError, ProbeId, Reporter};
use crate::app::format::file_stem;
use crate::app::jobs::user_error::UserError;
use crate::app::paths;
use crate::model::annotations::Annotations;
use crate::model::data::image::{ImageError, Photo};
use crate::model::data::{DataError, ImageSource};
use crate::model::device::{self, Choice, DeviceError};
use crate::model::explain::null_model::NullBands;
use crate::model::io::catch_panic::catch_foreign;
use crate::model::io::process;
use crate::model::probe::Probe;

/// The functions through which jobs reach devices and files, so that tests can replace them.
#[derive(Clone, Copy)]
pub struct WorkerEnv {
    /// Opens a device by name.
    pub device: fn(&str) -> Result<Choice, DeviceError>,
    /// Decodes a photograph.
    pub photo: fn(&ImageSource) -> Result<Photo, ImageError>,
    /// The folder of token caches on disk; `None` without a home folder.
    pub tokens: fn() -> Option<PathBuf>,
    /// Most bytes of tokens that are cached in memory.
    pub cache_bytes: usize,
    /// This build of the program, whose numbers may differ from those of another; `None` to store and read no evaluations.
    pub build: Option<&'static str>,
}

impl WorkerEnv {
    /// Decodes a photograph; its error for the user.
    pub fn decode(&self, source: &ImageSource) -> Result<Photo, UserError> {
        (self.photo)(source).map_err(|error| UserError::from_file_error(&source.path, error))
    }
}

impl Default for WorkerEnv {
    fn default() -> Self {
        Self {
            device: device::choose,
            photo: ImageSource::photo,
            tokens: paths::tokens,
            cache_bytes: 512 << 20,
            build: process::build(),
        }
    }
}

/// Number of folders whose annotations are cached; the oldest are evicted. A list of parts is some megabytes.
const MAX_ANNOTATIONS: usize = 4;

/// Open backbones and probes, cached tokens, annotations and null bands.
pub struct Engine {
    /// Access to devices and files.
    pub env: WorkerEnv,
    pub(super) memory: TokenMemory,
    pub(super) probes: HashMap<ProbeId, LoadedProbe>,
    pub(super) backbones: HashMap<BackboneId, LoadedBackbone>,
    /// Backbones to reopen whose device was lost.
    lost: HashMap<BackboneId, BackboneSpec>,
    nulls: NullBands,
    /// Annotations by their folders, at most [`MAX_ANNOTATIONS`].
    annotations: IndexMap<PathBuf, Arc<Annotations>>,
}

/// A backbone to open.
#[derive(Clone)]
pub struct BackboneSpec {
    /// Its id; an open backbone with the same id is closed first.
    pub entry: BackboneId,
    /// Its folder.
    pub folder: PathBuf,
    /// Name of the device.
    pub device: String,
    /// How it reads images.
    pub options: BackboneOptions,
}

/// An open backbone, ready to read images.
pub(super) struct LoadedBackbone {
    pub(super) spec: BackboneSpec,
    pub(super) reader: TokenReader,
    /// Identifies backbone and options in the keys of cached tokens.
    pub(super) key: Arc<str>,
    /// Name, hardware and driver of its device, which decide how numbers are rounded.
    pub(super) hardware: [String; 3],
    pub(super) device: Device,
}

/// A probe and its file.
#[derive(Clone)]
pub(super) struct LoadedProbe {
    pub(super) path: PathBuf,
    pub(super) probe: Probe,
    /// SHA-256 of the file.
    pub(super) fingerprint: String,
}

/// The error for a probe that is not open.
pub(super) fn not_open() -> UserError {
    UserError::new("The probe is not open").remedy("Open it again")
}

impl LoadedProbe {
    /// Its file name without the extension.
    pub(super) fn name(&self) -> String {
        file_stem(&self.path)
    }
}

impl Engine {
    /// An engine with nothing open.
    pub fn new(env: WorkerEnv) -> Self {
        let settings = ExplainSettings::default();
        Self {
            env,
            memory: TokenMemory::new(env.cache_bytes),
            probes: HashMap::new(),
            backbones: HashMap::new(),
            lost: HashMap::new(),
            nulls: NullBands::new(settings.null_draws, settings.seed),
            annotations: IndexMap::new(),
        }
    }

    /// The annotations in `folder`, cached.
    pub(super) fn annotations(&mut self, folder: &Path) -> Result<Arc<Annotations>, DataError> {
        if let Some(known) = self.annotations.get(folder) {
            return Ok(known.clone());
        }
        let read = Arc::new(Annotations::open(folder)?);
        if self.annotations.len() >= MAX_ANNOTATIONS {
            self.annotations.shift_remove_index(0);
        }
        self.annotations.insert(folder.to_owned(), read.clone());
        Ok(read)
    }

    /// Loads a backbone; an open one with the same id is closed and its memory freed before.
    pub fn open_backbone(
        &mut self,
        spec: BackboneSpec,
        reporter: &mut dyn Reporter,
    ) -> Result<BackboneInfo, JobError> {
        let BackboneSpec { entry, folder, device, options } = &spec;
        let entry = *entry;
        self.close_backbone(entry);
        let preprocessor = preprocessor(folder, options.pixels)?;
        let choice = (self.env.device)(device)?;
        reporter.cancel().check()?;
        let token_spec = options.token_spec();
        let reader = TokenReader::open(folder, preprocessor, &token_spec, &choice.device)?;
        let (TokenReader { backbone, preprocessor, .. }, layer) = (&reader, reader.layer());
        let output = preprocessor.output();
        output.map(|(height, width)| backbone.grid(height, width)).transpose()?;
        let hardware = [&choice.found.name, &choice.found.adapter, &choice.found.driver].map(String::clone);
        let adapter = format!("{} ({})", choice.found.adapter, choice.why);
        let info = BackboneInfo::new(backbone, choice.found.name, adapter, output, *options);
        let (order, joined) = (options.mae_order, token_spec.joined());
        let (weights, config) = (backbone.fingerprint(), backbone.config().key());
        let key = format!("{weights} {config} {layer} {joined} {order:?} {}", preprocessor.key()).into();
        let open = LoadedBackbone { spec, reader, key, hardware, device: choice.device };
        self.backbones.insert(entry, open);
        Ok(info)
    }

    /// Decodes an image of a dataset, for which work on the others took hours. One that is broken is left out, with a warning that it
    /// `lacks` what it is read for: every probe leaves out the same. One whose disk does not answer is tried again.
    ///
    /// # Errors
    /// If it is cancelled, or the disk does not answer for a minute.
    pub(super) fn decode_or_leave_out(
        &mut self,
        source: &ImageSource,
        lacks: &str,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Photo>, JobError> {
        let mut retries = Retries::default();
        loop {
            let why = match (self.env.photo)(source) {
                Ok(photo) => return Ok(Some(photo)),
                Err(why) => why,
            };
            let is_away = is_away(source, &why);
            let why = UserError::from_file_error(&source.path, why);
            if !is_away {
                reporter.warn(format!("{}; it lacks {lacks}", why.one_line()));
                return Ok(None);
            }
            if !retries.pause() {
                return Err(why.into());
            }
            reporter.pause(self)?;
        }
    }

    /// Closes a backbone and frees its memory, the device's memory pool included.
    pub fn close_backbone(&mut self, entry: BackboneId) {
        self.lost.remove(&entry);
        if let Some(LoadedBackbone { reader, device, .. }) = self.backbones.remove(&entry) {
            let _ = catch_foreign(move || {
                drop(reader);
                device.memory_cleanup();
            });
        }
    }

    /// Reopens a backbone whose device was lost; does nothing for others.
    pub(super) fn reopen(&mut self, entry: BackboneId, reporter: &mut dyn Reporter) -> Result<(), JobError> {
        let Some(spec) = self.lost.get(&entry).cloned() else { return Ok(()) };
        let opened = self.open_backbone(spec.clone(), reporter).map(drop);
        if opened.is_err() {
            self.lost.insert(entry, spec);
        }
        opened
    }

    /// After a panic: drops state that may be inconsistent; the next job reopens it.
    pub fn recover(&mut self) {
        for (entry, open) in std::mem::take(&mut self.backbones) {
            self.lost.insert(entry, open.spec.clone());
            // A lost device may panic once more while it is let go.
            let _ = catch_foreign(move || drop(open));
        }
        self.nulls = NullBands::new(self.nulls.draws, self.nulls.seed);
    }

    /// The device of open backbones, by name.
    pub fn device(&self) -> Option<&str> {
        let open = self.backbones.values().map(|open| open.hardware[0].as_str());
        let all: Vec<&str> = open.chain(self.lost.values().map(|spec| spec.device.as_str())).collect();
        // One that is no processor first: it is the likelier culprit.
        all.iter().find(|name| **name != "cpu").or(all.first()).copied()
    }

    /// The open backbone with this id.
    pub(super) fn backbone(&self, entry: BackboneId) -> Result<&LoadedBackbone, UserError> {
        self.backbones
            .get(&entry)
            .ok_or_else(|| UserError::new("The backbone is not open").remedy("Open it again"))
    }

    /// The reader of an open backbone, if it is still the one with this [`key`](LoadedBackbone::key): between two steps of a long
    /// job it may be opened again with other options.
    pub(super) fn same_reader(&self, entry: BackboneId, key: &str) -> Result<&TokenReader, UserError> {
        let open = self.backbone(entry)?;
        let changed = || UserError::new("The backbone was reopened while this was being computed");
        (*open.key == *key).then_some(&open.reader).ok_or_else(|| changed().remedy("Compute it again"))
    }

    /// Loads a probe file.
    pub fn open_probe(&mut self, entry: ProbeId, path: &Path) -> Result<ProbeInfo, JobError> {
        let (probe, fingerprint) =
            Probe::load_known(path).map_err(|error| UserError::from_file_error(path, error))?;
        let loaded = LoadedProbe { path: path.to_owned(), probe, fingerprint };
        let info = ProbeInfo::new(&loaded.probe, loaded.name(), loaded.fingerprint.clone());
        self.probes.insert(entry, loaded);
        Ok(info)
    }

    /// Closes a probe.
    pub fn close_probe(&mut self, entry: ProbeId) {
        self.probes.remove(&entry);
    }

    /// The open probe with this id.
    pub(super) fn probe(&self, entry: ProbeId) -> Result<&LoadedProbe, UserError> {
        self.probes.get(&entry).ok_or_else(not_open)
    }

    /// Prepares null bands for these settings; they are kept until the settings change.
    pub(super) fn set_nulls(&mut self, ExplainSettings { null_draws, seed, .. }: ExplainSettings) {
        let asked = NullBands::new(null_draws, seed);
        if (self.nulls.draws, self.nulls.seed) != (asked.draws, asked.seed) {
            self.nulls = asked;
        }
    }

    /// Null bands for the settings last given to [`set_nulls`](Self::set_nulls).
    pub(super) fn nulls(&self) -> &NullBands {
        &self.nulls
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::app::jobs::reporter::Recorder;

    #[test]
    fn an_image_whose_disk_is_away_for_a_moment_is_tried_again_and_a_broken_one_is_left_out() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let photo = |image: &ImageSource| {
            let (path, name) = (image.path.clone(), image.to_string());
            match ASKED.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    Err(ImageError::Read { path, source: std::io::ErrorKind::StaleNetworkFileHandle.into() })
                }
                1 => {
                    Photo::decode(name, include_bytes!("../../../assets/demo/scenes/val/disc-dots/00002.png"))
                }
                _ => Err(ImageError::Decode { name, format: "PNG", why: "it is torn".to_owned() }),
            }
        };
        let mut engine = Engine::new(WorkerEnv { photo, ..WorkerEnv::default() });
        let (image, mut reporter) = (PathBuf::from("a.png").into(), Recorder::default());
        let mut is_read =
            || matches!(engine.decode_or_leave_out(&image, "curves", &mut reporter), Ok(Some(_)));
        assert_eq!(([is_read(), is_read()], ASKED.load(Ordering::Relaxed)), ([true, false], 3));
        assert!(reporter.warned[0].starts_with("a.png: cannot be decoded as PNG: it is torn"));
        assert!(reporter.warned[0].ends_with("; it lacks curves"), "{:?}", reporter.warned);
    }

    #[test]
    fn annotations_of_few_folders_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = Engine::new(WorkerEnv::default());
        let folders: Vec<PathBuf> = (0..6).map(|at| folder.path().join(at.to_string())).collect();
        let all: Vec<Arc<Annotations>> = folders
            .iter()
            .map(|folder| {
                std::fs::create_dir(folder).unwrap();
                std::fs::write(folder.join("a.png"), "a mask").unwrap();
                engine.annotations(folder).unwrap()
            })
            .collect();
        let is_kept = |at: usize, engine: &mut Engine| {
            Arc::ptr_eq(&all[at], &engine.annotations(&folders[at]).unwrap())
        };
        assert!(is_kept(5, &mut engine) && is_kept(2, &mut engine), "they are read once");
        assert!(!is_kept(0, &mut engine), "the oldest is read again");
    }
}
