//! The settings' file: it is written once the settings have been unchanged for a moment, and when the window closes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eframe::egui::Context;

use crate::app::state::settings::{Settings, SettingsError};

/// How long settings must be unchanged before they are written: a dragged slider is written once.
const SAVE_DELAY: Duration = Duration::from_secs(1);

pub struct SettingsFile {
    path: PathBuf,
    /// What was last read from it or written to it.
    written: Settings,
    /// What was last to be written, which is not tried again while the window is open: a disk that is full stays full for a while.
    tried: Settings,
    /// What is not written yet, and since when it has been unchanged.
    unsaved: Option<(Settings, Instant)>,
}

impl SettingsFile {
    /// The file `path`, from which these settings were read.
    pub fn new(path: PathBuf, read: Settings) -> Self {
        Self { path, written: read.clone(), tried: read, unsaved: None }
    }

    /// Writes the settings once they have been unchanged for [`SAVE_DELAY`].
    pub fn save_if_due(&mut self, now: &Settings, ctx: &Context) -> Result<(), SettingsError> {
        let since = self.unsaved.as_ref().filter(|(unsaved, _)| unsaved == now).map(|(_, since)| *since);
        match since {
            _ if self.tried == *now => self.unsaved = None,
            Some(since) if since.elapsed() >= SAVE_DELAY => {
                self.unsaved = None;
                return self.save(now);
            }
            Some(_) => {}
            None => {
                self.unsaved = Some((now.clone(), Instant::now()));
                ctx.request_repaint_after(SAVE_DELAY);
            }
        }
        Ok(())
    }

    /// Writes the settings if they changed.
    pub fn save(&mut self, now: &Settings) -> Result<(), SettingsError> {
        if self.written != *now {
            self.tried.clone_from(now);
            now.save_changes(&self.written, &self.path)?;
            self.written.clone_from(now);
        }
        Ok(())
    }
}
