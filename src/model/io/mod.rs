//! Reading and writing files: atomic writes, bounded reads, locks, file formats, and names made safe to show.

pub mod array;
pub mod atomic_file;
pub mod block;
pub mod catch_panic;
pub mod columns;
pub mod csv_cell;
pub mod escape;
#[doc(hidden)]
pub mod failpoint;
pub mod file_lock;
pub mod host_lock;
pub mod npz;
pub mod process;
pub mod sha256;
pub mod temporary;
pub mod tfrecord;

use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What was read, or `None` if there is no such file or folder.
pub fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Whether an error is due to the file itself, not to its disk: it is absent, not for this user, or nothing that can be read.
pub fn is_of_file(kind: ErrorKind) -> bool {
    use ErrorKind::{FileTooLarge, InvalidFilename, InvalidInput, NotADirectory, NotFound, PermissionDenied};
    matches!(
        kind,
        NotFound | NotADirectory | InvalidFilename | InvalidInput | FileTooLarge | PermissionDenied
    )
}

/// Whether the modification time of a file tells its content from another: a newer file may change again within the same clock tick.
pub fn is_settled(changed: SystemTime) -> bool {
    changed.elapsed().is_ok_and(|age| age > Duration::from_secs(2))
}

/// The first field of a JSON document, written as the number `N`: one with another number is refused before its other fields are
/// read. With `#[serde(default)]` a document may lack it, as those do that were written before they had one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format<const N: u64>;

impl<const N: u64> Serialize for Format<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(N)
    }
}

impl<'de, const N: u64> Deserialize<'de> for Format<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            found if found == N => Ok(Self),
            found => Err(D::Error::custom(format_args!(
                "`format` is {found}; this program reads {N}; use the version that wrote it, or a newer one"
            ))),
        }
    }
}

/// Numbers of a JSON document, where NaN, which JSON cannot represent, is written as `null`.
pub fn null_as_nan(values: Vec<Option<f32>>) -> Vec<f32> {
    values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Document {
        #[serde(default)]
        format: Format<3>,
        name: String,
    }

    #[test]
    fn only_a_missing_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name| if_there(atomic_file::read(&folder.path().join(name), 9));
        atomic_file::write(&folder.path().join("file"), b"x").unwrap();
        assert_eq!((read("file").unwrap(), read("other").unwrap()), (Some(b"x".to_vec()), None));
        assert_eq!(read(".").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_document_of_another_format_is_refused_before_its_other_fields() {
        let text = r#"{"format":3,"name":""}"#;
        assert_eq!(serde_json::to_string(&Document::default()).unwrap(), text);
        for text in [text, r#"{"name":""}"#] {
            assert_eq!(serde_json::from_str::<Document>(text).unwrap(), Document::default());
        }
        for other in [r#"{"format":4,"title":7}"#, r#"{"format":4,"name":7}"#] {
            let error = serde_json::from_str::<Document>(other).unwrap_err().to_string();
            assert!(error.starts_with("`format` is 4; this program reads 3; use the version"), "{error}");
        }
    }
}
