//! The one look of dialogs: a sheet over the dimmed window, ended by Escape or a click beside it.

use eframe::egui;
use egui::{Align2, Button, Context, Frame, Id, Margin, Modal, ModalResponse, Response, RichText, Ui, Vec2};

/// A dialog in the middle of the window.
pub fn show<T>(ctx: &Context, id: &str, add: impl FnOnce(&mut Ui) -> T) -> ModalResponse<T> {
    Modal::new(Id::unique(id)).frame(frame(ctx, 18)).show(ctx, add)
}

/// One that hangs from the top, so that it grows and shrinks without leaping.
pub fn hang<T>(ctx: &Context, id: &str, add: impl FnOnce(&mut Ui) -> T) -> ModalResponse<T> {
    let id = Id::unique(id);
    let area = Modal::default_area(id).anchor(Align2::CENTER_TOP, Vec2::new(0.0, 70.0));
    Modal::new(id).area(area).frame(frame(ctx, 12)).show(ctx, add)
}

fn frame(ctx: &Context, margin: i8) -> Frame {
    Frame::window(&ctx.global_style()).inner_margin(Margin::same(margin))
}

/// The button a dialog is for; it stands out.
pub fn main_button(ui: &mut Ui, text: &str, enabled: bool) -> Response {
    let fill = ui.visuals().selection.bg_fill;
    let button = Button::new(RichText::new(text).strong()).fill(fill).min_size(Vec2::new(84.0, 26.0));
    ui.add_enabled(enabled, button)
}
