//! The overlay while files are dragged over the window.

use eframe::egui::{self, Ui};

use crate::viz::draw::{Theme, color32};

/// Covers the window with what dropping the files does.
pub fn ui(ui: &Ui, theme: &Theme) {
    let id = egui::Id::unique("drop");
    egui::Area::new(id).order(egui::Order::Foreground).fixed_pos(ui.max_rect().min).show(ui.ctx(), |ui| {
        let whole = ui.ctx().content_rect();
        ui.painter().rect_filled(whole, 0.0, color32(theme.ground.alpha(0.82)));
        let edge = egui::Stroke::new(2.0, color32(theme.series(0)));
        ui.painter().rect_stroke(whole.shrink(10.0), 10.0, edge, egui::StrokeKind::Inside);
        let words = "Drop to open: images, folders, datasets, backbones, probes, runs";
        ui.put(whole, egui::Label::new(egui::RichText::new(words).heading()));
    });
}
