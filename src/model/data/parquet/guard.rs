//! A Parquet file, read within bounds: no page that claims to unpack to more than [`PAGE_LIMIT`] is
//! taken up, since the reader would make room for it first. Each page begins with its header, a
//! Thrift compact structure whose first fields are the page's type, its size unpacked and its size
//! packed.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Most bytes of one page, unpacked. Writers close a page at a megabyte; only a single larger image
/// makes a larger one.
const PAGE_LIMIT: i64 = 1 << 28;
/// What a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// Bytes that hold the first three fields of a page header, each at most 1 + 5.
const START: usize = 18;

/// A file of known length.
pub(super) struct Guarded {
    file: File,
    len: u64,
}

impl Guarded {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// Whether the file ends as Parquet files do: one that is cut short does not.
    pub(super) fn whole(&self) -> Result<()> {
        let end = self.len.checked_sub(MAGIC.len() as u64);
        match end.filter(|end| *end > 0).map(|end| self.get_bytes(end, MAGIC.len())).transpose()? {
            Some(end) if end[..] == *MAGIC => Ok(()),
            _ => Err(ParquetError::General(
                "it is cut short, or no Parquet file: it does not end in PAR1".into(),
            )),
        }
    }

    fn check(&self, start: u64, length: usize) -> Result<()> {
        match start.checked_add(length as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(ParquetError::EOF(format!(
                "{length} bytes from {start} on lie beyond the file's {} (it is cut short or damaged)",
                self.len
            ))),
        }
    }
}

impl Length for Guarded {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Guarded {
    type T = BufReader<File>;

    /// Only page headers are read through this.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.check(start, 0)?;
        let head = self.get_bytes(start, START.min((self.len - start) as usize))?;
        match unpacked(&head) {
            Some(size) if !(0..=PAGE_LIMIT).contains(&size) => Err(ParquetError::General(format!(
                "a page claims to unpack to {size} bytes; pages of up to {PAGE_LIMIT} are read"
            ))),
            _ => {
                let mut file = self.file.try_clone()?;
                std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(start))?;
                Ok(BufReader::with_capacity(512, file)) // a page header is some dozens of bytes
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.check(start, length)?;
        let mut file = self.file.try_clone()?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(start))?;
        let mut buffer = Vec::with_capacity(length);
        let read = file.take(length as u64).read_to_end(&mut buffer)?;
        if read == length { Ok(buffer.into()) } else { Err(ParquetError::EOF("the file shrank".into())) }
    }
}

/// The unpacked size that a page header states; nothing where this is no page header, which the
/// reader then finds out itself.
fn unpacked(header: &[u8]) -> Option<i64> {
    let mut bytes = header.iter().copied();
    // A field: its distance to the one before and its type (5: a number) in one byte, then a
    // zigzag number of 7 bits a byte.
    let mut field = || {
        (bytes.next()? == 0x15).then_some(())?;
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        None
    };
    field()?;
    field()
}

#[cfg(test)]
mod tests {
    use super::unpacked;

    #[test]
    fn the_size_of_a_page_is_read_from_its_header() {
        assert_eq!(unpacked(&[0x15, 0x00, 0x15, 0xc8, 0x01, 0x15, 0x02]), Some(100));
        assert_eq!(unpacked(&[0x15, 0x00, 0x15, 0x01]), Some(-1));
        assert_eq!(unpacked(&[0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f]), Some(i64::from(i32::MAX)));
        assert_eq!(unpacked(b"PAR1"), None);
        assert_eq!(unpacked(&[0x15, 0x00, 0x15, 0x80]), None);
    }
}
