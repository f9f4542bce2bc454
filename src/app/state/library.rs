//! What is open: backbones, probes, images, what each is and whether it fits the others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;

use super::super::facts::{BackboneFacts, Fit, ProbeFacts};
use super::super::fault::Fault;
use super::super::job::{BackboneId, ImageId, JobId, ProbeId};

/// Whether an entry can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Status<Facts> {
    /// The worker is opening it.
    Opening(JobId),
    /// It is open.
    Ready(Arc<Facts>),
    /// It is known, but not open.
    Closed,
    /// It could not be opened.
    Failed(Fault),
}

impl<Facts> Status<Facts> {
    /// What it is, once it is open.
    pub fn ready(&self) -> Option<&Arc<Facts>> {
        match self {
            Self::Ready(facts) => Some(facts),
            _ => None,
        }
    }
}

/// A backbone of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Backbone {
    /// A folder or an id of the Hub.
    pub source: String,
    /// Whether it can be used.
    pub status: Status<BackboneFacts>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
}

/// A probe of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its file.
    pub path: PathBuf,
    /// Whether it can be used.
    pub status: Status<ProbeFacts>,
    /// The fingerprint a workspace file expects.
    pub expected: Option<String>,
    /// Whether it becomes a column by itself once it is open.
    pub(super) show: bool,
}

/// An image of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Its file.
    pub path: PathBuf,
}

/// What is open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Library {
    /// Backbones; at most one is open.
    pub backbones: IndexMap<BackboneId, Backbone>,
    /// Probes.
    pub probes: IndexMap<ProbeId, Probe>,
    /// Images.
    pub images: IndexMap<ImageId, Image>,
}

/// The file name of a path, or all of it where there is none.
fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

impl Backbone {
    /// What the library calls it.
    pub fn name(&self) -> String {
        match &self.status {
            Status::Ready(facts) => facts.id.clone(),
            _ => self.source.clone(),
        }
    }
}

impl Probe {
    /// What the library calls it.
    pub fn name(&self) -> String {
        self.path.file_stem().map_or_else(|| name(&self.path), |stem| stem.to_string_lossy().into_owned())
    }
}

impl Image {
    /// What the library calls it.
    pub fn name(&self) -> String {
        name(&self.path)
    }

    /// The folder it lies in: its class, in a folder of classes.
    pub fn folder(&self) -> String {
        self.path.parent().map(name).unwrap_or_default()
    }
}

impl Library {
    /// The backbone that is open.
    pub fn backbone(&self) -> Option<(BackboneId, &Arc<BackboneFacts>)> {
        self.backbones.iter().find_map(|(id, backbone)| Some((*id, backbone.status.ready()?)))
    }

    /// Whether a probe fits the open backbone; absent until both are open.
    pub fn fit(&self, probe: ProbeId) -> Option<Fit> {
        let facts = self.probes.get(&probe)?.status.ready()?;
        Some(facts.fits(self.backbone()?.1))
    }

    /// Images whose name or folder contains `text` in any case, in the order of the library.
    pub fn images_with(&self, text: &str) -> Vec<ImageId> {
        let text = text.trim().to_lowercase();
        let holds = |image: &Image| {
            text.is_empty()
                || image.name().to_lowercase().contains(&text)
                || image.folder().to_lowercase().contains(&text)
        };
        self.images.iter().filter(|(_, image)| holds(image)).map(|(id, _)| *id).collect()
    }

    /// Names of the classes of the open probes, each once, in the order of the first that has it.
    pub fn classes(&self) -> Vec<String> {
        let ready = self.probes.values().filter_map(|probe| probe.status.ready());
        let mut known: Vec<Arc<[String]>> = Vec::new();
        let mut names = indexmap::IndexSet::new();
        for facts in ready {
            if !known.contains(&facts.classes) {
                names.extend(facts.classes.iter().cloned());
                known.push(facts.classes.clone());
            }
        }
        names.into_iter().collect()
    }
}
