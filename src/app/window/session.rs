//! The session of the window: opened at the start, written after every change, and left as an earlier one when something else
//! is opened in its place.

use std::path::Path;
use std::time::{Duration, Instant};

use eframe::egui;

use super::App;
use super::dialogs::close_confirm::{CloseConfirm, stay};
use crate::app::demo;
use crate::app::format::file_name;
use crate::app::session::{LastSession, Session, has_notes};
use crate::app::state::Severity;
use crate::app::state::command::Command;
use crate::app::state::workspace::{Workspace, WorkspaceError};

/// How long after a change the session is written: the most work that a crash loses.
const SESSION_DELAY: Duration = Duration::from_secs(2);
/// What to do about a session that cannot be written.
const ELSEWHERE: &str = "save the workspace on another disk (File > Save workspace as…)";

/// The last warning that the session cannot be written. Each is shown once: a full disk stays full for a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SessionWarning {
    Nothing,
    /// That it cannot be written.
    Failed,
    /// That its findings or stars are lost with the window.
    NotesLost,
}

impl App {
    /// Opens the last session; the demo if it is empty, none of its files exist, or it cannot be read.
    pub fn resume(&mut self) {
        match self.session.as_mut().map_or(LastSession::Nothing, Session::load) {
            LastSession::Open(workspace) => {
                let demo = demo::demo().is_ok_and(|demo| uses_demo(&workspace, &demo));
                match self.replace(*workspace) {
                    // The demo is small enough to be evaluated again at once.
                    true if demo => self.dispatch(Command::Evaluate { all: false }),
                    true => {}
                    false => self.session.iter_mut().for_each(Session::leave),
                }
            }
            LastSession::Nothing => self.start_demo(),
            LastSession::Gone => {
                self.remember_last_session();
                self.start_demo();
            }
            LastSession::Unreadable(error) => {
                self.start_demo();
                self.state.note(Severity::Error, error.to_string());
            }
        }
    }

    /// Makes the last session a recent workspace, as something else is opened.
    pub fn remember_last_session(&mut self) {
        let last = self.session.as_ref().and_then(Session::last);
        last.into_iter().for_each(|path| self.state.remember_workspace(path));
    }

    /// Whether what is open is empty, the untouched demo, or removed with the window.
    fn shows_nothing(&self) -> bool {
        let is_nothing = self.state.is_empty() || self.state.is_temporary();
        is_nothing || demo::demo().is_ok_and(|demo| self.state.is_untouched(&demo))
    }

    /// Leaves what is open as an earlier session, unless it is empty, the untouched demo, or saved in a file; whether something
    /// else may take its place.
    pub(super) fn put_aside(&mut self) -> bool {
        let named = self.window.workspace().is_some();
        let kept = self.shows_nothing() || named && !self.window.is_unsaved(&self.state);
        self.put_aside_in = self.window.workspace().filter(|_| kept).map(Path::to_owned);
        let Some(session) = self.session.as_mut().filter(|_| !kept) else { return true };
        let open = self.window.session(&self.state);
        match session.put_aside(&open) {
            Ok(path) => {
                let name = file_name(&path);
                let text = format!("What was open is kept as {name}; reopen it later with Open recent");
                self.state.note(Severity::Info, text);
                self.state.remember_workspace(path.clone());
                self.put_aside_in = Some(path);
                true
            }
            Err(error) if loses_notes(&error, &open) => {
                self.changed.get_or_insert_with(Instant::now); // it is tried again
                let text = format!(
                    "{error}. What is open stays, as its findings and stars would be lost; {ELSEWHERE}"
                );
                self.state.note(Severity::Error, text);
                false
            }
            Err(error) => {
                session.leave();
                self.state.note(Severity::Warning, error.to_string());
                true
            }
        }
    }

    /// Keeps the window open, once, if findings or stars would be lost with it, as neither a workspace nor the session has them;
    /// after the questions that are asked before it closes.
    pub(super) fn keep_notes(&mut self, ctx: &egui::Context) {
        let dialogs = &self.window.dialogs;
        let is_asked = dialogs.leaving.is_some() || dialogs.close == CloseConfirm::Asking;
        let closing = ctx.input(|i| i.viewport().close_requested()) && !is_asked;
        let open = closing.then(|| self.session_to_write()).flatten();
        let Some(open) = open.filter(has_notes) else { return };
        let Err(error) = self.save_session() else { return };
        if self.session_warning < SessionWarning::NotesLost && loses_notes(&error, &open) {
            self.session_warning = SessionWarning::NotesLost;
            self.changed.get_or_insert_with(Instant::now); // it is tried again
            self.window.dialogs.close = CloseConfirm::Idle; // and the questions are asked again
            stay(ctx);
            let text = format!(
                "{error}. The window stays open, as its findings and stars would be lost; {ELSEWHERE}, or close it again"
            );
            self.state.note(Severity::Error, text);
        }
    }

