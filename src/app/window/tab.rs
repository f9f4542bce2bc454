//! The tab of a pane: its title, and a cross that closes it, labelled for screen readers.

use eframe::egui;
use egui::{
    Align2, Color32, CursorIcon, Id, Rect, Response, Role, Sense, Stroke, StrokeKind, TextStyle, Ui, Vec2,
};
use egui::{PointerButton, WidgetInfo, pos2};
use egui_tiles::TabState;

use super::style;
use super::widgets::paint_cross;

/// Room beside the title.
const EDGE_PX: f32 = 10.0;
/// Side of the cross with the room around it.
const CROSS_PX: f32 = 18.0;

/// A tab to draw.
pub struct Tab<'a> {
    pub title: &'a str,
    pub state: &'a TabState,
    /// Its background.
    pub ground: Color32,
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
        let line = if active { ui.visuals().hyperlink_color } else { Color32::TRANSPARENT };
        let inside = rect.shrink(0.5);
        ui.painter().rect(inside, 0.0, self.ground, Stroke::new(1.0, line), StrokeKind::Inside);
        if active {
            // Covers the line below: the active tab and its pane are one sheet.
            ui.painter().hline(rect.x_range(), rect.bottom(), Stroke::new(2.0, self.ground));
        }
        let at = pos2(rect.left() + EDGE_PX, rect.center().y);
        ui.painter().galley(Align2::LEFT_CENTER.anchor_size(at, title.size()).min, title, ink);
        if response.has_focus() {
            style::focus(ui, rect.shrink(1.0), 0.0);
        }
        // In a scrolled bar, the cross of a tab whose title is out of sight would close a pane that nothing names.
        let titled = ui.clip_rect().left() <= at.x;
        let closed = self.state.closable && titled && self.cross(ui, id, rect);
        let closed = closed || self.state.closable && response.clicked_by(PointerButton::Middle);
        (response, closed)
    }

    /// Draws the cross; whether it was clicked.
    fn cross(&self, ui: &Ui, id: Id, tab: Rect) -> bool {
        let middle = pos2(tab.right() - EDGE_PX - CROSS_PX / 2.0 + 4.0, tab.center().y);
        let square = Rect::from_center_size(middle, Vec2::splat(CROSS_PX));
        let response = ui.interact(square, id.with("close"), Sense::click());
        let label = format!("Close the pane {}", self.title);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, ui.is_enabled(), &label));
        paint_cross(ui, &response, 5.0);
        response.on_hover_text(&label).clicked()
    }
}
