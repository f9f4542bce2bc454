//! What takes its time beside the window: writing figures, drawing them for the clipboard, reading what is sent elsewhere.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use eframe::egui;
use egui::ColorImage;

use super::WindowOrder;
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::{JobId, received};
use crate::app::state::Severity;
use crate::app::user_error::UserError;

/// What came of an export or a copy.
pub enum Outcome {
    /// Written here.
    Written(PathBuf),
    /// Findings were written there, or could not be.
    Shared(JobId, Result<PathBuf, UserError>),
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
