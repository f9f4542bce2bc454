//! The open workspace file, and whether what is open has changes that are not in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::MainWindow;
use crate::app::state::State;
use crate::app::state::workspace::Workspace;

/// The field of a stored layout for the panels outside the panes, by id: whether they are shown.
const OUTSIDE: &str = "outside";

/// A workspace file and its SHA-256, if known; shared with the threads that write.
type Fingerprint = Mutex<Option<(PathBuf, String)>>;

/// A workspace file, and what it contains.
#[derive(Default)]
pub(super) struct NamedWorkspace {
    /// The file; `None` while nothing is saved or opened as a workspace.
    pub path: Option<PathBuf>,
    content: Content,
    /// The file that what is open was last written to, or is being written to.
    pub writes: Option<PathBuf>,
    /// Fingerprint of the file when it was last read or written here.
    pub fingerprint: Arc<Fingerprint>,
}

/// What the file contains.
#[derive(Default)]
enum Content {
    /// Something older than what is open.
    #[default]
    Outdated,
    /// What is open as soon as all of it has been opened.
    Opening,
    /// The [comparable form](State::comparable) of this workspace.
    Known(Box<Workspace>),
}

impl NamedWorkspace {
    /// A file that is being opened.
    pub fn opening(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), content: Content::Opening, ..Self::default() }
    }

    /// Remembers that the workspace `comparable` was written to a file; false if something else was opened, or saved elsewhere, meanwhile.
    pub fn saved(&mut self, path: PathBuf, comparable: Box<Workspace>) -> bool {
        let is_own = self.writes.as_ref() == Some(&path);
        if is_own {
            (self.path, self.content) = (Some(path), Content::Known(comparable));
        }
        is_own
    }

    /// Remembers what was opened, once all of it is open.
    pub fn settle(&mut self, state: &State) {
        if matches!(self.content, Content::Opening) && !state.library.is_opening() {
            self.content = Content::Known(Box::new(state.comparable()));
        }
    }

    /// The file, if what is open has changes that are not in it.
    pub fn unsaved(&self, state: &State) -> Option<&Path> {
        let is_unsaved = match &self.content {
            Content::Outdated => true,
            Content::Opening => false,
            Content::Known(known) => **known != state.comparable(),
        };
        self.path.as_deref().filter(|_| is_unsaved)
    }
}

/// What is known of a workspace file.
pub(super) fn known(fingerprint: &Fingerprint) -> MutexGuard<'_, Option<(PathBuf, String)>> {
    fingerprint.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MainWindow {
    /// The open workspace file.
    pub fn workspace(&self) -> Option<&Path> {
        self.named.path.as_deref()
    }

    /// Whether what is open has changes that are not in that file.
    pub fn is_unsaved(&self, state: &State) -> bool {
        self.named.unsaved(state).is_some()
    }

    /// Detaches what is open from its workspace file.
    pub fn forget_workspace(&mut self) {
        self.stop_loading();
        self.named = NamedWorkspace::default();
    }

    /// Everything that is open, with its workspace file.
    pub fn session(&self, state: &State) -> Workspace {
        let saved_as = self.workspace().map(Path::to_owned);
        let unsaved = self.is_unsaved(state);
        let known =
            known(&self.named.fingerprint).clone().filter(|(path, _)| Some(path) == saved_as.as_ref());
        let saved_fingerprint = known.map(|(_, sha256)| sha256);
        let all = state.without_removed(state.workspace(self.stored_layout()));
        Workspace { saved_as, unsaved, saved_fingerprint, ..all }
    }

    /// The layout as a workspace stores it, with the panels outside the panes that are shown.
    pub(super) fn stored_layout(&self) -> Value {
        let mut stored = self.layout.stored();
        stored[OUTSIDE] = json!({"findings": self.findings, "jobs": self.jobs});
        stored
    }

    /// Takes over the layout and the file name of a session or workspace; the state takes over the rest.
    pub fn resume(&mut self, session: &Workspace) {
        self.stop_loading();
        self.layout.set_value(&session.layout);
        // An earlier version has not stored them: they stay as they are.
        let is_shown = |panel: &str| session.layout[OUTSIDE][panel].as_bool();
        self.findings = is_shown("findings").unwrap_or(self.findings);
        self.jobs = is_shown("jobs").unwrap_or(self.jobs);
        self.named = match &session.saved_as {
            Some(path) if session.unsaved => {
                NamedWorkspace { path: Some(path.clone()), ..Default::default() }
            }
            Some(path) => NamedWorkspace::opening(path),
            None => NamedWorkspace::default(),
        };
        let known = session.saved_as.clone().zip(session.saved_fingerprint.clone());
        self.named.fingerprint = Arc::new(Mutex::new(known));
    }
}
