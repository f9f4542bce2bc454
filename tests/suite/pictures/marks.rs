//! Reads a scene back as a reader does: every mark at its place on the page, numbers on axes by the labels of the ticks,
//! numbers of colours by the colour bar, and the meaning of a colour by the word beside it in the legend.

use std::sync::Arc;

use ssmprobe::model::grid::Grid;
use ssmprobe::viz::draw::pt;
use ssmprobe::viz::draw::scene::{Anchor, Box2, Item, Point, Raster, Scene, Shape};
use ssmprobe::viz::draw::theme::{Color, Theme};

use super::rulers::{Bar, Ruler};

/// Tolerance between two places that should be equal, in points.
pub const NEAR: f32 = 0.02;

/// A line of text.
#[derive(Clone, Debug)]
pub struct Word {
    pub text: String,
    pub at: Point,
    pub size: f32,
    pub anchor: Anchor,
    pub upwards: bool,
}

/// A dot.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    pub at: Point,
    pub radius: f32,
    pub ring: Option<Color>,
}

/// All marks of a scene in page coordinates.
pub struct Marks {
    pub items: Vec<Item>,
    theme: Theme,
}

impl Marks {
    pub fn of(scene: &Scene, theme: &Theme) -> Self {
        let mut items = Vec::new();
        lay(&scene.items, [0.0; 2], &mut items);
        Self { items, theme: theme.clone() }
    }

    fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.items.iter().map(|item| &item.shape)
    }

    pub fn words(&self) -> Vec<Word> {
        let word = |shape: &Shape| match shape {
            Shape::Text { at, text, size, anchor, upwards, .. } => {
                Some(Word { text: text.clone(), at: *at, size: *size, anchor: *anchor, upwards: *upwards })
            }
            _ => None,
        };
        self.shapes().filter_map(word).collect()
    }

    /// The one line of this text.
    #[track_caller]
    pub fn word(&self, text: &str) -> Word {
        let found: Vec<Word> = self.words().into_iter().filter(|word| word.text == text).collect();
        let all = || self.words().into_iter().map(|word| word.text).collect::<Vec<_>>();
        assert!(found.len() == 1, "{text:?} stands {} times among {:?}", found.len(), all());
        found.into_iter().next().expect("one")
    }

    pub fn has(&self, text: &str) -> bool {
        self.words().iter().any(|word| word.text == text)
    }

    /// Images with their places.
    fn images(&self) -> impl Iterator<Item = (Box2, Arc<Raster>)> {
        self.shapes().filter_map(pick!(Shape::Image { rect, raster, .. } => (*rect, raster.clone())))
    }

    /// Images of this size in pixels.
    pub fn rasters(&self, width: usize, height: usize) -> Vec<(Box2, Arc<Raster>)> {
        self.images().filter(|(_, raster)| (raster.width, raster.height) == (width, height)).collect()
    }

    /// Boxes filled with this colour.
    pub fn fills(&self, color: Color) -> Vec<Box2> {
        self.shapes()
            .filter_map(pick!(Shape::Rect { rect, fill: Some(own), .. } if *own == color => *rect))
            .collect()
    }

    /// Every open line with its colour.
    pub fn strokes(&self) -> Vec<(Color, &[Point])> {
        let lines = self.shapes().filter_map(|shape| match shape {
            Shape::Path { closed: false, stroke: Some(stroke), points, .. } => {
                Some((stroke.color, &points[..]))
            }
            _ => None,
        });
        lines.collect()
    }

    /// Lines of this colour with this number of points.
    pub fn lines(&self, color: Color, points: usize) -> Vec<&[Point]> {
        let own = self.strokes().into_iter().filter(|(found, line)| *found == color && line.len() == points);
        own.map(|(_, line)| line).collect()
    }

    /// Outlines filled with this colour.
    pub fn areas(&self, color: Color) -> Vec<&[Point]> {
        let areas = self.shapes().filter_map(|shape| match shape {
            Shape::Path { closed: true, fill: Some(fill), points, .. } if *fill == color => Some(&points[..]),
            _ => None,
        });
        areas.collect()
    }

    /// Dots of this colour.
    pub fn dots(&self, color: Color) -> Vec<Dot> {
        let dots = self.shapes().filter_map(|shape| match shape {
            Shape::Circle { center, radius, fill, stroke } if *fill == Some(color) => {
                Some(Dot { at: *center, radius: *radius, ring: stroke.map(|stroke| stroke.color) })
            }
            _ => None,
        });
        dots.collect()
    }

    /// The colour of the mark before a word of the legend.
    #[track_caller]
    pub fn swatch(&self, text: &str) -> Color {
        let word = self.word(text);
        let middle = word.at[1] - word.size * ssmprobe::viz::draw::font::CAP / 2.0;
        let before =
            |[x, y]: Point| x > word.at[0] - 14.5 && x < word.at[0] - 2.0 && (y - middle).abs() < NEAR;
        let color = |shape: &Shape| match shape {
            Shape::Rect { rect, fill: Some(fill), .. } if before(rect.center()) => Some(*fill),
            Shape::Circle { center, fill: Some(fill), .. } if before(*center) => Some(*fill),
            Shape::Path { points, stroke: Some(stroke), .. } if points.len() == 2 => {
                let [a, b] = [points[0], points[1]];
                before([f32::midpoint(a[0], b[0]), f32::midpoint(a[1], b[1])]).then_some(stroke.color)
            }
            _ => None,
        };
        let found: Vec<Color> = self.shapes().filter_map(color).collect();
        assert!(found.len() == 1, "{} marks stand before {text:?}", found.len());
        found[0]
    }

    /// The boxes that are outlined in this colour.
    pub fn outlines(&self, color: Color) -> Vec<Box2> {
        self.shapes()
            .filter_map(pick!(Shape::Rect { rect, stroke: Some(own), .. } if own.color == color => *rect))
            .collect()
    }

    /// The axes of frame number `nth`, in the order of drawing.
    #[track_caller]
    pub fn axes(&self, nth: usize) -> Axes {
        let (axis, label) = (self.theme.axis, pt::LABEL);
        let corner = self.lines(axis, 3);
        let [top, corner, end] = corner.get(nth).expect("as many axes")[..] else { unreachable!() };
        let area = Box2::new(corner[0], top[1], end[0] - corner[0], corner[1] - top[1]);
        assert!(top[0] == corner[0] && corner[1] == end[1] && area.w > 0.0 && area.h > 0.0, "{area:?}");
        let (words, ticks) = (self.words(), self.lines(axis, 2));
        // A tick leads outwards from its axis; its number stands just beyond.
        let below = ticks
            .iter()
            .filter(|t| near(t[0][0], t[1][0]) && near(t[0][1], area.bottom()) && t[1][1] > t[0][1]);
        let below = below.filter(|t| t[0][0] > area.x - 0.5 && t[0][0] < area.right() + 0.5).map(|tick| {
            let under = |word: &&Word| {
                let beside = word.at[1] - area.bottom();
                near(word.at[0], tick[0][0]) && beside > 0.0 && beside < 12.0 && word.anchor == Anchor::Middle
            };
            let found = words.iter().filter(under).find_map(number);
            (found.unwrap_or_else(|| panic!("no number below the tick at {tick:?}")), tick[0][0])
        });
        let below: Vec<(f64, f32)> = below.collect();
        let left =
            ticks.iter().filter(|t| near(t[0][1], t[1][1]) && near(t[1][0], area.x) && t[0][0] < t[1][0]);
        let left = left.filter(|t| t[0][1] > area.y - 0.5 && t[0][1] < area.bottom() + 0.5).map(|tick| {
            let beside = |word: &&Word| {
                let middle = word.at[1] - word.size * ssmprobe::viz::draw::font::CAP / 2.0;
                let away = tick[0][0] - word.at[0];
                near(middle, tick[0][1]) && away > 0.0 && away < 4.0 && word.anchor == Anchor::End
            };
            let found = words.iter().filter(beside).find_map(number);
            (found.unwrap_or_else(|| panic!("no number beside the tick at {tick:?}")), tick[0][1])
        });
        let left: Vec<(f64, f32)> = left.collect();
        let under = |word: &&Word| {
            let away = word.at[1] - area.bottom();
            !word.upwards
                && word.size == label
                && near(word.at[0], area.center()[0])
                && away > 0.0
                && away < 24.0
        };
        let beside = |word: &&Word| {
            let away = area.x - word.at[0];
            word.upwards && near(word.at[1], area.center()[1]) && away > 0.0 && away < 40.0
        };
        let name = |found: Option<&Word>| found.map_or_else(String::new, |word| word.text.clone());
        let (x_name, y_name) = (name(words.iter().find(under)), name(words.iter().find(beside)));
        Axes { area, x: Ruler::of(below), y: Ruler::of(left), x_name, y_name }
    }

    /// The one colour bar.
    #[track_caller]
    pub fn bar(&self) -> Bar {
        let mut bars = self.bars();
        assert_eq!(bars.len(), 1, "one colour bar");
        bars.remove(0)
    }

    /// All colour bars, in the order they are drawn: images one pixel wide.
    #[track_caller]
    pub fn bars(&self) -> Vec<Bar> {
        let bars = self.images().filter(|(_, raster)| raster.width == 1);
        bars.map(|(place, raster)| self.bar_at(place, raster)).collect()
    }

    fn bar_at(&self, place: Box2, raster: Arc<Raster>) -> Bar {
        let inside = |y: f32| y > place.y - NEAR && y < place.bottom() + NEAR;
        let across =
            |t: &&&[Point]| near(t[0][0], place.right()) && near(t[0][1], t[1][1]) && inside(t[0][1]);
        let lines = self.lines(self.theme.axis, 2);
        let mut ticks: Vec<f32> = lines.iter().filter(across).map(|t| t[0][1]).collect();
        let words = self.words();
        let beside = |word: &&Word| {
            let away = word.at[0] - place.right();
            let right = word.anchor == Anchor::Start && away > 0.0 && away < 6.0;
            !word.upwards && right && inside(word.at[1])
        };
        let mut labels: Vec<&Word> = words.iter().filter(beside).collect();
        ticks.sort_by(f32::total_cmp);
        labels.sort_by(|a, b| a.at[1].total_cmp(&b.at[1]));
        assert_eq!(ticks.len(), labels.len(), "a number a tick");
        let numbers = labels.iter().map(|word| number(word).expect("a number"));
        let ruler = Ruler::of(numbers.zip(ticks).collect());
        let along = |word: &&Word| word.upwards && inside(word.at[1]) && word.at[0] > place.right();
        let mut along: Vec<&Word> = words.iter().filter(along).collect();
        along.sort_by(|a, b| a.at[0].total_cmp(&b.at[0]));
        // The lines of a long, rotated name are side by side.
        let name = along.chunk_by(|a, b| b.at[0] - a.at[0] < 1.3 * a.size).next().unwrap_or_default();
        let name = name.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join(" ");
        Bar { place, raster, ruler, name }
    }
}

