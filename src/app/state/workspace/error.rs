//! Why a workspace could not be read or written.

use std::io;
use std::path::{Path, PathBuf};

use super::{FORMAT, Workspace};

/// Why a workspace could not be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum WorkspaceError {
    #[error("{path}: the workspace cannot be read: {source}; check the path and its permissions")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: the workspace cannot be written: {source}; any previous file is unchanged")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}: not an SSMProbe workspace ({why})")]
    Json { path: PathBuf, why: String },
    #[error("{path}: has version {found} of the workspace format; this program supports {FORMAT}: update it")]
    Format { path: PathBuf, found: u64 },
}

impl WorkspaceError {
    /// The error of writing a workspace to `path`, which names a path in it that JSON cannot hold, as it is no text.
    pub(super) fn unwritten(path: &Path, source: io::Error, workspace: &mut Workspace) -> Self {
        let mut odd: Option<PathBuf> = None;
        let mut look = |found: &mut PathBuf| {
            if found.to_str().is_none() {
                odd.get_or_insert_with(|| found.clone());
            }
        };
        workspace.each_path(&mut |_, found| look(found));
        workspace.each_note_path(&mut look);
        let source = odd.map_or(source, |odd| {
            let why = format!("the name of {} is not valid Unicode; rename it, or close it", odd.display());
            io::Error::new(io::ErrorKind::InvalidData, why)
        });
        Self::Write { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;

        use super::*;
        use crate::app::jobs::ImageId;
        use crate::app::state::workspace::SavedImage;
        let odd = PathBuf::from(std::ffi::OsString::from_vec(b"caf\xe9.png".to_vec()));
        let images = vec![SavedImage { id: ImageId(1), source: odd.into() }];
        let folder = tempfile::tempdir().unwrap();
        let saved = Workspace { images, ..Workspace::default() }.save(&folder.path().join("a.ssmprobe"));
        let refused = saved.unwrap_err().to_string();
        assert!(refused.contains("caf") && refused.contains("rename it, or close it"), "{refused}");
    }
}
