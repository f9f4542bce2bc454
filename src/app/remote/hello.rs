//! How two programs greet each other: eight bytes that say what they are, the number of the protocol, and a message
//! that says more. Who serves greets first; who asks answers. Whatever else changes, this stays, so that programs of
//! any two versions can say which of them is to be updated.

use std::fmt::{Display, Formatter};
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use super::frame::{self, FrameError};
use crate::model::device::{self, Found};
use crate::model::io::escape::shown;

/// What both sides must speak. A change of a request or an event that the other side would misread makes it the next
/// number.
pub const PROTOCOL: u32 = 1;
const MAGIC: [u8; 8] = *b"ssmprobe";
/// Bytes that are shown of what is no greeting.
const SHOWN: usize = 80;

/// What a program says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Its version.
    pub version: String,
    /// What it can compute on; of who asks nothing.
    pub devices: Vec<Found>,
    /// Whether who asks wants messages packed: not on the same machine.
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
    /// Of who asks.
    pub fn asking(packs: bool) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), devices: Vec::new(), packs }
    }

    /// Of who serves.
    pub fn serving() -> Self {
        Self { devices: device::list(), ..Self::asking(false) }
    }

    /// Greets.
    ///
    /// # Errors
    /// If the pipe fails.
    pub fn write(&self, to: &mut impl Write) -> Result<(), FrameError> {
        to.write_all(&MAGIC)?;
        to.write_all(&PROTOCOL.to_le_bytes())?;
        frame::write(to, self, false)?;
        Ok(to.flush()?)
    }

    /// Hears who is at the other end.
    ///
    /// # Errors
    /// If it is another program, or one that speaks another protocol.
    pub fn read(from: &mut impl BufRead) -> Result<Self, FrameError> {
        let mut left = &MAGIC[..];
        while !left.is_empty() {
            // What is there: whoever says `hi` waits for an answer, and no more comes.
            let said = from.fill_buf()?;
            let same = said.len().min(left.len());
            if said.is_empty() {
                return Err(FrameError::Torn);
            } else if said[..same] != left[..same] {
                let said = String::from_utf8_lossy(&said[..said.len().min(SHOWN)]);
                return Err(FrameError::Foreign { found: shown(said.trim_end()).into_owned() });
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
