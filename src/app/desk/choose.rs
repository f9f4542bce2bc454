//! Asking for files with the system's own dialog, on a thread of its own: the window goes on.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

use eframe::egui;
use rfd::{AsyncFileDialog, FileHandle};

use crate::app::command::Ask;
use crate::app::workspace::Entry;
use crate::model::image::ENDINGS;

/// What files are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// An action of the menu.
    Ask(Ask),
    /// Where an export goes; the name suggested.
    Export(String),
    /// Where a missing file of a workspace is now.
    Locate(Entry),
}

/// The dialog that is open.
#[derive(Default)]
pub struct Chooser(Option<(For, Receiver<Vec<PathBuf>>)>);

impl Chooser {
    /// Opens a dialog; at most one is open at a time.
    ///
    /// # Errors
    /// If the system gives no thread to wait for it.
    pub fn ask(&mut self, ctx: &egui::Context, what: For) -> Result<(), String> {
        if self.0.is_some() {
            return Err("A file dialog is open already".to_owned());
        }
        let (answer, answered) = sync_channel(1);
        let ctx = ctx.clone();
        let wanted = what.clone();
        let wait = move || {
            let paths = pollster::block_on(files(&wanted));
            // The window may be gone; then nobody wants the answer.
            answer.send(paths).ok();
            ctx.request_repaint();
        };
        let thread = Builder::new().name("file dialog".into()).spawn(wait);
        thread.map_err(|error| format!("Cannot open a file dialog: {error}"))?;
        self.0 = Some((what, answered));
        Ok(())
    }

    /// What was chosen, once it was; nothing was where the list is empty.
    pub fn answer(&mut self) -> Option<(For, Vec<PathBuf>)> {
        let (_, answered) = self.0.as_ref()?;
        match answered.try_recv() {
            Err(TryRecvError::Empty) => None,
            Ok(paths) => self.0.take().map(|(what, _)| (what, paths)),
            Err(TryRecvError::Disconnected) => self.0.take().map(|(what, _)| (what, Vec::new())),
        }
    }
}

async fn files(what: &For) -> Vec<PathBuf> {
    let dialog = AsyncFileDialog::new();
    let one = |file: Option<FileHandle>| file.into_iter().map(|file| file.path().to_owned()).collect();
    let many = |files: Option<Vec<FileHandle>>| {
        files.unwrap_or_default().iter().map(|file| file.path().to_owned()).collect()
    };
    match what {
        For::Export(name) => one(dialog.set_title("Export").set_file_name(name).save_file().await),
        For::Locate(Entry::Backbone(_) | Entry::Dataset(_)) => {
            one(dialog.set_title("Locate the folder").pick_folder().await)
        }
        For::Locate(_) => one(dialog.set_title("Locate the file").pick_file().await),
        For::Ask(ask) => match ask {
            Ask::BackboneFolder => one(dialog.set_title("Backbone folder").pick_folder().await),
            Ask::RunFolder => one(dialog.set_title("Folder of a run").pick_folder().await),
            Ask::DatasetFolder => one(dialog.set_title("Folder of a dataset").pick_folder().await),
            Ask::RunOutput => one(dialog.set_title("Folder for the run").pick_folder().await),
            Ask::CacheFolder => one(dialog.set_title("Folder for tokens").pick_folder().await),
            Ask::ImageFolder => one(dialog.set_title("Folder of images").pick_folder().await),
            Ask::OpenDatasetFolder => one(dialog.set_title("Dataset").pick_folder().await),
            Ask::ProbeFiles => {
                let dialog = dialog.set_title("Probes").add_filter("Probes", &["safetensors"]);
                many(dialog.pick_files().await)
            }
            Ask::ImageFiles => {
                many(dialog.set_title("Images").add_filter("Images", ENDINGS).pick_files().await)
            }
            Ask::OpenWorkspace => {
                let dialog = dialog.set_title("Workspace").add_filter("Workspaces", &["ssmprobe"]);
                one(dialog.pick_file().await)
            }
            Ask::SaveWorkspace | Ask::SaveWorkspaceAs => {
                one(dialog.set_title("Save workspace").set_file_name("workspace.ssmprobe").save_file().await)
            }
            Ask::HubId | Ask::Palette | Ask::Arrange | Ask::CopyLog | Ask::Paste | Ask::Quit => Vec::new(),
        },
    }
}
