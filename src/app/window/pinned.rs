//! The token a click pins: framed in every figure, read out in the status bar, let go by Escape.

use std::sync::Arc;

use eframe::egui;
use egui::{Label, RichText, Ui};

use crate::app::window::panels::PanelContext;
use crate::model::trace::Trace;
use crate::viz::draw::{Hover, color32, readout};

/// What is pinned, and what is said of it.
#[derive(Default)]
pub struct PinnedToken {
    pub token: Option<usize>,
    said: Option<(usize, Arc<Trace>, String)>,
}

impl PinnedToken {
    /// Pins a token that is clicked; lets it go where it is pinned already.
    pub fn click(&mut self, token: usize) {
        self.token = (self.token != Some(token)).then_some(token);
    }

    /// Lets it go by Escape, unless a dialog or a menu lies above the panes.
    pub fn keys(&mut self, ui: &Ui, dialog: bool) {
        let covered = dialog || egui::Popup::is_any_open(ui.ctx()) || ui.ctx().egui_wants_keyboard_input();
        if !covered && ui.input(|i| i.key_pressed(egui::Key::Escape)) {
            self.token = None;
        }
    }

    /// Says in the status bar what is known of it.
    pub fn ui(&mut self, ui: &mut Ui, cx: &PanelContext<'_>) {
        let column = cx.column();
        let Some((token, trace)) = self.token.zip(column.and_then(|column| column.shown.trace())) else {
            return;
        };
        let known = |said: &(usize, Arc<Trace>, String)| said.0 == token && Arc::ptr_eq(&said.1, trace);
        if !self.said.as_ref().is_some_and(known) {
            let text = readout::readout(trace, Hover { token: Some(token), ..Hover::default() }).text();
            self.said = Some((token, trace.clone(), text));
        }
        let Some((_, _, text)) = self.said.as_ref().filter(|(_, _, text)| !text.is_empty()) else { return };
        ui.separator();
        let button = ui.small_button("×").on_hover_text("Unpin the token (Esc)");
        button.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, "Unpin the token"));
        if button.clicked() {
            self.token = None;
        }
        let text = RichText::new(text).small();
        ui.label(RichText::new("Pinned").small().color(color32(cx.theme.pinned())));
        ui.add(Label::new(text.clone()).truncate()).on_hover_text(text);
    }
}
