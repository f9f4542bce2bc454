//! Sessions: what is open in a window is saved as a workspace beside the settings shortly after every change, atomically, and
//! opened again at the next start, also after a crash. Each window writes a file of its own, and a lock file beside it keeps
//! other windows out; what a window leaves behind is an earlier session. Locks may not reach a window on another machine: a file
//! that it has written is left to it.

mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::Builder;

use self::files::{FILE, KeepPriority, SessionFile};
pub use self::files::{fingerprint, has_notes};
use crate::app::jobs::user_error::UserError;
use crate::app::state::workspace::{Workspace, WorkspaceError};
use crate::model::io::atomic_file;

/// The session of a window, and what was last written of it.
pub struct Session {
    /// The folder of the settings.
    folder: PathBuf,
    /// The file that this window writes, from the first write on.
    own: Option<SessionFile>,
    /// The workspace that was last written, or is being written.
    last_written: Option<Arc<Workspace>>,
    /// The result of the write in progress.
    writing: Option<Receiver<Written>>,
}

/// The result of a write: SHA-256 of what the file holds, or nothing if another window has written it, which it was left to.
type Written = Result<Option<String>, WorkspaceError>;

/// The last session, as found at the start of the program.
pub enum LastSession {
    /// It was read. If it belongs to a named workspace, it includes that one's unsaved changes.
    Open(Box<Workspace>),
    /// There is none, or it was empty.
    Nothing,
    /// None of its files exists any more, as when a disk is not mounted.
    Gone,
    /// It cannot be read, and its file stays as it is, as a newer version may have written it.
    Unreadable(UserError),
}

