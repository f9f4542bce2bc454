//! What all dialogs share: a modal sheet over the dimmed window. One that opens gives the focus to its first control, and where
//! the focus was gets it back in the end; Tab moves within it, Enter in a one-line field confirms it and in a number accepts
//! that, Escape or a click beside it closes it.

use std::mem;
use std::path::Path;

use eframe::egui;
use egui::util::IdTypeMap;
use egui::{
    Align2, Button, Context, DragValue, FocusDirection, Frame, Grid, Id, Key, Label, LayerId, Margin,
};
use egui::{Memory, Modal, Modifiers, Popup, Response, RichText, ScrollArea, Ui, Vec2};

use super::file_request::FileRequest;
use crate::app::window::on_disk::{Found, OnDisk};
use crate::app::window::style;
use crate::app::window::widgets::follow_focus;
use crate::model::io::atomic_file;

/// The text of a default button that overwrites files, which Enter alone does not do.
pub const REPLACE: &str = "Replace";
/// Width of a field for a path or a title.
const FIELD_PX: f32 = 350.0;
/// Room for the button after it.
const FIELD_BUTTON_PX: f32 = 84.0;
/// Where a dialog at the top of the window begins.
const TOP_PX: f32 = 70.0;
/// Least gap between a dialog and the edges of the window.
const GAP_PX: f32 = 8.0;
/// Space below the title.
const TITLE_GAP_PX: f32 = 4.0;
/// Space above the buttons.
const BUTTONS_GAP_PX: f32 = 8.0;
/// The dialog that was given the focus last, in egui's memory.
const FOCUSED: &str = "focused dialog";
/// What had the focus below a dialog, by layer, in egui's memory.
const FOCUS_BELOW: &str = "focus below a dialog";

/// What came of a dialog in this frame.
pub enum Answer<T> {
    Open,
    /// It was cancelled.
    Closed,
    /// It was confirmed with this value.
    Given(T),
}

impl<T> Answer<T> {
    /// This answer, or `other` while this is [`Answer::Open`].
    pub fn or(self, other: Self) -> Self {
        if matches!(self, Self::Open) { other } else { self }
    }
}

/// What was chosen in a dialog that has the path of a file.
pub enum Chosen<T> {
    /// To choose that with the file dialog.
    File(FileRequest),
    /// To go on.
    Done(T),
}

/// Draws a dialog while it is open; with an answer it closes. The value it was confirmed with.
pub fn ask<D, T>(dialog: &mut Option<D>, ui: impl FnOnce(&mut D) -> Answer<T>) -> Option<T> {
    let given = match ui(dialog.as_mut()?) {
        Answer::Open => return None,
        Answer::Closed => None,
        Answer::Given(value) => Some(value),
    };
    *dialog = None;
    given
}

/// A dialog in the middle of the window, `width` wide.
pub fn show<T>(
    ctx: &Context,
    id: &str,
    width: f32,
    title: &str,
    add: impl FnOnce(&mut Ui) -> Answer<T>,
) -> Answer<T> {
    sheet(ctx, Modal::new(Id::unique(id)), 18, 0.0, |ui, room| {
        ui.set_width(width.min(room.x));
        ui.heading(title);
        ui.add_space(TITLE_GAP_PX);
        add(ui)
    })
}

/// A dialog anchored at the top, so that its head stays in place as it grows and shrinks.
pub fn show_at_top<T>(ctx: &Context, id: &str, add: impl FnOnce(&mut Ui) -> Answer<T>) -> Answer<T> {
    let id = Id::unique(id);
    let area = Modal::default_area(id).anchor(Align2::CENTER_TOP, Vec2::new(0.0, TOP_PX));
    sheet(ctx, Modal::new(id).area(area), 12, TOP_PX, |ui, _| add(ui))
}

