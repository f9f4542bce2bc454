//! Pictures of a dataset to pre-train on: every epoch in an order of its own, every picture cut and mirrored anew. All of it
//! is drawn from (seed, epoch, picture) alone, so a step can be made again without those before it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Batch, Plan};
use crate::model::backbone::preprocess::{Filter, resample};
use crate::model::data::Sample;
use crate::model::data::image::ImageError;
use crate::model::trace::Picture;

/// How a picture is changed every time it is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Augmentation {
    /// Not at all: it is resized, as the backbone will read it.
    None,
    /// Resized, moved by up to an eighth of its side with what lies at the edge mirrored, and mirrored half the time
    /// (He et al. 2016 on CIFAR-10).
    #[default]
    Shift,
    /// A part of a fifth to all of its area, of a shape from 3:4 to 4:3, resized, and mirrored half the time
    /// (Szegedy et al. 2015; He et al. 2022).
    Crop,
}

impl Augmentation {
    const ALL: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Shift, "shift"), (Self::Crop, "crop")];
}

impl Display for Augmentation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(one, _)| one == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Augmentation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(one, _)| *one).ok_or("expected none, shift or crop")
    }
}

/// How many pictures are tried for one of a step, before it goes without.
const TRIES: usize = 16;

/// The pictures of a pre-training.
pub struct Photographs<'a> {
    samples: Vec<&'a Sample>,
    augmentation: Augmentation,
}

impl<'a> Photographs<'a> {
    /// These, one at least.
    pub fn new(samples: Vec<&'a Sample>, augmentation: Augmentation) -> Self {
        Self { samples, augmentation }
    }

    /// Steps of an epoch; the last takes what is left.
    pub fn steps(images: usize, batch: usize) -> usize {
        images.div_ceil(batch)
    }

    /// What is seen at a step, from 0, and which pictures cannot be read. In the place of such a one stands the next of
    /// the epoch that can be.
    pub fn batch(&self, plan: &Plan, step: usize) -> (Batch, Vec<ImageError>) {
        let count = self.samples.len();
        let steps = Self::steps(count, plan.batch);
        let (epoch, within) = (step / steps, step % steps);
        let mut order: Vec<usize> = (0..count).collect();
        order.shuffle(&mut draw(plan.seed, epoch, 0));
        let seen = |place: usize| {
            let mut unreadable = Vec::new();
            for place in place..place + TRIES.min(count) {
                let image = order[place % count];
                let sample = self.samples[image];
                match sample.source.photo() {
                    Ok(photo) => {
                        let mut rng = draw(plan.seed, epoch, 1 + image);
                        let seen = self.augmentation.apply(&photo.picture, plan.recipe.side, &mut rng);
                        return (Some((seen, sample.class)), unreadable);
                    }
                    Err(error) => unreadable.push(error),
                }
            }
            (None, unreadable)
        };
        let places = within * plan.batch..count.min((within + 1) * plan.batch);
        let seen: Vec<_> = places.into_par_iter().map(seen).collect();
        let (pictures, unreadable): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
        let pictures: Vec<(Picture, usize)> = pictures.into_iter().flatten().collect();
        (Batch::from_pictures(plan, &pictures), unreadable.into_iter().flatten().collect())
    }
}

/// The numbers of an epoch's `part`: its order, or one of its pictures. Parts lie so far apart that none reaches the next.
fn draw(seed: u64, epoch: usize, part: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7069_6374_7572_6573);
    rng.set_stream(epoch as u64);
    rng.set_word_pos((part as u128) << 32);
    rng
}

impl Augmentation {
    /// A picture of `side` pixels each way, as it is seen this time.
    fn apply(self, picture: &Picture, side: usize, rng: &mut ChaCha8Rng) -> Picture {
        let whole =
            |picture: &Picture, filter| resample::resize(picture, (side, side), 0..side, 0..side, filter);
        let seen = match self {
            Self::None => return whole(picture, Filter::Bilinear),
            Self::Shift => {
                let reach = (side / 8) as i64;
                let [right, down] = [0, 1].map(|_| rng.random_range(-reach..=reach));
                shifted(&whole(picture, Filter::Bilinear), right, down)
            }
            Self::Crop => whole(&part(picture, rng), Filter::Bicubic),
        };
        if rng.random_bool(0.5) { mirrored(&seen) } else { seen }
    }
}

/// The picture whose pixel (x, y) is that at `from(x, y)` of another.
fn taken(
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

/// Moved; what comes in at an edge is what lies at it, mirrored.
fn shifted(picture: &Picture, right: i64, down: i64) -> Picture {
    let within = |at: i64, size: usize| {
        let last = size as i64 - 1;
        (last - (last - at.abs()).abs()) as usize
    };
    let (width, height) = (picture.width, picture.height);
    taken(picture, (width, height), |x, y| (within(x as i64 + right, width), within(y as i64 + down, height)))
}

/// Left for right.
fn mirrored(picture: &Picture) -> Picture {
    taken(picture, (picture.width, picture.height), |x, y| (picture.width - 1 - x, y))
}

/// A part of a picture, as torchvision's `RandomResizedCrop` draws it; the whole of one that is too long for it.
fn part(picture: &Picture, rng: &mut ChaCha8Rng) -> Picture {
    let (width, height) = (picture.width as f64, picture.height as f64);
    for _ in 0..10 {
        let area = width * height * rng.random_range(0.2..1.0);
        let shape = rng.random_range((3.0_f64 / 4.0).ln()..(4.0_f64 / 3.0).ln()).exp();
        let (w, h) = ((area * shape).sqrt().round() as usize, (area / shape).sqrt().round() as usize);
        if (1..=picture.width).contains(&w) && (1..=picture.height).contains(&h) {
            let (left, top) =
                (rng.random_range(0..=picture.width - w), rng.random_range(0..=picture.height - h));
            return taken(picture, (w, h), |x, y| (left + x, top + y));
        }
    }
    picture.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture whose pixel (x, y) is (x, y, 0).
    fn picture(width: usize, height: usize) -> Picture {
        let rgb = (0..width * height).flat_map(|i| [(i % width) as u8, (i / width) as u8, 0]).collect();
        Picture { width, height, rgb }
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
        for augmentation in [Augmentation::None, Augmentation::Shift, Augmentation::Crop] {
            let see = |epoch, image| {
                let seen = augmentation.apply(&picture(40, 25), 16, &mut draw(1, epoch, image));
                assert_eq!((seen.width, seen.height, seen.rgb.len()), (16, 16, 768));
                seen
            };
            let changes = (0..20).filter(|&image| see(0, image) != see(1, image)).count();
            assert_eq!(changes > 15, augmentation != Augmentation::None, "{augmentation}: {changes}");
            assert_eq!(see(3, 7), see(3, 7));
        }
    }

    #[test]
    fn a_crop_keeps_a_fifth_at_least_and_its_shape() {
        let whole = picture(64, 48);
        for image in 0..200 {
            let cut = part(&whole, &mut draw(1, 0, image));
            let share = (cut.width * cut.height) as f64 / (64.0 * 48.0);
            let shape = cut.width as f64 / cut.height as f64;
            assert!((0.18..=1.0).contains(&share) && (0.7..1.43).contains(&shape), "{share} {shape}");
            let [x, y] = [cut.rgb[0], cut.rgb[1]].map(usize::from);
            assert_eq!(
                *cut.rgb.last_chunk::<3>().unwrap(),
                [(x + cut.width - 1) as u8, (y + cut.height - 1) as u8, 0]
            );
        }
    }
}
