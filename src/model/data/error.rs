//! Errors of datasets.

use std::path::{Path, PathBuf};

use super::{listed, walk};

/// Why a dataset cannot be opened.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("{path}: cannot be read: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {why}")]
    Absent { path: PathBuf, why: &'static str },
    #[error(
        "{path} is not a dataset of a known layout ({found}); expected one of these, {}", listed(), found = walk::contents(path)
    )]
    Layout { path: PathBuf },
    #[error("{file}, line {line}: found {found:?}, expected {expected}")]
    Line { file: PathBuf, line: usize, found: String, expected: String },
    #[error("{file}: {why}")]
    File { file: PathBuf, why: String },
    #[error("{path}: stopped before all images were listed")]
    Stopped { path: PathBuf },
}

impl DataError {
    pub(in crate::model) fn file(file: &Path, why: impl Into<String>) -> Self {
        Self::File { file: file.into(), why: why.into() }
    }

    /// An error in line `line` of a list, counted from 1; `found` is cut to 80 characters.
    pub(in crate::model) fn line(file: &Path, line: usize, found: &str, expected: impl Into<String>) -> Self {
        let found = found.chars().take(80).collect();
        Self::Line { file: file.into(), line, found, expected: expected.into() }
    }
}
