//! Small parts that panels and dialogs share.

use eframe::egui;
use egui::{ComboBox, Response, Ui};

/// A list that folds out, to choose one of `all` from.
pub fn choice<T: PartialEq, const N: usize>(
    ui: &mut Ui,
    salt: &str,
    width: f32,
    value: &mut T,
    all: [(T, &str); N],
) -> Response {
    let shown = all.iter().find(|(known, _)| known == value).map_or("", |(_, name)| *name);
    let combo = ComboBox::from_id_salt(salt).width(width).selected_text(shown);
    let list = |ui: &mut Ui| {
        for (choice, name) in all {
            ui.selectable_value(value, choice, name);
        }
    };
    combo.show_ui(ui, list).response
}
