//! Errors for the user: a chain of messages, a remedy, and whether the command line is to blame.

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::jobs::extract::ExtractError;
use crate::app::jobs::train::TrainingError;
use crate::model::backbone::BackboneError;
use crate::model::backbone::config::ConfigError;
use crate::model::backbone::hub::HubError;
use crate::model::backbone::preprocess::PreprocessError;
use crate::model::data::DataError;
use crate::model::device::DeviceError;
use crate::model::io::catch_panic::{catch_own, cut};
use crate::model::probe::ProbeError;
use crate::model::train::classifier::ModelError;
use crate::model::train::run::RunError;
use crate::viz::export::ExportError;
use crate::viz::heading::capitalised;

/// The remedy for errors that a device other than the CPU may have caused.
pub const ON_CPU: &str = "Run on the CPU instead";

thread_local! {
    /// The crash report of this thread's last panic.
    static REPORT: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Keeps the path of the crash report of this thread's panic for the error that is made of it.
pub fn keep_report(path: PathBuf) {
    REPORT.set(Some(path));
}

/// A command line that cannot be carried out as it stands: exit code 2, as clap's own errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Refuses the command line: returns with the error [`Usage`], in the words of `format!`.
macro_rules! refuse {
    ($($words:tt)*) => { return Err($crate::app::jobs::user_error::Usage(format!($($words)*)).into()) };
}
pub(crate) use refuse;

/// An error as plain data, which threads and processes can exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserError {
    /// The messages from the outermost to the innermost, without those that an earlier one already contains.
    pub lines: Vec<String>,
    /// What the user can do, if the messages do not say it.
    pub remedy: Option<String>,
    /// Whether the command line was refused before anything was done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

impl UserError {
    /// An error of one message.
    pub fn new(line: impl Into<String>) -> Self {
        Self { lines: vec![cut(line.into())], remedy: None, refused: false }
    }

    /// The chain of an error, without the remedy that ends a message of the Hub, which is set apart; a [`UserError`] is returned as it is.
    pub fn from_error(error: impl Into<anyhow::Error>) -> Self {
        let chain = |error: anyhow::Error| {
            let (mut lines, refused) = (lines(&error), refused(&error));
            let remedy = error.chain().find_map(|cause| cause.downcast_ref::<HubError>()?.remedy());
            if let Some(end) = remedy.as_ref().map(|remedy| format!("; {remedy}")) {
                for line in &mut lines {
                    line.truncate(line.strip_suffix(&end).unwrap_or(line).len());
                }
            }
            Self { lines, remedy: remedy.as_deref().map(capitalised), refused }
        };
        error.into().downcast().unwrap_or_else(chain)
    }

    /// The chain of a file's error, with a remedy if the file does not exist.
    pub fn from_file_error(path: &Path, error: impl Into<anyhow::Error>) -> Self {
        let error = Self::from_error(error);
        match path.try_exists() {
            Ok(false) => error.remedy("The file is no longer there: put it back, or close its entry"),
            _ => error,
        }
    }

    /// The error for a panic of this thread with this message, with the path of its report.
    pub fn from_panic(message: String) -> Self {
        let report = REPORT.take().map(|path| format!("a report is in {}", path.display()));
        let lines = ["Stopped by a bug in the program or its driver".into(), cut(message)].into_iter();
        Self { lines: lines.chain(report).collect(), remedy: None, refused: false }
    }

    /// The result of `work`; its panic is an error too.
    pub fn catch<T, E: Into<anyhow::Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Self> {
        catch_own(work).map_err(Self::from_panic)?.map_err(Self::from_error)
    }

    /// The messages in one line.
    pub fn one_line(&self) -> String {
        self.lines.join(": ")
    }

    /// Whether the remedy is to run on the CPU.
    pub fn wants_cpu(&self) -> bool {
        self.remedy.as_deref() == Some(ON_CPU)
    }

    /// Sets the remedy.
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

impl std::error::Error for UserError {}

impl std::fmt::Display for UserError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lines.join("\n  because: "))?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "\n{remedy}"))
    }
}

