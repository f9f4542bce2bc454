//! JPEG, by the decoder whose colours are nearest to libjpeg's (chroma is enlarged by the same
//! triangle filter): at most 3 grey levels apart on real photographs, 0.1 on average.

use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};
use jpeg_decoder::{Decoder, PixelFormat};

use super::{BYTE_LIMIT, Stop, check_size, orientation, product};

/// More scans are no photograph but a trap: a few bytes each make the decoder pass over all pixels.
const SCAN_LIMIT: usize = 500;

/// The picture, or nothing where this decoder does not get through and another may.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<RgbImage>, Stop> {
    let (ends, scans) = scans(bytes);
    if !ends {
        return Err(Stop::Broken("the file is truncated (no end marker)".into()));
    }
    if scans > SCAN_LIMIT {
        return Err(Stop::Broken(format!("it has {scans} scans; photographs have about ten")));
    }
    let mut decoder = Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(BYTE_LIMIT as usize);
    let Ok(()) = decoder.read_info() else { return Ok(None) };
    let Some(info) = decoder.info() else { return Ok(None) };
    check_size(info.width.into(), info.height.into())?;
    let turn = orientation(decoder.exif_data(), decoder.xmp_data());
    let Ok(data) = decoder.decode() else { return Ok(None) };
    let rgb = match info.pixel_format {
        PixelFormat::L8 => data.into_iter().flat_map(|v| [v; 3]).collect(),
        PixelFormat::RGB24 => data,
        // Inks, 0 is none: the decoder has undone Adobe's inversion, which Pillow takes for granted.
        PixelFormat::CMYK32 => data
            .as_chunks()
            .0
            .iter()
            .flat_map(|[c, m, y, k]| [*c, *m, *y].map(|ink| 255 - k - product(ink, 255 - k)))
            .collect(),
        PixelFormat::L16 => return Ok(None),
    };
    let image = RgbImage::from_raw(info.width.into(), info.height.into(), rgb);
    let image = image.ok_or_else(|| Stop::Broken("its pixels are incomplete".into()))?;
    Ok(Some(if turn == Orientation::NoTransforms {
        image
    } else {
        let mut image = DynamicImage::ImageRgb8(image);
        image.apply_orientation(turn);
        image.into_rgb8()
    }))
}

/// Whether an end marker follows the first scan (decoders paint what is missing grey), and how many
/// scans there are.
fn scans(bytes: &[u8]) -> (bool, usize) {
    let mut at = 2;
    // Segments up to the first scan: 0xFF, kind, length of two bytes that counts itself.
    loop {
        match bytes.get(at..) {
            Some(rest @ [0xFF, 0xDA, ..]) => {
                let count = |kind: u8| rest.windows(2).filter(|pair| *pair == [0xFF, kind]).count();
                return (count(0xD9) > 0, count(0xDA));
            }
            Some([0xFF, 0xFF, ..]) => at += 1,
            Some([0xFF, 0x01 | 0xD0..=0xD8, ..]) => at += 2,
            Some([0xFF, _, high, low, ..]) => at += 2 + usize::from(u16::from_be_bytes([*high, *low])),
            // Bytes between segments are skipped, as decoders do.
            Some([_, _, ..]) => at += 1,
            _ => return (false, 0),
        }
    }
}
