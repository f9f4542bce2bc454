//! The regions of many images, and what of them is missing or broken: named, counted, and nothing of it lost in silence.

use std::path::Path;

use rayon::prelude::*;

use super::Annotations;
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::grid::Grid;
use crate::model::regions::Regions;

/// Those of images that are asked about.
#[derive(Debug, Default)]
pub struct RegionSet {
    /// Of every image, where something is marked on it.
    pub of: Vec<Option<Regions>>,
    missing: Said,
    broken: Said,
    empty: Said,
    cropped: Said,
}

/// How often, and the first.
#[derive(Debug, Default)]
struct Said {
    count: usize,
    first: String,
}

impl Said {
    fn say(&mut self, what: impl FnOnce() -> String) {
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
    /// Reads those of further images, in their order; none of an image that cannot be read itself.
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
        for (image, found) in images.iter().zip(found) {
            let name = || image.map_or_else(String::new, |image| image.display().to_string());
            let all = |names: &[String]| format!("{} of {}", names.join(", "), name());
            match &found {
                Ok(None) if image.is_some() => self.missing.say(name),
                Ok(None) => {}
                Ok(Some(regions)) => {
                    if !regions.empty.is_empty() {
                        self.empty.say(|| all(&regions.empty));
                    }
                    if !regions.cropped.is_empty() {
                        self.cropped.say(|| all(&regions.cropped));
                    }
                }
                Err(why) => self.broken.say(|| why.clone()),
            }
            self.of.push(found.unwrap_or_default());
        }
    }

    /// How many images something is known of.
    pub fn known(&self) -> usize {
        self.of.iter().flatten().count()
    }

    /// What a person should know: what is missing among images that have something, what is broken, empty or cut off.
    pub fn warnings(&self) -> Vec<String> {
        let some = self.known() > 0 || self.broken.count > 0;
        let missing =
            self.missing.line("an image has no mask or mark", "images have no mask or mark").filter(|_| some);
        let rest = [
            self.broken.line("a mask cannot be used", "masks cannot be used"),
            self.empty.line("a mask is empty", "images have an empty mask"),
            self.cropped
                .line("a region lies beyond the crop", "images have regions that lie beyond the crop"),
        ];
        missing.into_iter().chain(rest.into_iter().flatten()).collect()
    }
}
