//! NumPy's archives as the tests read them.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use ndarray::{Array, Dimension};
use ndarray_npy::{ReadNpyExt as _, ReadableElement};
use zip::ZipArchive;
use zip::result::ZipResult;

/// The arrays of an archive as `.npy`, by their names.
pub type Arrays = BTreeMap<String, Vec<u8>>;

/// Reads an archive.
pub fn read(archive: impl Read + Seek) -> ZipResult<Arrays> {
    let mut archive = ZipArchive::new(archive)?;
    let mut arrays = Arrays::new();
    for at in 0..archive.len() {
        let mut file = archive.by_index(at)?;
        let mut npy = Vec::new();
        file.read_to_end(&mut npy)?;
        arrays.insert(file.name()?.trim_end_matches(".npy").to_owned(), npy);
    }
    Ok(arrays)
}

/// The array that `npy` holds, if it is one of this type and so many dimensions.
pub fn array<T: ReadableElement, D: Dimension>(npy: &[u8]) -> Option<Array<T, D>> {
    Array::read_npy(npy).ok()
}
