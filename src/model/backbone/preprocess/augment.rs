//! Augmentation of training images: a random shift or a random resized crop, and a horizontal flip with probability 1/2. The
//! random numbers depend on (seed, epoch, image) alone, so that a step can be repeated without those before it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Filter;
use super::resample::resize;
use crate::model::picture::Picture;

listed! {
    /// How a training image is augmented.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Augmentation {
        /// Not at all.
        #[default]
        None: "none";
        /// A shift by up to an eighth of each side with reflected edges, and a horizontal flip with probability 1/2 (He et al. 2016
        /// on CIFAR-10).
        Shift: "shift";
        /// A random crop ([`RandomCrop`]), resized bicubically, and a horizontal flip with probability 1/2 (Szegedy et al. 2015).
        Crop: "crop";
    }
}

impl Augmentation {
    /// Whether it is [`None`](Self::None).
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// An augmented view of `picture`, `width` x `height` pixels; `whole` prepares the uncropped picture at this size.
    ///
    /// # Errors
    /// Those of `whole`.
    pub fn apply<E>(
        self,
        picture: &Picture,
        (width, height): (usize, usize),
        crop: RandomCrop,
        whole: impl FnOnce() -> Result<Picture, E>,
        rng: &mut impl Rng,
    ) -> Result<Picture, E> {
        let seen = match self {
            Self::None => return whole(),
            Self::Shift => {
                let [right, down] = [width, height].map(|side| {
                    let reach = (side / 8) as i64;
                    rng.random_range(-reach..=reach)
                });
                shifted(&whole()?, right, down)
            }
            Self::Crop => {
                let [left, top, w, h] = crop.draw((picture.width, picture.height), rng);
                let part = remapped(picture, (w, h), |x, y| (left + x, top + y));
                resize(&part, (width, height), 0..width, 0..height, Filter::Bicubic)
            }
        };
        Ok(if rng.random_bool(0.5) { mirrored(&seen) } else { seen })
    }
}

impl Display for Augmentation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Augmentation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::find(text).ok_or("expected none, shift or crop")
    }
}

/// A random crop: its fraction of the picture's area is uniform from `smallest` to 1, the logarithm of its aspect ratio (width to
/// height) uniform from that of 3:4 to that of 4:3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomCrop {
    /// The smallest fraction of the area.
    pub smallest: f64,
    /// Whether a crop that is too wide or too high is clipped, as in BYOL (Grill et al. 2020). Otherwise up to ten are drawn, as in
    /// torchvision's `RandomResizedCrop`, which falls back to the largest centred crop within the range of aspect ratios.
    pub clipped: bool,
}

/// The smallest and the largest aspect ratio, width to height.
const ASPECT_RATIOS: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0];

impl RandomCrop {
    /// Draws a crop of a picture of `width` x `height` pixels: left edge, top edge, width and height.
    fn draw(self, (width, height): (usize, usize), rng: &mut impl Rng) -> [usize; 4] {
        let pixels = |x: f64| x.round_ties_even() as usize;
        for _ in 0..if self.clipped { 1 } else { 10 } {
            let area = width as f64 * height as f64 * rng.random_range(self.smallest..1.0);
            let ratio = rng.random_range(ASPECT_RATIOS[0].ln()..ASPECT_RATIOS[1].ln()).exp();
            let (mut w, mut h) = (pixels((area * ratio).sqrt()), pixels((area / ratio).sqrt()));
            if self.clipped {
                (w, h) = (w.clamp(1, width), h.clamp(1, height));
            }
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                return [rng.random_range(0..=width - w), rng.random_range(0..=height - h), w, h];
            }
        }
        let w = width.min(pixels(height as f64 * ASPECT_RATIOS[1]));
        let h = height.min(pixels(width as f64 / ASPECT_RATIOS[0]));
        [(width - w) / 2, (height - h) / 2, w, h]
    }
}

/// The random numbers of `part` of an epoch: part 0 is for the epoch's order, the others for its pictures. The parts' positions in
/// the generator's stream are 2^32 words apart, so that they do not overlap.
pub fn draws(seed: u64, epoch: usize, part: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7069_6374_7572_6573);
    rng.set_stream(epoch as u64);
    rng.set_word_pos((part as u128) << 32);
    rng
}

/// The picture whose pixel (x, y) is the pixel `from(x, y)` of another.
fn remapped(
    picture: &Picture,
    (width, height): (usize, usize),
    from: impl Fn(usize, usize) -> (usize, usize),
) -> Picture {
    let pixel = |i: usize| {
        let (x, y) = from(i % width, i / width);
        let at = (y * picture.width + x) * 3;
        [picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]]
    };
    Picture { width, height, rgb: (0..width * height).flat_map(pixel).collect() }
}

/// Shifts a picture; pixels from beyond an edge are reflected.
fn shifted(picture: &Picture, right: i64, down: i64) -> Picture {
    let reflected = |at: i64, size: usize| {
        let last = size as i64 - 1;
        (last - (last - at.abs()).abs()) as usize
    };
    let (width, height) = (picture.width, picture.height);
    remapped(picture, (width, height), |x, y| {
        (reflected(x as i64 + right, width), reflected(y as i64 + down, height))
    })
}

