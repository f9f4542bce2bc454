//! Toasts in the corner: notes and warnings disappear after a time (the log keeps them); errors stay until
//! they are dismissed.

use std::collections::HashMap;
use std::time::Duration;

use eframe::egui;
use egui::accesskit::Live;
use egui::text::LayoutJob;
use egui::{Align, Align2, Frame, Label, Layout, Order, Stroke, TextStyle, Ui, Vec2};

use crate::app::state::command::Command;
use crate::app::state::{Severity, State, Toast};
use crate::app::window::panels::UiAction;
use crate::app::window::style;
use crate::viz::draw::paint::color32;
use crate::viz::draw::theme::Theme;

/// How long a note stays, in seconds.
const INFO_SECS: f64 = 5.0;
/// How long a warning, or a note with a file to open, stays, in seconds.
const WARNING_SECS: f64 = 12.0;
/// Width of a note.
const NOTE_PX: f32 = 380.0;
/// Most lines of a note that are shown, besides what to do; pointing at it shows the rest.
const MAX_LINES: usize = 6;

/// The toasts on the screen.
#[derive(Default)]
pub struct Toasts {
    /// By toast, when it was first drawn or the pointer was last on any of them, in egui's time.
    since: HashMap<u64, f64>,
}

impl Toasts {
    /// Draws the toasts above everything else, `up` points above the status bar.
    pub fn ui(&mut self, ui: &Ui, state: &State, up: f32, actions: &mut Vec<UiAction>) {
        self.since.retain(|id, _| state.toasts.iter().any(|toast| toast.id == *id));
        if state.toasts.is_empty() {
            return;
        }
        let (now, theme) = (ui.input(|i| i.time), style::theme(ui));
        let area = egui::Area::new(egui::Id::unique("notes"))
            .order(Order::Foreground)
            .anchor(Align2::RIGHT_BOTTOM, Vec2::new(-14.0, -44.0 - up));
        let shown = area.show(ui.ctx(), |ui| {
            for toast in &state.toasts {
                let since = *self.since.entry(toast.id).or_insert(now);
                let stays = match toast.severity {
                    Severity::Info if toast.file.is_none() => Some(INFO_SECS),
                    Severity::Info | Severity::Warning => Some(WARNING_SECS),
                    Severity::Error => None,
                };
                if let Some(left) = stays.map(|stays| stays - (now - since)) {
                    if left <= 0.0 {
                        actions.push(UiAction::Command(Command::DismissToast(toast.id)));
                    } else {
                        // The next frame only when its time is over.
                        ui.ctx().request_repaint_after(Duration::from_secs_f64(left));
                    }
                }
                note(ui, toast, &theme, actions);
            }
        });
        // All stay while the pointer is on one: that may be read or copied, and would move if one below it went.
        if ui.ctx().rect_contains_pointer(shown.response.layer_id, shown.response.rect) {
            self.since.values_mut().for_each(|since| *since = now);
        }
    }
}

/// Draws a toast, with buttons that dismiss it and, if it has a file, open that.
fn note(ui: &mut Ui, toast: &Toast, theme: &Theme, actions: &mut Vec<UiAction>) {
    let color = match toast.severity {
        Severity::Info => theme.muted,
        Severity::Warning => theme.series(4),
        Severity::Error => style::failed(theme),
    };
    let frame = Frame::popup(ui.style()).stroke(Stroke::new(1.0, color32(color)));
    frame.show(ui, |ui| {
        ui.set_width(NOTE_PX);
        ui.with_layout(Layout::right_to_left(Align::TOP), |ui| {
            let mut over = ui.small_button("Dismiss").accessible_name("Dismiss this note").clicked();
            if let Some(file) = &toast.file
                && ui.small_button("Open").accessible_name("Open what was written").clicked()
            {
                actions.push(UiAction::OpenFile(file.clone()));
                over = true;
            }
            if over {
                actions.push(UiAction::Command(Command::DismissToast(toast.id)));
            }
            ui.with_layout(Layout::top_down(Align::LEFT), |ui| {
                let (font, color) = (TextStyle::Body.resolve(ui.style()), ui.visuals().text_color());
                // The last of several lines is what to do, which is never cut.
                let (what, remedy) = toast.text.rsplit_once('\n').unwrap_or((toast.text.as_str(), ""));
                let parts = [(what, MAX_LINES), (remedy, usize::MAX)].into_iter();
                for (text, max_rows) in parts.filter(|(text, _)| !text.is_empty()) {
                    let mut job = LayoutJob::simple(text.to_owned(), font.clone(), color, 0.0);
                    job.wrap.max_rows = max_rows;
                    let label = ui.add(Label::new(job).wrap().selectable(true));
                    // Screen readers say it when it appears.
                    ui.ctx().accesskit_node_builder(label.id, |node| node.set_live(Live::Polite));
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_note_stays_while_the_pointer_is_on_it() {
        let mut state = State::default();
        state.note(Severity::Info, "Compare shows 2 columns");
        let goes = |is_pointed_at: bool| {
            let (mut toasts, mut actions) = (Toasts::default(), Vec::new());
            let mut harness = Harness::new_ui(|ui| toasts.ui(ui, &state, 0.0, &mut actions));
            if is_pointed_at {
                harness.hover_at(harness.get_by_label("Compare shows 2 columns").rect().center());
            }
            harness.run_steps((2.0 * INFO_SECS / 0.25) as usize);
            drop(harness);
            !actions.is_empty()
        };
        assert_eq!([false, true].map(goes), [true, false]);
    }

    #[test]
    fn what_to_do_is_said_however_long_the_reason() {
        let text = format!("Could not be opened: {}\nClose its entry", "a long reason ".repeat(60));
        let toast = Toast { id: 1, severity: Severity::Error, text, file: None };
        let harness = Harness::new_ui(|ui| note(ui, &toast, &Theme::light(), &mut Vec::new()));
        let shown = |label: &str| harness.get_by_label_contains(label).rect();
        let [reason, remedy] = ["Could not be opened", "Close its entry"].map(shown);
        assert!(reason.height() < 8.0 * remedy.height() && remedy.top() >= reason.bottom());
    }
}
