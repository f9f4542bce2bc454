//! A file of answers, which also identifies their question and shows whether it is damaged:
//!
//! ```text
//! digest   SHA-256 of the body, 32 bytes
//! body     CBOR: digest of the question, and the answers
//! ```

use std::path::Path;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::io::atomic_file;

/// Size of the digest in bytes.
const DIGEST: usize = 32;

/// The body of the file; borrowed for writing.
#[derive(Serialize, Deserialize)]
struct Body<Q, A> {
    asked: Q,
    answers: A,
}

/// The answers to the question with the digest `asked`, in a file of at most `max_bytes`; `None` if it is of another question: its
/// answers are not decoded.
pub(super) fn read<A: DeserializeOwned>(
    path: &Path,
    asked: &str,
    max_bytes: u64,
) -> anyhow::Result<Option<A>> {
    let shown = path.display();
    let bytes = atomic_file::read(path, max_bytes).with_context(|| format!("{shown}: cannot be read"))?;
    let Some((digest, body)) = bytes.split_at_checked(DIGEST) else {
        bail!("{shown}: has {} bytes, expected more than {DIGEST}", bytes.len());
    };
    if Sha256::digest(body).as_slice() != digest {
        bail!("{shown}: is damaged: its digest does not match its contents");
    }
    let mut head = Vec::new();
    ciborium::into_writer(&Body { asked, answers: () }, &mut head)?;
    head.pop(); // the absent answers
    let answers = body.starts_with(&head).then(|| parse(body)).transpose();
    Ok(answers.with_context(|| format!("{shown}: contains no answers"))?.map(|(_, answers)| answers))
}

/// The digest of the question, and the answers, in the body of a file.
pub fn parse<A: DeserializeOwned>(body: &[u8]) -> anyhow::Result<(String, A)> {
    let Body { asked, answers } = ciborium::from_reader(body)?;
    Ok((asked, answers))
}

/// Writes answers to the question with the digest `asked`; creates the folder.
pub(super) fn write<A: Serialize + ?Sized>(path: &Path, asked: &str, answers: &A) -> anyhow::Result<()> {
    let mut bytes = vec![0; DIGEST];
    ciborium::into_writer(&Body { asked, answers }, &mut bytes)?;
    let digest = Sha256::digest(&bytes[DIGEST..]);
    bytes[..DIGEST].copy_from_slice(&digest);
    let folder = path.parent().unwrap_or(path);
    let written = atomic_file::make_folder(folder).and_then(|()| atomic_file::write(path, &bytes));
    written.with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_unless_it_is_damaged_or_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/answers");
        write(&path, "all", &[1, 2, 3]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let length = bytes.len() as u64;
        assert_eq!(read::<[u8; 3]>(&path, "all", length).unwrap(), Some([1, 2, 3]));
        // What answers another question is not decoded, whatever it is.
        assert_eq!(read::<String>(&path, "al", length).unwrap(), None);
        assert!(read::<String>(&path, "all", length).is_err());
        let refused = |max_bytes| format!("{:#}", read::<[u8; 3]>(&path, "all", max_bytes).unwrap_err());
        assert!(refused(length - 1).contains("larger than"), "{}", refused(length - 1));
        for (damaged, words) in
            [(&bytes[..DIGEST - 1], "expected more than 32"), (&bytes[..DIGEST + 3], "is damaged")]
        {
            atomic_file::write(&path, damaged).unwrap();
            assert!(refused(length).contains(words), "{}", refused(length));
        }
    }
}
