//! Decoding of image files to upright RGB bytes, as Pillow's `ImageOps.exif_transpose(Image.open(path)).convert("RGB")`
//! does it: alpha is dropped, palettes are looked up, 16 bits truncated to the upper 8, CMYK and YCCK converted without a
//! colour profile. One difference: of 16-bit grey Pillow keeps the lower byte, saturated, which turns almost any picture
//! white; here it is truncated like colour.
//!
//! JPEG, PNG, WebP, BMP, TIFF (first page), GIF (first frame), detected by content, not by the file's name. All equal Pillow
//! to the bit except lossy WebP, CMYK of 16 bits and BMP of 16 bits per pixel, which differ by up to 3 grey levels.

mod gif;
mod jpeg;
mod tiff;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use crate::model::io::atomic_file;
use crate::model::io::catch_panic::catch_foreign;
use crate::model::picture::Picture;

/// Most pixels of an image that is decoded: the limit beyond which Pillow reports a decompression bomb.
pub const PIXEL_LIMIT: u64 = 178_956_970;
/// Largest file read, in bytes.
const FILE_LIMIT: u64 = 1 << 30;
/// Largest buffer of a decoder, in bytes: 16-bit RGBA at the pixel limit.
const BYTE_LIMIT: u64 = PIXEL_LIMIT * 8;

/// The formats that are read, for display.
pub const FORMAT_NAMES: &str = "JPEG, PNG, WebP, BMP, TIFF or GIF";

/// A decoded photograph, upright, RGB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Photo {
    /// Where it came from, for display: usually a path.
    pub name: String,
    /// Its pixels.
    pub picture: Picture,
}

/// Why a photograph could not be opened.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("{path}: cannot be read: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: is {found}; expected an image file")]
    NoFile { path: PathBuf, found: &'static str },
    #[error("{path}: {bytes} bytes are more than the limit of {FILE_LIMIT} for an image file")]
    TooLong { path: PathBuf, bytes: u64 },
    #[error("{name}: cannot be read: {why}")]
    Row { name: String, why: String },
    #[error("{name}: is {found}; expected a {FORMAT_NAMES} image (convert it first)")]
    Format { name: String, found: String },
    #[error(
        "{name}: {width} x {height} pixels are more than the limit of {PIXEL_LIMIT}; downscale the image first"
    )]
    TooLarge { name: String, width: u64, height: u64 },
    #[error(
        "{name}: {format} images of this kind are not read: {why}; convert it to grey or RGB of 8 bits per channel first"
    )]
    Unsupported { name: String, format: &'static str, why: String },
    #[error("{name}: cannot be decoded as {format}: {why}; download the file again or save it as PNG")]
    Decode { name: String, format: &'static str, why: String },
}

/// Why a decoder failed; [`Photo::decode`] adds the file's name.
enum DecodeFailure {
    TooLarge(u64, u64),
    /// The file may be whole, but this kind of it is not read.
    Unsupported(String),
    Broken(String),
}

impl DecodeFailure {
    fn broken(error: impl std::fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<image::ImageError> for DecodeFailure {
    fn from(error: image::ImageError) -> Self {
        match error {
            image::ImageError::Unsupported(why) => Self::Unsupported(why.to_string()),
            error => Self::broken(error),
        }
    }
}

impl Photo {
    /// Reads and decodes a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = path.as_ref();
        Self::decode(path.display().to_string(), &read(path)?)
    }

    /// Decodes the bytes of a file; errors mention `name`.
    pub fn decode(name: impl Into<String>, bytes: &[u8]) -> Result<Self, ImageError> {
        let name = name.into();
        let Some((kind, format)) = format_of(bytes) else {
            return Err(ImageError::Format { name, found: describe(bytes) });
        };
        // A decoder's panic on damaged data is reported as an error.
        let decoded = catch_foreign(|| decode(kind, bytes))
            .unwrap_or_else(|panic| Err(DecodeFailure::Broken(format!("the decoder failed: {panic}"))));
        match decoded {
            Ok(image) => {
                let (width, height) = (image.width() as usize, image.height() as usize);
                Ok(Self { name, picture: Picture { width, height, rgb: image.into_raw() } })
            }
            Err(DecodeFailure::TooLarge(width, height)) => Err(ImageError::TooLarge { name, width, height }),
            Err(DecodeFailure::Unsupported(why)) => Err(ImageError::Unsupported { name, format, why }),
            Err(DecodeFailure::Broken(why)) => Err(ImageError::Decode { name, format, why }),
        }
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.picture.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.picture.height
    }
}

/// Width and height of the upright image in a file: a JPEG's from its header, others by decoding the file.
pub fn dimensions(path: &Path) -> Result<(usize, usize), ImageError> {
    let bytes = read(path)?;
    if let Some((ImageFormat::Jpeg, _)) = format_of(&bytes)
        && let Ok(Ok(size)) = catch_foreign(|| jpeg::dimensions(&bytes))
    {
        return Ok(size);
    }
    let photo = Photo::decode(path.display().to_string(), &bytes)?;
    Ok((photo.width(), photo.height()))
}

/// The brightest value of an image of 16 bits per channel, alpha aside; `None` for any other, and one that cannot be decoded.
pub(super) fn brightest_of_16_bits(bytes: &[u8]) -> Option<u16> {
    use image::ColorType::{L16, La16, Rgb16, Rgba16};
    let read = || {
        let decoder = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?.into_decoder().ok()?;
        let (width, height) = decoder.dimensions();
        let is_deep = matches!(decoder.color_type(), L16 | La16 | Rgb16 | Rgba16);
        if !is_deep || check_size(width.into(), height.into()).is_err() {
            return None;
        }
        DynamicImage::from_decoder(decoder).ok()?.into_rgb16().into_raw().into_iter().max()
    };
    catch_foreign(read).ok().flatten()
}

const FORMATS: &[(ImageFormat, &str)] = &[
    (ImageFormat::Jpeg, "JPEG"),
    (ImageFormat::Png, "PNG"),
    (ImageFormat::WebP, "WebP"),
    (ImageFormat::Bmp, "BMP"),
    (ImageFormat::Tiff, "TIFF"),
    (ImageFormat::Gif, "GIF"),
];

/// File extensions of the formats that are read.
pub const ENDINGS: &[&str] = &["bmp", "gif", "jfif", "jpe", "jpeg", "jpg", "png", "tif", "tiff", "webp"];

/// Whether a file's extension is one of [`ENDINGS`], ignoring case.
pub fn is_named_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// Whether `start`, the first bytes of a file (16 suffice), is the signature of a known format.
pub fn looks_like_image(start: &[u8]) -> bool {
    format_of(start).is_some()
}

/// The one of [`FORMATS`] that a file is of, by its first bytes.
fn format_of(bytes: &[u8]) -> Option<(ImageFormat, &'static str)> {
    let format = match bytes {
        [b'I', b'I', b'+', 0, ..] | [b'M', b'M', 0, b'+', ..] => ImageFormat::Tiff, // BigTIFF, which `guess_format` does not know
        _ => image::guess_format(bytes).ok()?,
    };
    FORMATS.iter().copied().find(|(known, _)| *known == format)
}

pub(in crate::model) fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let failed = |source| ImageError::Read { path: path.into(), source };
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        let found = if about.is_dir() { "a folder" } else { "not a regular file" };
        return Err(ImageError::NoFile { path: path.into(), found });
    }
    atomic_file::read(path, FILE_LIMIT).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => ImageError::TooLong { path: path.into(), bytes: about.len() },
        _ => failed(error),
    })
}

