//! The framing of messages on the pipe between two programs:
//!
//! ```text
//! length of the body   u32, little-endian, at most MAX_BODY_BYTES
//! packing              u8: 0 uncompressed, 1 raw deflate
//! body                 one value as CBOR
//! ```
//!
//! A length of 0 is a heartbeat ([`silence`](super::silence)), and no message.
//!
//! CBOR (`ciborium`, already a dependency of burn) names its fields as JSON does. That is required: traces and evaluations
//! omit empty fields and have untagged variants, which a format without field names (postcard) cannot read back.
//! Pictures, matrices and files are one byte string each ([`block`](crate::model::io::block)).

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest body in bytes, compressed or not: the plan of 16,384 tokens.
pub const MAX_BODY_BYTES: usize = 1 << 30;
/// Most values in a body: an empty text is one byte there and 24 in memory. Lists of images have ten bytes a value.
const MAX_VALUES: usize = 1 << 27;
/// Bodies of at most this many bytes are not compressed.
const MIN_COMPRESSED: usize = 1 << 12;
/// Leading bytes of a longer body that are compressed first, to see whether it pays.
const SAMPLE: usize = 1 << 14;
/// The level of compression: of the paths of a dataset it leaves a third less than level 1, and takes two thirds of the time of 6.
const LEVEL: Compression = Compression::new(4);

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum FrameError {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the connection ended in the middle of a message")]
    Torn,
    #[error("the other end does not answer")]
    Silent,
    #[error("a message of {found} bytes, expected at most {MAX_BODY_BYTES}")]
    Large { found: usize },
    #[error("a message that cannot be read: {found}")]
    Damaged { found: String },
    /// The value cannot be serialised, as a path that is not valid Unicode, or is too long.
    #[error("a message that cannot be written: {found}")]
    Unwritable { found: String },
    #[error("the other end is not this program: {found}")]
    Foreign { found: String },
    #[error("protocol {found} of version {version}")]
    Protocol { found: u32, version: String },
}

/// Writes a message, compressed if `compress` is set and its first bytes shrink by more than a quarter.
///
/// # Errors
/// If the pipe fails; or, with nothing written, if the value cannot be serialised, is longer than [`MAX_BODY_BYTES`] or is made of
/// more than [`MAX_VALUES`].
pub fn write(to: &mut impl Write, value: &impl Serialize, compress: bool) -> Result<(), FrameError> {
    let mut body = Vec::new();
    ciborium::into_writer(value, &mut body).map_err(|error| FrameError::Unwritable {
        found: match error {
            // The only values that CBOR cannot hold are paths that are not valid Unicode.
            ciborium::ser::Error::Value(found) => format!("{found}; rename that file or folder"),
            ciborium::ser::Error::Io(error) => error.to_string(),
        },
    })?;
    if body.len() > MAX_BODY_BYTES {
        let found = format!("it has {} bytes, expected at most {MAX_BODY_BYTES}", body.len());
        return Err(FrameError::Unwritable { found });
    }
    check_values(&body).map_err(|found| FrameError::Unwritable { found })?;
    let pays = compress && body.len() > MIN_COMPRESSED && deflate(&body[..body.len().min(SAMPLE)])?.1;
    let (packing, body) = if pays { (1, deflate(&body)?.0) } else { (0, body) };
    to.write_all(&(body.len() as u32).to_le_bytes())?;
    to.write_all(&[packing])?;
    Ok(to.write_all(&body)?)
}

/// Writes a heartbeat, which [`read`] passes over.
///
/// # Errors
/// If the pipe fails.
pub fn write_heartbeat(to: &mut impl Write) -> Result<(), FrameError> {
    to.write_all(&[0; 5])?;
    Ok(to.flush()?)
}

/// Compresses bytes; also returns whether that saves more than a quarter.
fn deflate(bytes: &[u8]) -> io::Result<(Vec<u8>, bool)> {
    let mut deflated = Vec::new();
    DeflateEncoder::new(bytes, LEVEL).read_to_end(&mut deflated)?;
    let pays = deflated.len() < bytes.len() / 4 * 3;
    Ok((deflated, pays))
}

/// An error if CBOR has more than [`MAX_VALUES`].
fn check_values(body: &[u8]) -> Result<(), String> {
    let found = if body.len() > MAX_VALUES { values(body) } else { 0 }; // each has at least one byte
    match found {
        0..=MAX_VALUES => Ok(()),
        _ => Err(format!("it has {found} values, expected at most {MAX_VALUES}")),
    }
}

/// The number of values in CBOR: texts, numbers, lists and maps, and those within them.
fn values(mut body: &[u8]) -> usize {
    let mut count = 0;
    while let Some((&first, rest)) = body.split_first() {
        count += 1;
        let (kind, info) = (first >> 5, first & 31);
        let wide = if (24..28).contains(&info) { 1 << (info - 24) } else { 0 };
        let Some((argument, rest)) = rest.split_at_checked(wide) else { break };
        let argument = argument.iter().fold(0, |number: usize, &byte| number << 8 | usize::from(byte));
        let content = match (kind, info) {
            (2 | 3, ..24) => usize::from(info), // bytes and text
            (2 | 3, _) => argument,
            _ => 0,
        };
        body = rest.get(content..).unwrap_or_default();
    }
    count
}

