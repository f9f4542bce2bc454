//! The steps of a reading as an animated GIF: one palette for all frames, and of each frame only the rectangle that
//! changes. The same scenes give the same bytes.

use std::collections::HashMap;

use gif::{AnyExtension, DisposalMethod, Encoder, Frame, Repeat};
use rayon::prelude::*;

use super::convert::pixmap;
use super::{ExportError, MADE_BY, failed};
use crate::viz::draw::Scene;

/// Most frames: a longer reading advances several steps from frame to frame.
const MAX_FRAMES: usize = 256;
/// Duration of the animation in seconds, as far as the limits of a frame allow.
const DURATION_S: f32 = 8.0;
/// Shortest and longest frame, in hundredths of a second: browsers slow down shorter frames.
const FRAME_CS: (u16, u16) = (4, 50);
/// Additional time for which the last frame is shown, in hundredths of a second.
const LAST_EXTRA_CS: u16 = 150;
/// Most frames that are rendered in parallel and held in memory at once.
const MAX_BATCH: usize = 16;
/// Most bytes of such frames, unless one alone has more.
const MAX_BATCH_BYTES: usize = 1 << 29;
/// Bytes of a pixel while its frame is rendered: with and without its opacity.
const PIXEL_BYTES: usize = 4 + 3;
/// Sampling factor of the palette's quantiser: 1 is finest, 30 fastest.
const PALETTE_SPEED: i32 = 10;
/// How many colours of the palette give way to those farthest from it: few pixels have these, as on the edge of a marked token, and
/// the quantiser gives them no entry of their own.
const OUTLIER_COLOURS: usize = 16;

/// Default resolution of a GIF, in dots per inch.
pub const GIF_DPI: f32 = 150.0;
/// Default resolution of a PNG, in dots per inch.
pub const PNG_DPI: f32 = 300.0;

/// Up to `most` evenly spaced steps of a reading: how many of `tokens` have been read, in the last one all.
pub fn steps(tokens: usize, most: usize) -> Vec<usize> {
    let count = most.min(tokens);
    (1..=count).map(|frame| frame * tokens / count).collect()
}

/// How long each frame of a GIF of this many is shown, in hundredths of a second.
fn delay_cs(frames: usize) -> u16 {
    let delay = (100.0 * DURATION_S / frames.max(1) as f32).round() as u16;
    delay.clamp(FRAME_CS.0, FRAME_CS.1)
}

/// The bytes of the GIF of a reading of `tokens`, empty without any; `draw(step)` gives the picture after `step` of them, all of one
/// width.
pub fn gif(
    tokens: usize,
    about: &str,
    dpi: f32,
    draw: impl Fn(usize) -> Result<Scene, ExportError> + Sync,
) -> Result<Vec<u8>, ExportError> {
    let steps = steps(tokens, MAX_FRAMES);
    let delay_cs = delay_cs(steps.len());
    let (Some(&first), Some(&last)) = (steps.first(), steps.last()) else { return Ok(Vec::new()) };
    let scenes =
        [first, steps[steps.len() / 2], last].into_iter().map(&draw).collect::<Result<Vec<_>, _>>()?;
    // The number of a later step has more digits, all of one width, and its text may take a line more: no frame is higher than these.
    let height = scenes.iter().map(|scene| scene.height).fold(0.0, f32::max);
    let render = |scene: Scene| Picture::render(&Scene { height, ..scene }, about, dpi);
    // The three frames, one above the other.
    let (mut size, mut samples) = ([0; 2], Vec::new());
    for scene in scenes {
        let picture = render(scene)?;
        size = picture.size;
        samples.extend(picture.rgb);
    }
    let mut palette = Palette::from_rgb(size[0], &samples);
    drop(samples);
    let mut file = GifWriter::new(size, &palette.colors, about)?;
    let mut shown: Vec<u8> = Vec::new();
    for batch in steps.chunks(batch(size)) {
        let pixels = |step: &usize| render(draw(*step)?);
        let drawn: Vec<Picture> = batch.par_iter().map(pixels).collect::<Result<_, _>>()?;
        for (step, picture) in batch.iter().zip(drawn) {
            let next = palette.indices(&picture.rgb);
            let delay = if *step == last { delay_cs + LAST_EXTRA_CS } else { delay_cs };
            file.write_frame(&shown, &next, delay)?;
            shown = next;
        }
    }
    file.encoder.into_inner().map_err(failed("GIF"))
}

