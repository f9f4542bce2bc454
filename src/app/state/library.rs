//! The library: backbones, probes, images and datasets, and which probes fit which backbones.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::images::Images;
use crate::app::format::file_name;
use crate::app::jobs::evaluate::{EvalProbe, EvalSplit};
use crate::app::jobs::info::{BackboneInfo, Compatibility, ProbeInfo};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{BackboneId, BackboneOptions, DatasetId, ImageId, JobId, ProbeId};
use crate::model::data::{ImageSource, Split, synsets};
use crate::model::explain::intervention::Intervention;
use crate::model::probe::{class_word, class_words, has_class};
use crate::viz::file_names::probe_name;

/// The state of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Status<Info> {
    /// The worker is opening it.
    Opening(JobId),
    /// It is open.
    Ready(Arc<Info>),
    /// It is in the library, but not open.
    Closed,
    /// This job could not open it, and why.
    Failed(JobId, UserError),
}

impl<Info> Status<Info> {
    /// Its description, once it is open.
    pub fn ready(&self) -> Option<&Arc<Info>> {
        match self {
            Self::Ready(info) => Some(info),
            _ => None,
        }
    }

    /// Whether the worker is opening it.
    pub fn is_opening(&self) -> bool {
        matches!(self, Self::Opening(_))
    }

    /// Whether it is open or being opened.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Opening(_) | Self::Ready(_))
    }

    /// Whether it could not be opened.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(..))
    }

    /// Ends `job`, if it was opening the entry: it has failed, or is closed if there is no error.
    fn end_opening(&mut self, job: JobId, error: Option<&UserError>) {
        if matches!(self, Self::Opening(opening) if *opening == job) {
            *self = error.map_or(Self::Closed, |error| Self::Failed(job, error.clone()));
        }
    }

    /// Closes an entry that is open or being opened; returns whether it was.
    pub(super) fn close(&mut self) -> bool {
        let open = self.is_open();
        if open {
            *self = Self::Closed;
        }
        open
    }
}

/// A backbone of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Backbone {
    /// A folder or an id of the Hub.
    pub source: String,
    /// Its state.
    pub status: Status<BackboneInfo>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
    /// Its own options, if it does not follow the shared ones: it is open for another layer beside them.
    pub own: Option<BackboneOptions>,
}

/// A probe of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its file.
    pub path: PathBuf,
    /// Its state.
    pub status: Status<ProbeInfo>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
    /// Whether it gets a column once it is open.
    pub(super) show: bool,
}

/// An image of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Its file, or its row in a table.
    pub source: ImageSource,
    /// Its place in a dataset, if it is of one.
    pub label: Option<Label>,
}

/// An image's place in a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its index in the dataset's split.
    pub at: usize,
    /// Its class index.
    pub class: u32,
}

/// A dataset of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its folder, or a table file.
    pub path: PathBuf,
    /// Its state.
    pub status: Status<EvalSplit>,
    /// The split in use; the held-out one if absent.
    pub split: Option<Split>,
    /// Its images in the library, in the order of the split.
    pub images: Vec<ImageId>,
    /// Whether it becomes the dataset in use once it is open.
    pub(super) show: bool,
}

/// What a reading depends on besides the image: the probe's parameters, and the weights and options of its backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    /// The probe.
    pub probe: ProbeId,
    /// SHA-256 of its file.
    file: String,
    /// The backbone.
    backbone: BackboneId,
    /// SHA-256 of its weights.
    weights: String,
    /// Its layer and image size.
    options: BackboneOptions,
}

/// All entries, open or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Library {
    /// Backbones, several of which may be open.
    pub backbones: IndexMap<BackboneId, Backbone>,
    /// Probes.
    pub probes: IndexMap<ProbeId, Probe>,
    /// Images.
    pub images: Images,
    /// Datasets, whose images are among `images`.
    pub datasets: IndexMap<DatasetId, Dataset>,
}

impl Backbone {
    /// Its name in the library.
    pub fn name(&self) -> String {
        let name = match &self.status {
            Status::Ready(info) => &info.id,
            _ => &self.source,
        };
        self.own.map_or_else(|| name.clone(), |own| format!("{name}, {}", own.short()))
    }
}

impl Probe {
    /// Its name in the library.
    pub fn name(&self) -> String {
        let stem = self.path.file_stem();
        stem.map_or_else(|| file_name(&self.path), |stem| stem.to_string_lossy().into_owned())
    }

    /// The name of the probe of a file, with its run or folder if another one of `all` has the same name.
    pub fn name_among<'a>(path: &Path, all: impl Iterator<Item = &'a PathBuf>) -> String {
        let same = all.filter(|other| other.file_stem() == path.file_stem());
        probe_name(&path.to_string_lossy(), same.filter_map(|other| other.to_str()))
    }
}

