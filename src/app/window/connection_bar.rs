//! The band over the panes while the connection to a remote worker is being made, or is lost.

use eframe::egui;
use egui::{Label, RichText, Ui};

use crate::app::state::connection::Connection;
use crate::app::window::dialogs::leaving::Leaving;
use crate::app::window::panels::{PanelContext, UiAction};
use crate::app::window::style;
use crate::app::window::widgets::band;
use crate::viz::draw::color32;

/// Room for the buttons.
const BUTTONS_PX: f32 = 240.0;

/// Draws the band unless the worker is connected, with buttons to disconnect and to reconnect.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let connection = &cx.state.connection;
    let (color, why) = match connection {
        Connection::Here | Connection::Connected { .. } => return,
        Connection::Connecting(_) => (cx.theme.muted, None),
        Connection::Lost { why, was_connected, .. } => {
            let kept = if *was_connected { "\nEverything on screen is kept" } else { "" };
            (style::failed(cx.theme), Some(format!("{why}{kept}")))
        }
    };
    let text = |ui: &mut Ui| {
        ui.vertical(|ui| {
            ui.add(Label::new(RichText::new(connection.text()).strong()).wrap());
            if let Some(why) = why.as_deref().map(str::trim).filter(|why| !why.is_empty()) {
                ui.add(Label::new(RichText::new(why).small()).wrap().selectable(true));
            }
        });
    };
    band(ui, color32(color), BUTTONS_PX, text, |ui| {
        if why.is_some() && ui.button("Connect now").clicked() {
            cx.actions.push(UiAction::ConnectNow);
        }
        let about = match connection.is_unreached() {
            true => "Compute here again, with what was open before",
            false => "Compute here again, with nothing open",
        };
        if ui.button("Disconnect").on_hover_text(about).clicked() {
            cx.actions.push(UiAction::Leave(Leaving::Host(None)));
        }
    });
}
