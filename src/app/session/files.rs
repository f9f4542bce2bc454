//! Session files, beside the settings. Each is held by one window, through a lock file beside it; among those that no window holds,
//! the one whose loss matters least makes room for the next session.

use std::cmp::Reverse;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::app::state::workspace::{FILE_LIMIT, Workspace};
use crate::model::io::file_lock::{LockedFile, TryLock, try_lock};
use crate::model::io::{atomic_file, sha256};

/// The name of the first session file; others have a number before the extension.
pub(super) const FILE: &str = "session.ssmprobe";
/// Most session files: more than the windows that anyone has open at once.
const MAX_FILES: usize = 64;
/// How many earlier sessions are kept.
pub(super) const EARLIER: usize = 5;

/// What is lost with a session: nothing, the list of what was open, findings or stars too, or an unknown amount because it cannot be
/// read; then it is never overwritten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeepPriority {
    Nothing,
    Entries,
    Notes,
    Unknown,
}

impl KeepPriority {
    pub(super) fn of(workspace: &Workspace) -> Self {
        match workspace.ids().count() + workspace.runs.len() - workspace.columns.len() {
            _ if has_notes(workspace) => Self::Notes,
            0 => Self::Nothing,
            _ => Self::Entries,
        }
    }
}

/// Whether there is a finding or a star.
pub fn has_notes(workspace: &Workspace) -> bool {
    !workspace.findings.is_empty() || !workspace.notes.is_empty()
}

/// A session file that no other window uses until this is dropped.
pub(super) struct SessionFile {
    pub(super) path: PathBuf,
    /// SHA-256 of what this window has last found or written there.
    pub(super) fingerprint: Option<String>,
    /// Absent in a folder that cannot be written to, by another window either.
    pub(super) _lock: Option<LockedFile>,
}

impl SessionFile {
    /// The session file `path`; `None` if another window uses it.
    pub(super) fn take(path: PathBuf) -> Option<Self> {
        let lock = path.with_extension("lock");
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(lock).ok();
        // Without locks, a file is used as if no other window were open.
        let is_free = |lock: &File| matches!(try_lock(lock), Ok(TryLock::Acquired | TryLock::Unsupported));
        let is_free = lock.as_ref().is_none_or(is_free);
        is_free.then(|| Self { fingerprint: fingerprint(&path), path, _lock: lock.map(LockedFile) })
    }

    /// When it was last written.
    fn time(&self) -> Option<SystemTime> {
        self.path.metadata().and_then(|about| about.modified()).ok()
    }

    pub(super) fn priority(&self) -> KeepPriority {
        Workspace::load(&self.path).map_or(KeepPriority::Unknown, |workspace| KeepPriority::of(&workspace))
    }
}

/// Where session files may be in the folder of the settings.
pub(super) fn all(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let name = |number| if number == 1 { FILE.to_owned() } else { format!("session-{number}.ssmprobe") };
    (1..=MAX_FILES).map(move |number| folder.join(name(number)))
}

/// The session files that no window has, the last written first.
pub(super) fn earlier(folder: &Path) -> Vec<SessionFile> {
    let mut earlier: Vec<SessionFile> =
        all(folder).filter(|path| path.exists()).filter_map(SessionFile::take).collect();
    earlier.sort_by_key(|file| Reverse(file.time()));
    earlier
}

/// A file for a session: a new one, or that of the earlier session whose loss matters least, if it is empty or enough are kept.
pub(super) fn another(folder: &Path) -> Option<SessionFile> {
    let earlier = earlier(folder);
    let most = if earlier.len() > EARLIER { KeepPriority::Notes } else { KeepPriority::Nothing };
    let rated = earlier.into_iter().map(|file| ((file.priority(), file.time()), file));
    let least = rated.min_by_key(|(rating, _)| *rating).filter(|((priority, _), _)| *priority <= most);
    let new = || all(folder).filter(|path| !path.exists()).find_map(SessionFile::take);
    least.map(|(_, file)| file).or_else(new)
}

/// SHA-256 of a workspace file; `None` if it cannot be read.
pub fn fingerprint(path: &Path) -> Option<String> {
    atomic_file::read(path, FILE_LIMIT).ok().map(|bytes| sha256::of_bytes(&bytes))
}
