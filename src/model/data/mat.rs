//! MATLAB files of version 5 (MathWorks, "MAT-File Format", chapter 1): numbers, text, cells and
//! structures, plain or compressed, of either byte order. Declared sizes are checked against the bytes
//! that are there before memory is allocated.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// Most bytes of all compressed elements of a file together, once decompressed.
const BYTE_LIMIT: usize = 1 << 28;
/// How deep cells and structures may be nested.
const MAX_DEPTH: usize = 32;
/// Type of an element that holds an array (`miMATRIX`).
const MATRIX: u64 = 14;
/// Type of an element that holds another one, compressed (`miCOMPRESSED`).
const COMPRESSED: u64 = 15;

/// A MATLAB array, column-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Real numbers (the imaginary part is dropped) or logical values.
    Numbers(Vec<f64>),
    /// Text; the rows of a character matrix are separated by `\n`.
    Text(String),
    /// A cell array.
    Cells(Vec<Value>),
    /// A structure array: field names, and for every element its fields in that order.
    Structs(Vec<String>, Vec<Vec<Value>>),
    /// An array of a class that is not read: the class's number.
    Other(u8),
}

impl Value {
    /// The field `name` of element `i` of a structure array.
    pub fn field(&self, i: usize, name: &str) -> Option<&Value> {
        let Self::Structs(names, elements) = self else { return None };
        elements.get(i)?.get(names.iter().position(|field| field == name)?)
    }

