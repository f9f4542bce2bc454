//! Workspace files: everything that is open, how it is laid out and what is selected, as JSON.
//!
//! `{"ssmprobe_workspace": 1, "backbones": [...], "probes": [...], "columns": [...], "views": {...}, "layout": ...}`
//!
//! Backbones and probes stand with their SHA-256, so that a changed file is told. Paths below the
//! folder of the workspace, and beside it, are kept relative to it: a project's folder can move, or be
//! another's. The layout belongs to the window and is kept as it comes.

mod error;

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::error::WorkspaceError;
use super::connection::Host;
use super::{Finding, Selection, Views, relative};
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{BackboneId, BackboneOptions, ColumnId, DatasetId, ExplainSettings, ImageId, ProbeId};
use crate::model::data::ImageSource;
use crate::model::explain::intervention::Intervention;
use crate::model::io::atomic_file;

/// The version of the file format.
const FORMAT: u64 = 1;
/// No workspace file is larger.
const FILE_LIMIT: u64 = 1 << 29;
/// Entries are counted up from the largest: there has to be room.
const LARGEST_ID: u64 = 1 << 53;

/// Everything a workspace file holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workspace {
    /// Version of the format; the key also says what the file is.
    #[serde(rename = "ssmprobe_workspace")]
    pub format: u64,
    /// Backbones.
    #[serde(default)]
    pub backbones: Vec<SavedBackbone>,
    /// Probes.
    #[serde(default)]
    pub probes: Vec<SavedProbe>,
    /// Images.
    #[serde(default)]
    pub images: Vec<SavedImage>,
    /// Datasets.
    #[serde(default)]
    pub datasets: Vec<SavedDataset>,
    /// Stars on images. What an earlier version noted on one is a finding once it is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<SavedNote>,
    /// Findings, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The dataset that is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetId>,
    /// The comparison.
    #[serde(default)]
    pub columns: Vec<SavedColumn>,
    /// What is pointed at.
    #[serde(default)]
    pub selection: Selection,
    /// How figures are drawn.
    #[serde(default)]
    pub views: Views,
    /// What explanations depend on.
    #[serde(default, rename = "look")]
    pub explain: ExplainSettings,
    /// Folder of masks, or of a dataset's annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masks: Option<PathBuf>,
    /// How backbones read images.
    #[serde(default)]
    pub backbone_options: BackboneOptions,
    /// Folders of runs whose curves are open.
    #[serde(default)]
    pub runs: Vec<PathBuf>,
    /// What is filled in for the next training.
    #[serde(default)]
    pub training: TrainSettings,
    /// The window's own.
    #[serde(default)]
    pub layout: Value,
    /// Who computes, and whose paths these are, where that is not this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The workspace file a session is of, where it has one; nothing in a workspace that was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<PathBuf>,
    /// Whether that file lacks something of the session.
    #[serde(default, skip_serializing_if = "is_no")]
    pub unsaved: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_no(unsaved: &bool) -> bool {
    !unsaved
}

/// A backbone of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedBackbone {
    /// Its name among columns and layout.
    pub id: BackboneId,
    /// A folder or an id of the Hub.
    pub source: String,
    /// SHA-256 of its weights, where it was open.
    pub fingerprint: Option<String>,
    /// How it reads images, where not as all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BackboneOptions>,
    /// Whether it was open.
    pub open: bool,
}

/// A probe of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedProbe {
    /// Its name among columns and layout.
    pub id: ProbeId,
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of it, where it was open.
    pub fingerprint: Option<String>,
}

/// An image of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedImage {
    /// Its name among columns and layout.
    pub id: ImageId,
    /// Where it is.
    #[serde(flatten)]
    pub place: ImageSource,
}

/// A dataset of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDataset {
    /// Its name among the images.
    pub id: DatasetId,
    /// Its folder, or a table.
    pub path: PathBuf,
    /// The split that is looked at, by its name; the held-out one where absent.
    #[serde(default)]
    pub split: Option<String>,
}

/// A star of a workspace, and the line that an earlier version noted on the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedNote {
    /// Where its image is.
    #[serde(flatten)]
    pub place: ImageSource,
    /// Whether it has a star.
    #[serde(default)]
    pub starred: bool,
    /// One line; none once it is read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A column of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedColumn {
    /// Its name in the layout.
    pub id: ColumnId,
    /// The probe.
    pub probe: ProbeId,
    /// The image, if not the current one.
    pub image: Option<ImageId>,
    /// What is changed.
    pub change: Intervention,
    /// Whether it stands in the comparison, or is only looked through.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub compared: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_yes(compared: &bool) -> bool {
    *compared
}

