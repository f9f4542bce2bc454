//! The style of the window: maps the colours of the figures' themes to egui's widgets.
//!
//! [`Theme`] names every colour; this file only says which widget takes which. The background of panels
//! differs a little from that of figures, so that a figure looks like a sheet.

use eframe::egui;
use egui::{CornerRadius, FontFamily, FontId, RichText, Stroke, TextStyle, Vec2, Visuals};

use crate::viz::draw::{Color, Theme, color32};

/// Width of the outline of the widget with keyboard focus.
const FOCUS_PX: f32 = 2.0;

/// Installs the light and the dark style in `ctx`; egui chooses between them (light, dark, or the system's).
pub fn install(ctx: &egui::Context) {
    ctx.set_visuals_of(egui::Theme::Light, visuals(&Theme::light()));
    ctx.set_visuals_of(egui::Theme::Dark, visuals(&Theme::dark()));
    ctx.all_styles_mut(|style| {
        let sizes = [
            (TextStyle::Heading, 17.0, FontFamily::Proportional),
            (TextStyle::Body, 13.5, FontFamily::Proportional),
            (TextStyle::Button, 13.5, FontFamily::Proportional),
            (TextStyle::Small, 11.5, FontFamily::Proportional),
            (TextStyle::Monospace, 12.5, FontFamily::Monospace),
        ];
        style.text_styles = sizes.map(|(style, size, family)| (style, FontId::new(size, family))).into();
        style.spacing.item_spacing = Vec2::new(8.0, 6.0);
        style.spacing.button_padding = Vec2::new(8.0, 3.0);
        style.spacing.interact_size.y = 24.0;
        style.spacing.window_margin = egui::Margin::same(14);
        style.spacing.menu_margin = egui::Margin::same(6);
        style.spacing.scroll.foreground_color = false; // in the text's colour it would stand out too much
        style.spacing.scroll.dormant_handle_opacity = 1.0; // a thin bar says that there is more
        style.interaction.selectable_labels = false;
        style.animation_time = 0.08;
    });
}

/// The theme of figures that goes with what `ui` shows.
pub fn theme(ui: &egui::Ui) -> Theme {
    if ui.visuals().dark_mode { Theme::dark() } else { Theme::light() }
}

/// Background of panels.
pub fn panel(theme: &Theme) -> Color {
    theme.ground.mix(theme.band, if theme.dark { 0.22 } else { 0.20 })
}

/// Background of buttons.
fn button(theme: &Theme) -> Color {
    panel(theme).mix(theme.band, 0.55)
}

/// Background of text fields.
fn field(theme: &Theme) -> Color {
    theme.ground.mix(theme.band, 0.5)
}

/// Colour of the boxes of checkboxes and of scroll bars, while the pointer is over them or not. Rails of sliders have it too: it
/// must not outshine the part of them that is filled.
fn mark(theme: &Theme, hovered: bool) -> Color {
    theme.band.mix(theme.muted, if hovered { 0.25 } else { 0.0 })
}

/// Colour of failures.
pub fn failed(theme: &Theme) -> Color {
    theme.accent()
}

/// Text in the colour of failures.
pub fn failure(ui: &egui::Ui, text: impl Into<String>) -> RichText {
    RichText::new(text).color(color32(failed(&theme(ui))))
}

/// Colour of what fits or is done.
pub fn fine(theme: &Theme) -> Color {
    theme.legible(theme.series[2])
}

/// Colour of the word beside what is pinned.
pub fn pinned(theme: &Theme) -> Color {
    theme.legible(theme.pinned())
}

/// Colour of a prediction that is right or wrong, or where that is not known.
pub fn outcome(theme: &Theme, right: Option<bool>) -> Color {
    right.map_or(theme.muted, |right| theme.legible(theme.outcome(right)))
}

/// Colour of an image's star.
pub fn starred(theme: &Theme) -> Color {
    theme.series[4]
}

/// Paints the outline of the widget with keyboard focus.
pub fn focus(ui: &egui::Ui, rect: egui::Rect, radius: f32) {
    let (ink, ground) = (ui.visuals().text_color(), ui.visuals().extreme_bg_color);
    let painter = ui.painter();
    // Two lines of different brightness: one contrasts with any picture.
    painter.rect_stroke(rect, radius, Stroke::new(FOCUS_PX + 1.5, ground), egui::StrokeKind::Inside);
    painter.rect_stroke(rect, radius, Stroke::new(FOCUS_PX, ink), egui::StrokeKind::Inside);
}

/// The style of menus: egui's, with the outline of the entry that has the keyboard focus.
pub fn menu(style: &mut egui::Style) {
    let outline = style.visuals.widgets.active.bg_stroke;
    egui::containers::menu::menu_style(style);
    style.visuals.widgets.active.bg_stroke = outline;
}

