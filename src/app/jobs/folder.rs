//! Lists a folder of the machine that computes, so that files there can be chosen from elsewhere.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::path_kind::{PathKind, kind_of};
use super::{JobError, Reporter};
use crate::app::jobs::user_error::UserError;
use crate::app::paths::expanded;

/// Most entries of a listing.
pub const MAX_ENTRIES: usize = 10_000;
/// Time after which the kinds of further folders are not determined any more.
const MAX_KINDS_TIME: Duration = Duration::from_secs(2);

/// A folder and its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Its absolute path.
    pub path: PathBuf,
    /// Folders first, each by name.
    pub entries: Vec<FolderEntry>,
    /// Whether it has more than [`MAX_ENTRIES`].
    pub cut: bool,
    /// Number of entries left out because their names are not Unicode.
    pub unnamed: usize,
    /// Name of the requested entry, if the request was for a file.
    pub file: Option<String>,
}

impl Folder {
    /// The path of an entry, with the separator of the machine whose folder it is: a window on Windows lists those of Linux.
    pub fn at(&self, name: &str) -> PathBuf {
        match self.path.to_str().filter(|path| path.starts_with('/')) {
            Some(path) => format!("{}/{name}", path.trim_end_matches('/')).into(),
            None => self.path.join(name),
        }
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// What it can be opened as; `None` if determining that would have taken too long.
    pub kind: Option<PathKind>,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Bytes of a file.
    pub bytes: u64,
}

/// Lists a folder; for a file its parent folder, and for an empty path the user's home.
pub fn list(asked: &Path, reporter: &dyn Reporter) -> Result<Folder, JobError> {
    let text = asked.to_str().filter(|text| !text.is_empty()).unwrap_or("~");
    let path = std::path::absolute(expanded(text))?;
    let file = path.file_name().filter(|_| path.is_file()).map(|name| name.to_string_lossy().into_owned());
    let path = if file.is_some() { path.parent().unwrap_or(&path).to_owned() } else { path };
    let unread = |error| {
        UserError::from_error(anyhow::anyhow!("{}: the folder cannot be read: {error}", path.display()))
            .remedy("Choose another folder, or check the permissions of this one")
    };
    let mut folder = Folder { path: path.clone(), file, ..Folder::default() };
    for entry in std::fs::read_dir(&path).map_err(unread)? {
        reporter.cancel().check()?;
        let entry = entry.map_err(unread)?;
        let Ok(name) = entry.file_name().into_string() else {
            folder.unnamed += 1;
            continue;
        };
        if folder.entries.len() == MAX_ENTRIES {
            folder.cut = true;
            break;
        }
        // Of the link's target, unless it dangles.
        let about = std::fs::metadata(entry.path()).ok();
        let is_folder = about.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let bytes = about.filter(|_| !is_folder).map_or(0, |about| about.len());
        folder.entries.push(FolderEntry { name, kind: None, is_folder, bytes });
    }
    folder.entries.sort_by(|a, b| (!a.is_folder, &a.name).cmp(&(!b.is_folder, &b.name)));
    let begun = Instant::now();
    // The kind of a file is known by its name; that of a folder only by looking into it.
    for entry in &mut folder.entries {
        reporter.cancel().check()?;
        if !entry.is_folder || begun.elapsed() < MAX_KINDS_TIME {
            entry.kind = Some(kind_of(&path.join(&entry.name)));
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::reporter::Recorder;

    fn listed(path: &Path) -> Folder {
        list(path, &Recorder::default()).unwrap_or_else(|_| panic!("a folder"))
    }

    #[test]
    fn an_entry_is_found_by_the_separator_of_its_own_machine() {
        for (path, expected) in [("/data", "/data/a b"), ("/", "/a b")] {
            let folder = Folder { path: path.into(), ..Folder::default() };
            assert_eq!(folder.at("a b").to_str(), Some(expected));
        }
    }

    #[test]
    fn folders_come_first_each_with_its_kind_and_size() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        for name in ["z", "backbone", "run"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        for (name, text) in [
            ("backbone/config.json", "{}"),
            ("run/a.safetensors", ""),
            ("x.png", "1234"),
            ("a.safetensors", ""),
            ("notes", ""),
        ] {
            crate::model::io::atomic_file::write(&at(name), text.as_bytes()).expect("written");
        }
        let folder = listed(root.path());
        let all: Vec<_> = folder.entries.iter().map(|e| (e.name.as_str(), e.kind, e.bytes)).collect();
        let expected = [
            ("backbone", PathKind::Backbone, 0),
            ("run", PathKind::Run, 0),
            ("z", PathKind::Images, 0),
            ("a.safetensors", PathKind::Probe, 0),
            ("notes", PathKind::Unknown, 0),
            ("x.png", PathKind::Images, 4),
        ];
        assert_eq!(all, expected.map(|(name, kind, bytes)| (name, Some(kind), bytes)));
        assert!(!folder.cut && folder.file.is_none() && folder.path == root.path());
        // A file is found where it lies.
        let folder = listed(&at("x.png"));
        assert_eq!((folder.path.as_path(), folder.file.as_deref()), (root.path(), Some("x.png")));
    }

    #[test]
    fn more_than_can_be_told_is_cut_and_said() {
        let root = tempfile::tempdir().expect("a folder");
        for name in 0..=MAX_ENTRIES {
            std::fs::create_dir(root.path().join(name.to_string())).expect("made");
        }
        let folder = listed(root.path());
        assert!(folder.cut && folder.entries.len() == MAX_ENTRIES);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_a_list_can_be_called_off() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("a")).expect("made");
        let reporter = Recorder::default();
        let listed = list(&root.path().join("none"), &reporter);
        let Err(JobError::Failed(error)) = listed else { panic!("it is not there") };
        assert!(error.to_string().contains("none: the folder cannot be read"), "{error}");
        reporter.cancel.cancel();
        assert!(matches!(list(root.path(), &reporter), Err(JobError::Cancelled)));
    }
}
