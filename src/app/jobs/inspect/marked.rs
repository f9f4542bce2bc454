//! Annotated regions, read image by image; warnings about missing or broken ones are collected for the end.

use std::path::Path;
use std::sync::Mutex;

use crate::app::jobs::tokens::TokenReader;
use crate::model::annotations::{Annotations, RegionSet};
use crate::model::data::DataError;
use crate::model::grid::Grid;
use crate::model::regions::Regions;

/// Annotations, and the regions read from them so far.
pub(super) struct Marked {
    annotations: Annotations,
    read: Mutex<RegionSet>,
}

impl Marked {
    /// Opens the annotations of a folder.
    pub(super) fn open(folder: &Path) -> Result<Self, DataError> {
        Ok(Self { annotations: Annotations::open(folder)?, read: Mutex::default() })
    }

    /// The annotated regions of an image on the token grid, if it has any.
    pub(super) fn read(&self, image: &Path, reader: &TokenReader, grid: Grid) -> Option<Regions> {
        let mut set = self.read.lock().ok()?;
        set.read(&self.annotations, &[Some(image)], &reader.preprocessor, grid);
        set.of.last().cloned().flatten()
    }

    /// Warnings about everything read so far, for the user.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.read.lock().map(|set| set.warnings()).unwrap_or_default()
    }
}
