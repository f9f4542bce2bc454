//! What all dialogs share: a modal sheet over the dimmed window, closed by Escape or a click beside it.

use std::mem;

use eframe::egui;
use egui::{Align2, Button, Context, Frame, Id, Margin, Modal, ModalResponse, Response, RichText, Ui, Vec2};

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

/// Gives a new dialog's first field the focus, until it has had it once.
pub fn focus_first(field: &Response, is_new: &mut bool) {
    *is_new &= !field.has_focus();
    if *is_new {
        field.request_focus();
    }
}

/// A dialog in the middle of the window, `width` wide.
pub fn show<T>(
    ctx: &Context,
    id: &str,
    width: f32,
    title: &str,
    add: impl FnOnce(&mut Ui) -> Answer<T>,
) -> Answer<T> {
    let modal = Modal::new(Id::unique(id)).frame(frame(ctx, 18)).show(ctx, |ui| {
        ui.set_width(width);
        ui.heading(title);
        add(ui)
    });
    let answer = if modal.should_close() { Answer::Closed } else { modal.inner };
    if !matches!(answer, Answer::Open) {
        ctx.request_repaint(); // the window below handles keys again from the next frame on
    }
    answer
}

/// Runs `draw`, which draws the window below any dialog. While a dialog is open egui's pointer is hidden from it: a
/// tooltip below would stay, above the dialog.
pub fn draw_below(ctx: &Context, draw: impl FnOnce()) {
    let covered = ctx.memory(egui::Memory::top_modal_layer).is_some();
    let pointer = covered.then(|| ctx.input_mut(|input| mem::take(&mut input.pointer)));
    draw();
    if let Some(pointer) = pointer {
        ctx.input_mut(|input| input.pointer = pointer);
    }
}

/// A dialog anchored at the top, so that its head stays in place as it grows and shrinks.
pub fn show_at_top<T>(ctx: &Context, id: &str, add: impl FnOnce(&mut Ui) -> T) -> ModalResponse<T> {
    let id = Id::unique(id);
    let area = Modal::default_area(id).anchor(Align2::CENTER_TOP, Vec2::new(0.0, 70.0));
    Modal::new(id).area(area).frame(frame(ctx, 12)).show(ctx, add)
}

fn frame(ctx: &Context, margin: i8) -> Frame {
    Frame::window(&ctx.global_style()).inner_margin(Margin::same(margin))
}

/// The default button of a dialog, highlighted.
pub fn main_button(ui: &mut Ui, text: &str, enabled: bool) -> Response {
    let fill = ui.visuals().selection.bg_fill;
    let button = Button::new(RichText::new(text).strong()).fill(fill).min_size(Vec2::new(84.0, 26.0));
    ui.add_enabled(enabled, button)
}

/// The default button, which gives `answer`, and a Cancel button.
pub fn buttons<T>(ui: &mut Ui, text: &str, enabled: bool, answer: T) -> Answer<T> {
    let given = main_button(ui, text, enabled).clicked();
    match (given, ui.button("Cancel").clicked()) {
        (true, _) => Answer::Given(answer),
        (false, true) => Answer::Closed,
        (false, false) => Answer::Open,
    }
}
