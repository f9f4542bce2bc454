//! What is open: backbones, probes, images, what each is and whether it fits the others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::images::Images;
use crate::app::jobs::evaluate::EvalSplit;
use crate::app::jobs::info::{BackboneInfo, Compatibility, ProbeInfo};
use crate::app::jobs::{BackboneId, BackboneOptions, DatasetId, ImageId, JobId, ProbeId};
use crate::app::user_error::UserError;
use crate::model::data::{ImageSource, Split};

/// Whether an entry can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Status<Info> {
    /// The worker is opening it.
    Opening(JobId),
    /// It is open.
    Ready(Arc<Info>),
    /// It is known, but not open.
    Closed,
    /// It could not be opened.
    Failed(UserError),
}

impl<Info> Status<Info> {
    /// What it is, once it is open.
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

    /// The job that was opening it is over without it: it is failed, or closed where there is no error.
    fn end_opening(&mut self, job: JobId, error: Option<&UserError>) {
        if matches!(self, Self::Opening(opening) if *opening == job) {
            *self = error.map_or(Self::Closed, |error| Self::Failed(error.clone()));
        }
    }

    /// What was open, or being opened, is closed now; whether it was.
    pub(super) fn close(&mut self) -> bool {
        let open = matches!(self, Self::Opening(_) | Self::Ready(_));
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
    /// Whether it can be used.
    pub status: Status<BackboneInfo>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
    /// How it reads images, where not as all others: one of several layers that are open beside each other.
    pub own: Option<BackboneOptions>,
}

/// A probe of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its file.
    pub path: PathBuf,
    /// Whether it can be used.
    pub status: Status<ProbeInfo>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
    /// Whether it becomes a column by itself once it is open.
    pub(super) show: bool,
}

/// An image of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Where it is.
    pub place: ImageSource,
    /// Which image of a dataset it is, where it is one.
    pub label: Option<Label>,
}

/// An image's place in a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its place among the images asked about.
    pub at: usize,
    /// Its class.
    pub class: u32,
}

/// A dataset of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its folder, or a table.
    pub path: PathBuf,
    /// Whether it can be asked about.
    pub status: Status<EvalSplit>,
    /// The split that was asked for; the held-out one where absent.
    pub split: Option<Split>,
    /// Its images in the library, in the order of the part.
    pub images: Vec<ImageId>,
    /// Whether it is looked at once it is open.
    pub(super) show: bool,
}

/// What a reading depends on beside the image: the probe's values, the weights whose tokens it reads,
/// and how those see images.
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
    /// Its layer and size.
    options: BackboneOptions,
}

/// What is open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Library {
    /// Backbones; several may be open.
    pub backbones: IndexMap<BackboneId, Backbone>,
    /// Probes.
    pub probes: IndexMap<ProbeId, Probe>,
    /// Images.
    pub images: Images,
    /// Datasets, whose images stand among the images.
    pub datasets: IndexMap<DatasetId, Dataset>,
}

/// The file name of a path, or all of it where there is none.
fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

impl Backbone {
    /// What the library calls it.
    pub fn name(&self) -> String {
        let name = match &self.status {
            Status::Ready(info) => &info.id,
            _ => &self.source,
        };
        self.own.map_or_else(|| name.clone(), |own| format!("{name}, {}", own.short()))
    }
}

impl Probe {
    /// What the library calls it.
    pub fn name(&self) -> String {
        Self::name_of(&self.path)
    }

    /// What the library calls the probe of a file.
    pub fn name_of(path: &Path) -> String {
        path.file_stem().map_or_else(|| name(path), |stem| stem.to_string_lossy().into_owned())
    }

    /// The run it is of, or the folder it lies in.
    pub fn home(&self) -> String {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let run = folder.parent().filter(|_| folder.ends_with("probes"));
        name(run.filter(|run| run.file_name().is_some()).unwrap_or(folder))
    }
}

impl Image {
    /// Of no dataset.
    pub fn new(place: impl Into<ImageSource>) -> Self {
        Self { place: place.into(), label: None }
    }

    /// What the library calls it.
    pub fn name(&self) -> String {
        self.place.short()
    }

    /// The folder it lies in: its class, in a folder of classes.
    pub fn folder(&self) -> String {
        self.place.path.parent().map(name).unwrap_or_default()
    }
}

impl Dataset {
    /// One that is not read yet.
    pub fn new(path: PathBuf, split: Option<Split>) -> Self {
        Self { path, status: Status::Closed, split, images: Vec::new(), show: false }
    }

    /// What the library calls it.
    pub fn name(&self) -> String {
        match &self.status {
            Status::Ready(part) => part.asked.dataset.clone(),
            _ => name(&self.path),
        }
    }
}

