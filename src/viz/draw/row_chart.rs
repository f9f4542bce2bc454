//! A chart of named rows.

use super::frame::{Axis, Frame};
use super::scale::Scale;
use super::scene::{Anchor, Box2, Scene};
use super::theme::Theme;
use super::{font, pt};

/// A chart with one named row for each item, above one horizontal axis.
pub struct RowChart {
    /// The frame to the right of the names; its vertical axis has no ticks.
    pub frame: Frame,
    /// Height of a row.
    pub step: f32,
    /// Width of the names and the gap after them.
    left: f32,
}

impl RowChart {
    /// Lays out rows in `room`, with names that take at most the fraction `max_share` of its width; `right`
    /// points are left free on the right.
    pub fn new(room: Box2, x: Axis, names: &[&str], (max_share, right): (f32, f32)) -> Self {
        let left = font::widest(names, pt::TICK).min(room.w * max_share) + 6.0;
        let outer = Box2::new(left, room.y, room.w - left - right, room.h);
        let frame = Frame::fit(outer, x, Axis::new(Scale::linear(0.0, 1.0), "", 0));
        let step = frame.area.h / names.len() as f32;
        Self { frame, step, left }
    }

    /// Writes the name of row `at`; returns the vertical centre of the row.
    pub fn name(&self, scene: &mut Scene, theme: &Theme, at: usize, name: &str) -> f32 {
        let (x, y) = (self.left - 5.0, self.frame.area.y + (at as f32 + 0.5) * self.step);
        scene.text_mid([x, y], font::fit_middle(name, pt::TICK, x), pt::TICK, theme.ink, Anchor::End);
        y
    }
}
