//! Shows a plot in a rectangle: laid out again only when something it depends on changes, painted as large
//! as fits, exported and copied through its context menu.

use std::sync::Arc;

use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::context_menu;
use crate::viz::draw::{Canvas, Hover, Painted, Scene, Theme};
use crate::viz::figures::plot::{self, Plot};
use crate::viz::{Empty, Size, export};

/// Margin around a plot.
pub const EDGE_PX: f32 = 8.0;
/// Smallest scene of a pane that is laid out, in points; a smaller box shows it scaled down.
const MIN_SIZE: Vec2 = Vec2::new(170.0, 110.0);

/// Pixels per point: a figure's 7.5 pt label becomes as large as the window's text, or smaller in a narrow or low pane, where
/// it would leave the data little room.
pub fn zoom(pane: Vec2) -> f32 {
    (pane.x / 300.0).min(pane.y / 150.0).clamp(1.45, 1.7)
}

/// A view with a cached scene. `K` is what a plot depends on besides its size and the theme.
pub struct PlotView<K, P> {
    canvas: Canvas,
    cached: Option<Cached<K, P>>,
    /// The smallest legible size of the cached plot, and the width in points it is for.
    legible: Option<(i32, Vec2)>,
}

/// A scene with its key; owning the plot keeps alive what the addresses in the key stand for.
struct Cached<K, P> {
    key: (K, bool, [i32; 2]),
    plot: P,
    drawn: Result<Scene, Empty>,
}

/// Where a plot is painted.
pub struct PlotArea {
    pub rect: Rect,
    /// Pixels per point.
    pub zoom: f32,
    /// The smallest scene that is laid out, in points.
    pub min_size: Vec2,
}

/// A plot as it was just painted.
pub struct PaintedPlot<'a, P> {
    pub plot: &'a P,
    pub scene: &'a Scene,
    pub canvas: &'a Canvas,
    pub painted: Painted,
    /// Whether it was laid out anew in this frame.
    pub is_new: bool,
}

impl<K, P> Default for PlotView<K, P> {
    fn default() -> Self {
        Self { canvas: Canvas::default(), cached: None, legible: None }
    }
}