/// How many frames of this size are rendered at once.
fn batch(size: [u16; 2]) -> usize {
    let [width, height] = size.map(usize::from);
    (MAX_BATCH_BYTES / (PIXEL_BYTES * width * height)).clamp(1, MAX_BATCH)
}

/// Opaque pixels, row by row.
struct Picture {
    size: [u16; 2],
    rgb: Vec<u8>,
}

impl Picture {
    fn render(scene: &Scene, about: &str, dpi: f32) -> Result<Self, ExportError> {
        let pixmap = pixmap(scene, about, dpi, "GIF")?;
        // Drawn on white or on the theme's background, so that every pixel is opaque.
        let rgb = pixmap.data().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
        Ok(Self { size: [pixmap.width() as u16, pixmap.height() as u16], rgb })
    }
}

/// The colours of all frames, up to 256, and the nearest of them to each colour looked up so far.
struct Palette {
    /// Red, green and blue of each.
    colors: Vec<u8>,
    known: HashMap<[u8; 3], u8>,
}

impl Palette {
    /// The palette of a picture in rows of `width` pixels, cut at the largest height of a frame.
    fn from_rgb(width: u16, rgb: &[u8]) -> Self {
        let height = (rgb.len() / (3 * usize::from(width))).min(usize::from(u16::MAX));
        let rgb = &rgb[..3 * usize::from(width) * height];
        let frame = Frame::from_rgb_speed(width, height as u16, rgb, PALETTE_SPEED);
        let mut palette = Self { colors: frame.palette.unwrap_or_default(), known: HashMap::new() };
        palette.add_farthest(rgb);
        palette
    }

    /// Puts the [`OUTLIER_COLOURS`] colours of these pixels in the place of those that the fewest pixels have.
    fn add_farthest(&mut self, rgb: &[u8]) {
        let mut counts = HashMap::<[u8; 3], usize>::new();
        rgb.chunks_exact(3).for_each(|p| *counts.entry([p[0], p[1], p[2]]).or_default() += 1);
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_unstable();
        let mut pixels = vec![0_usize; self.colors.len() / 3];
        let error = |(color, count): &([u8; 3], usize)| {
            let (at, error) = nearest(&self.colors, *color);
            pixels[at] += count;
            error
        };
        let mut errors: Vec<i32> = all.iter().map(error).collect();
        let mut rarest: Vec<usize> = (0..pixels.len()).collect();
        rarest.sort_by_key(|at| pixels[*at]);
        for at in rarest.into_iter().take(OUTLIER_COLOURS) {
            let worst = errors.iter().enumerate().max_by_key(|(_, error)| **error);
            let Some((worst, _)) = worst.filter(|(_, error)| **error > 0) else { break };
            let color = all[worst].0;
            self.colors[3 * at..][..3].copy_from_slice(&color);
            for (error, (other, _)) in errors.iter_mut().zip(&all) {
                *error = distance(&color, other).min(*error);
            }
        }
    }

    fn indices(&mut self, rgb: &[u8]) -> Vec<u8> {
        let Self { colors, known } = self;
        let find = |color: &[u8; 3]| nearest(colors, *color).0 as u8;
        let mut index = |p: &[u8]| *known.entry([p[0], p[1], p[2]]).or_insert_with_key(find);
        rgb.chunks_exact(3).map(&mut index).collect()
    }
}

/// The place of the nearest of the `colors`, and its squared distance.
fn nearest(colors: &[u8], color: [u8; 3]) -> (usize, i32) {
    let distances = colors.chunks_exact(3).map(|own| distance(own, &color)).enumerate();
    distances.min_by_key(|(_, distance)| *distance).unwrap_or_default()
}

/// The squared distance of two colours.
fn distance(one: &[u8], other: &[u8]) -> i32 {
    one.iter().zip(other).map(|(a, b)| (i32::from(*a) - i32::from(*b)).pow(2)).sum()
}

