//! Thrift's compact protocol, in which Parquet describes itself: a structure is a list of numbered
//! fields, each a number, bytes, a list or a structure. Read as it stands; what the fields mean is
//! [`metadata`](super::metadata)'s.

/// Deepest nesting; Parquet's own structures have six levels.
const DEPTH: usize = 24;

/// A value, borrowing the bytes it was read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Flag(bool),
    Number(i64),
    Real(f64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Struct(Vec<(i16, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The field of a structure, where it is there.
    pub(super) fn field(&self, id: i16) -> Option<&Value<'a>> {
        let Value::Struct(fields) = self else { return None };
        fields.iter().find(|(found, _)| *found == id).map(|(_, value)| value)
    }

    pub(super) fn number(&self, id: i16) -> Option<i64> {
        match self.field(id)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self, id: i16) -> Option<&'a str> {
        match self.field(id)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(super) fn list(&self, id: i16) -> &[Value<'a>] {
        match self.field(id) {
            Some(Value::List(values)) => values,
            _ => &[],
        }
    }
}

/// Why bytes are no structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// They end too early.
    Short,
    /// They are something else.
    Wrong,
}

/// Reads a structure; also how many bytes it took.
pub(super) fn structure(bytes: &[u8]) -> Result<(Value<'_>, usize), Broken> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.structure(DEPTH)?;
    Ok((value, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let end = self.at.checked_add(count).ok_or(Broken::Wrong)?;
        let taken = self.bytes.get(self.at..end).ok_or(Broken::Short)?;
        self.at = end;
        Ok(taken)
    }

    /// Seven bits a byte, the lowest first.
    fn unsigned(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Broken::Wrong)
    }

    fn signed(&mut self) -> Result<i64, Broken> {
        let zigzag = self.unsigned()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn structure(&mut self, depth: usize) -> Result<Value<'a>, Broken> {
        let depth = depth.checked_sub(1).ok_or(Broken::Wrong)?;
        let (mut fields, mut id) = (Vec::new(), 0_i16);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(Value::Struct(fields));
            }
            id = match head >> 4 {
                0 => i16::try_from(self.signed()?).map_err(|_| Broken::Wrong)?,
                step => id.checked_add(i16::from(step)).ok_or(Broken::Wrong)?,
            };
            let value = match head & 15 {
                kind @ (1 | 2) => Value::Flag(kind == 1),
                kind => self.value(kind, depth)?,
            };
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<Value<'a>, Broken> {
        Ok(match kind {
            1 | 2 => Value::Flag(self.byte()? == 1), // in a list
            3 => Value::Number(i64::from(self.byte()? as i8)),
            4..=6 => Value::Number(self.signed()?),
            7 => {
                let bytes = self.take(8)?;
                Value::Real(f64::from_le_bytes(bytes.try_into().map_err(|_| Broken::Short)?))
            }
            8 => {
                let count = usize::try_from(self.unsigned()?).map_err(|_| Broken::Wrong)?;
                Value::Bytes(self.take(count)?)
            }
            9 | 10 => {
                let depth = depth.checked_sub(1).ok_or(Broken::Wrong)?;
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
                // No room is made beforehand: a list is as long as its bytes allow.
                let values = (0..count).map(|_| self.value(head & 15, depth));
                Value::List(values.collect::<Result<_, _>>()?)
            }
            12 => self.structure(depth)?,
            _ => return Err(Broken::Wrong), // maps: Parquet has none
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_read_field_by_field() {
        // 1: 100, 2: "ab", 4: [1, -1], 5: {1: true}, 40: 3
        let bytes =
            [0x15, 0xc8, 0x01, 0x18, 2, b'a', b'b', 0x29, 0x25, 2, 1, 0x1c, 0x11, 0, 0x05, 80, 6, 0, 9];
        let (value, taken) = structure(&bytes).unwrap();
        assert_eq!(taken, bytes.len() - 1);
        assert_eq!((value.number(1), value.text(2)), (Some(100), Some("ab")));
        assert_eq!(value.list(4), [Value::Number(1), Value::Number(-1)]);
        assert_eq!(value.field(5).unwrap().field(1), Some(&Value::Flag(true)));
        assert_eq!((value.number(40), value.number(3)), (Some(3), None));
        for end in 0..taken {
            assert_eq!(structure(&bytes[..end]), Err(Broken::Short), "{end}");
        }
    }

    #[test]
    fn claims_are_not_believed() {
        assert_eq!(structure(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]), Err(Broken::Short));
        assert_eq!(structure(&[0x18, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(Broken::Short));
        assert_eq!(structure(&[0x1c; 4000]), Err(Broken::Wrong));
        assert_eq!(structure(&[0x19; 4000]), Err(Broken::Wrong));
        assert_eq!(structure(&[0x1b, 0]), Err(Broken::Wrong));
    }
}
