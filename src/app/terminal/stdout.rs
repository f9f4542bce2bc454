//! Everything the command line prints: results to standard output, messages about the work to standard error. Names come
//! from files and folders and may hold anything; here, and here alone, their control characters are escaped, so that none
//! reaches the terminal or splits a line.
//!
//! A closed pipe (`| head`) is no error of the work; a full disk behind a `>` is.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use anyhow::Context;
use serde::Serialize;

use crate::app::log;
use crate::model::io::escape::{shown_line, shown_text};

/// Prints one line of results, with line breaks in it escaped; an error if it cannot be written, a closed pipe aside.
pub fn line(line: impl Display) -> anyhow::Result<()> {
    write(&format!("{}\n", shown_line(&line.to_string())))
}

/// Prints results that hold their own line breaks; errors as of [`line()`].
pub fn text(text: impl Display) -> anyhow::Result<()> {
    write(&shown_text(&text.to_string()))
}

/// Prints a JSON document over several lines; errors as of [`line()`].
pub fn json(document: &impl Serialize) -> anyhow::Result<()> {
    text(serde_json::to_string_pretty(document)? + "\n")
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Prints a message about the work, of one line or several, and adds it to the [`log`].
pub fn print_message(text: impl Display) {
    let text = text.to_string();
    log::note(&text);
    // There is nowhere to report that standard error cannot be written to.
    let _ = writeln!(stderr().lock(), "{}", shown_text(&text));
}

/// [`print_message`] with the arguments of `format!`.
macro_rules! say {
    ($($words:tt)*) => { $crate::app::terminal::stdout::print_message(format_args!($($words)*)) };
}
pub(crate) use say;
