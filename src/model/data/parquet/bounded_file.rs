//! Reading a Parquet file within bounds: sizes and counts in its metadata and its page headers are checked against
//! the file's own size before the reader allocates memory or loops for them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::{Buf, Bytes, buf};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::thrift::{FILE, PAGE, ScanError, scan};

const MAGIC: &[u8; 4] = b"PAR1";
/// Longest metadata, in bytes; a dataset of a million images has some hundred kilobytes.
const MAX_METADATA_BYTES: u64 = 8 << 20;
/// Most columns, nested ones included: the reader recurses into them.
const MAX_COLUMNS: i64 = 1000;
/// Bytes of a page header that are read at first. A header with statistics of its values may be longer.
const MAX_HEADER_BYTES: u64 = 512;
/// Longest page header, in bytes: [`MAX_HEADER_BYTES`] times 16, three times over.
const HEADER_LIMIT: u64 = MAX_HEADER_BYTES << 12;
/// Most bytes of one decompressed page. Writers end a page at a megabyte; only a single larger image makes a larger one.
const PAGE_LIMIT: i64 = 1 << 28;
/// Most values of a dictionary. Writers end one at a megabyte.
const MAX_ENTRIES: i64 = 1 << 20;
/// Encodings of values that are read: plain, dictionary, run-length. The others, which no writer uses by default,
/// state a number of values for which their reader allocates memory.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

/// A Parquet file whose metadata and page headers are checked before they are read.
pub(super) struct BoundedFile {
    file: File,
    len: u64,
    /// Most bytes that one compressed byte may expand to.
    ratio: i64,
}

impl BoundedFile {
    /// Opens a file to read uncompressed pages.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len, ratio: 1 })
    }

    /// The same file, to read pages compressed with `compression`.
    pub(super) fn with_compression(self, compression: Compression) -> Result<Self> {
        Ok(Self { ratio: ratio(compression)?, ..self })
    }

    /// The metadata at the file's end: columns, row groups and their offsets.
    pub(super) fn metadata(&self) -> Result<ParquetMetaData> {
        // It is followed by its length in four bytes and the magic number.
        let end = self.len.checked_sub(8).filter(|end| *end >= MAGIC.len() as u64);
        let tail = end.map(|end| self.get_bytes(end, 8)).transpose()?;
        let Some((end, tail)) = end.zip(tail).filter(|(_, tail)| tail.ends_with(MAGIC)) else {
            return general("it is truncated or not a Parquet file: it does not end in PAR1");
        };
        let length = u64::from((&tail[..]).get_u32_le());
        if length > end.min(MAX_METADATA_BYTES) {
            return general(format!(
                "it claims {length} bytes of metadata; at most {MAX_METADATA_BYTES} are read, and the file has {}",
                self.len
            ));
        }
        let bytes = self.get_bytes(end - length, length as usize)?;
        let mut columns = 0;
        let check_field = &mut |path: &[i16], number: i64| match path {
            [2] if number > MAX_COLUMNS => {
                Err(format!("it has {number} columns; at most {MAX_COLUMNS} are read"))
            }
            [2] => {
                columns = number;
                Ok(())
            }
            [2, 5] if !(0..=columns).contains(&number) => {
                Err(format!("a column claims {number} nested columns, of {columns} in all"))
            }
            _ => Ok(()),
        };
        match scan(&bytes, FILE, check_field) {
            Ok(_) => ParquetMetaDataReader::decode_metadata(&bytes),
            Err(ScanError::Short) => general("its metadata ends too early"),
            Err(ScanError::Wrong(why)) => general(why),
        }
    }

    /// The bytes of the page header at offset `start`, or what is wrong with it.
    fn header(&self, start: u64) -> std::result::Result<Bytes, String> {
        let mut most = MAX_HEADER_BYTES;
        loop {
            let there = most.min(self.len.saturating_sub(start));
            let bytes = self.get_bytes(start, there as usize).map_err(|error| error.to_string())?;
            match header(&bytes, self.ratio) {
                Ok(length) => return Ok(bytes.slice(..length)),
                Err(ScanError::Wrong(why)) => return Err(why),
                Err(ScanError::Short) if there == most && most < HEADER_LIMIT => most *= 16,
                Err(ScanError::Short) => return Err(format!("the page header at byte {start} has no end")),
            }
        }
    }

    /// Fails if a range of bytes ends beyond the file.
    fn check(&self, start: u64, length: usize) -> Result<()> {
        match start.checked_add(length as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(ParquetError::EOF(format!(
                "{length} bytes at offset {start} are beyond the file's {} (it is truncated or damaged)",
                self.len
            ))),
        }
    }
}