/// Reads the next message, after heartbeats; `None` if the other end closed the pipe after the last one. Memory grows with the
/// bytes that arrive, not with the length that is announced.
///
/// # Errors
/// If the pipe fails or ends within a message, or the bytes are no valid message.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, FrameError> {
    let (length, packing) = loop {
        let mut head = Vec::new();
        from.take(5).read_to_end(&mut head)?;
        let [a, b, c, d, packing] = head[..] else {
            return if head.is_empty() { Ok(None) } else { Err(FrameError::Torn) };
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > 0 {
            break (length, packing);
        }
    };
    if length > MAX_BODY_BYTES {
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
            let limit = MAX_BODY_BYTES as u64 + 1;
            let inflated = DeflateDecoder::new(&body[..]).take(limit).read_to_end(&mut whole);
            inflated.map_err(|error| damaged(format!("its compression is damaged: {error}")))?;
            if whole.len() > MAX_BODY_BYTES {
                return Err(FrameError::Large { found: whole.len() });
            }
            whole
        }
        other => return Err(damaged(format!("compression {other}, expected 0 or 1"))),
    };
    check_values(&body).map_err(damaged)?;
    let mut rest = &body[..];
    let value = ciborium::from_reader(&mut rest).map_err(|error| damaged(error.to_string()))?;
    match rest.len() {
        0 => Ok(Some(value)),
        more => Err(damaged(format!("{more} bytes are left over"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::model::trace::Matrix;

    fn written(value: &impl Serialize, compress: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, value, compress).unwrap();
        bytes
    }

    fn error_text(bytes: &[u8]) -> String {
        read::<String>(&mut &bytes[..]).unwrap_err().to_string()
    }

    #[test]
    fn messages_come_one_after_the_other_and_end() {
        let mut beat = Vec::new();
        write_heartbeat(&mut beat).unwrap();
        let [one, two] = [written(&"one", false), written(&"two", true)];
        let bytes = [&beat[..], &one, &beat, &beat, &two, &beat].concat();
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
    fn a_message_of_few_bytes_a_value_is_not_decoded_into_many_times_its_size() {
        let long = "x".repeat(300);
        let map = BTreeMap::from([("a", (1.5, 1_000_000_u64)), ("b", (f64::MAX, 7))]);
        let matrix = Matrix { rows: 1, cols: 20_000, data: vec![-0.5; 20_000] };
        let nested = (vec!["", "y", &long], matrix, map);
        let mut body = Vec::new();
        ciborium::into_writer(&nested, &mut body).unwrap();
        assert_eq!(values(&body), 1 + (1 + 3) + (1 + 2 * 3) + (1 + 2 * (1 + 3)));
        // A list of empty paths, as no worker sends it: a gigabyte of them took 24.
        let count = MAX_VALUES as u32;
        let [length, count] = [(count + 5).to_le_bytes(), count.to_be_bytes()];
        let head = [&length[..], &[0, 0x9a], &count].concat();
        let refused =
            read::<Vec<PathBuf>>(&mut head.as_slice().chain(io::repeat(0x60))).unwrap_err().to_string();
        assert!(refused.contains("it has 134217729 values, expected at most 134217728"), "{refused}");
    }

    /// A dataset of ImageNet's size is a hundred megabytes of paths, for which a window at the end of a slow line waits.
    #[test]
    fn paths_of_a_dataset_become_an_eighth() {
        let name = |i: u64| ((i * 2_654_435_761) % (1 << 32)) >> 17;
        let path = |i: u64| format!("/data/train/n{0:08}/n{0:08}_{1}.JPEG", i / 1000, name(i));
        let paths: Vec<String> = (0..20_000).map(path).collect();
        let [whole, small] = [false, true].map(|compress| written(&paths, compress).len());
        assert!(8 * small < whole, "{small} of {whole} bytes");
    }

    #[test]
    fn what_is_no_message_is_refused_in_words() {
        let whole = written(&"one", false);
        for end in 1..whole.len() {
            assert!(error_text(&whole[..end]).contains("in the middle"), "{end}");
        }
        assert!(
            error_text(&[255, 255, 255, 255, 0]).contains("4294967295 bytes, expected at most 1073741824")
        );
        assert!(error_text(&[1, 0, 0, 0, 7, 0]).contains("compression 7, expected 0 or 1"));
        assert!(error_text(&[1, 0, 0, 0, 1, 7]).contains("its compression is damaged"));
        assert!(error_text(&written(&1, false)).contains("cannot be read"));
        let mut long = whole.clone();
        long[0] += 1;
        long.push(0);
        assert!(error_text(&long).contains("1 bytes are left over"));
    }
}