    /// What is open; `None` if that is nothing to keep, and no file of this window holds anything else.
    fn session_to_write(&self) -> Option<Workspace> {
        let has_file = self.session.as_ref().is_some_and(Session::has_file);
        (has_file || !self.shows_nothing()).then(|| self.window.session(&self.state))
    }

    /// Writes the session on another thread, [`SESSION_DELAY`] after its first unwritten change.
    pub(super) fn save_session_if_due(&mut self, ctx: &egui::Context) {
        let Some(session) = &mut self.session else { return };
        let wake = || {
            let ctx = ctx.clone();
            move || ctx.request_repaint()
        };
        if let Err(error) = session.written(wake()) {
            self.changed.get_or_insert_with(Instant::now); // it is tried again
            if self.session_warning == SessionWarning::Nothing {
                self.session_warning = SessionWarning::Failed;
                self.state.note(Severity::Warning, error.to_string());
            }
        }
        let Some(since) = self.changed else {
            if !session.is_writing() {
                self.session_warning = SessionWarning::Nothing; // all is written: if it fails again, that is worth a warning
            }
            return;
        };
        let left = SESSION_DELAY.saturating_sub(since.elapsed());
        if left > Duration::ZERO {
            return ctx.request_repaint_after(left);
        }
        if session.is_writing() {
            return; // the write wakes the window when it ends, and that frame comes here again
        }
        self.changed = None;
        if let Some((now, session)) = self.session_to_write().zip(self.session.as_mut()) {
            session.write_beside(now, wake());
        }
    }

    /// Writes the session before the program ends.
    pub(super) fn save_session(&mut self) -> Result<(), WorkspaceError> {
        match self.session_to_write().zip(self.session.as_mut()) {
            Some((now, session)) => session.write_last(&now).map(drop),
            None => Ok(()),
        }
    }
}

/// Whether the dataset in use is that of the demo, whose folder is `demo`.
fn uses_demo(workspace: &Workspace, demo: &Path) -> bool {
    let mut datasets = workspace.datasets.iter();
    datasets.any(|one| Some(one.id) == workspace.dataset && one.path.starts_with(demo))
}

/// Whether findings or stars of what is open are in no file, as that of the session could not be written.
fn loses_notes(error: &WorkspaceError, open: &Workspace) -> bool {
    let session = if let WorkspaceError::Write { path, .. } = error { Some(path) } else { None };
    let has_them = |kept: Workspace| (&kept.findings, &kept.notes) == (&open.findings, &open.notes);
    let mut files = session.into_iter().chain(&open.saved_as);
    has_notes(open) && !files.any(|file| Workspace::load(file).is_ok_and(has_them))
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::app::jobs::{DatasetId, Event, Request};
    use crate::app::remote::AnyWorker;
    use crate::app::state::workspace::SavedDataset;

    struct Nobody;

    impl AnyWorker for Nobody {
        fn send(&mut self, _: Request) {}

        fn recv_timeout(&mut self, _: Duration) -> Option<Event> {
            None
        }
    }

    #[test]
    fn beside_the_demo_a_large_dataset_in_use_is_not_evaluated_at_the_start() {
        let dataset =
            |id: u64, path: &str| SavedDataset { id: DatasetId(id), path: path.into(), split: None };
        let using = |id: u64| Workspace {
            datasets: vec![dataset(1, "/demo/scenes"), dataset(2, "/data/imagenet")],
            dataset: Some(DatasetId(id)),
            ..Workspace::default()
        };
        assert!(uses_demo(&using(1), Path::new("/demo")) && !uses_demo(&using(2), Path::new("/demo")));
    }

    #[test]
    fn that_the_session_cannot_be_written_is_told_once_and_not_after_that_its_findings_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        for (told, notes) in [(SessionWarning::Nothing, 1), (SessionWarning::NotesLost, 0)] {
            let ctx = egui::Context::default();
            let settings = folder.path().join(format!("config-{notes}/settings.json"));
            let mut app = App::new(&ctx, Box::new(Nobody), Some(&settings));
            std::fs::write(settings.parent().unwrap(), "a file where the folder should be").unwrap();
            app.dispatch(Command::OpenBackbone("away".into()));
            app.session_warning = told;
            let before = app.state.log.len();
            for _ in 0..2 {
                app.changed = Instant::now().checked_sub(SESSION_DELAY);
                app.save_session_if_due(&ctx);
                while app.session.as_ref().is_some_and(Session::is_writing) {
                    sleep(Duration::from_millis(1));
                    app.save_session_if_due(&ctx);
                }
            }
            assert_eq!(app.state.log.len() - before, notes);
        }
    }
}