impl Session {
    /// A session beside the settings file `settings`.
    pub fn beside(settings: &Path) -> Self {
        let folder = settings.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, own: None, last_written: None, writing: None }
    }

    /// Reads the last session that no other window has, and continues in its file.
    pub fn load(&mut self) -> LastSession {
        let Some(newest) = files::earlier(&self.folder).into_iter().next() else {
            return LastSession::Nothing;
        };
        match Workspace::load(&newest.path) {
            Ok(workspace) => match KeepPriority::of(&workspace) {
                KeepPriority::Nothing => LastSession::Nothing,
                KeepPriority::Entries if !workspace.any_entry_exists() => LastSession::Gone,
                _ => {
                    self.own = Some(newest);
                    LastSession::Open(Box::new(workspace))
                }
            },
            Err(error) => {
                let error = UserError::new(format!("The last session could not be restored: {error}"));
                LastSession::Unreadable(error.remedy("The demo is open instead; the file stays as it is"))
            }
        }
    }

    /// The last session that is not empty and that no other window has.
    pub fn last(&self) -> Option<PathBuf> {
        files::earlier(&self.folder)
            .into_iter()
            .find(|file| file.priority() > KeepPriority::Nothing)
            .map(|file| file.path)
    }

    /// Whether a path is a session file.
    pub fn is_session(&self, path: &Path) -> bool {
        files::all(&self.folder).any(|file| file == path)
    }

    /// Whether a path is the file that this window writes.
    pub fn is_own(&self, path: &Path) -> bool {
        self.own.as_ref().is_some_and(|own| own.path == path)
    }

    /// Continues in an earlier session's file, unless another window has it.
    pub fn continue_in(&mut self, path: &Path) {
        let own = self.is_session(path).then(|| SessionFile::take(path.to_owned())).flatten();
        if own.is_some() {
            (self.own, self.writing) = (own, None); // what is being written is in another file
        }
    }

    /// Saves what is open before something else is opened in its place, which gets another file; returns the path.
    pub fn put_aside(&mut self, workspace: &Workspace) -> Result<PathBuf, WorkspaceError> {
        let path = self.write_last(workspace)?;
        self.leave();
        Ok(path)
    }

    /// Leaves the file of this window as it is: what is opened next gets another.
    pub fn leave(&mut self) {
        (self.own, self.last_written, self.writing) = (None, None, None);
    }

    /// The file that this window writes from now on, and what it is expected to hold.
    fn path(&mut self) -> (PathBuf, Option<String>) {
        if self.own.is_none() {
            let _ = atomic_file::make_folder(&self.folder); // the write says why
            self.own = files::another(&self.folder);
        }
        match &self.own {
            Some(own) => (own.path.clone(), own.fingerprint.clone()),
            None => (self.folder.join(FILE), fingerprint(&self.folder.join(FILE))),
        }
    }

    pub fn has_file(&self) -> bool {
        self.own.is_some()
    }

    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Takes the result of the last write, once it has ended. If the file was left to another window, writes another one, then calls `done`.
    pub fn written(&mut self, done: impl FnOnce() + Send + 'static) -> Result<(), WorkspaceError> {
        let outcome = match self.writing.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(()),
            Some(outcome) => outcome,
        };
        self.writing = None;
        match &outcome {
            Ok(Ok(Some(fingerprint))) => self.wrote(fingerprint),
            Ok(Ok(None)) => {
                self.own = None;
                if let Some(workspace) = self.last_written.take() {
                    self.write_beside(Arc::unwrap_or_clone(workspace), done);
                }
            }
            Ok(Err(_)) => self.last_written = None, // the same content is to be written again
            Err(_) => {}
        }
        outcome.unwrap_or(Ok(None)).map(drop)
    }

    /// The file of this window has this fingerprint now.
    fn wrote(&mut self, fingerprint: &str) {
        self.own.iter_mut().for_each(|own| own.fingerprint = Some(fingerprint.to_owned()));
    }

    /// Writes the workspace on another thread and calls `done`, unless a write is in progress or it was written last.
    pub fn write_beside(&mut self, workspace: Workspace, done: impl FnOnce() + Send + 'static) {
        if self.writing.is_some() || self.last_written.as_deref() == Some(&workspace) {
            return;
        }
        let workspace = Arc::new(workspace); // not copied: it may list 200,000 images, on the window's thread
        let written = workspace.clone();
        let (sender, receiver) = sync_channel(1);
        let (path, expected) = self.path();
        let write = move || {
            // Fails if the window is gone.
            sender.send(save(&written, &path, expected)).ok();
            done();
        };
        // Without a thread, the same content is to be written again.
        if Builder::new().name("session".into()).spawn(write).is_ok() {
            (self.last_written, self.writing) = (Some(workspace), Some(receiver));
        }
    }

    /// Writes the workspace on this thread, before the program ends.
    pub fn write_last(&mut self, workspace: &Workspace) -> Result<PathBuf, WorkspaceError> {
        if let Some(Ok(Ok(Some(fingerprint)))) = self.writing.take().map(|writing| writing.recv()) {
            self.wrote(&fingerprint); // overwritten below
        }
        self.last_written = None; // should it fail, the same content is to be written again
        loop {
            let (path, expected) = self.path();
            if let Some(fingerprint) = save(workspace, &path, expected)? {
                self.wrote(&fingerprint);
                return Ok(path);
            }
            self.own = None;
        }
    }
}

