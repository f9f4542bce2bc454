//! NumPy's `.npz` archives (`numpy.load` opens them), written reproducibly: the same bytes for the same arrays.

use std::io::Cursor;

use ndarray::{ArrayViewD, IxDyn};
use ndarray_npy::{WritableElement, WriteNpyError, WriteNpyExt};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::array::Arrays;

/// Why an archive could not be written.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum NpzError {
    #[error("the archive cannot be written: {0}")]
    Zip(#[from] zip::result::ZipError),
    #[error("array `{name}` cannot be written: {source}")]
    Array { name: String, source: WriteNpyError },
}

/// `arrays` as an uncompressed `.npz`, as `numpy.savez` writes it, but without modification times.
pub fn bytes(arrays: &Arrays) -> Result<Vec<u8>, NpzError> {
    let views = arrays.iter().map(|(name, array)| {
        let view = ArrayViewD::from_shape(IxDyn(&array.shape), &array.data);
        (&**name, view.expect("as many values as the shape"))
    });
    archive(views)
}

/// As [`bytes()`], one int64 array `[N]` called `name`.
pub fn bytes_of_int64(name: &str, numbers: &[i64]) -> Result<Vec<u8>, NpzError> {
    let view = ArrayViewD::from_shape(IxDyn(&[numbers.len()]), numbers).expect("one axis");
    archive([(name, view)].into_iter())
}

fn archive<'a, T: WritableElement + 'a>(
    arrays: impl Iterator<Item = (&'a str, ArrayViewD<'a, T>)>,
) -> Result<Vec<u8>, NpzError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default());
    for (name, view) in arrays {
        zip.start_file(format!("{name}.npy"), options)?;
        view.write_npy(&mut zip).map_err(|source| NpzError::Array { name: name.to_owned(), source })?;
    }
    Ok(zip.finish()?.into_inner())
}
