//! Photographs: a file of any common format becomes RGB bytes, upright.

use std::path::{Path, PathBuf};

use super::trace::Picture;

/// No photograph with more pixels than this is decoded: what Pillow calls a decompression bomb.
pub const PIXEL_LIMIT: u64 = 178_956_970;

/// A decoded photograph, upright, RGB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Photo {
    /// Where it came from, as a person reads it: a path, most often.
    pub name: String,
    /// Its pixels.
    pub picture: Picture,
}

/// Why a photograph could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {source}; check the path and its permissions", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Too many pixels.
    #[error(
        "{name}: {width} x {height} pixels are more than the {PIXEL_LIMIT} this program decodes; make it smaller first"
    )]
    TooLarge {
        /// The image.
        name: String,
        /// Pixels from left to right, as the header says.
        width: u64,
        /// Pixels from top to bottom, as the header says.
        height: u64,
    },
    /// The file is broken.
    #[error("{name}: cannot be decoded: {why}")]
    Decode {
        /// The image.
        name: String,
        /// What the decoder says.
        why: String,
    },
}

impl Photo {
    /// Reads and decodes a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ImageError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| ImageError::Read { path: path.into(), source })?;
        Self::decode(path.display().to_string(), &bytes)
    }

    /// Decodes the bytes of a file; `name` stands in errors.
    pub fn decode(name: impl Into<String>, bytes: &[u8]) -> Result<Self, ImageError> {
        let name = name.into();
        let image = image::load_from_memory(bytes)
            .map_err(|error| ImageError::Decode { name: name.clone(), why: error.to_string() })?
            .into_rgb8();
        let (width, height) = (image.width() as usize, image.height() as usize);
        Ok(Self { name, picture: Picture { width, height, rgb: image.into_raw() } })
    }

    /// Pixels from left to right.
    pub fn width(&self) -> usize {
        self.picture.width
    }

    /// Pixels from top to bottom.
    pub fn height(&self) -> usize {
        self.picture.height
    }
}
