//! The band over the panes while the shown probe reads other tokens than it was trained on.

use eframe::egui;
use egui::{Label, RichText, Ui};

use crate::app::jobs::info::{BackboneInfo, Compatibility};
use crate::app::state::command::Command;
use crate::app::window::panels::PanelContext;
use crate::app::window::widgets::band;
use crate::viz::draw::paint::color32;

/// Room for the button.
const BUTTON_PX: f32 = 300.0;

/// Draws the band if the tokens do not match, with buttons that correct that.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let Some(column) = cx.column() else { return };
    let library = &cx.state.library;
    let (why, wanted) = match (library.token_mismatch(column.probe), library.fit(column.probe)) {
        (Some((why, wanted)), _) => (why, Some(wanted)),
        (None, Some(Compatibility::Doubtful(why))) => (why, None),
        _ => return,
    };
    let probe = column.probe;
    let (name, color) = (library.probe_name(probe), color32(cx.theme.series(4)));
    let text = RichText::new(format!("{name}: these numbers mean little. {why}")).strong();
    let text = |ui: &mut Ui| drop(ui.add(Label::new(text).wrap()));
    band(ui, color, if wanted.is_some() { BUTTON_PX } else { 0.0 }, text, |ui| {
        let Some(wanted) = wanted else { return };
        let about = format!("All open backbones read images this way: {}", wanted.text());
        let suits = |info: &BackboneInfo| library.probe_info(probe).is_some_and(|own| own.suits(info));
        let found = library.backbone_of(probe).map(|(id, _)| id);
        let suited = || library.open_backbones().find(|(_, info)| suits(info));
        if ui.button("Read as it was trained").on_hover_text(about).clicked() {
            cx.send(Command::SetBackboneOptions(wanted));
        }
        if let Some(id) = found.or_else(|| Some(suited()?.0)) {
            let about = "Opens the backbone a second time; the other columns stay as they are";
            if ui.button("Open beside").on_hover_text(about).clicked() {
                cx.send(Command::OpenBeside(id, wanted));
            }
        }
    });
}
