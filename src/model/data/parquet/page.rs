//! The pages of one column in one row group: headers one after another, and the values of a page.
//! Values stand plainly or as numbers into a dictionary page; which of them are absent stands before
//! them as levels. Snappy, gzip and no compression are read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::metadata::{Chunk, Kind, Leaf};
use super::thrift::{self, Broken};

/// Most bytes of one page, unpacked. Writers close a page at a megabyte; only an image that is larger
/// makes a larger one.
const PAGE_LIMIT: i64 = 1 << 28;
/// Bytes of a header: most have less than the first; statistics may make them longer.
const HEADER: [usize; 3] = [512, 1 << 14, 1 << 20];

/// A page's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub dictionary: bool,
    /// Number of values, absent ones counted.
    pub values: usize,
    encoding: i64,
    start: u64,
    packed: usize,
    unpacked: usize,
    /// Bytes of the levels, which later versions keep apart and never pack.
    levels: Option<usize>,
    compressed: bool,
}

/// The values of a page.
pub(super) enum Values {
    /// One after another.
    Plain(Vec<u8>),
    /// Numbers into the dictionary.
    Numbers(Vec<u32>),
}

/// Walks over the pages of a chunk.
pub(super) struct Pages<'a> {
    file: File,
    chunk: &'a Chunk,
    leaf: &'a Leaf,
    rows: usize,
    at: u64,
}

impl<'a> Pages<'a> {
    pub(super) fn open(path: &Path, chunk: &'a Chunk, leaf: &'a Leaf, rows: usize) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        Ok(Self { file, chunk, leaf, rows, at: chunk.start })
    }

    fn bytes(&mut self, start: u64, count: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; count];
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| error.to_string()).map(|()| bytes)
    }

    /// The next page with values, or the dictionary.
    pub(super) fn next(&mut self) -> Result<Option<Page>, String> {
        loop {
            let left = usize::try_from(self.chunk.end - self.at).map_err(|_| "it is too large")?;
            if left == 0 {
                return Ok(None);
            }
            let header = HEADER.iter().find_map(|&most| {
                let bytes = match self.bytes(self.at, most.min(left)) {
                    Ok(bytes) => bytes,
                    Err(why) => return Some(Err(why)),
                };
                match thrift::structure(&bytes) {
                    Err(Broken::Short) if most < left => None,
                    Err(_) => Some(Err("a page's header is damaged".to_owned())),
                    Ok((header, taken)) => Some(Ok((page(&header, self.at, taken, left), taken))),
                }
            });
            let (page, taken) = header.ok_or("a page's header is longer than any")??;
            let (page, packed) = page?;
            self.at += (taken + packed) as u64;
            if page.is_some_and(|page| page.values > self.rows) {
                return Err("a page claims more values than there are rows".into());
            }
            if page.is_some() {
                return Ok(page);
            }
        }
    }

    /// For every value of a page whether it is there (nothing where all must be), and those there.
    pub(super) fn read(&mut self, page: &Page) -> Result<(Option<Vec<bool>>, Values), String> {
        let packed = self.bytes(page.start, page.packed)?;
        let cut = || "a page is shorter than it says".to_owned();
        let (levels, values) = match page.levels {
            Some(count) => {
                let levels = packed.get(..count).ok_or_else(cut)?.to_vec();
                let left = page.unpacked.checked_sub(count).ok_or_else(cut)?;
                let codec = if page.compressed { self.chunk.codec } else { 0 };
                (levels, unpack(codec, &packed[count..], left)?)
            }
            None => {
                let mut all = unpack(self.chunk.codec, &packed, page.unpacked)?;
                if self.leaf.level == 0 || page.dictionary {
                    (Vec::new(), all)
                } else {
                    let count = all.get(..4).ok_or_else(cut)?;
                    let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
                    let values =
                        all.split_off(count.checked_add(4).filter(|&at| at <= all.len()).ok_or_else(cut)?);
                    (all.split_off(4), values)
                }
            }
        };
        let present = (self.leaf.level > 0 && !page.dictionary)
            .then(|| {
                let levels = runs(&levels, 32 - self.leaf.level.leading_zeros(), page.values)?;
                Ok::<_, String>(levels.into_iter().map(|level| level == self.leaf.level).collect::<Vec<_>>())
            })
            .transpose()?;
        let there =
            present.as_ref().map_or(page.values, |present| present.iter().filter(|&&there| there).count());
        let values = match page.encoding {
            0 => Values::Plain(values),
            2 if page.dictionary => Values::Plain(values),
            2 | 8 if there == 0 => Values::Numbers(Vec::new()),
            2 | 8 => {
                let (width, numbers) = values.split_first().ok_or_else(cut)?;
                Values::Numbers(runs(numbers, u32::from(*width), there)?)
            }
            other => {
                return Err(format!(
                    "its values are in encoding {other}; plain ones and dictionaries are read: write it again with them"
                ));
            }
        };
        Ok((present, values))
    }
}

