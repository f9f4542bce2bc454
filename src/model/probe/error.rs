//! What can be wrong with a probe file, or with the tokens it is asked to read. Every message names
//! the file and says what to do.

use std::path::PathBuf;

use crate::model::probe::head::ConfigError;

/// A probe that cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The disk says no.
    #[error("cannot {verb} {}: {source}; check that the path exists and may be {verb_past}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// "read" or "write".
        verb: &'static str,
        /// "read" or "written".
        verb_past: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Larger than any probe.
    #[error("{} holds more than {most} bytes, which no probe does; is this the backbone's file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        most: u64,
    },
    /// Not a safetensors file, or a damaged one.
    #[error(
        "{} is not a readable safetensors file ({source}); write it with `safetensors.torch.save_file`, \
         or copy it again if it was cut short",
        path.display()
    )]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: safetensors::SafeTensorError,
    },
    /// Some other safetensors file.
    #[error(
        "{} has no metadata key `ssmprobe`, so it does not say which head it holds; write it with \
         `save_file(tensors, path, metadata={{\"ssmprobe\": json.dumps({{...}})}})`",
        path.display()
    )]
    NoMetadata {
        /// The file.
        path: PathBuf,
    },
    /// The description is not what it should be.
    #[error("{}: metadata key `ssmprobe` cannot be understood: {source}; correct it and save the file again", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// Which field, and what was expected.
        source: serde_json::Error,
    },
    /// Written by another version.
    #[error(
        "{} has format {found}, this program reads format {expected}; update ssmprobe, or write the probe \
         again with `\"format\": {expected}`",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format, as JSON.
        found: String,
        /// The one this program knows.
        expected: u64,
    },
    /// A head that does not exist.
    #[error("{file} holds the head `{found}`, which does not exist; choose one of: {known}")]
    UnknownHead {
        /// The file.
        file: String,
        /// What it asks for.
        found: String,
        /// Ids of the heads there are, nearest first.
        known: String,
    },
    /// A setting the head cannot work with.
    #[error("{file}: {source}; correct `config` in the metadata and save the file again")]
    Config {
        /// The file.
        file: String,
        /// The setting.
        source: ConfigError,
    },
    /// A hidden size no backbone has.
    #[error("{file}: `backbone.hidden_size` is {found}; expected a whole number from 1 to {most}")]
    HiddenSize {
        /// The file.
        file: String,
        /// What it says.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// Tensors missing, unused or misshapen: all of them at once.
    #[error(
        "{file} does not hold the tensors of the head `{head}` with hidden size {hidden_size}: {problems}; \
         save exactly those, under these names"
    )]
    Tensors {
        /// The file.
        file: String,
        /// The head.
        head: String,
        /// Hidden size it was checked for.
        hidden_size: usize,
        /// Every problem, separated by semicolons.
        problems: String,
    },
    /// Values a tensor must not hold.
    #[error("{file}: tensor `{name}` {problem}; train the probe again or save it from an earlier checkpoint")]
    Values {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// What is wrong with its values.
        problem: String,
    },
    /// No classes at all.
    #[error("{file} classifies into no class; `classifier.weight` needs one row for each class")]
    NoClasses {
        /// The file.
        file: String,
    },
    /// Tokens of another backbone.
    #[error(
        "{file} reads tokens of hidden size {expected} (backbone `{backbone}`), these have {found}; choose \
         the backbone it was trained on, or a probe trained on this one"
    )]
    Width {
        /// The probe.
        file: String,
        /// Hidden size of the probe.
        expected: usize,
        /// The probe's backbone.
        backbone: String,
        /// Hidden size of the tokens.
        found: usize,
    },
    /// Nothing to order.
    #[error("{file} needs at least 2 patch tokens to read, the image has {found}; use larger images")]
    TooFewTokens {
        /// The probe.
        file: String,
        /// N.
        found: usize,
    },
    /// A fixed order for another grid.
    #[error(
        "{file} holds a fixed order of {expected} tokens, the image has {found}; use the image size it was \
         trained with"
    )]
    OrderLength {
        /// The probe.
        file: String,
        /// Length of `order`.
        expected: usize,
        /// N.
        found: usize,
    },
    /// The head reads the CLS token and there is none.
    #[error("{file} reads the CLS token, which this backbone does not have; choose another head or backbone")]
    NoCls {
        /// The probe.
        file: String,
    },
    /// Classes by number alone, of another dataset.
    #[error(
        "{file} knows {found} classes without names, and the dataset has {expected}; it was trained on another one"
    )]
    Unnamed {
        /// The probe.
        file: String,
        /// How many the dataset has.
        expected: usize,
        /// How many the probe has.
        found: usize,
    },
    /// A name that says not which class is meant.
    #[error(
        "{file}: the class `{name}` stands twice in one of two different lists ({own} in the probe's, {other} in \
         the dataset's), so nothing says which is which; name the classes of the dataset apart, in the probe too"
    )]
    Ambiguous {
        /// The probe.
        file: String,
        /// The name.
        name: String,
        /// How many classes of the probe have it.
        own: usize,
        /// How many classes of the dataset have it.
        other: usize,
    },
    /// A class that does not exist.
    #[error("{file} has no class `{asked}`; {hint}")]
    Class {
        /// The probe.
        file: String,
        /// What was asked for.
        asked: String,
        /// Near matches and what else may be asked for.
        hint: String,
    },
}
