//! What a panel shows instead of content: a hint, progress, or an error.

use egui::ProgressBar;

use crate::app::jobs::Progress;
use crate::app::jobs::user_error::{ON_CPU, UserError};
use crate::app::window::panels::prelude::*;

/// Maximum width of text and progress bars in the middle of a panel.
pub const MAX_LINE_PX: f32 = 440.0;

/// Centres `add`, about `height` high, in the rest of `ui`.
pub fn centred<R>(ui: &mut Ui, height: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    let room = ui.available_size();
    ui.add_space(((room.y - height) / 2.0).max(8.0));
    ui.with_layout(Layout::top_down(Align::Center), |ui| {
        ui.set_max_width((room.x - 24.0).clamp(60.0, MAX_LINE_PX));
        add(ui)
    })
    .inner
}

/// A hint on what to do while there is nothing to show.
pub fn empty(ui: &mut Ui, hint: &str) {
    centred(ui, 40.0, |ui| {
        ui.label(RichText::new(hint).weak());
    });
}

/// Such a hint with a button that does it; true when it is clicked.
pub fn invite(ui: &mut Ui, hint: &str, button: &str) -> bool {
    centred(ui, 70.0, |ui| {
        ui.label(RichText::new(hint).weak());
        ui.add_space(4.0);
        ui.add(Button::new(button).fill(ui.visuals().selection.bg_fill)).clicked() // all there is to do
    })
}

/// Shows that work is in progress: `what`, or the progress itself.
pub fn busy(ui: &mut Ui, what: &str, progress: Option<&Progress>) {
    centred(ui, 56.0, |ui| {
        ui.label(RichText::new(progress.map_or(what, |p| &p.what)).weak());
        // Without it there is no spinner either: that would repaint the window for as long as the work takes.
        if let Some(progress) = progress {
            let width = ui.available_width().min(MAX_LINE_PX);
            progress_bar(ui, progress.fraction().unwrap_or(0.0), &progress.amounts(), width);
        }
    });
}

/// A bar `width` wide, filled to `fraction`, with `words` in it.
pub fn progress_bar(ui: &mut Ui, fraction: f32, words: &str, width: f32) {
    ui.scope(|ui| {
        // In the default colour, that of a pane, the empty part would be invisible.
        ui.visuals_mut().extreme_bg_color = ui.visuals().widgets.inactive.weak_bg_fill;
        let text = RichText::new(words).small();
        ui.add(ProgressBar::new(fraction).desired_width(width).desired_height(18.0).text(text));
    });
}

/// Shows why something failed and what to do, as selectable text, with a button to retry on the processor where that may help.
/// `again` is the text of a button that retries it as before; true when that is clicked.
pub fn failed(ui: &mut Ui, cx: &mut PanelContext<'_>, error: &UserError, again: Option<&str>) -> bool {
    let mut retried = false;
    ScrollArea::vertical().id_salt("fault").auto_shrink([false, true]).show(ui, |ui| {
        centred(ui, 90.0, |ui| {
            for (at, line) in error.lines.iter().enumerate() {
                let text = if at == 0 { style::failure(ui, line) } else { RichText::new(line).weak() };
                selectable(ui, text);
            }
            if error.wants_cpu() {
                ui.add_space(4.0);
                let button = ui.button(ON_CPU).on_hover_text("Opens the backbone there and tries again");
                if button.clicked() {
                    cx.retry_on_cpu();
                }
            } else if let Some(remedy) = &error.remedy {
                selectable(ui, RichText::new(remedy));
            }
            if let Some(again) = again {
                ui.add_space(4.0);
                retried = ui.button(again).clicked();
            }
            ui.add_space(2.0);
            copy_button(ui, error);
        });
        follow_focus(ui);
    });
    retried
}

/// Text that can be selected and copied.
pub fn selectable(ui: &mut Ui, text: RichText) {
    ui.add(egui::Label::new(text).selectable(true).wrap());
}

/// A button that copies an error's message.
pub fn copy_button(ui: &mut Ui, error: &UserError) {
    if ui.small_button("Copy").on_hover_text("Copy the message").clicked() {
        ui.ctx().copy_text(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn work_without_progress_is_one_line() {
        let harness = egui_kittest::Harness::new_ui(|ui| busy(ui, "Explaining…", None));
        assert_eq!(harness.query_all_by_label_contains("…").count(), 1);
    }
}
