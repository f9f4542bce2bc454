//! One entry of the library: a dot that says whether it can be used, name, description, a button to
//! close it and, for probes, one to add it to the comparison.

use egui::style::ScrollAnimation;
use egui::{Align2, Color32, FontId, Id, Key, Modifiers, Pos2};

use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::paint_cross;

/// Height of an entry.
pub const HEIGHT_PX: f32 = 40.0;
/// Room for the dot, left of the text.
const LEFT_PX: f32 = 24.0;
/// Distance from the right edge to the middle of the button that compares, whose bars reach six points to both sides.
const COMPARE_PX: f32 = 38.0;

/// What an entry shows.
pub struct Entry<'a> {
    pub name: &'a str,
    /// Its label for screen readers.
    pub label: &'a str,
    /// Its description, or why it cannot be used.
    pub about: &'a str,
    /// Colour of its dot.
    pub dot: Color32,
    /// Whether it is shown in the focused panes.
    pub selected: bool,
    /// Whether it is in the selection of several.
    pub chosen: bool,
    /// Whether it is in the comparison; `None` for entries that cannot be.
    pub compared: Option<bool>,
}

/// What a person did with an entry.
pub struct EntryResponse {
    /// The response of the entry itself.
    pub response: Response,
    /// Whether its close button was clicked, or Delete pressed.
    pub close: bool,
    /// Whether the button that adds it to the comparison, or removes it, was clicked.
    pub compare: bool,
}

impl<'a> Entry<'a> {
    /// An entry that is neither selected nor chosen.
    pub fn new(name: &'a str, about: &'a str, dot: Color32) -> Self {
        Self { name, label: name, about, dot, selected: false, chosen: false, compared: None }
    }

    /// Draws the entry in the available width. It is one stop of the Tab key: Delete closes it, and its menu holds the rest.
    pub fn show(&self, ui: &mut Ui) -> EntryResponse {
        let theme = style::theme(ui);
        let (rect, response) =
            ui.allocate_exact_size(Vec2::new(ui.available_width(), HEIGHT_PX), Sense::click());
        let enabled = ui.is_enabled();
        response.widget_info(|| WidgetInfo::selected(Role::Button, enabled, self.selected, self.label));
        ui.ctx().accesskit_node_builder(response.id, |node| node.set_description(self.about));
        // By the pointer's place: over a button the entry itself is not hovered.
        let over = ui.rect_contains_pointer(rect) || response.has_focus();
        let fill = match (self.selected, over) {
            (true, _) => ui.visuals().selection.bg_fill,
            (false, true) => ui.visuals().widgets.hovered.weak_bg_fill,
            (false, false) => Color32::TRANSPARENT,
        };
        ui.painter().rect_filled(rect, 5.0, fill);
        if self.chosen {
            let stroke = egui::Stroke::new(1.5, ui.visuals().hyperlink_color);
            ui.painter().rect_stroke(rect, 5.0, stroke, egui::StrokeKind::Inside);
        }
        let marked = self.compared.is_some_and(|compared| compared || over);
        let room = rect.width() - LEFT_PX - right(over, marked);
        let middle = rect.center().y;
        ui.painter().circle_filled(Pos2::new(rect.left() + 12.0, middle - 8.0), 4.0, self.dot);
        let line = |size: f32, y: f32, text: String, color| {
            let at = Pos2::new(rect.left() + LEFT_PX, y);
            ui.painter().text(at, Align2::LEFT_CENTER, text, FontId::proportional(size), color32(color));
        };
        // Names of files of a run often differ at their end.
        line(13.5, middle - 8.5, font::fit_middle(self.name, 13.5, room), theme.ink);
        let color = if self.selected { theme.ink } else { theme.muted };
        line(11.5, middle + 9.0, font::fit(self.about, 11.5, room), color);
        if response.has_focus() {
            style::focus(ui, rect, 5.0);
        }
        // Half of the next row is scrolled into view too, so that keyboard focus can move on to it.
        if response.gained_focus() {
            let room = rect.expand2(Vec2::new(0.0, 0.5 * HEIGHT_PX));
            ui.scroll_to_rect_animation(room, None, ScrollAnimation::none());
        }
        // Their ids are made from the entry's, which a scrolled list keeps.
        let [close_id, compare_id] = ["close", "compare"].map(|what| response.id.with(what));
        let deleted = response.has_focus() && ui.input_mut(|i| i.consume_key(Modifiers::NONE, Key::Delete));
        let close = over && close(ui, rect, close_id, self.name) || deleted;
        let compare = marked && compare(ui, rect, compare_id, self.name, self.compared == Some(true));
        EntryResponse { response, close, compare }
    }
}

