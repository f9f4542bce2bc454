//! A reading step by step as an animated GIF: a frame a step, one palette for all, and of every frame only the part
//! that changes. The same scenes give the same bytes.

use std::collections::HashMap;

use gif::{AnyExtension, DisposalMethod, Encoder, Frame, Repeat};
use rayon::prelude::*;

use super::convert::pixmap;
use super::{ExportError, MADE_BY};
use crate::viz::draw::Scene;

/// Most frames: a longer reading moves on several steps a frame.
const MAX_FRAMES: usize = 256;
/// How long the whole lasts where no frame becomes too short or too long for it, in seconds.
const WHOLE_S: f32 = 8.0;
/// Shortest and longest frame, in hundredths of a second: browsers slow down what is shorter.
const FRAME_CS: (u16, u16) = (4, 50);
/// How much longer than the others the last frame stays, in hundredths of a second.
const REST_CS: u16 = 150;
/// Frames that are drawn at once: so many are held.
const AT_ONCE: usize = 16;
/// Every so many pixels one is looked at for the palette; 1 is finest, 30 fastest.
const PALETTE_SPEED: i32 = 10;

/// Dots an inch of a GIF, where nobody says.
pub const GIF_DPI: f32 = 150.0;
/// The same of a PNG.
pub const PNG_DPI: f32 = 300.0;

/// Which steps of a reading are shown, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Animation {
    /// How many tokens have been read in every frame; the last one has all.
    pub steps: Vec<usize>,
    /// How long a frame stays, in hundredths of a second.
    pub delay_cs: u16,
}

impl Animation {
    /// Of a reading of `tokens`: a frame a step as far as there are not too many.
    pub fn of(tokens: usize) -> Self {
        let count = tokens.min(MAX_FRAMES);
        Self { steps: spread(tokens, count), delay_cs: Self::delay(count) }
    }

    fn delay(frames: usize) -> u16 {
        ((100.0 * WHOLE_S / frames.max(1) as f32).round() as u16).clamp(FRAME_CS.0, FRAME_CS.1)
    }

    /// `count` of the steps, as far apart as can be: those of a series of stills.
    pub fn stills(tokens: usize, count: usize) -> Vec<usize> {
        spread(tokens, count.min(tokens))
    }
}

/// `count` steps up to `tokens`, evenly.
fn spread(tokens: usize, count: usize) -> Vec<usize> {
    (1..=count).map(|frame| frame * tokens / count).collect()
}

/// The GIF of a reading; `draw` gives the picture after so many steps, all of one size.
///
/// # Errors
/// If a picture cannot be drawn, or would be too large.
pub fn gif<E: From<ExportError> + Send>(
    animation: &Animation,
    about: &str,
    dpi: f32,
    draw: impl Fn(usize) -> Result<Scene, E> + Sync,
) -> Result<Vec<u8>, E> {
    let pixels = |step: usize| -> Result<Picture, E> { Ok(Picture::of(&draw(step)?, about, dpi)?) };
    let Animation { steps, delay_cs } = animation;
    let (Some(&first), Some(&last)) = (steps.first(), steps.last()) else { return Ok(Vec::new()) };
    let mut palette = Palette::of([pixels(first)?, pixels(steps[steps.len() / 2])?, pixels(last)?]);
    let mut file = File::begin(pixels(first)?.size, &palette.colors, about)?;
    let mut shown: Vec<u8> = Vec::new();
    for together in steps.chunks(AT_ONCE) {
        let drawn: Vec<Picture> = together.par_iter().map(|step| pixels(*step)).collect::<Result<_, E>>()?;
        for (step, picture) in together.iter().zip(drawn) {
            let next = palette.indices(&picture.rgb);
            let delay = if *step == last { delay_cs + REST_CS } else { *delay_cs };
            file.frame(&shown, &next, delay)?;
            shown = next;
        }
    }
    Ok(file.end()?)
}

/// Opaque pixels, row by row.
struct Picture {
    size: [u16; 2],
    rgb: Vec<u8>,
}

impl Picture {
    fn of(scene: &Scene, about: &str, dpi: f32) -> Result<Self, ExportError> {
        let pixmap = pixmap(scene, about, dpi, "GIF")?;
        // On white or on the ground of the look: nothing shines through.
        let rgb = pixmap.data().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
        Ok(Self { size: [pixmap.width() as u16, pixmap.height() as u16], rgb })
    }
}