impl Library {
    /// Whether anything is being opened.
    pub(super) fn is_opening(&self) -> bool {
        self.backbones.values().any(|backbone| backbone.status.is_opening())
            || self.probes.values().any(|probe| probe.status.is_opening())
            || self.datasets.values().any(|dataset| dataset.status.is_opening())
    }

    /// Entries that `job` was opening are failed, or closed where there is no error.
    pub(super) fn end_opening(&mut self, job: JobId, error: Option<&UserError>) {
        self.backbones.values_mut().for_each(|backbone| backbone.status.end_opening(job, error));
        self.probes.values_mut().for_each(|probe| probe.status.end_opening(job, error));
        self.datasets.values_mut().for_each(|dataset| dataset.status.end_opening(job, error));
    }

    /// The open backbones.
    pub fn open_backbones(&self) -> impl Iterator<Item = (BackboneId, &Arc<BackboneInfo>)> {
        self.backbones.iter().filter_map(|(id, backbone)| Some((*id, backbone.status.ready()?)))
    }

    /// The open backbone whose tokens a probe reads: of those that fit the one it was trained on, else
    /// one it may have been, else the first.
    pub fn backbone_of(&self, probe: ProbeId) -> Option<(BackboneId, &Arc<BackboneInfo>)> {
        let info = self.probes.get(&probe)?.status.ready()?;
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

    /// What reads when `probe` does, as it is open now.
    pub fn reader(&self, probe: ProbeId) -> Option<Reader> {
        let file = self.probes.get(&probe)?.status.ready()?.fingerprint.clone();
        let (backbone, info) = self.backbone_of(probe)?;
        let (weights, options) = (info.fingerprint.clone(), info.options);
        Some(Reader { probe, file, backbone, weights, options })
    }

    /// What seeds random orders of an image: its index in the whole dataset; of an image of none, its
    /// place in the library.
    pub fn draw(&self, image: ImageId) -> u64 {
        let label = self.images.get(&image).and_then(|image| image.label);
        let part = |label: Label| self.datasets.get(&label.dataset)?.status.ready();
        let index = label.and_then(|label| part(label)?.samples.get(label.at).copied());
        index.or_else(|| self.images.get_index_of(&image)).unwrap_or(0) as u64
    }

    /// The class of an image, as its dataset names it.
    pub fn true_class(&self, image: &Image) -> Option<&str> {
        let label = image.label?;
        let part = self.datasets.get(&label.dataset)?.status.ready()?;
        part.asked.classes.get(label.class as usize).map(String::as_str)
    }

    /// The first backbone that is open.
    pub fn backbone(&self) -> Option<(BackboneId, &Arc<BackboneInfo>)> {
        self.backbones.iter().find_map(|(id, backbone)| Some((*id, backbone.status.ready()?)))
    }

    /// Whether a probe fits an open backbone; absent until there is one, and the probe is open.
    pub fn fit(&self, probe: ProbeId) -> Option<Compatibility> {
        let info = self.probes.get(&probe)?.status.ready()?;
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

    /// Where a probe reads other tokens than it was trained on: how they differ, and how images would
    /// have to be read for it.
    pub fn token_mismatch(&self, probe: ProbeId) -> Option<(String, BackboneOptions)> {
        let info = self.probes.get(&probe)?.status.ready()?;
        let suits = || self.open_backbones().map(|(_, backbone)| backbone).find(|one| info.suits(one));
        let backbone = self.backbone_of(probe).map(|(_, backbone)| backbone).or_else(suits)?;
        Some((info.token_mismatch(backbone)?, info.wants()))
    }

    /// What a probe is called; with its run or folder where another one has the same name.
    pub fn probe_name(&self, id: ProbeId) -> String {
        let Some(probe) = self.probes.get(&id) else { return "(closed probe)".to_owned() };
        let name = probe.name();
        let same = |(other, probe): (&ProbeId, &Probe)| *other != id && probe.name() == name;
        match self.probes.iter().any(same) {
            true => format!("{name} · {}", probe.home()),
            false => name,
        }
    }

    /// Names of the classes of the open probes, each once, in the order of the first that has it.
    pub fn classes(&self) -> Vec<String> {
        let ready = self.probes.values().filter_map(|probe| probe.status.ready());
        let mut known: Vec<Arc<[String]>> = Vec::new();
        let mut names = indexmap::IndexSet::new();
        for info in ready {
            if !known.contains(&info.classes) {
                names.extend(info.classes.iter().cloned());
                known.push(info.classes.clone());
            }
        }
        names.into_iter().collect()
    }
}
