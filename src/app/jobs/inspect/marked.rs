//! What is marked in the images, read as they come; what of it is missing or broken is said at the end.

use std::path::Path;
use std::sync::Mutex;

use crate::app::jobs::tokens::TokenReader;
use crate::model::annotations::{Annotations, RegionSet};
use crate::model::data::DataError;
use crate::model::grid::Grid;
use crate::model::regions::Regions;

/// Annotations, and what was read of them so far.
pub(super) struct Marked {
    annotations: Annotations,
    read: Mutex<RegionSet>,
}

impl Marked {
    /// Those of a folder.
    pub(super) fn open(folder: &Path) -> Result<Self, DataError> {
        Ok(Self { annotations: Annotations::open(folder)?, read: Mutex::default() })
    }

    /// What is known to be where in an image.
    pub(super) fn read(&self, image: &Path, reader: &TokenReader, grid: Grid) -> Option<Regions> {
        let mut set = self.read.lock().ok()?;
        set.read(&self.annotations, &[Some(image)], &reader.preprocessor, grid);
        set.of.last().cloned().flatten()
    }

    /// What a person should know of all that was read.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.read.lock().map(|set| set.warnings()).unwrap_or_default()
    }
}
