//! How stable the order of the shown image is under small changes of it and across seeds, as a pane.

use std::sync::Arc;

use eframe::egui;
use egui::Ui;

use super::plot_view::Plotted;
use super::{Panel, PanelContext, PanelPlace, placeholder};
use crate::app::state::command::Command;
use crate::model::explain::stability::Stability;
use crate::viz::draw::scale::number;
use crate::viz::figures::stability::Steadiness;

/// The pane.
#[derive(Default)]
pub struct Pane {
    /// A stability is known by its address.
    plotted: Plotted<usize, Steadiness>,
}

impl Panel for Pane {
    fn id(&self) -> &'static str {
        "stability"
    }

    fn title(&self) -> &'static str {
        "Stability"
    }

    fn about(&self) -> &'static str {
        "How much of the order stays under flips, crops, noise and brightness, and across seeds"
    }

    fn place(&self) -> PanelPlace {
        PanelPlace::Middle
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(column) = cx.focus else { return cx.hint(ui) };
        if let Some(job) = cx.state.steadying(column) {
            let progress = cx.state.jobs.get(&job).and_then(|job| job.progress.as_ref());
            return placeholder::busy(ui, "Reading changed pictures", progress);
        }
        match cx.state.stability_of(column) {
            Some(Ok(stability)) => {
                let stability = stability.clone();
                self.draw(ui, cx, &stability);
            }
            Some(Err(fault)) => cx.failed(ui, fault),
            None => {
                if cx.trace(ui).is_none() {
                    return;
                }
                let hint = "See how much of this order stays when the image is flipped, cropped, noisy, darker or brighter";
                if placeholder::invite(ui, hint, "Measure stability") {
                    cx.send(Command::MeasureStability(column));
                }
            }
        }
    }
}

impl Pane {
    fn draw(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, stability: &Arc<Stability>) {
        let (key, plot) = (Arc::as_ptr(stability).addr(), Steadiness(stability.clone()));
        let Some((_, item, response)) = self.plotted.show(ui, cx, key, plot, Steadiness::clone) else {
            return;
        };
        let Some(group) = stability.groups.get(item) else { return };
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(&group.name);
            for (what, tau) in &group.taus {
                ui.weak(format!("{what}: {}", number((tau * 1000.0).round() / 1000.0)));
            }
        });
    }
}
