//! Sections of the library: each folds, and a person can drag the height of the lists. By default the images have the
//! larger part.

use egui::{CursorIcon, pos2};

use super::library_row::HEIGHT_PX;
use crate::app::state::settings::LibrarySections;
use crate::app::window::panels::prelude::*;

/// Height of a row and the gap below it.
const ROW_PX: f32 = HEIGHT_PX + 2.0;
/// In a library lower than this, backbones and datasets are folded by default.
const SHORT_PX: f32 = 560.0;
/// Minimum share of the height that images have by default.
const IMAGES_SHARE: f32 = 0.42;
/// Height of a section's name, and of the gap and the edge below its list.
const HEAD_PX: f32 = 36.0;
/// Minimum height that dragging leaves to the images.
const MIN_IMAGES_PX: f32 = 96.0;
/// Minimum width for the content of a folded section: in less, a letter or two would be left of it.
const MIN_CONTENT_PX: f32 = 40.0;
/// Height of the edge below a list, to drag.
const EDGE_PX: f32 = 7.0;

/// A section of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Backbones,
    Probes,
    Datasets,
    Images,
}

impl Section {
    /// Its name, on the screen and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backbones => "Backbones",
            Self::Probes => "Probes",
            Self::Datasets => "Datasets",
            Self::Images => "Images",
        }
    }

    /// Whether it is folded, in a library `all` high: as a person left it, else by default.
    pub fn is_folded(self, kept: &LibrarySections, all: f32) -> bool {
        let short = all < SHORT_PX && matches!(self, Self::Backbones | Self::Datasets);
        kept.folded.get(self.name()).copied().unwrap_or(short)
    }
}

/// Heights of the lists of backbones, probes and datasets, which have `rows` rows (0 if folded), in a library `all` high
/// of which `other` is taken by something else.
pub fn heights(kept: &LibrarySections, rows: [usize; 3], all: f32, other: f32) -> [f32; 3] {
    let sections = [Section::Backbones, Section::Probes, Section::Datasets];
    let images = !Section::Images.is_folded(kept, all);
    let room = (all - 4.0 * HEAD_PX - other).max(0.0);
    let whole = rows.map(|rows| rows as f32 * ROW_PX);
    let dragged = sections.map(|section| kept.heights.get(section.name()).copied());
    // By default backbones and datasets show a few rows, and probes what is left.
    let most = [3.0 * ROW_PX, f32::INFINITY, 2.0 * ROW_PX];
    let mut wanted: [f32; 3] =
        std::array::from_fn(|at| dragged[at].unwrap_or(most[at]).min(whole[at]).max(whole[at].min(ROW_PX)));
    let shrink = |at: usize, free: f32, wanted: &mut [f32; 3]| {
        let over = (wanted.iter().sum::<f32>() - free).max(0.0);
        let least = whole[at].min(if at == 1 { 2.0 * ROW_PX } else { ROW_PX });
        wanted[at] = (wanted[at] - over).max(least.min(wanted[at]));
    };
    let free = if images { room - IMAGES_SHARE * all } else { room };
    for at in [1, 2, 0].into_iter().filter(|at| dragged[*at].is_none()) {
        shrink(at, free, &mut wanted);
    }
    // Dragged heights shrink only to leave the minimum to the images.
    let least = if images { MIN_IMAGES_PX } else { 0.0 };
    for at in [1, 2, 0] {
        shrink(at, room - least, &mut wanted);
    }
    wanted
}

/// Draws the header of a section in a library `all` high: its name, which folds it, buttons for `actions` and, if folded, its
/// `content`. Whether it is unfolded.
pub fn header(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    section: Section,
    all: f32,
    content: &str,
    actions: &[(Action, &str)],
) -> bool {
    let kept = &cx.state.settings.library;
    let folded = section.is_folded(kept, all);
    ui.horizontal(|ui| {
        let width = 18.0 + font::width(section.name(), 14.5) + 6.0;
        let (rect, response) = ui.allocate_exact_size(Vec2::new(width, 24.0), Sense::click());
        let icon = Rect::from_center_size(pos2(rect.left() + 6.0, rect.center().y), Vec2::splat(10.0));
        let small = response.clone().with_new_rect(icon);
        egui::collapsing_header::paint_default_icon(ui, if folded { 0.0 } else { 1.0 }, &small);
        let at = pos2(rect.left() + 16.0, rect.center().y);
        let (font, ink) = (egui::FontId::proportional(14.5), ui.visuals().strong_text_color());
        ui.painter().text(at, egui::Align2::LEFT_CENTER, section.name(), font, ink);
        let label = format!("{} {}", if folded { "Unfold" } else { "Fold" }, section.name().to_lowercase());
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, !folded, &label));
        if response.has_focus() {
            style::focus(ui, rect, 4.0);
        }
        if response.on_hover_text(&label).clicked() {
            let mut next = kept.clone();
            next.folded.insert(section.name().to_owned(), !folded);
            cx.send(Command::SetLibrary(Box::new(next)));
        }
        let room = at_right(ui, |ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            for (action, text) in actions {
                let button = ui.small_button(*text).accessible_name(action.text());
                if button.on_hover_text(action.keyed()).clicked() {
                    cx.choose(*action);
                }
            }
        });
        if folded && !content.is_empty() && room.width() >= MIN_CONTENT_PX {
            let room = UiBuilder::new().max_rect(room).layout(Layout::left_to_right(Align::Center));
            ui.scope_builder(room, |ui| {
                ui.add(egui::Label::new(RichText::new(content).small().weak()).truncate());
            });
        }
    });
    !folded
}