fn general<T>(why: impl Into<String>) -> Result<T> {
    Err(ParquetError::General(why.into()))
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

/// A page header, validated on the first read: the reader also opens headers it already knows, and ones past
/// the last page, without reading them.
pub(super) struct Header {
    file: BoundedFile,
    start: u64,
    bytes: Option<buf::Reader<Bytes>>,
}

impl Read for Header {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = match self.bytes.take() {
            Some(bytes) => bytes,
            None => self.file.header(self.start).map_err(io::Error::other)?.reader(),
        };
        self.bytes.insert(bytes).read(out)
    }
}

impl ChunkReader for BoundedFile {
    type T = Header;

    /// The reader calls this for page headers only.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.check(start, 0)?;
        let file = Self { file: self.file.try_clone()?, ..*self };
        Ok(Header { file, start, bytes: None })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.check(start, length)?;
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        let mut buffer = Vec::with_capacity(length);
        let read = file.take(length as u64).read_to_end(&mut buffer)?;
        if read == length { Ok(buffer.into()) } else { Err(ParquetError::EOF("the file shrank".into())) }
    }
}

/// The length of the page header at the start of `bytes`, if its sizes are possible.
fn header(bytes: &[u8], ratio: i64) -> std::result::Result<usize, ScanError> {
    let (mut unpacked, mut packed, mut entries) = (0, 0, 0);
    let length = scan(bytes, PAGE, &mut |path, number| {
        match path {
            [2] => unpacked = number,
            [3] => packed = number,
            [7, 1] => entries = number,
            [5, 2] | [8, 4] if !ENCODINGS.contains(&number) => {
                return Err(format!(
                    "its values use Parquet encoding {number}; rewrite it with plain or dictionary encoding"
                ));
            }
            _ => {}
        }
        Ok(())
    })?;
    if !(0..=PAGE_LIMIT).contains(&unpacked) {
        return Err(ScanError::Wrong(format!(
            "a page claims to unpack to {unpacked} bytes; at most {PAGE_LIMIT} are read"
        )));
    }
    if packed < 0 || unpacked > packed.saturating_mul(ratio) {
        let why = format!("a page claims to unpack to {unpacked} bytes from {packed}, which is impossible");
        return Err(ScanError::Wrong(why));
    }
    // A value takes at least four bytes: a number, or the length of a text.
    if !(0..=MAX_ENTRIES.min(unpacked / 4)).contains(&entries) {
        return Err(ScanError::Wrong(format!("a dictionary claims {entries} values in {unpacked} bytes")));
    }
    Ok(length)
}

