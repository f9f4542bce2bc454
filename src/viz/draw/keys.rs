//! Legends, colour bars, axes and titles. A figure on its own draws them; several in a row share them: each stores what
//! it would have drawn in [`Scene::deferred`], and the row draws it once.

use super::frame::{self, Axis};
use super::legend::{self, BAR_STEPS, Mark};
use super::scene::{Anchor, Box2, Point, Scene};
use super::theme::{Color, Theme};
use super::{font, pt};

/// Who draws legends, colour bars and axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// The figure.
    #[default]
    Own,
    /// The figure, beside others: the longest legend above their charts has so many lines.
    Beside(usize),
    /// The row it stands in.
    Shared,
}

/// What a figure leaves to its row to draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deferred {
    /// Entries of the legend.
    pub entries: Vec<(Mark, String)>,
    /// A colour bar: the box it stands beside, its axis, and its colours from the lowest up.
    pub bar: Option<(Box2, Axis, Vec<Color>)>,
    /// Vertical axes, each beside a box.
    pub axes: Vec<(Box2, Axis)>,
    /// The name of the horizontal axis.
    pub across: String,
    /// The title over the picture.
    pub caption: String,
    /// The line under it.
    pub foot: String,
}

impl Keys {
    /// Whether the row draws them.
    pub fn are_shared(self) -> bool {
        self == Self::Shared
    }

    /// The lines of the longest legend, of which the figure's own has so many.
    pub fn legend_lines(self, own: usize) -> usize {
        if let Self::Beside(longest) = self { longest.max(own) } else { own }
    }

    /// What of `area`, which begins below the figure's own legend, lies below the longest one.
    pub fn below_legend(self, area: Box2) -> Box2 {
        let Self::Beside(lines) = self else { return area };
        let top = lines as f32 * legend::ROW_PT + legend::BELOW_PT;
        if lines > 0 && top > area.y { Box2::new(area.x, top, area.w, area.bottom() - top) } else { area }
    }

    /// [`legend::legend`], here or in the row; returns the height it takes here.
    pub fn legend(
        self,
        scene: &mut Scene,
        theme: &Theme,
        at: Point,
        room: f32,
        entries: &[(Mark, &str)],
    ) -> f32 {
        if self.are_shared() {
            let entries = entries.iter().map(|(mark, text)| (*mark, (*text).to_owned()));
            scene.deferred.entries.extend(entries);
            return 0.0;
        }
        legend::legend(scene, theme, at, room, entries)
    }

    /// [`Axis::within`] for a colour bar; the row breaks names itself.
    pub fn bar_axis(self, axis: Axis, height: f32) -> Axis {
        if self.are_shared() { axis } else { axis.within(height) }
    }

    /// Width that a colour bar takes beside its box, in points; 0 where the row draws it.
    pub fn bar_room(self, axis: &Axis) -> f32 {
        if self.are_shared() { 0.0 } else { legend::bar_room(axis) }
    }

    /// Width that a colour bar leaves to pictures in a figure `width` wide, in points; in a row, which draws the bar, at most `most`.
    pub fn picture_room(self, bar: &Axis, width: f32, most: f32) -> f32 {
        if self.are_shared() { width.min(most) } else { width - legend::bar_room(bar) }
    }

    /// [`legend::color_bar`], here or in the row.
    pub fn color_bar(
        self,
        scene: &mut Scene,
        theme: &Theme,
        area: Box2,
        axis: &Axis,
        color: impl Fn(f32) -> Color,
    ) {
        if self.are_shared() {
            let colors = (0..BAR_STEPS).map(|i| color((i as f32 + 0.5) / BAR_STEPS as f32)).collect();
            scene.deferred.bar = Some((area, axis.clone(), colors));
        } else {
            legend::color_bar(scene, theme, area, axis, color);
        }
    }

    /// Height that a title takes, in points; 0 where the row writes it.
    pub fn title_room(self) -> f32 {
        if self.are_shared() { 0.0 } else { frame::TITLE_HEIGHT }
    }

