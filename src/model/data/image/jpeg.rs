//! JPEG by libjpeg-turbo, the library Pillow uses: results are equal to the bit.
//!
//! It is C, so memory-safe decoders were tried first, on 1785 files: every sampling from 4:4:4 to 4:1:0,
//! grey, RGB, CMYK and YCCK, baseline, progressive, with restarts, odd sizes, 420 real photographs. Against Pillow 13.0
//! (libjpeg-turbo 3.2.0), from which one grey level was allowed, the largest differences were
//!
//! | decoder | photographs, 4:2:0 | 4:4:4 | small and odd sizes, 4:2:0 | million pixels a second |
//! |---|---|---|---|---|
//! | zune-jpeg 0.5.15 | 11 (5 % of values 2 or more) | 3 | 88 | 159 |
//! | jpeg-decoder 0.3.2 | 4 (1.8 % of values 2 or more) | 3 | 88 | 56 |
//! | libjpeg-turbo-rs 0.9.0 | 0 | 0 | 0 | 89 |
//! | libjpeg-turbo 3.1.0 (turbojpeg-sys 1.2.0) | 0 | 0 | 0 | 233 |
//!
//! and libjpeg-turbo-rs warns of its own `unsafe`. Damaged data is concealed where Pillow conceals it, and
//! rejected where Pillow rejects it.

use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;

use image::RgbImage;
use image::metadata::Orientation;
use turbojpeg_sys as raw;

use super::{BYTE_LIMIT, DecodeFailure, PIXEL_LIMIT, check_size, orientation, product, rgb_image, upright};

/// Most scans of a file: a scan of a few bytes makes the decoder process all pixels again.
const SCAN_LIMIT: u64 = 500;
/// Most pixels of all scans together: about 20 scans of 100 megapixels. Encoders write 10, of CMYK 18.
const PASS_LIMIT: u64 = 1 << 31;
/// Most pixels per byte of a file: every block of 8 x 8 has a code of one bit at least.
const PACKED: u64 = 8 * 64;

/// Beginnings of the library's warnings: it has concealed the damage and continued, which Pillow accepts.
const WARNINGS: [&str; 5] = [
    "Corrupt JPEG data",
    "Inconsistent progression",
    "Invalid SOS parameters",
    "Unknown Adobe color",
    "Warning: unknown JFIF",
];

pub(super) fn decode(bytes: &[u8]) -> Result<RgbImage, DecodeFailure> {
    let markers = Markers::read(bytes);
    if !markers.ends {
        return Err(DecodeFailure::Broken("the file is truncated (no end marker)".into()));
    }
    let mut library = Library::new()?;
    let (width, height) = library.size(bytes)?;
    let pixels = check_header(bytes, width, height)?;
    let most = SCAN_LIMIT.min(PASS_LIMIT / pixels);
    if markers.scans as u64 > most {
        let what =
            format!("it has {} scans of {width} x {height} pixels; at most {most} are read", markers.scans);
        return Err(DecodeFailure::Broken(what));
    }
    // The library counts scans itself, so that a marker missed here does not evade the limit.
    library.set(raw::TJPARAM_TJPARAM_SCANLIMIT, most)?;
    let rgb = library.pixels(bytes)?;
    Ok(upright(rgb_image(width, height, rgb)?, orientation(markers.exif, markers.xmp)))
}

/// The RGB values of a strip or tile of a picture of `all` pixels: `width` pixels wide, and as high as one of `rows`.
pub(super) fn block(
    bytes: &[u8],
    width: u32,
    rows: RangeInclusive<u32>,
    all: u64,
) -> Result<Vec<u8>, DecodeFailure> {
    let mut library = Library::new()?;
    let (wide, high) = library.size(bytes)?;
    if wide != width || !rows.contains(&high) {
        let what = format!("a strip or tile is {wide} x {high} pixels, not {width} x {}", rows.end());
        return Err(DecodeFailure::Broken(what));
    }
    check_header(bytes, wide, high)?;
    library.set(raw::TJPARAM_TJPARAM_SCANLIMIT, SCAN_LIMIT.min(PASS_LIMIT / all))?;
    library.pixels(bytes)
}

/// The number of pixels; fails if there are too many, at all or for so few bytes.
fn check_header(bytes: &[u8], width: u32, height: u32) -> Result<u64, DecodeFailure> {
    check_size(width.into(), height.into())?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels / PACKED > bytes.len() as u64 {
        let what = format!("its {} bytes are too few for {width} x {height} pixels", bytes.len());
        return Err(DecodeFailure::Broken(what));
    }
    Ok(pixels)
}

/// Width and height of the upright picture, from the file's header.
pub(super) fn dimensions(bytes: &[u8]) -> Result<(usize, usize), DecodeFailure> {
    let markers = Markers::read(bytes);
    let (width, height) = Library::new()?.size(bytes)?;
    check_size(width.into(), height.into())?;
    let (width, height) = (width as usize, height as usize);
    Ok(match orientation(markers.exif, markers.xmp) {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (height, width),
        _ => (width, height),
    })
}

struct Library(raw::tjhandle);

