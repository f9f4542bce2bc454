//! Small widgets that panels and dialogs share.

use std::sync::Arc;

use eframe::egui;
use egui::containers::menu::{MenuButton, MenuConfig, MenuState};
use egui::epaint::Mesh;
use egui::{Align, Button, Color32, ComboBox, Frame, Galley, Key, Label, Layout, Margin};
use egui::{Modifiers, Popup, PopupCloseBehavior, Pos2, Rect, Response, Role, ScrollArea, Sense};
use egui::{SetOpenCommand, Shape, Slider, Stroke, TextEdit, TextStyle, TextWrapMode};
use egui::{Ui, UiBuilder, Vec2, WidgetInfo, WidgetText};

pub use super::focus::{focused, follow_focus, in_reach, page_keys, scroll_to_row, skip_edges, tell_row};
use super::style;
use crate::viz::draw::{color32, font};
use crate::viz::figures::dataset::folded;

/// Side of a star to click.
const STAR_PX: f32 = 22.0;
/// Distance of its points from its middle.
const STAR_RADIUS_PX: f32 = 7.5;
/// Least width of a slider, without its value.
const MIN_SLIDER_PX: f32 = 60.0;
/// Least room for the text of a band beside its controls.
const BAND_TEXT_PX: f32 = 180.0;
/// Room for the value of a slider.
const SLIDER_VALUE_PX: f32 = 80.0;

/// A text field, with its `name` for screen readers.
pub fn field(ui: &mut Ui, name: &str, edit: TextEdit<'_>) -> Response {
    let response = ui.add(edit);
    response.widget_info(|| WidgetInfo::labeled(Role::TextInput, true, name));
    response
}

/// Draws controls at the right end of a line, from left to right as the Tab key goes through them; the room before them. Their
/// width is that of the last pass, and another pass follows where it has changed.
pub fn at_right(ui: &mut Ui, add: impl FnOnce(&mut Ui)) -> Rect {
    let id = ui.unique_id().with("at right");
    let known: f32 = ui.ctx().data(|data| data.get_temp(id)).unwrap_or_default();
    let all = ui.available_rect_before_wrap();
    // Where they do not fit, they lie over what is before them: the last one is no less in sight.
    let own = all.with_min_x(all.right() - known);
    let mut own = ui.new_child(UiBuilder::new().max_rect(own).layout(Layout::left_to_right(Align::Center)));
    add(&mut own);
    let drawn = own.min_rect();
    // What does not fit yet must not widen the pane.
    ui.advance_cursor_after_rect(drawn.with_max_x(drawn.right().min(all.right())));
    if (drawn.width() - known).abs() > 0.5 {
        ui.ctx().data_mut(|data| data.insert_temp(id, drawn.width()));
        ui.ctx().request_discard("the controls at the right have another width");
        ui.ctx().request_repaint(); // where this is the last pass of the frame
    }
    all.with_max_x((drawn.left() - ui.spacing().item_spacing.x).max(all.left()))
}

/// A band over the panes, in `color`: what `text` draws and, at its end, controls that take `controls_px`; in a small or zoomed
/// window the controls are below the text.
pub fn band(
    ui: &mut Ui,
    color: Color32,
    controls_px: f32,
    text: impl FnOnce(&mut Ui),
    controls: impl FnOnce(&mut Ui),
) {
    let frame = Frame::new().inner_margin(Margin::symmetric(10, 4)).outer_margin(Margin::symmetric(10, 0));
    let frame = frame.fill(color.gamma_multiply(0.16)).stroke(Stroke::new(1.0, color)).corner_radius(5.0);
    frame.show(ui, |ui| {
        let room = ui.available_width() - controls_px;
        if room < BAND_TEXT_PX || controls_px == 0.0 {
            text(ui);
            if controls_px > 0.0 {
                ui.horizontal_wrapped(controls);
            }
            return;
        }
        ui.horizontal(|ui| {
            ui.scope(|ui| {
                ui.set_width(room);
                text(ui);
            });
            at_right(ui, controls);
        });
    });
    ui.add_space(6.0);
}

/// The height of a list in a dialog: `height`, or what a small or zoomed window has room for.
pub fn list_height(ui: &Ui, height: f32) -> f32 {
    height.min(0.55 * ui.ctx().content_rect().height())
}

/// A scrolled area with the [`list_height`], however little is in it.
pub fn scrolled(ui: &Ui, height: f32) -> ScrollArea {
    let height = list_height(ui, height);
    ScrollArea::vertical().max_height(height).min_scrolled_height(height).auto_shrink(false)
}

