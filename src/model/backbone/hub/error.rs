//! Errors of downloads from the Hub and of pushes to it, with advice on what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model::backbone::config::ConfigError;
use crate::model::backbone::weights::WeightsError;

/// Why a backbone or file cannot be fetched, or a probe cannot be pushed.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, Error)]
pub enum HubError {
    #[error(
        "folder {0} does not exist: give an existing folder, or a Hugging Face Hub id such as facebook/vit-mae-base"
    )]
    NoFolder(PathBuf),
    #[error("{path} cannot be read: {source}; check the path and its permissions")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{0} is not a folder: give the folder that holds config.json and model.safetensors; `ssmprobe import` makes one of another project's checkpoint"
    )]
    NotAFolder(PathBuf),
    #[error(
        "{0:?} is neither a folder nor a Hugging Face Hub id (organisation/name or organisation/name@revision)"
    )]
    NotAnId(String),
    #[error("no home folder for the Hub cache: set HF_HOME")]
    NoHome,
    // Without the address, which may hold a password.
    #[error(
        "HF_ENDPOINT: expected an address that begins with https:// or http://, such as https://huggingface.co; correct it, or unset it"
    )]
    Endpoint,
    #[error("{path} (SSL_CERT_FILE) is not a PEM certificate file: {what}")]
    Certificates { path: PathBuf, what: String },
    #[error("{id} is incomplete in {cache}, and HF_HUB_OFFLINE forbids downloading {}; {}", missing.join(", "), by_hand(id, page))]
    Offline { id: String, page: String, missing: Vec<String>, cache: PathBuf },
    #[error("{id}: the Hub cannot be reached: {reason} ({url}); {}", by_hand(id, page))]
    Network { id: String, page: String, url: String, reason: String },
    #[error("the download of {file} stopped at {done} of {total} bytes: {reason}; start it again to resume")]
    Interrupted { file: String, done: u64, total: u64, reason: String },
    /// 401: private, gated or misspelt, and no token.
    #[error(
        "the Hub has no public repository {id} ({page}), and there is no local folder of that name: check \
         the spelling; if it is private or gated, log in with `hf auth login` or set HF_TOKEN"
    )]
    NeedsToken { id: String, page: String },
    /// 401 in spite of a token.
    #[error(
        "the Hub does not let your token read {id} ({page}): check the spelling, and that the token \
         (HF_TOKEN, or `hf auth login`) is valid and has read access"
    )]
    TokenRefused { id: String, page: String },
    /// 403: the terms of the repository are not accepted yet.
    #[error(
        "{id} is gated: request access at {page}, then log in with `hf auth login` or set HF_TOKEN (the Hub \
         says: {message})"
    )]
    Gated { id: String, page: String, message: String },
    /// 404 of the repository.
    #[error(
        "the Hub has no repository {id} ({page}), and there is no local folder of that name: check the spelling"
    )]
    NoRepository { id: String, page: String },
    /// 404 of the revision.
    #[error("{id} has no revision {revision:?}: give a branch, tag or commit listed at {page}/commits")]
    NoRevision { id: String, page: String, revision: String },
    /// 404 of a file that a backbone must have.
    #[error("{id} has no {file} ({page}): it is not a backbone that transformers can open")]
    NoFile { id: String, page: String, file: String },
    #[error("{id}: the Hub answered with status {status} ({url}){}", if *status == 429 { later(*status) } else { "; try again later" })]
    Status { id: String, url: String, status: u16 },
    #[error("{id}: the server does not answer like the Hub: {what} ({url}); check HF_ENDPOINT and proxies")]
    Malformed { id: String, url: String, what: String },
    #[error(
        "{file} arrived damaged (its SHA-256 is {found}, expected {expected}): it was discarded, start again"
    )]
    Damaged { file: String, found: String, expected: String },
    #[error(
        "{path} in the Hub cache: {source}; check its permissions and the free space, or set HF_HOME to another folder"
    )]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{0:?} is not a file on the Hugging Face Hub (hf:organisation/name/file or \
         hf:organisation/name@revision/file)"
    )]
    NotAFile(String),
    #[error("{asked} is not in {cache}, and HF_HUB_OFFLINE forbids downloading it: give a local file")]
    OfflineFile { asked: String, cache: PathBuf },
    #[error("{id} has no file {file}: {tree} lists its files")]
    NoSuchFile { id: String, tree: String, file: String },
    #[error(
        "{id}: the Hub cannot be reached: {reason} ({url}); check the network, proxies and HF_ENDPOINT, then try again"
    )]
    Unreachable { id: String, url: String, reason: String },
    #[error("HF_HUB_OFFLINE forbids pushing: unset it (--dry-run needs no network)")]
    OfflinePush,
    #[error("pushing needs a token with write access: log in with `hf auth login`, or set HF_TOKEN")]
    NoToken,
    #[error("{id} is already on the Hub ({page}): add a commit to it with --update, or give another name")]
    RepositoryExists { id: String, page: String },
    #[error(
        "your token may not {what} ({id}): it needs write access (HF_TOKEN, or `hf auth login`; the Hub \
         says: {message})"
    )]
    NotAllowed { id: String, what: &'static str, message: String },
    #[error("{id}: the Hub answered with status {status}: {message}{} ({url})", later(*status))]
    Refused { id: String, url: String, status: u16, message: String },
    #[error(
        "stopped before the commit: nothing is visible on the Hub; if the repository was created, resume \
         with --update"
    )]
    CancelledPush,
    #[error(transparent)]
    Index(#[from] WeightsError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the download was cancelled; what was downloaded is kept")]
    Cancelled,
}

impl HubError {
    /// What can be done, where that is the end of the message and too long to be read as part of it.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Offline { id, page, .. } | Self::Network { id, page, .. } => Some(by_hand(id, page)),
            _ => None,
        }
    }
}

/// Advice on a request that may succeed later.
fn later(status: u16) -> &'static str {
    match status {
        429 => "; too many requests, wait a few minutes",
        500.. => "; try again later",
        _ => "",
    }
}

/// Advice on how to provide the files without a network.
fn by_hand(id: &str, page: &str) -> String {
    let name = id.rsplit('/').next().unwrap_or(id);
    format!(
        "there is no local folder {id} either: without a network, create a folder {name}, put config.json, \
         preprocessor_config.json and model.safetensors from {page} into it (on another machine: `hf download {id} --local-dir {name}`), \
         and give that folder instead of {id}"
    )
}
