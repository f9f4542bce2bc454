//! The record of a shard, in a file beside it: its cache, its index there, and digests of its contents.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{CacheError, SHARD, TokenKey, count, io_error, write_atomically};
use crate::model::io::{atomic_file, if_there, is_of_file, sha256};

/// Longest record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 16;

/// Why a shard or its record is of no use.
pub(super) enum Unusable {
    /// It is damaged, or belongs elsewhere.
    Damaged { found: String, expected: String },
    /// Its disk does not answer: it may be whole.
    Disk(CacheError),
}

impl Unusable {
    pub fn damaged(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Damaged { found: found.into(), expected: expected.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The cache it belongs to: [`TokenKey::key`](super::TokenKey::key).
    pub cache: String,
    /// Its index among the cache's shards.
    pub shard: usize,
    /// SHA-256 of the shard's file.
    pub sha256: String,
    /// SHA-256 of the file (or Parquet row) of each of its images, `None` for one that could not be read at
    /// all. Absent if unknown, as in caches of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<Option<String>>>,
}

/// Path of the record of shard `index`.
pub(super) fn path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("tokens-{index:06}.json"))
}

/// SHA-256 of the file (or Parquet row) of each of the `images` of the cache for `source` under `root`; `None` where
/// none is on record.
pub fn image_digests(root: &Path, source: &TokenKey, images: usize) -> Vec<Option<String>> {
    let of_shard = |(index, record): (usize, Option<Record>)| {
        record.and_then(|record| record.images).unwrap_or_else(|| vec![None; count(images, index)])
    };
    records(root, source, images).into_iter().enumerate().flat_map(of_shard).collect()
}

/// Identifies the tokens of the `images` of the cache for `source` under `root`, whatever they were computed from: SHA-256 of the
/// digests of all its shards. `None` if one has no record.
pub fn tokens_digest(root: &Path, source: &TokenKey, images: usize) -> Option<String> {
    let digests = records(root, source, images).into_iter().map(|record| Some(record?.sha256));
    Some(sha256::of_bytes(digests.collect::<Option<String>>()?.as_bytes()))
}

/// The records of all shards, `None` for one without.
fn records(root: &Path, source: &TokenKey, images: usize) -> Vec<Option<Record>> {
    let (key, shards) = (source.key(), images.div_ceil(SHARD));
    let of_shard = |index| Record::read(&root.join(&key), &key, index, count(images, index)).ok().flatten();
    (0..shards).into_par_iter().map(of_shard).collect()
}

impl Record {
    /// Reads the record of shard `index`, of `count` images, of the cache `key`; `None` if there is none.
    ///
    /// # Errors
    /// If it is damaged or of another shard, or its disk does not answer.
    pub fn read(folder: &Path, key: &str, index: usize, count: usize) -> Result<Option<Self>, Unusable> {
        let path = path(folder, index);
        let bytes = match if_there(atomic_file::read(&path, MAX_RECORD_BYTES)) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(error) if is_of_file(error.kind()) => {
                return Err(Unusable::damaged(format!("its record cannot be read: {error}"), "one"));
            }
            Err(error) => return Err(Unusable::Disk(io_error("read it", &path)(error))),
        };
        let invalid =
            |error: serde_json::Error| Unusable::damaged(format!("its record is not valid: {error}"), "one");
        let record: Self = serde_json::from_slice(&bytes).map_err(invalid)?;
        if (record.cache.as_str(), record.shard) != (key, index) {
            let found = format!("its record is for shard {} of cache {}", record.shard, record.cache);
            return Err(Unusable::damaged(found, format!("shard {index} of {key}")));
        }
        match &record.images {
            Some(images) if images.len() != count => {
                let found = format!("its record is for {} images", images.len());
                Err(Unusable::damaged(found, count.to_string()))
            }
            _ => Ok(Some(record)),
        }
    }

    /// Writes it beside its shard.
    pub fn write(&self, folder: &Path) -> Result<(), CacheError> {
        let path = path(folder, self.shard);
        let mut bytes = serde_json::to_vec(self).expect("plain data serialises");
        bytes.push(b'\n');
        write_atomically(&path, &bytes)
    }
}
