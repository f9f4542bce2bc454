//! Reading shards once to see whether they are what was written. It happens before the first use in a
//! process, all shards side by side, at the speed of SHA-256 (1.5 to 2 GB/s a core with the processor's
//! own instructions) or of the disk, if that is slower. Training then reads memory maps of the same
//! files: what is damaged while a process runs is found by the next.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;

use super::cache_scan::{CacheScan, Damage};
use super::record::Record;
use super::{CacheError, MANIFEST, io_error, shard_path, write_whole};
use crate::model::io::sha256;

/// A shard's file as it was when it was read: length, time of change, what its record said.
type Stamp = (u64, SystemTime, String);

/// Shards this process has read and found right.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Stamp>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<PathBuf, Stamp>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that was written just now may be written again within the same tick of the clock.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// Shards read between two words of how far it is.
const AT_ONCE: usize = 32;

/// What a reading of all shards came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whether it went to its end.
    pub finished: bool,
    /// Shards of an earlier version, which had no digest: believed, and written down.
    pub adopted: usize,
}

impl CacheScan {
    /// Reads every shard that this process has not read yet and compares it with its record; what is not
    /// the same is put among the [`damage`](Self::damage) and has to be made again. Shards of an earlier
    /// version get their record. `tell` hears how many bytes of how many are read and may stop it.
    ///
    /// # Errors
    /// If a shard is not there any more.
    pub fn verify(
        &mut self,
        tell: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Verified, CacheError> {
        let mut unread = Vec::new();
        for index in 0..self.shards.len() {
            let Some((_, record)) = &self.shards[index] else { continue };
            let path = shard_path(&self.folder, index);
            let about = path.metadata().map_err(io_error("look at it", &path))?;
            let changed = about.modified().map_err(io_error("look at it", &path))?;
            let expected = record.as_ref().map(|record| record.sha256.clone());
            let stamp = expected.map(|expected| (about.len(), changed, expected));
            if stamp.is_none() || known().get(&path) != stamp.as_ref() {
                unread.push((index, path, about.len(), changed));
            }
        }
        let total: u64 = unread.iter().map(|(.., length, _)| length).sum();
        let (mut read, mut verified) = (0, Verified::default());
        for some in unread.chunks(AT_ONCE) {
            if tell(read, total).is_break() {
                return Ok(verified);
            }
            let digests: Vec<_> = some.par_iter().map(|(_, path, ..)| sha256::of_file(path)).collect();
            for ((index, path, length, changed), found) in some.iter().zip(digests) {
                read += length;
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        self.drop_shard(*index, format!("it cannot be read: {error}"), "a file".to_owned());
                        continue;
                    }
                };
                verified.adopted += usize::from(self.compare(*index, &found));
                let settled = changed.elapsed().is_ok_and(|age| age > SETTLING_TIME);
                if settled && self.shards[*index].is_some() {
                    known().insert(path.clone(), (*length, *changed, found));
                }
            }
        }
        if !unread.is_empty() {
            let _ = tell(total, total); // there is nothing left to stop
        }
        if verified.adopted > 0 {
            self.adopt();
        }
        Ok(Verified { finished: true, ..verified })
    }

    /// Holds the digest of a shard against its record; whether it had none, and has one now.
    fn compare(&mut self, index: usize, found: &str) -> bool {
        let Some((_, record)) = &mut self.shards[index] else { return false };
        let Some(record) = record else {
            let cache = self.source.key();
            *record = Some(Record { cache, shard: index, sha256: found.to_owned(), images: None });
            return true;
        };
        if record.sha256 != found {
            let expected = record.sha256.clone();
            let of = |other: &usize| matches!(&self.shards[*other], Some((_, Some(r))) if r.sha256 == found);
            let found_before = || self.damage.iter().find(|d| d.expected == found).map(|d| d.shard);
            let twin = (0..self.shards.len()).find(of).or_else(found_before);
            let place = twin.map(|other| format!(", that of shard {other}")).unwrap_or_default();
            self.drop_shard(index, format!("its SHA-256 is {found}{place}"), expected);
        }
        false
    }

    /// Counts a shard among the damaged ones.
    fn drop_shard(&mut self, index: usize, found: String, expected: String) {
        let path = shard_path(&self.folder, index);
        self.damage.push(Damage { path, shard: index, found, expected });
        self.shards[index] = None;
    }

    /// Writes down the records of shards of an earlier version. On a disk that cannot be written to they
    /// are read again by the next process.
    fn adopt(&mut self) {
        let records = self.shards.iter().flatten().filter_map(|(_, record)| record.as_ref());
        let written =
            records.filter(|record| record.images.is_none()).try_for_each(|r| r.write(&self.folder));
        if let (Ok(()), Some(manifest)) = (written, &mut self.manifest) {
            manifest.records = true;
            let text = serde_json::to_vec_pretty(manifest).expect("plain data serialises");
            manifest.records = write_whole(&self.folder.join(MANIFEST), &text).is_ok();
        }
    }
}
