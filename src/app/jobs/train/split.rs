//! Divides a dataset into the images to train on, to select the best epoch on, and to report on.

use super::TrainingError;
use crate::model::data::token_cache::TokenSource;
use crate::model::data::{self, Dataset, LAYOUTS, Split};
use crate::model::train::Labelled;
use crate::model::train::run::Selection;

/// The three parts of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// What is trained on.
    pub train: Labelled,
    /// What picks the best epoch.
    pub select: Labelled,
    /// What is reported.
    pub test: Labelled,
    /// How the best epoch is picked.
    pub selection: Selection,
}

/// The images of a split.
pub fn labelled(dataset: &Dataset, split: Split) -> Labelled {
    let own = dataset.samples.iter().enumerate().filter(|(_, sample)| sample.split == split);
    let (images, classes) = own.map(|(index, sample)| (index, sample.class)).unzip();
    Labelled { images, classes }
}

/// The `images` that could be read, so that they have tokens.
pub fn readable(images: &Labelled, has_tokens: impl Fn(usize) -> bool) -> Labelled {
    let pairs = images.images.iter().zip(&images.classes);
    let (images, classes) = pairs.filter(|(image, _)| has_tokens(**image)).unzip();
    Labelled { images, classes }
}

impl Parts {
    /// The parts of `dataset`. `share` of every class of train picks the best epoch, if given; else
    /// the validation split where there is a test split beside it; else the test images themselves.
    pub fn divide(dataset: &Dataset, share: Option<f64>) -> Result<Self, TrainingError> {
        let test = dataset.held_out().map(|split| labelled(dataset, split)).unwrap_or_default();
        let (all, val) = (labelled(dataset, Split::Train), labelled(dataset, Split::Val));
        let own_val = dataset.held_out() == Some(Split::Test) && !val.images.is_empty();
        let (train, select, selection) = match share {
            Some(share) => {
                let (train, select) = set_aside(&all, share);
                (train, select, Selection::PartOfTrain(share))
            }
            None if own_val => (all, val, Selection::Val),
            None => (all, test.clone(), Selection::Test),
        };
        Self { train, select, test, selection }.checked(dataset)
    }

    /// Images the backbone reads per epoch: those trained on and those evaluated, shared ones once.
    pub fn passes(&self) -> usize {
        let test = if self.select == self.test { 0 } else { self.test.images.len() };
        self.train.images.len() + self.select.images.len() + test
    }

    /// The same parts of `dataset` without the images that could not be read.
    pub fn readable(self, tokens: &dyn TokenSource, dataset: &Dataset) -> Result<Self, TrainingError> {
        let [train, select, test] = [&self.train, &self.select, &self.test]
            .map(|part| readable(part, |image| tokens.readable(image)));
        Self { train, select, test, ..self }.checked(dataset)
    }

    fn checked(self, dataset: &Dataset) -> Result<Self, TrainingError> {
        let layout = LAYOUTS.iter().find(|layout| layout.id == dataset.layout);
        let splits = layout.map_or("", |layout| layout.splits);
        let cases = [
            (&self.train, "to train on", splits),
            (&self.test, "to test on", splits),
            (
                &self.select,
                "to pick the best epoch by",
                "add images: a class with only one keeps it for training",
            ),
        ];
        for (part, what, remedy) in cases {
            if part.images.is_empty() {
                return Err(TrainingError::Empty { dataset: dataset.name.clone(), what, remedy });
            }
        }
        Ok(self)
    }
}

/// Sets a share of every class aside, always the same whatever the training's seed.
fn set_aside(all: &Labelled, share: f64) -> (Labelled, Labelled) {
    let aside = data::hold_out(&all.classes, share, 0);
    let part = |wanted: bool| {
        let own = (0..aside.len()).filter(|&i| aside[i] == wanted);
        let (images, classes) = own.map(|i| (all.images[i], all.classes[i])).unzip();
        Labelled { images, classes }
    };
    (part(false), part(true))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use burn::tensor::Device;

    use super::*;
    use crate::model::data::Sample;
    use crate::model::data::token_cache::Batches;
    use crate::model::grid::Grid;

    /// Tokens of all images but every third.
    struct Holes;

    impl TokenSource for Holes {
        fn grid(&self) -> Grid {
            Grid::new(1, 1)
        }

        fn width(&self) -> usize {
            1
        }

        fn readable(&self, image: usize) -> bool {
            !image.is_multiple_of(3)
        }

        fn read(&self, _: Vec<Vec<usize>>, _: &Device) -> Batches<'_> {
            Box::new(std::iter::empty())
        }
    }

    #[test]
    fn images_without_tokens_count_nowhere() {
        let part = |images: std::ops::Range<usize>| Labelled {
            classes: images.clone().map(|image| image % 2).collect(),
            images: images.collect(),
        };
        let parts =
            Parts { train: part(0..6), select: part(6..10), test: part(10..14), selection: Selection::Val };
        let Parts { train, select, test, .. } = parts.readable(&Holes, &Dataset::default()).unwrap();
        assert_eq!((train.images, train.classes), (vec![1, 2, 4, 5], vec![1, 0, 0, 1]));
        assert_eq!((select.images, select.classes), (vec![7, 8], vec![1, 0]));
        assert_eq!((test.images, test.classes), (vec![10, 11, 13], vec![0, 1, 1]));
    }

    /// No larger share would set any aside.
    #[test]
    fn single_images_of_classes_are_not_set_aside_and_that_is_said() {
        let sample = |class, split| Sample { source: PathBuf::from("a.png").into(), class, split };
        let all = [(0, Split::Train), (1, Split::Train), (0, Split::Test)];
        let samples = all.map(|(class, split)| sample(class, split)).into();
        let dataset = Dataset { layout: LAYOUTS[0].id, samples, ..Dataset::default() };
        let said = Parts::divide(&dataset, Some(0.9)).unwrap_err().to_string();
        assert!(said.contains("to pick the best epoch by; add images: a class with only one"), "{said}");
        assert!(Parts::divide(&dataset, None).is_ok());
    }

    #[test]
    fn a_share_of_every_class_is_set_aside() {
        let all = Labelled { images: (10..41).collect(), classes: (0..31).map(|i| i % 3 / 2).collect() };
        let (train, aside) = set_aside(&all, 0.2);
        let count = |part: &Labelled, class| part.classes.iter().filter(|&&c| c == class).count();
        assert_eq!((count(&aside, 0), count(&aside, 1)), (4, 2));
        assert_eq!((count(&train, 0), count(&train, 1)), (17, 8));
        assert!(aside.images.iter().all(|image| !train.images.contains(image)));
    }
}
