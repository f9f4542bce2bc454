//! What takes its time beside the window: writing figures, drawing them for the clipboard, reading what is sent elsewhere.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use eframe::egui;
use egui::ColorImage;

use super::{MainWindow, WindowOrder};
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::{JobId, received};
use crate::app::state::command::Command;
use crate::app::state::{Severity, State};
use crate::app::user_error::UserError;

/// What came of an export or a copy.
pub enum Outcome {
    /// Written here, or why not.
    Written(PathBuf, Result<(), String>),
    /// Findings were written there, or could not be.
    Shared(JobId, Result<PathBuf, UserError>),
    /// The system was asked to open a file; why it does not.
    Opened(Result<(), String>),
    /// A picture for the clipboard.
    Image(ColorImage),
    /// A picture from the clipboard is this file now.
    Pasted(PathBuf),
    /// Files to be sent where it is computed.
    Read(Vec<ResultFile>),
    /// Nothing; why.
    Failed(String),
}

/// Exports under way, each on a thread of its own.
pub struct Exporter {
    sender: SyncSender<Outcome>,
    outcomes: Receiver<Outcome>,
}

impl Default for Exporter {
    fn default() -> Self {
        let (sender, outcomes) = sync_channel(16);
        Self { sender, outcomes }
    }
}

impl Exporter {
    /// Does `work` and wakes the window.
    pub fn start(
        &self,
        ctx: &egui::Context,
        work: impl FnOnce() -> Outcome + Send + 'static,
    ) -> Result<(), String> {
        let (sender, ctx) = (self.sender.clone(), ctx.clone());
        let run = move || {
            // The window may be gone; then nobody wants to know.
            sender.send(work()).ok();
            ctx.request_repaint();
        };
        let thread = Builder::new().name("export".into()).spawn(run);
        thread.map(drop).map_err(|error| format!("Cannot export: {error}"))
    }

    /// Reads files to be sent where it is computed.
    pub fn send(&self, ctx: &egui::Context, paths: Vec<PathBuf>) -> Option<WindowOrder> {
        let work = move || match received::read(&paths) {
            Ok(files) => Outcome::Read(files),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.start(ctx, work).err().map(|why| WindowOrder::Note(Severity::Error, why))
    }

    /// What came of one of them.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }
}

impl MainWindow {
    /// What exports that are done come to.
    pub(super) fn exported(&mut self, ctx: &egui::Context, state: &State) -> Vec<WindowOrder> {
        let mut orders = Vec::new();
        while let Some(outcome) = self.exporter.outcome() {
            match outcome {
                Outcome::Written(path, written) => {
                    // Another dialog may have been opened since.
                    let own = self.export.as_mut().filter(|export| export.file() == path);
                    match (written, own) {
                        (Ok(()), own) => {
                            if own.is_some() {
                                self.export = None;
                            }
                            let text = format!("Wrote {}", path.display());
                            orders.push(WindowOrder::Note(Severity::Info, text));
                        }
                        (Err(why), Some(export)) => export.error = Some(why),
                        (Err(why), None) => orders.push(WindowOrder::Note(Severity::Error, why)),
                    }
                }
                Outcome::Image(image) => {
                    ctx.copy_image(image);
                    orders.push(WindowOrder::Note(Severity::Info, "Copied the image".to_owned()));
                }
                Outcome::Shared(job, written) => orders.push(WindowOrder::Shared(job, written)),
                Outcome::Opened(done) => {
                    orders.extend(done.err().map(|why| WindowOrder::Note(Severity::Warning, why)));
                }
                Outcome::Pasted(path) if state.connection.host().is_some() => {
                    orders.extend(self.exporter.send(ctx, vec![path]));
                }
                Outcome::Pasted(path) => orders.push(WindowOrder::Command(Command::OpenImages(vec![path]))),
                Outcome::Read(files) => orders.extend(
                    files.into_iter().map(|file| WindowOrder::Command(Command::SendFile(Box::new(file)))),
                ),
                Outcome::Failed(why) => orders.push(WindowOrder::Note(Severity::Error, why)),
            }
        }
        orders
    }
}
