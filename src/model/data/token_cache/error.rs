//! The errors of token caches, with what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::io::atomic_file::is_refused;

/// What can go wrong with a token cache.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("{path}: cannot {what}; {remedy}", remedy = remedy(what, source.kind()))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{path}: {found}; `ssmprobe extract` rebuilds what is damaged (a manifest only after `ssmprobe cache clear`)"
    )]
    Damaged { path: PathBuf, found: String },
    #[error(
        "{folder}: these tokens are of a backbone with the same weights and another config.json ({found}; expected \
         {expected}); remove them (`ssmprobe cache clear` with that folder's name), or choose another folder of caches (--cache)"
    )]
    Config { folder: PathBuf, found: String, expected: String },
    #[error(
        "{folder}: another process is extracting tokens into it; wait for it, or stop it, then remove it"
    )]
    InUse { folder: PathBuf },
    #[error(
        "image {image} has a token value of {value}: it overflowed in the backbone; extract tokens in \
         float32 (`--arithmetic float32`), or if they already are, download the weights again"
    )]
    NotFinite { image: usize, value: f32 },
    #[error(
        "image {image} has a token value of {value:e}, but float16 ends at 65504; keep tokens in float32 \
         (`--precision float32`)"
    )]
    Large { image: usize, value: f32 },
}

/// Advice after a file operation `what` failed by an error of this kind.
fn remedy(what: &str, why: io::ErrorKind) -> &'static str {
    match what {
        "create the folder" | "read it" | "write it" | "write into it" if is_refused(why) => {
            "if it is another user's, let that user finish it, or choose another folder (--cache, or SSMPROBE_CACHE)"
        }
        "create the folder" | "write it" | "write into it" => {
            "complete shards are kept and the extraction can be resumed"
        }
        _ => "check the path and its permissions",
    }
}

pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { what, path, source }
}
