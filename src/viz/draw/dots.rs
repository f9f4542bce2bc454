//! Many dots as one picture for the screen. One by one the graphics card would be sent their triangles in every frame: 48 MB for
//! 50,000 dots in rings.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::scene::{Item, Point, Raster, Shape};
use super::theme::Color;

/// Fewest dots in a row that are drawn as one picture: of fewer the triangles are at most 4 MB.
pub(super) const MIN_PICTURE_DOTS: usize = 4096;

/// A dot in its ring.
struct Dot {
    center: Point,
    /// The radius of the dot and the outer one of the ring, each with its colour.
    rings: [(f32, Option<Color>); 2],
}

impl Dot {
    /// The dot of an item, with lengths in pixels, of which a point has `pixels`.
    fn new(item: &Item, pixels: f32) -> Option<Self> {
        let Shape::Circle { center, radius, fill: fill @ Some(_), stroke } = &item.shape else { return None };
        let outer = radius + stroke.map_or(0.0, |stroke| stroke.width);
        let rings = [(radius * pixels, *fill), (outer * pixels, stroke.map(|stroke| stroke.color))];
        Some(Self { center: center.map(|v| v * pixels), rings })
    }

    /// The farthest that a pixel's centre can be from its own and be coloured.
    fn reach(&self) -> f32 {
        self.rings[1].0 + 0.5
    }
}

/// Whether an item is a filled circle. One that is empty marks something, and may do so elsewhere while the dots stay.
pub(super) fn is_dot(item: &Item) -> bool {
    matches!(item.shape, Shape::Circle { fill: Some(_), .. })
}

/// What the picture of these dots depends on, with `pixels` to a point.
pub(super) fn key(dots: &[Item], pixels: f32) -> u64 {
    let mut hasher = DefaultHasher::new();
    pixels.to_bits().hash(&mut hasher);
    let mut before = None;
    for (at, Dot { center: [x, y], rings }) in dots.iter().filter_map(|item| Dot::new(item, 1.0)).enumerate()
    {
        // Most dots look like the one before.
        if before.replace(rings) != Some(rings) {
            (at, rings.map(|(radius, color)| (radius.to_bits(), color))).hash(&mut hasher);
        }
        hasher.write_u64((u64::from(x.to_bits()) << 32) | u64::from(y.to_bits()));
    }
    hasher.finish()
}

/// The picture of dots, later ones above earlier ones, and its top-left corner in whole pixels from the scene's. A ring lies around
/// its dot, as on the screen.
pub(super) fn picture(dots: &[Item], pixels: f32) -> (Point, Arc<Raster>) {
    let dots = || dots.iter().filter_map(|item| Dot::new(item, pixels));
    let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
    for dot in dots() {
        for (axis, at) in dot.center.into_iter().enumerate() {
            low[axis] = low[axis].min((at - dot.reach()).floor());
            high[axis] = high[axis].max((at + dot.reach()).ceil());
        }
    }
    let [width, height] = [0, 1].map(|axis| (high[axis] - low[axis]).max(0.0) as usize);
    let mut drawn = vec![[0u8; 4]; width * height]; // premultiplied
    for dot in dots() {
        let [x, y] = [0, 1].map(|axis| dot.center[axis] - low[axis]);
        let rings = dot.rings.map(|(radius, color)| (radius + 0.5, color.map_or([0.0; 4], premultiplied)));
        let span = |at: f32| (at - dot.reach()).max(0.0) as usize..(at + dot.reach()).ceil() as usize;
        for row in span(y).start..span(y).end.min(height) {
            for column in span(x).start..span(x).end.min(width) {
                let (across, down) = (column as f32 + 0.5 - x, row as f32 + 0.5 - y);
                let distance = (across * across + down * down).sqrt();
                let (mut inside, mut left, mut added) = (0.0, 1.0, [0.0; 4]);
                for (end, color) in rings {
                    let within = (end - distance).clamp(0.0, 1.0);
                    let share = within - std::mem::replace(&mut inside, within);
                    left -= share * color[3] / 255.0;
                    added.iter_mut().zip(color).for_each(|(sum, v)| *sum += share * v);
                }
                for (v, own) in drawn[row * width + column].iter_mut().zip(added) {
                    *v = (f32::from(*v) * left + own + 0.5) as u8;
                }
            }
        }
    }
    let straight = |v: u8, a: u8| (u32::from(v) * 255 / u32::from(a.max(1))).min(255) as u8;
    let colors = drawn.into_iter().map(|[r, g, b, a]| Color {
        r: straight(r, a),
        g: straight(g, a),
        b: straight(b, a),
        a,
    });
    (low, Raster::new(width, height, colors))
}

