//! Errors of a run's folder.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a run's folder.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{folder} already contains a run; resume it (--resume), or choose another folder")]
    Exists { folder: PathBuf },
    #[error(
        "{folder} is in use by another training process{on}; wait for it, stop it, or choose another folder",
        on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"))
    )]
    InUse {
        folder: PathBuf,
        /// The other machine, if it is not this one.
        host: Option<String>,
    },
    #[error("{folder} is not a run (no run.json); {}", origin(folder))]
    Absent { folder: PathBuf },
    #[error("{path}: cannot {what} it: {source}; {remedy}", remedy = remedy(what))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{path}: {found}; copy it again if it was cut short, or train into another folder")]
    Damaged { path: PathBuf, found: String },
    #[error("{path}: {found}; delete it, and `ssmprobe eval --run` measures again")]
    Evaluation { path: PathBuf, found: String },
    #[error("{folder} is not a finished run; rerun the command that started it to continue")]
    Unfinished { folder: PathBuf },
    #[error(
        "{folder} is not part of the same training as {first}: they differ in `{field}`; train both with the \
         same command"
    )]
    OtherPart { folder: PathBuf, first: PathBuf, field: String },
    #[error("{folder} and {other} both trained `{head}` with seed {seed}; join only one of them")]
    SamePart { folder: PathBuf, other: PathBuf, head: String, seed: u64 },
}

/// Where the run of a folder without one comes from.
fn origin(folder: &Path) -> &'static str {
    match folder.join("tasks").is_dir() {
        true => "it has tasks: `ssmprobe jobs` shows them, and where their runs are",
        false => "create one with `ssmprobe train`",
    }
}

/// What the user can do after a failed file operation.
fn remedy(what: &str) -> &'static str {
    match what {
        "read" => "check the path and its permissions, and that the folder was copied whole",
        _ => "what was saved before is intact; run the same command again (for a training, with --resume)",
    }
}

impl RunError {
    /// Converts an I/O error of the operation `what` on `path`.
    pub fn io(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }

    /// Converts an error in the content of the file `path`.
    pub fn damaged<E: ToString>(path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::Damaged { path: path.to_owned(), found: error.to_string() }
    }
}
