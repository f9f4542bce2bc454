//! What jobs compute with: open backbones and probes, tokens in memory, what chance gives. It lives on one
//! thread, which owns every tensor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;

use super::info::{BackboneInfo, ProbeInfo};
use super::token_memory::TokenMemory;
use super::tokens::{TokenReader, preprocessor};
use super::{BackboneId, BackboneOptions, ExplainSettings, JobError, ProbeId, Reporter};
use crate::app::paths;
use crate::app::user_error::UserError;
use crate::model::annotations::Annotations;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::image::{ImageError, Photo};
use crate::model::data::{DataError, ImageSource};
use crate::model::device::{self, Choice, DeviceError};
use crate::model::explain::null_model::NullBands;
use crate::model::io::catch_panic::guard;
use crate::model::probe::Probe;

/// What jobs take from the world outside, so that a test can hand them a broken one.
#[derive(Clone, Copy)]
pub struct WorkerEnv {
    /// Opens a device by name.
    pub device: fn(&str) -> Result<Choice, DeviceError>,
    /// Decodes a photograph.
    pub photo: fn(&ImageSource) -> Result<Photo, ImageError>,
    /// The folder of token caches on disk, where the user has one.
    pub tokens: fn() -> Option<PathBuf>,
    /// Bytes of tokens that are kept for another look.
    pub cache_bytes: usize,
}

impl Default for WorkerEnv {
    fn default() -> Self {
        Self {
            device: device::choose,
            photo: ImageSource::photo,
            tokens: paths::tokens,
            cache_bytes: 512 << 20,
        }
    }
}

/// What jobs compute with.
pub struct Engine {
    /// The world outside.
    pub env: WorkerEnv,
    pub(super) memory: TokenMemory,
    pub(super) probes: HashMap<ProbeId, LoadedProbe>,
    pub(super) backbones: HashMap<BackboneId, LoadedBackbone>,
    /// How to open backbones again whose device was lost.
    lost: HashMap<BackboneId, BackboneSpec>,
    nulls: (ExplainSettings, NullBands),
    /// Annotations by their folders.
    annotations: HashMap<PathBuf, Arc<Annotations>>,
}

/// A backbone to open.
#[derive(Clone)]
pub struct BackboneSpec {
    /// What it is called; an open one of this name is closed first.
    pub entry: BackboneId,
    /// Its folder.
    pub folder: PathBuf,
    /// Name of the device.
    pub device: String,
    /// How it reads images.
    pub options: BackboneOptions,
}

/// A backbone that can read images.
pub(super) struct LoadedBackbone {
    spec: BackboneSpec,
    pub(super) reader: TokenReader,
    /// What cached tokens depend on.
    pub(super) key: Arc<str>,
    device: Device,
    info: BackboneInfo,
}

/// A probe and its file.
#[derive(Clone)]
pub(super) struct LoadedProbe {
    pub(super) path: PathBuf,
    pub(super) probe: Probe,
}

/// Why a probe cannot be asked.
pub(super) fn not_open() -> UserError {
    UserError::new("The probe is not open").remedy("Open it again")
}