    /// The number of an array that holds exactly one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Numbers(values) if values.len() == 1 => Some(values[0]),
            _ => None,
        }
    }

    /// The text of a character array.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Why bytes are no MATLAB file of version 5.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatError {
    #[error("is not a MATLAB version 5 file ({0}); save it in MATLAB with -v7")]
    Kind(&'static str),
    #[error("is truncated: {0} is longer than the file; download it again")]
    Short(&'static str),
    #[error("is damaged: {0}; download it again")]
    Broken(&'static str),
    #[error("expands to more than {BYTE_LIMIT} bytes, too many for an annotation file")]
    Bomb,
}

/// Reads the variables of a file, in the order of the file: their names and values.
pub fn read(bytes: &[u8]) -> Result<Vec<(String, Value)>, MatError> {
    if bytes.starts_with(b"\x89HDF") || bytes.get(512..516) == Some(b"\x89HDF") {
        return Err(MatError::Kind("it is HDF5, version 7.3"));
    }
    let little = match bytes.get(124..128) {
        Some([_, 1, b'I', b'M']) => true,
        Some([1, _, b'M', b'I']) => false,
        _ => return Err(MatError::Kind("its header is different")),
    };
    let mut stream = Stream { bytes: &bytes[128..], little };
    let mut left = BYTE_LIMIT;
    let mut variables = Vec::new();
    while !stream.bytes.is_empty() {
        let (kind, data) = stream.element()?;
        let mut unpacked = Vec::new();
        let (kind, data) = match kind {
            COMPRESSED => {
                // One byte more than allowed shows that the limit is exceeded.
                let most = left as u64 + 1;
                ZlibDecoder::new(data)
                    .take(most)
                    .read_to_end(&mut unpacked)
                    .map_err(|_| MatError::Broken("a compressed part cannot be decompressed"))?;
                left = left.checked_sub(unpacked.len()).ok_or(MatError::Bomb)?;
                Stream { bytes: &unpacked, little }.element()?
            }
            kind => (kind, data),
        };
        if kind == MATRIX {
            variables.push(Stream { bytes: data, little }.array(MAX_DEPTH)?);
        }
    }
    Ok(variables)
}

struct Stream<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl<'a> Stream<'a> {
    /// The unsigned integer of at most 8 bytes, in the file's byte order.
    fn uint(&self, bytes: &[u8]) -> u64 {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if self.little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], MatError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(MatError::Short(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next element: its type and its data. Tags are 8 bytes, or 4 followed by up to 4 bytes of data.
    fn element(&mut self) -> Result<(u64, &'a [u8]), MatError> {
        let tag = self.take(4, "a tag")?;
        let head = self.uint(tag);
        if head >> 16 != 0 {
            let data = self.take(4, "a short element")?;
            let data = data
                .get(..(head >> 16) as usize)
                .ok_or(MatError::Broken("a short element of over 4 bytes"))?;
            return Ok((head & 0xFFFF, data));
        }
        let count = self.take(4, "a tag")?;
        let count = self.uint(count) as usize;
        let data = self.take(count, "an element")?;
        // All but compressed elements are padded to 8 bytes; the last one may go without.
        if head != COMPRESSED {
            let padding = (8 - count % 8) % 8;
            self.bytes = self.bytes.get(padding..).unwrap_or_default();
        }
        Ok((head, data))
    }

    /// An array: flags, dimensions, name, then the data of its class. An empty array may have no bytes at all.
    fn array(&mut self, depth: usize) -> Result<(String, Value), MatError> {
        if self.bytes.is_empty() {
            return Ok((String::new(), Value::Numbers(Vec::new())));
        }
        let depth = depth.checked_sub(1).ok_or(MatError::Broken("arrays are nested too deeply"))?;
        let (_, flags) = self.element()?;
        let flags = self.uint(flags.get(..4).ok_or(MatError::Broken("an array has no flags"))?);
        let class = flags as u8;
        let (_, shape) = self.element()?;
        let shape: Vec<usize> = shape.chunks_exact(4).map(|dim| self.uint(dim) as usize).collect();
        let count = shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        let count = count.ok_or(MatError::Broken("an array has too many elements to count"))?;
        let (_, name) = self.element()?;
        let name = String::from_utf8_lossy(name).into_owned();
        let value = match class {
            1 => {
                self.check_room(count)?;
                Value::Cells((0..count).map(|_| self.inner(depth)).collect::<Result<_, _>>()?)
            }
            2 => self.structs(count, depth)?,
            4 => {
                let (kind, data) = self.element()?;
                Value::Text(self.characters(kind, data, &shape)?)
            }
            6..=15 => {
                let (kind, data) = self.element()?;
                Value::Numbers(self.numbers(kind, data)?)
            }
            other => Value::Other(other),
        };
        Ok((name, value))
    }

    fn inner(&mut self, depth: usize) -> Result<Value, MatError> {
        match self.element()? {
            (MATRIX, bytes) => Ok(Stream { bytes, little: self.little }.array(depth)?.1),
            _ => Err(MatError::Broken("an array was expected, something else was found")),
        }
    }

    /// Fails unless so many arrays can follow: each needs a tag of 8 bytes.
    fn check_room(&self, arrays: usize) -> Result<(), MatError> {
        if arrays > self.bytes.len() / 8 { Err(MatError::Short("an array of arrays")) } else { Ok(()) }
    }

    fn structs(&mut self, count: usize, depth: usize) -> Result<Value, MatError> {
        let (_, length) = self.element()?;
        let length =
            self.uint(length.get(..4).ok_or(MatError::Broken("a structure has no name length"))?) as usize;
        let (_, names) = self.element()?;
        if length == 0 {
            return Err(MatError::Broken("a structure's field names have no length"));
        }
        let names: Vec<String> = names
            .chunks_exact(length)
            .map(|name| {
                String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
            })
            .collect();
        if names.is_empty() {
            return Ok(Value::Structs(names, Vec::new()));
        }
        self.check_room(count.checked_mul(names.len()).ok_or(MatError::Short("a structure array"))?)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(names.iter().map(|_| self.inner(depth)).collect::<Result<_, _>>()?);
        }
        Ok(Value::Structs(names, elements))
    }

    /// Numbers are stored in the smallest type that holds them, whatever the array's class.
    fn numbers(&self, kind: u64, data: &[u8]) -> Result<Vec<f64>, MatError> {
        let size = match kind {
            1 | 2 => 1,
            3 | 4 => 2,
            5..=7 => 4,
            9 | 12 | 13 => 8,
            _ => return Err(MatError::Broken("numbers of an unknown kind")),
        };
        let value = |bytes: &[u8]| {
            let word = self.uint(bytes);
            match kind {
                1 => f64::from(word as i8),
                3 => f64::from(word as i16),
                5 => f64::from(word as i32),
                7 => f64::from(f32::from_bits(word as u32)),
                9 => f64::from_bits(word),
                12 => word as i64 as f64,
                _ => word as f64,
            }
        };
        Ok(data.chunks_exact(size).map(value).collect())
    }

    fn characters(&self, kind: u64, data: &[u8], shape: &[usize]) -> Result<String, MatError> {
        let letters: Vec<char> = match kind {
            // Types of one byte: UTF-8, or Latin-1 in old files.
            1 | 2 | 16 => match std::str::from_utf8(data) {
                Ok(text) => text.chars().collect(),
                Err(_) => data.iter().map(|byte| char::from(*byte)).collect(),
            },
            3 | 4 | 17 => {
                let units = data.chunks_exact(2).map(|unit| self.uint(unit) as u16);
                char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            5 | 6 | 18 => {
                let code = |unit: &[u8]| char::from_u32(self.uint(unit) as u32);
                data.chunks_exact(4).map(|unit| code(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
            }
            _ => return Err(MatError::Broken("text of an unknown kind")),
        };
        match shape {
            [0 | 1, ..] | [] => Ok(letters.into_iter().collect()),
            [rows, ..] => {
                let row = |r: usize| letters.iter().skip(r).step_by(*rows).collect::<String>();
                Ok((0..(*rows).min(letters.len())).map(row).collect::<Vec<_>>().join("\n"))
            }
        }
    }
}
