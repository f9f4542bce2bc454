//! Errors of probe files, and of probes applied to tokens that do not fit. Every message names
//! the file and says what to do.

use crate::model::probe::head::ConfigError;

/// A probe that cannot be read, written or used.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot {verb} {file}: {source}; check that the path exists and can be {verb_past}")]
    Io { file: String, verb: &'static str, verb_past: &'static str, source: std::io::Error },
    #[error("{file} is larger than {most} bytes, too large for a probe; is it the backbone's file?")]
    TooLarge { file: String, most: u64 },
    #[error(
        "{file} is not a readable safetensors file ({source}); write it with `safetensors.torch.save_file`, \
         or copy it again if it was cut short"
    )]
    NotSafetensors { file: String, source: safetensors::SafeTensorError },
    #[error(
        "{file} has no metadata key `ssmprobe`, so it does not say which head it holds; write it with \
         `save_file(tensors, path, metadata={{\"ssmprobe\": json.dumps({{...}})}})`; the weights of a backbone are opened by their folder"
    )]
    NoMetadata { file: String },
    #[error("{file}: metadata key `ssmprobe` cannot be parsed: {source}; correct it and save the file again")]
    Metadata { file: String, source: serde_json::Error },
    #[error(
        "{file} has format {found}, this program reads format {expected}; update ssmprobe, or write the probe \
         again with `\"format\": {expected}`"
    )]
    Format { file: String, found: String, expected: u64 },
    #[error("{file} has an unknown head, `{found}`; choose one of: {known}")]
    UnknownHead { file: String, found: String, known: String },
    #[error("{file}: {source}; correct `config` in the metadata and save the file again")]
    Config { file: String, source: ConfigError },
    #[error("{file}: `backbone.hidden_size` is {found}; expected a whole number from 1 to {most}")]
    HiddenSize { file: String, found: usize, most: usize },
    #[error(
        "{file} does not hold the tensors of the head `{head}` with hidden size {hidden_size}: {problems}; \
         save exactly those, under these names"
    )]
    Tensors { file: String, head: String, hidden_size: usize, problems: String },
    #[error("{file}: tensor `{name}` {problem}; train the probe again or save it from an earlier checkpoint")]
    Values { file: String, name: String, problem: String },
    #[error("{file} has no classes; `classifier.weight` needs one row per class")]
    NoClasses { file: String },
    #[error(
        "{file} reads tokens of hidden size {expected} (backbone `{backbone}`), but these have {found}; \
         choose the backbone it was trained on, or a probe trained on this one"
    )]
    Width { file: String, expected: usize, backbone: String, found: usize },
    #[error("{file} needs at least 2 patch tokens, the image has {found}; use larger images")]
    TooFewTokens { file: String, found: usize },
    #[error(
        "{file} holds a fixed order of {expected} tokens, the image has {found}; use the image size it was \
         trained with"
    )]
    OrderLength { file: String, expected: usize, found: usize },
    #[error("{file} reads the CLS token, which this backbone does not have; choose another head or backbone")]
    NoCls { file: String },
    #[error(
        "{file} has {found} unnamed classes, but the dataset has {expected}; it was trained on another dataset"
    )]
    Unnamed { file: String, expected: usize, found: usize },
    #[error(
        "{file} has unnamed classes, and class {place} is called `{name}` in the dataset, which sorts names as text; name \
         the probe's classes, or list the images in a table (path, label), which sorts numbers as numbers"
    )]
    Unordered { file: String, place: usize, name: String },
    #[error(
        "{file}: the class name `{name}` is ambiguous (occurs {own}x in the probe, {other}x in the dataset, and their \
         class lists differ); make class names unique, in the probe too"
    )]
    Ambiguous { file: String, name: String, own: usize, other: usize },
    #[error("{file} has no class `{asked}`; {hint}")]
    Class { file: String, asked: String, hint: String },
    #[error("{file}: several classes are called `{asked}`; choose {words}, or the number of one")]
    SharedName { file: String, asked: String, words: String },
}
