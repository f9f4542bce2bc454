//! Choosing files with the system's own dialog, on a thread so that the window goes on. Where the system
//! has none (no portal, no zenity), the path is typed.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use eframe::egui;
use rfd::{AsyncFileDialog, FileHandle};

use super::dialog::ask;
use super::file_request::{FileKind, FileRequest, Question};
use super::path_field::PathField;
use crate::app::state::settings::Recent;

/// A dialog that ends without an answer sooner than this was never shown: no person cancels so fast.
const MIN_CANCEL_TIME: Duration = Duration::from_millis(600);

/// The files chosen in the system's dialog, and how long it took.
type Picked = (Vec<PathBuf>, Duration);

/// The open dialog: the system's, or the path field.
#[derive(Default)]
pub struct FilePicker {
    /// Whether paths are always typed, whatever dialogs the system has.
    pub always_typed: bool,
    /// The system's dialog: its request, and where its answer comes.
    pending: Option<(FileRequest, Receiver<Picked>)>,
    field: Option<(FileRequest, PathField)>,
}

impl FilePicker {
    /// Opens a dialog; at most one is open at a time.
    ///
    /// # Errors
    /// If one is open already, or no thread can be started to wait for it.
    pub fn open(&mut self, ctx: &egui::Context, what: FileRequest) -> Result<(), String> {
        if self.pending.is_some() {
            return Err("A file dialog is already open".to_owned());
        }
        if self.always_typed {
            self.open_field(what);
            return Ok(());
        }
        let question = what.question();
        let (answer, answered) = sync_channel(1);
        let ctx = ctx.clone();
        let wait = move || {
            let begun = Instant::now(); // timed here: the window may take longer to draw a frame
            let paths = pollster::block_on(files(question));
            // Fails only if the window is gone.
            answer.send((paths, begun.elapsed())).ok();
            ctx.request_repaint();
        };
        let thread = Builder::new().name("file dialog".into()).spawn(wait);
        thread.map_err(|error| format!("Cannot open a file dialog: {error}"))?;
        self.pending = Some((what, answered));
        Ok(())
    }

    /// The files chosen in the system's dialog, once it has closed.
    pub fn poll(&mut self) -> Option<(FileRequest, Vec<PathBuf>)> {
        let (_, answered) = self.pending.as_ref()?;
        let (paths, took) = match answered.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(answer) => answer,
            Err(TryRecvError::Disconnected) => (Vec::new(), Duration::ZERO),
        };
        let (what, ..) = self.pending.take()?;
        if paths.is_empty() {
            if took < MIN_CANCEL_TIME {
                self.open_field(what);
            }
            return None;
        }
        Some((what, paths))
    }

    /// Opens the field in which a path is typed.
    pub fn open_field(&mut self, what: FileRequest) {
        let question = what.question();
        self.field = Some((what, PathField::new(question)));
    }

    /// Draws the path field if it is open; what was chosen in it.
    pub fn ui(&mut self, ui: &egui::Ui, recent: &Recent) -> Option<(FileRequest, Vec<PathBuf>)> {
        let what = self.field.as_ref()?.0.clone();
        let path = ask(&mut self.field, |(what, field)| field.ui(ui, &what.recent(recent)))?;
        Some((what, vec![path]))
    }
}

async fn files(question: Question) -> Vec<PathBuf> {
    let Question { title, kind, endings } = question;
    let dialog = AsyncFileDialog::new().set_title(title);
    let dialog = if endings.is_empty() { dialog } else { dialog.add_filter(title, endings) };
    let list = |file: Option<FileHandle>| file.into_iter().collect();
    let files: Vec<FileHandle> = match kind {
        FileKind::Folder | FileKind::NewFolder => list(dialog.pick_folder().await),
        FileKind::File => list(dialog.pick_file().await),
        FileKind::Files => dialog.pick_files().await.unwrap_or_default(),
        FileKind::Save(name) => list(dialog.set_file_name(name).save_file().await),
    };
    files.iter().map(|file| file.path().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::state::Severity;
    use crate::app::state::command::FilePrompt;
    use crate::app::window::{MainWindow, WindowOrder};

    #[test]
    fn why_no_dialog_opens_is_noted_in_the_log() {
        let mut window = MainWindow::default();
        let (_answer, answered) = sync_channel(1);
        let what = FileRequest::Prompt(FilePrompt::MaskFolder);
        window.dialogs.picker.pending = Some((what.clone(), answered));
        window.pick(&egui::Context::default(), what);
        let [WindowOrder::Note(Severity::Error, why)] = &window.orders[..] else {
            panic!("{} orders", window.orders.len())
        };
        assert_eq!(why, "A file dialog is already open");
    }

    #[test]
    fn a_path_is_typed_where_no_dialog_could_be_shown() {
        for (took, typed) in [(Duration::from_millis(5), true), (Duration::from_secs(2), false)] {
            let (answer, answered) = sync_channel(1);
            answer.send((Vec::new(), took)).expect("there is room");
            let pending = Some((FileRequest::Prompt(FilePrompt::MaskFolder), answered));
            let mut picker = FilePicker { pending, ..FilePicker::default() };
            assert!(picker.poll().is_none() && picker.field.is_some() == typed, "{took:?}");
        }
    }
}
