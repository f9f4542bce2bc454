//! Preprocessing of images for a backbone: resize, crop, rescale, normalise, as its `preprocessor_config.json` says and
//! as transformers' Pillow processors do it: `x = (rescale_factor * pixel - mean) / std` for every pixel of the centre
//! crop of the resized image. The resized picture equals Pillow's to the bit.

pub mod augment;
pub mod config;
mod crop_geometry;
pub mod resample;

use std::path::PathBuf;

use crate::model::data::image::Photo;
use crate::model::picture::Picture;
use crop_geometry::CropGeometry;
pub use crop_geometry::{Rect, Size};
pub use resample::Filter;

/// The input of a backbone: normalised pixels of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
    /// `[3, H, W]` row-major: red, green and blue plane.
    pub values: Vec<f32>,
}

/// Why a photograph cannot be prepared.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum PreprocessError {
    #[error(
        "{folder} has no preprocessor_config.json, which says how images are resized and normalised; copy it \
         from the model's page on the Hub and put it next to config.json"
    )]
    Missing { folder: PathBuf },
    #[error("{path}: cannot be read: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{file}: is not a JSON object: {why}; copy the file from the model's page on the Hub again")]
    Json { file: String, why: String },
    #[error("{file}: `{field}` is {found}; expected {expected}")]
    Field { file: String, field: &'static str, found: String, expected: String },
    #[error("{pixels} pixels is not a valid image size for this backbone: {why}")]
    Size { pixels: usize, why: &'static str },
    #[error(
        "{name}: {width} x {height} pixels would become {to_width} x {to_height}, empty or too \
         large for any backbone; crop the image first"
    )]
    Shape { name: String, width: usize, height: usize, to_width: u64, to_height: u64 },
}

/// The preprocessing of one backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct Preprocessor {
    /// Target size and filter, if the image is resized.
    pub resize: Option<(Size, Filter)>,
    /// Height and width of the centre crop, if any. Beyond the picture it is black.
    pub crop: Option<(usize, usize)>,
    /// Height and width of a patch, if the backbone was trained on images that are no multiple of it (SigLIP: 384 pixels,
    /// patches of 14): the remainder at the right and at the bottom is cut off, as by the backbone.
    pub cut: Option<[usize; 2]>,
    /// The factor of a byte's value, if it is rescaled.
    pub rescale: Option<f64>,
    /// Mean and standard deviation of red, green and blue, if they are normalised.
    pub normalise: Option<([f64; 3], [f64; 3])>,
}

impl Preprocessor {
    /// The same preprocessing for another image size: the shorter edge of what the backbone reads
    /// becomes `pixels` long. Crop and resize keep their proportions (256 before a crop of 224 become
    /// 224 before a crop of 196).
    pub fn with_size(&self, pixels: usize) -> Result<Self, PreprocessError> {
        if pixels == 0 || (pixels as u64).saturating_pow(2) > crop_geometry::PIXEL_LIMIT {
            return Err(PreprocessError::Size { pixels, why: "choose 1 to 8192" });
        }
        let now = match (self.crop, self.resize) {
            (Some((height, width)), _) => height.min(width),
            (None, Some((Size::Exact { height, width } | Size::Within { height, width }, _))) => {
                height.min(width)
            }
            (None, Some((Size::Shortest(edge) | Size::Between { shortest: edge, .. }, _))) => edge,
            (None, None) => {
                let why = "its preprocessor_config.json neither resizes nor crops (`do_resize` is false)";
                return Err(PreprocessError::Size { pixels, why });
            }
        };
        let scaled = |edge: usize| ((edge as f64 * pixels as f64 / now as f64).round() as usize).max(1);
        Ok(Self {
            resize: self.resize.map(|(size, filter)| (size.map(scaled), filter)),
            crop: self.crop.map(|(height, width)| (scaled(height), scaled(width))),
            ..self.clone()
        })
    }

    /// Height and width of the prepared image, if they are the same for every image.
    pub fn output(&self) -> Option<(usize, usize)> {
        let (height, width) = match (self.crop, self.resize) {
            (Some(crop), _) => crop,
            (None, Some((Size::Exact { height, width }, _))) => (height, width),
            _ => return None,
        };
        Some((self.cut_to_patches(0, height), self.cut_to_patches(1, width)))
    }

    /// `pixels` along an axis (0: height, 1: width) less the remainder of a patch, if [`cut`](Self::cut) is set; unchanged if
    /// less than one patch.
    fn cut_to_patches(&self, axis: usize, pixels: usize) -> usize {
        match self.cut {
            Some(patch) if pixels >= patch[axis] => pixels - pixels % patch[axis],
            _ => pixels,
        }
    }

