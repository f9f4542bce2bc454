//! Workspace files: everything that is open, how it is laid out and what is selected, as JSON.
//!
//! `{"ssmprobe_workspace": 1, "backbones": [...], "probes": [...], "columns": [...], "views": {...}, "layout": ...}`
//!
//! Backbones and probes are saved with their SHA-256, so that a changed file is noticed. Paths below the folder of the
//! workspace, and beside it, are relative to it: a project folder can be moved, or given to others. The layout is the
//! window's own JSON and is stored unchanged.

mod error;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
/// Largest workspace file, in bytes.
pub const FILE_LIMIT: u64 = 1 << 29;
/// Largest id in a file: new ids count up from it, which must not overflow.
const MAX_ID: u64 = 1 << 53;

/// Everything a workspace file holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workspace {
    /// Version of the format; the key also says what the file is.
    #[serde(rename = "ssmprobe_workspace")]
    pub format: u64,
    /// Backbones.
    pub backbones: Vec<SavedBackbone>,
    /// Probes.
    pub probes: Vec<SavedProbe>,
    /// Images.
    pub images: Vec<SavedImage>,
    /// Datasets.
    pub datasets: Vec<SavedDataset>,
    /// Starred images. Notes of an earlier version become findings when read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<SavedNote>,
    /// Findings, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The dataset in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetId>,
    /// The columns.
    pub columns: Vec<SavedColumn>,
    /// The user's selection.
    pub selection: Selection,
    /// How figures are drawn.
    pub views: Views,
    /// The settings of explanations.
    #[serde(rename = "look")]
    pub explain: ExplainSettings,
    /// Folder of masks, or of a dataset's annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masks: Option<PathBuf>,
    /// The shared options of backbones.
    pub backbone_options: BackboneOptions,
    /// Folders of runs whose curves are open.
    pub runs: Vec<PathBuf>,
    /// The form of the next training.
    pub training: TrainSettings,
    /// The layout of the panes, in the window's own format.
    pub layout: Value,
    /// The worker's host, whose paths these are, if it is not this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// In a session file: the workspace file that the session belongs to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<PathBuf>,
    /// In a session file: whether it has changes that the workspace file lacks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsaved: bool,
    /// In a session file: SHA-256 of the workspace file as this window last read or wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_fingerprint: Option<String>,
    /// Fields that this version does not know, kept as found.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A backbone of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedBackbone {
    /// Its id, to which columns and layout refer.
    pub id: BackboneId,
    /// A folder or an id of the Hub.
    pub source: String,
    /// SHA-256 of its weights, if it was open.
    pub fingerprint: Option<String>,
    /// Its own options, if it does not follow the shared ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BackboneOptions>,
    /// Whether it was open.
    pub open: bool,
}

/// A probe of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedProbe {
    /// Its id, to which columns and layout refer.
    pub id: ProbeId,
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of the file, if it was open.
    pub fingerprint: Option<String>,
}

/// An image of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedImage {
    /// Its id, to which columns and layout refer.
    pub id: ImageId,
    /// Its file, or its row in a table.
    #[serde(flatten)]
    pub source: ImageSource,
}

/// A dataset of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDataset {
    /// Its id.
    pub id: DatasetId,
    /// Its folder, or a table.
    pub path: PathBuf,
    /// The name of the split in use; the held-out one if absent.
    #[serde(default)]
    pub split: Option<String>,
}

/// A star of a workspace, with the one-line note of an earlier version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedNote {
    /// The image.
    #[serde(flatten)]
    pub source: ImageSource,
    /// Whether it has a star.
    #[serde(default)]
    pub starred: bool,
    /// The note of an earlier version; always empty after reading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A column of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedColumn {
    /// Its id, to which the layout refers.
    pub id: ColumnId,
    /// The probe.
    pub probe: ProbeId,
    /// The image, if not the current one.
    pub image: Option<ImageId>,
    /// The intervention on its reading.
    pub change: Intervention,
    /// Whether it is part of the comparison, or temporary.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub compared: bool,
}

