//! Thumbnails of all images: only the rows in sight are drawn, and only theirs are asked for, so
//! that ten thousand images scroll like ten.

use std::sync::Arc;

use eframe::egui;
use egui::{
    Color32, ColorImage, Pos2, Rect, Role, ScrollArea, Sense, Stroke, StrokeKind, TextureHandle,
    TextureOptions, Ui, Vec2, WidgetInfo,
};
use indexmap::IndexMap;

use super::{PanelContext, gallery_filter, placeholder, true_class};
use crate::app::jobs::{ColumnId, ImageId};
use crate::app::state::command::{Action, Command};
use crate::app::state::{GalleryFilter, Image, Label, Thumbnail};
use crate::app::window::{style, widgets};
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation};
use crate::model::trace::Picture;
use crate::viz::draw::{color32, font};

/// Side of a thumbnail where there is room.
const THUMBNAIL_PX: f32 = 84.0;
/// Gap between thumbnails.
const GAP_PX: f32 = 6.0;
/// Textures kept on the graphics card.
const MAX_TEXTURES: usize = 512;

#[derive(Default)]
pub struct Gallery {
    /// What passes, and of what.
    passed: Option<(FilterKey, Vec<ImageId>)>,
    /// The latest used last.
    textures: IndexMap<ImageId, (Arc<Picture>, TextureHandle)>,
    sight: Vec<ImageId>,
    shown: Option<ImageId>,
    /// Whether the current image is to be brought wholly into sight.
    fetch: bool,
}

/// Everything that decides which images pass.
#[derive(PartialEq)]
struct FilterKey {
    filter: GalleryFilter,
    focus: Option<ColumnId>,
    evaluations: u64,
    notes: u64,
    count: usize,
    last: Option<ImageId>,
}

impl Gallery {
    /// Draws it into what is left of `ui`.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let images = &cx.state.library.images;
        if images.is_empty() {
            if placeholder::invite(ui, "Open images, or drop them here", Action::OpenImages.text()) {
                cx.choose(Action::OpenImages);
            }
            return;
        }
        let (count, last) = (images.len(), images.last().map(|(id, _)| *id));
        gallery_filter::ui(ui, cx, self.passed.as_ref().map_or(count, |(_, ids)| ids.len()));
        let key = FilterKey {
            filter: cx.state.gallery_filter.clone(),
            focus: cx.focus,
            evaluations: cx.state.evaluations.revision,
            notes: cx.state.notes.revision,
            count,
            last,
        };
        if self.passed.as_ref().is_none_or(|(known, _)| *known != key) {
            self.passed = Some((key, cx.state.gallery_images(cx.focus)));
        }
        let passed = self.passed.take();
        if let Some((_, ids)) = &passed {
            if ids.is_empty() {
                placeholder::empty(ui, "No image passes the filter");
            } else {
                self.grid(ui, cx, ids);
            }
        }
        self.passed = passed;
    }

    fn grid(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, ids: &[ImageId]) {
        ui.spacing_mut().item_spacing = Vec2::splat(GAP_PX);
        let width = ui.available_width() - ui.spacing().scroll.allocated_width();
        let columns = (((width + GAP_PX) / (THUMBNAIL_PX + GAP_PX)) as usize).max(1);
        let side = (width + GAP_PX) / columns as f32 - GAP_PX;
        let rows = ids.len().div_ceil(columns);
        let mut area = ScrollArea::vertical().auto_shrink(false);
        // A new current image is scrolled to, wherever it was chosen.
        if cx.state.selection.image != self.shown {
            self.shown = cx.state.selection.image;
            self.fetch = true;
            let at = self.shown.and_then(|image| ids.iter().position(|id| *id == image));
            if let Some(at) = at.filter(|at| !self.sight.contains(&ids[*at])) {
                area = area.vertical_scroll_offset((at / columns) as f32 * (side + GAP_PX));
            }
        }
        let mut sight = Vec::new();
        area.show_rows(ui, side, rows, |ui, range| {
            for row in range {
                ui.horizontal(|ui| {
                    for id in ids[row * columns..].iter().take(columns) {
                        sight.push(*id);
                        self.thumbnail(ui, cx, *id, side);
                    }
                });
            }
        });
        let missing = sight.iter().any(|id| cx.state.thumbnails.get(*id).is_none());
        if sight != self.sight || missing && self.sight.is_empty() {
            cx.send(Command::ShowThumbnails(sight.clone()));
            self.sight = sight;
        }
    }

    fn thumbnail(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, id: ImageId, side: f32) {
        let Some(image) = cx.state.library.images.get(&id) else { return };
        let (rect, response) = ui.allocate_exact_size(Vec2::splat(side), Sense::click());
        let name = image.name();
        let current = cx.state.selection.image == Some(id);
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, current, &name));
        let theme = style::theme(ui);
        ui.painter().rect_filled(rect, 4.0, color32(theme.faint));
        match cx.state.thumbnails.get(id) {
            Some(Thumbnail::Ready(picture)) => {
                let texture = self.texture(ui.ctx(), id, picture);
                // Cut to a square: a gallery is read by its middle parts.
                let size = texture.size_vec2();
                let part = Vec2::splat(size.min_elem()) / size / 2.0;
                let uv = Rect::from_min_max(Pos2::new(0.5, 0.5) - part, Pos2::new(0.5, 0.5) + part);
                let mesh =
                    egui::epaint::RectShape::filled(rect, 4.0, Color32::WHITE).with_texture(texture.id(), uv);
                ui.painter().add(mesh);
            }
            Some(Thumbnail::Failed(_)) => word(ui, rect, "Unreadable"),
            None => {}
        }
        if current && std::mem::take(&mut self.fetch) {
            response.scroll_to_me(None);
        }
        if current {
            let stroke = Stroke::new(2.5, ui.visuals().hyperlink_color);
            ui.painter().rect_stroke(rect, 4.0, stroke, StrokeKind::Inside);
        } else if response.hovered() {
            let stroke = Stroke::new(1.5, color32(theme.axis));
            ui.painter().rect_stroke(rect, 4.0, stroke, StrokeKind::Inside);
        }
        verdict(ui, cx, image, rect);
        let note = cx.state.note_on(id);
        if note.starred {
            let at = rect.left_top() + Vec2::splat(11.0);
            let edge = Stroke::new(1.5, color32(theme.ground));
            widgets::paint_star(ui, at, 7.5, color32(style::starred(&theme)), edge);
        }
        let response = response.on_hover_ui(|ui| {
            ui.label(&name);
            match true_class::class(cx.state, image).zip(image.label) {
                Some((class, label)) => about(ui, cx, label, class),
                None => drop(ui.weak(image.folder())),
            }
            if !note.text.is_empty() {
                ui.label(&note.text);
            }
            if let Some(Thumbnail::Failed(why)) = cx.state.thumbnails.get(id) {
                ui.label(why);
            }
        });
        if response.clicked() {
            cx.send(Command::SelectImage(id));
        }
        response.context_menu(|ui| {
            let text = if note.starred { "Take its star" } else { "Star" };
            if ui.button(text).clicked() {
                cx.send(Command::Star(id, !note.starred));
            }
            if ui.button("Close image").clicked() {
                cx.send(Command::CloseImages(vec![id]));
            }
        });
    }

    fn texture(&mut self, ctx: &egui::Context, id: ImageId, picture: &Arc<Picture>) -> TextureHandle {
        if let Some((at, _, (kept, handle))) = self.textures.get_full(&id)
            && Arc::ptr_eq(kept, picture)
        {
            let handle = handle.clone();
            self.textures.move_index(at, self.textures.len() - 1);
            return handle;
        }
        if self.textures.len() >= MAX_TEXTURES {
            self.textures.shift_remove_index(0);
        }
        let image = ColorImage::from_rgb([picture.width, picture.height], &picture.rgb);
        let handle = ctx.load_texture(format!("thumbnail {}", id.0), image, TextureOptions::LINEAR);
        self.textures.insert(id, (picture.clone(), handle.clone()));
        handle
    }
}

