//! The one description of a figure: shapes, text and images in points (1/72 inch), y downwards.
//! [`paint`](super::paint) draws it on the screen, [`export`](crate::viz::export) writes it to a file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

pub use super::hover::{Hover, Identity};
use super::keys::Deferred;
use super::theme::Color;
use super::{font, hover, polygon};
use crate::viz::MARGIN;

/// A place, in points from the top-left corner.
pub type Point = [f32; 2];

/// An axis-aligned box, in points.
#[expect(missing_docs, reason = "x and y are the top-left corner")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Box2 {
    pub x: f32,
    pub y: f32,
    pub w: f32,
    pub h: f32,
}

impl Box2 {
    /// A box of left, top, width and height; a negative width or height becomes 0.
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

    /// The largest box of aspect ratio `w : h` inside, at the top-left corner.
    pub fn largest(self, w: f32, h: f32) -> Self {
        let scale = (self.w / w).min(self.h / h);
        Self::new(self.x, self.y, w * scale, h * scale)
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Colour.
    pub color: Color,
    /// Width in points.
    pub width: f32,
    /// Length of a dash and of the gap after it, in points; `None` for a solid line.
    pub dash: Option<[f32; 2]>,
}

impl Stroke {
    /// A solid line.
    pub fn new(width: f32, color: Color) -> Self {
        Self { color, width, dash: None }
    }

    /// The stroke with dashes of `on` points and gaps of `off` points.
    pub fn dashed(self, on: f32, off: f32) -> Self {
        Self { dash: Some([on, off]), ..self }
    }
}

/// Which part of a text lies at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// Pixels of an image, RGBA, with a hash of their content.
#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// `height * width * 4` bytes, not premultiplied.
    pub rgba: Vec<u8>,
    /// Hash of size and pixels: equal for equal content.
    pub key: u64,
    /// Where every pixel is one of 256 opaque colours: the index of each, row-major, and the palette as RGB. One picture
    /// faded by different amounts has the same indices.
    pub indexed: Option<(Vec<u8>, Vec<[u8; 3]>)>,
}

impl Raster {
    /// An image of one colour for each pixel, row-major.
    pub fn new(width: usize, height: usize, pixels: impl Iterator<Item = Color>) -> Arc<Self> {
        let mut rgba: Vec<u8> = pixels.take(width * height).flat_map(|c| [c.r, c.g, c.b, c.a]).collect();
        rgba.resize(width * height * 4, 0);
        let mut hasher = DefaultHasher::new();
        (width, height, &rgba).hash(&mut hasher);
        Arc::new(Self { width, height, rgba, key: hasher.finish(), indexed: None })
    }

    /// An image whose pixels, row-major, are indices into the palette that `color` gives.
    pub fn indexed(width: usize, height: usize, levels: Vec<u8>, color: impl Fn(u8) -> Color) -> Arc<Self> {
        let colors: Vec<Color> = (0..=u8::MAX).map(color).collect();
        let raster = Self::new(width, height, levels.iter().map(|&level| colors[usize::from(level)]));
        let palette = colors.iter().map(|c| [c.r, c.g, c.b]).collect();
        let is_indexed = levels.len() == width * height && colors.iter().all(|c| c.a == 255);
        Arc::new(Self { indexed: is_indexed.then_some((levels, palette)), ..Arc::unwrap_or_clone(raster) })
    }

    /// The columns and rows that are drawn on `width` by `height` pixels: of more cells than pixels some would be seen and the
    /// others left out. A colour bar, one cell wide, keeps all its cells, as neighbours are alike.
    pub fn cells_on(&self, width: f32, height: f32) -> [usize; 2] {
        let most = |cells: usize, pixels: f32| cells.min((pixels + 0.01).max(1.0) as usize); // sizes on screen are differences
        match self.width {
            0 | 1 => [self.width, self.height],
            _ => [most(self.width, width), most(self.height, height)],
        }
    }

