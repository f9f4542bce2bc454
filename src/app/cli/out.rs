//! Results on standard output. Whoever stops reading them (`| head`) has not made the work fail; a
//! full disk behind a `>` has.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use anyhow::Context;

/// A line.
pub fn line(line: impl Display) -> anyhow::Result<()> {
    text(format_args!("{line}\n"))
}

/// Text that ends its own lines.
pub fn text(text: impl Display) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output cannot be written to"),
    }
}