/// A file of a workspace that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which entry.
    pub entry: Entry,
    /// Where it was.
    pub path: PathBuf,
}

/// An entry of a workspace that is a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A backbone's folder.
    Backbone(BackboneId),
    /// A probe's file.
    Probe(ProbeId),
    /// An image.
    Image(ImageId),
    /// A dataset's folder.
    Dataset(DatasetId),
    /// The folder of masks.
    Masks,
    /// The folder of the run at this place of the list.
    Run(usize),
}

impl Workspace {
    /// Reads the file `path`. Relative paths in it start at its folder.
    pub fn load(path: &Path) -> Result<Self, WorkspaceError> {
        let bytes = atomic_file::read(path, FILE_LIMIT)
            .map_err(|source| WorkspaceError::Read { path: path.to_owned(), source })?;
        let json =
            |error: serde_json::Error| WorkspaceError::Json { path: path.to_owned(), why: error.to_string() };
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            let why = "expected a JSON object".into();
            return Err(WorkspaceError::Json { path: path.to_owned(), why });
        }
        // The version first: a later one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            ssmprobe_workspace: u64,
        }
        let Version { ssmprobe_workspace: found } = serde_json::from_slice(&bytes).map_err(json)?;
        if found != FORMAT {
            return Err(WorkspaceError::Format { path: path.to_owned(), found });
        }
        let mut workspace: Self = serde_json::from_slice(&bytes).map_err(json)?;
        if let Some(id) = workspace.ids().find(|id| *id > LARGEST_ID) {
            let why = format!("it holds an `id` of {id}, and the largest is {LARGEST_ID}");
            return Err(WorkspaceError::Json { path: path.to_owned(), why });
        }
        for (list, ids) in workspace.lists() {
            let mut seen = HashSet::new();
            if let Some(id) = ids.into_iter().find(|id| !seen.insert(*id)) {
                let why = format!("two of its `{list}` have the `id` {id}; each needs its own");
                return Err(WorkspaceError::Json { path: path.to_owned(), why });
            }
        }
        for SavedNote { place, text, .. } in workspace.notes.iter().filter(|note| !note.text.is_empty()) {
            workspace.findings.push(Finding { image: place.clone(), note: text.clone(), view: None });
        }
        workspace.notes.retain(|note| note.starred);
        workspace.notes.iter_mut().for_each(|note| note.text.clear());
        if workspace.host.is_some() {
            return Ok(workspace); // paths of another machine
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let from_folder = |path: &mut PathBuf| {
            if path.is_relative() {
                *path = relative::joined(&folder, path);
            }
        };
        workspace.each_path(&mut |_, path| from_folder(path));
        workspace.each_note_path(&mut |path| from_folder(path));
        workspace.each_form_path(&from_folder);
        Ok(workspace)
    }

    /// The numbers of all its entries.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.lists().into_iter().flat_map(|(_, ids)| ids)
    }

    /// The same, list by list.
    fn lists(&self) -> [(&'static str, Vec<u64>); 5] {
        [
            ("backbones", self.backbones.iter().map(|backbone| backbone.id.0).collect()),
            ("probes", self.probes.iter().map(|probe| probe.id.0).collect()),
            ("images", self.images.iter().map(|image| image.id.0).collect()),
            ("columns", self.columns.iter().map(|column| column.id.0).collect()),
            ("datasets", self.datasets.iter().map(|dataset| dataset.id.0).collect()),
        ]
    }

    /// Writes the file `path`, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), WorkspaceError> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = absolute(path).parent().map(Path::to_owned).unwrap_or_default();
        let mut stored = Self { format: FORMAT, ..self.clone() };
        if self.host.is_none() {
            stored.each_path(&mut |_, path| *path = relative::to(&folder, &absolute(path)));
            stored.each_note_path(&mut |path| *path = relative::to(&folder, &absolute(path)));
            stored.each_form_path(&|path| {
                let from = relative::to(&folder, &absolute(path));
                let below = from.is_relative() && !from.starts_with("..");
                *path = if below { Path::new(".").join(from) } else { from };
            });
        }
        atomic_file::write_with(path, |file| {
            serde_json::to_writer_pretty(&mut *file, &stored)
                .map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
            file.write_all(b"\n")
        })
        .map_err(|source| WorkspaceError::Write { path: path.to_owned(), source })
    }

    /// Files and folders of its entries that are not where they were; of those on another machine nobody knows here.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.host.is_some() {
            return missing;
        }
        self.clone().each_path(&mut |entry, path| {
            if !path.exists() {
                missing.push(Missing { entry, path: path.clone() });
            }
        });
        missing
    }

    /// One missing entry is here now. Others that are missing from the same folder, and lie beside
    /// it under their own names, are found with it; returns how many were found.
    pub fn locate(&mut self, entry: Entry, now: &Path) -> usize {
        let missing = self.missing();
        let Some(first) = missing.iter().find(|missing| missing.entry == entry) else { return 0 };
        let beside = |path: &Path| {
            let there = now.parent()?.join(path.strip_prefix(first.path.parent()?).ok()?);
            Some(there).filter(|there| there.exists())
        };
        let others = missing.iter().filter(|missing| missing.entry != entry);
        let found = others.filter_map(|missing| Some((missing.entry, beside(&missing.path)?)));
        let found: HashMap<Entry, PathBuf> = found.chain([(entry, now.to_owned())]).collect();
        let mut moved = Vec::new();
        self.each_path(&mut |entry, path| {
            if let Some(there) = found.get(&entry) {
                moved.push((std::mem::replace(path, there.clone()), there));
            }
        });
        // Stars and findings go with their image, or with the dataset it is of.
        self.each_note_path(&mut |place| {
            let rest = moved.iter().find_map(|(was, there)| Some((there, place.strip_prefix(was).ok()?)));
            if let Some((there, rest)) = rest {
                *place = if rest.as_os_str().is_empty() { (*there).clone() } else { there.join(rest) };
            }
        });
        found.len()
    }

    /// Every path of stars and findings, which need not be entries.
    fn each_note_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        self.notes.iter_mut().for_each(|note| change(&mut note.place.path));
        self.findings.iter_mut().for_each(|finding| finding.each_path(&mut *change));
    }

    /// Every path of its entries. A backbone's id on the Hub is none.
    fn each_path(&mut self, change: &mut dyn FnMut(Entry, &mut PathBuf)) {
        for backbone in self.backbones.iter_mut().filter(|backbone| is_path(&backbone.source)) {
            let mut path = PathBuf::from(&backbone.source);
            change(Entry::Backbone(backbone.id), &mut path);
            // `./` tells a folder beside the workspace from an id of the Hub.
            let bare = path.is_relative() && !path.starts_with(".") && !path.starts_with("..");
            backbone.source = if bare { Path::new(".").join(path) } else { path }.display().to_string();
        }
        self.probes.iter_mut().for_each(|probe| change(Entry::Probe(probe.id), &mut probe.path));
        self.images.iter_mut().for_each(|image| change(Entry::Image(image.id), &mut image.place.path));
        for dataset in &mut self.datasets {
            change(Entry::Dataset(dataset.id), &mut dataset.path);
        }
        self.masks.iter_mut().for_each(|masks| change(Entry::Masks, masks));
        self.runs.iter_mut().enumerate().for_each(|(place, run)| change(Entry::Run(place), run));
    }

    /// Every path of the training's form that is absolute, or begins with `./` or `../` for the folder of
    /// the workspace; others stay as they were typed.
    fn each_form_path(&mut self, change: &dyn Fn(&mut PathBuf)) {
        let TrainSettings { backbone, data, out, tokens, .. } = &mut self.training;
        let is_workspace_path =
            |path: &Path| path.is_absolute() || path.starts_with(".") || path.starts_with("..");
        [data, out, &mut tokens.cache]
            .into_iter()
            .flatten()
            .filter(|path| is_workspace_path(path))
            .for_each(change);
        if is_workspace_path(Path::new(backbone)) {
            let mut path = PathBuf::from(&*backbone);
            change(&mut path);
            *backbone = path.display().to_string();
        }
    }
}

/// Whether a backbone's source is a path and no id of the Hub: ids look like relative paths.
fn is_path(source: &str) -> bool {
    let path = Path::new(source);
    path.is_absolute() || path.starts_with(".") || path.starts_with("..") || path.is_dir()
}
