//! A cache of fingerprints. Hashing takes a second per gigabyte, and plans request the same weights' fingerprint
//! at every change; a file is identified by its path, length and modification time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::file::Mapped;
use crate::model::io::{is_settled, sha256};

/// Path, length and modification time of every file.
type Stamp = Vec<(PathBuf, usize, SystemTime)>;

static FINGERPRINTS: LazyLock<Mutex<HashMap<Stamp, String>>> = LazyLock::new(Mutex::default);

/// SHA-256 of the concatenated files, in hexadecimal digits.
pub(super) fn fingerprint(files: &[Mapped]) -> String {
    let cache = || FINGERPRINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |file: &Mapped| {
        Some((file.path.clone(), file.len(), file.changed.filter(|changed| is_settled(*changed))?))
    };
    let stamp: Option<Stamp> = files.iter().map(one).collect();
    if let Some(found) = stamp.as_ref().and_then(|stamp| cache().get(stamp).cloned()) {
        return found;
    }
    let mut hash = Sha256::new();
    for file in files {
        hash.update(&**file);
    }
    let digest = sha256::hex(&hash.finalize());
    if let Some(stamp) = stamp {
        cache().insert(stamp, digest.clone());
    }
    digest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_that_changed_has_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let hour = Duration::from_hours(1);
        let of = |text: &str, time: SystemTime| {
            std::fs::write(&path, text).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            fingerprint(&[Mapped::open(&path).unwrap()])
        };
        let (long_ago, now) = (SystemTime::now() - hour, SystemTime::now());
        let first = of("one", long_ago);
        assert_eq!(first, sha256::of_bytes(b"one"));
        assert_eq!(of("two", long_ago), first, "it is not read again");
        assert_eq!(of("two", long_ago + Duration::from_secs(1)), sha256::of_bytes(b"two"));
        for text in ["new", "six"] {
            assert_eq!(of(text, now), sha256::of_bytes(text.as_bytes()));
        }
    }
}