/// The settings of a menu that closes once an entry is chosen.
pub fn menu() -> MenuConfig {
    MenuConfig::new().style(style::menu)
}

/// A button with a menu that stays open while things are chosen in it.
pub fn lasting_menu_button(ui: &mut Ui, button: Button<'_>, entries: impl FnOnce(&mut Ui)) -> Response {
    let config = menu().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let (button, menu) = MenuButton::from_button(button).config(config).ui(ui, |ui| {
        entries(ui);
        closed_by_key(ui)
    });
    return_focus(&button, menu.map(|menu| menu.inner));
    button
}

/// A button with a menu of entries.
pub fn menu_button(ui: &mut Ui, button: Button<'_>, entries: impl FnOnce(&mut Ui)) -> Response {
    let (button, menu) = MenuButton::from_button(button).config(menu()).ui(ui, |ui| closing(ui, entries));
    return_focus(&button, menu.map(|menu| menu.inner));
    button
}

/// A context menu of entries, opened by a right click, or by Shift+F10 while the widget has the keyboard focus.
pub fn context_menu(widget: &Response, entries: impl FnOnce(&mut Ui)) {
    let mut popup = Popup::context_menu(widget).style(style::menu);
    if widget.has_focus() && widget.ctx.input_mut(|i| i.consume_key(Modifiers::SHIFT, Key::F10)) {
        popup = popup.open_memory(Some(SetOpenCommand::Bool(true))).at_position(widget.rect.center());
    } else if !widget.secondary_clicked() && Popup::position_of_id(&widget.ctx, popup.get_id()).is_none() {
        popup = popup.at_position(widget.rect.center()); // it was opened by the keys
    }
    return_focus(widget, popup.show(|ui| closing(ui, entries)).map(|menu| menu.inner));
}

/// Draws the entries of a menu, which closes once one is chosen by keyboard, as egui closes it at a click alone; whether a key
/// closes it.
fn closing(ui: &mut Ui, entries: impl FnOnce(&mut Ui)) -> bool {
    entries(ui);
    let enters = MenuState::from_ui(ui, |state, _| state.open_item.is_some()); // a menu within it
    if !enters && chosen_by_key(ui) {
        ui.close();
    }
    closed_by_key(ui)
}

/// Whether the focus is in the popup of `ui`, or in a menu within it.
fn on_entry(ui: &Ui) -> bool {
    let within = MenuState::from_ui(ui, |state, _| state.open_item);
    let own = [Some(ui.layer_id().id), within];
    focused(ui).is_some_and(|entry| own.contains(&Some(entry.layer_id.id)))
}

/// Whether a key was pressed that chooses the entry that has the focus.
fn chosen_by_key(ui: &Ui) -> bool {
    on_entry(ui) && ui.input(|i| i.key_pressed(Key::Enter) || i.key_pressed(Key::Space))
}

/// Whether a key closes the popup of `ui`, for its end: then [`return_focus`].
pub fn closed_by_key(ui: &Ui) -> bool {
    let (id, now) = (ui.layer_id().id.with("on entry"), on_entry(ui));
    let before = ui.data_mut(|data| std::mem::replace(data.get_temp_mut_or_default(id), now));
    let pressed = |keys: &[Key]| ui.input(|i| keys.iter().any(|key| i.key_pressed(*key)));
    // By then Escape has taken the focus from the entry, and a menu within this one is closed.
    before && (pressed(&[Key::Escape]) || ui.will_parent_close() && pressed(&[Key::Enter, Key::Space]))
}

/// Gives the focus back to the `button` of a popup that a key closes: egui leaves it to an entry that is gone, or to nothing at
/// Escape. `by_key`: whether a key closes the popup, `None` where there is none.
pub fn return_focus(button: &Response, by_key: Option<bool>) {
    let escaped = || button.lost_focus() && button.ctx.input(|i| i.key_pressed(Key::Escape));
    if by_key.is_some_and(|by_key| by_key || escaped()) {
        button.request_focus();
    }
}

/// A field that filters `classes` by `text`, and below it a list of those that pass, at most `height` high; `row` draws one.
pub fn class_list(
    ui: &mut Ui,
    classes: &[String],
    text: &mut String,
    height: f32,
    mut row: impl FnMut(&mut Ui, &String),
) {
    field(ui, "Filter classes", TextEdit::singleline(text).hint_text("Filter classes"));
    let text = folded(text);
    let found: Vec<&String> = classes.iter().filter(|name| folded(name).contains(&text)).collect();
    let area = ScrollArea::vertical().max_height(height).auto_shrink([false, true]);
    area.show_rows(ui, ui.spacing().interact_size.y, found.len(), |ui, rows| {
        found[rows].iter().for_each(|name| row(ui, name));
        follow_focus(ui);
    });
}

