//! What can go wrong with a run's folder.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;

/// What can go wrong with a run's folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is a run already.
    #[error(
        "{folder} holds a run already; resume it (--resume), or choose another folder",
        folder = folder.display()
    )]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// Another program trains into it.
    #[error(
        "{folder} is being trained into by another program{on}; wait for it, stop it, or choose another folder",
        folder = folder.display(), on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"))
    )]
    Claimed {
        /// The folder.
        folder: PathBuf,
        /// The machine, where it is another.
        host: Option<String>,
    },
    /// There is none.
    #[error("{folder} holds no run (no run.json); `ssmprobe train` makes one", folder = folder.display())]
    Absent {
        /// The folder.
        folder: PathBuf,
    },
    /// The disk refuses.
    #[error(
        "{path}: cannot {what} it: {source}; {remedy}",
        path = path.display(), remedy = remedy(what)
    )]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not what a run wrote.
    #[error("{path}: {found}; the run cannot be read with it, train into another folder", path = path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// A part that is to be joined is not finished.
    #[error(
        "{folder} is no finished run; the same command that begins one there goes on with it",
        folder = folder.display()
    )]
    Unfinished {
        /// The folder.
        folder: PathBuf,
    },
    /// A part that is to be joined is one of another training.
    #[error(
        "{folder} is no part of the same training as {first}: they differ in `{field}`; train both by the same command",
        folder = folder.display(), first = first.display()
    )]
    OtherPart {
        /// The folder.
        folder: PathBuf,
        /// The first part.
        first: PathBuf,
        /// What differs.
        field: String,
    },
    /// A run of another version.
    #[error("{path}: `format` is {found}; this program reads {FORMAT}, use the one that wrote it", path = path.display())]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// What to do where the disk refuses.
fn remedy(what: &str) -> &'static str {
    match what {
        "read" => "check the path and its permissions",
        _ => "what is there is whole, and the run can be resumed from it",
    }
}

pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Io { what, path, source }
}