    /// [`frame::title`], here, in its short form where it is wider than `room`, or in that over the cell of the row.
    pub fn title(self, scene: &mut Scene, theme: &Theme, (text, short): (&str, &str), room: f32) {
        if self.are_shared() {
            short.clone_into(&mut scene.deferred.caption);
        } else {
            let fits = font::width(text, pt::LABEL) <= room;
            frame::title(scene, theme, [0.0, 0.0], if fits { text } else { short }, room);
        }
    }

    /// The lines of a note under a picture at this width; the row breaks it itself.
    pub fn foot_lines(self, text: &str, width: f32) -> Vec<String> {
        if self.are_shared() { Vec::new() } else { font::break_lines(text, pt::TICK, width) }
    }

    /// A note under the picture, the first line on the baseline `at`, here or under the cell of the row.
    pub fn foot(self, scene: &mut Scene, theme: &Theme, at: Point, text: String) {
        if self.are_shared() {
            // Non-breaking spaces: the row breaks this at commas, not between a name and its number.
            scene.deferred.foot = text.replace(' ', "\u{a0}").replace(",\u{a0}", ", ");
        } else {
            for (line, words) in self.foot_lines(&text, scene.width).into_iter().enumerate() {
                let base = at[1] + line as f32 * frame::TITLE_HEIGHT;
                scene.text([at[0], base], words, pt::TICK, theme.muted, Anchor::Start);
            }
        }
    }
}

/// Longest line of the name of a row's bar or axis, in points, also where the bar is shorter than that.
pub(super) const NAME_PT: f32 = 64.0;

/// The name of an axis, broken into lines.
fn name_lines(axis: &Axis) -> Vec<String> {
    font::break_lines(&axis.label, pt::LABEL, NAME_PT)
}

/// Width of these lines, set upright side by side.
fn name_room(axis: &Axis) -> f32 {
    let lines = name_lines(axis).len() as f32;
    if lines > 0.0 { lines * pt::LABEL * 1.2 + 2.0 } else { 0.0 }
}

fn without_name(axis: &Axis) -> Axis {
    Axis { label: String::new(), ..axis.clone() }
}

/// Width that a bar drawn by a row takes beside its box, in points.
pub fn bar_room(axis: &Axis) -> f32 {
    legend::bar_room(&without_name(axis)) + name_room(axis)
}

/// Draws a row's colour bar to the right of `area`.
pub fn bar(scene: &mut Scene, theme: &Theme, area: Box2, axis: &Axis, colors: &[Color]) {
    let color = |t: f32| colors[((t * colors.len() as f32) as usize).min(colors.len() - 1)];
    legend::color_bar(scene, theme, area, &without_name(axis), color);
    let left = area.right() + legend::bar_room(&without_name(axis)) + pt::LABEL + 1.0;
    let middle = area.center()[1];
    for (at, line) in name_lines(axis).into_iter().enumerate() {
        // The name of a short bar may reach below the last row.
        scene.height = scene.height.max(middle + font::width(&line, pt::LABEL) / 2.0);
        let x = left + at as f32 * pt::LABEL * 1.2;
        scene.text_up([x, middle], line, pt::LABEL, theme.ink);
    }
}

/// Width that a row's vertical axis takes left of its frames, in points.
pub fn axis_room(axis: &Axis) -> f32 {
    frame::TICK + 2.0 + axis.widest() + name_room(axis)
}

/// Draws a row's vertical axis along the left edge of `area`.
pub fn axis(scene: &mut Scene, theme: &Theme, area: Box2, axis: &Axis) {
    frame::vertical_ticks(scene, theme, area, axis);
    let right = area.x - frame::TICK - 2.0 - axis.widest() - 2.0 - pt::LABEL * 0.2;
    for (at, line) in name_lines(axis).into_iter().rev().enumerate() {
        let x = right - at as f32 * pt::LABEL * 1.2;
        scene.text_up([x, area.center()[1]], line, pt::LABEL, theme.ink);
    }
}