fn visuals(theme: &Theme) -> Visuals {
    let mut v = if theme.dark { Visuals::dark() } else { Visuals::light() };
    let accent = theme.series[0];
    let line = Stroke::new(1.0, color32(theme.faint));
    let ink = Stroke::new(1.0, color32(theme.ink));
    v.override_text_color = None;
    v.weak_text_color = Some(color32(theme.muted));
    v.panel_fill = color32(panel(theme));
    v.window_fill = color32(theme.ground);
    v.window_stroke = Stroke::new(1.0, color32(theme.band));
    v.extreme_bg_color = color32(theme.ground);
    v.text_edit_bg_color = Some(color32(field(theme)));
    v.faint_bg_color = color32(theme.faint.alpha(0.35));
    v.code_bg_color = color32(theme.faint.alpha(0.6));
    v.hyperlink_color = color32(accent);
    v.warn_fg_color = color32(failed(theme));
    v.error_fg_color = color32(failed(theme));
    v.selection.bg_fill = color32(panel(theme).mix(accent, if theme.dark { 0.45 } else { 0.28 }));
    v.selection.stroke = ink;
    v.window_corner_radius = CornerRadius::same(8);
    v.menu_corner_radius = CornerRadius::same(6);
    v.slider_trailing_fill = true;
    v.text_cursor.blink = false; // it draws the whole window twice a second, and what blinks distracts
    let base = panel(theme);
    for (widget, fill) in [
        (&mut v.widgets.noninteractive, base),
        (&mut v.widgets.inactive, button(theme)),
        (&mut v.widgets.hovered, base.mix(theme.band, 0.95)),
        (&mut v.widgets.active, base.mix(theme.band, 0.95)),
        (&mut v.widgets.open, base.mix(theme.band, 0.7)),
    ] {
        widget.bg_fill = color32(fill);
        widget.weak_bg_fill = color32(fill);
        widget.bg_stroke = line;
        widget.fg_stroke = ink;
        widget.corner_radius = CornerRadius::same(5);
        widget.expansion = 0.0;
    }
    v.widgets.inactive.bg_stroke = Stroke::NONE;
    v.widgets.inactive.bg_fill = color32(mark(theme, false));
    v.widgets.hovered.bg_fill = color32(mark(theme, true));
    v.widgets.active.bg_fill = color32(mark(theme, true));
    // What has the focus is outlined; a fill in the accent would make it look chosen.
    let outline = Stroke::new(FOCUS_PX, ink.color);
    (v.widgets.active.bg_stroke, v.widgets.active.fg_stroke) = (outline, outline);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coloured_words_can_be_read_on_panels_and_buttons() {
        for theme in [Theme::light(), Theme::dark()] {
            for ground in [panel(&theme), button(&theme)] {
                for color in [failed(&theme), fine(&theme), pinned(&theme), theme.ink] {
                    let contrast = color.contrast(ground);
                    assert!(contrast >= 4.5, "WCAG 2 asks for 4.5, but {color:?} has {contrast}");
                }
            }
        }
    }

    #[test]
    fn fields_and_boxes_stand_out_from_what_they_lie_on_and_the_tick_from_its_box() {
        for theme in [Theme::light(), Theme::dark()] {
            let least = |color: Color| [panel(&theme), theme.ground].map(|g| color.contrast(g));
            assert!(
                least(field(&theme)).iter().all(|contrast| *contrast > 1.1),
                "{:?}",
                least(field(&theme))
            );
            assert!(theme.muted.contrast(field(&theme)) >= 4.5, "the hint in it can be read");
            let boxes = [false, true].map(|hovered| mark(&theme, hovered));
            assert!(least(boxes[0]).iter().all(|contrast| *contrast > 1.3), "{:?}", least(boxes[0]));
            assert!(boxes.iter().all(|color| theme.ink.contrast(*color) > 4.5));
        }
    }

    #[test]
    fn the_focus_is_an_outline_and_what_is_chosen_a_fill() {
        for theme in [Theme::light(), Theme::dark()] {
            let v = visuals(&theme);
            let (focused, hovered) = (v.widgets.active, v.widgets.hovered);
            assert_eq!((focused.bg_fill, focused.weak_bg_fill), (hovered.bg_fill, hovered.weak_bg_fill));
            assert!(focused.bg_stroke.width > hovered.bg_stroke.width);
            assert_ne!(focused.bg_fill, v.selection.bg_fill);
            let mut style = egui::Style { visuals: v, ..egui::Style::default() };
            menu(&mut style);
            assert_eq!(style.visuals.widgets.active.bg_stroke, focused.bg_stroke, "in menus, too");
        }
    }
}