/// `text` as it is set where it must not be wider than `room`: an ellipsis ends what is.
pub fn fit(ui: &Ui, text: impl Into<WidgetText>, room: f32) -> Arc<Galley> {
    text.into().into_galley(ui, Some(TextWrapMode::Truncate), room, TextStyle::Body)
}

/// A label that is not wider than `room`.
pub fn label_within(ui: &mut Ui, text: impl Into<WidgetText>, room: f32) -> Response {
    let text = fit(ui, text, room);
    ui.add(Label::new(text).show_tooltip_when_elided(false))
}

/// A combo box `width` wide that says `shown`, and opens what `list` draws, until an entry is chosen.
pub fn combo(
    ui: &mut Ui,
    salt: &str,
    width: f32,
    shown: impl Into<WidgetText>,
    list: impl FnOnce(&mut Ui),
) -> Response {
    let combo = ComboBox::from_id_salt(salt).width(width).selected_text(shown);
    combo_of(ui, combo, |ui| {
        list(ui);
        if chosen_by_key(ui) {
            ui.close(); // as a menu
        }
    })
}

/// Tells screen readers the `whole` text of a combo box that shows it cut.
pub fn set_full_text(combo: &Response, whole: &str) {
    let enabled = combo.enabled();
    combo.widget_info(|| WidgetInfo {
        enabled,
        current_text_value: Some(whole.to_owned()),
        ..WidgetInfo::new(Role::ComboBox)
    });
}

/// Shows a combo box, with what `list` draws in it.
pub fn combo_of(ui: &mut Ui, combo: ComboBox<'_>, list: impl FnOnce(&mut Ui)) -> Response {
    let shown = combo.show_ui(ui, |ui| {
        list(ui);
        follow_focus(ui);
        closed_by_key(ui)
    });
    return_focus(&shown.response, shown.inner);
    shown.response
}

/// A combo box `width` wide that chooses one of `all`, each under its `name`, which is its tooltip where it is cut.
pub fn choice<T: PartialEq, S: Into<WidgetText>>(
    ui: &mut Ui,
    salt: &str,
    width: f32,
    value: &mut T,
    all: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> S,
) -> Response {
    let shown = fit(ui, name(value), width - choice_frame(ui));
    let cut = shown.elided.then(|| shown.text().to_owned());
    let response = combo(ui, salt, width, shown, |ui| {
        for one in all {
            let name = name(&one);
            ui.selectable_value(value, one, name);
        }
    });
    cut.into_iter().fold(response, Response::on_hover_text)
}

/// A [`choice`] as wide as its longest name.
pub fn fitted_choice<T: PartialEq, const N: usize>(
    ui: &mut Ui,
    salt: &str,
    value: &mut T,
    all: [T; N],
    name: impl Fn(&T) -> &'static str,
) -> Response {
    let width = font::widest(all.each_ref().map(&name), 13.5) + choice_frame(ui);
    choice(ui, salt, width.ceil(), value, all, name)
}

/// The width of a [`choice`] beside its text.
pub fn choice_frame(ui: &Ui) -> f32 {
    let spacing = ui.spacing();
    2.0 * spacing.button_padding.x + spacing.icon_width + spacing.icon_spacing
}

/// Draws controls above a figure, inset from the sides of its pane.
pub fn inset<R>(ui: &mut Ui, controls: impl FnOnce(&mut Ui) -> R) -> R {
    let margin = Margin { left: 8, right: 4, ..Margin::ZERO };
    Frame::new().inner_margin(margin).show(ui, controls).inner
}

/// Begins another line where a wrapped one has no room for `width` more: for a name and what it is of, and for a slider, which does
/// not wrap by itself.
pub fn keep_together(ui: &mut Ui, width: f32) {
    if ui.available_size_before_wrap().x < width {
        ui.end_row();
    }
}

/// A slider for a step from 0 to `last`, as wide as the rest of a wrapped line, or the next line where that is too little.
/// In a narrow one its `name` is a tooltip.
pub fn step_slider(ui: &mut Ui, name: &str, step: &mut usize, last: usize) -> Response {
    keep_together(ui, MIN_SLIDER_PX + SLIDER_VALUE_PX);
    // A row of its own, as wrapped lines do not centre their first label.
    let row = ui.horizontal(|ui| {
        let label = (ui.available_width() > 230.0).then(|| ui.label(name).id);
        let room = ui.available_width() - SLIDER_VALUE_PX;
        ui.spacing_mut().slider_width = room.clamp(MIN_SLIDER_PX, 260.0);
        let slider = ui.add(Slider::new(step, 0..=last));
        match label {
            Some(label) => slider.labelled_by(label),
            None => slider.accessible_name(name).on_hover_text(name),
        }
    });
    row.inner
}

