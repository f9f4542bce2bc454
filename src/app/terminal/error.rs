//! How a verb fails, as a person reads it: `error: ...`, then one line for each cause.

use std::process::ExitCode;

use super::interrupt;
use crate::app::terminal::stdout::say;
use crate::app::user_error::refused;
pub use crate::app::user_error::{Usage, lines};
use crate::model::backbone::hub::HubError;

/// Prints the chain of an error to standard error; returns the exit code it means.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if matches!(error.downcast_ref(), Some(HubError::Cancelled)) {
        say!("stopped; the same command goes on with the download");
        return interrupt::code();
    }
    say!("error: {}", lines(error).join("\n  because: "));
    ExitCode::from(if refused(error) { 2 } else { 1 })
}