impl Image {
    /// An image of no dataset.
    pub fn new(source: impl Into<ImageSource>) -> Self {
        Self { source: source.into(), label: None }
    }

    /// Its name in the library.
    pub fn name(&self) -> String {
        self.source.short()
    }

    /// The name of its folder, which is the class in a folder of classes.
    pub fn folder(&self) -> String {
        self.source.path.parent().map(file_name).unwrap_or_default()
    }
}

impl Dataset {
    /// A dataset that is not open yet.
    pub fn new(path: PathBuf, split: Option<Split>) -> Self {
        Self { path, status: Status::Closed, split, images: Vec::new(), show: false }
    }

    /// Its name in the library.
    pub fn name(&self) -> String {
        match &self.status {
            Status::Ready(part) => part.set.dataset.clone(),
            _ => file_name(&self.path),
        }
    }
}

impl Library {
    /// The probe of a file.
    pub fn probe_at(&self, path: &Path) -> Option<ProbeId> {
        self.probes.iter().find(|(_, probe)| probe.path == path).map(|(id, _)| *id)
    }

    /// The description of a probe, once it is open.
    pub fn probe_info(&self, id: ProbeId) -> Option<&ProbeInfo> {
        self.probes.get(&id)?.status.ready().map(|info| &**info)
    }

    /// The split in use of a dataset, once it is open.
    pub fn split(&self, id: DatasetId) -> Option<&Arc<EvalSplit>> {
        self.datasets.get(&id)?.status.ready()
    }

    /// Whether anything is being opened.
    pub fn is_opening(&self) -> bool {
        self.backbones.values().any(|backbone| backbone.status.is_opening())
            || self.probes.values().any(|probe| probe.status.is_opening())
            || self.datasets.values().any(|dataset| dataset.status.is_opening())
    }

    /// Whether anything could not be opened.
    pub(super) fn has_failed(&self) -> bool {
        self.backbones.values().any(|backbone| backbone.status.has_failed())
            || self.probes.values().any(|probe| probe.status.has_failed())
            || self.datasets.values().any(|dataset| dataset.status.has_failed())
    }

    /// Ends `job`: entries that it was opening have failed, or are closed if there is no error.
    pub(super) fn end_opening(&mut self, job: JobId, error: Option<&UserError>) {
        self.backbones.values_mut().for_each(|backbone| backbone.status.end_opening(job, error));
        self.probes.values_mut().for_each(|probe| probe.status.end_opening(job, error));
        self.datasets.values_mut().for_each(|dataset| dataset.status.end_opening(job, error));
    }

    /// The open backbones.
    pub fn open_backbones(&self) -> impl Iterator<Item = (BackboneId, &Arc<BackboneInfo>)> {
        self.backbones.iter().filter_map(|(id, backbone)| Some((*id, backbone.status.ready()?)))
    }

    /// The first open backbone of a source, a folder or an id of the Hub.
    pub fn open_backbone_from(&self, source: &str) -> Option<&Arc<BackboneInfo>> {
        self.backbones.values().filter(|known| known.source == source).find_map(|known| known.status.ready())
    }

    /// The number of probes that are open or being opened.
    pub fn open_probe_count(&self) -> usize {
        self.probes.values().filter(|probe| probe.status.is_open()).count()
    }

    /// The open backbone whose tokens a probe reads, in this order: the weights it was trained on, the same backbone by its
    /// id, another that fits, one that may fit. `None` if none fits.
    pub fn backbone_of(&self, probe: ProbeId) -> Option<(BackboneId, &Arc<BackboneInfo>)> {
        let info = self.probe_info(probe)?;
        let rank = |backbone: &BackboneInfo| match info.fits(backbone) {
            Compatibility::Fits if info.backbone_fingerprint.as_ref() == Some(&backbone.fingerprint) => {
                Some(0)
            }
            Compatibility::Fits if info.backbone == backbone.id => Some(1),
            Compatibility::Fits => Some(2),
            Compatibility::Doubtful(_) => Some(3),
            Compatibility::DoesNot(_) => None,
        };
        let ranked = self.open_backbones().filter_map(|(id, backbone)| Some((rank(backbone)?, id, backbone)));
        ranked.min_by_key(|(rank, ..)| *rank).map(|(_, id, backbone)| (id, backbone))
    }

    /// A probe with an intervention, and the backbone that serves it; `None` if no open one fits.
    pub(super) fn eval_probe(&self, probe: ProbeId, change: Intervention) -> Option<EvalProbe> {
        let (backbone, _) = self.backbone_of(probe)?;
        Some(EvalProbe { probe, backbone, change })
    }