fn yes() -> bool {
    true
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
    /// The folder of the run at this index of the list.
    Run(usize),
}

impl Workspace {
    /// Reads the file `path`, and makes relative paths absolute from its folder. An error if it cannot be read, is no valid
    /// workspace, or has another version of the format.
    pub fn load(path: &Path) -> Result<Self, WorkspaceError> {
        let bytes = atomic_file::read(path, FILE_LIMIT)
            .map_err(|source| WorkspaceError::Read { path: path.to_owned(), source })?;
        let invalid = |why: String| WorkspaceError::Json { path: path.to_owned(), why };
        let json = |error: serde_json::Error| invalid(error.to_string());
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(invalid("expected a JSON object".into()));
        }
        // The version is checked first, as a later one may have other fields.
        #[derive(Deserialize)]
        struct Version {
            ssmprobe_workspace: u64,
        }
        let Version { ssmprobe_workspace: found } = serde_json::from_slice(&bytes).map_err(json)?;
        if found != FORMAT {
            return Err(WorkspaceError::Format { path: path.to_owned(), found });
        }
        let mut workspace: Self = serde_json::from_slice(&bytes).map_err(json)?;
        if let Some(id) = workspace.ids().find(|id| *id > MAX_ID) {
            return Err(invalid(format!("it has the `id` {id}, and the largest allowed is {MAX_ID}")));
        }
        for (list, ids) in workspace.lists() {
            let mut seen = HashSet::new();
            if let Some(id) = ids.into_iter().find(|id| !seen.insert(*id)) {
                let why = format!("two entries of `{list}` have the `id` {id}; each needs its own");
                return Err(invalid(why));
            }
        }
        for SavedNote { source, text, .. } in workspace.notes.iter().filter(|note| !note.text.is_empty()) {
            workspace.findings.push(Finding { image: source.clone(), note: text.clone(), view: None });
        }
        workspace.notes.retain(|note| note.starred);
        workspace.notes.iter_mut().for_each(|note| note.text.clear());
        if workspace.host.is_some() {
            return Ok(workspace); // the paths are of another machine
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

    /// The ids of all its entries.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.lists().into_iter().flat_map(|(_, ids)| ids)
    }

