//! Printing the error of a verb: `error: ...`, then one line for each cause.

use std::process::ExitCode;

use super::interrupt;
use crate::app::jobs::user_error::{lines, refused};
use crate::app::terminal::stdout::say;
use crate::model::backbone::hub::HubError;

/// Prints the chain of an error to standard error. Returns the exit code: 130 if a download was interrupted, 2 if the command
/// line was refused before anything was done, else 1.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if matches!(error.downcast_ref(), Some(HubError::Cancelled)) {
        say!("stopped; run the same command to resume the download");
        return interrupt::code();
    }
    say!("error: {}", lines(error).join("\n  because: "));
    ExitCode::from(if refused(error) { 2 } else { 1 })
}
