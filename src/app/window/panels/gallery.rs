//! Thumbnails of all images: only the rows in sight are drawn, and only theirs are asked for, so
//! that ten thousand images scroll like ten.

use std::sync::Arc;

use eframe::egui;
use egui::{ScrollArea, Ui, Vec2};

use super::tile::{self, Sheet, Tile};
use super::{PanelContext, gallery_filter, placeholder};
use crate::app::jobs::{ColumnId, DatasetId, ImageId};
use crate::app::state::command::{Action, Command};
use crate::app::state::{GalleryFilter, Sort};

/// Side of a thumbnail where there is room.
const THUMBNAIL_PX: f32 = 84.0;
/// The same where there is little.
const SMALL_PX: f32 = 58.0;
/// Gap between thumbnails.
const GAP_PX: f32 = 6.0;

/// Least height in which what filters and sorts has lines of its own.
const FILTER_LINES_PX: f32 = 230.0;

#[derive(Default)]
pub struct Gallery {
    /// What passes, and of what.
    passed: Option<Passed>,
    tiles: tile::Tiles,
    sight: Vec<ImageId>,
    /// What probes were asked about last, and as what.
    asked: Option<(Vec<(ColumnId, ImageId)>, String)>,
    shown: Option<ImageId>,
    /// Whether the current image is to be brought wholly into sight.
    fetch: bool,
}

/// The images that pass, and how alike they are to one of them where they are sorted by that.
struct Passed {
    key: FilterKey,
    ids: Vec<ImageId>,
    alike: Option<(DatasetId, Vec<f32>)>,
}

impl Passed {
    fn new(key: FilterKey, cx: &PanelContext<'_>) -> Self {
        let alike = match key.filter.sort {
            Sort::Similarity(image) => key.focus.and_then(|column| cx.state.similarities(image, column)),
            _ => None,
        };
        Self { ids: cx.state.gallery_images(key.focus), key, alike }
    }

    /// How alike an image is.
    fn similarity(&self, cx: &PanelContext<'_>, id: ImageId) -> Option<f32> {
        let label = cx.state.library.images.get(&id)?.label?;
        let (_, alike) = self.alike.as_ref().filter(|(dataset, _)| *dataset == label.dataset)?;
        alike.get(label.at).copied()
    }
}

/// Everything that decides which images pass.
#[derive(PartialEq)]
struct FilterKey {
    filter: GalleryFilter,
    focus: Option<ColumnId>,
    evaluations: u64,
    /// Whose answers are asked for, as probes and backbones are now: none of another layer, size or seed.
    asked: [Option<usize>; 3],
    flipped: bool,
    findings: u64,
    count: usize,
    last: Option<ImageId>,
}

