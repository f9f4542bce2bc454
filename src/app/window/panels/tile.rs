//! One image of a gallery: its small picture, or what one or two probes make of it side by side; what it is and whether
//! that was predicted.

use std::sync::Arc;

use eframe::egui;
use egui::{
    Color32, ColorImage, Pos2, Rect, Response, Role, Sense, Stroke, StrokeKind, TextureHandle,
    TextureOptions, Ui, Vec2, WidgetInfo,
};
use indexmap::IndexMap;

use super::PanelContext;
use super::true_class::class as true_class;
use crate::app::jobs::{ColumnId, ImageId};
use crate::app::state::command::Command;
use crate::app::state::{Image, ImageMap, Label, Thumbnail};
use crate::app::window::{style, widgets};
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation};
use crate::model::trace::Picture;
use crate::viz::draw::overlay::overlaid;
use crate::viz::draw::{Color, color32, font};

/// Textures kept on the graphics card.
const MAX_TEXTURES: usize = 512;
/// Gap between the two pictures of one image.
const PAIR_PX: f32 = 2.0;
/// Height of the line below a picture that says what was predicted.
const LINE_PX: f32 = 16.0;
/// Size of its letters.
const LETTER_PX: f32 = 11.0;
/// Least side of a picture with words below it.
const NAMED_PX: f32 = 70.0;

/// What is laid over a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlay {
    /// Nothing: the whole photograph's middle.
    #[default]
    None,
    /// What every token counts.
    Weight,
    /// What every token adds to the logit.
    Evidence,
}

/// How images are shown.
#[derive(Clone)]
pub struct Sheet {
    /// Side of a picture, before it is stretched to the width.
    pub side: f32,
    /// What is laid over each.
    pub overlay: Overlay,
    /// Whose predictions stand below: none in the library, one or two beside each other on a contact sheet.
    pub columns: Vec<ColumnId>,
    /// Whether each has a number below, in words of its own.
    pub numbers: bool,
}

impl Sheet {
    fn parts(&self) -> usize {
        self.columns.len().max(1)
    }

    fn line(&self, side: f32) -> f32 {
        if self.numbers || !self.columns.is_empty() && side >= NAMED_PX { LINE_PX } else { 0.0 }
    }

    /// Width and height of an image whose pictures are so large.
    pub fn size(&self, side: f32) -> Vec2 {
        let parts = self.parts() as f32;
        Vec2::new(parts * side + (parts - 1.0) * PAIR_PX, side + self.line(side))
    }

    /// The side of its pictures where an image is so wide.
    pub fn side_within(&self, width: f32) -> f32 {
        let parts = self.parts() as f32;
        ((width - (parts - 1.0) * PAIR_PX) / parts).max(8.0)
    }

    /// The columns that are asked about every image in sight.
    pub fn asked(&self) -> Vec<ColumnId> {
        if self.overlay == Overlay::None { Vec::new() } else { self.columns.clone() }
    }
}

/// What a texture is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    image: ImageId,
    column: Option<ColumnId>,
    overlay: Overlay,
    dark: bool,
}

/// Textures, the latest used last, each with the address of what it was made of.
#[derive(Default)]
pub struct Tiles(IndexMap<Key, (usize, TextureHandle)>);

impl Tiles {
    fn get(&mut self, ui: &Ui, key: Key, of: usize, make: impl FnOnce() -> ColorImage) -> TextureHandle {
        if let Some((at, _, (kept, handle))) = self.0.get_full(&key)
            && *kept == of
        {
            let handle = handle.clone();
            self.0.move_index(at, self.0.len() - 1);
            return handle;
        }
        if self.0.len() >= MAX_TEXTURES {
            self.0.shift_remove_index(0);
        }
        let name = format!("thumbnail {}", key.image.0);
        let handle = ui.ctx().load_texture(name, make(), TextureOptions::LINEAR);
        self.0.insert(key, (of, handle.clone()));
        handle
    }

    /// Gives back those of images that went.
    pub fn retain(&mut self, stays: impl Fn(ImageId) -> bool) {
        self.0.retain(|key, _| stays(key.image));
    }
}

/// One image.
pub struct Tile {
    pub id: ImageId,
    /// Side of its pictures.
    pub side: f32,
    /// All of it.
    pub size: Vec2,
    /// Whether it is to be brought wholly into sight.
    pub fetch: bool,
    /// How alike it is to another, where images are sorted by that; not a number where it has none.
    pub similarity: Option<f32>,
}

