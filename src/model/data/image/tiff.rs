//! TIFF colour types that the `image` crate does not read, or converts differently from Pillow: palettes,
//! CMYK, grey with alpha, grey of 2 and 4 bits.

use std::borrow::Cow;
use std::io::Cursor;

use image::RgbImage;
use image::metadata::Orientation;
use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;

use super::{BYTE_LIMIT, DecodeFailure, check_size, product, rgb_image, upright};

/// The picture, or `None` if the `image` crate reads its colour type.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<RgbImage>, DecodeFailure> {
    let (bytes, palette) = match without_palette(bytes) {
        Some(grey) => (Cow::Owned(grey), true),
        None => (Cow::Borrowed(bytes), false),
    };
    let mut limits = Limits::default();
    limits.decoding_buffer_size = BYTE_LIMIT as usize;
    let mut decoder =
        Decoder::new(Cursor::new(&bytes[..])).map_err(DecodeFailure::broken)?.with_limits(limits);
    let (width, height) = decoder.dimensions().map_err(DecodeFailure::broken)?;
    check_size(width.into(), height.into())?;
    let colour = decoder.colortype().map_err(DecodeFailure::broken)?;
    let (bits, samples) = match colour {
        ColorType::Gray(bits @ (1 | 2 | 4 | 8)) if palette => (bits, 1),
        ColorType::Gray(bits @ (2 | 4)) => (bits, 1),
        ColorType::CMYK(8) => (8, 4),
        ColorType::Multiband { bit_depth: 8, num_samples: 2 } => (8, 2),
        _ if palette => {
            return Err(DecodeFailure::Broken(format!("its palette has indices of type {colour:?}")));
        }
        _ => return Ok(None),
    };
    let map = if palette {
        decoder.get_tag_u16_vec(Tag::ColorMap).map_err(DecodeFailure::broken)?
    } else {
        Vec::new()
    };
    let entries = map.len() / 3; // all reds, then all greens, then all blues
    let orientation = decoder.find_tag_unsigned::<u8>(Tag::Orientation).ok().flatten();
    let DecodingResult::U8(data) = decoder.read_image().map_err(DecodeFailure::broken)? else {
        return Err(DecodeFailure::Broken("its samples are not bytes".into()));
    };
    let (width_, height_) = (width as usize, height as usize);
    let row = (width_ * samples * usize::from(bits)).div_ceil(8);
    if data.len() < row * height_ {
        return Err(DecodeFailure::Broken(
            "its pixels are incomplete (separate planes are not supported)".into(),
        ));
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
                    if palette { [of(0), of(1), of(2)] } else { [(value * 255 / most) as u8; 3] }
                }
            });
        }
    }
    let turn = orientation.and_then(Orientation::from_exif).unwrap_or(Orientation::NoTransforms);
    Ok(Some(upright(rgb_image(width, height, rgb)?, turn)))
}

/// The same file with its palette indices declared to be grey, which the decoder can read; `None` if
/// the first image has no palette.
fn without_palette(bytes: &[u8]) -> Option<Vec<u8>> {
    let little = match bytes.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let pair = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let (low, high) = if little { (4, 6) } else { (6, 4) };
    let directory = usize::from(short(low)?) | usize::from(short(high)?) << 16;
    // Entries of 12 bytes: tag, type, count, value.
    let entries = usize::from(short(directory)?);
    let photometric = (0..entries).map(|i| directory + 2 + i * 12).find(|at| short(*at) == Some(262))?;
    (short(photometric + 8)? == 3).then(|| {
        let mut grey = bytes.to_vec();
        grey[photometric + 8..photometric + 10].copy_from_slice(if little { &[1, 0] } else { &[0, 1] });
        grey
    })
}