/// A star to click: filled where `on`.
pub fn star(ui: &mut Ui, on: bool, name: &str) -> Response {
    let (rect, response) = ui.allocate_exact_size(Vec2::splat(STAR_PX), Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, on, name));
    let line = ui.style().interact(&response).fg_stroke.color;
    let fill = if on { color32(style::starred(&style::theme(ui))) } else { Color32::TRANSPARENT };
    paint_star(ui, rect.center(), fill, Stroke::new(1.2, if on { fill } else { line }));
    if response.has_focus() {
        style::focus(ui, rect, 4.0);
    }
    response
}

/// Paints a button to close something: a cross of lines, as fonts may lack it, `inset` from its edges.
pub fn paint_cross(ui: &Ui, button: &Response, inset: f32) {
    let visuals = ui.style().interact(button);
    if button.hovered() {
        ui.painter().rect_filled(button.rect, 4.0, visuals.weak_bg_fill);
    }
    let arms = button.rect.shrink(inset);
    let stroke = Stroke::new(1.3, visuals.fg_stroke.color);
    ui.painter().line_segment([arms.left_top(), arms.right_bottom()], stroke);
    ui.painter().line_segment([arms.right_top(), arms.left_bottom()], stroke);
    if button.has_focus() {
        style::focus(ui, button.rect, 4.0);
    }
}

/// Paints an arrow for the direction in which a column is sorted, as fonts may lack it.
pub fn paint_sort(ui: &Ui, at: Pos2, down: bool, color: Color32) {
    let tip = if down { 3.5 } else { -3.5 };
    let corners = [(-4.0, -tip), (4.0, -tip), (0.0, tip)].map(|(x, y)| at + Vec2::new(x, y));
    ui.painter().add(Shape::convex_polygon(corners.into(), color, Stroke::NONE));
}

/// Paints a five-pointed star, as fonts may lack it.
pub fn paint_star(ui: &Ui, center: Pos2, fill: Color32, stroke: Stroke) {
    let corner = |i: usize| {
        let reach = if i.is_multiple_of(2) { STAR_RADIUS_PX } else { 0.45 * STAR_RADIUS_PX };
        center + reach * Vec2::angled(std::f32::consts::PI * (i as f32 / 5.0 - 0.5))
    };
    let corners: Vec<Pos2> = (0..10).map(corner).collect();
    // The star is not convex: it is filled as ten triangles around its centre.
    let mut mesh = Mesh::default();
    mesh.colored_vertex(center, fill);
    corners.iter().for_each(|corner| mesh.colored_vertex(*corner, fill));
    (0..10).for_each(|i| mesh.add_triangle(0, i + 1, (i + 1) % 10 + 1));
    ui.painter().add(mesh);
    ui.painter().add(Shape::closed_line(corners, stroke));
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn a_band_without_room_for_text_beside_its_controls_has_them_below() {
        for (width, beside) in [(600.0, true), (260.0, false)] {
            let band = |ui: &mut Ui| {
                let text = |ui: &mut Ui| drop(ui.add(Label::new("Not connected").wrap()));
                band(ui, Color32::RED, 240.0, text, |ui| drop(ui.button("Connect")));
            };
            let mut harness = Harness::builder().with_size(Vec2::new(width, 300.0)).build_ui(band);
            harness.run();
            let [text, button] = ["Not connected", "Connect"].map(|label| harness.get_by_label(label).rect());
            assert_eq!(button.y_range().contains(text.center().y), beside, "{text} and {button}");
            assert!(text.height() < 24.0 && button.right() < width, "{text} and {button}");
        }
    }

    #[test]
    fn a_band_without_controls_does_not_widen_what_is_below() {
        let band = |ui: &mut Ui, over: &mut f32| {
            let edge = ui.max_rect().right();
            band(ui, Color32::RED, 0.0, |ui| drop(ui.add(Label::new("Other weights").wrap())), |_| ());
            *over = ui.max_rect().right() - edge;
        };
        let mut harness = Harness::builder().with_size(Vec2::new(600.0, 300.0)).build_ui_state(band, 1.0);
        harness.run();
        assert!(*harness.state() <= 0.0, "wider by {}", harness.state());
    }
}
