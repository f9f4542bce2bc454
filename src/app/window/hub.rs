//! The dialog that opens a backbone from the Hugging Face Hub.

use eframe::egui;
use egui::Ui;

use super::dialog::{self, Answer};
use super::widgets::field;

/// Draws the dialog; the answer is a model's id or a folder.
pub fn ui(ui: &Ui, text: &mut String) -> Answer<String> {
    dialog::show(ui.ctx(), "hub", 440.0, "Open backbone from the Hub", |ui| {
        ui.add_space(2.0);
        ui.weak("A model id, for example facebook/vit-mae-base; a folder path works too");
        let edit = egui::TextEdit::singleline(text).hint_text("owner/name").desired_width(f32::INFINITY);
        let edit = field(ui, "Hub id", edit);
        let enter = edit.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
        if !edit.lost_focus() {
            edit.request_focus();
        }
        ui.add_space(8.0);
        let ready = !text.trim().is_empty();
        let answer = ui.horizontal(|ui| dialog::buttons(ui, "Open", ready, text.clone())).inner;
        if enter && ready { Answer::Given(text.clone()) } else { answer }
    })
}
