//! Thumbnails of all images: only visible rows are drawn and only their thumbnails requested, so that
//! ten thousand images scroll like ten.

use std::sync::Arc;

use super::tile::{self, Sheet, Tile};
use super::{ShownImages, gallery_filter};
use crate::app::jobs::ImageId;
use crate::app::state::{Outcome, Overlay, Sort};
use crate::app::window::panels::prelude::*;

/// Side of a thumbnail in a high library.
const THUMBNAIL_PX: f32 = 84.0;
/// Side of a thumbnail in a low one.
const SMALL_PX: f32 = 58.0;
/// Gap between thumbnails.
const GAP_PX: f32 = 6.0;

/// From this height filter and order have lines of their own.
const FILTER_LINES_PX: f32 = 230.0;

#[derive(Default)]
pub struct Gallery {
    /// The images of which tiles are kept.
    listed: Option<Arc<ShownImages>>,
    tiles: tile::Tiles,
    visible: Vec<ImageId>,
    shown: Option<ImageId>,
    /// Whether to scroll until the current image's tile is wholly visible.
    scroll_to_shown: bool,
}

impl Gallery {
    /// Draws the gallery of the library into the rest of `ui`.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let short = ui.available_height() < FILTER_LINES_PX;
        let side = if short { SMALL_PX } else { THUMBNAIL_PX };
        let sheet = Sheet { side, overlay: Overlay::None, columns: Vec::new(), numbers: false };
        self.show(ui, cx, sheet);
    }

    /// Draws the gallery as `sheet` describes it.
    pub fn show(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: Sheet) {
        let images = &cx.state.library.images;
        if images.is_empty() {
            cx.invite(ui, "Open images, or drop them here", Action::OpenImages);
            return;
        }
        let shown = cx.shown;
        if !self.listed.as_ref().is_some_and(|listed| Arc::ptr_eq(listed, shown)) {
            self.tiles.retain(|image| images.contains_key(&image));
            self.listed = Some(shown.clone());
        }
        let short = ui.available_height() < FILTER_LINES_PX;
        gallery_filter::ui(ui, cx, short);
        if let Sort::Similarity(image) = cx.state.gallery_filter.sort {
            gallery_filter::similar_to(ui, cx, image);
        }
        if shown.ids.is_empty() {
            // As through a hand-made order, which is evaluated only on request.
            let unknown = cx.state.gallery_filter.outcome != Outcome::Any
                && cx.focus.is_some_and(|column| cx.state.evaluation_of(column).is_none());
            match unknown && Action::EvaluateShown.enabled(cx.state) {
                true => cx.invite(ui, "Not evaluated: right and wrong are not known", Action::EvaluateShown),
                false => placeholder::empty(ui, "No image matches the filter"),
            }
        } else {
            self.grid(ui, cx, &Sheet { numbers: shown.similarities.is_some(), ..sheet });
        }
    }

    fn grid(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: &Sheet) {
        let shown = cx.shown;
        let ids = &shown.ids;
        ui.spacing_mut().item_spacing = Vec2::splat(GAP_PX);
        let width = ui.available_width() - ui.spacing().scroll.allocated_width();
        let columns = (((width + GAP_PX) / (sheet.size(sheet.side).x + GAP_PX)) as usize).max(1);
        // Tiles share the whole width; a single one that would not fit is made smaller.
        let side = sheet.side_within((width + GAP_PX) / columns as f32 - GAP_PX);
        let size = sheet.size(side);
        let rows = ids.len().div_ceil(columns);
        let mut area = ScrollArea::vertical().auto_shrink(false);
        // Scrolls to a new current image, wherever it was chosen.
        if cx.state.selection.image != self.shown {
            self.shown = cx.state.selection.image;
            self.scroll_to_shown = true;
            let at = self.shown.and_then(|image| ids.get_index_of(&image));
            if let Some(at) = at.filter(|at| !self.visible.contains(&ids[*at])) {
                area = area.vertical_scroll_offset((at / columns) as f32 * (size.y + GAP_PX));
            }
        }
        let mut visible = Vec::new();
        area.show_rows(ui, size.y, rows, |ui, range| {
            for row in range {
                ui.horizontal(|ui| {
                    for id in ids[row * columns..].iter().take(columns) {
                        visible.push(*id);
                        let is_current = cx.state.selection.image == Some(*id);
                        let scroll_to = is_current && std::mem::take(&mut self.scroll_to_shown);
                        let similarity = shown.similarity(cx.state, *id);
                        let tile = Tile { id: *id, side, size, scroll_to, similarity };
                        tile.show(ui, cx, sheet, &mut self.tiles);
                    }
                });
            }
        });
        self.tiles.trim(visible.len() * sheet.parts());
        // Thumbnails may be missing because of the other gallery, another workspace or a full cache.
        if visible != self.visible || cx.state.thumbnails.are_missing(&visible) {
            cx.send(Command::ShowThumbnails(visible.clone()));
            self.visible = visible;
        }
        let columns: &[ColumnId] = if sheet.overlay == Overlay::None { &[] } else { &sheet.columns };
        let both = |image: &ImageId| columns.iter().map(|column| (*column, *image)).collect::<Vec<_>>();
        let maps: Vec<(ColumnId, ImageId)> = self.visible.iter().flat_map(both).collect();
        if !columns.is_empty() && cx.state.lacks_maps(&maps) {
            cx.send(Command::ShowSheet(maps));
        }
    }
}
