//! The map of a dataset's images by similarity under the focused probe, as a pane: a click selects an image, a lasso around
//! several filters the gallery to them.

use std::sync::Arc;

use egui::{PointerButton, Pos2, Shape, Stroke};

use super::plot_view::PlotView;
use super::{overview, similarity};
use crate::app::jobs::DatasetId;
use crate::app::state::{GalleryFilter, Scope};
use crate::app::window::panels::prelude::*;
use crate::viz::draw::Scene;
use crate::viz::figures::dataset::{Choice, ColorBy};
use crate::viz::figures::image_map::{INFO, ImageMapPlot};

/// Minimum distance between two corners of the lasso.
const STEP_PX: f32 = 2.0;

#[derive(Default)]
pub struct ImageMapPane {
    /// Keyed by the addresses of evaluation and space, the colours, the image to mark, and the name of the probe.
    plot: PlotView<([usize; 2], ColorBy, Option<usize>, String), ImageMapPlot>,
    /// Corners of the lasso that is being drawn, on the screen.
    lasso: Vec<Pos2>,
}

impl Panel for ImageMapPane {
    fn info(&self) -> Info {
        INFO
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        Some(overview::has_content(cx))
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some((dataset, evaluation)) = overview::evaluation(ui, cx) else { return };
        ui.add_space(6.0);
        inset(ui, |ui| ui.horizontal_wrapped(|ui| controls(ui, cx)));
        let space = match similarity::space(cx, dataset) {
            (Some(Ok(space)), _) => space.clone(),
            (Some(Err(error)), _) => return cx.failed(ui, error),
            (None, job) => return cx.busy(ui, "Comparing the images…", job),
        };
        let selected = cx.state.current_index(dataset);
        let Choice { vectors, similarity, color, .. } = cx.state.views.overview;
        let name = cx.evaluated_name(cx.focus);
        let addresses = [Arc::as_ptr(&evaluation).addr(), Arc::as_ptr(&space).addr()];
        let key = (addresses, color, selected, name.clone());
        let plot = ImageMapPlot { evaluation, name, vectors, similarity, space, color, selected };
        // The mark of the current image is not exported.
        let unmarked = |plot: &ImageMapPlot| ImageMapPlot { selected: None, ..plot.clone() };
        let found = self.plot.fill(ui, cx, key, plot, unmarked);
        if let Some((plot, image, response)) = found {
            let name = plot.item(image);
            let clicked = response.clicked();
            response.on_hover_ui_at_pointer(|ui| {
                ui.label(name);
                ui.weak("Click to show it; drag around several to see them in the gallery");
            });
            if let Some(image) = cx.state.image_at(dataset, image).filter(|_| clicked) {
                cx.send(Command::SelectImage(image));
            }
        }
        if let Some((scene, place)) = self.plot.shown() {
            let caught = lasso(ui, cx, &mut self.lasso, scene, place);
            caught.into_iter().for_each(|images| show(cx, dataset, &images));
        }
    }
}

/// Draws the controls, with a button that clears the lasso's filter.
fn controls(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let before = &cx.state.views.overview;
    let mut chosen = before.clone();
    similarity::choose(ui, &mut chosen);
    // With its name: the filter of the gallery has a list with the same words.
    overview::on_one_line(ui, |ui| {
        let label = ui.label("Colour").id;
        let list = choice(ui, "color by", 140.0, &mut chosen.color, ColorBy::ALL, |color| color.name());
        list.labelled_by(label);
    });
    if chosen != *before {
        cx.send(Command::SetOverview(Box::new(chosen)));
    }
    let filter = &cx.state.gallery_filter;
    if filter.only.is_some() && ui.button("Show all in the gallery").clicked() {
        cx.send(Command::SetGalleryFilter(Box::new(GalleryFilter::new(filter.scope))));
    }
}

/// Draws the lasso while it is dragged; when it ends, the images within it, if any.
fn lasso(
    ui: &Ui,
    cx: &PanelContext<'_>,
    line: &mut Vec<Pos2>,
    scene: &Scene,
    place: Rect,
) -> Option<Vec<usize>> {
    let drag = ui.interact(place, ui.scope_id().with("lasso"), Sense::DRAG);
    if drag.drag_started_by(PointerButton::Primary) {
        line.clear();
        line.extend(ui.input(|input| input.pointer.press_origin()));
    }
    if let Some(at) = drag.interact_pointer_pos().filter(|_| drag.dragged_by(PointerButton::Primary)) {
        let at = place.clamp(at);
        if line.last().is_none_or(|last| last.distance(at) >= STEP_PX) {
            line.push(at);
        }
        let stroke = Stroke::new(1.5, color32(cx.theme.pinned()));
        ui.painter_at(place).add(Shape::closed_line(line.clone(), stroke));
    }
    if !drag.drag_stopped_by(PointerButton::Primary) {
        return None;
    }
    let scale = scene.width / place.width();
    let in_scene = |at: Pos2| [(at.x - place.left()) * scale, (at.y - place.top()) * scale];
    let outline: Vec<_> = std::mem::take(line).into_iter().map(in_scene).collect();
    Some(scene.within(&outline)).filter(|images| !images.is_empty())
}

/// Filters the gallery to these images of a dataset.
fn show(cx: &mut PanelContext<'_>, dataset: DatasetId, images: &[usize]) {
    let ids: Vec<_> = images.iter().filter_map(|at| cx.state.image_at(dataset, *at)).collect();
    let only = Some((format!("{} of the map", counted(ids.len(), "image", "images")), ids.into()));
    let filter = GalleryFilter { only, ..GalleryFilter::new(Scope::Dataset(dataset)) };
    cx.send(Command::SetGalleryFilter(Box::new(filter)));
}