/// Most bytes that one byte compressed with `compression` may expand to; an error for codecs that are not read. Those
/// that Hugging Face and pyarrow use by default are read, and gzip.
pub(super) fn ratio(compression: Compression) -> Result<i64> {
    match compression {
        Compression::UNCOMPRESSED => Ok(1),
        Compression::SNAPPY => Ok(22),    // 64 bytes from 3
        Compression::GZIP(_) => Ok(1032), // 258 bytes from 2 bits
        other => {
            general(format!("it is compressed with {other}; rewrite it with Snappy, gzip or no compression"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use parquet::basic::{Compression, GzipLevel};

    use super::{BoundedFile, MAGIC, MAX_METADATA_BYTES, ScanError, header, ratio};

    /// A page header: type 0, `unpacked` and `packed` sizes, and the bytes that follow.
    fn page(unpacked: &[u8], packed: &[u8], rest: &[u8]) -> Vec<u8> {
        [&[0x15, 0x00, 0x15], unpacked, &[0x15], packed, rest].concat()
    }

    fn flaw(bytes: &[u8], ratio: i64) -> String {
        match header(bytes, ratio) {
            Err(ScanError::Wrong(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_header_is_read_to_its_end() {
        let good = page(
            &[0xc8, 0x01],
            &[0xc8, 0x01],
            &[0x2c, 0x15, 0x04, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00],
        );
        assert_eq!(header(&good, 1), Ok(good.len()));
        assert_eq!(header(&[&good[..], b"what follows"].concat(), 1), Ok(good.len()));
        for end in 0..good.len() {
            assert_eq!(header(&good[..end], 1), Err(ScanError::Short), "{end}");
        }
    }

    #[test]
    fn claims_that_cannot_be_are_refused() {
        assert!(flaw(&page(&[0x01], &[0x02], &[0]), 1).contains("unpack to -1"));
        assert!(
            flaw(&page(&[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0x02], &[0]), 1).contains("unpack to 2147483647")
        );
        assert!(flaw(&page(&[0x04], &[0x02], &[0]), 1).contains("2 bytes from 1"));
        assert_eq!(header(&page(&[0x04], &[0x02], &[0]), 2), Ok(7));
        // A dictionary of 5 values in 16 bytes.
        assert!(
            flaw(&page(&[0x20], &[0x20], &[0x4c, 0x15, 0x0a, 0x15, 0x04, 0x00, 0x00]), 1)
                .contains("5 values")
        );
    }

    #[test]
    fn metadata_beyond_its_bound_is_not_read_from_a_larger_file_either() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MAX_METADATA_BYTES + 100).unwrap(); // takes no room on the disk
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(&(MAX_METADATA_BYTES as u32 + 1).to_le_bytes()).unwrap();
        file.write_all(MAGIC).unwrap();
        let why = BoundedFile::open(file.path()).unwrap().metadata().unwrap_err().to_string();
        assert!(why.contains("at most 8388608 are read"), "{why}");
    }

    #[test]
    fn labels_that_gzip_packs_best_are_read() {
        // A million of the same class.
        let labels = vec![0; 4_000_000];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&labels).unwrap();
        let packed = gzip.finish().unwrap().len();
        let most = ratio(Compression::GZIP(GzipLevel::default())).unwrap() as usize;
        assert!(packed * 100 < labels.len() && labels.len() <= packed * most, "{packed} bytes");
    }

    #[test]
    fn what_no_page_has_is_refused() {
        // A list of 2^31 - 1 doubles; of as many truth values, and of five; a map; a type that is none; fields out of turn.
        for rest in [
            &[0xf9, 0xf7, 0xff, 0xff, 0xff, 0xff, 0x07][..],
            &[0xf9, 0xf2, 0xff, 0xff, 0xff, 0xff, 0x07],
            &[0xf9, 0x52, 0],
            &[0xfb, 0x7f, 0x22],
            &[0xff],
            &[0x05, 0x02, 0x02],
            &[0xf9, 0x19, 0x19, 0x13],
        ] {
            assert!(flaw(&page(&[0x20], &[0x20], rest), 1).contains("damaged"), "{rest:x?}");
        }
        // A number where a structure belongs, at whose place the reader would read one.
        assert!(flaw(&page(&[0x20], &[0x20], &[0x25, 0x02, 0x00]), 1).contains("another type"));
        // A hundred structures, one in the other.
        assert!(flaw(&page(&[0x20], &[0x20], &[0xfc; 100]), 1).contains("too deep"));
        assert_eq!(header(&page(&[0x20], &[0x20], &[0xf9, 0xa3, 1, 2]), 1), Err(ScanError::Short));
    }
}
