//! How a verb fails, as a person reads it: `error: ...`, then one line for each cause.

use std::process::ExitCode;

use super::interrupt;
pub use crate::app::fault::lines;
use crate::app::training::TrainingError;
use crate::model::backbone::hub::HubError;

/// A command line that cannot be carried out as it stands: exit code 2, as clap's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Prints the chain of an error to standard error; returns the exit code it means.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if matches!(error.downcast_ref(), Some(HubError::Cancelled)) {
        eprintln!("stopped; the same command goes on with the download");
        return interrupt::code();
    }
    eprintln!("error: {}", lines(error).join("\n  because: "));
    let differs = matches!(error.downcast_ref(), Some(TrainingError::Differs { .. }));
    ExitCode::from(if differs || error.is::<Usage>() { 2 } else { 1 })
}