/// The file being encoded.
struct GifWriter {
    encoder: Encoder<Vec<u8>>,
    size: [u16; 2],
}

impl GifWriter {
    fn new(size: [u16; 2], palette: &[u8], about: &str) -> Result<Self, ExportError> {
        let mut encoder = Encoder::new(Vec::new(), size[0], size[1], palette).map_err(failed("GIF"))?;
        encoder.set_repeat(Repeat::Infinite).map_err(failed("GIF"))?;
        const COMMENT: u8 = 0xfe;
        let text = format!("{about}; {MADE_BY}");
        let parts: Vec<&[u8]> = text.as_bytes().chunks(255).collect();
        encoder.write_raw_extension(AnyExtension(COMMENT), &parts).map_err(failed("GIF"))?;
        Ok(Self { encoder, size })
    }

    /// Adds a frame: the bounding box of the pixels in which `next` differs from `shown`, which is empty before the first.
    fn write_frame(&mut self, shown: &[u8], next: &[u8], delay: u16) -> Result<(), ExportError> {
        let [width, height] = self.size.map(usize::from);
        let (mut left, mut top, mut right, mut bottom) = (width, height, 0, 0);
        for at in (0..next.len()).filter(|at| shown.get(*at) != Some(&next[*at])) {
            let (x, y) = (at % width, at / width);
            (left, right) = (left.min(x), right.max(x + 1));
            (top, bottom) = (top.min(y), bottom.max(y + 1));
        }
        if right == 0 {
            (left, top, right, bottom) = (0, 0, 1, 1); // nothing changes: one pixel keeps the delay
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
        self.encoder.write_frame(&frame).map_err(failed("GIF"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viz::draw::{Box2, Color};

    #[test]
    fn no_frame_reaches_beyond_the_picture_where_later_ones_are_higher() {
        let draw = |step: usize| -> Result<Scene, ExportError> {
            let height = if step < 10 { 20.0 } else { 30.0 };
            let mut scene = Scene::new(24.0, height, "", Some(Color::hex(0xff_ff_ff)));
            scene.fill(Box2::new(0.0, 0.0, 2.0 * step as f32, height), Color::hex(0));
            Ok(scene)
        };
        let bytes = gif(12, "", 72.0, draw).unwrap();
        let mut file = ::gif::Decoder::new(&bytes[..]).unwrap();
        assert_eq!((file.width(), file.height()), (24, 30));
        let mut frames = 0;
        while let Some(frame) = file.read_next_frame().unwrap() {
            assert!(frame.left + frame.width <= 24 && frame.top + frame.height <= 30, "frame {frames}");
            frames += 1;
        }
        assert_eq!(frames, 12);
    }

    #[test]
    fn a_colour_of_a_pixel_is_in_the_palette_if_no_other_is_near() {
        let mut rgb: Vec<u8> = (0..100).flat_map(|y| (0..100).flat_map(move |x| [2 * x, 2 * y, 0])).collect();
        rgb[3 * 5050..][..3].copy_from_slice(&[0, 0, 255]);
        let palette = Palette::from_rgb(100, &rgb);
        assert_eq!(palette.colors.len(), 3 * 256);
        assert_eq!(nearest(&palette.colors, [0, 0, 255]).1, 0);
    }

    #[test]
    fn a_frame_a_step_as_far_as_there_are_not_too_many() {
        assert_eq!((steps(12, MAX_FRAMES), delay_cs(12)), ((1..=12).collect::<Vec<_>>(), 50));
        assert_eq!(delay_cs(196), 4);
        let long = steps(1024, MAX_FRAMES);
        assert_eq!((long.len(), &long[..2], long[255]), (256, &[4, 8][..], 1024));
        assert_eq!(steps(196, 4), [49, 98, 147, 196]);
        assert_eq!(steps(3, 9), [1, 2, 3]);
        assert_eq!(steps(0, MAX_FRAMES), [0; 0]);
    }

    #[test]
    fn frames_held_at_once_are_fewer_the_larger_they_are() {
        assert_eq!([[502, 420], [4110, 3000], [8220, 8000], [16384, 16384]].map(batch), [16, 6, 1, 1]);
    }
}
