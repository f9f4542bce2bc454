//! Everything the command line prints: results to standard output, what is said about the work to
//! standard error. Names come from files and folders and may hold anything; here, and here alone,
//! control characters of them are made visible, so that none reaches the terminal or splits a line.
//!
//! Whoever stops reading results (`| head`) has not made the work fail; a full disk behind a `>` has.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use anyhow::Context;

use crate::app::log;
use crate::model::io::escape::{shown_line, shown_text};

/// A line of results: one, whatever is in it.
pub fn line(line: impl Display) -> anyhow::Result<()> {
    write(&format!("{}\n", shown_line(&line.to_string())))
}

/// Results that end their own lines.
pub fn text(text: impl Display) -> anyhow::Result<()> {
    write(&shown_text(&text.to_string()))
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output cannot be written to"),
    }
}

/// A line about the work, or several.
pub fn said(text: impl Display) {
    let text = text.to_string();
    log::note(&text);
    // Nobody is left to be told that nobody reads it.
    let _ = writeln!(stderr().lock(), "{}", shown_text(&text));
}

/// [`said`] with the arguments of `format!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::app::terminal::stdout::said(format_args!($($words)*)) };
}
pub(crate) use say;
