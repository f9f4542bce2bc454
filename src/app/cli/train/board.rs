//! Event files beside a training: `train --tensorboard` and `sweep --tensorboard`.

use std::path::{Path, PathBuf};

use super::TrainArgs;
use crate::app::jobs::train::Event;
use crate::app::jobs::train::tensorboard::TensorBoard;
use crate::app::terminal::error::{Usage, lines};
use crate::app::terminal::progress::Display;

/// Who writes event files, where that is wanted and can be done.
pub(super) struct Board(Option<TensorBoard>);

impl Board {
    /// Brings the files to what the folder `run` says, once it begins and after every epoch.
    pub(super) fn hear(&mut self, event: &Event<'_>, run: &Path, display: &Display) {
        if let (Some(events), Event::Begin { .. } | Event::Epoch { .. }) = (&mut self.0, event)
            && let Err(error) = events.write(run)
        {
            // Hours of training are worth more than what is drawn of them.
            display.say(&format!(
                "warning: no more is written for TensorBoard: {}; --resume with --tensorboard fills it in",
                lines(&error).join(": ")
            ));
            self.0 = None;
        }
    }
}

impl TrainArgs {
    /// Under the name of the whole run, of which this may be a part.
    pub(super) fn board(&self) -> anyhow::Result<Board> {
        let Some(folder) = &self.tensorboard else { return Ok(Board(None)) };
        let out = std::path::absolute(&self.out)?;
        let name = out.file_name().map_or("run".into(), |name| name.to_string_lossy());
        Ok(Board(Some(TensorBoard::open(folder, &name, self.resume)?)))
    }

    /// The flag as a word for another program.
    pub(super) fn events(&self) -> Result<Option<String>, Usage> {
        let text = |folder: &PathBuf| folder.to_str().map(|folder| format!("--tensorboard={folder}"));
        let no_text = || Usage("--tensorboard is no text".to_owned());
        self.tensorboard.as_ref().map(|folder| text(folder).ok_or_else(no_text)).transpose()
    }
}
