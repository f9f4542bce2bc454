//! Synthetic images with known ground truth: a seeded set of scenes in which one small object determines the class.
//!
//! A scene is a textured background, distractors, and one object. The class is the object's shape
//! AND its pattern. Every distractor has one of the two: a class shape without pattern, or a class
//! pattern on a blob, both smaller than the object. So no bag of local features suffices, the tokens that matter lie on the
//! object, and its mask says where that is: a router can be compared with the ground truth.

pub mod folder;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::model::picture::Picture;

/// Side of a scene in pixels: 14 patches of 8.
pub const SIDE: usize = 112;
/// Version of the generator: it changes whenever the same seed gives other pixels.
pub const VERSION: u32 = 2;
/// Index of the first validation scene; training scenes are numbered from 0.
pub const FIRST_VAL: u64 = (CLASSES as u64) << 32;

/// Half the period of every pattern, in pixels. Patterns are aligned with the image's axes (only
/// outlines are rotated), so that patches of 8 pixels within one object are alike: a masked
/// autoencoder can then fill one in from another, and has to know the pattern for it.
const CELL: f32 = 4.0;

const SHAPES: [(&str, Outline); 4] = [
    ("disc", Outline::Disc),
    ("square", Outline::Square),
    ("triangle", Outline::Triangle),
    ("cross", Outline::Cross),
];
const PATTERNS: [(&str, Pattern); 3] =
    [("stripes", Pattern::Stripes), ("checks", Pattern::Checks), ("dots", Pattern::Dots)];

/// Number of classes: every shape with every pattern.
pub const CLASSES: usize = SHAPES.len() * PATTERNS.len();

/// Name of a class, such as `disc-stripes`.
pub fn class_name(class: usize) -> String {
    let (shape, pattern) = (SHAPES[class / PATTERNS.len()].0, PATTERNS[class % PATTERNS.len()].0);
    format!("{shape}-{pattern}")
}

/// One labelled scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The picture, [`SIDE`] pixels square.
    pub picture: Picture,
    /// Which pixels belong to the object, row-major.
    pub mask: Vec<bool>,
    /// Index of the class, below [`CLASSES`].
    pub class: usize,
}

impl Scene {
    /// Fraction of every patch of `patch` x `patch` pixels that the object covers, row-major.
    pub fn cover(&self, patch: usize) -> Vec<f64> {
        let grid = SIDE / patch;
        let covered = |token: usize| {
            let (top, left) = (token / grid * patch, token % grid * patch);
            let rows = (top..top + patch).map(|row| &self.mask[row * SIDE + left..][..patch]);
            rows.flatten().filter(|&&inside| inside).count() as f64 / (patch * patch) as f64
        };
        (0..grid * grid).map(covered).collect()
    }
}

/// Draws scene `index` of the set `seed`. The same pair gives the same pixels on every machine; the
/// class is `index` modulo [`CLASSES`].
pub fn draw(seed: u64, index: u64) -> Scene {
    draw_with(seed, index, 1.0)
}

/// [`draw`] with the fraction `clutter` of the distractors, 0 to 1; without any, a scene is easy to learn from.
pub fn draw_with(seed: u64, index: u64, clutter: f64) -> Scene {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    let class = (index % CLASSES as u64) as usize;
    let ground = Background::random(&mut rng);
    let object = Item {
        outline: SHAPES[class / PATTERNS.len()].1,
        pattern: PATTERNS[class % PATTERNS.len()].1,
        ..Item::random(&mut rng, 20.0..25.0)
    };
    let mut distractors: Vec<Item> = Vec::new();
    for turn in 0..rng.random_range(2..4) {
        let item = Item::random(&mut rng, 8.0..13.0);
        let item = if turn % 2 == 0 {
            Item { outline: SHAPES[rng.random_range(0..SHAPES.len())].1, pattern: Pattern::Plain, ..item }
        } else {
            let lobes = rng.random_range(0.0..6.0);
            let pattern = PATTERNS[rng.random_range(0..PATTERNS.len())].1;
            Item { outline: Outline::Blob(lobes), pattern, ..item }
        };
        if !item.touches(&object) {
            distractors.push(item); // the object is never occluded
        }
    }
    distractors.truncate((distractors.len() as f64 * clutter).round() as usize);
    render(&ground, &distractors, &object, class, &mut rng)
}