    /// The current `Reader` of a probe; `None` if it is not open, or no open backbone fits.
    pub fn reader(&self, probe: ProbeId) -> Option<Reader> {
        let file = self.probe_info(probe)?.fingerprint.clone();
        let (backbone, info) = self.backbone_of(probe)?;
        let (weights, options) = (info.fingerprint.clone(), info.options);
        Some(Reader { probe, file, backbone, weights, options })
    }

    /// The seed of an image's random orders: its index in the whole dataset, or among the library's images without one, whose order a
    /// session restores while datasets are opened again.
    pub fn image_seed(&self, image: ImageId) -> u64 {
        let label = self.images.get(&image).and_then(|image| image.label);
        let index = label.and_then(|label| self.split(label.dataset)?.samples.get(label.at).copied());
        index.or_else(|| self.images.loose_index(image)).unwrap_or(0) as u64
    }

    /// The word that asks for a class of a probe.
    pub fn class_word(&self, probe: ProbeId, class: usize) -> Option<String> {
        class_word(&self.probe_info(probe)?.classes, class)
    }

    /// Whether a probe has the class that a word asks for; one that is not open, or has no names of classes, may have it.
    pub fn has_class(&self, probe: ProbeId, word: &str) -> bool {
        self.probe_info(probe).is_none_or(|info| info.classes.is_empty() || has_class(&info.classes, word))
    }

    /// The first backbone that is open.
    pub fn backbone(&self) -> Option<(BackboneId, &Arc<BackboneInfo>)> {
        self.open_backbones().next()
    }

    /// Whether a probe fits an open backbone; `None` unless the probe and a backbone are open.
    pub fn fit(&self, probe: ProbeId) -> Option<Compatibility> {
        let info = self.probe_info(probe)?;
        if let Some((_, backbone)) = self.backbone_of(probe) {
            return Some(info.fits(backbone));
        }
        let first = info.fits(self.backbone()?.1);
        Some(match (first, self.open_backbones().count()) {
            (Compatibility::DoesNot(_), many) if many > 1 => Compatibility::DoesNot(format!(
                "Fits none of the {many} open backbones. Open the one it was trained on{}",
                if info.backbone.is_empty() { String::new() } else { format!(" ({})", info.backbone) }
            )),
            (fit, _) => fit,
        })
    }

    /// If a probe reads other tokens than it was trained on: how they differ, and the options it needs.
    pub fn token_mismatch(&self, probe: ProbeId) -> Option<(String, BackboneOptions)> {
        let info = self.probe_info(probe)?;
        let suits = || self.open_backbones().map(|(_, backbone)| backbone).find(|one| info.suits(one));
        let backbone = self.backbone_of(probe).map(|(_, backbone)| backbone).or_else(suits)?;
        Some((info.token_mismatch(backbone)?, info.options()))
    }

    /// The name of a probe, with its run or folder if another one has the same name.
    pub fn probe_name(&self, id: ProbeId) -> String {
        let Some(probe) = self.probes.get(&id) else { return "(closed probe)".to_owned() };
        Probe::name_among(&probe.path, self.probes.values().map(|other| &other.path))
    }

    /// The [`probe_name`](Self::probe_name) of every probe, each compared only with those of its own name.
    pub fn probe_names(&self) -> HashMap<ProbeId, String> {
        let mut same: HashMap<Option<&OsStr>, Vec<&PathBuf>> = HashMap::new();
        for path in self.probes.values().map(|probe| &probe.path) {
            same.entry(path.file_stem()).or_default().push(path);
        }
        let name =
            |probe: &Probe| Probe::name_among(&probe.path, same[&probe.path.file_stem()].iter().copied());
        self.probes.iter().map(|(id, probe)| (*id, name(probe))).collect()
    }

    /// The words that ask for the classes of all open probes, each once, in order of first occurrence; a WordNet id has the word that
    /// an open probe or dataset has for it.
    pub fn classes(&self) -> Vec<String> {
        let ready = self.probes.values().filter_map(|probe| probe.status.ready());
        let mut known: Vec<Arc<[String]>> = Vec::new();
        let mut names = indexmap::IndexMap::new();
        for info in ready {
            if !known.contains(&info.classes) {
                for word in class_words(&info.classes) {
                    let known: &mut String = names.entry(synsets::id(&word).to_owned()).or_default();
                    if known.len() < word.len() {
                        *known = word; // that of an older probe may be the WordNet id alone
                    }
                }
                known.push(info.classes.clone());
            }
        }
        let datasets = self.datasets.values().filter_map(|dataset| dataset.status.ready());
        for word in datasets.flat_map(|dataset| &dataset.set.classes) {
            if let Some(known) = names.get_mut(synsets::id(word)).filter(|known| known.len() < word.len()) {
                known.clone_from(word);
            }
        }
        names.into_values().collect()
    }
}
