//! The geometry of preprocessing: the size an image is resized to, and the window that is cropped from it.

use super::{PreprocessError, Preprocessor};

/// Most pixels of a prepared picture; a backbone could not read more anyway.
pub(super) const PIXEL_LIMIT: u64 = 1 << 26;

/// A rectangle on an image, in pixels; the origin is the top-left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// The size an image is resized to.
#[expect(missing_docs, reason = "each variant says what its fields are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// To this size, whatever the aspect ratio.
    Exact { height: usize, width: usize },
    /// The shorter edge gets this length; the aspect ratio is kept.
    Shortest(usize),
    /// The shorter edge gets the length `shortest`, or less so that the longer one does not exceed `longest`.
    Between { shortest: usize, longest: usize },
    /// The largest size that fits into this; the aspect ratio is kept.
    Within { height: usize, width: usize },
}

/// The geometry of one image: resized to `to`, then cropped to `size` at `offset`, which is negative
/// where black is added. All are (horizontal, vertical) in pixels.
pub(super) struct CropGeometry {
    pub to: (usize, usize),
    pub size: (usize, usize),
    pub offset: (i64, i64),
}

impl CropGeometry {
    /// The geometry of an image of `width` x `height` pixels; an error, which mentions `name`, if the result would be empty or too
    /// large.
    pub fn new(
        preprocessor: &Preprocessor,
        name: &str,
        (width, height): (usize, usize),
    ) -> Result<Self, PreprocessError> {
        let (to_width, to_height) = match preprocessor.resize {
            None => (width as u64, height as u64),
            Some((size, _)) => size.resized(width as u64, height as u64),
        };
        let (out_width, out_height) =
            preprocessor.crop.map_or((to_width, to_height), |(height, width)| (width as u64, height as u64));
        let fits = |edge: u64| (1..1 << 40).contains(&edge);
        if width == 0
            || height == 0
            || !fits(to_width)
            || !fits(to_height)
            || out_width.saturating_mul(out_height) > PIXEL_LIMIT
        {
            let (name, to_width, to_height) = (name.to_owned(), out_width, out_height);
            return Err(PreprocessError::Shape { name, width, height, to_width, to_height });
        }
        let offset = |to: u64, out: u64| (to as i64 - out as i64).div_euclid(2);
        Ok(Self {
            to: (to_width as usize, to_height as usize),
            size: (
                preprocessor.cut_to_patches(1, out_width as usize),
                preprocessor.cut_to_patches(0, out_height as usize),
            ),
            offset: (offset(to_width, out_width), offset(to_height, out_height)),
        })
    }
}

impl Size {
    /// Width and height of the resized image, rounded as in transformers.
    fn resized(self, width: u64, height: u64) -> (u64, u64) {
        let (short, long) = (width.min(height), width.max(height));
        let ordered = |short, long| if width <= height { (short, long) } else { (long, short) };
        match self {
            Self::Exact { height, width } => (width as u64, height as u64),
            Self::Shortest(edge) => ordered(edge as u64, ((edge as u64 * long) as f64 / short as f64) as u64),
            Self::Between { shortest, longest } => {
                let (mut edge, mut raw) = (shortest as f64, shortest as f64);
                if long as f64 / short as f64 * edge > longest as f64 {
                    raw = longest as f64 * short as f64 / long as f64;
                    edge = raw.round_ties_even();
                }
                if short as f64 == edge {
                    return (width, height);
                }
                ordered(edge as u64, (raw * long as f64 / short as f64) as u64)
            }
            Self::Within { height: most_high, width: most_wide } => {
                let scale = (most_high as f64 / height as f64).min(most_wide as f64 / width as f64);
                ((width as f64 * scale) as u64, (height as f64 * scale) as u64)
            }
        }
    }

    /// Applies `edge` to every length.
    pub(super) fn map(self, edge: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Exact { height, width } => Self::Exact { height: edge(height), width: edge(width) },
            Self::Shortest(shortest) => Self::Shortest(edge(shortest)),
            Self::Between { shortest, longest } => {
                Self::Between { shortest: edge(shortest), longest: edge(longest) }
            }
            Self::Within { height, width } => Self::Within { height: edge(height), width: edge(width) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_whose_short_side_is_the_rounded_one_stays_as_it_is() {
        // As in transformers, although its long side is longer than allowed.
        let size = Size::Between { shortest: 800, longest: 2000 };
        assert_eq!(size.resized(100, 2001), (100, 2001));
    }
}