impl Tile {
    /// Draws it.
    pub fn show(&self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: &Sheet, tiles: &mut Tiles) {
        let Some(image) = cx.state.library.images.get(&self.id) else { return };
        let (rect, response) = ui.allocate_exact_size(self.size, Sense::click());
        let current = cx.state.selection.image == Some(self.id);
        let number = self.similarity.map(number);
        let said = [said(cx, image)].into_iter().chain(number.as_ref().map(|n| format!("similarity {n}")));
        let said = said.collect::<Vec<_>>().join(", ");
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, current, &said));
        let columns: Vec<Option<ColumnId>> = match &sheet.columns[..] {
            [] => vec![None],
            columns => columns.iter().copied().map(Some).collect(),
        };
        for (part, column) in columns.iter().enumerate() {
            let left = rect.left() + part as f32 * (self.side + PAIR_PX);
            let place = Rect::from_min_size(Pos2::new(left, rect.top()), Vec2::splat(self.side));
            self.picture(ui, cx, sheet, tiles, (place, *column));
            verdict(ui, cx, image, column.or(cx.focus), place);
            let line = Rect::from_min_size(place.left_bottom(), Vec2::new(self.side, LINE_PX));
            match (&number, column.filter(|_| sheet.line(self.side) > 0.0)) {
                (Some(number), _) if part == 0 => word(ui, line, number, cx.theme.ink),
                (_, Some(column)) => prediction(ui, cx, self.id, column, line),
                _ => {}
            }
        }
        // The next row is in sight as well, so that the keyboard comes to it.
        if response.gained_focus() {
            ui.scroll_to_rect(rect.expand2(Vec2::new(0.0, 0.5 * self.size.y)), None);
        }
        if self.fetch {
            response.scroll_to_me(None);
        }
        edge(ui, rect, &response, current);
        let starred = cx.state.is_starred(self.id);
        if starred {
            let at = rect.left_top() + Vec2::splat(11.0);
            let edge = Stroke::new(1.5, color32(cx.theme.ground));
            widgets::paint_star(ui, at, 7.5, color32(style::starred(cx.theme)), edge);
        }
        let response = response.on_hover_ui(|ui| self.about(ui, cx, image, &columns));
        if response.clicked() {
            cx.send(Command::SelectImage(self.id));
        }
        response.context_menu(|ui| {
            let text = if starred { "Take its star" } else { "Star" };
            if ui.button(text).clicked() {
                cx.send(Command::Star(self.id, !starred));
            }
            let like = "Images like this one";
            if image.label.is_some() && cx.focus.is_some() && ui.button(like).clicked() {
                cx.send(Command::FindSimilar(self.id));
            }
            if ui.button("Close image").clicked() {
                cx.send(Command::CloseImages(vec![self.id]));
            }
        });
    }

    /// Its picture, under what a probe makes of it once that is known.
    fn picture(
        &self,
        ui: &Ui,
        cx: &PanelContext<'_>,
        sheet: &Sheet,
        tiles: &mut Tiles,
        (rect, column): (Rect, Option<ColumnId>),
    ) {
        ui.painter().rect_filled(rect, 4.0, color32(cx.theme.faint));
        let key = Key { image: self.id, column, overlay: sheet.overlay, dark: cx.theme.dark };
        let map = column.filter(|_| sheet.overlay != Overlay::None);
        let map = map.and_then(|column| cx.state.image_map(column, self.id)).and_then(Result::ok);
        let texture = match (map, cx.state.thumbnails.get(self.id)) {
            (Some(map), _) => tiles.get(ui, key, Arc::as_ptr(map).addr(), || {
                let rgb = match values(map, sheet.overlay) {
                    Some(values) => overlaid(&map.seen, map.grid, values, cx.theme),
                    None => map.seen.rgb.clone(),
                };
                ColorImage::from_rgb([map.seen.width, map.seen.height], &rgb)
            }),
            (None, Some(Thumbnail::Ready(picture))) => {
                let key = Key { column: None, overlay: Overlay::None, ..key };
                tiles.get(ui, key, Arc::as_ptr(picture).addr(), || whole(picture))
            }
            (None, Some(Thumbnail::Failed(_))) => return word(ui, rect, "Unreadable", cx.theme.muted),
            (None, None) => return,
        };
        // Cut to a square: a gallery is read by its middle parts.
        let size = texture.size_vec2();
        let part = Vec2::splat(size.min_elem()) / size / 2.0;
        let uv = Rect::from_min_max(Pos2::new(0.5, 0.5) - part, Pos2::new(0.5, 0.5) + part);
        let mesh = egui::epaint::RectShape::filled(rect, 4.0, Color32::WHITE).with_texture(texture.id(), uv);
        ui.painter().add(mesh);
        if map.is_some_and(|map| values(map, sheet.overlay).is_none()) {
            word(ui, rect, "No exact values", cx.theme.ink);
        }
    }

    /// What is known of it, beside the pointer.
    fn about(&self, ui: &mut Ui, cx: &PanelContext<'_>, image: &Image, columns: &[Option<ColumnId>]) {
        ui.label(image.name());
        match true_class(cx.state, image) {
            Some(class) => drop(ui.weak(format!("True class {class}"))),
            None => drop(ui.weak(image.folder())),
        }
        for column in columns.iter().filter_map(|column| column.or(cx.focus)) {
            let name = if columns.len() > 1 { cx.state.column_title(column) + ": " } else { String::new() };
            if let Some((text, right)) = predicted(cx, self.id, column) {
                let verdict = right.map_or("", |right| if right { "Right: " } else { "Wrong: " });
                ui.label(format!("{name}{verdict}{text}"));
            }
            if let Some(Err(error)) = cx.state.image_map(column, self.id) {
                ui.label(format!("{name}{}", error.lines.join(": ")));
            }
        }
        for (_, finding) in cx.state.findings.of(image).filter(|(_, finding)| !finding.note.is_empty()) {
            ui.label(finding.head(6));
        }
        if let Some(Thumbnail::Failed(why)) = cx.state.thumbnails.get(self.id) {
            ui.label(why);
        }
    }
}

