//! What a Parquet file says of itself, walked over before the reader sees it. It is written in Thrift's compact
//! protocol, by which a few bytes can claim any number of elements, and the reader skips those of a list it
//! does not know without asking whether they are there. So nothing passes but fields of the types that
//! Parquet's own definition gives them, whose elements and bytes are all there.

/// Structures within structures; Parquet's own have seven.
const MAX_DEPTH: usize = 16;
/// Elements of one list; a file has as many columns and groups of rows.
const MAX_ELEMENTS: u64 = 1 << 20;

/// Why something was not walked over to its end.
#[derive(Debug, PartialEq)]
pub(super) enum Flaw {
    /// The bytes end before it does.
    Short,
    /// It is not what Parquet defines, or too much of it.
    Wrong(String),
}

/// The fields of a structure that lies under `path` (numbers of fields), a letter each from the first on: `b` a
/// truth value, `y` a byte, `n` a number, `d` a double, `s` bytes, `c` a structure; `N`, `S` and `C` lists of them.
/// Fields beyond them, of later versions, may be anything but maps and lists of truth values or of lists.
type Fields = fn(path: &[i16]) -> &'static [u8];

/// The description at a file's end (`FileMetaData`).
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
    [4] => b"CnnCnnn",                 // a group of rows
    [4, 1] => b"sncnnnncs",            // a column of it
    [4, 1, 3] => b"nNSnnnnCnnncCnncc", // where and how it lies
    [4, 1, 3, 8] | [5] => b"ss",       // a key and its value
    [4, 1, 3, 12] => STATISTICS,
    [4, 1, 3, 13] => b"nnn", // pages of an encoding
    [4, 1, 3, 16] => b"nNN", // sizes
    [4, 1, 3, 17] => b"cN",  // places on the globe
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

/// Hears every number, and the length of every list, with the numbers of the fields that lead to it; what it says
/// against one ends the walk.
pub(super) type OnField<'t> = dyn FnMut(&[i16], i64) -> Result<(), String> + 't;

/// Walks over the structure at the start of `bytes`; returns its length.
pub(super) fn walk(bytes: &[u8], fields: Fields, told: &mut OnField) -> Result<usize, Flaw> {
    let mut walk = Walk { rest: bytes, fields, told, path: Vec::new() };
    walk.structure()?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a, 't> {
    rest: &'a [u8],
    fields: Fields,
    told: &'t mut OnField<'t>,
    /// Numbers of the fields that lead here.
    path: Vec<i16>,
}

impl Walk<'_, '_> {
    fn skip(&mut self, bytes: u64) -> Result<(), Flaw> {
        let rest = usize::try_from(bytes).ok().and_then(|bytes| self.rest.get(bytes..));
        self.rest = rest.ok_or(Flaw::Short)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let (&first, rest) = self.rest.split_first().ok_or(Flaw::Short)?;
        self.rest = rest;
        Ok(first)
    }

    /// A number of 7 bits a byte, the lowest first.
    fn number(&mut self) -> Result<u64, Flaw> {
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

    fn wrong<T>(&self, what: &str) -> Result<T, Flaw> {
        Err(Flaw::Wrong(format!("its description is damaged: {what} at field {:?}", self.path)))
    }

    fn tell(&mut self, number: i64) -> Result<(), Flaw> {
        (self.told)(&self.path, number).map_err(Flaw::Wrong)
    }

    fn structure(&mut self) -> Result<(), Flaw> {
        if self.path.len() == MAX_DEPTH {
            return self.wrong("too deep a structure");
        }
        let defined = (self.fields)(&self.path);
        let mut field = 0;
        loop {
            // The distance to the field before in the upper half, its type in the lower.
            let head = self.byte()?;
            let (distance, code) = (i16::from(head >> 4), head & 0x0f);
            if code == 0 {
                return Ok(());
            }
            if distance == 0 {
                return self.wrong("a field out of turn"); // may repeat another one
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

    /// The letter of a type on the wire, as [`Fields`] has them; `l` for a list.
    fn letter(&self, code: u8) -> Result<u8, Flaw> {
        Ok(match code {
            1 | 2 => b'b',
            3 => b'y',
            4..=6 => b'n', // of 16, 32 or 64 bits: all are written alike
            7 => b'd',
            8 => b's',
            9 => b'l',
            12 => b'c',
            _ => return self.wrong("a type that Parquet has not"),
        })
    }

    /// What a field holds, by the letter that was found and the one that is defined.
    fn value(&mut self, found: u8, wanted: Option<u8>) -> Result<(), Flaw> {
        if wanted.is_some_and(|wanted| found != if wanted.is_ascii_uppercase() { b'l' } else { wanted }) {
            return self.wrong("another type than Parquet defines");
        }
        match found {
            b'b' => Ok(()), // it is told by the type
            b'y' => self.skip(1),
            b'd' => self.skip(8),
            b'n' => {
                let number = self.number()?;
                self.tell((number >> 1) as i64 ^ -((number & 1) as i64)) // the sign is the lowest bit
            }
            b's' => {
                let length = self.number()?;
                self.skip(length)
            }
            b'l' => self.list(wanted.map(|letter| letter.to_ascii_lowercase())),
            _ => self.structure(),
        }
    }

    fn list(&mut self, wanted: Option<u8>) -> Result<(), Flaw> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(()); // an empty list, as some write it
        }
        let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
        let letter = self.letter(head & 0x0f)?;
        if count > MAX_ELEMENTS || [b'b', b'l'].contains(&letter) {
            return self.wrong(&format!("a list of {count}"));
        }
        self.tell(count as i64)?;
        (0..count).try_for_each(|_| self.value(letter, wanted))
    }
}