impl<K: PartialEq, P: Plot> PlotView<K, P> {
    /// Draws a plot.
    ///
    /// # Errors
    /// If the plot has nothing to show: why.
    pub fn paint(
        &mut self,
        ui: &mut Ui,
        theme: &Theme,
        PlotArea { rect, zoom, min_size }: PlotArea,
        key: K,
        plot: impl FnOnce() -> P,
    ) -> Result<PaintedPlot<'_, P>, Empty> {
        let size = (rect.size() / zoom).max(min_size);
        let key = (key, theme.dark, [size.x.round() as i32, size.y.round() as i32]);
        let is_new = self.cached.as_ref().is_none_or(|cached| cached.key != key);
        if is_new {
            self.cached = None;
        }
        let layout = || {
            let plot = plot();
            let most = plot.max_height(size.x).max(1.4 * plot.height(size.x).max(min_size.y));
            let drawn = plot::draw(&plot, theme, Size { width: size.x, height: size.y.min(most) });
            Cached { key, plot, drawn }
        };
        let Cached { plot, drawn, .. } = self.cached.get_or_insert_with(layout);
        let scene = drawn.as_ref().map_err(Clone::clone)?;
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let top = Rect::from_min_size(rect.min, Vec2::new(rect.width(), scene.height * scale));
        let painted = self.canvas.paint(ui, scene, top);
        if painted.response.has_focus() {
            style::focus(ui, painted.response.rect, 0.0);
        }
        Ok(PaintedPlot { plot, scene, canvas: &self.canvas, painted, is_new })
    }

    /// The plot that was last painted, if it depends on `key`.
    pub fn known(&self, key: &K) -> Option<&P> {
        self.cached.as_ref().filter(|cached| cached.key.0 == *key).map(|cached| &cached.plot)
    }

    /// The scene that was last painted, and where.
    pub fn shown(&self) -> Option<(&Scene, Rect)> {
        Some((self.cached.as_ref()?.drawn.as_ref().ok()?, self.canvas.last()))
    }

    /// Frames what `hover` stands for in the scene that was last painted.
    pub fn mark(&self, ui: &Ui, hover: Hover, theme: &Theme) {
        if let Some((scene, _)) = self.shown() {
            self.canvas.pin(ui, scene, hover, theme);
        }
    }

    /// The smallest size in points at which all of a plot is legible, at `width` points; cached.
    fn legible(&mut self, key: &K, plot: &P, width: f32) -> Vec2 {
        let width = width.round() as i32;
        let same = self.known(key).is_some();
        let known = self.legible.filter(|(at, _)| same && *at == width).map(|(_, size)| size);
        let size = known.unwrap_or_else(|| {
            let Size { width, height } = plot.legible(width as f32);
            Vec2::new(width, height)
        });
        self.legible = Some((width, size));
        size
    }

    /// Draws a plot into the rest of the pane, scrolled if it would be illegible otherwise, and marks the hovered item.
    /// Returns the drawn plot, that item and the response, if an item is hovered. `export` makes the plot for files.
    pub fn fill(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        key: K,
        plot: P,
        export: impl Fn(&P) -> P,
    ) -> Option<(&P, usize, Response)>
    where
        P: 'static,
    {
        let rect = ui.available_rect_before_wrap().shrink(EDGE_PX);
        let (zoom, theme) = (zoom(rect.size()), cx.theme);
        let min_size = self.legible(&key, &plot, rect.width() / zoom).max(MIN_SIZE);
        let fits = zoom * min_size.y <= rect.height() + 1.0 && zoom * min_size.x <= rect.width() + 1.0;
        // A plot that needs no more than the minimum is scaled down instead of scrolled.
        let shown = if fits || min_size == MIN_SIZE {
            self.paint(ui, theme, PlotArea { rect, zoom, min_size: MIN_SIZE }, key, || plot)
        } else {
            let bar = ui.spacing().scroll.allocated_width();
            let size = (zoom * min_size).max(rect.size() - Vec2::splat(bar));
            let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(rect));
            let area = egui::ScrollArea::both().auto_shrink(false);
            let all = |ui: &mut Ui| {
                let (rect, _) = ui.allocate_exact_size(size, egui::Sense::hover());
                self.paint(ui, theme, PlotArea { rect, zoom, min_size }, key, || plot)
            };
            area.show(&mut inside, all).inner
        };
        let PaintedPlot { plot, scene, canvas, painted, .. } = match shown {
            Ok(shown) => shown,
            Err(why) => {
                placeholder::empty(ui, &why.0);
                return None;
            }
        };
        menu(&painted.response, cx, || Arc::new(export(plot)));
        let item = painted.hover.and_then(|hover| hover.item)?;
        canvas.mark(ui, scene, Hover { item: Some(item), ..Hover::default() }, cx.theme);
        Some((plot, item, painted.response))
    }
}

/// The context menu of a plot: export, copy as an image, copy the numbers.
pub fn menu(response: &Response, cx: &mut PanelContext<'_>, plot: impl Fn() -> Arc<dyn Plot>) {
    context_menu(response, |ui| {
        if ui.button("Export…").clicked() {
            cx.actions.push(UiAction::Export(plot()));
        }
        if ui.button("Copy image").clicked() {
            cx.actions.push(UiAction::CopyImage(plot()));
        }
        let about = "The numbers behind it, tab-separated, ready for a spreadsheet";
        if ui.button("Copy numbers").on_hover_text(about).clicked() {
            ui.ctx().copy_text(export::tsv(&plot().table()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viz::figures::plot::Caption;
    use crate::viz::figures::rates::RatesPlot;

    #[test]
    fn letters_are_as_small_in_a_low_pane_as_in_a_narrow_one() {
        let zooms = [(700.0, 500.0), (300.0, 500.0), (700.0, 200.0)].map(|(x, y)| zoom(Vec2::new(x, y)));
        assert_eq!(zooms, [1.7, 1.45, 1.45]);
    }

    #[test]
    fn a_plot_is_known_by_what_it_depends_on_once_it_is_painted() {
        let mut view = PlotView::default();
        let ui = |ui: &mut Ui| {
            let area = PlotArea { rect: ui.max_rect(), zoom: 1.0, min_size: MIN_SIZE };
            let plot = || RatesPlot { grids: Vec::new(), caption: Caption::default() };
            drop(view.paint(ui, &Theme::light(), area, "one", plot));
        };
        drop(egui_kittest::Harness::new_ui(ui));
        assert!(view.known(&"one").is_some() && view.known(&"other").is_none());
    }
}