/// Composites background, distractors and object, then adds sensor noise. The background is smooth and
/// sampled once per pixel; items have edges and are sampled 2 x 2 times.
fn render(
    ground: &Background,
    distractors: &[Item],
    object: &Item,
    class: usize,
    rng: &mut ChaCha8Rng,
) -> Scene {
    let mut rgb = Vec::with_capacity(SIDE * SIDE * 3);
    let mut mask = Vec::with_capacity(SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let ground = ground.colour((x as f32 + 0.5, y as f32 + 0.5));
            let mut sum = [0.0; 3];
            let mut inside = 0;
            for (dx, dy) in [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)] {
                let point = (x as f32 + dx, y as f32 + dy);
                let own = object.colour(point);
                inside += usize::from(own.is_some());
                let over = || distractors.iter().rev().find_map(|item| item.colour(point));
                let colour = own.or_else(over).unwrap_or(ground);
                for (total, part) in sum.iter_mut().zip(colour) {
                    *total += part / 4.0;
                }
            }
            let noise = rng.random_range(-4.0..4.0);
            rgb.extend(sum.map(|v| (v + noise).round().clamp(0.0, 255.0) as u8));
            mask.push(inside >= 2);
        }
    }
    Scene { picture: Picture { width: SIDE, height: SIDE, rgb }, mask, class }
}

type Colour = [f32; 3];

/// Red, green and blue, each uniform in `low..high`; values go from 0 to 255.
fn random_colour(rng: &mut ChaCha8Rng, low: f32, high: f32) -> Colour {
    std::array::from_fn(|_| rng.random_range(low..high))
}

#[derive(Clone, Copy, Debug)]
enum Outline {
    Disc,
    Square,
    Triangle,
    Cross,
    /// An irregular blob; the number is the rotation of its lobes in radians.
    Blob(f32),
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Plain,
    Stripes,
    Checks,
    Dots,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    outline: Outline,
    pattern: Pattern,
    centre: (f32, f32),
    radius: f32,
    angle: f32,
    fill: Colour,
    ink: Colour,
    /// Offset of the pattern from the image's top-left corner, in pixels.
    phase: (f32, f32),
}

impl Item {
    fn random(rng: &mut ChaCha8Rng, radius: std::ops::Range<f32>) -> Self {
        let radius = rng.random_range(radius);
        let span = radius + 1.0..SIDE as f32 - radius - 1.0;
        let bright = rng.random_bool(0.5);
        let (pale, deep) = (random_colour(rng, 150.0, 255.0), random_colour(rng, 0.0, 90.0));
        let (fill, ink) = if bright { (pale, deep) } else { (deep, pale) };
        Self {
            outline: Outline::Disc,
            pattern: Pattern::Plain,
            centre: (rng.random_range(span.clone()), rng.random_range(span)),
            radius,
            angle: rng.random_range(-0.35..0.35),
            fill,
            ink,
            phase: (CELL * f32::from(rng.random_bool(0.5)), CELL * f32::from(rng.random_bool(0.5))),
        }
    }

    fn touches(&self, other: &Self) -> bool {
        let (dx, dy) = (self.centre.0 - other.centre.0, self.centre.1 - other.centre.1);
        dx.hypot(dy) < self.radius + other.radius + 2.0
    }

    /// The colour at a point in pixels; `None` outside the outline.
    fn colour(&self, (x, y): (f32, f32)) -> Option<Colour> {
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        if dx * dx + dy * dy > (1.05 * self.radius).powi(2) {
            return None;
        }
        let (sin, cos) = self.angle.sin_cos();
        let (u, v) = ((cos * dx + sin * dy) / self.radius, (cos * dy - sin * dx) / self.radius);
        if !self.outline.contains(u, v) {
            return None;
        }
        let is_second_colour = self.pattern.is_second_colour(x + self.phase.0, y + self.phase.1);
        Some(if is_second_colour { self.ink } else { self.fill })
    }
}

