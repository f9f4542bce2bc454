//! The dialog that writes a line on an image.

use eframe::egui;
use egui::Ui;

use super::dialog::{self, Answer};
use crate::app::jobs::ImageId;
use crate::app::state::{MAX_NOTE, State};

/// A note that is being written.
pub struct NoteDialog {
    image: ImageId,
    name: String,
    text: String,
}

impl NoteDialog {
    /// On the current image, with what stands there already.
    pub fn new(state: &State) -> Option<Self> {
        let image = state.selection.image?;
        Some(Self { image, name: state.current_image()?.name(), text: state.note_on(image).text })
    }

    pub fn ui(&mut self, ui: &Ui) -> Answer<(ImageId, String)> {
        dialog::show(ui.ctx(), "note", 440.0, &format!("Note on {}", self.name), |ui| {
            ui.add_space(2.0);
            ui.weak("One line; the gallery's filter finds it, and the workspace keeps it");
            let edit = egui::TextEdit::singleline(&mut self.text).char_limit(MAX_NOTE);
            let edit = ui.add(edit.hint_text("What is worth coming back for").desired_width(f32::INFINITY));
            edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Note"));
            let enter = edit.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
            if !edit.lost_focus() {
                edit.request_focus();
            }
            ui.add_space(8.0);
            let given = (self.image, self.text.clone());
            let answer = ui.horizontal(|ui| dialog::buttons(ui, "Keep", true, given.clone())).inner;
            if enter { Answer::Given(given) } else { answer }
        })
    }
}