/// A page from its header, and its packed size; no page where there are no values in it.
fn page(header: &thrift::Value, at: u64, taken: usize, left: usize) -> Result<(Option<Page>, usize), String> {
    let broken = || "a page's header is damaged".to_owned();
    let unpacked = header.number(2).ok_or_else(broken)?;
    if !(0..=PAGE_LIMIT).contains(&unpacked) {
        return Err(format!("a page claims to unpack to {unpacked} bytes; up to {PAGE_LIMIT} are read"));
    }
    let packed = header.number(3).and_then(|packed| usize::try_from(packed).ok());
    let packed = packed.filter(|&packed| packed <= left - taken).ok_or_else(broken)?;
    let (about, encoding, later) = match header.number(1) {
        Some(0) => (header.field(5), 2, false),
        Some(2) => (header.field(7), 2, false),
        Some(3) => (header.field(8), 4, true),
        _ => return Ok((None, packed)),
    };
    let about = about.ok_or_else(broken)?;
    let count = |id: i16| about.number(id).and_then(|n| usize::try_from(n).ok());
    let levels = match later {
        true => Some(count(5).zip(count(6)).and_then(|(a, b)| a.checked_add(b)).ok_or_else(broken)?),
        false => None,
    };
    let page = Page {
        dictionary: header.number(1) == Some(2),
        values: count(1).ok_or_else(broken)?,
        encoding: about.number(encoding).ok_or_else(broken)?,
        start: at + taken as u64,
        packed,
        unpacked: unpacked as usize,
        levels,
        compressed: about.field(7) != Some(&thrift::Value::Flag(false)),
    };
    Ok((Some(page), packed))
}

fn unpack(codec: i64, packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let unpacked = match codec {
        0 => packed.to_vec(),
        1 => {
            let said = snap::raw::decompress_len(packed).map_err(|error| error.to_string())?;
            if said != size {
                return Err(format!("a page unpacks to {said} bytes instead of {size}"));
            }
            snap::raw::Decoder::new().decompress_vec(packed).map_err(|error| error.to_string())?
        }
        2 => {
            let mut out = Vec::new();
            let reader = flate2::read::MultiGzDecoder::new(packed);
            reader.take(size as u64 + 1).read_to_end(&mut out).map_err(|error| error.to_string())?;
            out
        }
        other => {
            let name = ["LZO", "Brotli", "LZ4", "Zstandard", "LZ4"].get((other - 3).max(0) as usize);
            return Err(format!(
                "it is packed with {}; Snappy, gzip or nothing are read: write it again with one of them",
                name.map_or(format!("codec {other}"), ToString::to_string)
            ));
        }
    };
    if unpacked.len() == size {
        Ok(unpacked)
    } else {
        Err("a page unpacks to another size than it says".into())
    }
}

/// `count` numbers of `width` bits, in runs: one number many times, or groups of eight, packed.
fn runs(bytes: &[u8], width: u32, count: usize) -> Result<Vec<u32>, String> {
    let broken = || "a page's levels or numbers are damaged".to_owned();
    if width > 32 {
        return Err(broken());
    }
    let (mut out, mut at) = (Vec::new(), 0);
    let whole = width.div_ceil(8) as usize;
    while out.len() < count {
        let mut head = 0_u64;
        for shift in (0..).step_by(7) {
            let byte = *bytes.get(at).filter(|_| shift < 35).ok_or_else(broken)?;
            at += 1;
            head |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        let left = count - out.len();
        if head & 1 == 0 {
            let number = bytes.get(at..at + whole).ok_or_else(broken)?;
            at += whole;
            let number = number.iter().rev().fold(0, |sum: u32, &byte| sum << 8 | u32::from(byte));
            let times = (head >> 1) as usize;
            if times == 0 {
                return Err(broken());
            }
            out.extend(std::iter::repeat_n(number, times.min(left)));
        } else {
            let groups = (head >> 1) as usize;
            let size = groups.checked_mul(width as usize).filter(|_| groups > 0).ok_or_else(broken)?;
            // The last run may be cut where its values end.
            let packed = &bytes[at..at.saturating_add(size).min(bytes.len())];
            at += packed.len();
            let take = groups.saturating_mul(8).min(left);
            if packed.len() * 8 < take * width as usize {
                return Err(broken());
            }
            let bit = |i: usize| u32::from(packed[i / 8] >> (i % 8) & 1);
            let w = width as usize;
            out.extend((0..take).map(|k| (0..w).fold(0, |sum, b| sum | bit(k * w + b) << b)));
        }
    }
    Ok(out)
}

/// The plain values in some bytes, one by one.
pub(super) fn plain(bytes: &[u8], kind: Kind) -> impl Iterator<Item = Result<&[u8], String>> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let cut = || Some(Err("a value is cut short".to_owned()));
        let (head, size) = match kind {
            Kind::Int32 => (0, 4),
            Kind::Int64 => (0, 8),
            Kind::Bytes | Kind::Other => match left.get(..4) {
                Some(size) => (4, u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize),
                None => {
                    left = &[];
                    return cut();
                }
            },
        };
        let Some(value) = left.get(head..).and_then(|rest| rest.get(..size)) else {
            left = &[];
            return cut();
        };
        left = &left[head + size..];
        Some(Ok(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_repeated_and_packed_numbers() {
        // Five times 3; then the eight numbers 0 to 7 in three bits, as the format's own example.
        let bytes = [10, 3, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(runs(&bytes, 3, 13).unwrap(), [3, 3, 3, 3, 3, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(runs(&bytes, 3, 2).unwrap(), [3, 3]);
        assert!(runs(&bytes, 3, 14).is_err());
        assert!(runs(&bytes[..4], 3, 13).is_err());
        assert!(runs(&[0, 0, 0, 0], 1, 9).is_err());
        assert_eq!(runs(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 1], 1, 3).unwrap(), [1; 3]);
    }

    #[test]
    fn plain_values_end_where_they_are_cut() {
        let bytes = [2, 0, 0, 0, b'a', b'b', 1, 0, 0, 0];
        let found: Vec<_> = plain(&bytes, Kind::Bytes).collect();
        assert_eq!(found[0], Ok(&b"ab"[..]));
        assert!(found[1].is_err() && found.len() == 2);
        assert_eq!(plain(&[1, 0, 0, 0], Kind::Int32).next(), Some(Ok(&[1, 0, 0, 0][..])));
    }
}