    /// All settings in one line, for the keys of caches: equal lines mean equal pixels.
    pub fn key(&self) -> String {
        let resize = match self.resize {
            None => "none".into(),
            Some((size, filter)) => {
                let size = match size {
                    Size::Exact { height, width } => format!("{height}x{width}"),
                    Size::Shortest(edge) => format!("shortest {edge}"),
                    Size::Between { shortest, longest } => format!("shortest {shortest} longest {longest}"),
                    Size::Within { height, width } => format!("within {height}x{width}"),
                };
                format!("{size} {}", filter.name())
            }
        };
        let crop = self.crop.map_or("none".into(), |(height, width)| format!("{height}x{width}"));
        let rescale = self.rescale.map_or("none".into(), |factor| format!("{factor:?}"));
        let normalise = self.normalise.map_or("none".into(), |(mean, std)| format!("{mean:?} {std:?}"));
        let cut = self.cut.map_or(String::new(), |[height, width]| format!("; cut {height}x{width}"));
        format!("1; resize {resize}; crop {crop}; rescale {rescale}; normalise {normalise}{cut}")
    }

    /// Prepares an image: resizes, crops, rescales and normalises it.
    pub fn apply(&self, photo: &Photo) -> Result<Pixels, PreprocessError> {
        Ok(self.pixels(&self.picture(photo)?))
    }

    /// Rescales and normalises a picture that is already resized and cropped.
    pub fn pixels(&self, picture: &Picture) -> Pixels {
        let plane = picture.width * picture.height;
        let mut values = vec![0.0; plane * 3]; // [3, H, W]
        for (c, to) in values.chunks_exact_mut(plane).enumerate() {
            let table: Vec<f32> = (0..=255u8).map(|byte| self.value(byte, c)).collect();
            for (to, pixel) in to.iter_mut().zip(picture.rgb.chunks_exact(3)) {
                *to = table[usize::from(pixel[c])];
            }
        }
        Pixels { height: picture.height, width: picture.width, values }
    }

    /// The resized and cropped image, not normalised.
    pub fn picture(&self, photo: &Photo) -> Result<Picture, PreprocessError> {
        let at = CropGeometry::new(self, &photo.name, (photo.width(), photo.height()))?;
        let filter = self.resize.map_or(Filter::Nearest, |(_, filter)| filter);
        // The part of the crop that lies on the resized picture, in the latter's pixels.
        let part = |offset: i64, size: usize, to: usize| {
            offset.max(0) as usize..((offset + size as i64).max(0) as usize).min(to)
        };
        let (cols, rows) = (part(at.offset.0, at.size.0, at.to.0), part(at.offset.1, at.size.1, at.to.1));
        let seen = resample::resize(&photo.picture, at.to, cols.clone(), rows.clone(), filter);
        if (seen.width, seen.height) == at.size {
            return Ok(seen);
        }
        let (left, top) =
            ((cols.start as i64 - at.offset.0) as usize, (rows.start as i64 - at.offset.1) as usize);
        let mut rgb = vec![0; at.size.0 * at.size.1 * 3];
        for (y, line) in seen.rgb.chunks_exact(seen.width * 3).enumerate() {
            let to = ((top + y) * at.size.0 + left) * 3;
            rgb[to..to + line.len()].copy_from_slice(line);
        }
        Ok(Picture { width: at.size.0, height: at.size.1, rgb })
    }

    /// Inverts rescaling and normalisation: exactly the resized and cropped picture of these pixels.
    pub fn seen(&self, pixels: &Pixels) -> Picture {
        let plane = pixels.width * pixels.height;
        let byte = |value: f32, c: usize| {
            let mut x = f64::from(value);
            if let Some((mean, std)) = self.normalise {
                x = x * f64::from(std[c] as f32) + f64::from(mean[c] as f32);
            }
            (x / self.rescale.unwrap_or(1.0)).round().clamp(0.0, 255.0) as u8
        };
        let rgb = (0..plane * 3).map(|i| byte(pixels.values[(i % 3) * plane + i / 3], i % 3)).collect();
        Picture { width: pixels.width, height: pixels.height, rgb }
    }

    /// The rectangle `on` of an image of `size` = (width, height), mapped to the prepared picture, in the latter's pixels; and the
    /// prepared picture's width and height. Errors mention `name`.
    pub fn prepared_rect(
        &self,
        name: &str,
        size: (usize, usize),
        on: Rect,
    ) -> Result<(Rect, (usize, usize)), PreprocessError> {
        let at = CropGeometry::new(self, name, size)?;
        let (x, y) = (at.to.0 as f64 / size.0 as f64, at.to.1 as f64 / size.1 as f64);
        let rect = Rect {
            x: on.x * x - at.offset.0 as f64,
            y: on.y * y - at.offset.1 as f64,
            width: on.width * x,
            height: on.height * y,
        };
        Ok((rect, at.size))
    }

    /// The normalised value of a byte in channel `c`. The product is rounded to f32 before the mean is
    /// subtracted, as in transformers.
    fn value(&self, byte: u8, c: usize) -> f32 {
        let x = (f64::from(byte) * self.rescale.unwrap_or(1.0)) as f32;
        self.normalise.map_or(x, |(mean, std)| (x - mean[c] as f32) / std[c] as f32)
    }
}
