//! Legends above the data and colour bars beside it.

use super::frame::{Axis, TICK};
use super::scene::{Anchor, Box2, Point, Raster, Scene, Stroke};
use super::theme::{Color, Theme};
use super::{font, pt};
use crate::viz::{MARGIN, Size};

/// Number of colours of a colour bar.
pub(super) const BAR_STEPS: usize = 128;
/// Height of a row of a legend, and of the gap below the last one, in points.
pub const ROW_PT: f32 = pt::TICK + 3.0;
pub(super) const BELOW_PT: f32 = 2.0;
/// Gap between a box and its colour bar, and width of the bar, in points.
const BAR_GAP_PT: f32 = 4.0;
const BAR_PT: f32 = 5.0;

/// Width of the mark of a series, in points.
const SWATCH_PT: f32 = 11.0;
/// Width of the mark with the gap between it and the text, in points.
pub const MARK_PT: f32 = SWATCH_PT + 3.0;

/// How a series is drawn in a legend.
#[expect(missing_docs, reason = "most are called what they are")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Line(Stroke),
    /// A filled box.
    Patch(Color),
    Dot(Color),
    /// A dot of one colour in a ring of another.
    Ring(Color, Color),
    /// No mark, only words.
    None,
    /// An upright line.
    Tick(Stroke),
}

/// Draws the entries in rows from `at`, at most `room` points wide; returns their height.
pub fn legend(
    scene: &mut Scene,
    theme: &Theme,
    at: Point,
    room: f32,
    entries: &[(Mark, impl AsRef<str>)],
) -> f32 {
    let (size, swatch, row) = (pt::TICK, SWATCH_PT, ROW_PT);
    let (mut x, mut y) = (at[0], at[1] + row / 2.0);
    for (mark, text) in entries {
        let before = if matches!(mark, Mark::None) { 0.0 } else { MARK_PT };
        let text = font::fit(text.as_ref(), size, room - before);
        let width = before + font::width(&text, size);
        if x > at[0] && x + width > at[0] + room {
            (x, y) = (at[0], y + row);
        }
        match *mark {
            Mark::Line(stroke) => scene.line(vec![[x, y], [x + swatch, y]], stroke),
            Mark::Patch(color) => scene.fill(Box2::new(x, y - 2.5, swatch, 5.0), color),
            Mark::Dot(color) => scene.dot([x + swatch / 2.0, y], 2.2, color, None),
            Mark::Ring(fill, ring) => {
                scene.dot([x + swatch / 2.0, y], 2.6, fill, Some(Stroke::new(0.8, ring)));
            }
            Mark::None => {}
            Mark::Tick(stroke) => {
                scene.line(vec![[x + swatch / 2.0, y - 3.0], [x + swatch / 2.0, y + 3.0]], stroke);
            }
        }
        scene.text_mid([x + before, y], text, size, theme.ink, Anchor::Start);
        x += width + 9.0;
    }
    if entries.is_empty() { 0.0 } else { y + row / 2.0 + BELOW_PT - at[1] }
}

/// The number of rows that the entries take at a width of `room` points.
pub fn lines(room: f32, entries: &[(Mark, impl AsRef<str>)]) -> usize {
    let mut scratch = Scene::new(room, 0.0, "", None);
    (legend(&mut scratch, &Theme::light(), [0.0, 0.0], room, entries) / ROW_PT) as usize
}

/// Draws the entries at the top of a figure of `size`; returns the area left below them.
pub fn above(scene: &mut Scene, theme: &Theme, size: Size, entries: &[(Mark, impl AsRef<str>)]) -> Box2 {
    let top = legend(scene, theme, [0.0, 0.0], size.width, entries);
    Box2::new(0.0, top, size.width, size.height - top)
}

/// Width that a colour bar takes beside its box, in points.
pub fn bar_room(axis: &Axis) -> f32 {
    let lines = axis.label.lines().count() as f32;
    let name = if lines > 0.0 { lines * pt::LABEL * 1.2 + 2.0 } else { 0.0 };
    BAR_GAP_PT + BAR_PT + TICK + 2.0 + axis.widest() + name
}

/// Draws a vertical colour bar to the right of `area` and as high; `color` maps 0 to 1 along the axis. A long name must
/// already be broken by [`Axis::within`].
pub fn color_bar(scene: &mut Scene, theme: &Theme, area: Box2, axis: &Axis, color: impl Fn(f32) -> Color) {
    let bar = Box2::new(area.right() + BAR_GAP_PT, area.y, BAR_PT, area.h);
    let pixels = (0..BAR_STEPS).map(|i| color(1.0 - (i as f32 + 0.5) / BAR_STEPS as f32));
    scene.image(bar, Raster::new(1, BAR_STEPS, pixels), false, None);
    let hair = Stroke::new(pt::HAIR, theme.axis);
    scene.outline(bar, hair);
    let half = pt::TICK * font::CAP / 2.0;
    let height = |v: f64| bar.bottom() - axis.scale.at(v) * bar.h;
    // Not `clamp`, which panics where the bar is lower than its numbers.
    let middle = |v: f64| height(v).max(bar.y + half).min(bar.bottom() - half);
    let texts = axis.texts();
    for (at, (v, text)) in texts.iter().enumerate() {
        // On a low bar a number gives way to the next, with its tick.
        if texts.get(at + 1).is_none_or(|(next, _)| (middle(*v) - middle(*next)).abs() > 2.0 * half) {
            scene.line(vec![[bar.right(), height(*v)], [bar.right() + TICK, height(*v)]], hair);
            let place = [bar.right() + TICK + 2.0, middle(*v)];
            scene.text_mid(place, text.clone(), pt::TICK, theme.axis, Anchor::Start);
        }
    }
    let left = bar.right() + TICK + 2.0 + axis.widest() + pt::LABEL + 2.0;
    for (at, line) in axis.label.lines().enumerate() {
        // Beside a short bar near an edge the name is kept inside the scene.
        let half = font::width(line, pt::LABEL) / 2.0 - MARGIN;
        let y = bar.center()[1].max(half).min(scene.height - half);
        scene.text_up([left + at as f32 * pt::LABEL * 1.2, y], line, pt::LABEL, theme.ink);
    }
}
