//! What a panel shows instead of its content: nothing there yet, busy, failed.

use eframe::egui;
use egui::{Align, Layout, ProgressBar, RichText, ScrollArea, Ui};

use crate::app::jobs::Progress;
use crate::app::user_error::{ON_CPU, UserError};
use crate::app::window::style;
use crate::viz::draw::paint::color32;

/// Widest line of words in the middle of a panel.
const MAX_LINE_PX: f32 = 440.0;

/// Puts `add` in the middle of what is left of `ui`, about `height` high.
pub fn middle<R>(ui: &mut Ui, height: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    let room = ui.available_size();
    ui.add_space(((room.y - height) / 2.0).max(8.0));
    ui.with_layout(Layout::top_down(Align::Center), |ui| {
        ui.set_max_width((room.x - 24.0).clamp(60.0, MAX_LINE_PX));
        add(ui)
    })
    .inner
}

/// Nothing is there yet: what to do.
pub fn empty(ui: &mut Ui, hint: &str) {
    middle(ui, 40.0, |ui| {
        ui.label(RichText::new(hint).weak());
    });
}

/// Nothing is there yet, and a button that changes that; true once it is clicked.
pub fn invite(ui: &mut Ui, hint: &str, button: &str) -> bool {
    middle(ui, 70.0, |ui| {
        ui.label(RichText::new(hint).weak());
        ui.add_space(4.0);
        ui.button(button).clicked()
    })
}

/// Work is going on; what came of the last look is not what is asked now.
pub fn busy(ui: &mut Ui, what: &str, progress: Option<&Progress>) {
    middle(ui, 56.0, |ui| {
        ui.label(RichText::new(progress.map_or(what, |p| &p.what)).weak());
        match progress {
            Some(progress) => bar(ui, progress, &progress.amounts()),
            // Not a spinner: it would repaint the window for as long as the work takes.
            None => {
                ui.label(RichText::new("…").heading().weak());
            }
        }
    });
}

/// A bar with what is done and what is left, in these words.
pub fn bar(ui: &mut Ui, progress: &Progress, words: &str) {
    let width = ui.available_width().min(MAX_LINE_PX);
    track(ui, progress.fraction().unwrap_or(0.0), words, width);
}

/// A bar filled to `fraction`, with words in it.
pub fn track(ui: &mut Ui, fraction: f32, words: &str, width: f32) {
    ui.scope(|ui| {
        // Of a pane's own colour it would not be seen there.
        ui.visuals_mut().extreme_bg_color = ui.visuals().widgets.inactive.weak_bg_fill;
        let text = RichText::new(words).small();
        ui.add(ProgressBar::new(fraction).desired_width(width).desired_height(18.0).text(text));
    });
}

/// What a person wants after a failure.
pub enum Wanted {
    /// That the processor tries.
    OnCpu,
    /// That it is tried as before.
    Again,
}

/// Why it failed and what to do now; the words can be selected and copied. `again`: a button that tries it once more.
pub fn failed(ui: &mut Ui, error: &UserError, again: Option<&str>) -> Option<Wanted> {
    let mut wanted = None;
    ScrollArea::vertical().id_salt("fault").auto_shrink([false, true]).show(ui, |ui| {
        middle(ui, 90.0, |ui| {
            let color = color32(style::failed(&style::theme(ui)));
            for (at, line) in error.lines.iter().enumerate() {
                let text = RichText::new(line);
                selectable(ui, if at == 0 { text.color(color) } else { text.weak() });
            }
            if error.wants_cpu() {
                ui.add_space(4.0);
                let button = ui.button(ON_CPU).on_hover_text("Opens the backbone there and tries again");
                wanted = button.clicked().then_some(Wanted::OnCpu);
            } else if let Some(remedy) = &error.remedy {
                selectable(ui, RichText::new(remedy));
            }
            if let Some(again) = again {
                ui.add_space(4.0);
                if ui.button(again).clicked() {
                    wanted = Some(Wanted::Again);
                }
            }
            ui.add_space(2.0);
            copy_button(ui, error);
        });
    });
    wanted
}

/// Words that can be selected and copied.
pub fn selectable(ui: &mut Ui, text: RichText) {
    ui.add(egui::Label::new(text).selectable(true).wrap());
}

/// Copies what an error says.
pub fn copy_button(ui: &mut Ui, error: &UserError) {
    if ui.small_button("Copy").on_hover_text("Copy the message").clicked() {
        ui.ctx().copy_text(error.to_string());
    }
}