/// Whether the command line was refused before anything was done.
pub fn refused(error: &anyhow::Error) -> bool {
    let training = |error: &TrainingError| match error {
        TrainingError::Data(error) => no_such_data(error),
        TrainingError::Extract(error) => no_such_tokens(error),
        TrainingError::Run(error) => no_such_run(error),
        TrainingError::Device(error) => no_such_device(error),
        TrainingError::Model(ModelError::Config { .. })
        | TrainingError::Refused(_)
        | TrainingError::Order(_)
        | TrainingError::Out { .. }
        | TrainingError::Differs { .. } => true,
        _ => false,
    };
    // Only the outermost error: a missing dataset that a run names is wrapped in the run's error, and was not typed.
    let data =
        error.chain().next().is_some_and(|outermost| outermost.downcast_ref().is_some_and(no_such_data));
    error.is::<Usage>()
        || error.downcast_ref().is_some_and(|error: &UserError| error.refused)
        || error.downcast_ref().is_some_and(training)
        || error.downcast_ref().is_some_and(no_such_device)
        || error.downcast_ref().is_some_and(no_such_run)
        || error.downcast_ref().is_some_and(no_such_tokens)
        || error.downcast_ref().is_some_and(no_such_backbone)
        || error.downcast_ref().is_some_and(not_of_backbone)
        || error.downcast_ref().is_some_and(no_such_size)
        || error.downcast_ref().is_some_and(no_such_format)
        || error.downcast_ref().is_some_and(of_other_tokens)
        || data
        || error.chain().any(is_file_for_folder)
        || matches!(
            error.downcast_ref(),
            Some(
                HubError::NoFolder(_)
                    | HubError::NotAFolder(_)
                    | HubError::NotAnId(_)
                    | HubError::NotAFile(_)
            )
        )
}

/// Whether a file stands where a folder was named, or above it.
fn is_file_for_folder(cause: &(dyn Error + 'static)) -> bool {
    cause.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::NotADirectory)
}

fn no_such_run(error: &RunError) -> bool {
    matches!(error, RunError::Exists { .. } | RunError::Absent { .. })
}

fn no_such_data(error: &DataError) -> bool {
    matches!(error, DataError::Absent { .. } | DataError::Layout { .. })
}

fn no_such_tokens(error: &ExtractError) -> bool {
    match error {
        ExtractError::SameLayer { .. } => true,
        ExtractError::Config(error) => no_such_backbone(error),
        ExtractError::Backbone(error) => not_of_backbone(error),
        ExtractError::Preprocess(error) => no_such_size(error),
        _ => false,
    }
}

/// Whether the folder that was named is no backbone.
fn no_such_backbone(error: &ConfigError) -> bool {
    matches!(error, ConfigError::Read { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// Whether something was requested that this backbone, or its device, does not have; or there is no backbone.
fn not_of_backbone(error: &BackboneError) -> bool {
    use BackboneError::{Arithmetic, Blocks, Config, Layer, Order, Patches, Size};
    match error {
        Config(error) => no_such_backbone(error),
        Layer { .. } | Blocks { .. } | Order { .. } | Size { .. } | Patches { .. } | Arithmetic { .. } => {
            true
        }
        _ => false,
    }
}

fn no_such_size(error: &PreprocessError) -> bool {
    matches!(error, PreprocessError::Size { .. })
}

/// Whether a probe was named that reads other tokens than the backbone's.
fn of_other_tokens(error: &ProbeError) -> bool {
    use ProbeError::{NoCls, OrderLength, Width};
    matches!(error, Width { .. } | OrderLength { .. } | NoCls { .. })
}

fn no_such_format(error: &ExportError) -> bool {
    use ExportError::{Ending, Large, Still};
    matches!(error, Ending { .. } | Still { .. } | Large { .. })
}

fn no_such_device(error: &DeviceError) -> bool {
    use DeviceError::{Absent, Ambiguous, Unknown};
    matches!(error, Unknown { .. } | Absent { .. } | Ambiguous { .. })
}

/// The messages of a chain from the outermost to the innermost, without causes that an earlier message already contains.
pub fn lines(error: &anyhow::Error) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !lines.iter().any(|line| line.contains(&cause)) {
            lines.push(cause);
        }
    }
    lines.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let inner: anyhow::Result<()> = Err(anyhow::anyhow!("no such file"));
        let error = inner.context("a.png: cannot be read: no such file").context("image 3").unwrap_err();
        assert_eq!(lines(&error), ["image 3", "a.png: cannot be read: no such file"]);
    }

    #[test]
    fn where_the_hub_cannot_be_reached_the_cause_is_short_and_the_remedy_is_apart() {
        let [id, page, url, reason] =
            ["org/name", "https://hub/org/name", "https://hub/x", "no route"].map(str::to_owned);
        let error = HubError::Network { id, page, url, reason };
        let whole = error.to_string();
        let error = UserError::from_error(anyhow::Error::from(error).context("run.json"));
        assert_eq!(
            error.lines,
            ["run.json", "org/name: the Hub cannot be reached: no route (https://hub/x)"]
        );
        let remedy = error.remedy.expect("a remedy");
        assert!(remedy.starts_with("There is no local folder org/name"), "{remedy}");
        assert!(whole.ends_with(&remedy[1..]), "{whole}");
    }
}
