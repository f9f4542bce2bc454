//! Asking for files with the system's own dialog, on a thread of its own: the window goes on. Where
//! the system has none (no portal, no zenity), the path is typed.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use eframe::egui;
use rfd::{AsyncFileDialog, FileHandle};

use super::dialog::Answer;
use super::path::PathField;
use crate::app::state::command::FilePrompt;
use crate::app::state::settings::Recent;
use crate::app::state::workspace::Entry;
use crate::model::data::image::ENDINGS;

/// Sooner than this nobody calls a dialog off: there was none.
const NO_DIALOG: Duration = Duration::from_millis(600);

/// What files are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRequest {
    /// An action of the menu.
    Prompt(FilePrompt),
    /// Where an export goes; the name suggested.
    Export(String),
    /// Where what is shared goes: a folder, or a file of the name suggested.
    Share(Option<String>),
    /// Where a missing file of a workspace is now.
    Relink(Entry),
}

/// What a dialog asks for, in its words.
pub struct Question {
    pub title: &'static str,
    /// What can be the answer.
    pub kind: FileKind,
    /// Endings of the files it is about; all where there are none.
    pub endings: &'static [&'static str],
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A folder that is there.
    Folder,
    /// A folder that may be new.
    NewFolder,
    /// A file that is there.
    File,
    /// Files that are there.
    Files,
    /// A file to write, and the name suggested.
    Save(String),
}

impl FileRequest {
    /// Whether it is about files of the machine that computes. Workspaces, orders and exports lie here.
    pub fn is_computed_on(&self) -> bool {
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

    /// What was recently the answer.
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

/// The dialog that is open: the system's, or our own.
#[derive(Default)]
pub struct FilePicker {
    /// Whether paths are typed, whatever the system offers.
    pub typed: bool,
    asked: Option<(FileRequest, Instant, Receiver<Vec<PathBuf>>)>,
    field: Option<(FileRequest, PathField)>,
}

impl FilePicker {
    /// Opens a dialog; at most one is open at a time.
    ///
    /// # Errors
    /// If the system gives no thread to wait for it.
    pub fn ask(&mut self, ctx: &egui::Context, what: FileRequest) -> Result<(), String> {
        if self.asked.is_some() {
            return Err("A file dialog is open already".to_owned());
        }
        if self.typed {
            self.type_it(what);
            return Ok(());
        }
        let question = what.question();
        let (answer, answered) = sync_channel(1);
        let ctx = ctx.clone();
        let wait = move || {
            let paths = pollster::block_on(files(question));
            // The window may be gone; then nobody wants the answer.
            answer.send(paths).ok();
            ctx.request_repaint();
        };
        let thread = Builder::new().name("file dialog".into()).spawn(wait);
        thread.map_err(|error| format!("Cannot open a file dialog: {error}"))?;
        self.asked = Some((what, Instant::now(), answered));
        Ok(())
    }

    /// What was chosen in the system's dialog, once it was.
    pub fn answer(&mut self) -> Option<(FileRequest, Vec<PathBuf>)> {
        let (_, since, answered) = self.asked.as_ref()?;
        let (paths, took) = match answered.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(paths) => (paths, since.elapsed()),
            Err(TryRecvError::Disconnected) => (Vec::new(), Duration::ZERO),
        };
        let (what, ..) = self.asked.take()?;
        if paths.is_empty() {
            if took < NO_DIALOG {
                self.type_it(what);
            }
            return None;
        }
        Some((what, paths))
    }

    /// Asks for the path itself.
    pub fn type_it(&mut self, what: FileRequest) {
        let question = what.question();
        self.field = Some((what, PathField::new(question)));
    }

    /// Draws our own dialog where it is open; what was chosen in it.
    pub fn ui(&mut self, ui: &egui::Ui, recent: &Recent) -> Option<(FileRequest, Vec<PathBuf>)> {
        let (what, field) = self.field.as_mut()?;
        let answer = field.ui(ui, &what.recent(recent));
        if matches!(answer, Answer::Open) {
            return None;
        }
        let (what, _) = self.field.take()?;
        match answer {
            Answer::Given(path) => Some((what, vec![path])),
            Answer::Open | Answer::Closed => None,
        }
    }
}

async fn files(question: Question) -> Vec<PathBuf> {
    let Question { title, kind, endings } = question;
    let dialog = AsyncFileDialog::new().set_title(title);
    let dialog = if endings.is_empty() { dialog } else { dialog.add_filter(title, endings) };
    let one = |file: Option<FileHandle>| file.into_iter().collect();
    let files: Vec<FileHandle> = match kind {
        FileKind::Folder | FileKind::NewFolder => one(dialog.pick_folder().await),
        FileKind::File => one(dialog.pick_file().await),
        FileKind::Files => dialog.pick_files().await.unwrap_or_default(),
        FileKind::Save(name) => one(dialog.set_file_name(name).save_file().await),
    };
    files.iter().map(|file| file.path().to_owned()).collect()
}
