//! The backbone that a flag names: a folder, or an id of the Hugging Face Hub, which is downloaded first.

use crate::app::cli::prelude::*;
use crate::app::jobs::fetch;

/// The folder of the backbone `source`; a download shows its progress if standard error is a terminal.
pub fn backbone(source: &str) -> anyhow::Result<PathBuf> {
    let mut reporter = TerminalReporter::new();
    let folder = fetch::backbone(source, &mut reporter);
    reporter.display.clear();
    folder
}
