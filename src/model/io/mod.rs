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

/// The `format` of a JSON document, which is checked before its other fields are read: another version may have others.
pub fn format_of(document: &[u8]) -> serde_json::Result<u64> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: u64,
    }
    serde_json::from_slice(document).map(|Version { format }| format)
}
