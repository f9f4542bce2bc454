//! TIFF colours the `image` crate does not read, or prints otherwise than Pillow: palettes, CMYK,
//! grey with alpha, grey of 2 and 4 bits.

use std::io::Cursor;

use image::{DynamicImage, RgbImage};
use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;

use super::{BYTE_LIMIT, Stop, check_size};

/// The picture, or nothing where the `image` crate knows its colours.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<RgbImage>, Stop> {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = BYTE_LIMIT as usize;
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(Stop::broken)?.with_limits(limits);
    let (width, height) = decoder.dimensions().map_err(Stop::broken)?;
    check_size(width.into(), height.into())?;
    let colour = decoder.colortype().map_err(Stop::broken)?;
    let (bits, samples) = match colour {
        ColorType::Palette(bits @ (1 | 2 | 4 | 8)) | ColorType::Gray(bits @ (2 | 4)) => (bits, 1),
        ColorType::CMYK(8) => (8, 4),
        ColorType::Multiband { bit_depth: 8, num_samples: 2 } => (8, 2),
        _ => return Ok(None),
    };
    let map = match colour {
        ColorType::Palette(_) => decoder.get_tag_u16_vec(Tag::ColorMap).map_err(Stop::broken)?,
        _ => Vec::new(),
    };
    let entries = map.len() / 3; // all reds, then all greens, then all blues
    let orientation = decoder.find_tag_unsigned::<u8>(Tag::Orientation).ok().flatten();
    let DecodingResult::U8(data) = decoder.read_image().map_err(Stop::broken)? else {
        return Err(Stop::Broken("its samples are not bytes".into()));
    };
    let (width_, height_) = (width as usize, height as usize);
    let row = (width_ * samples * usize::from(bits)).div_ceil(8);
    if data.len() < row * height_ {
        return Err(Stop::Broken("its pixels are incomplete (planes apart are not supported)".into()));
    }
    let mut rgb = Vec::with_capacity(width_ * height_ * 3);
    let most = (1u16 << bits) - 1;
    for line in data.chunks_exact(row).take(height_) {
        for x in 0..width_ {
            rgb.extend(match colour {
                ColorType::CMYK(_) => {
                    let [c, m, y, k] = [0, 1, 2, 3].map(|i| line[x * 4 + i]);
                    [c, m, y].map(|ink| 255 - k - product(ink, 255 - k))
                }
                ColorType::Multiband { .. } => [line[x * 2]; 3],
                _ => {
                    let at = x * usize::from(bits);
                    let value = u16::from(line[at / 8]) >> (8 - at % 8 - usize::from(bits)) & most;
                    let of =
                        |c: usize| map.get(c * entries + usize::from(value)).map_or(0, |v| (v >> 8) as u8);
                    match colour {
                        ColorType::Palette(_) => [of(0), of(1), of(2)],
                        _ => [(value * 255 / most) as u8; 3],
                    }
                }
            });
        }
    }
    let image = RgbImage::from_raw(width, height, rgb);
    let image = image.ok_or_else(|| Stop::Broken("its pixels are incomplete".into()))?;
    let mut image = DynamicImage::ImageRgb8(image);
    if let Some(turn) = orientation.and_then(image::metadata::Orientation::from_exif) {
        image.apply_orientation(turn);
    }
    Ok(Some(image.into_rgb8()))
}

/// `a * b / 255`, rounded.
fn product(a: u8, b: u8) -> u8 {
    let t = u32::from(a) * u32::from(b) + 128;
    (((t >> 8) + t) >> 8) as u8
}
