//! JPEG to the bit as libjpeg-turbo, which Pillow uses, decodes it: its inverse cosine transform,
//! its triangle filter for chroma, its fixed-point colours. What that decoder does not take (rare
//! samplings, damaged data) is left to the `image` crate's, a few grey levels apart.

use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};
use libjpeg_turbo_rs::{PixelFormat, decompress_to};

use super::{Stop, check_size, orientation};
use crate::model::guard::guard;

/// More scans are no photograph but a trap: a few bytes each make the decoder pass over all pixels.
const SCAN_LIMIT: usize = 500;

/// What a file says before its first scan, and how it goes on.
#[derive(Default)]
struct Header<'a> {
    width: u16,
    height: u16,
    /// Horizontal and vertical sampling of each component.
    sampling: Vec<(u8, u8)>,
    adobe: bool,
    exif: Option<&'a [u8]>,
    xmp: Option<&'a [u8]>,
    scans: usize,
    /// Whether an end marker follows the first scan. Decoders paint what is missing grey.
    ends: bool,
}

/// The picture, or nothing where another decoder may get through.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<RgbImage>, Stop> {
    let header = Header::read(bytes);
    if !header.ends {
        return Err(Stop::Broken("the file is truncated (no end marker)".into()));
    }
    if header.scans > SCAN_LIMIT {
        return Err(Stop::Broken(format!("it has {} scans; photographs have about ten", header.scans)));
    }
    check_size(header.width.into(), header.height.into())?;
    if !header.is_usual() {
        return Ok(None);
    }
    // Where it panics on damaged data, another decoder may get through too.
    let Ok(Ok(decoded)) = guard(|| decompress_to(bytes, PixelFormat::Rgb)) else { return Ok(None) };
    if (decoded.width, decoded.height) != (header.width.into(), header.height.into()) {
        return Ok(None);
    }
    let image = RgbImage::from_raw(header.width.into(), header.height.into(), decoded.data);
    let image = image.ok_or_else(|| Stop::Broken("its pixels are incomplete".into()))?;
    let turn = orientation(header.exif, header.xmp);
    if turn == Orientation::NoTransforms {
        return Ok(Some(image));
    }
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(turn);
    Ok(Some(image.into_rgb8()))
}

impl<'a> Header<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut header = Self::default();
        let mut at = 2;
        // Segments up to the first scan: 0xFF, kind, length of two bytes that counts itself.
        loop {
            match bytes.get(at..) {
                Some(rest @ [0xFF, 0xDA, ..]) => {
                    let count = |kind: u8| rest.windows(2).filter(|pair| *pair == [0xFF, kind]).count();
                    (header.ends, header.scans) = (count(0xD9) > 0, count(0xDA));
                    return header;
                }
                Some([0xFF, 0xFF, ..]) => at += 1,
                Some([0xFF, 0x01 | 0xD0..=0xD8, ..]) => at += 2,
                Some([0xFF, kind, high, low, rest @ ..]) => {
                    let length = usize::from(u16::from_be_bytes([*high, *low]));
                    header.segment(*kind, rest.get(..length.saturating_sub(2)).unwrap_or_default());
                    at += 2 + length;
                }
                // Bytes between segments are skipped, as decoders do.
                Some([_, _, ..]) => at += 1,
                _ => return header,
            }
        }
    }

    fn segment(&mut self, kind: u8, data: &'a [u8]) {
        match (kind, data) {
            // Frames: precision, height, width, then three bytes for each component.
            (0xC0..=0xC3, [8, y1, y0, x1, x0, count, components @ ..])
                if components.len() == 3 * usize::from(*count) =>
            {
                self.height = u16::from_be_bytes([*y1, *y0]);
                self.width = u16::from_be_bytes([*x1, *x0]);
                self.sampling = components.chunks_exact(3).map(|c| (c[1] >> 4, c[1] & 15)).collect();
            }
            // Other frames: their size, and no components, so that another decoder says what is wrong.
            (0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF, [_, y1, y0, x1, x0, ..]) => {
                self.height = u16::from_be_bytes([*y1, *y0]);
                self.width = u16::from_be_bytes([*x1, *x0]);
            }
            (0xE1, _) if data.starts_with(b"Exif\0\0") => self.exif = self.exif.or(Some(data)),
            (0xE1, _) if data.starts_with(b"http://ns.adobe.com/xap/1.0/\0") => {
                self.xmp = self.xmp.or(Some(data));
            }
            (0xEE, _) => self.adobe |= data.starts_with(b"Adobe"),
            _ => {}
        }
    }

    /// Whether it is as photographs are: one component; or three, the colours sampled once for every
    /// one, two or four places of the brightness along an edge; or four inks after Adobe.
    fn is_usual(&self) -> bool {
        let usual = |(across, down): (u8, u8)| [1, 2, 4].contains(&across) && [1, 2].contains(&down);
        match self.sampling[..] {
            [only] => usual(only),
            [first, b, c] => usual(first) && (b, c) == ((1, 1), (1, 1)),
            [first, b, c, last] => self.adobe && usual(first) && (b, c) == ((1, 1), (1, 1)) && last == first,
            _ => false,
        }
    }
}
