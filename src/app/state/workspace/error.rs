//! Why a workspace could not be read or written.

use std::path::PathBuf;

use super::FORMAT;

/// Why a workspace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The file cannot be read.
    #[error("{path}: the workspace cannot be read: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("{path}: the workspace cannot be written: {source}; any previous file is unchanged")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is no workspace.
    #[error("{path}: not an SSMProbe workspace ({why})")]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file has another version of the format.
    #[error("{path}: has version {found} of the workspace format; this program supports {FORMAT}: update it")]
    Format {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u64,
    },
}
