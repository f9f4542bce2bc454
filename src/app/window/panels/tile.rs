//! One image of a gallery: its thumbnail, or the maps of one or two probes side by side, and whether its true class was
//! predicted.

use std::any::Any;
use std::sync::{Arc, Weak};

use egui::{Color32, ColorImage, Context, Pos2, Stroke, StrokeKind, TextureHandle, TextureOptions};
use indexmap::IndexMap;

use crate::app::jobs::ImageId;
use crate::app::state::{Image, ImageMap, Label, Overlay};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets;
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation};
use crate::viz::draw::overlay::overlaid;
use crate::viz::draw::{Color, minus};

/// Most textures kept on the GPU, unless more are in sight.
const MAX_TEXTURES: usize = 512;
/// Gap between the two pictures of one image.
const PAIR_PX: f32 = 2.0;
/// Height of the line below a picture that says what was predicted, or the true class until then.
const LINE_PX: f32 = 20.0;
/// Size of its letters.
const LETTER_PX: f32 = 11.0;
/// Minimum side of a picture with text below it.
const NAMED_PX: f32 = 70.0;

/// How a gallery shows its images.
pub struct Sheet {
    /// Side of a picture, before tiles are stretched to fill the width.
    pub side: f32,
    /// What is laid over each.
    pub overlay: Overlay,
    /// Columns whose predictions are below: none in the library, one or two side by side on a contact sheet.
    pub columns: Vec<ColumnId>,
    /// Whether a similarity is below each.
    pub numbers: bool,
}

impl Sheet {
    /// Number of pictures of an image.
    pub fn parts(&self) -> usize {
        self.columns.len().max(1)
    }

    /// Height of the line below a picture of this side; 0 if there is none.
    fn line(&self, side: f32) -> f32 {
        if self.numbers || !self.columns.is_empty() && side >= NAMED_PX { LINE_PX } else { 0.0 }
    }

    /// Size of a tile whose pictures have this side.
    pub fn size(&self, side: f32) -> Vec2 {
        let parts = self.parts() as f32;
        Vec2::new(parts * side + (parts - 1.0) * PAIR_PX, side + self.line(side))
    }

    /// Side of the pictures in a tile of this width.
    pub fn side_within(&self, width: f32) -> f32 {
        let parts = self.parts() as f32;
        ((width - (parts - 1.0) * PAIR_PX) / parts).max(8.0)
    }
}

/// What a texture shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    image: ImageId,
    column: Option<ColumnId>,
    overlay: Overlay,
    dark: bool,
}

/// Cached textures in order of last use, each with its source: while that is referred to, nothing else has its address.
#[derive(Default)]
pub struct Tiles(IndexMap<Key, (Weak<dyn Any + Send + Sync>, TextureHandle)>);

impl Tiles {
    /// The texture of `key`; `make` makes it unless it is cached for the same `source`.
    fn get<T: Any + Send + Sync>(
        &mut self,
        ctx: &Context,
        key: Key,
        source: &Arc<T>,
        make: impl FnOnce() -> ColorImage,
    ) -> TextureHandle {
        if let Some((at, _, (kept, handle))) = self.0.get_full(&key)
            && std::ptr::addr_eq(kept.as_ptr(), Arc::as_ptr(source))
        {
            let handle = handle.clone();
            self.0.move_index(at, self.0.len() - 1);
            return handle;
        }
        let name = format!("thumbnail {}", key.image.0);
        let handle = ctx.load_texture(name, make(), TextureOptions::LINEAR);
        self.0.shift_remove(&key);
        self.0.insert(key, (Arc::downgrade(source) as Weak<dyn Any + Send + Sync>, handle.clone()));
        handle
    }

    /// Frees the textures that were used least recently, but none of the last `shown`: those in sight would be made and uploaded
    /// again in every frame.
    pub fn trim(&mut self, shown: usize) {
        self.0.drain(..self.0.len().saturating_sub(MAX_TEXTURES.max(shown)));
    }

    /// Frees the textures of images for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(ImageId) -> bool) {
        self.0.retain(|key, _| keep(key.image));
    }
}

/// One image.
pub struct Tile {
    pub id: ImageId,
    /// Side of its pictures.
    pub side: f32,
    pub size: Vec2,
    /// Whether to scroll until it is wholly visible.
    pub scroll_to: bool,
    /// Similarity to the image that images are sorted by; NaN if it has none.
    pub similarity: Option<f32>,
}

