//! The picture that the backbone saw, and colours laid over its patches.

use std::sync::Arc;

use super::scene::{Box2, Identity, Raster, Scene, Stroke};
use super::theme::{Color, Theme};
use crate::model::grid::Grid;
use crate::model::trace::{Picture, Trace};

/// Height over width of the picture; of the grid where there is no picture.
pub fn aspect(trace: &Trace) -> f32 {
    aspect_of(&trace.seen, trace.grid)
}

/// As [`aspect`], of a picture and its grid.
pub fn aspect_of(seen: &Picture, grid: Grid) -> f32 {
    if seen.rgb.is_empty() {
        grid.rows as f32 / grid.cols.max(1) as f32
    } else {
        seen.height as f32 / seen.width as f32
    }
}

/// Draws the picture into `rect`; with `fade` (0 to 1) above 0 in grey, faded that far into the background.
pub fn seen(scene: &mut Scene, theme: &Theme, trace: &Trace, rect: Box2, fade: f32) {
    seen_of(scene, theme, (&trace.seen, trace.grid), rect, fade);
}

/// As [`seen`], of a picture and its grid.
pub fn seen_of(scene: &mut Scene, theme: &Theme, (seen, grid): (&Picture, Grid), rect: Box2, fade: f32) {
    if seen.rgb.is_empty() {
        scene.fill(rect, theme.faint);
    } else {
        scene.image(rect, raster(seen, theme, fade), true, None);
    }
    scene.target(rect, Identity::Grid(grid));
}

/// The pixels of a picture; faded ones are indexed shades of grey.
fn raster(seen: &Picture, theme: &Theme, fade: f32) -> Arc<Raster> {
    let colors = seen.rgb.chunks_exact(3);
    if fade <= 0.0 {
        let colors = colors.map(|p| Color { r: p[0], g: p[1], b: p[2], a: 255 });
        return Raster::new(seen.width, seen.height, colors);
    }
    let shade = |grey: u8| Color { r: grey, g: grey, b: grey, a: 255 }.mix(theme.ground, fade);
    Raster::indexed(seen.width, seen.height, colors.map(luma).collect(), shade)
}

/// The grey of an RGB pixel, by the luma weights of Rec. 601.
pub fn luma(p: &[u8]) -> u8 {
    (f32::from(p[0]) * 0.299 + f32::from(p[1]) * 0.587 + f32::from(p[2]) * 0.114).round() as u8
}

/// Lays `color(token)` over every patch.
pub fn cover(scene: &mut Scene, grid: Grid, rect: Box2, color: impl Fn(usize) -> Color) {
    let raster: Arc<Raster> = Raster::new(grid.cols, grid.rows, (0..grid.len()).map(color));
    scene.image(rect, raster, false, Some(Identity::Grid(grid)));
}

/// Draws the lines between patches.
pub fn lines(scene: &mut Scene, theme: &Theme, grid: Grid, rect: Box2) {
    let stroke = Stroke::new(0.3, theme.ground.alpha(0.6));
    for c in 1..grid.cols {
        let x = rect.x + rect.w * c as f32 / grid.cols as f32;
        scene.line(vec![[x, rect.y], [x, rect.bottom()]], stroke);
    }
    for r in 1..grid.rows {
        let y = rect.y + rect.h * r as f32 / grid.rows as f32;
        scene.line(vec![[rect.x, y], [rect.right(), y]], stroke);
    }
}