/// The 256 colours of all frames, and which is nearest to one that was asked for before.
struct Palette {
    /// Red, green and blue of each.
    colors: Vec<u8>,
    known: HashMap<[u8; 3], u8>,
}

impl Palette {
    /// Of pictures that have all colours there will be.
    fn of(pictures: [Picture; 3]) -> Self {
        // One above the other, as far as a frame can be high.
        let width = pictures[0].size[0];
        let rgb: Vec<u8> = pictures.into_iter().flat_map(|picture| picture.rgb).collect();
        let height = (rgb.len() / (3 * usize::from(width))).min(usize::from(u16::MAX));
        let rgb = &rgb[..3 * usize::from(width) * height];
        let frame = Frame::from_rgb_speed(width, height as u16, rgb, PALETTE_SPEED);
        Self { colors: frame.palette.unwrap_or_default(), known: HashMap::new() }
    }

    fn indices(&mut self, rgb: &[u8]) -> Vec<u8> {
        let Self { colors, known } = self;
        let nearest = |[r, g, b]: [u8; 3]| {
            let far = |c: &[u8]| {
                let off = |a: u8, b: u8| (i32::from(a) - i32::from(b)).pow(2);
                off(c[0], r) + off(c[1], g) + off(c[2], b)
            };
            let best = colors.chunks_exact(3).enumerate().min_by_key(|(_, color)| far(color));
            best.map_or(0, |(at, _)| at as u8)
        };
        let mut index =
            |p: &[u8]| *known.entry([p[0], p[1], p[2]]).or_insert_with_key(|color| nearest(*color));
        rgb.chunks_exact(3).map(&mut index).collect()
    }
}

/// The file as far as it is written.
struct File {
    encoder: Encoder<Vec<u8>>,
    size: [u16; 2],
}

fn refused(error: &impl std::fmt::Display) -> ExportError {
    ExportError::Convert { format: "GIF", why: error.to_string() }
}

impl File {
    fn begin(size: [u16; 2], palette: &[u8], about: &str) -> Result<Self, ExportError> {
        let mut encoder = Encoder::new(Vec::new(), size[0], size[1], palette).map_err(|e| refused(&e))?;
        encoder.set_repeat(Repeat::Infinite).map_err(|e| refused(&e))?;
        const COMMENT: u8 = 0xfe;
        let text = format!("{about}; {MADE_BY}");
        let parts: Vec<&[u8]> = text.as_bytes().chunks(255).collect();
        encoder.write_raw_extension(AnyExtension(COMMENT), &parts).map_err(|e| refused(&e))?;
        Ok(Self { encoder, size })
    }

    /// Adds the box around what differs from what is shown; of the first frame all.
    fn frame(&mut self, shown: &[u8], next: &[u8], delay: u16) -> Result<(), ExportError> {
        let [width, height] = self.size.map(usize::from);
        let (mut left, mut top, mut right, mut bottom) = (width, height, 0, 0);
        for at in (0..next.len()).filter(|at| shown.get(*at) != Some(&next[*at])) {
            let (x, y) = (at % width, at / width);
            (left, right) = (left.min(x), right.max(x + 1));
            (top, bottom) = (top.min(y), bottom.max(y + 1));
        }
        if right == 0 {
            (left, top, right, bottom) = (0, 0, 1, 1); // nothing changes: one pixel keeps the time
        }
        let rows = next.chunks_exact(width).take(bottom).skip(top);
        let frame = Frame {
            delay,
            dispose: DisposalMethod::Keep,
            left: left as u16,
            top: top as u16,
            width: (right - left) as u16,
            height: (bottom - top) as u16,
            buffer: rows.flat_map(|row| row[left..right].to_vec()).collect(),
            ..Frame::default()
        };
        self.encoder.write_frame(&frame).map_err(|e| refused(&e))
    }

    fn end(self) -> Result<Vec<u8>, ExportError> {
        self.encoder.into_inner().map_err(|e| refused(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_a_step_as_far_as_there_are_not_too_many() {
        let short = Animation::of(12);
        assert_eq!((short.steps, short.delay_cs), ((1..=12).collect::<Vec<_>>(), 50));
        assert_eq!(Animation::of(196).delay_cs, 4);
        let long = Animation::of(1024);
        assert_eq!((long.steps.len(), &long.steps[..2], long.steps[255]), (256, &[4, 8][..], 1024));
        assert_eq!(Animation::stills(196, 4), [49, 98, 147, 196]);
        assert_eq!(Animation::stills(3, 9), [1, 2, 3]);
        assert_eq!(Animation::of(0).steps, [0; 0]);
    }
}
