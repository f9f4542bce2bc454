//! Order files: the order in which the tokens are read, as a NumPy archive with an array `order` `[N]` (or that array
//! alone, `.npy`), or as CSV with one column `order`. Entry `k` is the token read at step `k`, tokens numbered row by
//! row from 0. Numbers of any type are accepted if they are whole.

use std::io::{Cursor, Read as _};
use std::path::Path;

use zip::ZipArchive;

use super::grid::MAX_TOKENS;
use super::hand_order::{HandOrder, NoOrderError};
use super::io::{atomic_file, npz};

/// The name of the array, and of the column.
const NAME: &str = "order";
/// Largest order file, in bytes: room for far more than a million tokens.
const MAX_FILE_BYTES: u64 = 1 << 26;
/// The first bytes of a `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// The advice in errors about a file that is not an order file.
const REMEDY: &str = "write it with `numpy.savez(FILE, order=order)`, or as CSV with one token per line";
/// The advice in errors about a table of numbers, which may be the step at which each token of the grid is read.
const OF_A_MAP: &str = "of a map of positions, the order is `positions.ravel().argsort()`";

/// Why an order file could not be read or written.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum OrderFileError {
    #[error("{file}: the order cannot be read: {source}; check the path and its permissions")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: the order cannot be written: {source}")]
    Write { file: String, source: std::io::Error },
    #[error("{file}: is not an order file: {found}; {REMEDY}")]
    Format { file: String, found: String },
    #[error("{file}: is not an order: {source}; correct the file")]
    Order { file: String, source: NoOrderError },
}

/// Reads an order file.
pub fn read(path: &Path) -> Result<HandOrder, OrderFileError> {
    let bytes = atomic_file::read(path, MAX_FILE_BYTES)
        .map_err(|source| OrderFileError::Read { file: path.display().to_string(), source })?;
    parse(&bytes, path)
}

/// Reads the bytes of an order file; `path` names it in errors.
pub fn parse(bytes: &[u8], path: &Path) -> Result<HandOrder, OrderFileError> {
    let file = || path.display().to_string();
    let numbers = match bytes {
        [b'P', b'K', ..] => archive(bytes).and_then(|array| npy(&array)),
        _ if bytes.starts_with(MAGIC) => npy(bytes),
        _ => text(bytes),
    };
    let order = numbers.and_then(|numbers| tokens(&numbers));
    let order = order.map_err(|found| OrderFileError::Format { file: file(), found })?;
    let wrong = |source| OrderFileError::Order { file: file(), source };
    let last = order.len().saturating_sub(1);
    // A token that does not fit `u32` is out of range like any other.
    if let Some((step, &token)) = order.iter().enumerate().find(|(_, token)| u32::try_from(**token).is_err())
    {
        return Err(wrong(NoOrderError::Range { step, token, last }));
    }
    let order: Vec<u32> = order.into_iter().map(|token| token as u32).collect();
    Ok(HandOrder::new(order).map_err(wrong)?.of_file(path))
}

/// Writes an order file atomically: CSV if the name ends in `.csv`, else a NumPy archive.
pub fn write(path: &Path, order: &HandOrder) -> Result<(), OrderFileError> {
    let failed = |source| OrderFileError::Write { file: path.display().to_string(), source };
    let csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    let bytes = match csv {
        true => {
            order.tokens().iter().fold(format!("{NAME}\n"), |text, token| text + &format!("{token}\n")).into()
        }
        false => {
            let tokens: Vec<i64> = order.tokens().iter().map(|&token| token.into()).collect();
            npz::bytes_of_int64(NAME, &tokens).map_err(|error| failed(std::io::Error::other(error)))?
        }
    };
    atomic_file::write(path, &bytes).map_err(failed)
}

/// `numbers` as integers; the error names the first that is not whole.
fn tokens(numbers: &[f64]) -> Result<Vec<i64>, String> {
    if numbers.len() > MAX_TOKENS {
        return Err(format!("it has {} numbers, expected at most {MAX_TOKENS}", numbers.len()));
    }
    let whole = |(step, &x): (usize, &f64)| match x.fract() == 0.0 && x.abs() < 1e15 {
        true => Ok(x as i64),
        false => Err(format!("step {step} reads token {x}, expected a whole number")),
    };
    numbers.iter().enumerate().map(whole).collect()
}

/// The entry `order.npy` of a NumPy archive.
fn archive(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let broken = |error: zip::result::ZipError| format!("its archive is damaged ({error})");
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let wanted = format!("{NAME}.npy");
    let found: Vec<String> =
        archive.file_names().take(8).flatten().map(|name| name.replace(".npy", "")).collect();
    let Some(place) = archive.index_for_name(&wanted) else {
        return Err(format!("it has the arrays {}, expected `{NAME}`", found.join(", ")));
    };
    let mut array = Vec::new();
    let mut entry = archive.by_index(place).map_err(broken)?.take(MAX_FILE_BYTES);
    entry.read_to_end(&mut array).map_err(|error| format!("its archive is damaged ({error})"))?;
    Ok(array)
}

