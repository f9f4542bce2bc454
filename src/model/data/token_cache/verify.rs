//! Verifying shards by their SHA-256. It happens before the first use in a process, shards in parallel, at the speed of
//! SHA-256 (1.5 to 2 GB/s per core with the processor's own instructions) or of the disk, if that is slower. Training
//! then reads memory maps of the same files: damage that occurs while a process runs is found by the next one.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rayon::prelude::*;

use super::cache_scan::{CacheScan, Damage};
use super::record::Record;
use super::{CacheError, MANIFEST, io_error, shard_path, write_atomically};
use crate::model::io::{is_of_file, is_settled, sha256};

/// State of a shard's file when it was verified: length, modification time, SHA-256 of its record.
type Stamp = (u64, SystemTime, String);

/// Shards that this process has verified, by path.
static VERIFIED: LazyLock<Mutex<HashMap<PathBuf, Stamp>>> = LazyLock::new(Mutex::default);

fn verified_shards() -> MutexGuard<'static, HashMap<PathBuf, Stamp>> {
    VERIFIED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shards hashed between two progress reports.
const SHARDS_PER_REPORT: usize = 32;

/// The result of [`CacheScan::verify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whether all shards were read, without being stopped.
    pub finished: bool,
    /// Number of shards of an earlier version, without a record: trusted, and given one.
    pub adopted: usize,
}

impl CacheScan {
    /// Reads every shard that this process has not verified yet and compares it with its record; one that
    /// differs is added to the [`damage`](Self::damage) and has to be made again. Shards of an earlier
    /// version get a record. `progress` is called with (bytes read, bytes in all) and stops it by `Break`.
    ///
    /// # Errors
    /// If a shard's file does not exist any more, or its disk does not answer: it may be whole.
    pub fn verify(
        &mut self,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Verified, CacheError> {
        let unread = |index: usize| -> Result<_, CacheError> {
            let Some((_, record)) = &self.shards[index] else { return Ok(None) };
            let path = shard_path(&self.folder, index);
            let about = path.metadata().map_err(io_error("look at it", &path))?;
            let changed = about.modified().map_err(io_error("look at it", &path))?;
            let expected = record.as_ref().map(|record| record.sha256.clone());
            let stamp = expected.map(|expected| (about.len(), changed, expected));
            let is_verified = stamp.is_some() && verified_shards().get(&path) == stamp.as_ref();
            Ok((!is_verified).then_some((index, path, about.len(), changed)))
        };
        let all = (0..self.shards.len()).into_par_iter();
        let unread: Vec<_> = all.filter_map(|index| unread(index).transpose()).collect();
        let unread = unread.into_iter().collect::<Result<Vec<_>, _>>()?; // the first error, always the same
        let total: u64 = unread.iter().map(|(.., length, _)| length).sum();
        let (mut read, mut verified) = (0, Verified::default());
        for batch in unread.chunks(SHARDS_PER_REPORT) {
            if progress(read, total).is_break() {
                return Ok(verified);
            }
            let digests: Vec<_> = batch.par_iter().map(|(_, path, ..)| sha256::of_file(path)).collect();
            for ((index, path, length, changed), found) in batch.iter().zip(digests) {
                read += length;
                let found = match found {
                    Ok(found) => found,
                    Err(error) if !is_of_file(error.kind()) => return Err(io_error("read it", path)(error)),
                    Err(error) => {
                        self.mark_damaged(*index, format!("it cannot be read: {error}"), "a file".to_owned());
                        continue;
                    }
                };
                verified.adopted += usize::from(self.compare(*index, &found));
                if is_settled(*changed) && self.shards[*index].is_some() {
                    verified_shards().insert(path.clone(), (*length, *changed, found));
                }
            }
        }
        if !unread.is_empty() {
            let _ = progress(total, total); // there is nothing left to stop
        }
        if verified.adopted > 0 {
            self.adopt();
        }
        Ok(Verified { finished: true, ..verified })
    }

    /// Compares the digest of a shard with its record; returns whether it had none and was given one.
    fn compare(&mut self, index: usize, found: &str) -> bool {
        let Some((_, record)) = &mut self.shards[index] else { return false };
        let Some(record) = record else {
            let cache = self.source.key();
            *record = Some(Record { cache, shard: index, sha256: found.to_owned(), images: None });
            return true;
        };
        if record.sha256 != found {
            let expected = record.sha256.clone();
            let is_twin =
                |other: &usize| matches!(&self.shards[*other], Some((_, Some(r))) if r.sha256 == found);
            let found_before = || self.damage.iter().find(|d| d.expected == found).map(|d| d.shard);
            let twin = (0..self.shards.len()).find(is_twin).or_else(found_before);
            let place = twin.map(|other| format!(", that of shard {other}")).unwrap_or_default();
            self.mark_damaged(index, format!("its SHA-256 is {found}{place}"), expected);
        }
        false
    }

    /// Moves a shard from the usable to the damaged ones.
    fn mark_damaged(&mut self, index: usize, found: String, expected: String) {
        let path = shard_path(&self.folder, index);
        self.damage.push(Damage { path, shard: index, found, expected });
        self.shards[index] = None;
        self.replaced.push(index);
    }

    /// Writes the records of shards of an earlier version. If the disk is read-only, the next process verifies
    /// them again.
    fn adopt(&mut self) {
        let records = self.shards.iter().flatten().filter_map(|(_, record)| record.as_ref());
        let written =
            records.filter(|record| record.images.is_none()).try_for_each(|r| r.write(&self.folder));
        if let (Ok(()), Some(manifest)) = (written, &mut self.manifest) {
            manifest.records = true;
            let text = serde_json::to_vec_pretty(manifest).expect("plain data serialises");
            manifest.records = write_atomically(&self.folder.join(MANIFEST), &text).is_ok();
        }
    }
}
