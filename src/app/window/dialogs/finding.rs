//! The dialog for the note of a finding, new or existing.

use eframe::egui;
use egui::{Key, Modifiers, TextEdit, Ui};

use super::dialog::{self, Answer};
use crate::app::state::command::{CTRL, Command};
use crate::app::state::{Finding, FindingId, MAX_NOTE};
use crate::app::window::widgets::field;

/// Visible lines of the note.
const LINES: usize = 7;

/// A finding whose note is being written.
pub struct FindingDialog {
    /// The finding that is edited; `None` for a new one.
    id: Option<FindingId>,
    finding: Finding,
    /// Its note before editing.
    before: String,
    /// Whether Escape, or a click beside the dialog, was answered with what to do instead.
    stays: bool,
}

impl FindingDialog {
    /// Edits the note of the finding `id`, or keeps a new one.
    pub fn new(id: Option<FindingId>, finding: Finding) -> Self {
        Self { id, before: finding.note.clone(), finding, stays: false }
    }

    pub fn ui(&mut self, ui: &Ui) -> Answer<Command> {
        let name = self.finding.name();
        let title = match self.id {
            Some(_) => format!("Note on {name}"),
            None => format!("Keep {name} as a finding"),
        };
        // Consumed before the field takes Ctrl+Enter as a new line.
        let enter = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let mut cancelled = false;
        let answer = dialog::show(ui.ctx(), "finding", 500.0, &title, |ui| {
            let probes: Vec<String> = self.finding.probes().into_iter().collect();
            let with = if probes.is_empty() { String::new() } else { format!(" with {}", probes.join(", ")) };
            let restores = format!("Clicking the finding restores this view: the image{with}");
            ui.add(egui::Label::new(egui::RichText::new(restores).weak()).wrap());
            ui.add_space(4.0);
            // An id for each finding: the cursor's place is kept by it.
            let edit = TextEdit::multiline(&mut self.finding.note)
                .char_limit(MAX_NOTE)
                .id_salt(self.id)
                .desired_rows(LINES);
            let hint = "What makes it worth coming back to. Shared pages show headings (#), lists (-), *emphasis* and `code`";
            let edit = edit.hint_text(hint).desired_width(f32::INFINITY);
            field(ui, "Note", edit);
            if self.stays && self.finding.note != self.before {
                ui.label("The note has changes: Keep saves them, Cancel discards them");
            }
            let given = match self.id {
                Some(id) => Command::WriteFinding(id, self.finding.note.clone()),
                None => Command::KeepFinding(Box::new(self.finding.clone())),
            };
            let answer = dialog::buttons_with(ui, "Keep", true, given.clone(), |ui| {
                ui.weak(format!("{CTRL}+Enter"));
                Answer::Open
            });
            cancelled = matches!(answer, Answer::Closed);
            if enter { Answer::Given(given) } else { answer }
        });
        match answer {
            // Only the Cancel button discards what was typed; Escape or a click beside it does not.
            Answer::Closed if !cancelled && self.finding.note != self.before => {
                self.stays = true;
                Answer::Open
            }
            answer => answer,
        }
    }
}
