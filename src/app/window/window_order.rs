//! What the window orders from the [`App`](super::App) around it.

use std::path::PathBuf;

use super::dialogs::leaving::Leaving;
use crate::app::jobs::JobId;
use crate::app::jobs::user_error::UserError;
use crate::app::state::Severity;
use crate::app::state::command::Command;
use crate::app::state::workspace::Workspace;

/// An order to the application.
pub enum WindowOrder {
    /// Dispatch a command to the state.
    Command(Command),
    /// Add a note to log and toasts.
    Note(Severity, String),
    /// Note that this file was written, which the note opens.
    Wrote(PathBuf),
    /// Restore everything from the workspace in this file.
    Restore(PathBuf, Box<Workspace>),
    /// The workspace was saved in this file.
    Saved(PathBuf),
    /// The findings of a share job were written to this path, or why not.
    Shared(JobId, Result<PathBuf, UserError>),
    /// Leave what is open for this; no changes of its workspace are to be saved first any more.
    Leave(Leaving),
    /// Try to connect now.
    ConnectNow,
}
