//! One figure of the focused column's trace, as a pane.

use std::sync::Arc;

use super::figure_view::{FigureInput, FigureView};
use super::order_editor::OrderEditor;
use super::plot_view::{EDGE_PX, zoom};
use super::{controls, true_class};
use crate::app::jobs::ExplainSettings;
use crate::app::window::panels::prelude::*;
use crate::model::trace::Attribution;
use crate::viz::Options;
use crate::viz::figures::scan_path;

/// Width of the controls of an order by hand beside its figure.
const BESIDE_PX: f32 = 180.0;
/// Their height above it.
const ABOVE_PX: f32 = 84.0;

pub struct FigurePane {
    figure: &'static dyn Figure,
    view: FigureView,
    /// Edits the reading order by hand, in the pane that shows it.
    editor: OrderEditor,
    /// Since when its reading path is being played, in egui's time, and from which step.
    playing: Option<(f64, usize)>,
}

impl FigurePane {
    pub fn new(figure: &'static dyn Figure) -> Self {
        Self { figure, view: FigureView::default(), editor: OrderEditor::default(), playing: None }
    }
}

impl Panel for FigurePane {
    fn info(&self) -> Info {
        self.figure.info()
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        if self.figure.attribution().is_some() {
            return None; // it offers to compute what is missing
        }
        Some(cx.state.focused_trace().is_some_and(|trace| self.figure.lacks(trace).is_none()))
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(trace) = cx.trace(ui) else { return };
        let pane = ui.max_rect();
        self.contents(ui, cx, &trace);
        cx.overlay_outdated(ui, cx.focus, pane);
    }
}

impl FigurePane {
    fn contents(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, trace: &Arc<Trace>) {
        ui.add_space(6.0);
        if self.figure.properties().names_classes {
            true_class::ui(ui, cx, trace);
        }
        if let Some(method) = self.figure.attribution()
            && !offer_attribution(ui, cx, method, trace)
        {
            return;
        }
        let is_order = self.figure.id() == scan_path::ID;
        let is_edited = is_order && cx.focus.is_some_and(|id| cx.state.made_order(id).is_some());
        // One probe fills its own scale; columns side by side share theirs.
        let options = cx.state.views.figure_options(self.figure.id());
        let mut area = ui.available_rect_before_wrap();
        // An order is edited on its figure, so the controls stand where they leave the figure larger, at any step.
        let height_beside = || self.figure.max_height(trace, &Options::default(), area.width() - BESIDE_PX);
        let beside =
            is_edited && area.width() > 2.0 * BESIDE_PX && height_beside() > area.height() - ABOVE_PX;
        if beside {
            let (left, right) = area.split_left_right_at_x(area.right() - BESIDE_PX);
            ui.scope_builder(UiBuilder::new().max_rect(right), |ui| {
                ScrollArea::vertical().id_salt("controls").show(ui, |ui| {
                    self.controls(ui, cx, trace, true);
                    follow_focus(ui);
                });
            });
            area = left;
        } else {
            self.controls(ui, cx, trace, false);
            area = ui.available_rect_before_wrap();
        }
        let rect = area.shrink(EDGE_PX);
        let is_outdated = cx.is_outdated();
        let input = FigureInput { figure: self.figure, trace, options, headed: true, of: None, is_outdated };
        let drags = is_edited.then(|| OrderEditor::sense_drags(ui, rect));
        self.view.show(ui, cx, input, rect, zoom(rect.size()));
        if let Some(drags) = drags {
            self.editor.handle_drags(ui, cx, &self.view, &drags);
        }
    }

    /// Draws what the figure can be changed by.
    fn controls(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, trace: &Trace, beside: bool) {
        controls::show(ui, cx, self.figure, trace, &mut self.playing);
        if self.figure.id() == scan_path::ID {
            self.editor.controls(ui, cx, trace, beside);
        }
    }
}

/// Draws the control of an attribution method: a button to compute it, or a checkbox to compute it for every image. False
/// while there is nothing to show, which it then says itself.
fn offer_attribution(ui: &mut Ui, cx: &mut PanelContext<'_>, method: Attribution, trace: &Trace) -> bool {
    let settings = cx.state.explain;
    let mut on = settings.attributions.contains(method);
    let known = trace.attributions.contains_key(&method);
    if on && !known {
        cx.busy(ui, "Computing…", None);
        return false;
    }
    if known {
        inset(ui, |ui| ui.checkbox(&mut on, "For every image"));
    } else {
        let (hint, name) = match method {
            Attribution::Gradient => (
                "Every token times the gradient of the logit. Behind a router it differs from exact evidence by the routing's own gradient",
                "Compute gradient × token",
            ),
            Attribution::Integrated => (
                "64 gradients on the path from the mean token: up to a few seconds per image",
                "Compute integrated gradients",
            ),
            Attribution::Rollout => (
                "How much of each patch reaches the tokens by attention: one more pass of each image through the backbone",
                "Compute attention rollout",
            ),
        };
        on = placeholder::invite(ui, hint, name);
        if !on {
            return false;
        }
    }
    if on != settings.attributions.contains(method) {
        let attributions = settings.attributions.with(method, on);
        cx.send(Command::SetExplainSettings(ExplainSettings { attributions, ..settings }));
    }
    true
}
