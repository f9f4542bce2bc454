//! Slow work on threads of its own: writing figures, rendering them for the clipboard, workspaces, order files, and reading
//! files to send.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use eframe::egui;
use egui::ColorImage;

use super::dialogs::leaving::Leaving;
use super::dialogs::relink::LoadedWorkspace;
use super::{MainWindow, WindowOrder};
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Cancel, ColumnId, JobId, received};
use crate::app::state::command::Command;
use crate::app::state::workspace::{Workspace, WorkspaceError};
use crate::app::state::{Severity, State};
use crate::model::hand_order::HandOrder;
use crate::model::io::catch_panic::catch_own;
use crate::viz::export::ExportFormat;

/// Result of such work.
pub enum Outcome {
    /// A figure was written to this file, or why not.
    Written(PathBuf, Result<(), String>),
    Cancelled,
    /// The findings of a share job were written to this path, or why not.
    Shared(JobId, Result<PathBuf, UserError>),
    /// The system opened a file, or why not.
    Opened(Result<(), String>),
    /// A rendered figure for the clipboard.
    Image(ColorImage),
    /// A pasted picture was written to this file.
    Pasted(PathBuf),
    /// A workspace that was read, or why it could not be; it is no longer wanted once this is cancelled.
    Loaded(Cancel, Box<Result<LoadedWorkspace, WorkspaceError>>),
    /// A workspace was written to this file: its comparable form, and what follows unless that is cancelled.
    Saved(PathBuf, Box<Workspace>, Option<(Cancel, Leaving)>),
    /// The order of this file, for a column.
    OrderRead(Option<ColumnId>, PathBuf, HandOrder),
    /// The order of a column was written to this file.
    OrderWritten(ColumnId, PathBuf, HandOrder),
    /// Files that were read, to be sent to the remote worker.
    Read(Vec<ResultFile>),
    /// The work failed: why.
    Failed(String),
}

/// Runs work on threads, one each, and collects the outcomes.
pub struct BackgroundWork {
    sender: SyncSender<Outcome>,
    outcomes: Receiver<Outcome>,
}

impl Default for BackgroundWork {
    fn default() -> Self {
        let (sender, outcomes) = sync_channel(16);
        Self { sender, outcomes }
    }
}

impl BackgroundWork {
    /// Runs `work` on a new thread and wakes the window when it is done or has panicked; an error if no thread can be started.
    /// `what` it does begins the messages: "Cannot open the file: ...".
    pub fn start(
        &self,
        ctx: &egui::Context,
        what: &'static str,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Result<JoinHandle<()>, String> {
        let (sender, ctx) = (self.sender.clone(), ctx.clone());
        let run = move || {
            // Fails only if the window is gone.
            let failed = |message| Outcome::Failed(format!("Cannot {what}: {message}"));
            sender.send(catch_own(work).unwrap_or_else(failed)).ok();
            ctx.request_repaint();
        };
        let thread = Builder::new().name("background".into()).spawn(run);
        thread.map_err(|error| format!("Cannot {what}: {error}"))
    }

    /// The next outcome, if any work has finished.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }
}

/// The file that the next export imitates: `path`, but in the picture format of `before` if it is no picture itself. Animations and
/// numbers must be chosen again, as not every figure has them.
fn next_to(path: PathBuf, before: Option<PathBuf>) -> PathBuf {
    let is_picture = ExportFormat::of_picture(&path).is_some();
    match before.filter(|_| !is_picture).as_deref().and_then(Path::extension) {
        Some(format) => path.with_extension(format),
        None => path,
    }
}

impl MainWindow {
    /// Runs work as [`BackgroundWork::start`] does, or notes why it could not begin.
    pub(super) fn spawn(
        &mut self,
        ctx: &egui::Context,
        what: &'static str,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        self.background.start(ctx, what, work).map_err(|why| self.note(Severity::Error, why)).ok()
    }