impl Tile {
    /// Draws the tile, with its tooltip and context menu.
    pub fn show(&self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: &Sheet, tiles: &mut Tiles) {
        let Some(image) = cx.state.library.images.get(&self.id) else { return };
        let (rect, response) = ui.allocate_exact_size(self.size, Sense::click());
        let current = cx.state.selection.image == Some(self.id);
        let number = self.similarity.map(number);
        // Made for screen readers alone: a gallery has hundreds of tiles.
        response.widget_info(|| {
            let similarity = number.as_ref().map(|n| format!("similarity {n}"));
            let label = [label(cx, image)].into_iter().chain(similarity).collect::<Vec<_>>().join(", ");
            WidgetInfo::selected(Role::Button, true, current, label)
        });
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
                (_, Some(column)) => match predicted(cx, self.id, column) {
                    Some((text, right)) => word(ui, line, &text, style::outcome(cx.theme, right)),
                    None if part == 0 => {
                        let class = cx.state.library.true_class(image).unwrap_or_default();
                        word(ui, line, class, cx.theme.muted);
                    }
                    None => {}
                },
                _ => {}
            }
        }
        // Half of the next row is scrolled into view too, so that keyboard focus can move on to it.
        if response.gained_focus() {
            ui.scroll_to_rect(rect.expand2(Vec2::new(0.0, 0.5 * self.size.y)), None);
        }
        if self.scroll_to {
            response.scroll_to_me(None);
        }
        edge(ui, rect, &response, current);
        let starred = cx.state.is_starred(self.id);
        if starred {
            let at = rect.left_top() + Vec2::splat(11.0);
            let edge = Stroke::new(1.5, color32(cx.theme.ground));
            widgets::paint_star(ui, at, color32(style::starred(cx.theme)), edge);
        }
        let response = response.on_hover_ui(|ui| self.about(ui, cx, image, &columns));
        if response.clicked() {
            cx.send(Command::SelectImage(self.id));
        }
        widgets::context_menu(&response, |ui| {
            let text = if starred { "Unstar" } else { "Star" };
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

    /// Draws the image, with the column's map over it once that is known.
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
            (Some(map), _) => tiles.get(ui.ctx(), key, map, || {
                let rgb = match values(map, sheet.overlay) {
                    Some(values) => overlaid(&map.seen, map.grid, values, cx.theme),
                    None => map.seen.rgb.clone(),
                };
                ColorImage::from_rgb([map.seen.width, map.seen.height], &rgb)
            }),
            (None, Some(Ok(picture))) => {
                let key = Key { column: None, overlay: Overlay::None, ..key };
                let make = || ColorImage::from_rgb([picture.width, picture.height], &picture.rgb);
                tiles.get(ui.ctx(), key, picture, make)
            }
            (None, Some(Err(_))) => return word(ui, rect, "Unreadable", cx.theme.muted),
            (None, None) => return,
        };
        // Cropped to the square in the middle.
        let size = texture.size_vec2();
        let part = Vec2::splat(size.min_elem()) / size / 2.0;
        let uv = Rect::from_min_max(Pos2::new(0.5, 0.5) - part, Pos2::new(0.5, 0.5) + part);
        let mesh = egui::epaint::RectShape::filled(rect, 4.0, Color32::WHITE).with_texture(texture.id(), uv);
        ui.painter().add(mesh);
        if map.is_some_and(|map| values(map, sheet.overlay).is_none()) {
            word(ui, rect, "No exact values", cx.theme.ink);
        }
    }

    /// Draws the tooltip: name, true class, predictions, findings, errors.
    fn about(&self, ui: &mut Ui, cx: &PanelContext<'_>, image: &Image, columns: &[Option<ColumnId>]) {
        ui.label(image.name());
        match cx.state.library.true_class(image) {
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
                ui.label(format!("{name}{error}"));
            }
        }
        for (_, finding) in cx.state.findings.of_image(image).filter(|(_, finding)| !finding.note.is_empty())
        {
            ui.label(finding.head(6));
        }
        if let Some(Err(why)) = cx.state.thumbnails.get(self.id) {
            ui.label(why.one_line());
        }
    }
}