/// The number a word is, if it is one.
fn number(word: &Word) -> Option<f64> {
    word.text.replace('−', "-").parse().ok()
}

fn lay(items: &[Item], [dx, dy]: Point, found: &mut Vec<Item>) {
    let moved = |[x, y]: Point| [x + dx, y + dy];
    let place = |b: Box2| Box2 { x: b.x + dx, y: b.y + dy, ..b };
    for item in items {
        let mut item = item.clone();
        match &mut item.shape {
            Shape::Group { offset, items, .. } => {
                lay(items, moved(*offset), found);
                continue;
            }
            Shape::Rect { rect, .. } | Shape::Image { rect, .. } => *rect = place(*rect),
            Shape::Path { points, .. } => points.iter_mut().for_each(|point| *point = moved(*point)),
            Shape::Circle { center, .. } => *center = moved(*center),
            Shape::Text { at, .. } => *at = moved(*at),
        }
        found.push(item);
    }
}

pub fn near(a: f32, b: f32) -> bool {
    (a - b).abs() < NEAR
}

/// Asserts that two points are equal.
#[track_caller]
pub fn at(found: Point, expected: Point) {
    assert!(near(found[0], expected[0]) && near(found[1], expected[1]), "at {found:?}, not {expected:?}");
}

/// Asserts that two boxes are equal.
#[track_caller]
pub fn over(found: Box2, expected: Box2) {
    at([found.x, found.y], [expected.x, expected.y]);
    at([found.right(), found.bottom()], [expected.right(), expected.bottom()]);
}

/// The frame of a plot, and the places of numbers on its axes.
pub struct Axes {
    pub area: Box2,
    pub x: Ruler,
    pub y: Ruler,
    pub x_name: String,
    pub y_name: String,
}

impl Axes {
    pub fn at(&self, x: f64, y: f64) -> Point {
        [self.x.at(x), self.y.at(y)]
    }
}

/// The colour of a pixel, from the left and from the top.
pub fn pixel(raster: &Raster, column: usize, row: usize) -> Color {
    let [r, g, b, a] = raster.rgba[4 * (row * raster.width + column)..][..4] else { unreachable!() };
    Color { r, g, b, a }
}

/// The largest difference of a channel of two colours, without opacity.
pub fn apart(a: Color, b: Color) -> u8 {
    a.r.abs_diff(b.r).max(a.g.abs_diff(b.g)).max(a.b.abs_diff(b.b))
}

/// Largest difference of two neighbouring steps of a colour bar.
pub const SHADE: u8 = 5;

/// The middle of patch `token` of a grid laid over `place`, row by row.
pub fn middle(place: Box2, grid: Grid, token: usize) -> Point {
    let (row, column) = (token / grid.cols, token % grid.cols);
    [
        place.x + (column as f32 + 0.5) / grid.cols as f32 * place.w,
        place.y + (row as f32 + 0.5) / grid.rows as f32 * place.h,
    ]
}

/// Asserts that every patch has the colour that the bar gives its value.
#[track_caller]
pub fn coloured(raster: &Raster, grid: Grid, bar: &Bar, values: &[f32]) {
    assert_eq!([raster.width, raster.height], [grid.cols, grid.rows]);
    for (token, value) in values.iter().enumerate() {
        let (row, column) = (token / grid.cols, token % grid.cols);
        let (found, expected) = (pixel(raster, column, row), bar.color(f64::from(*value)));
        assert!(apart(found, expected) <= SHADE, "token {token}: {found:?}, but {value} is {expected:?}");
    }
}
