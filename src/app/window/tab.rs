//! The tab of a pane: its title, and a cross that closes it, labelled for screen readers and drawn where it is of use.

use eframe::egui;
use egui::{Align2, Color32, CursorIcon, Id, Rect, Response, Role, Sense, Stroke, TextStyle, Ui, Vec2};
use egui::{Event, PointerButton, WidgetInfo, pos2};
use egui_tiles::TabState;

use super::style;
use super::widgets::paint_cross;

/// Room beside the title.
const EDGE_PX: f32 = 10.0;
/// Side of the cross with the room around it.
const CROSS_PX: f32 = 18.0;

/// Width of the line above the active tab.
const LINE_PX: f32 = 2.0;

/// A tab to draw.
pub struct Tab<'a> {
    pub title: &'a str,
    pub state: &'a TabState,
    /// Its background.
    pub ground: Color32,
    /// The line above it while it is active.
    pub line: Color32,
}

impl Tab<'_> {
    /// Draws the tab; its response, and whether it was closed (by the cross or a middle click).
    pub fn show(&self, ui: &mut Ui, id: Id) -> (Response, bool) {
        let font = TextStyle::Button.resolve(ui.style());
        let ink =
            if self.state.active { ui.visuals().strong_text_color() } else { ui.visuals().text_color() };
        let title = ui.painter().layout_no_wrap(self.title.to_owned(), font, ink);
        let cross = if self.state.closable { CROSS_PX } else { 0.0 };
        let size = Vec2::new(title.size().x + 2.0 * EDGE_PX + cross, ui.available_height());
        let (_, rect) = ui.allocate_space(size);
        let response = ui.interact(rect, id, Sense::click_and_drag()).on_hover_cursor(CursorIcon::Grab);
        let (enabled, active) = (ui.is_enabled(), self.state.active);
        response.widget_info(|| WidgetInfo::selected(Role::Button, enabled, active, self.title));
        if self.state.is_being_dragged || !ui.is_rect_visible(rect) {
            return (response, false);
        }
        let inside = rect.shrink(0.5);
        ui.painter().rect_filled(inside, 0.0, self.ground);
        if active {
            // Covers the line below: the active tab and its pane are one sheet.
            ui.painter().hline(rect.x_range(), rect.bottom(), Stroke::new(2.0, self.ground));
            let top = inside.top() + LINE_PX / 2.0;
            ui.painter().hline(inside.x_range(), top, Stroke::new(LINE_PX, self.line));
        }
        let at = pos2(rect.left() + EDGE_PX, rect.center().y);
        ui.painter().galley(Align2::LEFT_CENTER.anchor_size(at, title.size()).min, title, ink);
        if response.has_focus() {
            style::focus(ui, rect.shrink(1.0), 0.0);
        }
        // In a scrolled bar, the cross of a tab whose title is out of sight would close a pane that nothing names.
        let titled = ui.clip_rect().left() <= at.x;
        let cross = (self.state.closable && titled).then(|| self.cross(ui, id, rect, response.has_focus()));
        // A finger that taps on a tab has not seen a cross that is drawn under a pointer alone.
        let is_touch = |event: &Event| matches!(event, Event::Touch { .. });
        let is_tapped = !active && ui.input(|i| i.events.iter().any(is_touch));
        let closed = match cross {
            Some(cross) if is_tapped => return (response.union(cross), false),
            cross => cross.is_some_and(|cross| cross.clicked()),
        };
        let closed = closed || self.state.closable && response.clicked_by(PointerButton::Middle);
        (response, closed)
    }

    /// The cross. It is drawn in the active tab, and in one that has the pointer or the focus: in all of
    /// them it would be most of what a bar shows.
    fn cross(&self, ui: &Ui, id: Id, tab: Rect, focused: bool) -> Response {
        let middle = pos2(tab.right() - EDGE_PX - CROSS_PX / 2.0 + 4.0, tab.center().y);
        let square = Rect::from_center_size(middle, Vec2::splat(CROSS_PX));
        let response = ui.interact(square, id.with("close"), Sense::click());
        let label = format!("Close the pane {}", self.title);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, ui.is_enabled(), &label));
        if self.state.active || focused || response.has_focus() || ui.rect_contains_pointer(tab) {
            paint_cross(ui, &response, 5.0);
        }
        response.on_hover_text(&label)
    }
}

#[cfg(test)]
mod tests {
    use egui::{Modifiers, Shape, TouchDeviceId, TouchId, TouchPhase};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_cross_is_drawn_in_the_active_tab_and_under_the_pointer_alone() {
        let crosses = |active: bool, hovered: bool| {
            let state = TabState { active, closable: true, ..TabState::default() };
            let (ground, line) = (Color32::BLACK, Color32::WHITE);
            let tab = Tab { title: "Scores", state: &state, ground, line };
            let mut harness = Harness::builder().build_ui(|ui| {
                ui.set_height(28.0);
                let id = ui.scope_id().with("tab");
                tab.show(ui, id);
            });
            harness.run();
            if hovered {
                harness.get_by_label("Scores").hover();
                harness.run();
            }
            assert!(harness.query_by_label("Close the pane Scores").is_some(), "for the keyboard, too");
            let is_line = |shape: &Shape| {
                matches!(shape, Shape::LineSegment { stroke, .. }
                    if ![ground, line].contains(&stroke.color))
            };
            harness.output().shapes.iter().filter(|clipped| is_line(&clipped.shape)).count() / 2
        };
        assert_eq!([crosses(true, false), crosses(false, true), crosses(false, false)], [1, 1, 0]);
    }

    #[test]
    fn a_tap_chooses_a_tab_wherever_it_meets_it_and_closes_the_active_one_by_its_cross() {
        let tap = |active: bool| {
            let state = TabState { active, closable: true, ..TabState::default() };
            let tab = Tab { title: "Scores", state: &state, ground: Color32::BLACK, line: Color32::WHITE };
            let draw = |ui: &mut Ui, done: &mut [bool; 2]| {
                ui.set_height(28.0);
                let id = ui.scope_id().with("tab");
                let (response, closed) = tab.show(ui, id);
                *done = [done[0] || response.clicked(), done[1] || closed];
            };
            let mut harness = Harness::builder().build_ui_state(draw, [false; 2]);
            harness.run();
            let pos = harness.get_by_label("Close the pane Scores").rect().center();
            for (phase, pressed) in [(TouchPhase::Start, true), (TouchPhase::End, false)] {
                let (device_id, id) = (TouchDeviceId(1), TouchId(1));
                let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
                let touch = Event::Touch { device_id, id, phase, pos, force: None };
                let press = Event::PointerButton { pos, button, pressed, modifiers };
                // In one frame, as a window system sends them.
                harness.input_mut().events.extend([touch, Event::PointerMoved(pos), press]);
                harness.step();
            }
            *harness.state()
        };
        assert_eq!([tap(false), tap(true)], [[true, false], [false, true]], "chosen, closed");
    }
}
