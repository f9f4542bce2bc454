//! How stable the order of the shown image is under small changes of it and across seeds, as a pane.

use std::sync::Arc;

use eframe::egui;
use egui::{Rect, Ui, Vec2};

use super::figure::zoom;
use super::{Cx, Panel, Place, Wish, notice};
use crate::app::command::Command;
use crate::model::stability::Stability;
use crate::viz::paint::Canvas;
use crate::viz::plot::{self, Plot as _};
use crate::viz::scale::number;
use crate::viz::scene::{Hover, Scene};
use crate::viz::stability::Steadiness;
use crate::viz::{Empty, Size};

/// Room around the picture.
const EDGE: f32 = 8.0;
/// Smallest scene that is laid out, in points.
const LEAST: Vec2 = Vec2::new(170.0, 110.0);

/// Everything a scene depends on.
type Key = (usize, bool, [i32; 2]);

/// The pane.
#[derive(Default)]
pub struct Pane {
    canvas: Canvas,
    /// What is drawn is held, so that its address names it.
    kept: Option<(Key, Arc<Stability>, Result<Scene, Empty>)>,
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

    fn place(&self) -> Place {
        Place::Middle
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut Cx<'_>) {
        let Some(column) = cx.focus else { return cx.hint(ui) };
        if let Some(job) = cx.state.steadying(column) {
            let progress = cx.state.jobs.get(&job).and_then(|job| job.progress.as_ref());
            return notice::busy(ui, "Reading changed pictures", progress);
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
                if notice::invite(ui, hint, "Measure stability") {
                    cx.send(Command::MeasureStability(column));
                }
            }
        }
    }
}

impl Pane {
    fn draw(&mut self, ui: &mut Ui, cx: &mut Cx<'_>, stability: &Arc<Stability>) {
        let rect = ui.available_rect_before_wrap().shrink(EDGE);
        let size = (rect.size() / zoom(rect.width())).max(LEAST);
        let address = Arc::as_ptr(stability).addr();
        let key = (address, cx.theme.dark, [size.x.round() as i32, size.y.round() as i32]);
        let plot = Steadiness(stability.clone());
        if self.kept.as_ref().is_none_or(|(kept, ..)| *kept != key) {
            let natural = plot.height(size.x);
            let size = Size { width: size.x, height: size.y.min(natural.max(LEAST.y) * 1.4) };
            self.kept = Some((key, stability.clone(), plot::draw(&plot, cx.theme, size)));
        }
        let Some((.., drawn)) = &self.kept else { return };
        let scene = match drawn {
            Ok(scene) => scene,
            Err(why) => return notice::empty(ui, &why.0),
        };
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let top = Rect::from_min_size(rect.min, Vec2::new(rect.width(), scene.height * scale));
        let painted = self.canvas.paint(ui, scene, top);
        painted.response.context_menu(|ui| {
            if ui.button("Export…").clicked() {
                cx.wishes.push(Wish::ExportPlot(Arc::new(Steadiness(stability.clone()))));
            }
            if ui.button("Copy image").clicked() {
                cx.wishes.push(Wish::CopyPlot(Arc::new(Steadiness(stability.clone()))));
            }
        });
        let hovered = painted.hover.and_then(|hover| hover.item);
        let Some((item, group)) = hovered.and_then(|item| Some((item, stability.groups.get(item)?))) else {
            return;
        };
        self.canvas.mark(ui, scene, Hover { item: Some(item), ..Hover::default() }, cx.theme);
        painted.response.on_hover_ui_at_pointer(|ui| {
            ui.label(&group.name);
            for (what, tau) in &group.taus {
                ui.weak(format!("{what}: {}", number((tau * 1000.0).round() / 1000.0)));
            }
        });
    }
}
