//! What is in a dataset: how many images of each class and split, which cannot be read, and which
//! stand in both the training and the held-out part, byte for byte.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{Dataset, Split};
use crate::model::data::image::{Photo, looks_like_image};
use crate::model::io::catch_panic::cut;
use crate::model::io::escape::shown;

/// How closely the images are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Not at all: the lists are counted.
    Lists,
    /// Every file is read; its first bytes must be an image's.
    Bytes,
    /// Every file is decoded.
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
    /// Files met among the images that are none.
    pub skipped: usize,
    /// Samples that cannot be read, and why.
    pub unreadable: Vec<(usize, String)>,
    /// Pairs of samples with the same bytes, one for training and one held out.
    pub shared: Vec<(usize, usize)>,
    /// Images looked at: fewer than there are where it was stopped.
    pub checked: usize,
    /// What the dataset says of itself.
    pub notes: Vec<String>,
}

/// Looks into a dataset. `tell` hears of every image (done, all), from any thread, and may stop it.
pub fn describe(
    dataset: &Dataset,
    check: Check,
    tell: &(dyn Fn(usize, usize) -> ControlFlow<()> + Sync),
) -> Report {
    let mut counts = vec![[0; 3]; dataset.classes.len()];
    for sample in &dataset.samples {
        counts[sample.class][sample.split as usize] += 1;
    }
    let (done, stopped) = (AtomicUsize::new(0), AtomicBool::new(check == Check::Lists));
    let all = dataset.samples.len();
    // The fingerprint of every image, or why it has none; nothing for what was not looked at.
    let looks: Vec<Option<Result<[u8; 32], String>>> = dataset
        .samples
        .par_iter()
        .map(|sample| {
            if stopped.load(Ordering::Relaxed) {
                return None;
            }
            let look = || {
                let bytes = sample.source.bytes().map_err(|error| error.to_string())?;
                if check == Check::Pixels || !looks_like_image(&bytes[..bytes.len().min(64)]) {
                    Photo::decode(sample.source.name(), &bytes).map_err(|error| error.to_string())?;
                }
                Ok(Sha256::digest(&bytes).into())
            };
            let result = look();
            if tell(done.fetch_add(1, Ordering::Relaxed) + 1, all).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
            Some(result)
        })
        .collect();
    let (mut unreadable, mut train) = (Vec::new(), HashMap::new());
    for (i, look) in looks.iter().enumerate() {
        match look {
            Some(Err(why)) => unreadable.push((i, cut(why.clone()))),
            Some(Ok(print)) if dataset.samples[i].split == Split::Train => {
                train.entry(print).or_insert(i);
            }
            _ => {}
        }
    }
    let held_out = looks.iter().enumerate().filter(|(i, _)| dataset.samples[*i].split != Split::Train);
    let shared =
        held_out.filter_map(|(i, look)| Some((*train.get(look.as_ref()?.as_ref().ok()?)?, i))).collect();
    Report {
        title: format!("{} ({})", dataset.name, dataset.layout),
        classes: dataset.classes.clone(),
        counts,
        skipped: dataset.skipped,
        unreadable,
        shared,
        checked: looks.iter().flatten().count(),
        notes: dataset.notes.clone(),
    }
}

impl Report {
    /// Images of a split.
    pub fn total(&self, split: Split) -> usize {
        self.counts.iter().map(|counts| counts[split as usize]).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [train, val, test] = Split::ALL.map(|split| self.total(split));
        let (title, classes) = (shown(&self.title), self.classes.len());
        writeln!(f, "{title}: {classes} classes, {train} train, {val} val, {test} test")?;
        let wide = self.classes.iter().map(|name| shown(name).chars().count()).max().unwrap_or(0).min(60);
        for (name, [train, val, test]) in self.classes.iter().zip(&self.counts) {
            writeln!(f, "  {:wide$} {train:7} {val:7} {test:7}", shown(name))?;
        }
        if self.skipped > 0 {
            writeln!(f, "{} files are no images and were left out", self.skipped)?;
        }
        if self.checked > 0 {
            writeln!(
                f,
                "{} images checked: {} unreadable, {} in both training and held-out part",
                self.checked,
                self.unreadable.len(),
                self.shared.len()
            )?;
        }
        const MAX_LISTED: usize = 20;
        for (_, why) in self.unreadable.iter().take(MAX_LISTED) {
            writeln!(f, "  {}", shown(why))?;
        }
        if let more @ 1.. = self.unreadable.len().saturating_sub(MAX_LISTED) {
            writeln!(f, "  and {more} more (`--json` names all)")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {}", shown(note))?;
        }
        Ok(())
    }
}
