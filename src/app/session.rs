//! The session: what is open is saved as a workspace beside the settings shortly after every change, atomically, and
//! opened again at the next start, also after a crash.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

use crate::app::state::workspace::{Workspace, WorkspaceError};
use crate::app::user_error::UserError;
use crate::model::io::atomic_file;

/// The file of the last session, beside the settings.
const FILE: &str = "session.ssmprobe";
/// The file of the session before something else was opened in its place.
const PREVIOUS: &str = "previous.ssmprobe";
/// The name given to a session file that could not be read, which is kept for repair.
const DAMAGED: &str = "session-damaged.ssmprobe";

/// The session file, and what was last written to it.
pub struct Session {
    path: PathBuf,
    /// The workspace that was last written, or is being written.
    last_written: Option<Workspace>,
    /// The result of the write in progress.
    writing: Option<Receiver<Result<(), WorkspaceError>>>,
}

/// The last session, as found at the start of the program.
pub enum Last {
    /// It was read. If it belongs to a named workspace, it includes that one's unsaved changes.
    Open(Box<Workspace>),
    /// There is none, or it was empty.
    Nothing,
    /// None of its files exists any more, as when a disk is not mounted.
    Gone,
    /// It could not be read: why, and where its file is now.
    Damaged(UserError),
}

impl Session {
    /// The session beside the settings file `settings`.
    pub fn beside(settings: &Path) -> Self {
        Self { path: settings.with_file_name(FILE), last_written: None, writing: None }
    }

    /// Reads the last session. A file that cannot be read is renamed.
    pub fn load(&self) -> Last {
        match Workspace::load(&self.path) {
            Ok(workspace) => {
                let missing = workspace.missing().len();
                let all = workspace.ids().count() + workspace.runs.len() - workspace.columns.len();
                let has_notes = !workspace.findings.is_empty() || !workspace.notes.is_empty();
                match all {
                    _ if has_notes || missing < all => Last::Open(Box::new(workspace)),
                    0 => Last::Nothing,
                    _ => Last::Gone,
                }
            }
            Err(WorkspaceError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Last::Nothing,
            Err(error) => {
                let aside = self.path.with_file_name(DAMAGED);
                let moved = std::fs::rename(&self.path, &aside);
                let remedy = match moved {
                    Ok(()) => format!("The demo is open instead; the file is now {}", aside.display()),
                    Err(_) => "The demo is open instead".to_owned(),
                };
                let line = format!("The last session could not be restored: {error}");
                Last::Damaged(UserError::new(line).remedy(remedy))
            }
        }
    }

    /// Renames the file of the last session, as something else is opened in its place; returns its new path, if it existed.
    pub fn put_aside(&self) -> Option<PathBuf> {
        let previous = self.path.with_file_name(PREVIOUS);
        std::fs::rename(&self.path, &previous).ok().map(|()| previous)
    }

    /// Whether a path is the file that [`put_aside`](Self::put_aside) and [`keep_previous`](Self::keep_previous) write.
    pub fn is_previous(&self, path: &Path) -> bool {
        path == self.path.with_file_name(PREVIOUS)
    }

    /// Saves what is open before something else is opened in its place; returns the path.
    pub fn keep_previous(&self, workspace: &Workspace) -> Result<PathBuf, WorkspaceError> {
        let previous = self.path.with_file_name(PREVIOUS);
        save(workspace, &previous).map(|()| previous)
    }

    /// Whether a write is in progress.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Takes the result of the last write, once it has ended.
    pub fn written(&mut self) -> Result<(), WorkspaceError> {
        match self.writing.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => Ok(()),
            Some(outcome) => {
                self.writing = None;
                let outcome = outcome.unwrap_or(Ok(()));
                if outcome.is_err() {
                    self.last_written = None; // the same content is to be written again
                }
                outcome
            }
        }
    }

    /// Writes the workspace on another thread and calls `done`, unless a write is in progress or it was written last.
    pub fn write_beside(&mut self, workspace: Workspace, done: impl FnOnce() + Send + 'static) {
        if self.writing.is_some() || self.last_written.as_ref() == Some(&workspace) {
            return;
        }
        self.last_written = Some(workspace.clone());
        let (sender, receiver) = sync_channel(1);
        let path = self.path.clone();
        let write = move || {
            // Fails if the window is gone.
            sender.send(save(&workspace, &path)).ok();
            done();
        };
        if Builder::new().name("session".into()).spawn(write).is_ok() {
            self.writing = Some(receiver);
        }
    }

    /// Writes the workspace on this thread, before the program ends.
    pub fn write_last(&mut self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        if let Some(writing) = self.writing.take() {
            let _ = writing.recv(); // overwritten below
        }
        save(workspace, &self.path)
    }
}

/// Writes a workspace, making its folder.
fn save(workspace: &Workspace, path: &Path) -> Result<(), WorkspaceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    atomic_file::make_folder(folder)
        .map_err(|source| WorkspaceError::Write { path: path.to_owned(), source })?;
    workspace.save(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_written_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = folder.path().join("settings");
        std::fs::write(&in_the_way, "a file where the folder should be").unwrap();
        let mut session = Session::beside(&in_the_way.join("settings.json"));
        let mut write = || {
            let (sender, done) = sync_channel(1);
            session.write_beside(Workspace::default(), move || sender.send(()).unwrap());
            done.recv().expect("it is written");
            session.written()
        };
        assert!(write().is_err());
        std::fs::remove_file(&in_the_way).unwrap();
        write().unwrap();
        assert!(in_the_way.join(FILE).exists());
    }
}