/// The values that are laid over the picture, one for each patch.
fn values(map: &ImageMap, overlay: Overlay) -> Option<&[f32]> {
    match overlay {
        Overlay::None => None,
        Overlay::Weight => map.weight.as_deref(),
        Overlay::Evidence => map.evidence.as_deref(),
    }
}

/// Draws the outline of the current image, of the hovered one, and of the one with keyboard focus.
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

/// The column's evaluation on the dataset of an image.
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
        return Some((text, evaluation.is_correct(label.at)));
    }
    let best = cx.state.image_map(column, id)?.ok()?.best.as_ref()?;
    let probe = cx.state.columns.get(&column)?.probe;
    let right = cx.state.library.is_true_class(image, probe, best.index);
    Some((format!("{}, {:.1} %", best.name, 100.0 * best.probability), right))
}

/// The label of an image for screen readers: its name, true class, and whether that was predicted.
fn label(cx: &PanelContext<'_>, image: &Image) -> String {
    let class = cx.state.library.true_class(image).map(|class| format!(", class {class}"));
    let known = image.label.and_then(|label| Some((label, evaluated(cx, label, cx.focus?)?)));
    let verdict = known.and_then(|(label, evaluation)| {
        Some(match evaluation.is_correct(label.at)? {
            true => ", right".to_owned(),
            false => format!(", wrong: predicted {}", evaluation.predicted_name(label.at)),
        })
    });
    [Some(image.name()), class, verdict].into_iter().flatten().collect()
}

/// Draws a dot in the corner that says whether the column's probe predicted the true class.
fn verdict(ui: &Ui, cx: &PanelContext<'_>, image: &Image, column: Option<ColumnId>, rect: Rect) {
    let known = image.label.zip(column);
    let right = known.and_then(|(label, column)| evaluated(cx, label, column)?.is_correct(label.at));
    if right.is_none() {
        return;
    }
    let color = style::outcome(cx.theme, right);
    let at = Pos2::new(rect.right() - 11.0, rect.top() + 11.0);
    let line = Stroke::new(1.5, color32(cx.theme.ground));
    ui.painter().circle(at, 6.0, color32(color), line);
    if right == Some(false) {
        // A wrong one is crossed out: not everybody tells the colours apart.
        for arm in [Vec2::splat(2.8), Vec2::new(2.8, -2.8)] {
            ui.painter().line_segment([at - arm, at + arm], line);
        }
    }
}

/// A similarity as text; a dash if it is NaN.
fn number(similarity: f32) -> String {
    if similarity.is_nan() { "–".to_owned() } else { minus(format!("{similarity:.3}")) }
}

fn word(ui: &Ui, rect: Rect, text: &str, color: Color) {
    let text = font::fit(text, LETTER_PX, rect.width() - 6.0);
    let font = egui::FontId::proportional(LETTER_PX);
    ui.painter().text(rect.center(), egui::Align2::CENTER_CENTER, text, font, color32(color));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textures_in_sight_are_made_once_however_many_they_are() {
        let (ctx, mut tiles, mut made) = (Context::default(), Tiles::default(), 0);
        let (count, source) = (MAX_TEXTURES + 90, Arc::new(1));
        for _ in 0..3 {
            for image in (0..count as u64).map(ImageId) {
                let key = Key { image, column: None, overlay: Overlay::None, dark: false };
                let texture = tiles.get(&ctx, key, &source, || {
                    made += 1;
                    ColorImage::filled([1, 1], Color32::WHITE)
                });
                assert_eq!(texture.size(), [1, 1]);
            }
            tiles.trim(count);
        }
        assert_eq!(made, count);
        tiles.trim(1);
        assert_eq!(tiles.0.len(), MAX_TEXTURES, "out of sight they are dropped");
        assert!(tiles.0.keys().all(|key| key.image.0 >= 90), "the least recently used first");
    }

    #[test]
    fn a_texture_is_made_again_of_a_source_that_takes_the_place_of_one_that_is_gone() {
        let (ctx, mut tiles, mut made) = (Context::default(), Tiles::default(), 0);
        let key = Key { image: ImageId(1), column: None, overlay: Overlay::None, dark: false };
        for picture in 0..9 {
            // Freed at the end of each turn: its memory would be that of the next one.
            let source = Arc::new([picture; 40]);
            drop(tiles.get(&ctx, key, &source, || {
                made += 1;
                ColorImage::filled([1, 1], Color32::WHITE)
            }));
        }
        assert_eq!(made, 9);
    }
}