impl LoadedProbe {
    /// What its file is called, without the ending.
    pub(super) fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Engine {
    /// One with nothing open.
    pub fn new(env: WorkerEnv) -> Self {
        let settings = ExplainSettings::default();
        Self {
            env,
            memory: TokenMemory::new(env.cache_bytes),
            probes: HashMap::new(),
            backbones: HashMap::new(),
            lost: HashMap::new(),
            nulls: (settings, NullBands::new(settings.null_draws, settings.seed)),
            annotations: HashMap::new(),
        }
    }

    /// What is marked in the images of a folder, read once.
    pub(super) fn annotations(&mut self, folder: &Path) -> Result<Arc<Annotations>, DataError> {
        if let Some(known) = self.annotations.get(folder) {
            return Ok(known.clone());
        }
        let read = Arc::new(Annotations::open(folder)?);
        self.annotations.insert(folder.to_owned(), read.clone());
        Ok(read)
    }

    /// Loads a backbone; that of the same name is gone by then, and its memory free.
    pub fn open_backbone(
        &mut self,
        spec: BackboneSpec,
        reporter: &mut dyn Reporter,
    ) -> Result<BackboneInfo, JobError> {
        let BackboneSpec { entry, folder, device, options } = &spec;
        let entry = *entry;
        self.close_backbone(entry);
        let preprocessor = preprocessor(folder, options.pixels).map_err(JobError::failed)?;
        let choice = (self.env.device)(device).map_err(JobError::failed)?;
        reporter.cancel().check()?;
        let token_spec = options.token_spec();
        let reader =
            TokenReader::open(folder, preprocessor, &token_spec, &choice.device).map_err(JobError::failed)?;
        let TokenReader { backbone, preprocessor, layer, .. } = &reader;
        let output = preprocessor.output();
        output.map(|(height, width)| backbone.grid(height, width)).transpose().map_err(JobError::failed)?;
        let adapter = format!("{} ({})", choice.found.adapter, choice.why);
        let info = BackboneInfo::new(backbone, choice.found.name, adapter, output, *options);
        let (order, joined) = (options.mae_order, token_spec.joined());
        let key =
            format!("{} {layer} {joined} {order:?} {}", backbone.fingerprint(), preprocessor.key()).into();
        let open = LoadedBackbone { spec, reader, key, device: choice.device, info: info.clone() };
        self.backbones.insert(entry, open);
        Ok(info)
    }

    /// Frees a backbone's memory, and what the device keeps of it for later.
    pub fn close_backbone(&mut self, entry: BackboneId) {
        self.lost.remove(&entry);
        if let Some(LoadedBackbone { reader, device, .. }) = self.backbones.remove(&entry) {
            let _ = guard(move || {
                drop(reader);
                device.memory_cleanup();
            });
        }
    }

    /// Opens a backbone again that was lost with its device.
    pub(super) fn reopen(&mut self, entry: BackboneId, reporter: &mut dyn Reporter) -> Result<(), JobError> {
        let Some(spec) = self.lost.get(&entry).cloned() else { return Ok(()) };
        match self.open_backbone(spec.clone(), reporter) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.lost.insert(entry, spec);
                Err(error)
            }
        }
    }

    /// After a panic: what it may have torn is thrown away; the next explanation opens it again.
    pub fn recover(&mut self) {
        for (entry, open) in std::mem::take(&mut self.backbones) {
            self.lost.insert(entry, open.spec.clone());
            // A lost device may panic once more while it is let go.
            let _ = guard(move || drop(open));
        }
        let settings = self.nulls.0;
        self.nulls.1 = NullBands::new(settings.null_draws, settings.seed);
    }

    /// The device of open backbones, by name.
    pub fn device(&self) -> Option<&str> {
        let open = self.backbones.values().map(|open| open.info.device.as_str());
        let all: Vec<&str> = open.chain(self.lost.values().map(|spec| spec.device.as_str())).collect();
        // One that is no processor first: it is the likelier culprit.
        all.iter().find(|name| **name != "cpu").or(all.first()).copied()
    }

    /// What takes tokens as an open backbone does: its folder, its device, and how.
    pub(super) fn taker(&self, entry: BackboneId) -> Result<(PathBuf, Device, TokenSpec), UserError> {
        let LoadedBackbone { spec, device, .. } = self.backbone(entry)?;
        Ok((spec.folder.clone(), device.clone(), spec.options.token_spec()))
    }

    /// The open backbone of this name.
    pub(super) fn backbone(&self, entry: BackboneId) -> Result<&LoadedBackbone, UserError> {
        self.backbones
            .get(&entry)
            .ok_or_else(|| UserError::new("The backbone is not open").remedy("Open it again"))
    }

    /// Loads a probe file.
    pub fn open_probe(&mut self, entry: ProbeId, path: &Path) -> Result<ProbeInfo, JobError> {
        let (probe, fingerprint) =
            Probe::load_known(path).map_err(|error| UserError::from_file_error(path, error))?;
        let loaded = LoadedProbe { path: path.to_owned(), probe };
        let info = ProbeInfo::new(&loaded.probe, loaded.name(), fingerprint);
        self.probes.insert(entry, loaded);
        Ok(info)
    }

    /// Forgets a probe.
    pub fn close_probe(&mut self, entry: ProbeId) {
        self.probes.remove(&entry);
    }

    /// The open probe of this name.
    pub(super) fn probe(&self, entry: ProbeId) -> Result<&LoadedProbe, UserError> {
        self.probes.get(&entry).ok_or_else(not_open)
    }

    /// What chance gives with these settings; kept until others are asked for.
    pub(super) fn set_nulls(&mut self, settings: ExplainSettings) {
        let ExplainSettings { null_draws, seed, .. } = settings;
        if (self.nulls.0.null_draws, self.nulls.0.seed) != (null_draws, seed) {
            self.nulls = (settings, NullBands::new(null_draws, seed));
        }
    }

    /// What chance gives, as last set.
    pub(super) fn nulls(&self) -> &NullBands {
        &self.nulls.1
    }
}
