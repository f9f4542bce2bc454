//! The token that a click pins: framed in every figure, described in the status bar, unpinned by Escape.

use std::sync::Arc;

use eframe::egui;
use egui::{Label, RichText, Ui};

use crate::app::window::panels::PanelContext;
use crate::app::window::style;
use crate::model::trace::Trace;
use crate::viz::draw::{Hover, color32};
use crate::viz::readout;

/// The pinned token and its description.
#[derive(Default)]
pub struct PinnedToken {
    pub token: Option<usize>,
    readout: Option<(usize, Arc<Trace>, String)>,
}

impl PinnedToken {
    /// Pins a token, or unpins it if it is the pinned one.
    pub fn click(&mut self, token: usize) {
        self.token = (self.token != Some(token)).then_some(token);
    }

    /// Unpins the token on Escape, unless a dialog, a popup or a text field takes that key.
    pub fn keys(&mut self, ui: &Ui, dialog: bool) {
        let covered = dialog || egui::Popup::is_any_open(ui.ctx()) || ui.ctx().egui_wants_keyboard_input();
        if !covered && ui.input(|i| i.key_pressed(egui::Key::Escape)) {
            self.token = None;
        }
    }

    /// Draws the description, with a button to unpin, into the status bar.
    pub fn ui(&mut self, ui: &mut Ui, cx: &PanelContext<'_>) {
        let column = cx.column().filter(|_| !cx.is_outdated());
        let Some((token, trace)) = self.token.zip(column.and_then(|column| column.shown.trace())) else {
            return;
        };
        let is_current = |kept: &(usize, Arc<Trace>, String)| kept.0 == token && Arc::ptr_eq(&kept.1, trace);
        if !self.readout.as_ref().is_some_and(is_current) {
            let text = readout::readout(trace, Hover { token: Some(token), ..Hover::default() }).text();
            self.readout = Some((token, trace.clone(), text));
        }
        let Some((_, _, text)) = self.readout.as_ref().filter(|(_, _, text)| !text.is_empty()) else {
            return;
        };
        ui.separator();
        let button = ui.small_button("×").accessible_name("Unpin the token");
        if button.on_hover_text("Unpin the token (Esc)").clicked() {
            self.token = None;
        }
        let text = RichText::new(text).small();
        ui.label(RichText::new("Pinned").small().color(color32(style::pinned(cx.theme))));
        ui.add(Label::new(text.clone()).truncate().show_tooltip_when_elided(false)).on_hover_text(text);
    }
}