    /// The image with its cells averaged by area to `w` columns and `h` rows, at most as many as it has.
    pub fn averaged(self: &Arc<Self>, [w, h]: [usize; 2]) -> Arc<Self> {
        if [w, h] == [self.width, self.height] {
            return self.clone();
        }
        // The two pixels that a cell lies on, and its share of each.
        let shares = |cell: usize, cells: usize, pixels: usize| {
            let (start, first) = (cell * pixels, cell * pixels / cells);
            let inside = pixels.min((first + 1) * cells - start);
            [(first, inside), ((first + 1).min(pixels - 1), pixels - inside)]
                .map(|(pixel, share)| (pixel, share as f32 / cells as f32))
        };
        let across: Vec<_> = (0..self.width).map(|x| shares(x, self.width, w)).collect();
        let mut sums = vec![[0.0f32; 4]; w * h];
        for (y, row) in self.rgba.chunks_exact(4 * self.width).enumerate() {
            for (line, down) in shares(y, self.height, h) {
                let line = &mut sums[line * w..][..w];
                for (cell, places) in row.chunks_exact(4).zip(&across) {
                    for (x, share) in places {
                        let channels = line[*x].iter_mut().zip(cell);
                        channels.for_each(|(sum, v)| *sum += down * share * f32::from(*v));
                    }
                }
            }
        }
        let colors = sums.into_iter().map(|sum| sum.map(|v| v.round() as u8));
        Self::new(w, h, colors.map(|[r, g, b, a]| Color { r, g, b, a }))
    }
}

/// A shape of a figure.
#[expect(missing_docs, reason = "fields are called what they are")]
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// An axis-aligned box.
    Rect { rect: Box2, fill: Option<Color>, stroke: Option<Stroke> },
    /// A polyline, or a polygon where `closed`.
    Path { points: Vec<Point>, closed: bool, fill: Option<Color>, stroke: Option<Stroke> },
    /// A circle.
    Circle { center: Point, radius: f32, fill: Option<Color>, stroke: Option<Stroke> },
    /// One line of text, whose `anchor` stands at `at` on its baseline.
    Text { at: Point, text: String, size: f32, color: Color, anchor: Anchor, upwards: bool },
    /// An image, interpolated where `smooth` (a photograph), else in hard cells (a matrix).
    Image { rect: Box2, raster: Arc<Raster>, smooth: bool },
    /// Items of another scene, translated by `offset` and clipped to `clip` (in their own coordinates).
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
    /// Background colour; `None` for transparent.
    pub background: Option<Color>,
    /// What it shows, in words: the title of the file, and the label for screen readers.
    pub title: String,
    /// Marks, later ones above earlier ones.
    pub items: Vec<Item>,
    /// Legends, axes and titles that it leaves to the row it stands in.
    pub deferred: Deferred,
}

impl Scene {
    /// A scene without marks.
    pub fn new(width: f32, height: f32, title: impl Into<String>, background: Option<Color>) -> Self {
        let (items, deferred) = (Vec::new(), Deferred::default());
        Self { width, height, background, title: title.into(), items, deferred }
    }

    /// Adds a mark; one with a coordinate that is not finite is dropped.
    pub fn add(&mut self, shape: Shape, identity: Option<Identity>) {
        if finite(&shape) {
            self.items.push(Item { shape, identity });
        }
    }

    /// Adds a filled box.
    pub fn fill(&mut self, rect: Box2, color: Color) {
        self.add(Shape::Rect { rect, fill: Some(color), stroke: None }, None);
    }

    /// Adds an outlined box.
    pub fn outline(&mut self, rect: Box2, stroke: Stroke) {
        self.add(Shape::Rect { rect, fill: None, stroke: Some(stroke) }, None);
    }

    /// Adds an invisible box for hit testing.
    pub fn target(&mut self, rect: Box2, identity: Identity) {
        self.add(Shape::Rect { rect, fill: None, stroke: None }, Some(identity));
    }

    /// Adds a polyline.
    pub fn line(&mut self, points: Vec<Point>, stroke: Stroke) {
        self.add(Shape::Path { points, closed: false, fill: None, stroke: Some(stroke) }, None);
    }

