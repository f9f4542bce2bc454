//! Axes with ticks and labels, panel titles, and messages where there is no data. They are laid out
//! before the data, so that none covers it.

use super::keys::{Keys, NAME_PT};
use super::scale::Scale;
use super::scene::{Anchor, Box2, Identity, Point, Scene, Stroke};
use super::theme::{Color, Theme};
use super::{font, pt};
use crate::viz::MARGIN;

/// Length of a tick, in points.
pub const TICK: f32 = 2.5;
/// How far the name of a vertical axis may reach above it, where a legend or a title stands, in points.
const NAME_ABOVE_PT: f32 = 5.0;
/// Least distance of horizontal ticks where figures in a row share keys, in points.
const MIN_TICK_STEP_PT: f32 = 24.0;
/// Least distance of vertical ticks, in points: in less their labels would cover each other.
const MIN_TICK_RISE_PT: f32 = 7.0;

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// From numbers to places along it.
    pub scale: Scale,
    /// Its name and unit; empty for none.
    pub label: String,
    /// Approximate number of ticks; 0 for none.
    pub ticks: usize,
    /// Whether only whole numbers get a tick.
    pub whole: bool,
    /// A last number that always gets a tick, round or not.
    pub last: Option<f64>,
}

impl Axis {
    /// An axis of real numbers with a name.
    pub fn new(scale: Scale, label: impl Into<String>, ticks: usize) -> Self {
        Self { scale, label: label.into(), ticks, whole: false, last: None }
    }

    /// The positions 0 to `n - 1` of a sequence, with half a position to spare at both ends.
    pub fn positions(n: usize, label: &str) -> Self {
        Self::counts(Scale::linear(-0.5, n as f64 - 0.5), label, 5).up_to(n)
    }

    /// An axis of whole numbers.
    pub fn counts(scale: Scale, label: impl Into<String>, ticks: usize) -> Self {
        Self { whole: true, ..Self::new(scale, label, ticks) }
    }

    /// The axis with a tick at `n - 1`, the last of `n` indices.
    pub fn up_to(self, n: usize) -> Self {
        Self { last: Some(n.saturating_sub(1) as f64), ..self }
    }

    /// The axis with its name broken into lines that fit, set upright, into a picture `height` points high.
    pub fn within(self, height: f32) -> Self {
        let room = (height + 2.0 * MARGIN).max(0.5 * NAME_PT);
        let lines = font::break_lines(&self.label, pt::LABEL, room);
        Self { label: lines.join("\n"), ..self }
    }

    /// The numbers that get a tick, and their labels.
    pub fn texts(&self) -> Vec<(f64, String)> {
        if self.ticks == 0 {
            return Vec::new();
        }
        let mut ticks = self.scale.ticks(self.ticks);
        if self.whole {
            let is_whole = |v: &f64| (v - v.round()).abs() < 1e-6;
            // A step of 2.5 may leave 0 alone.
            if ticks.iter().copied().filter(is_whole).count() < 2 {
                ticks = self.scale.ticks(2 * self.ticks);
            }
            ticks.retain(is_whole);
        }
        if let Some(last) = self.last {
            let min_gap = 0.1 * (self.scale.hi - self.scale.lo).abs();
            ticks.retain(|v| last - v > min_gap);
            ticks.push(last);
        }
        let labels = self.scale.labels(&ticks);
        ticks.into_iter().zip(labels).collect()
    }

    /// How far its tick labels reach beyond the right end of an axis `width` points long.
    fn overhang(&self, width: f32) -> f32 {
        let reach =
            |(v, text): (f64, String)| font::width(&text, pt::TICK) / 2.0 - (1.0 - self.scale.at(v)) * width;
        self.texts().into_iter().map(reach).fold(0.0, f32::max)
    }

    /// Least distance of two of its numbers, as a fraction of its length.
    fn least_gap(&self) -> f32 {
        let places: Vec<f32> = self.texts().iter().map(|(v, _)| self.scale.at(*v)).collect();
        places.windows(2).map(|two| (two[1] - two[0]).abs()).fold(f32::INFINITY, f32::min)
    }

    /// Width of the widest tick label, in points.
    pub fn widest(&self) -> f32 {
        font::widest(self.texts().into_iter().map(|(_, text)| text), pt::TICK)
    }
}

/// A box of data with an axis below and one to the left.
pub struct Frame {
    /// The area of the data.
    pub area: Box2,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, rising upwards.
    pub y: Axis,
    /// Whether the frame draws the vertical axis and the name of the horizontal one itself.
    pub keys: Keys,
}

