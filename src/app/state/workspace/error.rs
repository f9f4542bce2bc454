//! Why a workspace could not be read or written.

use std::path::PathBuf;

use super::FORMAT;

/// Why a workspace could not be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum WorkspaceError {
    #[error("{path}: the workspace cannot be read: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: the workspace cannot be written: {source}; any previous file is unchanged")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path}: not an SSMProbe workspace ({why})")]
    Json { path: PathBuf, why: String },
    #[error("{path}: has version {found} of the workspace format; this program supports {FORMAT}: update it")]
    Format { path: PathBuf, found: u64 },
}
