//! A Parquet file, read within bounds: what its description and the headers of its pages claim is held against
//! what is there before the reader makes room for it or counts to it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::{Buf, Bytes, buf};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::thrift::{FILE, Flaw, PAGE, walk};

const MAGIC: &[u8; 4] = b"PAR1";
/// Longest description; those of a million images have some hundred kilobytes.
const DESCRIPTION_LIMIT: u64 = 8 << 20;
/// Most columns, those within columns counted too: the reader goes into them by calling itself.
const MAX_COLUMNS: i64 = 1000;
/// Bytes of a page's header that are read at first. One that holds samples of its values is longer.
const MAX_HEADER_BYTES: u64 = 512;
/// Longest header of a page: [`MAX_HEADER_BYTES`] a few times sixteenfold.
const HEADER_LIMIT: u64 = MAX_HEADER_BYTES << 12;
/// Most bytes of one page, unpacked. Writers close a page at a megabyte; only a single larger image
/// makes a larger one.
const PAGE_LIMIT: i64 = 1 << 28;
/// Most values of a dictionary. Writers close one at a megabyte.
const MAX_ENTRIES: i64 = 1 << 20;
/// Encodings of values that are read: plain, by dictionary, by runs. The others, which no writer takes unasked,
/// state a number of values that their reader makes room for.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

pub(super) struct Guarded {
    file: File,
    len: u64,
    /// Bytes that one packed byte may become.
    ratio: i64,
}

