//! The handshake: eight magic bytes, the protocol number (u32, little-endian) and a [`Hello`] message, sent first by the
//! worker, then by the client. Its layout never changes, so that programs of any two versions can say which of them is
//! to be updated.

use std::fmt::{Display, Formatter};
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use super::frame::{self, FrameError};
use crate::model::device::{self, Found};
use crate::model::io::escape::shown;

/// The protocol number, which both ends must share: incremented when the other end would misread a request or an event.
pub const PROTOCOL: u32 = 2;
const MAGIC: [u8; 8] = *b"ssmprobe";
/// Bytes of another program's output that an error quotes.
const MAX_QUOTED: usize = 80;

/// What a program tells the other end about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// The version of the program.
    pub version: String,
    /// The devices that the worker can compute on; empty for a client.
    pub devices: Vec<Found>,
    /// Whether the client wants messages compressed: not on the same machine.
    pub packs: bool,
}

impl Display for Hello {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let devices: Vec<String> =
            self.devices.iter().map(|found| format!("{} ({})", found.name, found.adapter)).collect();
        write!(f, "ssmprobe {}, which can compute on {}", self.version, devices.join(", "))
    }
}

impl Hello {
    /// The client's hello.
    pub fn asking(packs: bool) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), devices: Vec::new(), packs }
    }

    /// The worker's hello, with its devices.
    pub fn serving() -> Self {
        Self { devices: device::list(), ..Self::asking(false) }
    }

    /// Sends the handshake.
    ///
    /// # Errors
    /// If the pipe fails.
    pub fn write(&self, to: &mut impl Write) -> Result<(), FrameError> {
        to.write_all(&MAGIC)?;
        to.write_all(&PROTOCOL.to_le_bytes())?;
        frame::write(to, self, false)?;
        Ok(to.flush()?)
    }

    /// Receives the handshake of the other end.
    ///
    /// # Errors
    /// If the pipe ends, or the other end is another program or speaks another protocol.
    pub fn read(from: &mut impl BufRead) -> Result<Self, FrameError> {
        let mut left = &MAGIC[..];
        while !left.is_empty() {
            // Compares what has arrived: a program that prints `hi` and waits would never send eight bytes.
            let arrived = from.fill_buf()?;
            let same = arrived.len().min(left.len());
            if arrived.is_empty() {
                return Err(FrameError::Torn);
            } else if arrived[..same] != left[..same] {
                let found = String::from_utf8_lossy(&arrived[..arrived.len().min(MAX_QUOTED)]);
                return Err(FrameError::Foreign { found: shown(found.trim_end()).into_owned() });
            }
            left = &left[same..];
            from.consume(same);
        }
        let mut protocol = [0; 4];
        from.read_exact(&mut protocol).map_err(|_| FrameError::Torn)?;
        let protocol = u32::from_le_bytes(protocol);
        let hello = frame::read::<Self>(from).and_then(|hello| hello.ok_or(FrameError::Torn));
        if protocol == PROTOCOL {
            return hello;
        }
        let version = hello.map_or_else(|_| "unknown".to_owned(), |hello| shown(&hello.version).into_owned());
        Err(FrameError::Protocol { found: protocol, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_cannot_talk_say_so() {
        let hello = Hello {
            version: "0.9".into(),
            devices: vec![Found { name: "cpu".into(), ..Found::default() }],
            packs: true,
        };
        let mut bytes = Vec::new();
        hello.write(&mut bytes).unwrap();
        assert_eq!(Hello::read(&mut &bytes[..]).unwrap(), hello);
        for end in 0..bytes.len() {
            let error = Hello::read(&mut &bytes[..end]).unwrap_err();
            assert!(matches!(error, FrameError::Torn), "{end}: {error}");
        }
        bytes[8] = 7;
        let error = Hello::read(&mut &bytes[..]).unwrap_err();
        assert!(matches!(&error, FrameError::Protocol { found: 7, version } if version == "0.9"), "{error}");
        for (said, shown) in
            [("Welcome\x1b to gpu1\n", "Welcome\\u001b to gpu1"), ("hi", "hi"), ("ssh", "ssh")]
        {
            let error = Hello::read(&mut said.as_bytes()).unwrap_err();
            assert!(matches!(&error, FrameError::Foreign { found } if found == shown), "{error}");
        }
    }
}
