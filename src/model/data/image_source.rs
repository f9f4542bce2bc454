//! Where an image is stored: a file, or a row of a Parquet file.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::parquet;
use crate::model::data::image::{self, ImageError, Photo};

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
    /// The encoded bytes of the image, read from disk.
    pub fn bytes(&self) -> Result<Vec<u8>, ImageError> {
        match self.row {
            None => image::read(&self.path),
            Some(row) => {
                parquet::image(&self.path, row).map_err(|why| ImageError::Row { name: self.to_string(), why })
            }
        }
    }

    /// The image, decoded.
    pub fn photo(&self) -> Result<Photo, ImageError> {
        Photo::decode(self.to_string(), &self.bytes()?)
    }

    /// The file that is an image; `None` for a row of a Parquet file.
    pub fn own_file(&self) -> Option<&Path> {
        self.row.is_none().then_some(&*self.path)
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
