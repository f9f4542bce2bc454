//! What is open when the program ends is open when it starts again, after a crash too: a workspace beside the
//! settings, written whole or not at all, a moment after something changed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

use crate::app::state::workspace::{Workspace, WorkspaceError};
use crate::app::user_error::UserError;
use crate::model::io::atomic_file;

/// The file of the last session, beside the settings.
const FILE: &str = "session.ssmprobe";
/// What was open before something else was opened in its place.
const PREVIOUS: &str = "previous.ssmprobe";
/// A session that could not be read, kept for whoever can mend it.
const DAMAGED: &str = "session-damaged.ssmprobe";

/// Where sessions are kept, and what is kept there.
pub struct Session {
    path: PathBuf,
    /// What was written, or is being written.
    kept: Option<Workspace>,
    /// What comes of the writing under way.
    writing: Option<Receiver<Result<(), WorkspaceError>>>,
}

/// What there was of the last session.
pub enum Last {
    /// This; `unsaved` changes of the named workspace it is of are part of it.
    Open(Box<Workspace>),
    /// None.
    Nothing,
    /// One of which nothing is where it was, a disk that is not there say.
    Gone,
    /// None that can be read: why, and where its file is now.
    Damaged(UserError),
}

impl Session {
    /// Beside the settings in the file `settings`.
    pub fn beside(settings: &Path) -> Self {
        Self { path: settings.with_file_name(FILE), kept: None, writing: None }
    }

    /// Reads the last session. One with nothing in it counts as none; one that is damaged is put aside.
    pub fn load(&self) -> Last {
        match Workspace::load(&self.path) {
            Ok(workspace) => {
                let missing = workspace.missing().len();
                let all = workspace.ids().count() + workspace.runs.len() - workspace.columns.len();
                let noted = !workspace.findings.is_empty() || !workspace.notes.is_empty();
                match all {
                    _ if noted || missing < all => Last::Open(Box::new(workspace)),
                    0 => Last::Nothing,
                    _ => Last::Gone,
                }
            }
            Err(WorkspaceError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => Last::Nothing,
            Err(error) => {
                let aside = self.path.with_file_name(DAMAGED);
                let moved = std::fs::rename(&self.path, &aside);
                let remedy = match moved {
                    Ok(()) => format!("The demo is open instead; the file is {} now", aside.display()),
                    Err(_) => "The demo is open instead".to_owned(),
                };
                let line = format!("The last session could not be restored: {error}");
                Last::Damaged(UserError::new(line).remedy(remedy))
            }
        }
    }

    /// Puts the last session aside for what is opened in its place; where it is now, if there was one.
    pub fn put_aside(&self) -> Option<PathBuf> {
        let previous = self.path.with_file_name(PREVIOUS);
        std::fs::rename(&self.path, &previous).ok().map(|()| previous)
    }

    /// Whether this is the file of what was open before something else was opened in its place.
    pub fn is_previous(&self, path: &Path) -> bool {
        path == self.path.with_file_name(PREVIOUS)
    }

    /// Keeps what was open before something else is opened in its place; where.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_previous(&self, workspace: &Workspace) -> Result<PathBuf, WorkspaceError> {
        let previous = self.path.with_file_name(PREVIOUS);
        save(workspace, &previous).map(|()| previous)
    }

    /// Whether something is being written still.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// What came of the last writing, once it is over.
    ///
    /// # Errors
    /// If the file could not be written.
    pub fn written(&mut self) -> Result<(), WorkspaceError> {
        match self.writing.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => Ok(()),
            Some(outcome) => {
                self.writing = None;
                outcome.unwrap_or(Ok(()))
            }
        }
    }

    /// Writes this beside the window's thread, unless it is what was written last.
    pub fn write_beside(&mut self, workspace: Workspace, done: impl FnOnce() + Send + 'static) {
        if self.writing.is_some() || self.kept.as_ref() == Some(&workspace) {
            return;
        }
        self.kept = Some(workspace.clone());
        let (sender, receiver) = sync_channel(1);
        let path = self.path.clone();
        let write = move || {
            // The window may be gone; then nobody wants to know.
            sender.send(save(&workspace, &path)).ok();
            done();
        };
        if Builder::new().name("session".into()).spawn(write).is_ok() {
            self.writing = Some(receiver);
        }
    }

    /// Writes this before the program ends.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_last(&mut self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        if let Some(writing) = self.writing.take() {
            let _ = writing.recv(); // the last word is the one below
        }
        save(workspace, &self.path)
    }
}

/// Writes it, and makes the folder it goes to.
fn save(workspace: &Workspace, path: &Path) -> Result<(), WorkspaceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    atomic_file::make_folder(folder)
        .map_err(|source| WorkspaceError::Write { path: path.to_owned(), source })?;
    workspace.save(path)
}