/// The numbers of a `.npy` array with one axis.
fn npy(bytes: &[u8]) -> Result<Vec<f64>, String> {
    let damaged = || "its array is damaged".to_owned();
    let version = *bytes.strip_prefix(MAGIC).ok_or_else(damaged)?.first().ok_or_else(damaged)?;
    // The magic, two bytes of version, then the header's length: two bytes in version 1, four in later ones.
    let (start, length): (usize, usize) = match (version, bytes.get(8..12)) {
        (1, Some(&[a, b, ..])) => (10, usize::from(u16::from_le_bytes([a, b]))),
        (2 | 3, Some(&[a, b, c, d])) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
        _ => return Err(damaged()),
    };
    let header =
        bytes.get(start..start.saturating_add(length)).and_then(|header| std::str::from_utf8(header).ok());
    let header = header.ok_or_else(damaged)?;
    let value = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([':', ' ']));
    let shape =
        value("'shape'").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).ok_or_else(damaged)?.0;
    let axes: Vec<&str> = shape.split(',').map(str::trim).filter(|axis| !axis.is_empty()).collect();
    let [axis] = axes[..] else {
        return Err(format!("its array has the shape ({shape}), expected one axis (N,); {OF_A_MAP}"));
    };
    let count: usize = axis.parse().map_err(|_| damaged())?;
    let kind =
        value("'descr'").and_then(|rest| rest.strip_prefix('\'')?.split_once('\'')).ok_or_else(damaged)?.0;
    let data = &bytes[start + length..];
    let width =
        kind.trim_start_matches(['<', '|', '>', '=']).get(1..).and_then(|width| width.parse::<usize>().ok());
    let width = width.filter(|width| (1..=8).contains(width)).unwrap_or(0);
    if width > 0 && count.checked_mul(width) != Some(data.len()) {
        return Err(format!("its array has {} bytes, expected {count} numbers of {width} each", data.len()));
    }
    macro_rules! numbers {
        ($type:ty) => {
            data.as_chunks().0.iter().map(|bytes| <$type>::from_le_bytes(*bytes) as f64).collect()
        };
    }
    Ok(match kind {
        "<i8" => numbers!(i64),
        "<i4" => numbers!(i32),
        "<i2" => numbers!(i16),
        "|i1" => numbers!(i8),
        "<u8" => numbers!(u64),
        "<u4" => numbers!(u32),
        "<u2" => numbers!(u16),
        "|u1" => numbers!(u8),
        "<f8" => numbers!(f64),
        "<f4" => numbers!(f32),
        _ => return Err(format!("its array is of type {kind}, expected whole numbers as int64 (<i8)")),
    })
}

/// The numbers of a text, one per line or separated by commas; the first may be preceded by the column's name.
fn text(bytes: &[u8]) -> Result<Vec<f64>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is neither a NumPy file nor text".to_owned())?;
    let lines = text.trim_start_matches('\u{feff}').split(['\n', '\r']);
    let mut all = lines.clone().flat_map(words).peekable();
    let named = all.next_if(|word| word.eq_ignore_ascii_case(NAME)).is_some();
    let number = |(step, word): (usize, &str)| {
        let shown: String = word.chars().take(40).collect();
        word.parse().map_err(|_| format!("step {step} reads `{shown}`, expected a whole number"))
    };
    let numbers = all.enumerate().map(number).collect::<Result<_, _>>()?;
    let lengths = lines.map(|line| words(line).count()).filter(|length| *length > 0).skip(named.into());
    let (rows, columns) = (lengths.clone().count(), lengths.clone().next().unwrap_or(0));
    if rows > 1 && columns > 1 && lengths.clone().all(|length| length == columns) {
        return Err(format!("it has {rows} lines of {columns} numbers, expected one per line; {OF_A_MAP}"));
    }
    Ok(numbers)
}

