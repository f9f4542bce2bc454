//! Why a training cannot begin or go on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::app::format;
use crate::app::jobs::extract::ExtractError;
use crate::app::jobs::open::DatasetMoved;
use crate::model::data::DataError;
use crate::model::data::token_cache::TokenSourceError;
use crate::model::device::DeviceError;
use crate::model::order_file::OrderFileError;
use crate::model::probe::ProbeError;
use crate::model::probe::head::HEADS;
use crate::model::train::classifier::ModelError;
use crate::model::train::run::RunError;

/// Why a training cannot begin or go on.
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
    #[error("{0}: is not valid Unicode, as the run's files are; rename the folder, or work in another one")]
    NotUnicode(PathBuf),
    #[error("this user has no home folder to keep the run in; give a folder for it")]
    NoOut,
    #[error("there is no head `{0}`; the heads are: {known} and order:FILE", known = head_ids())]
    UnknownHead(String),
    #[error(transparent)]
    Order(#[from] OrderFileError),
    #[error("the head `order` takes its order from a file; give it as order:FILE")]
    NoOrderFile,
    #[error("{heads} cannot be trained: {backbone} ({model_type}) has no CLS token; {}", remedy(others))]
    NoCls { heads: String, backbone: String, model_type: String, others: String },
    #[error(
        "`{0}` cannot name a head of a run: names are unique and consist of letters, digits and -_=+,.[]"
    )]
    Name(String),
    #[error("--config {given}: {why}; expected KEY=VALUE for all heads or HEAD.KEY=VALUE for one")]
    Setting { given: String, why: String },
    #[error("--grid {given}: {why}; expected fields of the head's settings, such as `iterations=1,5,20`")]
    Grid { given: String, why: String },
    #[error("{flag}: {value} is given twice; give each value once")]
    Twice { flag: &'static str, value: String },
    #[error(
        "heads by layers by rates make {count} variants, and a run holds at most {most}; train them in parts"
    )]
    Variants { count: usize, most: usize },
    #[error(
        "several layers or rates are compared on images used neither for training nor for the reported accuracy, and this \
         dataset has none: set some aside, for example with --select-split 0.1"
    )]
    TestSelection,
    #[error(
        "--epochs {epochs}: {protocol} warms up for {}; expected more than that",
        format::counted(*warm_up, "epoch", "epochs")
    )]
    WarmUp { protocol: &'static str, epochs: usize, warm_up: usize },
    #[error(
        "--batch 1: {0} normalises its features over the images of a step, which leaves nothing of a single one; \
         expected 2 or more, or a head without batch normalisation"
    )]
    SingleImage(String),
    #[error(
        "{name} has blocks={blocks} (--config), and a token joins {joined} (--blocks): give both the same number, or \
         blocks=1 for the mean of the whole token"
    )]
    Blocks { name: String, blocks: usize, joined: usize },
    #[error(
        "{} of {} cannot be split into {parts} parts (--tasks); expected 1 to {seeds}{}",
        format::counted(*seeds, "seed", "seeds"), format::counted(*heads, "head", "heads"), blocks(*heads)
    )]
    Parts { parts: usize, seeds: usize, heads: usize },
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

/// The further numbers of parts that are possible if the heads of a seed can be divided.
fn blocks(heads: usize) -> String {
    if heads > 1 { format!(", or 2 to {heads} per seed") } else { String::new() }
}

/// What to train instead.
fn remedy(others: &str) -> String {
    match others {
        "" => "choose a head that reads patch tokens".to_owned(),
        others => format!("the other heads can: {others}"),
    }
}

/// Ids of all heads.
fn head_ids() -> String {
    HEADS.iter().map(|kind| kind.id).collect::<Vec<_>>().join(", ")
}