impl Outline {
    /// Whether a point lies inside, in the item's rotated frame with its radius as the unit.
    fn contains(self, u: f32, v: f32) -> bool {
        match self {
            Self::Disc => u.hypot(v) <= 0.95,
            Self::Square => u.abs().max(v.abs()) <= 0.76,
            Self::Triangle => v <= 0.6 && v >= 2.0 * u.abs() - 1.0,
            Self::Cross => u.abs().min(v.abs()) <= 0.3 && u.abs().max(v.abs()) <= 0.95,
            Self::Blob(turn) => {
                let angle = v.atan2(u) + turn;
                u.hypot(v) <= 0.72 + 0.18 * (3.0 * angle).sin() + 0.1 * (5.0 * angle + turn).cos()
            }
        }
    }
}

impl Pattern {
    /// Whether the pattern shows its second colour at a point, in pixels from the pattern's origin.
    fn is_second_colour(self, x: f32, y: f32) -> bool {
        let even = |t: f32| t.rem_euclid(2.0) < 1.0;
        match self {
            Self::Plain => false,
            Self::Stripes => even(y / CELL),
            Self::Checks => even(x / CELL) != even(y / CELL),
            Self::Dots => {
                let (u, v) = (x.rem_euclid(2.0 * CELL) - CELL, y.rem_euclid(2.0 * CELL) - CELL);
                u.hypot(v) < 2.7
            }
        }
    }
}

/// A background: two colours blended by value noise of two octaves and a faint sine wave.
struct Background {
    colours: [Colour; 2],
    lattice: Vec<f32>,
    wave: (f32, f32, f32),
}

impl Background {
    const CELLS: usize = 32;

    fn random(rng: &mut ChaCha8Rng) -> Self {
        let colours = [random_colour(rng, 60.0, 190.0), random_colour(rng, 60.0, 190.0)];
        let lattice = (0..Self::CELLS * Self::CELLS).map(|_| rng.random_range(0.0..1.0)).collect();
        let direction = rng.random_range(0.0..std::f32::consts::PI);
        let period = rng.random_range(6.0..24.0);
        let wave = (direction.cos() / period, direction.sin() / period, rng.random_range(0.0..0.2));
        Self { colours, lattice, wave }
    }

    fn colour(&self, (x, y): (f32, f32)) -> Colour {
        let octaves = [(28.0, 0.7), (12.0, 0.3)];
        let noise: f32 = octaves.iter().map(|(cell, weight)| weight * self.noise(x / cell, y / cell)).sum();
        let (wx, wy, depth) = self.wave;
        let mix = (noise + depth * (std::f32::consts::TAU * (wx * x + wy * y)).sin()).clamp(0.0, 1.0);
        std::array::from_fn(|c| self.colours[0][c] * (1.0 - mix) + self.colours[1][c] * mix)
    }

    /// Smooth value noise over the lattice.
    fn noise(&self, x: f32, y: f32) -> f32 {
        let at =
            |column: usize, row: usize| self.lattice[row % Self::CELLS * Self::CELLS + column % Self::CELLS];
        let (column, row) = (x as usize, y as usize);
        let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
        let (tx, ty) = (smooth(x.fract()), smooth(y.fract()));
        let top = at(column, row) * (1.0 - tx) + at(column + 1, row) * tx;
        let bottom = at(column, row + 1) * (1.0 - tx) + at(column + 1, row + 1) * tx;
        top * (1.0 - ty) + bottom * ty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_is_a_function_of_seed_and_index() {
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 3).picture, draw(8, 3).picture);
        assert_ne!(draw(7, 3).picture, draw(7, 3 + CLASSES as u64).picture);
    }

    #[test]
    fn every_object_is_whole_and_small() {
        for index in (0..4 * CLASSES as u64).flat_map(|index| [index, FIRST_VAL + index]) {
            let scene = draw(3, index);
            assert_eq!(scene.class as u64, index % CLASSES as u64);
            let name = class_name(scene.class);
            let covered = scene.cover(8).iter().filter(|&&cover| cover >= 0.5).count();
            assert!((4..=36).contains(&covered), "{name}: {covered} patches");
            let area = scene.mask.iter().filter(|&&inside| inside).count();
            assert!((400..2000).contains(&area), "{name}: {area} pixels");
            let border =
                |i: usize| [0, SIDE - 1].contains(&(i / SIDE)) || [0, SIDE - 1].contains(&(i % SIDE));
            assert!((0..SIDE * SIDE).all(|i| !(scene.mask[i] && border(i))));
        }
    }
}
