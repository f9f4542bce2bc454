//! The one description of a figure: shapes, text and images in points (1/72 inch), y downwards.
//! [`paint`](super::paint) draws it on the screen, [`export`](crate::viz::export) writes it as vectors.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub use super::hover::{Hover, Identity};
use super::keys::Handed;
use super::theme::Color;
use super::{font, hover, polygon};

/// A place, in points from the top-left corner.
pub type Point = [f32; 2];

/// An upright box, in points.
#[expect(missing_docs, reason = "x and y are the top-left corner")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Box2 {
    pub x: f32,
    pub y: f32,
    pub w: f32,
    pub h: f32,
}

impl Box2 {
    /// From its left, top, width and height; a negative length is taken as none.
    pub fn new(x: f32, y: f32, w: f32, h: f32) -> Self {
        Self { x, y, w: w.max(0.0), h: h.max(0.0) }
    }

    /// Right edge.
    pub fn right(self) -> f32 {
        self.x + self.w
    }

    /// Bottom edge.
    pub fn bottom(self) -> f32 {
        self.y + self.h
    }

    /// Middle.
    pub fn center(self) -> Point {
        [self.x + self.w / 2.0, self.y + self.h / 2.0]
    }

    /// Whether `p` lies inside.
    pub fn contains(self, [x, y]: Point) -> bool {
        x >= self.x && x < self.right() && y >= self.y && y < self.bottom()
    }

    /// The largest box of `w : h` inside, against the top-left corner.
    pub fn largest(self, w: f32, h: f32) -> Self {
        let scale = (self.w / w).min(self.h / h);
        Self::new(self.x, self.y, w * scale, h * scale)
    }
}

/// A line: colour, weight in points, dashes (on, off) in points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Colour.
    pub color: Color,
    /// Weight.
    pub width: f32,
    /// Length of a dash and of the gap after it; none for a full line.
    pub dash: Option<[f32; 2]>,
}

impl Stroke {
    /// A full line.
    pub fn new(width: f32, color: Color) -> Self {
        Self { color, width, dash: None }
    }

    /// The same, dashed.
    pub fn dashed(self, on: f32, off: f32) -> Self {
        Self { dash: Some([on, off]), ..self }
    }
}

/// Which end of the text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// Pixels of an image, RGBA, with a key that names their content.
#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// `height * width * 4` bytes, not premultiplied.
    pub rgba: Vec<u8>,
    /// The same for the same content.
    pub key: u64,
    /// Where every pixel is one of 256 colours: which, row-major, and these as RGB. All shades of one picture have the same
    /// numbers.
    pub indexed: Option<(Vec<u8>, Vec<[u8; 3]>)>,
}

impl Raster {
    /// One colour a pixel, row-major.
    pub fn new(width: usize, height: usize, pixels: impl Iterator<Item = Color>) -> Arc<Self> {
        let mut rgba: Vec<u8> = pixels.take(width * height).flat_map(|c| [c.r, c.g, c.b, c.a]).collect();
        rgba.resize(width * height * 4, 0);
        let mut hasher = DefaultHasher::new();
        (width, height, &rgba).hash(&mut hasher);
        Arc::new(Self { width, height, rgba, key: hasher.finish(), indexed: None })
    }

    /// One of 256 opaque colours a pixel, row-major.
    pub fn indexed(width: usize, height: usize, levels: Vec<u8>, color: impl Fn(u8) -> Color) -> Arc<Self> {
        let colors: Vec<Color> = (0..=u8::MAX).map(color).collect();
        let raster = Self::new(width, height, levels.iter().map(|&level| colors[usize::from(level)]));
        let palette = colors.iter().map(|c| [c.r, c.g, c.b]).collect();
        let whole = levels.len() == width * height && colors.iter().all(|c| c.a == 255);
        Arc::new(Self { indexed: whole.then_some((levels, palette)), ..Arc::unwrap_or_clone(raster) })
    }
}

/// One mark.
#[expect(missing_docs, reason = "fields are called what they are")]
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A box.
    Rect { rect: Box2, fill: Option<Color>, stroke: Option<Stroke> },
    /// A polyline, or a polygon where `closed`.
    Path { points: Vec<Point>, closed: bool, fill: Option<Color>, stroke: Option<Stroke> },
    /// A circle.
    Circle { center: Point, radius: f32, fill: Option<Color>, stroke: Option<Stroke> },
    /// One line of text, whose `anchor` stands at `at` on its baseline.
    Text { at: Point, text: String, size: f32, color: Color, anchor: Anchor, upwards: bool },
    /// An image, interpolated where `smooth` (a photograph), else in hard cells (a matrix).
    Image { rect: Box2, raster: Arc<Raster>, smooth: bool },
    /// Another scene, moved, and cut at `clip` (in its own coordinates).
    Group { offset: Point, clip: Option<Box2>, items: Vec<Item> },
}

