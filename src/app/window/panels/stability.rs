//! How stable the order of the shown image is under small changes of it and across seeds, as a pane.

use std::sync::Arc;

use super::plot_view::PlotView;
use crate::app::window::panels::prelude::*;
use crate::model::explain::stability::Stability;
use crate::model::trace::Routing;
use crate::viz::draw::minus;
use crate::viz::figures::stability::StabilityPlot;

#[derive(Default)]
pub struct StabilityPane {
    /// Keyed by the address of the stability.
    plot: PlotView<usize, StabilityPlot>,
}

impl Panel for StabilityPane {
    fn info(&self) -> Info {
        Info {
            id: "stability",
            title: "Stability",
            about: "How much of the order is kept under flips, crops, noise and brightness, and across seeds",
            tab: TabGroup::Diagnostics.tab(),
        }
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        // A fixed order does not depend on the image: there is nothing to measure.
        Some(cx.state.focused_trace().is_some_and(|trace| matches!(trace.routing, Routing::Plan(_))))
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(column) = cx.focus else { return cx.hint(ui) };
        match cx.state.stability_of(column) {
            (_, Some(job)) => cx.busy(ui, "Reading changed images…", Some(job)),
            (Some(Ok(stability)), None) => self.draw(ui, cx, stability),
            (Some(Err(error)), None) => {
                if placeholder::failed(ui, cx, error, Some("Measure again")) {
                    cx.send(Command::MeasureStability(column));
                }
            }
            (None, None) => {
                if cx.trace(ui).is_none() {
                    return;
                }
                let hint = "See how much of this order is kept when the image is flipped, cropped, noisy, darker or brighter";
                if placeholder::invite(ui, hint, "Measure stability") {
                    cx.send(Command::MeasureStability(column));
                }
            }
        }
    }
}

impl StabilityPane {
    fn draw(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, stability: &Arc<Stability>) {
        let (key, plot) = (Arc::as_ptr(stability).addr(), StabilityPlot(stability.clone()));
        let Some((_, item, response)) = self.plot.fill(ui, cx, key, plot, StabilityPlot::clone) else {
            return;
        };
        let Some(group) = stability.groups.get(item) else { return };
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(&group.name);
            for (what, tau) in &group.taus {
                ui.weak(format!("{what}: {}", minus(format!("{tau:.3}"))));
            }
        });
    }
}
