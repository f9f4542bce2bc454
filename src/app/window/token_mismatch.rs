//! The band over the panes while the shown probe reads other tokens than it was trained on.

use eframe::egui;
use egui::{Frame, Label, Margin, RichText, Stroke, Ui};

use crate::app::jobs::info::{BackboneInfo, Compatibility};
use crate::app::state::command::Command;
use crate::app::window::panels::PanelContext;
use crate::app::window::widgets::at_right;
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
    let name = library.probe_name(probe);
    let color = color32(cx.theme.series(4));
    let frame = Frame::new().inner_margin(Margin::symmetric(10, 4)).outer_margin(Margin::symmetric(10, 0));
    let frame = frame.fill(color.gamma_multiply(0.16)).stroke(Stroke::new(1.0, color)).corner_radius(5.0);
    let text = format!("{name}: these numbers mean little. {why}");
    frame.show(ui, |ui| {
        ui.horizontal(|ui| {
            let room = ui.available_width() - if wanted.is_some() { BUTTON_PX } else { 0.0 };
            ui.scope(|ui| {
                ui.set_width(room);
                ui.add(Label::new(RichText::new(text).strong()).wrap());
            });
            let Some(wanted) = wanted else { return };
            let about = format!("All open backbones read images this way: {}", wanted.text());
            at_right(ui, |ui| {
                let suits = |info: &BackboneInfo| {
                    library.probes.get(&probe)?.status.ready().map(|own| own.suits(info))
                };
                let found = library.backbone_of(probe).map(|(id, _)| id);
                let suited = || library.open_backbones().find(|(_, info)| suits(info) == Some(true));
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
        });
    });
    ui.add_space(6.0);
}
