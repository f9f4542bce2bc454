//! What becomes of files that were chosen, and workspaces to and from files.

use std::path::{Path, PathBuf};

use super::choose::For;
use super::locate::Locate;
use super::{Desk, Order};
use crate::app::command::{Ask, Command};
use crate::app::state::{State, Weight};
use crate::app::training::Draft;
use crate::app::workspace::{self, Workspace};

impl Desk {
    /// What becomes of files that were chosen.
    pub(super) fn chosen(&mut self, what: For, paths: Vec<PathBuf>, state: &State, orders: &mut Vec<Order>) {
        let first = paths.first().cloned().unwrap_or_default();
        let draft = |draft: Draft| Command::SetDraft(Box::new(draft));
        let filled = state.training.draft.clone();
        orders.push(Order::Command(match what {
            For::Export(_) => {
                if let Some(export) = &mut self.export {
                    export.put(&first);
                }
                return;
            }
            For::Locate(entry) => {
                if let Some(locate) = &mut self.locate {
                    locate.found(entry, &first);
                }
                return;
            }
            For::Ask(Ask::BackboneFolder) => Command::OpenBackbone(first.display().to_string()),
            For::Ask(Ask::RunFolder) => Command::OpenRun(first),
            // A folder can be typed, where it cannot be chosen.
            For::Ask(Ask::ProbeFiles) if first.is_dir() => Command::OpenRun(first),
            For::Ask(Ask::ProbeFiles) => Command::OpenProbes(paths),
            For::Ask(Ask::ImageFiles | Ask::ImageFolder) => Command::OpenImages(paths),
            For::Ask(Ask::DatasetFolder) => draft(Draft { data: Some(first), ..filled }),
            For::Ask(Ask::RunOutput) => draft(Draft { out: Some(first), ..filled }),
            For::Ask(Ask::CacheFolder) => draft(Draft { cache: Some(first), ..filled }),
            For::Ask(Ask::OpenDatasetFolder) => Command::OpenDataset(first, None),
            For::Ask(Ask::OpenWorkspace) => return self.open(&first, orders),
            For::Ask(Ask::SaveWorkspace | Ask::SaveWorkspaceAs) => return self.save(first, state, orders),
            For::Ask(Ask::HubId | Ask::Palette | Ask::Arrange | Ask::CopyLog | Ask::Paste | Ask::Quit) => {
                return;
            }
        }));
    }

    /// Restores a workspace: its layout here, the rest by whom the desk tells. Asks for missing files
    /// first.
    pub fn open(&mut self, path: &Path, orders: &mut Vec<Order>) {
        match Workspace::load(path) {
            Ok(workspace) => match Locate::new(path, &workspace) {
                Some(locate) => self.locate = Some(locate),
                None => self.restore(path, workspace, orders),
            },
            Err(error) => orders.push(Order::Note(Weight::Error, error.to_string())),
        }
    }

    /// Takes the layout of a workspace and passes on the rest of it.
    pub(super) fn restore(&mut self, path: &Path, workspace: Workspace, orders: &mut Vec<Order>) {
        self.layout.put(&workspace.layout);
        self.workspace = Some(path.to_owned());
        orders.push(Order::Restore(Box::new(workspace)));
    }

    pub(super) fn save(&mut self, path: PathBuf, state: &State, orders: &mut Vec<Order>) {
        let whole = path.with_extension(workspace::EXTENSION);
        if path.extension().is_none() && whole.exists() {
            // The dialog asked about the name as it was typed.
            let text =
                format!("{} exists already: choose it by its whole name to replace it", whole.display());
            orders.push(Order::Note(Weight::Error, text));
            return;
        }
        let path = if path.extension().is_none() { whole } else { path };
        match state.workspace(self.layout.value()).save(&path) {
            Ok(()) => {
                orders.push(Order::Note(Weight::Info, format!("Wrote {}", path.display())));
                self.workspace = Some(path);
            }
            Err(error) => orders.push(Order::Note(Weight::Error, error.to_string())),
        }
    }
}
