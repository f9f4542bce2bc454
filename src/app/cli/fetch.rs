//! The backbone a person names: a folder, or an id of the Hugging Face Hub that is fetched first.

use std::path::PathBuf;

use crate::app::terminal::interrupt;
use indicatif::{ProgressBar, ProgressStyle};

use crate::model::backbone::hub;

/// The folder of the backbone `source`. A download shows its progress where standard error is a
/// terminal.
pub fn backbone(source: &str) -> anyhow::Result<PathBuf> {
    let bar = ProgressBar::no_length();
    let template = "{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    let folder = hub::resolve(source, &mut |progress| {
        if bar.message() != progress.file {
            bar.set_message(progress.file.to_owned());
        }
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        interrupt::flow()
    });
    bar.finish_and_clear();
    Ok(folder?)
}