/// A mark and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The mark.
    pub shape: Shape,
    /// What it stands for.
    pub identity: Option<Identity>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Width in points.
    pub width: f32,
    /// Height in points.
    pub height: f32,
    /// Ground; `None` leaves the paper.
    pub background: Option<Color>,
    /// What it shows, in words: the title of the file and what a screen reader says.
    pub title: String,
    /// Marks, later ones above earlier ones.
    pub items: Vec<Item>,
    /// What it leaves to the row it stands in.
    pub handed: Handed,
}

impl Scene {
    /// An empty one.
    pub fn new(width: f32, height: f32, title: impl Into<String>, background: Option<Color>) -> Self {
        Self { width, height, background, title: title.into(), items: Vec::new(), handed: Handed::default() }
    }

    /// Adds a mark. One that is nowhere (a coordinate is no number) is left out, so that what is
    /// drawn is always finite.
    pub fn add(&mut self, shape: Shape, identity: Option<Identity>) {
        if finite(&shape) {
            self.items.push(Item { shape, identity });
        }
    }

    /// A filled box.
    pub fn fill(&mut self, rect: Box2, color: Color) {
        self.add(Shape::Rect { rect, fill: Some(color), stroke: None }, None);
    }

    /// An outlined box.
    pub fn outline(&mut self, rect: Box2, stroke: Stroke) {
        self.add(Shape::Rect { rect, fill: None, stroke: Some(stroke) }, None);
    }

    /// A box that is not seen, but found by the pointer.
    pub fn target(&mut self, rect: Box2, identity: Identity) {
        self.add(Shape::Rect { rect, fill: None, stroke: None }, Some(identity));
    }

    /// A polyline.
    pub fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.add(Shape::Path { points, closed: false, fill: None, stroke: Some(stroke) }, None);
    }

    /// A filled polygon.
    pub fn polygon(&mut self, points: Vec<Point>, fill: Color) {
        self.add(Shape::Path { points, closed: true, fill: Some(fill), stroke: None }, None);
    }

    /// A dot, ringed by `ring` where given.
    pub fn dot(&mut self, center: Point, radius: f32, fill: Color, ring: Option<Stroke>) {
        self.add(Shape::Circle { center, radius, fill: Some(fill), stroke: ring }, None);
    }

    /// A line of text on the baseline `at`.
    pub fn text(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color, anchor: Anchor) {
        self.add(Shape::Text { at, text: text.into(), size, color, anchor, upwards: false }, None);
    }

    /// A line of text whose capitals are centred on `at`.
    pub fn text_mid(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color, anchor: Anchor) {
        self.text([at[0], at[1] + size * font::CAP / 2.0], text, size, color, anchor);
    }

    /// Text that reads upwards, centred on `at`, its baseline to the right.
    pub fn text_up(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color) {
        let anchor = Anchor::Middle;
        self.add(Shape::Text { at, text: text.into(), size, color, anchor, upwards: true }, None);
    }

    /// An image.
    pub fn image(&mut self, rect: Box2, raster: Arc<Raster>, smooth: bool, identity: Option<Identity>) {
        self.add(Shape::Image { rect, raster, smooth }, identity);
    }

    /// The marks of `other`, moved by `offset`; with `clip`, cut at its own size.
    pub fn place(&mut self, other: Self, offset: Point, clip: Option<Box2>) {
        self.add(Shape::Group { offset, clip, items: other.items }, None);
    }

    /// The same with an empty edge of `margin` points.
    pub fn framed(self, margin: f32) -> Self {
        let (width, height) = (self.width + 2.0 * margin, self.height + 2.0 * margin);
        let mut scene = Self::new(width, height, self.title.clone(), self.background);
        scene.place(self, [margin, margin], None);
        scene
    }

    /// Where the token and the position of `hover` lie, once each.
    pub fn places(&self, hover: Hover) -> Vec<Box2> {
        hover::places(&self.items, hover)
    }

    /// The items whose dots lie within an outline.
    pub fn within(&self, outline: &[Point]) -> Vec<usize> {
        hover::dots(&self.items, &|p| polygon::contains(outline, p))
    }

    /// What lies under `p`: the topmost mark that stands for something.
    pub fn hover(&self, p: Point) -> Option<Hover> {
        hover::under(&self.items, p)
    }
}

/// Whether every coordinate of `shape` is a number.
fn finite(shape: &Shape) -> bool {
    let all = |v: &[f32]| v.iter().all(|x| x.is_finite());
    match shape {
        Shape::Rect { rect, .. } | Shape::Image { rect, .. } => all(&[rect.x, rect.y, rect.w, rect.h]),
        Shape::Path { points, .. } => points.iter().all(|p| all(p)),
        Shape::Circle { center, radius, .. } => all(center) && radius.is_finite(),
        Shape::Text { at, .. } => all(at),
        Shape::Group { offset, .. } => all(offset),
    }
}
