//! Validation of a Parquet file's metadata before the reader parses it. It is written in Thrift's compact
//! protocol, in which a few bytes can claim any number of elements, and the reader skips those of an unknown
//! list without checking that they are there. So only fields of the types that Parquet defines are accepted,
//! and only if all their elements and bytes are there.

/// Most levels of nested structures; Parquet's own have seven.
const MAX_DEPTH: usize = 16;
/// Most elements of one list, such as columns or row groups.
const MAX_ELEMENTS: u64 = 1 << 20;

/// Why a structure was not scanned to its end.
#[derive(Debug, PartialEq)]
pub(super) enum ScanError {
    /// The bytes end before the structure does.
    Short,
    /// The structure is not what Parquet defines, or too large.
    Wrong(String),
}

/// The fields of the structure at `path` (field numbers from the root), one letter per field from number 1: `b` a
/// boolean, `y` a byte, `n` an integer, `d` a double, `s` bytes, `c` a structure; `N`, `S` and `C` lists of them.
/// Fields after them, of later versions, may have any type but maps and lists of booleans or of lists.
type Fields = fn(path: &[i16]) -> &'static [u8];

/// The metadata at a file's end (`FileMetaData`).
pub(super) const FILE: Fields = |path| match path {
    [] => b"nCnCCsCcs",
    [2] => b"nnnsnnnnnc",              // a column
    [2, 10] => b"cccccccccccccccccc",  // its logical type
    [2, 10, 5] => b"nn",               // decimal
    [2, 10, 7 | 8] => b"bc",           // time
    [2, 10, 7 | 8, 2] => b"ccc",       // its unit
    [2, 10, 10] => b"yb",              // integer
    [2, 10, 16] => b"y",               // variant
    [2, 10, 17] => b"s",               // geometry
    [2, 10, 18] => b"sn",              // geography
    [4] => b"CnnCnnn",                 // a row group
    [4, 1] => b"sncnnnncs",            // its column chunk
    [4, 1, 3] => b"nNSnnnnCnnncCnncc", // its metadata
    [4, 1, 3, 8] | [5] => b"ss",       // a key and its value
    [4, 1, 3, 12] => STATISTICS,
    [4, 1, 3, 13] => b"nnn", // pages of an encoding
    [4, 1, 3, 16] => b"nNN", // sizes
    [4, 1, 3, 17] => b"cN",  // geospatial statistics
    [4, 1, 3, 17, 1] => b"dddddddd",
    [4, 4] => b"nbb", // how rows are sorted
    [7] => b"cc",     // how values are compared
    _ => b"",
};

/// The header of a page (`PageHeader`).
pub(super) const PAGE: Fields = |path| match path {
    [] => b"nnnncccc",
    [5] => b"nnnnc",    // of data
    [7] => b"nnb",      // of a dictionary
    [8] => b"nnnnnnbc", // of data, version 2
    [5, 5] | [8, 8] => STATISTICS,
    _ => b"",
};

const STATISTICS: &[u8] = b"ssnnssbb";

/// Called with every integer, and the length of every list, and its path of field numbers; an error ends the scan.
pub(super) type OnField<'t> = dyn FnMut(&[i16], i64) -> Result<(), String> + 't;

/// Scans the structure at the start of `bytes`; returns its length in bytes.
pub(super) fn scan(bytes: &[u8], fields: Fields, on_field: &mut OnField) -> Result<usize, ScanError> {
    let mut scanner = Scanner { rest: bytes, fields, on_field, path: Vec::new() };
    scanner.structure()?;
    Ok(bytes.len() - scanner.rest.len())
}

struct Scanner<'a, 't> {
    rest: &'a [u8],
    fields: Fields,
    on_field: &'t mut OnField<'t>,
    /// Field numbers from the root to the current field.
    path: Vec<i16>,
}

impl Scanner<'_, '_> {
    fn skip(&mut self, bytes: u64) -> Result<(), ScanError> {
        let rest = usize::try_from(bytes).ok().and_then(|bytes| self.rest.get(bytes..));
        self.rest = rest.ok_or(ScanError::Short)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, ScanError> {
        let (&first, rest) = self.rest.split_first().ok_or(ScanError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// A variable-length integer: 7 bits per byte, the lowest first.
    fn varint(&mut self) -> Result<u64, ScanError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.wrong("a number of more than 64 bits")
    }

    fn wrong<T>(&self, what: &str) -> Result<T, ScanError> {
        Err(ScanError::Wrong(format!("its metadata is damaged: {what} at field {:?}", self.path)))
    }

    fn report(&mut self, number: i64) -> Result<(), ScanError> {
        (self.on_field)(&self.path, number).map_err(ScanError::Wrong)
    }

    fn structure(&mut self) -> Result<(), ScanError> {
        if self.path.len() == MAX_DEPTH {
            return self.wrong("a structure nested too deeply");
        }
        let defined = (self.fields)(&self.path);
        let mut field = 0;
        loop {
            // The difference to the previous field's number in the upper half, the type in the lower.
            let head = self.byte()?;
            let (distance, code) = (i16::from(head >> 4), head & 0x0f);
            if code == 0 {
                return Ok(());
            }
            if distance == 0 {
                return self.wrong("a field out of order"); // it could repeat another one
            }
            field = match i16::checked_add(field, distance) {
                Some(field) => field,
                None => return self.wrong("too many fields"),
            };
            self.path.push(field);
            let wanted = defined.get(field as usize - 1).copied();
            self.value(self.letter(code)?, wanted)?;
            self.path.pop();
        }
    }

    /// The letter of [`Fields`] for a type on the wire; `l` for a list.
    fn letter(&self, code: u8) -> Result<u8, ScanError> {
        Ok(match code {
            1 | 2 => b'b',
            3 => b'y',
            4..=6 => b'n', // of 16, 32 or 64 bits, all encoded alike
            7 => b'd',
            8 => b's',
            9 => b'l',
            12 => b'c',
            _ => return self.wrong("a type unknown to Parquet"),
        })
    }

    /// Scans the value of a field whose type on the wire is `found` and by definition `wanted`, if that is known.
    fn value(&mut self, found: u8, wanted: Option<u8>) -> Result<(), ScanError> {
        if wanted.is_some_and(|wanted| found != if wanted.is_ascii_uppercase() { b'l' } else { wanted }) {
            return self.wrong("another type than Parquet defines");
        }
        match found {
            b'b' => Ok(()), // the type on the wire is its value
            b'y' => self.skip(1),
            b'd' => self.skip(8),
            b'n' => {
                let number = self.varint()?;
                self.report((number >> 1) as i64 ^ -((number & 1) as i64)) // zigzag encoding
            }
            b's' => {
                let length = self.varint()?;
                self.skip(length)
            }
            b'l' => self.list(wanted.map(|letter| letter.to_ascii_lowercase())),
            _ => self.structure(),
        }
    }

    fn list(&mut self, wanted: Option<u8>) -> Result<(), ScanError> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(()); // some writers encode an empty list so
        }
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        let letter = self.letter(head & 0x0f)?;
        if count > MAX_ELEMENTS || [b'b', b'l'].contains(&letter) {
            return self.wrong(&format!("a list of {count}"));
        }
        self.report(count as i64)?;
        (0..count).try_for_each(|_| self.value(letter, wanted))
    }
}
