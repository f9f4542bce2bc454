//! What the tables of panels share: how a column is sorted, and copying all rows.

use std::cmp::Ordering;

use eframe::egui;
use egui::{Event, Rect, Response, Ui};

use crate::app::window::widgets::context_menu;

/// The order of two values of the column that rows are sorted by; unknown ones, which are NaN, come last in either direction.
pub fn compare(a: f64, b: f64, descending: bool) -> Ordering {
    let known = a.is_nan().cmp(&b.is_nan());
    known.then(if descending { b.total_cmp(&a) } else { a.total_cmp(&b) })
}

/// The context menu of a row, which copies the whole table.
pub fn menu(row: &Response, tsv: impl FnOnce() -> String) {
    context_menu(row, |ui| {
        if ui.button("Copy table").on_hover_text("All rows, ready for a spreadsheet").clicked() {
            ui.ctx().copy_text(tsv());
        }
    });
}

/// Copies the table in `rect` on Ctrl+C while the pointer is over it, unless a text field takes the key.
pub fn copy_key(ui: &Ui, rect: Rect, tsv: impl FnOnce() -> String) {
    let over = ui.rect_contains_pointer(rect) && !ui.ctx().egui_wants_keyboard_input();
    if over && ui.input(|i| i.events.contains(&Event::Copy)) {
        ui.ctx().copy_text(tsv());
    }
}