fn check_size(width: u64, height: u64) -> Result<(), DecodeFailure> {
    match width.checked_mul(height) {
        Some(0) => Err(DecodeFailure::Broken(format!("it has {width} x {height} pixels"))),
        Some(pixels) if pixels <= PIXEL_LIMIT => Ok(()),
        _ => Err(DecodeFailure::TooLarge(width, height)),
    }
}

fn decode(format: ImageFormat, bytes: &[u8]) -> Result<RgbImage, DecodeFailure> {
    if format == ImageFormat::Jpeg {
        return jpeg::decode(bytes);
    }
    if format == ImageFormat::Gif {
        return gif::decode(bytes);
    }
    if format == ImageFormat::Tiff
        && let Some(image) = tiff::decode(bytes)?
    {
        return Ok(image);
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(BYTE_LIMIT);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    check_size(width.into(), height.into())?;
    let orientation = match format {
        ImageFormat::Tiff => decoder.orientation().unwrap_or(Orientation::NoTransforms),
        _ => orientation_of(&mut decoder),
    };
    let image = to_rgb(DynamicImage::from_decoder(decoder)?)?;
    Ok(upright(image, orientation))
}

/// An image of `width` x `height` x 3 bytes; fails if there are fewer.
fn rgb_image(width: u32, height: u32, rgb: Vec<u8>) -> Result<RgbImage, DecodeFailure> {
    RgbImage::from_raw(width, height, rgb)
        .ok_or_else(|| DecodeFailure::Broken("its pixels are incomplete".into()))
}

fn upright(image: RgbImage, orientation: Orientation) -> RgbImage {
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(orientation);
    image.into_rgb8()
}

/// Converts to RGB with 8 bits per channel, without alpha. 16 bits are truncated, not rounded, as Pillow does.
fn to_rgb(image: DynamicImage) -> Result<RgbImage, DecodeFailure> {
    let (width, height) = (image.width(), image.height());
    let truncated = |raw: Vec<u16>, channels: usize| {
        let colour = |p: &[u16]| if channels < 3 { [p[0]; 3] } else { [p[0], p[1], p[2]] };
        let rgb = raw.chunks_exact(channels).flat_map(|p| colour(p).map(|v| (v >> 8) as u8)).collect();
        rgb_image(width, height, rgb)
    };
    match image {
        DynamicImage::ImageLuma16(image) => truncated(image.into_raw(), 1),
        DynamicImage::ImageLumaA16(image) => truncated(image.into_raw(), 2),
        DynamicImage::ImageRgb16(image) => truncated(image.into_raw(), 3),
        DynamicImage::ImageRgba16(image) => truncated(image.into_raw(), 4),
        image => Ok(image.into_rgb8()),
    }
}

/// The transform that turns the image of a decoder upright. A broken EXIF block is ignored, as by Pillow.
pub(in crate::model) fn orientation_of(decoder: &mut impl ImageDecoder) -> Orientation {
    let exif = decoder.exif_metadata().ok().flatten();
    let xmp = decoder.xmp_metadata().ok().flatten();
    orientation(exif.as_deref(), xmp.as_deref())
}

/// The transform that turns the image upright: EXIF's orientation, or else XMP's.
fn orientation(exif: Option<&[u8]>, xmp: Option<&[u8]>) -> Orientation {
    let exif = exif.map(|exif| exif.strip_prefix(b"Exif\0\0").unwrap_or(exif));
    let from_xmp = || {
        let key = b"tiff:Orientation";
        let xmp = xmp?;
        let at = xmp.windows(key.len()).position(|window| window == key)? + key.len();
        let digit = match xmp.get(at..)? {
            [b'=', b'"', digit, ..] | [b'>', digit, ..] => digit.wrapping_sub(b'0'),
            _ => return None,
        };
        Orientation::from_exif(digit)
    };
    exif.and_then(Orientation::from_exif_chunk).or_else(from_xmp).unwrap_or(Orientation::NoTransforms)
}

/// `a * b / 255`, rounded.
fn product(a: u8, b: u8) -> u8 {
    let t = u32::from(a) * u32::from(b) + 128;
    (((t >> 8) + t) >> 8) as u8
}

/// The first bytes of formats that are not read, and what such a file is.
const OTHERS: &[(&[u8], &str)] = &[
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1F\x8B", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
    (b"8BPS", "a Photoshop document"),
    (b"\xFF\x0A", "a JPEG XL image"),
    (b"\0\0\0\x0CJXL ", "a JPEG XL image"),
    (b"\0\0\0\x0CjP  ", "a JPEG 2000 image"),
    (b"\xFF\x4F\xFF\x51", "a JPEG 2000 image"),
    (b"\x76\x2F\x31\x01", "an OpenEXR image"),
    (b"#?RADIANCE", "a Radiance HDR image"),
    (b"qoif", "a QOI image"),
    (b"\x89HDF", "an HDF5 file"),
    (b"CDF", "a NetCDF file"),
    (b"SIMPLE  =", "a FITS file"),
    (b"\x93NUMPY", "a NumPy array"),
];

/// Describes for an error message what bytes of no known image format seem to be.
fn describe(bytes: &[u8]) -> String {
    let brand = bytes.get(4..12).unwrap_or_default();
    // A character may be cut at the end.
    let start = bytes[..bytes.len().min(64)].utf8_chunks().next();
    let text = start.filter(|c| c.invalid().is_empty() || c.valid().len() > 32).map(|c| c.valid());
    let known = OTHERS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what);
    match (known, brand) {
        _ if bytes.is_empty() => "an empty file".into(),
        (Some(what), _) => what.into(),
        _ if bytes.get(128..132) == Some(b"DICM") => "a DICOM file".into(),
        (_, b"ftypavif" | b"ftypavis") => "an AVIF image".into(),
        (_, [b'f', b't', b'y', b'p', b'h', b'e', ..] | b"ftypmif1" | b"ftypmsf1") => "a HEIC image".into(),
        (_, b"ftypcrx ") => "a raw photograph".into(),
        (_, [b'f', b't', b'y', b'p', ..]) => "a video".into(),
        _ => match text {
            Some(text) if text.chars().all(|c| !c.is_control() || c.is_whitespace()) => {
                format!("text ({:?}…)", text.chars().take(24).collect::<String>())
            }
            _ => format!("of an unknown format (it starts with bytes {:02x?})", &bytes[..bytes.len().min(8)]),
        },
    }
}
