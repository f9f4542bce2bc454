//! Files, written whole and read within bounds; what of them is shown to people and spreadsheets.

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
pub mod sha256;
pub mod temporary;
pub mod tfrecord;