    /// The ids of every list, with the list's name.
    fn lists(&self) -> [(&'static str, Vec<u64>); 5] {
        [
            ("backbones", self.backbones.iter().map(|backbone| backbone.id.0).collect()),
            ("probes", self.probes.iter().map(|probe| probe.id.0).collect()),
            ("images", self.images.iter().map(|image| image.id.0).collect()),
            ("columns", self.columns.iter().map(|column| column.id.0).collect()),
            ("datasets", self.datasets.iter().map(|dataset| dataset.id.0).collect()),
        ]
    }

    /// Writes the file `path` atomically; after an error the earlier file is unchanged.
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
            serde_json::to_writer_pretty(&mut *file, &stored)?;
            file.write_all(b"\n")
        })
        .map_err(|source| WorkspaceError::unwritten(path, source, &mut stored))
    }

    /// The files and folders of its entries that do not exist; empty if they are on another machine.
    pub fn missing(&self) -> Vec<(Entry, PathBuf)> {
        let mut missing = Vec::new();
        if self.host.is_some() {
            return missing;
        }
        self.clone().each_path(&mut |entry, path| {
            if !path.exists() {
                missing.push((entry, path.clone()));
            }
        });
        missing
    }

    /// Whether any of its entries exists, perhaps on another machine or the Hub; the search ends at the first.
    pub fn any_entry_exists(&self) -> bool {
        let mut there = self.host.is_some() || self.backbones.iter().any(|one| !is_path(&one.source));
        self.clone().each_path(&mut |_, path| there = there || path.exists());
        there
    }

    /// Sets the new path of a missing entry. Others that are missing are found along with it if they lie at the same relative
    /// path below the highest folder that has moved with it: a probe's run, and all of its probes. Returns the number of
    /// entries found.
    pub fn relink(&mut self, entry: Entry, now: &Path) -> usize {
        let missing = self.missing();
        let Some((_, first)) = missing.iter().find(|(other, _)| *other == entry) else { return 0 };
        let (was, is) = (first.components().rev().skip(1), now.components().rev().skip(1));
        let same = was.zip(is).take_while(|(was, is)| was == is).count();
        let [from, to] = [first.as_path(), now].map(|path| path.ancestors().nth(same + 1));
        let beside =
            |path: &Path| Some(to?.join(path.strip_prefix(from?).ok()?)).filter(|there| there.exists());
        let others = missing.iter().filter(|(other, _)| *other != entry);
        let found = others.filter_map(|(other, path)| Some((*other, beside(path)?)));
        let found: HashMap<Entry, PathBuf> = found.chain([(entry, now.to_owned())]).collect();
        let mut moved = Vec::new();
        self.each_path(&mut |entry, path| {
            if let Some(there) = found.get(&entry) {
                moved.push((std::mem::replace(path, there.clone()), there));
            }
        });
        // Stars and findings move with their image, or with its dataset.
        self.each_note_path(&mut |place| {
            let rest = moved.iter().find_map(|(was, there)| Some((there, place.strip_prefix(was).ok()?)));
            if let Some((there, rest)) = rest {
                *place = if rest.as_os_str().is_empty() { (*there).clone() } else { there.join(rest) };
            }
        });
        found.len()
    }

    /// Applies `change` to every path of stars and findings, which need not be entries.
    fn each_note_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        self.notes.iter_mut().for_each(|note| change(&mut note.source.path));
        self.findings.iter_mut().for_each(|finding| finding.each_path(&mut *change));
    }

    /// Applies `change` to every path of its entries; ids of the Hub are not paths.
    fn each_path(&mut self, change: &mut dyn FnMut(Entry, &mut PathBuf)) {
        for backbone in self.backbones.iter_mut().filter(|backbone| is_path(&backbone.source)) {
            let mut path = PathBuf::from(&backbone.source);
            change(Entry::Backbone(backbone.id), &mut path);
            // `./` distinguishes a folder beside the workspace from an id of the Hub.
            let path = if is_explicit(&path) { path } else { Path::new(".").join(path) };
            backbone.source = path.display().to_string();
        }
        self.probes.iter_mut().for_each(|probe| change(Entry::Probe(probe.id), &mut probe.path));
        self.images.iter_mut().for_each(|image| change(Entry::Image(image.id), &mut image.source.path));
        for dataset in &mut self.datasets {
            change(Entry::Dataset(dataset.id), &mut dataset.path);
        }
        self.masks.iter_mut().for_each(|masks| change(Entry::Masks, masks));
        self.runs.iter_mut().enumerate().for_each(|(place, run)| change(Entry::Run(place), run));
    }

    /// Applies `change` to every path of the training form that is absolute, or begins with `./` or `../` and is relative to
    /// the workspace; others stay as they were typed.
    fn each_form_path(&mut self, change: &dyn Fn(&mut PathBuf)) {
        let TrainSettings { backbone, data, out, tokens, .. } = &mut self.training;
        let paths = [data, out, &mut tokens.cache].into_iter().flatten();
        paths.filter(|path| is_explicit(path)).for_each(change);
        if is_explicit(Path::new(backbone)) {
            let mut path = PathBuf::from(&*backbone);
            change(&mut path);
            *backbone = path.display().to_string();
        }
    }
}

/// Whether a backbone's source is a path rather than an id of the Hub, which looks like a relative path.
fn is_path(source: &str) -> bool {
    let path = Path::new(source);
    is_explicit(path) || path.is_dir()
}

/// Whether a path is absolute, or begins with `./` or `../`.
fn is_explicit(path: &Path) -> bool {
    path.is_absolute() || path.starts_with(".") || path.starts_with("..")
}