/// Writes a workspace, making its folder, unless the file holds other than `expected`.
fn save(workspace: &Workspace, path: &Path, expected: Option<String>) -> Written {
    atomic_file::make_folder(path.parent().unwrap_or(Path::new(".")))
        .map_err(|source| WorkspaceError::Write { path: path.to_owned(), source })?;
    let found = fingerprint(path);
    if found.is_some() && found != expected {
        return Ok(None);
    }
    workspace.save(path)?;
    Ok(Some(fingerprint(path).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::File;
    use std::time::SystemTime;

    use super::files::EARLIER;
    use super::*;
    use crate::app::state::Finding;

    fn found(note: &str) -> Workspace {
        let finding = Finding { image: PathBuf::from("a.png").into(), note: note.into(), view: None };
        Workspace { findings: vec![finding], ..Workspace::default() }
    }

    #[test]
    fn windows_write_files_of_their_own_and_go_on_in_one_that_no_other_has() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings.json");
        let window = || Session::beside(&settings);
        let [mut one, mut other] = [window(), window()];
        let first = one.write_last(&found("one")).unwrap();
        let second = other.write_last(&found("other")).unwrap();
        assert_eq!(first, folder.path().join(FILE));
        assert!(matches!(window().load(), LastSession::Nothing), "both are open");
        let Some(SessionFile { _lock: Some(lock), .. }) = &other.own else { panic!("no lock") };
        let _of_child = lock.0.try_clone().unwrap(); // a child process of another thread has it open for a moment
        drop(other);
        let mut next = window();
        let LastSession::Open(restored) = next.load() else { panic!("nothing is restored") };
        assert_eq!(restored.findings[0].note, "other");
        assert_eq!(next.write_last(&found("next")).unwrap(), second);
        // A session that was put aside can be continued in its own file, unless another window has it.
        assert_eq!(next.put_aside(&found("next")).unwrap(), second);
        let third = next.write_last(&found("third")).unwrap();
        one.continue_in(&third);
        one.continue_in(&second);
        assert!(one.is_own(&second) && !next.is_own(&second));
        assert_eq!(one.write_last(&found("one")).unwrap(), second);
    }

    #[test]
    fn a_file_that_a_window_on_another_machine_has_written_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = Session::beside(&folder.path().join("settings.json"));
        let first = session.write_last(&found("here")).unwrap();
        found("there").save(&first).unwrap(); // whose locks do not reach this one
        let second = session.write_last(&found("here")).unwrap();
        found("there, too").save(&second).unwrap();
        let (sender, done) = sync_channel(1);
        let [write, again] = [sender.clone(), sender].map(|sender| move || sender.send(()).unwrap());
        session.write_beside(found("still here"), write);
        done.recv().unwrap();
        session.written(again).unwrap();
        done.recv().expect("the window is told of the second write, too");
        let third = session.write_last(&found("still here")).unwrap();
        let note = |path: PathBuf| Workspace::load(&path).unwrap().findings[0].note.clone();
        assert_eq!([first, second, third].map(note), ["there", "there, too", "still here"]);
    }

    #[test]
    fn findings_outlive_later_sessions_without_any_and_empty_ones_make_room_first() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings.json");
        let write = |workspace: &Workspace| Session::beside(&settings).write_last(workspace).unwrap();
        let kept = write(&found("Edge"));
        let other = Workspace { runs: vec!["run".into()], ..Workspace::default() };
        let later: HashSet<PathBuf> = (0..4 * EARLIER).map(|_| write(&other)).collect();
        assert_eq!((later.len(), later.contains(&kept)), (EARLIER, false));
        let empty = write(&Workspace::default());
        assert!(Session::beside(&settings).last().is_some_and(|last| last != empty));
        assert_eq!(write(&other), empty);
        assert_eq!(Workspace::load(&kept).unwrap().findings[0].note, "Edge");
    }

    #[test]
    fn sessions_of_a_newer_version_outlast_those_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings.json");
        let newer: Vec<PathBuf> = files::all(folder.path()).take(EARLIER + 1).collect();
        for path in &newer {
            std::fs::write(path, r#"{"ssmprobe_workspace": 2}"#).unwrap();
            File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        for number in 0..2 * EARLIER {
            let mut window = Session::beside(&settings);
            assert_eq!(matches!(window.load(), LastSession::Unreadable(_)), number == 0, "{number}");
            window.leave();
            window.write_last(&Workspace { runs: vec!["run".into()], ..Workspace::default() }).unwrap();
        }
        for path in newer {
            assert!(matches!(Workspace::load(&path), Err(WorkspaceError::Format { .. })));
        }
    }

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
            session.written(|| {})
        };
        assert!(write().is_err());
        std::fs::remove_file(&in_the_way).unwrap();
        write().unwrap();
        assert!(in_the_way.join(FILE).exists());
    }
}
