//! Where an image is stored, as serialisable data: a file, or a row of a Parquet file.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Source;
use crate::model::data::image::{ImageError, Photo};

/// Where an image is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImageSource {
    /// The file.
    pub path: PathBuf,
    /// The row of a Parquet file, from 0; `None` if the file itself is the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
}

impl ImageSource {
    /// The image, decoded.
    pub fn photo(&self) -> Result<Photo, ImageError> {
        Source::from(self.clone()).photo()
    }

    /// The file's name without its folder, and the row where there is one.
    pub fn short(&self) -> String {
        let file = self.path.file_name().map_or_else(|| self.path.clone(), PathBuf::from);
        Self { path: file, row: self.row }.to_string()
    }
}

impl From<PathBuf> for ImageSource {
    fn from(path: PathBuf) -> Self {
        Self { path, row: None }
    }
}

impl Display for ImageSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.row.map_or(Ok(()), |row| write!(f, ", row {row}"))
    }
}
