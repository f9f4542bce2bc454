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
pub enum TrainingError {
    /// The dataset.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The dataset of a run that is resumed.
    #[error(transparent)]
    Moved(#[from] DatasetMoved),
    /// The tokens.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The tokens are too large to be cached.
    #[error(
        "{refused}; or cache none (--recompute): the backbone then runs again in every epoch{}",
        epoch.map_or(String::new(), |epoch| format!(", about {} each here", format::roughly(epoch)))
    )]
    TooLarge {
        /// Why not.
        refused: ExtractError,
        /// How long the backbone takes per epoch, if that was measured.
        epoch: Option<Duration>,
    },
    /// The token source failed.
    #[error(transparent)]
    Supply(#[from] TokenSourceError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A head's settings.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The run's folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A probe file.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The run's folder cannot be written into.
    #[error("--out {folder}: the run cannot be written there: {source}")]
    Out {
        /// Which.
        folder: PathBuf,
        /// What the system says, and what to do.
        source: io::Error,
    },
    /// A path that the run's files cannot record.
    #[error("{0}: is not valid Unicode, as the run's files are; rename the folder, or work in another one")]
    NotUnicode(PathBuf),
    /// No folder was given for the run, and none can be suggested.
    #[error("this user has no home folder to keep the run in; give a folder for it")]
    NoOut,
    /// No head has this id.
    #[error("there is no head `{0}`; the heads are: {known} and order:FILE", known = known())]
    UnknownHead(String),
    /// The order file of a head.
    #[error(transparent)]
    Order(#[from] OrderFileError),
    /// The head `order` without its file.
    #[error("the head `order` takes its order from a file; give it as order:FILE")]
    NoOrderFile,
    /// Heads that read the CLS token, of a backbone without one.
    #[error("{heads} cannot be trained: {backbone} ({model_type}) has no CLS token; {}", remedy(others))]
    NoCls {
        /// Which.
        heads: String,
        /// The backbone.
        backbone: String,
        /// Its family.
        model_type: String,
        /// Those that can be trained.
        others: String,
    },
    /// A variant's name that is repeated or has characters that are not allowed.
    #[error("`{0}` cannot name a head of a run: names are unique, of letters, digits and -_=+,.[]")]
    Name(String),
    /// A malformed or unknown setting.
    #[error("--config {given}: {why}; expected KEY=VALUE for all heads or HEAD.KEY=VALUE for one")]
    Setting {
        /// What was given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A malformed or too large grid.
    #[error("--grid {given}: {why}; expected fields of the head's settings, as `iterations=1,5,20`")]
    Grid {
        /// Its fields.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// A repeated value of an axis.
    #[error("{flag}: {value} is given twice; give each value once")]
    Twice {
        /// The axis.
        flag: &'static str,
        /// The value.
        value: String,
    },
    /// More variants than a run holds.
    #[error(
        "heads by layers by rates make {count} variants, and a run holds at most {most}; train them in parts"
    )]
    Variants {
        /// How many.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// Several layers or rates, with only the test images to select among them.
    #[error(
        "several layers or rates are compared on images that are neither trained on nor reported, and this dataset has \
         none: set some aside, as with --select-split 0.1"
    )]
    TestSelection,
    /// No epochs beyond the warm-up.
    #[error(
        "--epochs {epochs}: {protocol} warms up for {}; expected more than that",
        format::counted(*warm_up, "epoch", "epochs")
    )]
    WarmUp {
        /// The protocol.
        protocol: &'static str,
        /// How many were asked for.
        epochs: usize,
        /// Epochs of the warm-up.
        warm_up: usize,
    },
    /// A head with batch normalisation, and one image per step.
    #[error(
        "--batch 1: {0} normalises its features over the images of a step, so that nothing of a single one is left; \
         expected 2 or more, or a head without batch normalisation"
    )]
    SingleImage(String),
    /// A head whose `blocks` is not the number of joined layers.
    #[error(
        "{name} has blocks={blocks} (--config), and a token joins {joined} (--blocks): give both the same number, or \
         blocks=1 for the mean of the whole token"
    )]
    Blocks {
        /// The variant.
        name: String,
        /// The head's `blocks`.
        blocks: usize,
        /// Layers that a token joins.
        joined: usize,
    },
    /// The training cannot be cut into this number of parts.
    #[error(
        "{} of {} cannot be split into {parts} parts; expected 1 to {seeds}{}",
        format::counted(*seeds, "seed", "seeds"), format::counted(*heads, "head", "heads"), blocks(*heads)
    )]
    Parts {
        /// How many were asked for.
        parts: usize,
        /// Seeds.
        seeds: usize,
        /// Heads.
        heads: usize,
    },
    /// A split without images.
    #[error("{dataset}: no readable image {what}; {remedy}")]
    Empty {
        /// The dataset.
        dataset: String,
        /// Of which split.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The run in the folder was begun with another setting.
    #[error("{run} was started with another `{field}`: {found} there, {asked} now; {remedy}")]
    Differs {
        /// The run's folder.
        run: PathBuf,
        /// What differs.
        field: String,
        /// Its value in the run.
        found: String,
        /// The requested value.
        asked: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An image the run was trained on has changed.
    #[error(
        "{0} has changed since the run's tokens were extracted; restore it and resume, or train into \
         another folder"
    )]
    Changed(String),
    /// The checkpoint holds no state that fits this variant.
    #[error("{path}: has no state that fits `{name}`; train into another folder")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The variant.
        name: String,
    },
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
fn known() -> String {
    HEADS.iter().map(|kind| kind.id).collect::<Vec<_>>().join(", ")
}
