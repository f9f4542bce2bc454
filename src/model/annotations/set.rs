//! The regions of many images, with counts and warnings of what is missing, unusable, empty or cropped away.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Annotations, FIRST_NUMBER, OBJECT_NUMBER};
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::grid::Grid;
use crate::model::regions::Regions;

/// The regions of a list of images, with warnings.
#[derive(Debug, Default)]
pub struct RegionSet {
    /// The regions of every image, if it has any.
    pub of: Vec<Option<Regions>>,
    missing: Warning,
    broken: Warning,
    empty: Warning,
    cropped: Warning,
    beyond: Warning,
    /// Masks of one object, and the number of those of labels.
    whole: Warning,
    labelled: usize,
    /// The first image of every mask, and images that have one of these, too.
    first_of: HashMap<PathBuf, PathBuf>,
    shared: Warning,
}

/// A kind of warning: how often it occurred, and its first case.
#[derive(Debug, Default)]
struct Warning {
    count: usize,
    first: String,
}

impl Warning {
    fn add(&mut self, what: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = what();
        }
        self.count += 1;
    }

    fn line(&self, one: &str, many: &str) -> Option<String> {
        match self.count {
            0 => None,
            1 => Some(format!("{one}: {}", self.first)),
            count => Some(format!("{count} {many}; the first: {}", self.first)),
        }
    }
}

impl RegionSet {
    /// Appends the regions of further images, in order; a `None` stands for an image that cannot be read, and has none.
    pub fn read(
        &mut self,
        annotations: &Annotations,
        images: &[Option<&Path>],
        preprocessor: &Preprocessor,
        grid: Grid,
    ) {
        let read = |image: Option<&Path>| match image {
            Some(image) => annotations.of_image(image, preprocessor, grid),
            None => Ok(None),
        };
        let found: Vec<Result<Option<Regions>, String>> =
            images.par_iter().map(|image| read(*image)).collect();
        let masks: Vec<Option<PathBuf>> =
            images.par_iter().map(|image| annotations.mask((*image)?)).collect();
        for ((image, found), mask) in images.iter().zip(found).zip(masks) {
            let name = || image.map_or_else(String::new, |image| image.display().to_string());
            if let (Some(image), Some(mask)) = (*image, mask) {
                let first = self.first_of.entry(mask.clone()).or_insert_with(|| image.to_path_buf());
                if *first != image {
                    let both = || format!("{} of {} and {}", mask.display(), first.display(), name());
                    self.shared.add(both);
                }
            }
            let all = |names: &[String]| format!("{} of {}", names.join(", "), name());
            match &found {
                Ok(None) if image.is_some() => self.missing.add(name),
                Ok(None) => {}
                Ok(Some(regions)) => {
                    if !regions.empty.is_empty() {
                        self.empty.add(|| all(&regions.empty));
                    }
                    if !regions.cropped.is_empty() {
                        self.cropped.add(|| all(&regions.cropped));
                    }
                    if !regions.beyond.is_empty() {
                        self.beyond.add(|| all(&regions.beyond));
                    }
                    match &regions.list[..] {
                        [one] if one.number == OBJECT_NUMBER && regions.empty.is_empty() => {
                            self.whole.add(name);
                        }
                        [first, ..] if first.number >= FIRST_NUMBER => self.labelled += 1,
                        _ => {}
                    }
                }
                Err(why) => self.broken.add(|| why.clone()),
            }
            self.of.push(found.unwrap_or_default());
        }
    }

    /// Number of images with regions.
    pub fn known(&self) -> usize {
        self.of.iter().flatten().count()
    }

    /// Warnings for the user: missing annotations, if other images have some or the folder of annotations was `named`, unusable
    /// and empty masks, cropped regions, marks beyond their image, and masks of several images.
    pub fn warnings(&self, named: bool) -> Vec<String> {
        let some = named || self.known() > 0 || self.broken.count > 0;
        let missing =
            self.missing.line("an image has no mask or mark", "images have no mask or mark").filter(|_| some);
        let rest = [
            self.broken.line("a mask cannot be used", "masks cannot be used"),
            self.empty.line("a mask is empty", "images have an empty mask"),
            self.cropped
                .line("a region lies beyond the crop", "images have regions that lie beyond the crop"),
        ];
        let beyond =
            self.beyond.line("an image is smaller than its marks", "images are smaller than their marks");
        // Annotators make mistakes: 3 of the 2889 boxes of CUB's first 50 species reach beyond their images.
        let beyond = beyond.filter(|_| 100 * self.beyond.count > self.known());
        let beyond = beyond.map(|line| {
            format!("{line}; if images were resized, scale the coordinates of all marks likewise")
        });
        // Labels above 50 may cause this: a mask that has one is read as shares of grey.
        let mixed =
            self.whole.line("a mask has no labels, unlike others", "masks have no labels, unlike others");
        let mixed = mixed.filter(|_| self.labelled > 0);
        let mixed = mixed.map(|line| {
            format!("{line}; if its greys are labels, name them in `names.txt` beside the masks")
        });
        let shared = self.shared.line("a mask is that of two images", "images have the mask of another one");
        let shared = shared.map(|line| format!("{line}; put masks into folders named like the images'"));
        missing
            .into_iter()
            .chain(rest.into_iter().flatten())
            .chain(beyond)
            .chain(mixed)
            .chain(shared)
            .collect()
    }
}