    /// Reads files, to be sent to the remote worker.
    pub(super) fn send_files(&mut self, ctx: &egui::Context, paths: Vec<PathBuf>) {
        let work = move || match received::read(&paths) {
            Ok(files) => Outcome::Read(files),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.spawn(ctx, "send the files", work);
    }

    /// Handles all outcomes since the last frame.
    pub(super) fn take_outcomes(&mut self, ctx: &egui::Context, state: &State) {
        while let Some(outcome) = self.background.outcome() {
            self.handle_outcome(ctx, state, outcome);
        }
    }

    fn handle_outcome(&mut self, ctx: &egui::Context, state: &State, outcome: Outcome) {
        match outcome {
            Outcome::Written(path, written) => {
                // Another export dialog may have been opened since.
                let open = self.dialogs.export.as_mut();
                let own = open.filter(|own| own.writing.is_some() && own.file() == path);
                match (written, own) {
                    (Ok(()), own) => {
                        if own.is_some() {
                            self.dialogs.export = None;
                        }
                        self.orders.push(WindowOrder::Wrote(path.clone()));
                        self.dialogs.exported = Some(next_to(path, self.dialogs.exported.take()));
                    }
                    (Err(why), Some(export)) => (export.error, export.writing) = (Some(why), None),
                    (Err(why), None) => self.note(Severity::Error, why),
                }
            }
            Outcome::Cancelled | Outcome::Opened(Ok(())) => {}
            Outcome::Image(image) => {
                ctx.copy_image(image);
                self.note(Severity::Info, "Copied the image".to_owned());
            }
            Outcome::Shared(job, written) => self.orders.push(WindowOrder::Shared(job, written)),
            Outcome::Opened(Err(why)) => self.note(Severity::Warning, why),
            Outcome::Pasted(path) if state.connection.host().is_some() => {
                self.send_files(ctx, vec![path]);
            }
            Outcome::Pasted(path) => self.send(Command::OpenImages(vec![path])),
            Outcome::Loaded(cancel, _) if cancel.is_cancelled() => {}
            Outcome::Loaded(_, read) => {
                self.loading = None;
                self.open(*read, state);
            }
            Outcome::Saved(path, comparable, then) => {
                self.orders.extend([WindowOrder::Wrote(path.clone()), WindowOrder::Saved(path.clone())]);
                let then = then.filter(|(cancel, _)| !cancel.is_cancelled());
                if self.named.saved(path, comparable) {
                    then.into_iter().for_each(|(_, to)| self.leave(to, state));
                }
            }
            Outcome::OrderRead(id, path, order) => self.order_read(id, &path, order, state),
            Outcome::OrderWritten(id, path, order) => self.order_written(id, &path, &order, state),
            Outcome::Read(files) => {
                files.into_iter().for_each(|file| self.send(Command::SendFile(Box::new(file))));
            }
            Outcome::Failed(why) => self.note(Severity::Error, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    impl MainWindow {
        /// Waits for the next outcome and handles it alone; the orders that follow.
        pub(in crate::app::window) fn next_outcome(&mut self, state: &State) -> Vec<WindowOrder> {
            let next = self.background.outcomes.recv_timeout(Duration::from_mins(5)).expect("an outcome");
            self.handle_outcome(&egui::Context::default(), state, next);
            self.take_orders()
        }
    }

    #[test]
    fn numbers_and_animations_leave_the_format_of_the_picture_before_them() {
        let next = |path: &str, before: Option<&str>| next_to(path.into(), before.map(PathBuf::from));
        assert_eq!(next("b/n.csv", Some("a/p.pdf")), Path::new("b/n.pdf"));
        assert_eq!(next("b/n.gif", Some("a/p.png")), Path::new("b/n.png"));
        assert_eq!(next("b/n.svg", Some("a/p.png")), Path::new("b/n.svg"));
        assert_eq!(next("b/n.csv", None), Path::new("b/n.csv"));
    }

    #[test]
    fn a_failure_says_what_was_tried() {
        let background = BackgroundWork::default();
        background.start(&egui::Context::default(), "open the file", || panic!("no reason")).unwrap();
        let Ok(Outcome::Failed(why)) = background.outcomes.recv() else { panic!("it did not fail") };
        assert_eq!(why, "Cannot open the file: no reason");
    }
}