/// The words of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([',', ';', '\t', ' ']).map(|word| word.trim_matches('"')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `.npy` file, version 1, with any type, shape and data.
    fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
    }

    fn error(bytes: &[u8]) -> String {
        parse(bytes, Path::new("mine.npz")).unwrap_err().to_string()
    }

    #[test]
    fn numbers_of_any_type_are_read() {
        let tokens = [2u8, 0, 1];
        let as_ = |descr: &str, bytes: Vec<u8>| parse(&array(descr, "(3,)", &bytes), Path::new("a.npy"));
        let found = [
            as_("|u1", tokens.to_vec()),
            as_("<i8", tokens.iter().flat_map(|&t| i64::from(t).to_le_bytes()).collect()),
            as_("<i4", tokens.iter().flat_map(|&t| i32::from(t).to_le_bytes()).collect()),
            as_("<f4", tokens.iter().flat_map(|&t| f32::from(t).to_le_bytes()).collect()),
            as_("<f8", tokens.iter().flat_map(|&t| f64::from(t).to_le_bytes()).collect()),
            parse(b"\xef\xbb\xbforder\r\n2\r\n0\r\n1\r\n", Path::new("a.csv")),
            parse(b"2, 0, 1", Path::new("a.csv")),
            parse(b"order\n2,0,1\n", Path::new("a.csv")),
            parse(b"2, 0,\n1\n", Path::new("a.csv")),
            parse(b"2.0\n0\n1e0\n", Path::new("a.csv")),
        ];
        for (at, order) in found.into_iter().enumerate() {
            assert_eq!(order.unwrap_or_else(|error| panic!("{at}: {error}")).tokens(), [2, 0, 1], "{at}");
        }
        let all: Vec<u8> = (0..=255).rev().collect();
        let order = parse(&array("|u1", "(256,)", &all), Path::new("a.npy")).unwrap();
        assert!(order.tokens().iter().copied().eq((0..256).rev()), "none is negative");
    }

    #[test]
    fn what_is_wrong_is_named_with_the_file_and_what_to_do() {
        for (bytes, said) in [
            (&b"0\n1\n1\n"[..], "token 1 is read twice, at steps 1 and 2, and token 2 never"),
            (b"0\n3\n1\n", "step 1 reads token 3, expected tokens from 0 to 2, as it has 3 steps"),
            (b"0\n-1\n1\n", "step 1 reads token -1, expected tokens from 0 to 2"),
            (b"0\n99999999999\n1\n", "step 1 reads token 99999999999, expected tokens from 0"),
            (b"0\n1.5\n1\n", "step 1 reads token 1.5, expected a whole number"),
            (b"0\nnan\n1\n", "step 1 reads token NaN, expected a whole number"),
            (b"order\n0\nlast\n", "step 1 reads `last`, expected a whole number"),
            (
                b"order\n0,1\r\n3,2\r\n",
                "it has 2 lines of 2 numbers, expected one per line; of a map of positions",
            ),
            (b"", "it has 0 tokens, expected at least 2"),
            (b"0\n", "it has 1 tokens, expected at least 2"),
            (b"\xff\xfe\x00", "it is neither a NumPy file nor text"),
            (
                &array("<i8", "(1, 2)", &[0; 16]),
                "its array has the shape (1, 2), expected one axis (N,); of a map of positions",
            ),
            (&array("<i8", "(3,)", &[0; 16]), "its array has 16 bytes, expected 3 numbers of 8 each"),
            (&array("<c16", "(3,)", &[0; 48]), "its array is of type <c16, expected whole numbers"),
            (&array("<f8", "(2,)", &[0.0, 0.5].map(f64::to_le_bytes).concat()), "step 1 reads token 0.5"),
            (MAGIC, "its array is damaged"),
            (b"PK\x03\x04", "its archive is damaged"),
        ] {
            let error = error(bytes);
            assert!(error.contains(said) && error.starts_with("mine.npz: "), "{error}");
            assert!(error.contains("correct the file") || error.contains("numpy.savez"), "{error}");
        }
    }

    #[test]
    fn no_more_of_an_archive_is_unpacked_than_a_file_may_have() {
        use std::io::Write as _;
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zip.start_file("order.npy", options).unwrap();
        zip.write_all(&array("<i8", "(8388608,)", &vec![0; MAX_FILE_BYTES as usize])).unwrap();
        let error = error(&zip.finish().unwrap().into_inner());
        assert!(error.contains("bytes, expected 8388608 numbers of 8 each"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let order = HandOrder::new(vec![3, 1, 0, 2]).unwrap();
        for name in ["mine.npz", "mine.csv", "mine.CSV", "mine"] {
            let path = folder.path().join(name);
            write(&path, &order).unwrap();
            let found = read(&path).unwrap();
            assert_eq!((found.tokens(), found.file()), (order.tokens(), Some(name)));
        }
        for name in ["mine.csv", "mine.CSV"] {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(text, "order\n3\n1\n0\n2\n");
        }
        let absent = folder.path().join("no").join("mine.npz");
        assert!(
            write(&absent, &order).unwrap_err().to_string().contains("mine.npz: the order cannot be written")
        );
        assert!(read(&absent).unwrap_err().to_string().contains("mine.npz: the order cannot be read"));
        let other = folder.path().join("other.npz");
        std::fs::write(&other, npz::bytes_of_int64("plan", &[1, 0]).unwrap()).unwrap();
        assert!(read(&other).unwrap_err().to_string().contains("it has the arrays plan, expected `order`"));
    }
}
