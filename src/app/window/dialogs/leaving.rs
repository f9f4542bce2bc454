//! Leaving a named workspace with unsaved changes: asks whether to save them first.

use std::path::{Path, PathBuf};

use eframe::egui::Ui;

use super::dialog::{self, Answer};
use crate::app::format::file_name;
use crate::app::state::State;
use crate::app::state::connection::Host;
use crate::app::window::{MainWindow, WindowOrder};

/// What replaces the open workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Nothing: the window closes.
    Quit,
    Demo,
    /// The workspace in this file.
    Workspace(PathBuf),
    /// An empty one on a remote worker, or in this program where that is `None`.
    Host(Option<Host>),
}

impl MainWindow {
    /// Replaces the workspace by `to`; asks first if it has unsaved changes.
    pub(in crate::app::window) fn leave(&mut self, to: Leaving, state: &State) {
        self.after_save.cancel();
        if self.is_unsaved(state) {
            self.dialogs.leaving = Some(to);
        } else {
            self.orders.push(WindowOrder::Leave(to));
        }
    }

    /// Draws the question while one is pending.
    pub(super) fn ask_to_save(&mut self, ui: &Ui, state: &State) {
        let (Some(to), Some(path)) = (self.dialogs.leaving.clone(), self.named.path.clone()) else { return };
        match dialog::ask(&mut self.dialogs.leaving, |to| ask(ui, &path, to)) {
            Some(true) => self.save(ui.ctx(), None, Some(to), state),
            Some(false) => self.orders.push(WindowOrder::Leave(to)),
            None => {}
        }
    }
}

/// Draws the question; the answer is whether to save.
fn ask(ui: &Ui, path: &Path, to: &Leaving) -> Answer<bool> {
    let name = file_name(path);
    let (save, discard, otherwise) = match to {
        Leaving::Quit => (
            "Save and quit",
            "Quit without saving",
            "Otherwise the file stays as it is; this session is restored at the next start",
        ),
        Leaving::Demo | Leaving::Workspace(_) | Leaving::Host(_) => (
            "Save and continue",
            "Continue without saving",
            "Otherwise the file stays as it is; reopen it later with Open recent",
        ),
    };
    dialog::show(ui.ctx(), "save first", 440.0, &format!("Save the changes to {name}?"), |ui| {
        ui.weak(otherwise);
        dialog::buttons_with(ui, save, true, true, |ui| {
            if ui.button(discard).clicked() { Answer::Given(false) } else { Answer::Open }
        })
    })
}
