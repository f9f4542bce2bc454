//! Why a training cannot begin or continue.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Chain;

use crate::app::format;
use crate::app::jobs::extract::ExtractError;
use crate::app::jobs::open::DatasetMoved;
use crate::model::data::DataError;
use crate::model::data::token_cache::TokenSourceError;
use crate::model::device::DeviceError;
use crate::model::io::atomic_file::is_refused;
use crate::model::io::is_of_file;
use crate::model::order_file::OrderFileError;
use crate::model::probe::ProbeError;
use crate::model::train::classifier::ModelError;
use crate::model::train::run::RunError;

/// Why a training cannot begin or continue.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum TrainingError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Moved(#[from] DatasetMoved),
    #[error(transparent)]
    Extract(#[from] ExtractError),
    #[error(
        "{refused}; or cache none (--recompute): the backbone then runs again in every epoch{}",
        epoch.map_or(String::new(), |epoch| format!(", about {} each here", format::roughly(epoch)))
    )]
    TooLarge {
        refused: ExtractError,
        /// How long the backbone takes per epoch, if that was measured.
        epoch: Option<Duration>,
    },
    #[error(transparent)]
    Supply(#[from] TokenSourceError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("--out {folder}: the run cannot be written there: {source}")]
    Out { folder: PathBuf, source: io::Error },
    #[error("this user has no home folder to keep the run in; give a folder for it")]
    NoOut,
    #[error(transparent)]
    Order(#[from] OrderFileError),
    /// What was asked for is nothing that can be trained.
    #[error("{0}")]
    Refused(String),
    #[error("{dataset}: no readable image {what}; {remedy}")]
    Empty { dataset: String, what: &'static str, remedy: &'static str },
    #[error("{run} was started with another `{field}`: {found} there, {asked} now; {remedy}")]
    Differs { run: PathBuf, field: String, found: String, asked: String, remedy: &'static str },
    #[error(
        "{0} has changed since the run's tokens were extracted; restore it and resume, or train into \
         another folder"
    )]
    Changed(String),
    #[error("{path}: has no state that fits `{name}`; train into another folder")]
    Checkpoint { path: PathBuf, name: String },
}

impl TrainingError {
    /// Whether a disk is why, which may answer, or have room, a moment later.
    pub(super) fn may_pass(&self) -> bool {
        if let Self::Supply(TokenSourceError(error)) = self
            && let Some(ExtractError::Vanished { is_away, .. }) = error.downcast_ref()
        {
            return *is_away;
        }
        let cause = Chain::new(self).find_map(|cause| cause.downcast_ref::<io::Error>());
        cause.is_some_and(|error| !is_of_file(error.kind()) && !is_refused(error.kind()))
    }

    /// The warning that a training waits for what [may pass](Self::may_pass).
    pub fn waited_for(&self) -> String {
        format!("the training waits for its disk, a minute at most: {self}")
    }

    /// The refusal of heads of one name, or of a name that cannot be part of a file name.
    pub(super) fn of_name(name: &str) -> Self {
        Self::Refused(format!(
            "`{name}` cannot name a head of a run: names are unique and consist of letters, digits and -_=+,.[]"
        ))
    }
}
