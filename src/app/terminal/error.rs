//! How a verb fails, as a person reads it: `error: ...`, then one line for each cause.

use std::process::ExitCode;

use super::interrupt;
use crate::app::jobs::train::TrainingError;
use crate::app::terminal::stdout::say;
pub use crate::app::user_error::lines;
use crate::model::backbone::hub::HubError;
use crate::model::device::DeviceError;
use crate::model::train::classifier::ModelError;
use crate::model::train::run::RunError;

/// A command line that cannot be carried out as it stands: exit code 2, as clap's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Prints the chain of an error to standard error; returns the exit code it means.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if matches!(error.downcast_ref(), Some(HubError::Cancelled)) {
        say!("stopped; the same command goes on with the download");
        return interrupt::code();
    }
    say!("error: {}", lines(error).join("\n  because: "));
    ExitCode::from(if refused(error) { 2 } else { 1 })
}

/// Whether the command line was refused before anything was done.
fn refused(error: &anyhow::Error) -> bool {
    let training = |error: &TrainingError| match error {
        TrainingError::Run(error) => no_such_run(error),
        TrainingError::Device(error) => no_such_device(error),
        TrainingError::Model(ModelError::Config { .. })
        | TrainingError::UnknownHead { .. }
        | TrainingError::Name { .. }
        | TrainingError::Order(_)
        | TrainingError::NoOrderFile
        | TrainingError::Setting { .. }
        | TrainingError::Grid { .. }
        | TrainingError::Differs { .. } => true,
        _ => false,
    };
    error.is::<Usage>()
        || error.downcast_ref().is_some_and(training)
        || error.downcast_ref().is_some_and(no_such_device)
        || error.downcast_ref().is_some_and(no_such_run)
        || matches!(
            error.downcast_ref(),
            Some(HubError::NoFolder(_) | HubError::NotAFolder(_) | HubError::NotAnId(_))
        )
}

fn no_such_run(error: &RunError) -> bool {
    matches!(error, RunError::Exists { .. } | RunError::Absent { .. })
}

fn no_such_device(error: &DeviceError) -> bool {
    use DeviceError::{Absent, Ambiguous, Unknown};
    matches!(error, Unknown { .. } | Absent { .. } | Ambiguous { .. })
}