impl Guarded {
    /// Opens a file whose pages are not packed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len, ratio: 1 })
    }

    /// The same for pages that are packed so.
    pub(super) fn packed(self, packing: Compression) -> Result<Self> {
        Ok(Self { ratio: ratio(packing)?, ..self })
    }

    /// What stands at the file's end: columns, groups of rows and where they lie.
    pub(super) fn description(&self) -> Result<ParquetMetaData> {
        // Behind it lie its length in four bytes, and the mark.
        let end = self.len.checked_sub(8).filter(|end| *end >= MAGIC.len() as u64);
        let tail = end.map(|end| self.get_bytes(end, 8)).transpose()?;
        let Some((end, tail)) = end.zip(tail).filter(|(_, tail)| tail.ends_with(MAGIC)) else {
            return general("it is cut short, or no Parquet file: it does not end in PAR1");
        };
        let length = u64::from((&tail[..]).get_u32_le());
        if length > end.min(DESCRIPTION_LIMIT) {
            return general(format!(
                "it claims a description of {length} bytes; up to {DESCRIPTION_LIMIT} are read, and it has {} in all",
                self.len
            ));
        }
        let bytes = self.get_bytes(end - length, length as usize)?;
        let (mut columns, mut rows) = (0, 0_i64);
        let told = &mut |path: &[i16], number: i64| match path {
            [2] if number > MAX_COLUMNS => {
                Err(format!("it has {number} columns; up to {MAX_COLUMNS} are read"))
            }
            [2] => {
                columns = number;
                Ok(())
            }
            [2, 5] if !(0..=columns).contains(&number) => {
                Err(format!("a column claims {number} others within it, of {columns} in all"))
            }
            [4, 3] => {
                rows = rows.saturating_add(number);
                let possible = number >= 0 && rows as u64 <= self.len; // each has an image
                possible.then_some(()).ok_or_else(|| format!("it claims {rows} rows in {} bytes", self.len))
            }
            _ => Ok(()),
        };
        match walk(&bytes, FILE, told) {
            Ok(_) => ParquetMetaDataReader::decode_metadata(&bytes),
            Err(Flaw::Short) => general("its description ends before it is told"),
            Err(Flaw::Wrong(why)) => general(why),
        }
    }

    /// The header of the page at byte `start`, or what is wrong with it.
    fn header(&self, start: u64) -> std::result::Result<Bytes, String> {
        let mut most = MAX_HEADER_BYTES;
        loop {
            let there = most.min(self.len.saturating_sub(start));
            let bytes = self.get_bytes(start, there as usize).map_err(|error| error.to_string())?;
            match header(&bytes, self.ratio) {
                Ok(length) => return Ok(bytes.slice(..length)),
                Err(Flaw::Wrong(why)) => return Err(why),
                Err(Flaw::Short) if there == most && most < HEADER_LIMIT => most *= 16,
                Err(Flaw::Short) => return Err(format!("the header of a page at byte {start} has no end")),
            }
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

fn general<T>(why: impl Into<String>) -> Result<T> {
    Err(ParquetError::General(why.into()))
}

impl Length for Guarded {
    fn len(&self) -> u64 {
        self.len
    }
}

/// The header of a page, looked at when it is read: the reader asks for it again where it knows it, and where
/// it is not any more.
pub(super) struct Header {
    file: Guarded,
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

impl ChunkReader for Guarded {
    type T = Header;

    /// Only headers of pages are read through this.
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

/// The length of the header of a page that `bytes` begin with, if what it claims can be.
fn header(bytes: &[u8], ratio: i64) -> std::result::Result<usize, Flaw> {
    let (mut unpacked, mut packed, mut entries) = (0, 0, 0);
    let length = walk(bytes, PAGE, &mut |path, number| {
        match path {
            [2] => unpacked = number,
            [3] => packed = number,
            [7, 1] => entries = number,
            [5, 2] | [8, 4] if !ENCODINGS.contains(&number) => {
                return Err(format!(
                    "its values are encoded in way {number} of Parquet's; write it again with plain values or dictionaries"
                ));
            }
            _ => {}
        }
        Ok(())
    })?;
    if !(0..=PAGE_LIMIT).contains(&unpacked) {
        return Err(Flaw::Wrong(format!(
            "a page claims to unpack to {unpacked} bytes; pages of up to {PAGE_LIMIT} are read"
        )));
    }
    if packed < 0 || unpacked > packed.saturating_mul(ratio) {
        let why = format!("a page claims to unpack to {unpacked} bytes from {packed}, which cannot be");
        return Err(Flaw::Wrong(why));
    }
    // A value takes four bytes at the least: a number, or the length of a text.
    if !(0..=MAX_ENTRIES.min(unpacked / 4)).contains(&entries) {
        return Err(Flaw::Wrong(format!("a dictionary claims {entries} values in {unpacked} bytes")));
    }
    Ok(length)
}

/// Bytes that one byte may become where it is packed so; an error where this packing is not read. Read are those
/// that Hugging Face and pyarrow write unasked, and gzip.
pub(super) fn ratio(packing: Compression) -> Result<i64> {
    match packing {
        Compression::UNCOMPRESSED => Ok(1),
        Compression::SNAPPY => Ok(22),    // 64 bytes from three
        Compression::GZIP(_) => Ok(1032), // 258 bytes from two bits
        other => general(format!("it is packed as {other}; write it again with Snappy, gzip or no packing")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use parquet::basic::{Compression, GzipLevel};

    use super::{Flaw, header, ratio};

    /// A header: kind 0, `unpacked` and `packed` bytes, and what follows them.
    fn page(unpacked: &[u8], packed: &[u8], rest: &[u8]) -> Vec<u8> {
        [&[0x15, 0x00, 0x15], unpacked, &[0x15], packed, rest].concat()
    }

    fn flaw(bytes: &[u8], ratio: i64) -> String {
        match header(bytes, ratio) {
            Err(Flaw::Wrong(why)) => why,
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
            assert_eq!(header(&good[..end], 1), Err(Flaw::Short), "{end}");
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
        // A dictionary of 5 values in 16 bytes; values in encoding 6.
        assert!(
            flaw(&page(&[0x20], &[0x20], &[0x4c, 0x15, 0x0a, 0x15, 0x04, 0x00, 0x00]), 1)
                .contains("5 values")
        );
        assert!(
            flaw(&page(&[0x20], &[0x20], &[0x2c, 0x15, 0x04, 0x15, 0x0c, 0x00, 0x00]), 1).contains("way 6")
        );
    }

    /// A positive integer as Thrift writes it: the last bit for its sign, seven bits a byte.
    fn number(value: usize) -> Vec<u8> {
        let mut left = 2 * value;
        let mut bytes = Vec::new();
        while left > 0x7f {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
        bytes
    }

    #[test]
    fn labels_that_gzip_packs_best_are_read() {
        // A million of the same class.
        let labels = vec![0; 4_000_000];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&labels).unwrap();
        let packed = gzip.finish().unwrap().len();
        assert!(packed * 100 < labels.len(), "{packed} bytes");
        let bytes = page(&number(labels.len()), &number(packed), &[0]);
        assert_eq!(header(&bytes, ratio(Compression::GZIP(GzipLevel::default())).unwrap()), Ok(bytes.len()));
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
        assert_eq!(header(&page(&[0x20], &[0x20], &[0xf9, 0xa3, 1, 2]), 1), Err(Flaw::Short));
    }
}