/// A corner that says whether the chosen probe took the image for what it is.
fn verdict(ui: &Ui, cx: &PanelContext<'_>, image: &Image, rect: Rect) {
    let Some(label) = image.label else { return };
    let evaluation = evaluation(cx, label);
    let Some(right) = evaluation.and_then(|evaluation| evaluation.right(label.at)) else { return };
    let color = if right { style::fine(cx.theme) } else { style::failed(cx.theme) };
    let at = Pos2::new(rect.right() - 11.0, rect.top() + 11.0);
    ui.painter().circle(at, 6.0, color32(color), Stroke::new(1.5, color32(cx.theme.ground)));
}

/// What the chosen probe made of the dataset an image is of.
fn evaluation<'a>(cx: &PanelContext<'a>, label: Label) -> Option<&'a Arc<Evaluation>> {
    cx.state.evaluation_on(label.dataset, cx.focus?)?.ok()
}

/// What an image of a dataset is, and what the chosen probe took it for.
fn about(ui: &mut Ui, cx: &PanelContext<'_>, label: Label, class: &str) {
    ui.weak(class);
    let evaluation = evaluation(cx, label);
    if let Some(evaluation) = evaluation.filter(|evaluation| evaluation.readable(label.at)) {
        let sure = evaluation.values(CONFIDENCE).map_or(f32::NAN, |values| 100.0 * values[label.at]);
        let right = if evaluation.right(label.at) == Some(true) { "Right" } else { "Wrong" };
        ui.label(format!("{right}: {}, {sure:.1} %", evaluation.predicted_name(label.at)));
    }
}

fn word(ui: &Ui, rect: Rect, text: &str) {
    let theme = style::theme(ui);
    let text = font::fit(text, 11.0, rect.width() - 6.0);
    let font = egui::FontId::proportional(11.0);
    ui.painter().text(rect.center(), egui::Align2::CENTER_CENTER, text, font, color32(theme.muted));
}
