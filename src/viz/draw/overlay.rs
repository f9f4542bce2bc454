//! A small picture with the weights or the evidence of its tokens laid over it, as one block of pixels: on a sheet of
//! hundreds of pictures each is one image to paint.

use super::colormap::{Map, diverging};
use super::picture::luma;
use super::theme::{Color, Theme};
use crate::model::grid::Grid;
use crate::model::trace::Picture;

/// Opacity of the overlay, of signed values that of the largest.
const OPACITY: f32 = 0.7;
/// How far the picture below fades into the background, 0 to 1.
const FADE: f32 = 0.25;

/// The pixels of `picture`, RGB row by row, under one colour for each patch of `grid`. The scale is the picture's own:
/// from its smallest value to its largest, or symmetric around zero if any is negative. The picture unchanged unless
/// there is one value for each patch.
pub fn overlaid(picture: &Picture, grid: Grid, values: &[f32], theme: &Theme) -> Vec<u8> {
    if grid.is_empty() || values.len() != grid.len() || picture.width == 0 || picture.height == 0 {
        return picture.rgb.clone();
    }
    let known = || values.iter().copied().filter(|v| v.is_finite());
    let (lo, hi) = (known().fold(f32::INFINITY, f32::min), known().fold(f32::NEG_INFINITY, f32::max));
    let signed = lo < 0.0;
    let bound = lo.abs().max(hi.abs()).max(1e-30);
    let cover = |value: f32| -> Color {
        if signed {
            let t = value / bound;
            diverging(theme, t).alpha(OPACITY * (0.25 + 0.75 * t.abs().min(1.0)).sqrt())
        } else {
            Map::Cividis.at((value - lo) / (hi - lo).max(1e-30)).alpha(OPACITY)
        }
    };
    let covers: Vec<Color> = values.iter().map(|value| cover(*value)).collect();
    let mut rgb = Vec::with_capacity(picture.rgb.len());
    for (at, p) in picture.rgb.chunks_exact(3).enumerate() {
        let (x, y) = (at % picture.width, at / picture.width);
        let (column, row) = (x * grid.cols / picture.width, y * grid.rows / picture.height);
        let over = covers[(row * grid.cols + column).min(covers.len() - 1)];
        let grey = luma(p);
        let below = Color { r: grey, g: grey, b: grey, a: 255 }.mix(theme.ground, FADE);
        let mixed = below.mix(Color { a: 255, ..over }, f32::from(over.a) / 255.0);
        rgb.extend([mixed.r, mixed.g, mixed.b]);
    }
    rgb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_has_the_colour_of_its_value() {
        let picture = Picture { width: 4, height: 2, rgb: vec![128; 24] };
        let theme = Theme::light();
        let pixel = |rgb: &[u8], x: usize, y: usize| {
            let at = 3 * (4 * y + x);
            [rgb[at], rgb[at + 1], rgb[at + 2]]
        };
        let rgb = overlaid(&picture, Grid::new(1, 2), &[0.0, 1.0], &theme);
        assert_eq!(rgb.len(), 24);
        assert_eq!(pixel(&rgb, 0, 0), pixel(&rgb, 1, 1), "one colour a patch");
        let lightness = |[r, g, b]: [u8; 3]| Color { r, g, b, a: 255 }.lightness();
        assert!(lightness(pixel(&rgb, 3, 0)) > lightness(pixel(&rgb, 0, 0)) + 20.0, "more is brighter");
        // Around zero: orange above, blue below.
        let rgb = overlaid(&picture, Grid::new(1, 2), &[-2.0, 2.0], &theme);
        let [below, above] = [pixel(&rgb, 0, 0), pixel(&rgb, 3, 1)];
        assert!(below[2] > below[0] && above[0] > above[2], "{below:?}, {above:?}");
        assert_eq!(overlaid(&picture, Grid::new(1, 2), &[1.0], &theme), picture.rgb, "not one a patch");
    }
}
