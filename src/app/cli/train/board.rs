//! TensorBoard event files of a training: `train --tensorboard` and `sweep --tensorboard`.

use super::TrainArgs;
use crate::app::cli::prelude::*;
use crate::app::jobs::train::Event;
use crate::app::jobs::train::tensorboard::TensorBoard;
use crate::app::jobs::user_error::lines;

/// The writer of event files; `None` without `--tensorboard`, or after an error.
pub(super) struct Board(Option<TensorBoard>);

impl Board {
    /// Brings the files up to date with the folder `run` when it begins and after every epoch.
    pub(super) fn update(&mut self, event: &Event<'_>, run: &Path, display: &Display) {
        if let (Some(events), Event::Begin { .. } | Event::Epoch { .. }) = (&mut self.0, event)
            && let Err(error) = events.write(run)
        {
            // A training of hours does not fail because of its event files.
            display.say(&format!(
                "warning: TensorBoard files are no longer written: {}; --resume with --tensorboard fills them in",
                lines(&error).join(": ")
            ));
            self.0 = None;
        }
    }
}

impl TrainArgs {
    /// Opens the event files, named after the whole run even if this is a part of it.
    pub(super) fn board(&self) -> anyhow::Result<Board> {
        let Some(folder) = &self.tensorboard else { return Ok(Board(None)) };
        let out = std::path::absolute(&self.out)?;
        let name = out.file_name().map_or("run".into(), |name| name.to_string_lossy());
        Ok(Board(Some(TensorBoard::open(folder, &name, self.resume)?)))
    }

    /// `--tensorboard` as a word of a command line; an error if its folder is not UTF-8.
    pub(super) fn tensorboard_word(&self) -> Result<Option<String>, Usage> {
        let text = |folder: &PathBuf| folder.to_str().map(|folder| format!("--tensorboard={folder}"));
        let no_text = || Usage("--tensorboard: is not valid Unicode".to_owned());
        self.tensorboard.as_ref().map(|folder| text(folder).ok_or_else(no_text)).transpose()
    }
}
