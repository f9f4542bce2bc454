//! What stands between two programs on a pipe, message by message:
//!
//! ```text
//! length of the body   u32, little-endian, at most LARGEST
//! packing              u8: 0 as it is, 1 raw deflate
//! body                 one value as CBOR
//! ```
//!
//! CBOR (`ciborium`, which burn brings already) names its fields as JSON does. That is needed: traces and surveys leave
//! out what is empty, and tell variants apart by what they hold, which a format without names (postcard) cannot read
//! back. Pictures, matrices and files are one block of bytes each ([`block`](crate::model::io::block)).

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a body, packed or not: the plan of 16,384 tokens.
pub const LARGEST: usize = 1 << 30;
/// Shorter bodies are not packed.
const SHORT: usize = 1 << 12;
/// So much of a longer one is packed to see what it comes to.
const SAMPLE: usize = 1 << 14;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The pipe fails.
    #[error("the connection fails: {0}")]
    Io(#[from] io::Error),
    /// It ended within a message.
    #[error("the connection ends in the middle of a message")]
    Torn,
    /// It is too long.
    #[error("a message of {found} bytes, expected at most {LARGEST}")]
    Large {
        /// How long it is said to be.
        found: usize,
    },
    /// It is none of ours.
    #[error("a message that cannot be read: {found}")]
    Damaged {
        /// What is wrong with it.
        found: String,
    },
    /// It holds what cannot be written down, as a path that is no text.
    #[error("a message that cannot be written: {found}")]
    Unwritable {
        /// What.
        found: String,
    },
    /// Something else than this program speaks.
    #[error("something else than this program speaks: {found}")]
    Foreign {
        /// What it says.
        found: String,
    },
    /// The programs do not understand each other.
    #[error("protocol {found} of version {version}")]
    Protocol {
        /// The other side's protocol.
        found: u32,
        /// The other side's version.
        version: String,
    },
}

/// Writes a message, packed where that is wanted and pays.
///
/// # Errors
/// If the pipe fails, or the value cannot be written down: then nothing was written.
pub fn write(to: &mut impl Write, value: &impl Serialize, pack: bool) -> Result<(), FrameError> {
    let mut body = Vec::new();
    ciborium::into_writer(value, &mut body)
        .map_err(|error| FrameError::Unwritable { found: error.to_string() })?;
    if body.len() > LARGEST {
        let found = format!("it has {} bytes, {LARGEST} are the most", body.len());
        return Err(FrameError::Unwritable { found });
    }
    let packed = match pack && body.len() > SHORT && packed(&body[..body.len().min(SAMPLE)])?.1 {
        true => Some(packed(&body)?.0),
        false => None,
    };
    let (packing, body) = packed.map_or((0, body), |packed| (1, packed));
    to.write_all(&(body.len() as u32).to_le_bytes())?;
    to.write_all(&[packing])?;
    Ok(to.write_all(&body)?)
}

/// Bytes packed, and whether that saves a quarter.
fn packed(bytes: &[u8]) -> io::Result<(Vec<u8>, bool)> {
    let mut packed = Vec::new();
    DeflateEncoder::new(bytes, Compression::fast()).read_to_end(&mut packed)?;
    let pays = packed.len() < bytes.len() / 4 * 3;
    Ok((packed, pays))
}

/// Reads the next message; nothing where the other side has closed the pipe behind the last one. Memory grows
/// with what comes, not with what is announced.
///
/// # Errors
/// If the pipe fails, or what comes is no message.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut head = Vec::new();
    from.take(5).read_to_end(&mut head)?;
    let [a, b, c, d, packing] = head[..] else {
        return if head.is_empty() { Ok(None) } else { Err(FrameError::Torn) };
    };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > LARGEST {
        return Err(FrameError::Large { found: length });
    }
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(FrameError::Torn);
    }
    let damaged = |found: String| FrameError::Damaged { found };
    let body = match packing {
        0 => body,
        1 => {
            let mut whole = Vec::new();
            let most = LARGEST as u64 + 1;
            let unpacked = DeflateDecoder::new(&body[..]).take(most).read_to_end(&mut whole);
            unpacked.map_err(|error| damaged(format!("its packing is damaged: {error}")))?;
            if whole.len() > LARGEST {
                return Err(FrameError::Large { found: whole.len() });
            }
            whole
        }
        other => return Err(damaged(format!("packing {other}, expected 0 or 1"))),
    };
    let mut rest = &body[..];
    let value = ciborium::from_reader(&mut rest).map_err(|error| damaged(error.to_string()))?;
    match rest.len() {
        0 => Ok(Some(value)),
        more => Err(damaged(format!("{more} bytes are left over"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &impl Serialize, pack: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, value, pack).unwrap();
        bytes
    }

    fn said(bytes: &[u8]) -> String {
        read::<String>(&mut &bytes[..]).unwrap_err().to_string()
    }

    #[test]
    fn messages_come_one_after_the_other_and_end() {
        let bytes = [written(&"one", false), written(&"two", true)].concat();
        let mut from = &bytes[..];
        let mut next = || read::<String>(&mut from).unwrap();
        assert_eq!([next(), next(), next()], [Some("one".into()), Some("two".into()), None]);
    }

    #[test]
    fn what_shrinks_is_packed_and_nothing_else() {
        let text = "a line like many others\n".repeat(1000);
        let noise: Vec<u64> = (1..2000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let small = written(&text, true);
        assert!(small.len() < text.len() / 10 && small[4] == 1, "{}", small.len());
        assert_eq!(read::<String>(&mut &small[..]).unwrap(), Some(text.clone()));
        assert_eq!(
            (written(&text, false)[4], written(&noise, true)[4], written(&"short", true)[4]),
            (0, 0, 0)
        );
    }

    #[test]
    fn what_is_no_message_is_refused_in_words() {
        let whole = written(&"one", false);
        for end in 1..whole.len() {
            assert!(said(&whole[..end]).contains("in the middle"), "{end}");
        }
        assert!(said(&[255, 255, 255, 255, 0]).contains("4294967295 bytes, expected at most 1073741824"));
        assert!(said(&[1, 0, 0, 0, 7, 0]).contains("packing 7, expected 0 or 1"));
        assert!(said(&[1, 0, 0, 0, 1, 7]).contains("its packing is damaged"));
        assert!(said(&written(&1, false)).contains("cannot be read"));
        let mut long = whole.clone();
        long[0] += 1;
        long.push(0);
        assert!(said(&long).contains("1 bytes are left over"));
    }
}
