//! The keyboard focus: which rows of a scrolled area can receive it, and scrolling to the one that did.

use eframe::egui;
use egui::style::ScrollAnimation;
use egui::{FocusDirection, Id, Key, Rect, Response, Ui, Vec2};

/// Scrolls until what has just received the keyboard focus can be seen, which egui does not do. To be called after a scrolled area has
/// drawn its contents.
pub fn follow_focus(ui: &Ui) {
    let focused = focused(ui);
    let own =
        |focused: &Response| focused.layer_id == ui.layer_id() && ui.min_rect().contains_rect(focused.rect);
    if let Some(focused) = focused.filter(|focused| focused.gained_focus() && own(focused)) {
        // Includes part of the next row: only what is drawn can receive the focus next.
        let room = focused.rect.expand2(Vec2::new(0.0, 0.6 * focused.rect.height()));
        ui.scroll_to_rect_animation(room, None, ScrollAnimation::none());
    }
}

/// Whether to draw what is at `place` in a scrolled area: it is in sight, has the keyboard focus, or may receive it by the Tab key.
/// For what is not drawn, `skip_ahead_auto_ids` keeps the ids, and so the focus, of what comes after it.
pub fn in_reach(ui: &Ui, place: Rect) -> bool {
    let sight = ui.clip_rect();
    // In the frame of the Tab key nothing has the focus any more, and from the end of a row it moves to the start of the next.
    let below = sight.y_range().expand(2.0 * sight.height());
    let by_tab = || ui.input(|i| i.key_pressed(Key::Tab)) && below.intersects(place.y_range());
    // A row that receives the focus out of sight must be drawn in the next frame too: the area scrolls only in the frame after that.
    let near = |own: &Response| {
        own.layer_id == ui.layer_id() && own.rect.expand(0.25 * sight.height()).intersects(place)
    };
    ui.is_rect_visible(place) || by_tab() || focused(ui).is_some_and(|own| near(&own))
}

/// Scrolls to row `at` of rows that are all `height` high: for the start of what `ScrollArea::show_rows` draws, from row `first` on.
pub fn scroll_to_row(ui: &Ui, height: f32, at: usize, first: usize) {
    let down = (at as f32 - first as f32) * (height + ui.spacing().item_spacing.y);
    let size = Vec2::new(ui.available_width(), height);
    let row = Rect::from_min_size(ui.max_rect().min + Vec2::new(0.0, down), size);
    ui.scroll_to_rect_animation(row, None, ScrollAnimation::none());
}

/// What has the keyboard focus, in a frame without a click: in such a frame reading what was not clicked takes the focus from it.
pub fn focused(ui: &Ui) -> Option<Response> {
    let clicks = ui.input(|i| i.pointer.any_pressed() || i.pointer.any_released());
    let id = ui.memory(egui::Memory::focused).filter(|_| !clicks)?;
    ui.ctx().read_response(id)
}

/// Moves the keyboard focus on from the edge of a panel or a pane, of which egui makes a stop of the Tab key, though no key moves
/// it: for the start of a frame.
pub fn skip_edges(ui: &Ui) {
    let thick = 2.0 * ui.style().interaction.resize_grab_radius_side + 0.5;
    let is_edge = |edge: &Response| edge.sense.senses_drag() && edge.rect.size().min_elem() <= thick;
    if focused(ui).is_some_and(|focused| is_edge(&focused)) {
        let back = ui.input(|i| i.modifiers.shift);
        let direction = if back { FocusDirection::Previous } else { FocusDirection::Next };
        ui.memory_mut(|memory| memory.move_focus(direction));
        ui.request_repaint();
    }
}

/// Tells screen readers that the arrow keys have gone on from a field, which keeps the focus, to this `row` of the list below it.
pub fn tell_row(field: Id, row: &Response) {
    let id = row.id.accesskit_id();
    row.ctx.accesskit_node_builder(field, |node| node.set_active_descendant(id));
}

/// Scrolls by PageUp and PageDown: for what a scrolled area draws without any control that Tab could move to.
pub fn page_keys(ui: &Ui) {
    let pressed = |key| ui.input(|i| i.key_pressed(key));
    let pages = f32::from(i8::from(pressed(Key::PageUp)) - i8::from(pressed(Key::PageDown)));
    if pages != 0.0 {
        ui.scroll_with_delta(Vec2::new(0.0, 0.9 * pages * ui.clip_rect().height()));
    }
}

#[cfg(test)]
mod tests {
    use egui::{Pos2, ScrollArea, Sense, UiBuilder};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn tab_goes_from_above_a_row_that_is_scrolled_to_its_end_to_its_begin_and_on_to_the_row_below() {
        let size = Vec2::new(100.0, 30.0);
        let rows = |ui: &mut Ui| {
            drop(ui.button("above"));
            ScrollArea::both().max_width(250.0).max_height(80.0).auto_shrink(false).show(ui, |ui| {
                for row in 0..2 {
                    let whole = Vec2::new(8.0 * size.x, size.y);
                    let (rect, _) = ui.allocate_exact_size(whole, Sense::hover());
                    for at in 0..8 {
                        let corner = rect.min + Vec2::new(at as f32 * size.x, 0.0);
                        let place = Rect::from_min_size(corner, size);
                        if !in_reach(ui, place) {
                            ui.skip_ahead_auto_ids(1);
                            continue;
                        }
                        let salt = UiBuilder::new().max_rect(place).id_salt((row, at));
                        drop(ui.new_child(salt).button(format!("{row}-{at}")));
                    }
                }
                follow_focus(ui);
            });
        };
        let builder = Harness::builder().with_size(Vec2::new(260.0, 140.0)).with_max_steps(30);
        let mut harness = builder.build_ui(rows);
        harness.event(egui::Event::PointerMoved(Pos2::new(100.0, 60.0)));
        harness.run();
        harness.event(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            delta: Vec2::new(-2000.0, 0.0),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: egui::Modifiers::NONE,
        });
        harness.run();
        assert!(harness.query_by_label("0-0").is_none() && harness.query_by_label("0-7").is_some());
        harness.get_by_label("above").focus();
        harness.run();
        for at in 0..16 {
            harness.key_press(Key::Tab);
            harness.run();
            let name = format!("{}-{}", at / 8, at % 8);
            let own = harness.get_by_label(&name);
            let place = own.rect();
            assert!(own.is_focused() && place.left() >= 0.0 && place.right() < 260.0, "{name} at {place:?}");
        }
    }
}
