//! Why a backbone cannot be fetched, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model::backbone::weights::WeightsError;

/// Why a source of a backbone leads to no folder.
#[derive(Debug, Error)]
pub enum HubError {
    /// It looks like a path, and nothing is there.
    #[error("there is no folder {}: give an existing folder, or an id of the Hugging Face Hub such as facebook/vit-mae-base", .0.display())]
    NoFolder(PathBuf),
    /// A file.
    #[error("{} is not a folder: give the folder that holds config.json and model.safetensors", .0.display())]
    NotAFolder(PathBuf),
    /// Neither a folder nor an id.
    #[error(
        "{0:?} is neither a folder nor an id of the Hugging Face Hub (organisation/name or organisation/name@revision)"
    )]
    NotAnId(String),
    /// No place for the cache.
    #[error("no home folder for the cache of the Hub: set HF_HOME")]
    NoHome,
    /// The certificates that the environment names cannot be read.
    #[error("{} (SSL_CERT_FILE) is no file of PEM certificates: {what}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Not in the cache, and the network may not be used.
    #[error("{id} is not complete in {}, and HF_HUB_OFFLINE forbids to download {}; {}", cache.display(), missing.join(", "), by_hand(id, page))]
    Offline {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
        /// Files that are not in the cache.
        missing: Vec<String>,
        /// The cache that was searched.
        cache: PathBuf,
    },
    /// No answer.
    #[error("{url} cannot be reached: {reason}; {}", by_hand(id, page))]
    Network {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
        /// What was asked for.
        url: String,
        /// Why it failed.
        reason: String,
    },
    /// The connection broke, time and again.
    #[error(
        "the download of {file} broke off at {done} of {total} bytes: {reason}; start again to go on from there"
    )]
    Interrupted {
        /// The file.
        file: String,
        /// Bytes that are kept.
        done: u64,
        /// Bytes it has.
        total: u64,
        /// Why it failed.
        reason: String,
    },
    /// 401: private, gated or misspelt, and no token.
    #[error(
        "the Hub has no public repository {id} ({page}), and there is no folder of that name here: check the spelling; if it is private or gated, log in with `hf auth login` or set HF_TOKEN"
    )]
    NeedsToken {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
    },
    /// 401 in spite of a token.
    #[error(
        "the Hub does not let your token read {id} ({page}): check the spelling, and that the token (HF_TOKEN, or `hf auth login`) is valid and may read it"
    )]
    TokenRefused {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
    },
    /// 403: the terms of the repository are not accepted yet.
    #[error(
        "{id} is gated: ask for access at {page}, then log in with `hf auth login` or set HF_TOKEN (the Hub says: {message})"
    )]
    Gated {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
        /// The Hub's own words.
        message: String,
    },
    /// 404 of the repository.
    #[error(
        "the Hub has no repository {id} ({page}), and there is no folder of that name here: check the spelling"
    )]
    NoRepository {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
    },
    /// 404 of the revision.
    #[error("{id} has no revision {revision:?}: give a branch, a tag or a commit that {page}/commits lists")]
    NoRevision {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
        /// What was asked for.
        revision: String,
    },
    /// 404 of a file that a backbone must have.
    #[error("{id} has no {file} ({page}): it is not a backbone that transformers could open")]
    NoFile {
        /// Of the repository.
        id: String,
        /// Its page.
        page: String,
        /// The file.
        file: String,
    },
    /// Any other status.
    #[error("{url} answered with status {status}{}", if *status == 429 { ": too many requests, wait some minutes" } else { ": try again later" })]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// An answer that the Hub would not give.
    #[error("{url} does not answer like the Hub: {what}; check HF_ENDPOINT and proxies")]
    Malformed {
        /// What was asked for.
        url: String,
        /// What was found.
        what: String,
    },
    /// The bytes are not those that were announced.
    #[error(
        "{file} arrived damaged (its SHA-256 is {found}, expected {expected}): it was discarded, start again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Of the bytes that came.
        found: String,
        /// Of the file on the Hub.
        expected: String,
    },
    /// The cache cannot be read or written.
    #[error("{} in the cache of the Hub: {source}; check its permissions and the free space, or set HF_HOME to another folder", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The index of the shards is wrong.
    #[error(transparent)]
    Index(#[from] WeightsError),
    /// The callback said so.
    #[error("the download was cancelled; what has arrived is kept")]
    Cancelled,
}

/// How to do without the network.
fn by_hand(id: &str, page: &str) -> String {
    let name = id.rsplit('/').next().unwrap_or(id);
    format!(
        "without network, create a folder {name}, put config.json, preprocessor_config.json and \
         model.safetensors from {page} into it (elsewhere: `hf download {id} --local-dir {name}`), and give \
         that folder in place of {id}"
    )
}
