//! A plot in a box of a pane: laid out again only when something it depends on changes, painted as large
//! as the box allows, exported and copied through its menu.

use std::sync::Arc;

use eframe::egui;
use egui::{Rect, Response, Ui, Vec2};

use super::{PanelContext, UiAction, placeholder};
use crate::viz::draw::{Canvas, Hover, Painted, Scene, Theme};
use crate::viz::figures::plot::{self, Plot};
use crate::viz::{Empty, Size, export};

/// Room around a picture.
pub const EDGE_PX: f32 = 8.0;
/// Smallest scene of a pane that is laid out, in points; a smaller box shows it scaled down.
const MIN_SIZE: Vec2 = Vec2::new(170.0, 110.0);

/// Pixels a point: a page's 7.5 pt label becomes as large as the window's own words.
pub fn zoom(width: f32) -> f32 {
    (width / 300.0).clamp(1.45, 1.7)
}

/// What is drawn of one plot after another. `K` is what a plot depends on beside its size and the theme.
pub struct PlotView<K, P> {
    canvas: Canvas,
    kept: Option<Cached<K, P>>,
    /// Of what is kept, at a width in points, the smallest size in which all of it can be read.
    least: Option<(i32, Vec2)>,
}

/// A scene and what it is of; the plot is held, so that addresses in its key name what they did.
struct Cached<K, P> {
    key: (K, bool, [i32; 2]),
    plot: P,
    drawn: Result<Scene, Empty>,
}

/// A plot as it was just painted.
pub struct Shown<'a, P> {
    /// The plot that is drawn.
    pub plot: &'a P,
    /// Its picture.
    pub scene: &'a Scene,
    /// What painted it.
    pub canvas: &'a Canvas,
    /// What a person does with it.
    pub painted: Painted,
    /// Whether it is another than in the frame before.
    pub is_new: bool,
}

impl<K, P> Default for PlotView<K, P> {
    fn default() -> Self {
        Self { canvas: Canvas::default(), kept: None, least: None }
    }
}

impl<K: PartialEq, P: Plot> PlotView<K, P> {
    /// Draws a plot into `rect` at `zoom` pixels a point, its scene no smaller than `min_size` points.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn paint(
        &mut self,
        ui: &mut Ui,
        theme: &Theme,
        (rect, zoom, min_size): (Rect, f32, Vec2),
        key: K,
        plot: impl FnOnce() -> P,
    ) -> Result<Shown<'_, P>, Empty> {
        let size = (rect.size() / zoom).max(min_size);
        let key = (key, theme.dark, [size.x.round() as i32, size.y.round() as i32]);
        let is_new = self.kept.as_ref().is_none_or(|kept| kept.key != key);
        if is_new {
            self.kept = None;
        }
        let layout = || {
            let plot = plot();
            let most = plot.max_height(size.x).max(1.4 * plot.height(size.x).max(min_size.y));
            let drawn = plot::draw(&plot, theme, Size { width: size.x, height: size.y.min(most) });
            Cached { key, plot, drawn }
        };
        let Cached { plot, drawn, .. } = self.kept.get_or_insert_with(layout);
        let scene = drawn.as_ref().map_err(Clone::clone)?;
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let top = Rect::from_min_size(rect.min, Vec2::new(rect.width(), scene.height * scale));
        let painted = self.canvas.paint(ui, scene, top);
        Ok(Shown { plot, scene, canvas: &self.canvas, painted, is_new })
    }

    /// The picture that was just painted, and where.
    pub fn shown(&self) -> Option<(&Scene, Rect)> {
        Some((self.kept.as_ref()?.drawn.as_ref().ok()?, self.canvas.last()))
    }

    /// Frames what is marked in the picture that was just painted.
    pub fn mark(&self, ui: &Ui, hover: Hover, theme: &Theme) {
        if let Some((scene, _)) = self.shown() {
            self.canvas.pin(ui, scene, hover, theme);
        }
    }

    /// The smallest size in which all of a plot can be read at `width` points; asked of it once.
    fn least(&mut self, key: &K, plot: &P, width: f32) -> Vec2 {
        let width = width.round() as i32;
        let same = self.kept.as_ref().is_some_and(|kept| kept.key.0 == *key);
        let known = self.least.filter(|(at, _)| same && *at == width).map(|(_, least)| least);
        let least = known.unwrap_or_else(|| {
            let Size { width, height } = plot.legible(width as f32);
            Vec2::new(width, height)
        });
        self.least = Some((width, least));
        least
    }

    /// Draws a plot into the rest of the pane, which scrolls where it would not be read, and marks the item that is pointed at: the plot that is
    /// drawn, that item, and the picture's response. `export` is the plot as files have it.
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
        let (zoom, theme) = (zoom(rect.width()), cx.theme);
        let least = self.least(&key, &plot, rect.width() / zoom).max(MIN_SIZE);
        let fits = zoom * least.y <= rect.height() + 1.0 && zoom * least.x <= rect.width() + 1.0;
        // What has little room and nothing to scroll is drawn smaller.
        let shown = if fits || least == MIN_SIZE {
            self.paint(ui, theme, (rect, zoom, MIN_SIZE), key, || plot)
        } else {
            let bar = ui.spacing().scroll.allocated_width();
            let size = (zoom * least).max(rect.size() - Vec2::splat(bar));
            let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(rect));
            let area = egui::ScrollArea::both().auto_shrink(false);
            let all = |ui: &mut Ui| {
                let (all, _) = ui.allocate_exact_size(size, egui::Sense::hover());
                self.paint(ui, theme, (all, zoom, least), key, || plot)
            };
            area.show(&mut inside, all).inner
        };
        let Shown { plot, scene, canvas, painted, .. } = match shown {
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

/// The menu of a picture under the right button.
pub fn menu(response: &Response, cx: &mut PanelContext<'_>, plot: impl Fn() -> Arc<dyn Plot>) {
    response.context_menu(|ui| {
        if ui.button("Export…").clicked() {
            cx.actions.push(UiAction::Export(plot()));
        }
        if ui.button("Copy image").clicked() {
            cx.actions.push(UiAction::CopyImage(plot()));
        }
        let about = "The numbers behind it, a tab between columns, as a spreadsheet takes them";
        if ui.button("Copy numbers").on_hover_text(about).clicked() {
            ui.ctx().copy_text(export::tsv(&plot().table()));
        }
    });
}
