//! Errors of a run's folder.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;

/// What can go wrong with a run's folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder already holds a run.
    #[error("{folder} already contains a run; resume it (--resume), or choose another folder")]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process trains into the folder.
    #[error(
        "{folder} is in use by another training process{on}; wait for it, stop it, or choose another folder",
        on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"))
    )]
    Claimed {
        /// The folder.
        folder: PathBuf,
        /// The other machine, if it is not this one.
        host: Option<String>,
    },
    /// The folder holds no run.
    #[error("{folder} is not a run (no run.json); create one with `ssmprobe train`")]
    Absent {
        /// The folder.
        folder: PathBuf,
    },
    /// A file operation failed.
    #[error("{path}: cannot {what} it: {source}; {remedy}", remedy = remedy(what))]
    Io {
        /// The operation, a verb for the message.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not have a run's format.
    #[error("{path}: {found}; the run cannot be read, train into another folder")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A part that is to be joined is not finished.
    #[error("{folder} is not a finished run; rerun the command that started it to continue")]
    Unfinished {
        /// The folder.
        folder: PathBuf,
    },
    /// A part that is to be joined belongs to another training.
    #[error(
        "{folder} is not part of the same training as {first}: they differ in `{field}`; train both with the \
         same command"
    )]
    OtherPart {
        /// The folder.
        folder: PathBuf,
        /// The first part.
        first: PathBuf,
        /// The field or file that differs.
        field: String,
    },
    /// The folder is of another version of the format.
    #[error("{path}: `format` is {found}; this program reads {FORMAT}, use the one that wrote it")]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// What the user can do after a failed file operation.
fn remedy(what: &str) -> &'static str {
    match what {
        "read" => "check the path and its permissions",
        _ => "the saved state is intact, and the run can be resumed from it",
    }
}

/// Converts an I/O error of the operation `what` on `path`.
pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Io { what, path, source }
}