impl Frame {
    /// Lays the axes out in `outer`; the rest is the area of the data.
    pub fn fit(outer: Box2, x: Axis, y: Axis) -> Self {
        Self::keyed(outer, (x, y), Keys::Own)
    }

    /// As [`Frame::fit`], where with shared `keys` the row draws the vertical axis and the name of the horizontal one.
    pub fn keyed(outer: Box2, (mut x, mut y): (Axis, Axis), keys: Keys) -> Self {
        let shared = keys.are_shared();
        let name_room =
            |axis: &Axis| if shared || axis.label.is_empty() { 0.0 } else { pt::LABEL * 1.15 + 1.5 };
        let ticks_room = |axis: &Axis, room: f32| if axis.ticks == 0 { 0.0 } else { TICK + 2.0 + room };
        if shared && x.ticks > 0 {
            x.ticks = x.ticks.min((outer.w / MIN_TICK_STEP_PT) as usize).max(2);
        }
        let bottom = ticks_room(&x, pt::TICK * 0.8) + name_room(&x) + if x.ticks == 0 { 0.0 } else { 1.0 };
        let top = if y.ticks == 0 { 0.0 } else { pt::TICK * 0.4 };
        let high = outer.h - bottom - top;
        if y.ticks > 0 {
            y.ticks = y.ticks.min((high / MIN_TICK_RISE_PT) as usize).max(2);
        }
        // A logarithmic axis may have more numbers than asked for, and a very low one has room for a single number.
        while y.ticks > 1 && y.least_gap() * high < pt::TICK * font::CAP + 1.0 {
            y.ticks -= 1;
        }
        let left = if shared { 0.0 } else { name_room(&y) + ticks_room(&y, y.widest()) };
        let right = x.overhang(outer.w - left).max(1.0);
        let area = Box2::new(outer.x + left, outer.y + top, outer.w - left - right, high);
        Self { area, x, y, keys }
    }

    /// Gives frames above each other the same left edge.
    pub fn align(frames: &mut [&mut Self]) {
        let left = frames.iter().map(|f| f.area.x).fold(0.0, f32::max);
        for frame in frames {
            frame.area.w -= left - frame.area.x;
            frame.area.x = left;
        }
    }

    /// The horizontal place of the number `v`, in points of the scene.
    pub fn x(&self, v: f64) -> f32 {
        self.area.x + self.x.scale.at(v) * self.area.w
    }

    /// The vertical place of the number `v`, in points of the scene.
    pub fn y(&self, v: f64) -> f32 {
        self.area.bottom() - self.y.scale.at(v) * self.area.h
    }

    /// The place of a pair of numbers, clamped to the area of the data.
    pub fn at(&self, x: f64, y: f64) -> Point {
        let (px, py) = (self.x(x), self.y(y));
        [px.clamp(self.area.x, self.area.right()), py.clamp(self.area.y, self.area.bottom())]
    }

    /// Draws a curve over 0, 1, … where it lies between the ends of the vertical axis: a line along its edge would be read as
    /// numbers that stay there.
    pub fn curve(&self, scene: &mut Scene, values: impl IntoIterator<Item = f64>, stroke: Stroke) {
        let all: Vec<(usize, f64)> = values.into_iter().enumerate().collect();
        let inside = |v: f64| (-1e-6..=1.0 + 1e-6).contains(&self.y.scale.at(v));
        for part in all.split(|(_, v)| !inside(*v)).filter(|part| !part.is_empty()) {
            scene.line(part.iter().map(|(k, v)| self.at(*k as f64, *v)).collect(), stroke);
        }
    }

    /// Adds a hover target for each of `n` vertical strips of equal width.
    pub fn strips(&self, scene: &mut Scene, n: usize, identity: impl Fn(usize) -> Identity) {
        let cell = self.area.w / n as f32;
        for k in 0..n {
            let x = self.area.x + k as f32 * cell;
            scene.target(Box2::new(x, self.area.y, cell, self.area.h), identity(k));
        }
    }

    /// Fills the area between two numbers of the horizontal axis, as for a null band; at least a point wide.
    pub fn band(&self, scene: &mut Scene, (from, to): (f64, f64), color: Color) {
        let (from, to) = (self.x(from), self.x(to));
        scene.fill(Box2::new(from, self.area.y, (to - from).max(1.0), self.area.h), color);
    }

    /// Width available to the name of the horizontal axis in a scene of this width.
    pub fn across_room(&self, width: f32) -> f32 {
        let middle = self.area.center()[0];
        2.0 * (middle.min(width - middle) + MARGIN)
    }