/// Draws the edge below a list `height` high: dragging it changes that height, a double click restores the default.
pub fn edge(ui: &mut Ui, cx: &mut PanelContext<'_>, section: Section, height: f32) {
    let (rect, _) = ui.allocate_exact_size(Vec2::new(ui.available_width(), EDGE_PX), Sense::hover());
    // Not a stop of the Tab key, which drags nothing.
    let sense = Sense::CLICK | Sense::DRAG;
    let response = ui.interact(rect, ui.scope_id().with(("edge", section.name())), sense);
    let label = format!("Resize {}", section.name().to_lowercase());
    response.widget_info(|| WidgetInfo::labeled(Role::Splitter, true, &label));
    let response = response.on_hover_cursor(CursorIcon::ResizeVertical);
    let active = response.hovered() || response.dragged();
    let color = if active { cx.theme.axis } else { cx.theme.faint };
    let middle = rect.center();
    let half = if active { rect.width() / 2.0 } else { 14.0 };
    ui.painter().hline(middle.x - half..=middle.x + half, middle.y, egui::Stroke::new(1.5, color32(color)));
    let kept = &cx.state.settings.library;
    if response.double_clicked() {
        let mut next = kept.clone();
        next.heights.remove(section.name());
        cx.send(Command::SetLibrary(Box::new(next)));
    } else if response.dragged() && response.drag_delta().y != 0.0 {
        let mut next = kept.clone();
        let wanted = (height + response.drag_delta().y).max(ROW_PX);
        next.heights.insert(section.name().to_owned(), wanted);
        cx.send(Command::SetLibrary(Box::new(next)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_keep_their_part_and_what_is_dragged_its_height() {
        let kept = LibrarySections::default();
        let first = heights(&kept, [1, 25, 1], 800.0, 30.0);
        assert_eq!((first[0], first[2]), (ROW_PX, ROW_PX), "a list is no higher than its rows");
        let images = 800.0 - 4.0 * HEAD_PX - 30.0 - first.iter().sum::<f32>();
        assert!(images >= IMAGES_SHARE * 800.0 - 1.0, "{images} for the images");
        assert!(first[1] > 3.0 * ROW_PX, "{first:?}");
        // A low library: folded sections have no rows; probes have two rows or more, and what images leave.
        let small = heights(&kept, [0, 25, 0], 400.0, 0.0);
        assert_eq!(small, [0.0, 400.0 - 4.0 * HEAD_PX - IMAGES_SHARE * 400.0, 0.0]);
        assert!(small[1] >= 2.0 * ROW_PX, "{small:?}");
        assert!(Section::Backbones.is_folded(&kept, 400.0) && !Section::Backbones.is_folded(&kept, 800.0));
        let dragged = LibrarySections { heights: [("Probes".to_owned(), 420.0)].into(), ..kept.clone() };
        assert_eq!(heights(&dragged, [1, 25, 1], 800.0, 30.0)[1], 420.0);
        let beyond = LibrarySections { heights: [("Probes".to_owned(), 9000.0)].into(), ..kept.clone() };
        let left =
            800.0 - 4.0 * HEAD_PX - 30.0 - heights(&beyond, [1, 25, 1], 800.0, 30.0).iter().sum::<f32>();
        assert!((left - MIN_IMAGES_PX).abs() < 1.0, "{left}");
        let folded = LibrarySections { folded: [("Images".to_owned(), true)].into(), ..kept };
        assert!(heights(&folded, [1, 25, 1], 800.0, 30.0)[1] > first[1], "folded images leave their room");
    }
}
