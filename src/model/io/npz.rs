//! NumPy's `.npz` archives (`numpy.load` opens them), written reproducibly: the same bytes for the same arrays.

use std::io::{Cursor, Write};

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

/// Writes `arrays` as an uncompressed `.npz`, as `numpy.savez` does, but without modification times.
pub fn write(to: impl Write, arrays: &Arrays) -> Result<(), NpzError> {
    let views = arrays.iter().map(|(name, array)| {
        let view = ArrayViewD::from_shape(IxDyn(&array.shape), &array.data);
        (&**name, view.expect("as many values as the shape"))
    });
    archive(to, views)
}

/// As [`write()`], one int64 array `[N]` called `name`.
pub fn write_int64(to: impl Write, name: &str, numbers: &[i64]) -> Result<(), NpzError> {
    let view = ArrayViewD::from_shape(IxDyn(&[numbers.len()]), numbers).expect("one axis");
    archive(to, [(name, view)].into_iter())
}

/// Builds the archive in memory: a [`ZipWriter`] dropped after a failed write would print that it cannot finish.
fn archive<'a, T: WritableElement + 'a>(
    mut to: impl Write,
    arrays: impl Iterator<Item = (&'a str, ArrayViewD<'a, T>)>,
) -> Result<(), NpzError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default());
    for (name, view) in arrays {
        zip.start_file(format!("{name}.npy"), options)?;
        view.write_npy(&mut zip).map_err(|source| NpzError::Array { name: name.to_owned(), source })?;
    }
    let bytes = zip.finish()?.into_inner();
    to.write_all(&bytes).map_err(zip::result::ZipError::from)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::array::Array;

    /// A writer that accepts this many bytes, then is full.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_archive_that_finds_no_room_is_an_error() {
        let arrays = Arrays::from([("a".to_owned(), Array::new([100], vec![1.5; 100]))]);
        write(Disk(4096), &arrays).unwrap();
        for room in [0, 300] {
            let error = write(Disk(room), &arrays).unwrap_err().to_string();
            assert!(error.contains("the archive cannot be written"), "{error}");
        }
    }
}