    /// Draws faint lines at the vertical ticks; to be called before the data are drawn.
    pub fn grid(&self, scene: &mut Scene, theme: &Theme) {
        for (v, _) in self.y.texts() {
            let y = self.y(v);
            scene.line(vec![[self.area.x, y], [self.area.right(), y]], Stroke::new(pt::HAIR, theme.faint));
        }
    }

    /// Draws a line at zero of the vertical axis.
    pub fn zero_line(&self, scene: &mut Scene, theme: &Theme) {
        let y = self.y(0.0);
        scene.line(vec![[self.area.x, y], [self.area.right(), y]], Stroke::new(pt::HAIR, theme.axis));
    }

    /// Draws axes, ticks and labels; to be called after the data are drawn.
    pub fn axes(&self, scene: &mut Scene, theme: &Theme) {
        let a = self.area;
        let hair = Stroke::new(pt::HAIR, theme.axis);
        scene.line(vec![[a.x, a.y], [a.x, a.bottom()], [a.right(), a.bottom()]], hair);
        let mut below = a.bottom();
        if self.x.ticks > 0 {
            let base = a.bottom() + TICK + 2.0 + pt::TICK * font::CAP;
            for (v, text) in self.x.texts() {
                let x = self.x(v);
                scene.line(vec![[x, a.bottom()], [x, a.bottom() + TICK]], hair);
                scene.text([x, base], text, pt::TICK, theme.axis, Anchor::Middle);
            }
            below = base + 1.5;
        }
        if self.keys.are_shared() {
            scene.deferred.axes.push((a, self.y.clone()));
            if !self.x.label.is_empty() {
                scene.deferred.across.clone_from(&self.x.label);
            }
            return;
        }
        if !self.x.label.is_empty() {
            let at = [a.center()[0], below + 1.5 + pt::LABEL * font::CAP];
            let name = font::fit_middle(&self.x.label, pt::LABEL, self.across_room(scene.width));
            scene.text(at, name, pt::LABEL, theme.ink, Anchor::Middle);
        }
        vertical_ticks(scene, theme, a, &self.y);
        if !self.y.label.is_empty() {
            let room = if self.y.ticks == 0 { 0.0 } else { TICK + 2.0 + self.y.widest() };
            let x = a.x - room - 2.0 - pt::LABEL * 0.2;
            let name = font::fit_name(&self.y.label, pt::LABEL, a.h + 14.0);
            // Below the axis there is room beside its first number.
            let down = ((font::width(&name, pt::LABEL) - a.h) / 2.0 - NAME_ABOVE_PT).max(0.0);
            scene.text_up([x, a.center()[1] + down], name, pt::LABEL, theme.ink);
        }
    }
}

/// Draws the ticks of a vertical axis along the left edge of `area`, and their labels.
pub(super) fn vertical_ticks(scene: &mut Scene, theme: &Theme, area: Box2, axis: &Axis) {
    for (v, text) in axis.texts() {
        let y = area.bottom() - axis.scale.at(v) * area.h;
        scene.line(vec![[area.x - TICK, y], [area.x, y]], Stroke::new(pt::HAIR, theme.axis));
        scene.text_mid([area.x - TICK - 2.0, y], text, pt::TICK, theme.axis, Anchor::End);
    }
}

/// Height of a panel title with the gap below it, in points.
pub const TITLE_HEIGHT: f32 = pt::LABEL + 2.5;

/// Writes a panel title below the point `at`, at most `room` points wide; returns its height.
pub fn title(scene: &mut Scene, theme: &Theme, at: Point, text: &str, room: f32) -> f32 {
    let text = font::fit(text, pt::LABEL, room);
    scene.text([at[0], at[1] + pt::LABEL * font::CAP + 0.5], text, pt::LABEL, theme.ink, Anchor::Start);
    TITLE_HEIGHT
}