impl Gallery {
    /// Draws it into what is left of `ui`, as the library has it.
    pub fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let short = ui.available_height() < FILTER_LINES_PX;
        let side = if short { SMALL_PX } else { THUMBNAIL_PX };
        let sheet = Sheet { side, overlay: tile::Overlay::None, columns: Vec::new(), numbers: false };
        self.show(ui, cx, &sheet);
    }

    /// Draws it as a contact sheet.
    pub fn show(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: &Sheet) {
        let images = &cx.state.library.images;
        if images.is_empty() {
            if placeholder::invite(ui, "Open images, or drop them here", Action::OpenImages.text()) {
                cx.choose(Action::OpenImages);
            }
            return;
        }
        let (count, last) = (images.len(), images.last().map(|(id, _)| *id));
        let short = ui.available_height() < FILTER_LINES_PX;
        gallery_filter::ui(ui, cx, short, self.passed.as_ref().map_or(count, |passed| passed.ids.len()));
        let alike = match cx.state.gallery_filter.sort {
            Sort::Similarity(image) => gallery_filter::similar_to(ui, cx, image),
            _ => None,
        };
        let asked = |column: ColumnId| Some(Arc::as_ptr(cx.state.evaluation_of(column)?.ok()?).addr());
        let other = match cx.state.gallery_filter.sort {
            Sort::Disagreement(column) => Some(column),
            _ => None,
        };
        let key = FilterKey {
            filter: cx.state.gallery_filter.clone(),
            focus: cx.focus,
            evaluations: cx.state.evaluations.revision,
            asked: [
                cx.focus.and_then(asked),
                other.and_then(asked),
                alike.map(|space| Arc::as_ptr(&space).addr()),
            ],
            flipped: cx.state.views.overview.flipped,
            findings: cx.state.findings.revision,
            count,
            last,
        };
        if self.passed.as_ref().is_none_or(|passed| passed.key != key) {
            self.tiles.retain(|image| images.contains_key(&image));
            self.passed = Some(Passed::new(key, cx));
        }
        let passed = self.passed.take();
        if let Some(passed) = &passed {
            if passed.ids.is_empty() {
                placeholder::empty(ui, "No image passes the filter");
            } else {
                let numbers = passed.alike.is_some();
                self.grid(ui, cx, &Sheet { numbers, ..sheet.clone() }, passed);
            }
        }
        self.passed = passed;
    }

    fn grid(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, sheet: &Sheet, passed: &Passed) {
        let ids = &passed.ids;
        ui.spacing_mut().item_spacing = Vec2::splat(GAP_PX);
        let width = ui.available_width() - ui.spacing().scroll.allocated_width();
        let columns = (((width + GAP_PX) / (sheet.size(sheet.side).x + GAP_PX)) as usize).max(1);
        // They share the width, so that none is left over; where one alone would not fit, it is smaller.
        let side = sheet.side_within((width + GAP_PX) / columns as f32 - GAP_PX);
        let size = sheet.size(side);
        let rows = ids.len().div_ceil(columns);
        let mut area = ScrollArea::vertical().auto_shrink(false);
        // A new current image is scrolled to, wherever it was chosen.
        if cx.state.selection.image != self.shown {
            self.shown = cx.state.selection.image;
            self.fetch = true;
            let at = self.shown.and_then(|image| ids.iter().position(|id| *id == image));
            if let Some(at) = at.filter(|at| !self.sight.contains(&ids[*at])) {
                area = area.vertical_scroll_offset((at / columns) as f32 * (size.y + GAP_PX));
            }
        }
        let mut sight = Vec::new();
        area.show_rows(ui, size.y, rows, |ui, range| {
            for row in range {
                ui.horizontal(|ui| {
                    for id in ids[row * columns..].iter().take(columns) {
                        sight.push(*id);
                        let fetch = cx.state.selection.image == Some(*id) && std::mem::take(&mut self.fetch);
                        let similarity = passed.similarity(cx, *id);
                        Tile { id: *id, side, size, fetch, similarity }.show(ui, cx, sheet, &mut self.tiles);
                    }
                });
            }
        });
        // The other gallery, another workspace or too many of them may have been in the way.
        if sight != self.sight || cx.state.thumbnails.are_missing(&sight) {
            cx.send(Command::ShowThumbnails(sight.clone()));
            self.sight = sight;
        }
        self.ask(cx, sheet);
    }

    /// Wants what probes make of the images in sight, where that is laid over them; once for what is the same.
    fn ask(&mut self, cx: &mut PanelContext<'_>, sheet: &Sheet) {
        let columns = sheet.asked();
        if columns.is_empty() {
            return self.asked = None;
        }
        let both = |image: &ImageId| columns.iter().map(|column| (*column, *image)).collect::<Vec<_>>();
        let wanted: Vec<(ColumnId, ImageId)> = self.sight.iter().flat_map(both).collect();
        let asked = (wanted, cx.state.sheet_stamp(&columns));
        if self.asked.as_ref() != Some(&asked) {
            cx.send(Command::ShowSheet(asked.0.clone()));
            self.asked = Some(asked);
        }
    }
}
