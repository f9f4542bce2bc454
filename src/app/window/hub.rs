//! The dialog that asks for a backbone of the Hub.

use eframe::egui;
use egui::Ui;

use super::{Answer, dialog};

/// Asks for an id of the Hub.
pub fn ui(ui: &Ui, text: &mut String) -> Answer<String> {
    let modal = dialog::show(ui.ctx(), "hub", |ui| {
        ui.set_width(440.0);
        ui.heading("Open backbone from the Hub");
        ui.add_space(2.0);
        ui.weak("The id of a model, for example facebook/vit-mae-base; a folder's path is taken too");
        let edit = egui::TextEdit::singleline(text).hint_text("owner/name").desired_width(f32::INFINITY);
        let edit = ui.add(edit);
        edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Hub id"));
        let enter = edit.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
        if !edit.lost_focus() {
            edit.request_focus();
        }
        let mut done = Answer::Open;
        ui.add_space(8.0);
        ui.horizontal(|ui| {
            let ready = !text.trim().is_empty();
            if dialog::main_button(ui, "Open", ready).clicked() || (enter && ready) {
                done = Answer::Given(text.clone());
            }
            if ui.button("Cancel").clicked() {
                done = Answer::Closed;
            }
        });
        done
    });
    if modal.should_close() { Answer::Closed } else { modal.inner }
}
