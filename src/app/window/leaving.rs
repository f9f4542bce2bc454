//! Leaving a named workspace that lacks something of what is open: it is asked whether to save it first.

use std::path::{Path, PathBuf};

use eframe::egui::{Context, Ui};

use super::dialog::{self, Answer};
use super::{MainWindow, WindowOrder};
use crate::app::state::State;
use crate::app::state::connection::Host;

/// Where one goes from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The window closes.
    Quit,
    /// The demo takes its place.
    Demo,
    /// This workspace does.
    Workspace(PathBuf),
    /// A worker elsewhere computes, or this program, with nothing open.
    Host(Option<Host>),
}

/// What becomes of what was not saved.
enum Choice {
    Save,
    Discard,
}

impl MainWindow {
    /// Leaves what is open, once it is saved where it has to be.
    pub(super) fn leave(&mut self, ctx: &Context, to: Leaving, state: &State, orders: &mut Vec<WindowOrder>) {
        if self.is_unsaved(state) {
            self.leaving = Some(to);
        } else {
            self.go(ctx, to, orders);
        }
    }

    fn go(&mut self, ctx: &Context, to: Leaving, orders: &mut Vec<WindowOrder>) {
        match to {
            Leaving::Quit => self.close.go(ctx),
            Leaving::Demo => orders.push(WindowOrder::Demo),
            Leaving::Workspace(path) => self.open(&path, orders),
            Leaving::Host(host) => orders.push(WindowOrder::Connect(host)),
        }
    }

    /// Asks, where there is something to ask.
    pub(super) fn ask_to_save(&mut self, ui: &Ui, state: &State, orders: &mut Vec<WindowOrder>) {
        let (Some(to), Some(path)) = (self.leaving.clone(), self.named.path.clone()) else { return };
        match ask(ui, &path, &to) {
            Answer::Open => {}
            Answer::Closed => self.leaving = None,
            Answer::Given(choice) => {
                self.leaving = None;
                if matches!(choice, Choice::Save) {
                    self.save(path, state, orders);
                }
                // What could not be saved keeps the window open, and is noted.
                if matches!(choice, Choice::Discard) || !self.is_unsaved(state) {
                    self.go(ui.ctx(), to, orders);
                }
            }
        }
    }
}

fn ask(ui: &Ui, path: &Path, to: &Leaving) -> Answer<Choice> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (verb, otherwise) = match to {
        Leaving::Quit => {
            ("quit", "Otherwise the file stays as it is; what is open comes back at the next start")
        }
        _ => ("go on", "Otherwise the file stays as it is; what is open now can be found under Open recent"),
    };
    dialog::show(ui.ctx(), "save first", 440.0, &format!("Save the changes to {name}?"), |ui| {
        ui.weak(otherwise);
        ui.add_space(6.0);
        let mut answer = Answer::Open;
        ui.horizontal(|ui| {
            if dialog::main_button(ui, &format!("Save and {verb}"), true).clicked() {
                answer = Answer::Given(Choice::Save);
            }
            if ui
                .button(if verb == "quit" { "Quit without saving" } else { "Go on without saving" })
                .clicked()
            {
                answer = Answer::Given(Choice::Discard);
            }
            if ui.button("Cancel").clicked() {
                answer = Answer::Closed;
            }
        });
        answer
    })
}
