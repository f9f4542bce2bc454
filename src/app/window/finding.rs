//! The dialog that writes the note of a finding: of one that is to be kept, or of one that is there.

use eframe::egui;
use egui::{Key, Modifiers, TextEdit, Ui};

use super::dialog::{self, Answer};
use crate::app::state::command::Command;
use crate::app::state::{Finding, FindingId, MAX_NOTE};

/// Lines of the note in sight.
const LINES: usize = 7;

/// A finding whose note is being written.
pub struct FindingDialog {
    /// One that is there; else it is to be kept.
    id: Option<FindingId>,
    finding: Finding,
    /// Its note as it was.
    before: String,
}

impl FindingDialog {
    /// Of what is shown now.
    pub fn new(finding: Finding) -> Self {
        Self { id: None, before: finding.note.clone(), finding }
    }

    /// Of one that is there.
    pub fn of(id: FindingId, finding: Finding) -> Self {
        Self { id: Some(id), before: finding.note.clone(), finding }
    }

    pub fn ui(&mut self, ui: &Ui) -> Answer<Command> {
        let name = self.finding.name();
        let title = match self.id {
            Some(_) => format!("Note on {name}"),
            None => format!("Keep {name} as a finding"),
        };
        // Before the field takes it as a new line.
        let enter = ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::Enter));
        let mut cancelled = false;
        let answer = dialog::show(ui.ctx(), "finding", 500.0, &title, |ui| {
            ui.add_space(2.0);
            let probes: Vec<String> = self.finding.probes().into_iter().collect();
            let with = if probes.is_empty() { String::new() } else { format!(" with {}", probes.join(", ")) };
            ui.add(
                egui::Label::new(
                    egui::RichText::new(format!("A click on it shows the image{with} as now")).weak(),
                )
                .wrap(),
            );
            ui.add_space(4.0);
            // Of another finding the cursor stood elsewhere.
            let edit = TextEdit::multiline(&mut self.finding.note)
                .char_limit(MAX_NOTE)
                .id_salt(self.id)
                .desired_rows(LINES);
            let hint = "What is worth coming back for. A page that is shared shows headings (#), lists (-), *emphasis* and `code`";
            let edit = ui.add(edit.hint_text(hint).desired_width(f32::INFINITY));
            edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Note"));
            edit.request_focus();
            ui.add_space(8.0);
            let given = match self.id {
                Some(id) => Command::WriteFinding(id, self.finding.note.clone()),
                None => Command::KeepFinding(Box::new(self.finding.clone())),
            };
            let answer = ui.horizontal(|ui| {
                let answer = dialog::buttons(ui, "Keep", true, given.clone());
                ui.weak(if cfg!(target_os = "macos") { "Cmd+Enter" } else { "Ctrl+Enter" });
                answer
            });
            cancelled = matches!(answer.inner, Answer::Closed);
            if enter { Answer::Given(given) } else { answer.inner }
        });
        match answer {
            // What was typed is given up by that button alone.
            Answer::Closed if !cancelled && self.finding.note != self.before => Answer::Open,
            answer => answer,
        }
    }
}
