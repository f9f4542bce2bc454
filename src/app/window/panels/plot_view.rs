//! A plot in a pane: laid out again only when something it depends on changes, painted as large as its
//! box allows, exported and copied through its menu.

use std::sync::Arc;

use eframe::egui;
use egui::{Rect, Response, Ui, Vec2};

use super::figure::zoom;
use super::{NUMBERS, PanelContext, UiAction, placeholder};
use crate::viz::draw::paint::Canvas;
use crate::viz::draw::scene::{Hover, Scene};
use crate::viz::figures::plot::{self, Plot};
use crate::viz::{Empty, Size};

/// Room around a picture.
const EDGE: f32 = 8.0;
/// Smallest scene that is laid out, in points; a smaller box shows it scaled down.
const LEAST: Vec2 = Vec2::new(170.0, 110.0);

/// What is drawn of one plot after another. `K` is what a plot depends on beside its size and the theme.
pub struct Plotted<K, P> {
    canvas: Canvas,
    kept: Option<Kept<K, P>>,
}

/// A scene and what it is of; the plot is held, so that addresses in its key name what they did.
struct Kept<K, P> {
    key: (K, bool, [i32; 2]),
    plot: P,
    drawn: Result<Scene, Empty>,
}

impl<K, P> Default for Plotted<K, P> {
    fn default() -> Self {
        Self { canvas: Canvas::default(), kept: None }
    }
}

impl<K: PartialEq, P: Plot + 'static> Plotted<K, P> {
    /// Draws `plot` into the rest of the pane, and marks what is pointed at: the plot that is drawn, that
    /// item, and the picture's response. `export` is the plot as files have it.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        key: K,
        plot: P,
        export: impl Fn(&P) -> P,
    ) -> Option<(&P, usize, Response)> {
        let rect = ui.available_rect_before_wrap().shrink(EDGE);
        let size = (rect.size() / zoom(rect.width())).max(LEAST);
        let key = (key, cx.theme.dark, [size.x.round() as i32, size.y.round() as i32]);
        if self.kept.as_ref().is_none_or(|kept| kept.key != key) {
            let natural = plot.height(size.x);
            let size = Size { width: size.x, height: size.y.min(natural.max(LEAST.y) * 1.4) };
            let drawn = plot::draw(&plot, cx.theme, size);
            self.kept = Some(Kept { key, plot, drawn });
        }
        let Kept { plot, drawn, .. } = self.kept.as_ref()?;
        let scene = match drawn {
            Ok(scene) => scene,
            Err(why) => {
                placeholder::empty(ui, &why.0);
                return None;
            }
        };
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let top = Rect::from_min_size(rect.min, Vec2::new(rect.width(), scene.height * scale));
        let painted = self.canvas.paint(ui, scene, top);
        painted.response.context_menu(|ui| {
            if ui.button("Export…").clicked() {
                cx.wishes.push(UiAction::ExportPlot(Arc::new(export(plot))));
            }
            if ui.button("Copy image").clicked() {
                cx.wishes.push(UiAction::CopyPlot(Arc::new(export(plot))));
            }
            if ui.button("Copy numbers").on_hover_text(NUMBERS).clicked() {
                ui.ctx().copy_text(plot.table().tsv());
            }
        });
        let item = painted.hover.and_then(|hover| hover.item)?;
        self.canvas.mark(ui, scene, Hover { item: Some(item), ..Hover::default() }, cx.theme);
        Some((plot, item, painted.response))
    }
}
