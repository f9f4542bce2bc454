//! The workspace file that is open, and whether it lacks something of what is open now.

use std::path::{Path, PathBuf};

use super::MainWindow;
use crate::app::state::State;
use crate::app::state::workspace::Workspace;

/// A workspace file, and what it holds.
#[derive(Default)]
pub(super) struct NamedWorkspace {
    /// The file, where there is one.
    pub path: Option<PathBuf>,
    holds: Holds,
}

/// What the file holds.
#[derive(Default)]
enum Holds {
    /// Less than what is open.
    #[default]
    Less,
    /// What is open, once all of it is.
    Opening,
    /// This.
    This(Box<Workspace>),
}

impl NamedWorkspace {
    /// One that is being opened.
    pub fn opening(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), holds: Holds::Opening }
    }

    /// One that was just saved.
    pub fn saved(path: PathBuf, state: &State) -> Self {
        Self { path: Some(path), holds: Holds::This(Box::new(state.essence())) }
    }

    /// Looks at what was opened once all of it is open.
    pub fn settle(&mut self, state: &State) {
        if matches!(self.holds, Holds::Opening) && !state.is_opening() {
            self.holds = Holds::This(Box::new(state.essence()));
        }
    }

    /// Its file, where that lacks something of what is open.
    pub fn unsaved(&self, state: &State) -> Option<&Path> {
        let lacks = match &self.holds {
            Holds::Less => true,
            Holds::Opening => false,
            Holds::This(known) => **known != state.essence(),
        };
        self.path.as_deref().filter(|_| lacks)
    }
}

impl MainWindow {
    /// The workspace file that is open.
    pub fn workspace(&self) -> Option<&Path> {
        self.named.path.as_deref()
    }

    /// Whether that file lacks something of what is open.
    pub fn is_unsaved(&self, state: &State) -> bool {
        self.named.unsaved(state).is_some()
    }

    /// What is open is of no file any more.
    pub fn forget_workspace(&mut self) {
        self.named = NamedWorkspace::default();
    }

    /// Everything that is open, with the file it is of.
    pub fn session(&self, state: &State) -> Workspace {
        let saved_as = self.workspace().map(Path::to_owned);
        let unsaved = self.is_unsaved(state);
        Workspace { saved_as, unsaved, ..state.workspace(self.layout.value()) }
    }

    /// Takes the layout of a session, or of a workspace, and the file it is of; the state takes the rest.
    pub fn resume(&mut self, session: &Workspace) {
        self.layout.put(&session.layout);
        self.named = match &session.saved_as {
            Some(path) if session.unsaved => {
                NamedWorkspace { path: Some(path.clone()), ..Default::default() }
            }
            Some(path) => NamedWorkspace::opening(path),
            None => NamedWorkspace::default(),
        };
    }
}