/// Flips a picture horizontally.
fn mirrored(picture: &Picture) -> Picture {
    remapped(picture, (picture.width, picture.height), |x, y| (picture.width - 1 - x, y))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rand::RngCore;

    use super::*;
    use crate::model::io::sha256;

    const CROP: RandomCrop = RandomCrop { smallest: 0.2, clipped: false };

    /// A crop of the reference: the random numbers, the part that they draw, and the digest of its pixels.
    #[derive(Debug, Deserialize)]
    struct Case {
        size: (usize, usize),
        to: (usize, usize),
        smallest: f64,
        clipped: bool,
        words: Vec<u64>,
        part: [usize; 4],
        sha256: String,
    }

    /// A picture whose pixel (x, y) is (x, y, 0).
    fn picture(width: usize, height: usize) -> Picture {
        let rgb = (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 0]).collect();
        Picture { width, height, rgb }
    }

    /// A generator that returns given numbers.
    struct Words(Vec<u64>);

    impl RngCore for Words {
        fn next_u32(&mut self) -> u32 {
            self.next_u64() as u32
        }

        fn next_u64(&mut self) -> u64 {
            self.0.remove(0)
        }

        fn fill_bytes(&mut self, _: &mut [u8]) {
            unreachable!("only whole numbers are drawn")
        }
    }

    /// Against `tests/reference/augment.py`: the same numbers give the same part and, after Pillow's resizing, the same pixels.
    #[test]
    fn crops_by_the_same_random_numbers_are_those_of_the_reference() {
        let cases = include_str!("../../../../tests/fixtures/augment/crops.json");
        let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
        for case in &cases {
            let &Case { size: (width, height), to, smallest, clipped, part, .. } = case;
            let crop = RandomCrop { smallest, clipped };
            let mut rng = Words(case.words.clone());
            assert_eq!(crop.draw((width, height), &mut rng), part, "{case:?}");
            assert_eq!(rng.0.len(), 1, "all numbers but the mirror's: {case:?}");
            let rgb = (0..width * height * 3).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect();
            let whole = Picture { width, height, rgb };
            let unused = || -> Result<Picture, Infallible> { unreachable!("a part is read") };
            let mut rng = Words(case.words.clone());
            let Ok(seen) = Augmentation::Crop.apply(&whole, to, crop, unused, &mut rng);
            assert_eq!((seen.width, seen.height), to);
            assert_eq!(sha256::of_bytes(&seen.rgb), case.sha256, "{case:?}");
        }
        let fallbacks = cases.iter().filter(|case| case.words.len() == 21).count();
        assert!(cases.len() > 30 && fallbacks > 2, "{fallbacks} of {} without a part that fits", cases.len());
    }

    #[test]
    fn a_picture_that_is_moved_mirrors_its_edge() {
        let moved = shifted(&picture(5, 4), -2, 1);
        let row = |y: usize| moved.rgb[y * 15..][..15].chunks(3).map(|p| (p[0], p[1])).collect::<Vec<_>>();
        assert_eq!(row(0), [(2, 1), (1, 1), (0, 1), (1, 1), (2, 1)]);
        assert_eq!(row(3), [(2, 2), (1, 2), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(mirrored(&mirrored(&moved)), moved);
        assert_eq!(mirrored(&picture(3, 1)).rgb, [2, 0, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_drawn_depends_on_seed_epoch_and_picture_alone_and_every_picture_gets_its_size() {
        for augmentation in Augmentation::ALL {
            let see = |seed, epoch, image| {
                let whole = || {
                    Ok::<_, Infallible>(resize(&picture(40, 25), (16, 12), 0..16, 0..12, Filter::Bilinear))
                };
                let mut rng = draws(seed, epoch, image);
                let Ok(seen) = augmentation.apply(&picture(40, 25), (16, 12), CROP, whole, &mut rng);
                assert_eq!((seen.width, seen.height, seen.rgb.len()), (16, 12, 576));
                seen
            };
            for [seed, epoch] in [[1, 1], [2, 0]] {
                let changes =
                    (0..20).filter(|&image| see(1, 0, image) != see(seed, epoch as usize, image)).count();
                assert_eq!(changes > 15, !augmentation.is_none(), "{augmentation}: {changes}");
            }
            assert_eq!(see(1, 3, 7), see(1, 3, 7));
        }
    }

    #[test]
    fn a_crop_keeps_its_share_at_least_and_its_shape_and_lies_anywhere() {
        let mut corners = [[false; 2]; 2];
        for image in 0..400 {
            let [left, top, w, h] = CROP.draw((64, 48), &mut draws(1, 0, image));
            let (share, shape) = ((w * h) as f64 / (64.0 * 48.0), w as f64 / h as f64);
            assert!((0.18..=1.0).contains(&share) && (0.7..1.43).contains(&shape), "{share} {shape}");
            corners[usize::from(left == 0)][usize::from(left + w == 64)] = true;
            assert!(left + w <= 64 && top + h <= 48);
        }
        assert!(corners[0][1], "none at the right edge");
        assert!(corners[1][0] && corners[0][0], "none at the left edge, or none between");
    }
}
