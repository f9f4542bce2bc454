//! TIFF that the `image` crate does not read, or converts differently from Pillow: palettes, CMYK, grey with alpha, grey of
//! 2 and 4 bits, colours multiplied by alpha, strips and tiles of JPEG data.

use std::borrow::Cow;
use std::io::Cursor;

use image::RgbImage;
use image::metadata::Orientation;
use tiff::decoder::ifd::Value;
use tiff::decoder::{ChunkType, Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use super::{BYTE_LIMIT, DecodeFailure, check_size, jpeg, product, rgb_image, upright};

/// The value of `Compression` for strips or tiles of JPEG data.
const JPEG: u16 = 7;
/// Most bytes of tables that strips or tiles of JPEG data share: each reads them anew. Real ones take less than 4 KB.
const MAX_TABLES: usize = 1 << 16;

fn failed(error: TiffError) -> DecodeFailure {
    match error {
        TiffError::UnsupportedError(why) => DecodeFailure::Unsupported(why.to_string()),
        error => DecodeFailure::broken(error),
    }
}

/// The value of a tag, if the image has it as a number.
fn number(decoder: &mut Decoder<Cursor<&[u8]>>, tag: Tag) -> Option<u16> {
    decoder.find_tag_unsigned(tag).ok().flatten()
}

/// The picture, or `None` if the `image` crate reads it.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<RgbImage>, DecodeFailure> {
    let (bytes, palette) = match without_palette(bytes) {
        Some(grey) => (Cow::Owned(grey), true),
        None => (Cow::Borrowed(bytes), false),
    };
    let mut limits = Limits::default();
    limits.decoding_buffer_size = BYTE_LIMIT as usize;
    let mut decoder = Decoder::new(Cursor::new(&bytes[..])).map_err(failed)?.with_limits(limits);
    let (width, height) = decoder.dimensions().map_err(failed)?;
    check_size(width.into(), height.into())?;
    if number(&mut decoder, Tag::NewSubfileType).is_some_and(|kind| kind & 1 == 1) {
        let why = "its first image is a thumbnail, as in raw photographs";
        return Err(DecodeFailure::Unsupported(why.into()));
    }
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).ok().flatten().unwrap_or_default();
    if formats.iter().any(|format| [2, 3].contains(format)) {
        let why = "its samples are signed or floating-point numbers of unknown range";
        return Err(DecodeFailure::Unsupported(why.into()));
    }
    let turn = number(&mut decoder, Tag::Orientation).and_then(|turn| Orientation::from_exif(turn as u8));
    let turn = turn.unwrap_or(Orientation::NoTransforms);
    let colour = decoder.colortype().map_err(failed)?;
    if number(&mut decoder, Tag::Compression) == Some(JPEG) {
        if palette {
            return Err(DecodeFailure::Unsupported("its palette indices are compressed as JPEG".into()));
        }
        return Ok(Some(upright(jpeg_blocks(&mut decoder, &bytes, colour, (width, height))?, turn)));
    }
    let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).ok().flatten().unwrap_or_default();
    let multiplied = extra.first() == Some(&1);
    let (bits, samples) = match colour {
        ColorType::Gray(bits @ (1 | 2 | 4 | 8)) if palette => (bits, 1),
        ColorType::Gray(bits @ (2 | 4)) => (bits, 1),
        ColorType::CMYK(8) => (8, 4),
        ColorType::RGBA(8) if multiplied => (8, 4),
        ColorType::Multiband { bit_depth: 8, num_samples: 2 } => (8, 2),
        ColorType::Gray(1 | 8 | 16)
        | ColorType::RGB(8 | 16)
        | ColorType::RGBA(8 | 16)
        | ColorType::CMYK(16)
            if !palette =>
        {
            return Ok(None);
        }
        _ => {
            let what = if palette { "palette has indices" } else { "pixels are" };
            return Err(DecodeFailure::Unsupported(format!("its {what} of type {colour:?}")));
        }
    };
    let map = if palette { decoder.get_tag_u16_vec(Tag::ColorMap).map_err(failed)? } else { Vec::new() };
    let entries = map.len() / 3; // all reds, then all greens, then all blues
    let DecodingResult::U8(data) = decoder.read_image().map_err(failed)? else {
        return Err(DecodeFailure::Broken("its samples are not bytes".into()));
    };
    let (width_, height_) = (width as usize, height as usize);
    let row = (width_ * samples * usize::from(bits)).div_ceil(8);
    if data.len() < row * height_ {
        let why = "its pixels are incomplete, or its channels are stored one after the other";
        return Err(DecodeFailure::Unsupported(why.into()));
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
                ColorType::RGBA(_) => {
                    let [r, g, b, alpha] = [0, 1, 2, 3].map(|i| u32::from(line[x * 4 + i]));
                    [r, g, b].map(|value| (value * 255).checked_div(alpha).unwrap_or(0).min(255) as u8)
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
    Ok(Some(upright(rgb_image(width, height, rgb)?, turn)))
}

/// A picture whose strips or tiles are JPEG data, each decoded as a JPEG file is: `tiff`'s own decoder lets such data claim
/// any size, and has other pixels than Pillow.
fn jpeg_blocks(
    decoder: &mut Decoder<Cursor<&[u8]>>,
    bytes: &[u8],
    colour: ColorType,
    (width, height): (u32, u32),
) -> Result<RgbImage, DecodeFailure> {
    let [photometric, planes] =
        [Tag::PhotometricInterpretation, Tag::PlanarConfiguration].map(|tag| number(decoder, tag));
    // The last byte of Adobe's marker: whether colours were transformed to YCbCr. Without it the library would guess.
    let transform = match (colour, photometric) {
        (ColorType::Gray(8), Some(1)) | (ColorType::RGB(8), _) if planes != Some(2) => 0,
        (ColorType::YCbCr(8), _) if planes != Some(2) => 1,
        _ => {
            let why = format!("it is compressed as JPEG, with pixels of type {colour:?}");
            return Err(DecodeFailure::Unsupported(why));
        }
    };
    let (offsets, counts) = match decoder.get_chunk_type() {
        ChunkType::Strip => (Tag::StripOffsets, Tag::StripByteCounts),
        ChunkType::Tile => (Tag::TileOffsets, Tag::TileByteCounts),
    };
    let offsets = decoder.get_tag_u64_vec(offsets).map_err(failed)?;
    let counts = decoder.get_tag_u64_vec(counts).map_err(failed)?;
    if counts.iter().fold(0, |all: u64, count| all.saturating_add(*count)) > bytes.len() as u64 {
        return Err(DecodeFailure::Broken("its strips or tiles overlap, or are incomplete".into()));
    }
    let (wide, mut high) = decoder.chunk_dimensions();
    if decoder.get_chunk_type() == ChunkType::Strip {
        high = high.min(height);
    }
    let across = width.div_ceil(wide);
    let padded = (u64::from(across) * u64::from(wide), u64::from(height.div_ceil(high)) * u64::from(high));
    check_size(padded.0, padded.1)?;
    let tables = decoder.find_tag(Tag::JPEGTables).map_err(failed)?;
    let tables = tables.map_or(Ok(Vec::new()), Value::into_u8_vec).map_err(failed)?;
    if tables.len() > MAX_TABLES {
        return Err(DecodeFailure::Broken(format!("its JPEG tables take {} bytes", tables.len())));
    }
    // Between the marks of their beginning and end.
    let tables = tables.get(2..tables.len().saturating_sub(2)).unwrap_or_default();
    let adobe = [b"\xFF\xD8\xFF\xEE\0\x0EAdobe\0\x64\0\0\0\0", &[transform][..]].concat();
    let row = width as usize * 3;
    let mut rgb = vec![0; row * height as usize];
    for (i, (offset, count)) in (0..).zip(offsets.iter().zip(&counts)) {
        let (x, y) = (i % across * wide, i / across * high);
        if y >= height {
            break;
        }
        let end = offset.saturating_add(*count);
        let data = bytes.get(*offset as usize..end as usize).and_then(|data| data.strip_prefix(b"\xFF\xD8"));
        let Some(data) = data else {
            return Err(DecodeFailure::Broken(format!("strip or tile {i} is incomplete")));
        };
        let rows = high.min(height - y);
        let block = jpeg::block(&[&adobe, tables, data].concat(), wide, rows..=high, padded.0 * padded.1)?;
        let shown = wide.min(width - x) as usize * 3;
        for (line, from) in (y as usize..(y + rows) as usize).zip(block.chunks_exact(wide as usize * 3)) {
            rgb[line * row + x as usize * 3..][..shown].copy_from_slice(&from[..shown]);
        }
    }
    rgb_image(width, height, rgb)
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