fn whole(picture: &Picture) -> ColorImage {
    ColorImage::from_rgb([picture.width, picture.height], &picture.rgb)
}

/// What is laid over the picture, one number a patch.
fn values(map: &ImageMap, overlay: Overlay) -> Option<&[f32]> {
    match overlay {
        Overlay::None => None,
        Overlay::Weight => map.weight.as_deref(),
        Overlay::Evidence => map.evidence.as_deref(),
    }
}

/// The edge: of the current image, of the one with the keyboard, of the one under the pointer.
fn edge(ui: &Ui, rect: Rect, response: &Response, current: bool) {
    let theme = style::theme(ui);
    if current {
        let stroke = Stroke::new(2.5, ui.visuals().hyperlink_color);
        ui.painter().rect_stroke(rect, 4.0, stroke, StrokeKind::Inside);
    } else if response.hovered() {
        let stroke = Stroke::new(1.5, color32(theme.axis));
        ui.painter().rect_stroke(rect, 4.0, stroke, StrokeKind::Inside);
    }
    if response.has_focus() {
        style::focus(ui, rect, 4.0);
    }
}

/// What a column's probe made of the dataset an image is of.
fn evaluated<'a>(cx: &PanelContext<'a>, label: Label, column: ColumnId) -> Option<&'a Arc<Evaluation>> {
    cx.state.evaluation_on(label.dataset, column)?.ok()
}

/// The class a column predicts with its probability, and whether it is the true one where that is known.
fn predicted(cx: &PanelContext<'_>, id: ImageId, column: ColumnId) -> Option<(String, Option<bool>)> {
    let image = cx.state.library.images.get(&id)?;
    let known = image.label.and_then(|label| Some((label, evaluated(cx, label, column)?)));
    if let Some((label, evaluation)) = known.filter(|(label, known)| known.readable(label.at)) {
        let sure = evaluation.values(CONFIDENCE).map_or(f32::NAN, |values| 100.0 * values[label.at]);
        let text = format!("{}, {sure:.1} %", evaluation.predicted_name(label.at));
        return Some((text, evaluation.right(label.at)));
    }
    let best = cx.state.image_map(column, id)?.ok()?.best.as_ref()?;
    let right = true_class(cx.state, image).map(|class| class == best.name);
    Some((format!("{}, {:.1} %", best.name, 100.0 * best.probability), right))
}

/// Its name, its class and the verdict on it, as a screen reader says them.
fn said(cx: &PanelContext<'_>, image: &Image) -> String {
    let class = true_class(cx.state, image).map(|class| format!(", class {class}"));
    let known = image.label.and_then(|label| Some((label, evaluated(cx, label, cx.focus?)?)));
    let verdict = known.and_then(|(label, evaluation)| {
        Some(match evaluation.right(label.at)? {
            true => ", right".to_owned(),
            false => format!(", wrong: predicted {}", evaluation.predicted_name(label.at)),
        })
    });
    [Some(image.name()), class, verdict].into_iter().flatten().collect()
}

/// A corner that says whether a probe predicted the true class.
fn verdict(ui: &Ui, cx: &PanelContext<'_>, image: &Image, column: Option<ColumnId>, rect: Rect) {
    let known = image.label.zip(column);
    let right = known.and_then(|(label, column)| evaluated(cx, label, column)?.right(label.at));
    let Some(right) = right else { return };
    let color = if right { style::fine(cx.theme) } else { style::failed(cx.theme) };
    let at = Pos2::new(rect.right() - 11.0, rect.top() + 11.0);
    ui.painter().circle(at, 6.0, color32(color), Stroke::new(1.5, color32(cx.theme.ground)));
}

/// A similarity as it is read; a dash where there is none.
fn number(similarity: f32) -> String {
    if similarity.is_nan() { "–".to_owned() } else { format!("{similarity:.3}").replace('-', "−") }
}

/// The line below a picture.
fn prediction(ui: &Ui, cx: &PanelContext<'_>, id: ImageId, column: ColumnId, rect: Rect) {
    if let Some((text, right)) = predicted(cx, id, column) {
        let color = match right {
            Some(true) => style::fine(cx.theme),
            Some(false) => style::failed(cx.theme),
            None => cx.theme.muted,
        };
        word(ui, rect, &text, color);
    }
}

fn word(ui: &Ui, rect: Rect, text: &str, color: Color) {
    let text = font::fit(text, LETTER_PX, rect.width() - 6.0);
    let font = egui::FontId::proportional(LETTER_PX);
    ui.painter().text(rect.center(), egui::Align2::CENTER_CENTER, text, font, color32(color));
}