    /// Adds a filled polygon.
    pub fn polygon(&mut self, points: Vec<Point>, fill: Color) {
        self.add(Shape::Path { points, closed: true, fill: Some(fill), stroke: None }, None);
    }

    /// Adds a dot, outlined by `ring` where given.
    pub fn dot(&mut self, center: Point, radius: f32, fill: Color, ring: Option<Stroke>) {
        self.add(Shape::Circle { center, radius, fill: Some(fill), stroke: ring }, None);
    }

    /// Adds a line of text whose `anchor` lies at `at`, on its baseline.
    pub fn text(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color, anchor: Anchor) {
        self.add(Shape::Text { at, text: text.into(), size, color, anchor, upwards: false }, None);
    }

    /// Adds a line of text whose capitals are vertically centred on `at`.
    pub fn text_mid(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color, anchor: Anchor) {
        self.text([at[0], at[1] + size * font::CAP / 2.0], text, size, color, anchor);
    }

    /// Adds text that reads upwards, centred on `at`, its baseline to the right.
    pub fn text_up(&mut self, at: Point, text: impl Into<String>, size: f32, color: Color) {
        let anchor = Anchor::Middle;
        self.add(Shape::Text { at, text: text.into(), size, color, anchor, upwards: true }, None);
    }

    /// Adds an image, interpolated where `smooth`.
    pub fn image(&mut self, rect: Box2, raster: Arc<Raster>, smooth: bool, identity: Option<Identity>) {
        self.add(Shape::Image { rect, raster, smooth }, identity);
    }

    /// Adds the marks of `other`, translated by `offset` and clipped to `clip` (in the coordinates of `other`).
    pub fn place(&mut self, other: Self, offset: Point, clip: Option<Box2>) {
        self.add(Shape::Group { offset, clip, items: other.items }, None);
    }

    /// The scene with a margin on every side.
    pub fn framed(self) -> Self {
        let (width, height) = (self.width + 2.0 * MARGIN, self.height + 2.0 * MARGIN);
        let mut scene = Self::new(width, height, self.title.clone(), self.background);
        scene.place(self, [MARGIN, MARGIN], None);
        scene
    }

    /// The boxes of what `hover` names, each once.
    pub fn places(&self, hover: Hover) -> Vec<Box2> {
        hover::places(&self.items, hover)
    }

    /// The items whose dots have their centre inside an outline, sorted.
    pub fn within(&self, outline: &[Point]) -> Vec<usize> {
        hover::dots(&self.items, &|p| polygon::contains(outline, p))
    }

    /// What the topmost mark with an identity under `p` stands for.
    pub fn hover(&self, p: Point) -> Option<Hover> {
        hover::under(&self.items, p)
    }
}

/// Whether every coordinate of `shape` is finite.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_a_matrix_is_left_out_where_there_are_fewer_pixels() {
        let cell = |at: usize| Color { r: if at / 40 == at % 40 { 255 } else { 0 }, g: 100, b: 0, a: 255 };
        let plan = Raster::new(40, 40, (0..1600).map(cell));
        let small = plan.averaged(plan.cells_on(12.7, 20.2));
        assert_eq!((small.width, small.height), (12, 20));
        for row in small.rgba.chunks_exact(4 * 12) {
            // Two rows of the plan, of which each has one cell of 255: a pixel is 40/12 cells by 2.
            let red: u32 = row.iter().step_by(4).map(|r| u32::from(*r)).sum();
            assert!(red.abs_diff(255 * 12 / 40) <= 6, "{red}");
            assert!(row[1..].iter().step_by(4).all(|green| *green == 100));
        }
        assert!(Arc::ptr_eq(&plan.averaged(plan.cells_on(40.0, 99.0)), &plan));
        let bar = Raster::new(1, 40, (0..40).map(cell));
        assert_eq!(bar.cells_on(5.0, 20.0), [1, 40]);
    }
}