/// A dialog `y` below the top of the window. In a small or zoomed window, which lacks the room that `add` is promised, it is
/// scrolled.
fn sheet<T>(
    ctx: &Context,
    modal: Modal,
    margin: i8,
    y: f32,
    add: impl FnOnce(&mut Ui, Vec2) -> Answer<T>,
) -> Answer<T> {
    let top = ctx.memory(Memory::top_modal_layer);
    let layer = modal.area.layer();
    if !ctx.memory(|memory| memory.areas().visible_last_frame(&layer)) {
        keep_focus(ctx, top);
        ctx.data_mut(|data| data.remove::<Option<Id>>(Id::unique((FOCUS_BELOW, Some(layer))))); // of when it was open before
    }
    let focused = |data: &mut IdTypeMap| mem::replace(data.get_temp_mut_or_default(Id::unique(FOCUSED)), top);
    if top == Some(layer) && ctx.data_mut(focused) != top && !give_focus_back(ctx, top) {
        ctx.memory_mut(|memory| {
            memory.stop_text_input();
            memory.move_focus(FocusDirection::Next); // where nothing has the focus: to the first control that is drawn
        });
    }
    let frame = Frame::window(&ctx.global_style()).inner_margin(Margin::same(margin));
    let edges = 2.0 * (f32::from(margin) + GAP_PX);
    let room = ctx.content_rect().size() - Vec2::new(edges, edges + y);
    // Without a minimum height the sheet would not grow with a new row, and hide its buttons.
    let area = ScrollArea::vertical().max_height(room.y).min_scrolled_height(room.y);
    let contents = |ui: &mut Ui| {
        let answer = add(ui, room);
        follow_focus(ui);
        (answer, entered(ui))
    };
    let modal = modal.frame(frame).show(ctx, |ui| area.show(ui, contents).inner);
    let answer = if modal.should_close() { Answer::Closed } else { modal.inner.0 };
    if !matches!(answer, Answer::Open) || modal.inner.1 {
        forget_focused(ctx); // a dialog that stays gets the focus anew
        ctx.request_repaint(); // the window below handles keys again from the next frame on
    }
    answer
}

/// Keeps what has the focus in the layer `below` a dialog that opens; `None` is the window. A text field would take the keys of
/// the window's shortcuts, and does not get it back.
fn keep_focus(ctx: &Context, below: Option<LayerId>) {
    let focused = ctx.memory(Memory::focused).filter(|_| !ctx.text_edit_focused());
    ctx.data_mut(|data| data.insert_temp(Id::unique((FOCUS_BELOW, below)), focused));
}

/// Gives the focus back to what had it before a dialog opened above this layer, if anything had.
fn give_focus_back(ctx: &Context, layer: Option<LayerId>) -> bool {
    let kept =
        ctx.data_mut(|data| data.remove_temp::<Option<Id>>(Id::unique((FOCUS_BELOW, layer)))).flatten();
    kept.into_iter().for_each(|id| ctx.memory_mut(|memory| memory.request_focus(id)));
    kept.is_some()
}

fn forget_focused(ctx: &Context) {
    ctx.data_mut(|data| data.remove::<Option<LayerId>>(Id::unique(FOCUSED)));
}

/// Runs `draw`, which draws the window below any dialog. While a dialog is open egui's pointer is hidden from it: a
/// tooltip below would stay, above the dialog.
pub fn draw_below(ctx: &Context, draw: impl FnOnce()) {
    if ctx.memory(Memory::top_modal_layer).is_none() {
        forget_focused(ctx);
        give_focus_back(ctx, None);
        return draw();
    }
    let pointer = ctx.input_mut(|input| mem::take(&mut input.pointer));
    draw();
    ctx.input_mut(|input| input.pointer = pointer);
}

/// The default button, highlighted.
pub fn main_button(ui: &mut Ui, text: &str, enabled: bool) -> Response {
    let fill = ui.visuals().selection.bg_fill;
    let button = Button::new(RichText::new(text).strong()).fill(fill).min_size(Vec2::new(84.0, 26.0));
    ui.add_enabled(enabled, button)
}

