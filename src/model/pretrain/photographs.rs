//! Images of a dataset to pre-train on: every epoch has its own order, and crops and mirrors every image anew. All of that
//! depends on (seed, epoch, image) alone, so a step can be repeated without those before it.

use std::convert::Infallible;

use rayon::prelude::*;

use super::{Batch, Plan};
use crate::model::backbone::preprocess::augment::{Augmentation, RandomCrop, draws};
use crate::model::backbone::preprocess::{Filter, resample};
use crate::model::data::Sample;
use crate::model::data::image::ImageError;
use crate::model::picture::Picture;
use crate::model::stats::shuffled;

/// Crops of at least a fifth of the area (He et al. 2022).
const CROP: RandomCrop = RandomCrop { smallest: 0.2, clipped: false };
/// Number of pictures that are tried for a place in a step before it is left out.
const MAX_TRIES: usize = 16;

/// The pictures of a pre-training.
pub struct Photographs<'a> {
    samples: Vec<&'a Sample>,
    augmentation: Augmentation,
}

impl<'a> Photographs<'a> {
    /// The pictures of `samples`, one at least.
    pub fn new(samples: Vec<&'a Sample>, augmentation: Augmentation) -> Self {
        Self { samples, augmentation }
    }

    /// Number of steps per epoch; the last batch may be smaller.
    pub fn steps(images: usize, batch: usize) -> usize {
        images.div_ceil(batch)
    }

    /// The batch of a step, from 0, and errors of unreadable pictures, each replaced by the next readable one of the epoch.
    pub fn batch(&self, plan: &Plan, step: usize) -> (Batch, Vec<ImageError>) {
        let count = self.samples.len();
        let steps = Self::steps(count, plan.batch);
        let (epoch, within) = (step / steps, step % steps);
        let order = shuffled(count, &mut draws(plan.seed, epoch, 0));
        let load = |place: usize| {
            let mut unreadable = Vec::new();
            for place in place..place + MAX_TRIES.min(count) {
                let image = order[place % count];
                let sample = self.samples[image];
                match sample.source.photo() {
                    Ok(photo) => {
                        let (picture, side) = (&photo.picture, plan.recipe.side);
                        let resize =
                            || resample::resize(picture, (side, side), 0..side, 0..side, Filter::Bilinear);
                        let whole = || Ok::<_, Infallible>(resize());
                        let mut rng = draws(plan.seed, epoch, 1 + image);
                        let Ok(augmented) =
                            self.augmentation.apply(picture, (side, side), CROP, whole, &mut rng);
                        return (Some((augmented, sample.class)), unreadable);
                    }
                    Err(error) => unreadable.push(error),
                }
            }
            (None, unreadable)
        };
        let places = within * plan.batch..count.min((within + 1) * plan.batch);
        let loaded: Vec<_> = places.into_par_iter().map(load).collect();
        let (pictures, unreadable): (Vec<_>, Vec<_>) = loaded.into_iter().unzip();
        let pictures: Vec<(Picture, usize)> = pictures.into_iter().flatten().collect();
        (Batch::from_pictures(plan, &pictures), unreadable.into_iter().flatten().collect())
    }
}
