//! A dataset's report: how many images each class and split has, which cannot be read, and which are in
//! both the training and the held-out part.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::ValueEnum;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{Dataset, Sample, Split};
use crate::model::data::image::{FORMAT_NAMES, Photo, looks_like_image};
use crate::model::io::catch_panic::cut;
use crate::model::io::escape::shown;
use crate::model::picture::Picture;

/// Images that are checked in parallel, about as many as a page of a Parquet file has: of pages, few are kept unpacked.
const CHECKED_AT_ONCE: usize = 100;

/// How thoroughly the images are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Check {
    /// Only count the listed images.
    Lists,
    /// Read every file and check that its first bytes are those of an image.
    Bytes,
    /// Decode every file, and compare pixels instead of bytes.
    Pixels,
}

/// What is in a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The dataset's name and layout.
    pub title: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// For every class, the images for training, validation and test.
    pub counts: Vec<[usize; 3]>,
    /// Number of files among the images that are of no format that is read.
    pub skipped: usize,
    /// Indices of samples that cannot be read, and why.
    pub unreadable: Vec<(usize, String)>,
    /// Pairs of samples with the same bytes, or pixels if these were checked: a training sample and a held-out one.
    pub leaked: Vec<(usize, usize)>,
    /// Number of images checked: fewer than there are if it was stopped.
    pub checked: usize,
    /// How thoroughly.
    pub check: Check,
    /// The dataset's own [notes](Dataset::notes).
    pub notes: Vec<String>,
}

/// Counts and checks a dataset's images. `progress` is called after every image with (done, all), from any
/// thread, and stops the check by `Break`.
pub fn describe(
    dataset: &Dataset,
    check: Check,
    progress: &(dyn Fn(usize, usize) -> ControlFlow<()> + Sync),
) -> Report {
    let mut counts = vec![[0; 3]; dataset.classes.len()];
    for sample in &dataset.samples {
        counts[sample.class][sample.split as usize] += 1;
    }
    let (done, stopped) = (AtomicUsize::new(0), AtomicBool::new(check == Check::Lists));
    let all = dataset.samples.len();
    let look = |sample: &Sample| {
        if stopped.load(Ordering::Relaxed) {
            return None;
        }
        let check_image = || -> Result<[u8; 32], String> {
            let bytes = sample.source.bytes().map_err(|error| error.to_string())?;
            if check == Check::Pixels || !looks_like_image(&bytes[..bytes.len().min(64)]) {
                let photo = Photo::decode(sample.source.to_string(), &bytes);
                let Picture { width, rgb, .. } = photo.map_err(|error| error.to_string())?.picture;
                if check == Check::Pixels {
                    return Ok(Sha256::new_with_prefix(width.to_le_bytes())
                        .chain_update(rgb)
                        .finalize()
                        .into());
                }
            }
            Ok(Sha256::digest(&bytes).into())
        };
        let result = check_image();
        if progress(done.fetch_add(1, Ordering::Relaxed) + 1, all).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
        Some(result)
    };
    // SHA-256 of the bytes or pixels of every image, or why it cannot be read; `None` if it was not checked. Neighbours are read at
    // the same time: in a Parquet file they lie in the same page.
    let parts = dataset.samples.chunks(CHECKED_AT_ONCE);
    let checks: Vec<Option<Result<[u8; 32], String>>> =
        parts.flat_map(|part| part.par_iter().map(look).collect::<Vec<_>>()).collect();
    let failed =
        checks.iter().enumerate().filter_map(|(i, check)| Some((i, check.as_ref()?.as_ref().err()?)));
    let unreadable = failed.map(|(i, why)| (i, cut(why.clone()))).collect();
    let digests: Vec<Option<&[u8; 32]>> = checks.iter().map(|check| check.as_ref()?.as_ref().ok()).collect();
    let leaked = leaked_pairs(dataset, &digests);
    Report {
        title: format!("{} ({})", dataset.name, dataset.layout),
        classes: dataset.classes.clone(),
        counts,
        skipped: dataset.skipped,
        unreadable,
        leaked,
        checked: checks.iter().flatten().count(),
        check,
        notes: dataset.notes.clone(),
    }
}

/// Pairs of a training sample and a held-out one with the same digest; `digests` are those of all samples, where known.
pub fn leaked_pairs(dataset: &Dataset, digests: &[Option<impl Eq + Hash>]) -> Vec<(usize, usize)> {
    let known = digests.iter().enumerate().filter_map(|(i, digest)| Some((digest.as_ref()?, i)));
    let is_train = |(_, i): &(_, usize)| dataset.samples[*i].split == Split::Train;
    let (train, held_out): (Vec<_>, Vec<_>) = known.partition(is_train);
    let train: HashMap<_, _> = train.into_iter().rev().collect(); // of equal ones, the first
    held_out.into_iter().filter_map(|(digest, i)| Some((*train.get(digest)?, i))).collect()
}

impl Report {
    /// Number of images of a split.
    pub fn total(&self, split: Split) -> usize {
        self.counts.iter().map(|counts| counts[split as usize]).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [train, val, test] = Split::ALL.map(|split| self.total(split));
        let (title, classes) = (shown(&self.title), self.classes.len());
        let noun = if classes == 1 { "class" } else { "classes" };
        writeln!(f, "{title}: {classes} {noun}, {train} train, {val} val, {test} test")?;
        let wide = self.classes.iter().map(|name| shown(name).chars().count()).max().unwrap_or(0).min(60);
        for (name, [train, val, test]) in self.classes.iter().zip(&self.counts) {
            writeln!(f, "  {:wide$} {train:7} {val:7} {test:7}", shown(name))?;
        }
        if self.skipped > 0 {
            writeln!(f, "files that are not {FORMAT_NAMES} were left out: {}", self.skipped)?;
        }
        if self.checked > 0 {
            // A file may begin as an image does and be cut off.
            let how = if self.check == Check::Pixels {
                ""
            } else {
                " by their first bytes (`--check pixels` decodes them)"
            };
            writeln!(
                f,
                "images checked{how}: {}, {} unreadable, {} in both the training and the held-out part",
                self.checked,
                self.unreadable.len(),
                self.leaked.len()
            )?;
        }
        const MAX_LISTED: usize = 20;
        for (_, why) in self.unreadable.iter().take(MAX_LISTED) {
            writeln!(f, "  {}", shown(why))?;
        }
        if let more @ 1.. = self.unreadable.len().saturating_sub(MAX_LISTED) {
            writeln!(f, "  and {more} more (`--json` lists all)")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", shown(note))?;
        }
        Ok(())
    }
}

/// The first of many names, for a note.
pub(super) fn first_names(names: &[String]) -> String {
    const MAX_NAMED: usize = 5;
    let more = if names.len() > MAX_NAMED { ", ..." } else { "" };
    names[..names.len().min(MAX_NAMED)].join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_training_images_the_first_is_named() {
        let sample = |split| Sample { source: std::path::PathBuf::from("a.png").into(), class: 0, split };
        let samples = [Split::Train, Split::Train, Split::Val].map(sample).into();
        let dataset = Dataset { samples, ..Dataset::default() };
        assert_eq!(leaked_pairs(&dataset, &[Some(1); 3]), [(0, 2)]);
    }
}