#[expect(
    unsafe_code,
    reason = "calls of C: the handle is the library's own, lengths are those of the slices"
)]
impl Library {
    fn new() -> Result<Self, DecodeFailure> {
        // SAFETY: returns a handle, or null.
        let handle = unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS as c_int) };
        if handle.is_null() {
            return Err(DecodeFailure::Broken("out of memory for a decoder".into()));
        }
        let mut library = Self(handle);
        library.set(raw::TJPARAM_TJPARAM_MAXPIXELS, PIXEL_LIMIT)?;
        library.set(raw::TJPARAM_TJPARAM_MAXMEMORY, BYTE_LIMIT >> 20)?; // in megabytes
        Ok(library)
    }

    fn set(&mut self, what: raw::TJPARAM, value: u64) -> Result<(), DecodeFailure> {
        // SAFETY: the handle is alive.
        let status = unsafe { raw::tj3Set(self.0, what as c_int, value as c_int) };
        self.check(status)
    }

    fn get(&self, what: raw::TJPARAM) -> c_int {
        // SAFETY: the handle is alive.
        unsafe { raw::tj3Get(self.0, what as c_int) }
    }

    /// Reads the header: width and height as stored, not turned upright.
    fn size(&mut self, bytes: &[u8]) -> Result<(u32, u32), DecodeFailure> {
        // SAFETY: reads within the slice.
        let status = unsafe { raw::tj3DecompressHeader(self.0, bytes.as_ptr(), bytes.len() as _) };
        self.check(status)?;
        let [width, height] =
            [raw::TJPARAM_TJPARAM_JPEGWIDTH, raw::TJPARAM_TJPARAM_JPEGHEIGHT].map(|what| self.get(what));
        Ok((u32::try_from(width).unwrap_or(0), u32::try_from(height).unwrap_or(0)))
    }

    /// The RGB values; [`check_header`] must have bounded how many.
    fn pixels(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DecodeFailure> {
        let (width, height) = self.size(bytes)?;
        let colours = self.get(raw::TJPARAM_TJPARAM_COLORSPACE) as raw::TJCS;
        let inks = [raw::TJCS_TJCS_CMYK, raw::TJCS_TJCS_YCCK].contains(&colours);
        let (format, channels) = if inks { (raw::TJPF_TJPF_CMYK, 4) } else { (raw::TJPF_TJPF_RGB, 3) };
        let mut values = vec![0; width as usize * height as usize * channels];
        let pitch = width as c_int * channels as c_int;
        // SAFETY: writes a line of `pitch` bytes for each of the `height` rows that the header of these bytes has.
        let status = unsafe {
            raw::tj3Decompress8(self.0, bytes.as_ptr(), bytes.len() as _, values.as_mut_ptr(), pitch, format)
        };
        self.check(status)?;
        if !inks {
            return Ok(values);
        }
        // CMYK is stored inverted, as Adobe's programs write it: 255 is no ink.
        let (inks, _) = values.as_chunks::<4>();
        Ok(inks.iter().flat_map(|&[c, m, y, k]| [c, m, y].map(|ink| k - product(255 - ink, k))).collect())
    }

    fn check(&self, status: c_int) -> Result<(), DecodeFailure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text is the handle's, ends in a null, and is copied at once.
        let message = unsafe { CStr::from_ptr(raw::tj3GetErrorStr(self.0)) }.to_string_lossy();
        if WARNINGS.iter().any(|warning| message.starts_with(warning)) {
            Ok(())
        } else if message.starts_with("Unsupported") && !message.starts_with("Unsupported marker") {
            Err(DecodeFailure::Unsupported(message.into_owned()))
        } else {
            Err(DecodeFailure::broken(message))
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is not used afterwards.
        #[expect(unsafe_code, reason = "gives the handle back")]
        unsafe {
            raw::tj3Destroy(self.0);
        }
    }
}

/// What the segments of a file hold that the decoder does not report.
#[derive(Default)]
struct Markers<'a> {
    exif: Option<&'a [u8]>,
    xmp: Option<&'a [u8]>,
    scans: usize,
    /// Whether an end marker follows the first scan. The decoder fills what is missing with grey.
    ends: bool,
}

impl<'a> Markers<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut markers = Self::default();
        let mut at = 2;
        // Segments up to the first scan: 0xFF, kind, length of two bytes that counts itself.
        loop {
            match bytes.get(at..) {
                Some(rest @ [0xFF, 0xDA, ..]) => {
                    let count = |kind: u8| rest.windows(2).filter(|pair| *pair == [0xFF, kind]).count();
                    (markers.ends, markers.scans) = (count(0xD9) > 0, count(0xDA));
                    return markers;
                }
                Some([0xFF, 0x01 | 0xD0..=0xD8, ..]) => at += 2,
                Some([0xFF, kind @ 0x02..=0xFE, high, low, rest @ ..]) => {
                    let length = usize::from(u16::from_be_bytes([*high, *low]));
                    let data = rest.get(..length.saturating_sub(2)).unwrap_or_default();
                    if *kind == 0xE1 && data.starts_with(b"Exif\0\0") {
                        markers.exif = markers.exif.or(Some(data));
                    }
                    if *kind == 0xE1 && data.starts_with(b"http://ns.adobe.com/xap/1.0/\0") {
                        markers.xmp = markers.xmp.or(Some(data));
                    }
                    at += 2 + length;
                }
                // Bytes between segments are skipped, as decoders do.
                Some([_, _, ..]) => at += 1,
                _ => return markers,
            }
        }
    }
}