/// A colour with its channels multiplied by its opacity, which is the last.
fn premultiplied(Color { r, g, b, a }: Color) -> [f32; 4] {
    [r, g, b, 255].map(|v| f32::from(v) * f32::from(a) / 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viz::draw::scene::{Scene, Stroke};

    const RED: Color = Color { r: 255, g: 0, b: 0, a: 255 };
    const BLUE: Color = Color { r: 0, g: 0, b: 255, a: 255 };

    #[test]
    fn dots_are_where_they_are_in_the_scene_in_their_rings_and_later_ones_are_on_top() {
        let mut scene = Scene::new(20.0, 20.0, "", None);
        scene.dot([4.5, 5.5], 2.0, RED, None);
        scene.dot([12.5, 5.5], 2.0, RED, Some(Stroke::new(1.0, BLUE)));
        scene.dot([4.5, 10.5], 1.0, RED, None);
        scene.dot([4.5, 10.5], 1.0, Color { a: 51, ..BLUE }, None);
        let ([left, top], raster) = picture(&scene.items, 2.0);
        assert_eq!([left, top].map(f32::fract), [0.0; 2], "whole pixels");
        let at = |x: f32, y: f32| {
            let [column, row] = [2.0 * x - left, 2.0 * y - top].map(|v| v as usize);
            <[u8; 4]>::try_from(&raster.rgba[4 * (row * raster.width + column)..][..4]).unwrap()
        };
        assert_eq!(at(4.5, 5.5), [255, 0, 0, 255]);
        assert_eq!(at(12.5, 5.5), [255, 0, 0, 255]);
        assert_eq!(at(12.5, 7.8), [0, 0, 255, 255], "the ring, outside of the dot");
        assert_eq!(at(4.5, 7.8), [0; 4], "a dot without one ends there");
        assert_eq!(at(8.5, 10.5), [0; 4], "between them");
        assert_eq!(at(4.5, 10.5), [204, 0, 51, 255], "a fifth of blue over red");
        let opacity: u32 = raster.rgba.chunks_exact(4).map(|pixel| u32::from(pixel[3])).sum();
        let area = f64::from(opacity) / 255.0;
        let expected = std::f64::consts::PI * (4.0f64.powi(2) + 6.0f64.powi(2) + 2.0f64.powi(2));
        assert!((area - expected).abs() < 0.02 * expected, "{area} pixels, expected {expected}");
    }

    #[test]
    fn a_picture_is_another_one_for_other_dots_or_another_size() {
        let scene = |x: f32, ring: Option<Stroke>| {
            let mut scene = Scene::new(20.0, 20.0, "", None);
            scene.dot([x, 5.0], 2.0, RED, ring);
            scene.items
        };
        let own = key(&scene(5.0, None), 2.0);
        assert_eq!(own, key(&scene(5.0, None), 2.0));
        let ringed = scene(5.0, Some(Stroke::new(1.0, BLUE)));
        for other in [key(&scene(5.0, None), 1.5), key(&scene(5.1, None), 2.0), key(&ringed, 2.0)] {
            assert_ne!(own, other);
        }
    }
}