/// A scene with a centred message that says why there is nothing to see.
pub fn message(theme: &Theme, width: f32, height: f32, text: &str) -> Scene {
    let mut scene = Scene::new(width, height, "", theme.background);
    let lines = font::break_lines(text, pt::LABEL, width - 12.0);
    let top = (height - lines.len() as f32 * pt::LABEL * 1.3) / 2.0;
    for (i, line) in lines.into_iter().enumerate() {
        let at = [width / 2.0, top + (i as f32 + 0.5) * pt::LABEL * 1.3];
        scene.text_mid(at, line, pt::LABEL, theme.muted, Anchor::Middle);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viz::Size;
    use crate::viz::draw::scene::{Item, Shape};
    use crate::viz::draw::{Mark, legend};

    #[test]
    fn whole_numbers_get_ticks_where_round_steps_are_none() {
        // Four steps of 2.5 would leave 0 alone.
        let axis = Axis::counts(Scale::linear(-4.16, 4.16), "", 4);
        let labels: Vec<String> = axis.texts().into_iter().map(|(_, text)| text).collect();
        assert_eq!(labels, ["−4", "−2", "0", "2", "4"]);
    }

    #[test]
    fn indices_are_whole_numbers_that_stand_apart() {
        for (n, labels) in [(196, "0 50 100 150 195"), (12, "0 5 11"), (2, "0 1"), (1, "0")] {
            let axis = Axis::counts(Scale::linear(0.0, f64::from(n.max(2)) - 1.0), "", 5).up_to(n as usize);
            let texts: Vec<String> = axis.texts().into_iter().map(|(_, text)| text).collect();
            assert_eq!(texts.join(" "), labels);
        }
    }

    #[test]
    fn numbers_of_a_low_axis_stand_apart() {
        let (linear, log) = (Scale::linear(-1.1, 0.6), Scale::log(0.06, 4.0, 6));
        let drawn = |scale: Scale, height: f32| {
            let axis = || Axis::new(scale, "", 4);
            let frame = Frame::fit(Box2::new(0.0, 0.0, 200.0, height), axis(), axis());
            let places: Vec<f32> = frame.y.texts().iter().map(|(v, _)| frame.y(*v)).collect();
            (places.len(), places.windows(2).map(|two| two[0] - two[1]).fold(f32::INFINITY, f32::min))
        };
        assert_eq!([linear, log].map(|scale| drawn(scale, 100.0).0), [4, 5], "where there is room");
        for scale in [linear, log] {
            let (count, apart) = drawn(scale, 32.0);
            assert!(count > 1 && apart > pt::TICK, "{count} numbers, {apart} points apart");
        }
        // 5 and 10, multiples of the step of a single number, lie outside the last one.
        for scale in [linear, log, Scale::linear(5.9, 9.0)] {
            assert_eq!(drawn(scale, 22.0).0, 1, "no two fit");
        }
    }

    #[test]
    fn a_name_longer_than_its_axis_stays_below_the_legend() {
        let (theme, size) = (Theme::light(), Size { width: 200.0, height: 93.0 });
        let mut scene = Scene::new(size.width, size.height, "", None);
        let below = legend::above(&mut scene, &theme, size, &[(Mark::None, "Spearman −0.048 (n = 500)")]);
        let axis = |name: &str| Axis::new(Scale::linear(0.0, 1.0), name, 4);
        let frame = Frame::fit(below, axis("Rank coverage"), axis("True-class probability"));
        frame.axes(&mut scene, &theme);
        let text = |item: &Item| match &item.shape {
            Shape::Text { at, text, upwards, .. } => Some((at[1], font::width(text, pt::LABEL), *upwards)),
            _ => None,
        };
        let key = scene.items.iter().find_map(text).expect("the legend").0;
        let name = scene.items.iter().filter_map(text).find(|(.., upwards)| *upwards);
        let (middle, length, _) = name.expect("the name");
        assert!(length > frame.area.h + 10.0, "{length} of {}", frame.area.h);
        assert!(
            middle - length / 2.0 > key + 2.0 && middle + length / 2.0 < size.height,
            "{middle} {length}"
        );
    }

    #[test]
    fn beside_a_low_axis_its_name_is_without_the_unit() {
        let name = |height: f32| {
            let mut scene = Scene::new(200.0, height, "", None);
            let axis = |name: &str| Axis::new(Scale::linear(0.0, 1.0), name, 4);
            let frame = Frame::fit(Box2::new(0.0, 0.0, 200.0, height), axis(""), axis("Evidence (logit)"));
            frame.axes(&mut scene, &Theme::light());
            scene.items.into_iter().find_map(|item| match item.shape {
                Shape::Text { text, upwards: true, .. } => Some(text),
                _ => None,
            })
        };
        assert_eq!([name(100.0), name(45.0)], ["Evidence (logit)", "Evidence"].map(|name| Some(name.into())));
    }

    #[test]
    fn the_last_label_and_a_long_name_stay_inside_a_small_picture() {
        let x = Axis::new(Scale::linear(0.0, 15.0), "", 3);
        let frame = Frame::fit(Box2::new(0.0, 0.0, 80.0, 40.0), x, Axis::new(Scale::linear(0.0, 1.0), "", 0));
        let end = frame.x(15.0) + font::width("15", pt::TICK) / 2.0;
        assert!(end <= 80.1 && frame.area.right() > 70.0, "{end}");
        let bar = Axis::counts(Scale::linear(0.0, 11.0), "Step (last is read last)", 5).within(40.0);
        assert!(bar.label.lines().all(|line| font::width(line, pt::LABEL) <= 44.0), "{}", bar.label);
    }
}