/// Whether Enter was pressed for the dialog itself, once its fields are drawn: a one-line field gives up its focus on
/// Enter, any other control that has the focus takes the key for itself.
pub fn entered(ui: &Ui) -> bool {
    let free = |memory: &Memory| memory.focused().is_none() && memory.allows_interaction(ui.layer_id());
    ui.input(|i| i.key_pressed(Key::Enter)) && ui.memory(free) && !Popup::is_any_open(ui.ctx())
}

/// Draws the default button of a dialog; whether it was clicked, or Enter was pressed for it.
pub fn confirmed(ui: &mut Ui, text: &str, enabled: bool) -> bool {
    main_button(ui, text, enabled).clicked() || (enabled && text != REPLACE && entered(ui))
}

/// The default button, which gives `answer`, and a Cancel button.
pub fn buttons<T>(ui: &mut Ui, text: &str, enabled: bool, answer: T) -> Answer<T> {
    buttons_with(ui, text, enabled, answer, |_| Answer::Open)
}

/// The default button, which gives `answer`, what `more` draws, and a Cancel button.
pub fn buttons_with<T>(
    ui: &mut Ui,
    text: &str,
    enabled: bool,
    answer: T,
    more: impl FnOnce(&mut Ui) -> Answer<T>,
) -> Answer<T> {
    row(ui, |ui| {
        let given = if confirmed(ui, text, enabled) { Answer::Given(answer) } else { Answer::Open };
        let given = given.or(more(ui));
        if ui.button("Cancel").clicked() { Answer::Closed } else { given }
    })
}

/// The row of buttons at the end of a dialog.
pub fn row<T>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> T) -> T {
    ui.add_space(BUTTONS_GAP_PX);
    ui.horizontal(add).inner
}

/// A number: what is typed counts once it is whole, as its beginning may lie outside the range. Enter in it accepts what was typed,
/// and does no more.
pub fn number(ui: &mut Ui, value: DragValue<'_>) -> Response {
    let response = ui.add(value.update_while_editing(false));
    if response.lost_focus() {
        ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::Enter));
    }
    response
}

/// Rows of a label and a field each.
pub fn fields(id: &str) -> Grid {
    Grid::new(id).num_columns(2).spacing([14.0, 8.0]).min_col_width(72.0)
}

/// The width of a field for a path or a title: the preferred one, or what a small or zoomed window leaves beside its button.
pub fn field_width(ui: &Ui) -> f32 {
    (ui.available_width() - FIELD_BUTTON_PX).clamp(60.0, FIELD_PX)
}

/// Whether the folder of `file` exists; if not, offers to create it. Shows the last `error`.
pub fn check_folder(ui: &mut Ui, disk: &mut OnDisk, file: &Path, error: &mut Option<String>) -> bool {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing = folder.map(|folder| (folder, disk.at(ui, folder))).filter(|(_, found)| !found.is_folder());
    if let Some((folder, Found::Unknown)) = missing {
        ui.weak(format!("Waiting for the disk: {}", folder.display()));
    } else if let Some((folder, _)) = missing {
        ui.horizontal(|ui| {
            if ui.button("Create the folder").clicked() {
                let made = atomic_file::make_folder(folder);
                *error = made.err().map(|error| format!("It cannot be created: {error}"));
                disk.forget();
            }
            let text = format!("No such folder: {}", folder.display());
            ui.add(Label::new(style::failure(ui, text)).wrap());
        });
    }
    if let Some(error) = error {
        ui.add(Label::new(style::failure(ui, &*error)).wrap());
    }
    missing.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_leaves_room_for_its_button() {
        for (room, width) in [(900.0, FIELD_PX), (300.0, 300.0 - FIELD_BUTTON_PX)] {
            let draw = |ui: &mut Ui, found: &mut f32| {
                ui.set_max_width(room);
                *found = field_width(ui);
            };
            assert_eq!(*egui_kittest::Harness::new_ui_state(draw, 0.0).state(), width);
        }
    }
}
