//! Holding out a fraction of every class: for the test where a dataset has no split of its own, and to
//! pick the best epoch. Every class has its own stream of random numbers, so that adding a class does
//! not change the split of the others.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Dataset, Split, UNSEEN, first_names};

/// The fraction of every class that is held out for the test, and the seed.
const TEST_SHARE: f64 = 0.2;
const TEST_SEED: u64 = 0;

/// Whether each image is held out, `classes[i]` being the class of image `i`: the fraction `share` of
/// every class, deterministic for one seed. A class of two images or more keeps at least one image and
/// has at least one held out; a single image is kept.
pub fn hold_out(classes: &[usize], share: f64, seed: u64) -> Vec<bool> {
    let mut members = vec![Vec::new(); classes.iter().max().map_or(0, |last| last + 1)];
    for (image, &class) in classes.iter().enumerate() {
        members[class].push(image);
    }
    let mut out = vec![false; classes.len()];
    for (class, mut members) in members.into_iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(class as u64);
        members.shuffle(&mut rng);
        let count = (members.len() as f64 * share).round() as usize;
        for &image in &members[..count.max(1).min(members.len().saturating_sub(1))] {
            out[image] = true;
        }
    }
    out
}

impl Dataset {
    /// Holds out test images unless the dataset has held-out ones; samples must be sorted already.
    pub(super) fn hold_out(&mut self) {
        if self.held_out().is_some() {
            return;
        }
        let classes: Vec<usize> = self.samples.iter().map(|sample| sample.class).collect();
        let out = hold_out(&classes, TEST_SHARE, TEST_SEED);
        for (sample, _) in self.samples.iter_mut().zip(out).filter(|(_, out)| *out) {
            sample.split = Split::Test;
        }
        let how = match self.held_out() {
            Some(_) => {
                let share = TEST_SHARE * 100.0;
                format!("{share:.0} % of every class held out for testing (seed {TEST_SEED})")
            }
            None => "no class has a second image that could be held out for testing".to_owned(),
        };
        self.notes.push(format!("no split of its own: {how}"));
    }

    /// A note on classes that have held-out images and no training images, as where the folders of splits name them differently;
    /// `None` if there are none, or nothing can be trained on at all.
    pub(super) fn unseen(&self) -> Option<String> {
        let mut there = vec![[false; 2]; self.classes.len()]; // training images, held-out images
        for sample in &self.samples {
            there[sample.class][usize::from(sample.split != Split::Train)] = true;
        }
        let unseen = self.classes.iter().zip(there).filter(|(_, there)| *there == [false, true]);
        let unseen: Vec<String> = unseen.map(|(class, _)| class.clone()).collect();
        let (count, names) = (unseen.len(), first_names(&unseen));
        (count > 0 && self.count(Split::Train) > 0).then(|| {
            format!("classes with held-out images but no training images: {count} ({names}): {UNSEEN}")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::model::data::{ImageSource, Sample};

    #[test]
    fn what_cannot_be_held_out_is_not_said_to_be() {
        let note = |classes: &[usize]| {
            let source = || ImageSource::from(PathBuf::from("a.png"));
            let samples =
                classes.iter().map(|&class| Sample { source: source(), class, split: Split::Train });
            let mut dataset = Dataset { samples: samples.collect(), ..Dataset::default() };
            dataset.hold_out();
            dataset.notes.concat()
        };
        assert!(note(&[0, 1, 1]).contains("20 % of every class held out"), "{}", note(&[0, 1, 1]));
        assert!(note(&[0, 1]).contains("no class has a second image"), "{}", note(&[0, 1]));
    }

    #[test]
    fn a_share_of_every_class_is_held_out_and_no_class_stirs_another() {
        let classes: Vec<usize> = (0..31).map(|i| i % 3 / 2).collect();
        let out = hold_out(&classes, 0.2, 0);
        let count = |class| (0..31).filter(|&i| classes[i] == class && out[i]).count();
        assert_eq!((count(0), count(1)), (4, 2));
        let places: Vec<usize> = (0..31).filter(|&i| out[i]).collect();
        assert_eq!(places, [1, 2, 9, 12, 20, 21], "as the splits of every run so far were made");
        let more: Vec<usize> = classes.iter().copied().chain([2]).collect();
        assert_eq!(hold_out(&more, 0.2, 0), [&out[..], &[false]].concat(), "one image alone is left");
        assert_ne!(hold_out(&classes, 0.2, 1), out);
    }
}
