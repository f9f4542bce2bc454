//! The dialog that opens a backbone from the Hugging Face Hub.

use eframe::egui;
use egui::Ui;

use super::dialog::{self, Answer};
use crate::app::window::widgets::field;

/// Draws the dialog; the answer is a model's id or a folder.
pub fn ui(ui: &Ui, text: &mut String) -> Answer<String> {
    dialog::show(ui.ctx(), "hub", 440.0, "Open backbone from the Hub", |ui| {
        ui.weak("A model id, for example facebook/vit-mae-base; a folder path works too");
        let edit = egui::TextEdit::singleline(text).hint_text("owner/name").desired_width(f32::INFINITY);
        field(ui, "Hub id", edit);
        dialog::buttons(ui, "Open", !text.trim().is_empty(), text.clone())
    })
}