/// Room that the text leaves on the right to the buttons, which keep their places: to both, to that which closes, or to none.
fn right(over: bool, marked: bool) -> f32 {
    match (marked, over) {
        (true, _) => COMPARE_PX + 12.0,
        (false, true) => 26.0,
        (false, false) => 8.0,
    }
}

/// Draws the button that adds a probe to the comparison, or removes it: two columns, filled if it is in it;
/// whether it was clicked.
fn compare(ui: &Ui, rect: Rect, id: Id, name: &str, compared: bool) -> bool {
    let middle = Pos2::new(rect.right() - COMPARE_PX, rect.center().y);
    let square = Rect::from_center_size(middle, Vec2::splat(20.0));
    let response = ui.interact(square, id, Sense::CLICK);
    let text =
        if compared { format!("Remove {name} from Compare") } else { format!("Add {name} to Compare") };
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, compared, &text));
    let visuals = ui.style().interact(&response);
    if response.hovered() {
        ui.painter().rect_filled(square, 4.0, visuals.weak_bg_fill);
    }
    let color = if compared { ui.visuals().hyperlink_color } else { visuals.fg_stroke.color };
    for x in [-3.5, 3.5] {
        let bar = Rect::from_center_size(square.center() + Vec2::new(x, 0.0), Vec2::new(5.0, 12.0));
        if compared {
            ui.painter().rect_filled(bar, 1.0, color);
        } else {
            ui.painter().rect_stroke(bar, 1.0, egui::Stroke::new(1.2, color), egui::StrokeKind::Middle);
        }
    }
    response.on_hover_text(if compared { "Remove from Compare" } else { "Add to Compare" }).clicked()
}

/// Draws the close button; whether it was clicked.
fn close(ui: &Ui, rect: Rect, id: Id, name: &str) -> bool {
    let square = Rect::from_center_size(Pos2::new(rect.right() - 14.0, rect.center().y), Vec2::splat(18.0));
    let response = ui.interact(square, id, Sense::CLICK);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Close {name}")));
    paint_cross(ui, &response, 6.0);
    response.on_hover_text("Close (Delete)").clicked()
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::{NodeT as _, Queryable as _};

    use super::*;

    #[test]
    fn tab_pressed_fast_walks_through_a_scrolled_list_entry_by_entry_and_delete_closes_one() {
        let list = |ui: &mut Ui, closed: &mut Vec<usize>| {
            let area = egui::ScrollArea::vertical().max_height(2.5 * HEIGHT_PX).auto_shrink(false);
            area.show_rows(ui, HEIGHT_PX, 12, |ui, rows| {
                for row in rows {
                    let name = format!("probe {row}");
                    let entry = Entry { compared: Some(false), ..Entry::new(&name, "", Color32::WHITE) };
                    closed.extend(entry.show(ui).close.then_some(row));
                }
            });
        };
        let mut harness = Harness::builder().with_step_dt(1.0 / 60.0).build_ui_state(list, Vec::new());
        for row in 0..12 {
            harness.key_press(egui::Key::Tab);
            harness.run_steps(1);
            let all = harness.query_all_by_label_contains("");
            let focused =
                all.filter(egui_kittest::Node::is_focused).find_map(|node| node.accesskit_node().label());
            assert_eq!(focused, Some(format!("probe {row}")));
            for button in [format!("Close probe {row}"), format!("Add probe {row} to Compare")] {
                assert!(harness.query_by_label(&button).is_some(), "{button}: not there for screen readers");
            }
        }
        harness.key_press(egui::Key::Delete);
        harness.run_steps(1);
        assert_eq!(harness.state()[..], [11]);
    }

    #[test]
    fn text_ends_left_of_the_bars_of_compare_whether_the_pointer_is_over_it_or_not() {
        let bars = COMPARE_PX + 6.0;
        assert!(right(false, true) > bars && right(true, true) > bars);
        assert!(right(false, false) < right(true, false), "the cross is drawn under the pointer alone");
    }
}
