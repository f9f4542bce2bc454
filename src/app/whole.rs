//! Files read within bounds, and written whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Read, Write};
use std::path::Path;

pub use crate::model::whole::beside;

/// The bytes of a file that has at most `limit`.
pub fn read(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Writes a file as a whole or not at all.
pub fn write<E: From<Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    let file = beside(path)?;
    let mut buffer = BufWriter::new(file.as_file());
    content(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}
