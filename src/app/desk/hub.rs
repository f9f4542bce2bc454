//! The dialog that asks for a backbone of the Hub.

use eframe::egui;
use egui::Ui;

use super::Answer;

/// Asks for an id of the Hub.
pub fn ui(ui: &Ui, text: &mut String) -> Answer<String> {
    let modal = egui::Modal::new(egui::Id::unique("hub")).show(ui.ctx(), |ui| {
        ui.set_width(440.0);
        ui.heading("Open backbone from the Hub");
        ui.weak("The id of a model, for example facebook/vit-mae-base; a folder's path is taken too");
        let edit = egui::TextEdit::singleline(text).hint_text("owner/name").desired_width(f32::INFINITY);
        let edit = ui.add(edit);
        edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Hub id"));
        let enter = edit.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
        if !edit.lost_focus() {
            edit.request_focus();
        }
        let mut done = Answer::Open;
        ui.horizontal(|ui| {
            let ready = !text.trim().is_empty();
            if ui.add_enabled(ready, egui::Button::new("Open")).clicked() || (enter && ready) {
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
