//! One figure of what the focused column sees, as a pane.

use eframe::egui;
use egui::Ui;

use super::figure_view::Cell;
use super::{Panel, PanelContext, PanelPlace, controls, true_class};
use crate::viz::Figure;

/// Room around a figure.
const EDGE: f32 = 8.0;

/// The pane of one figure.
pub struct View {
    figure: &'static dyn Figure,
    cell: Cell,
    playing: Option<(f64, usize)>,
}

impl View {
    /// Of this figure.
    pub fn new(figure: &'static dyn Figure) -> Self {
        Self { figure, cell: Cell::default(), playing: None }
    }
}

impl Panel for View {
    fn id(&self) -> &'static str {
        self.figure.id()
    }

    fn title(&self) -> &'static str {
        self.figure.title()
    }

    fn about(&self) -> &'static str {
        self.figure.about()
    }

    fn place(&self) -> PanelPlace {
        PanelPlace::Middle
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(trace) = cx.trace(ui) else { return };
        ui.add_space(6.0);
        if self.figure.id() == "predictions" {
            true_class::ui(ui, cx, &trace);
        }
        controls::show(ui, cx, self.figure.id(), &trace, &mut self.playing);
        let rect = ui.available_rect_before_wrap().shrink(EDGE);
        let zoom = zoom(rect.width());
        // One probe fills its own scale; columns side by side share theirs.
        let options = cx.state.views.of(self.figure.id());
        let Self { figure, cell, .. } = self;
        if let Some(response) = cell.show(ui, &trace, *figure, &options, cx.theme, rect, zoom, cx.lit) {
            cx.menu(&response, *figure, &trace, options.shared());
        }
    }
}

/// Pixels a point: a page's 7.5 pt label becomes as large as the window's own words.
pub fn zoom(width: f32) -> f32 {
    (width / 300.0).clamp(1.45, 1.7)
}
