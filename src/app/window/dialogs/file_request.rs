//! What files are asked for, and what can be chosen: the same for the system's dialog, a typed path and the folder browser.

use std::path::{Path, PathBuf};

use crate::app::state::command::FilePrompt;
use crate::app::state::settings::Recent;
use crate::app::state::workspace::Entry;
use crate::model::data::image::ENDINGS;

/// What files are chosen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// An action of the menu.
    Prompt(FilePrompt),
    /// The file of an export; the suggested name.
    Export(String),
    /// Where to share to: a file with this suggested name, or a folder.
    Share(Option<String>),
    /// The new place of a missing file of a workspace.
    Relink(Entry),
}

/// Title and constraints of a dialog.
#[derive(Clone)]
pub struct Question {
    pub title: &'static str,
    pub kind: FileKind,
    /// File extensions that can be chosen; any if empty.
    pub endings: &'static [&'static str],
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// An existing folder.
    Folder,
    /// A folder that may be new.
    NewFolder,
    /// An existing file.
    File,
    /// Existing files.
    Files,
    /// A file to write, with the suggested name.
    Save(String),
}

impl Question {
    /// Whether a file of this name can be chosen.
    pub fn takes(&self, name: &str) -> bool {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or("");
        !matches!(self.kind, FileKind::Folder | FileKind::NewFolder)
            && (self.endings.is_empty()
                || self.endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
    }

    /// Whether an entry of a folder is listed: it can be chosen, or may lead to one that can; a hidden one only where a dot is `typed`.
    pub fn lists(&self, name: &str, is_folder: bool, typed: &str) -> bool {
        (is_folder || self.takes(name)) && (typed.starts_with('.') || !name.starts_with('.'))
    }
}

impl FileRequest {
    /// Whether the files lie on the machine that computes. Workspaces, orders and exports lie on this one.
    pub fn is_on_worker(&self) -> bool {
        let Self::Prompt(ask) = self else { return false };
        !matches!(
            ask,
            FilePrompt::OpenWorkspace
                | FilePrompt::SaveWorkspace
                | FilePrompt::SaveWorkspaceAs
                | FilePrompt::OpenOrder
                | FilePrompt::SaveOrder
        )
    }

    /// The dialog that asks for them.
    pub fn question(&self) -> Question {
        let (title, kind, endings): (_, _, &'static [&'static str]) = match self {
            Self::Export(name) => ("Export", FileKind::Save(name.clone()), &[]),
            Self::Share(Some(name)) => ("Share", FileKind::Save(name.clone()), &[]),
            Self::Share(None) => ("Folder for figures", FileKind::NewFolder, &[]),
            Self::Relink(Entry::Backbone(_) | Entry::Dataset(_) | Entry::Masks | Entry::Run(_)) => {
                ("Locate the folder", FileKind::Folder, &[])
            }
            Self::Relink(_) => ("Locate the file", FileKind::File, &[]),
            Self::Prompt(ask) => match ask {
                FilePrompt::BackboneFolder => ("Backbone folder", FileKind::Folder, &[]),
                FilePrompt::RunFolder => ("Folder of a run", FileKind::Folder, &[]),
                FilePrompt::TrainingData => ("Folder of a dataset", FileKind::Folder, &[]),
                FilePrompt::RunOutput => ("Folder for the run", FileKind::NewFolder, &[]),
                FilePrompt::CacheFolder => ("Folder for tokens", FileKind::NewFolder, &[]),
                FilePrompt::ImageFolder => ("Folder of images", FileKind::Folder, &[]),
                FilePrompt::MaskFolder => ("Folder of masks", FileKind::Folder, &[]),
                FilePrompt::DatasetFolder => ("Dataset", FileKind::Folder, &[]),
                FilePrompt::ProbeFiles => ("Probes", FileKind::Files, &["safetensors"]),
                FilePrompt::ImageFiles => ("Images", FileKind::Files, ENDINGS),
                FilePrompt::OpenWorkspace => ("Workspace", FileKind::File, &["ssmprobe"]),
                FilePrompt::SaveWorkspace | FilePrompt::SaveWorkspaceAs => {
                    ("Save workspace", FileKind::Save("workspace.ssmprobe".to_owned()), &[])
                }
                FilePrompt::OpenOrder => ("Order file", FileKind::File, &["npz", "npy", "csv"]),
                FilePrompt::SaveOrder => ("Save order", FileKind::Save("order.npz".to_owned()), &[]),
            },
        };
        Question { title, kind, endings }
    }

    /// Recent answers to this request.
    pub fn recent(&self, recent: &Recent) -> Vec<PathBuf> {
        let Self::Prompt(ask) = self else { return Vec::new() };
        let paths = match ask {
            FilePrompt::BackboneFolder => return recent.backbones.iter().map(PathBuf::from).collect(),
            FilePrompt::ProbeFiles => &recent.probes,
            FilePrompt::RunFolder => &recent.runs,
            FilePrompt::ImageFiles | FilePrompt::ImageFolder => &recent.images,
            FilePrompt::DatasetFolder | FilePrompt::TrainingData | FilePrompt::MaskFolder => &recent.datasets,
            FilePrompt::OpenWorkspace => &recent.workspaces,
            _ => return Vec::new(),
        };
        paths.iter().cloned().collect()
    }
}
