//! The messages of an extraction besides its progress: the same text on a terminal and from another machine.

use std::hash::Hash;

use super::Event;
use crate::app::format::counted;
use crate::app::jobs::{Reporter, report_extract};
use crate::model::data::{self, Dataset};

/// Maximum number of unreadable or changed images that are named; further ones are only counted.
const MAX_NAMED: usize = 20;

/// Turns the events of one extraction into messages, and limits those about unreadable images.
#[derive(Default)]
pub struct Messages {
    unreadable: usize,
}

/// A message of an extraction.
pub enum Line {
    /// A problem.
    Warning(String),
    /// A note.
    Note(String),
    /// How the extraction ended.
    End(String),
}

impl Messages {
    /// The message for an event of the extraction of `dataset`, if it needs one.
    pub fn line(&mut self, event: &Event<'_>, dataset: &Dataset) -> Option<Line> {
        let name = |sample: usize| dataset.samples[sample].source.to_string();
        Some(match event {
            Event::Damaged(damage) => {
                Line::Warning(format!("{damage}; the tokens of its images are extracted again"))
            }
            Event::OutOfMemory { images } => Line::Note(out_of_memory(*images)),
            Event::LeftOut { images } => Line::Warning(format!(
                "left out: {} that could not be read when these tokens were extracted; --verify retries those whose \
                 files can be read now or have changed",
                counted(*images, "image", "images")
            )),
            Event::Adopted { shards } => Line::Note(format!(
                "these tokens were cached by an earlier version without digests; they are used as they are, and {} \
                 recorded now",
                counted(*shards, "digest is", "digests are")
            )),
            Event::Changed { samples: [sample] } => {
                Line::Warning(format!("{} has changed since its tokens were extracted", name(*sample)))
            }
            Event::Changed { samples } => {
                let named: Vec<String> = samples.iter().take(MAX_NAMED).map(|sample| name(*sample)).collect();
                let end = if named.len() < samples.len() { ", ..." } else { "" };
                let all = counted(samples.len(), "image", "images");
                Line::Warning(format!(
                    "{all} have changed since their tokens were extracted: {}{end}",
                    named.join(", ")
                ))
            }
            Event::Unknown { images } => Line::Note(format!(
                "{} cannot be checked for changes, as an earlier version extracted the tokens; `ssmprobe cache clear` \
                 makes the next run read all images again",
                counted(*images, "image", "images")
            )),
            Event::Unreadable { sample, why } => {
                self.unreadable += 1;
                match self.unreadable {
                    ..=MAX_NAMED => Line::Warning(format!("left out: {}", prefixed(&name(*sample), why))),
                    count if count == MAX_NAMED + 1 => {
                        Line::Warning("further images left out are only counted".into())
                    }
                    _ => return None,
                }
            }
            Event::Leak(text) => Line::Warning(text.clone()),
            Event::Waiting { why, first: true } => Line::Warning(why.waited_for()),
            Event::Stopped(error) => Line::End(error.to_string()),
            Event::Progress(_)
            | Event::Checked(_)
            | Event::Verifying { .. }
            | Event::Compared(_)
            | Event::Waiting { .. }
            | Event::Done(_) => return None,
        })
    }

    /// Reports an event that needs a message as a warning, any other as progress.
    pub fn tell(&mut self, reporter: &mut dyn Reporter, event: &Event<'_>, dataset: &Dataset) {
        match self.line(event, dataset) {
            Some(Line::Warning(text) | Line::Note(text) | Line::End(text)) => reporter.warn(text),
            None => report_extract(reporter, event),
        }
    }
}

/// The error `why` prefixed with the sample's name, unless it contains that already.
fn prefixed(name: &str, why: &str) -> String {
    if why.contains(name) { why.to_owned() } else { format!("{name}: {why}") }
}

/// The warning that images are in both the training and the held-out part, by the digests of all images, where known.
pub fn leak_warning(dataset: &Dataset, digests: &[Option<impl Eq + Hash>]) -> Option<String> {
    let leaked = data::leaked_pairs(dataset, digests);
    let (train, held_out) = *leaked.first()?;
    Some(format!(
        "{} in both the training and the held-out part, which makes accuracies too high; the first: {} and {}; remove one \
         image of each pair (`ssmprobe dataset` lists them)",
        counted(leaked.len(), "image is", "images are"),
        dataset.name_of_image(train),
        dataset.name_of_image(held_out)
    ))
}

/// The message that the device ran out of memory.
pub fn out_of_memory(images: usize) -> String {
    format!("the device ran out of memory; it now takes {} at a time", counted(images, "image", "images"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::model::data::{Sample, Split};

    #[test]
    fn of_many_changed_images_some_are_named_and_all_counted() {
        let said = |count: usize| {
            let changed: Vec<usize> = (0..count).collect();
            let sample = |number: &usize| Sample {
                source: PathBuf::from(format!("{number}.png")).into(),
                class: 0,
                split: Split::Train,
            };
            let dataset = Dataset { samples: changed.iter().map(sample).collect(), ..Dataset::default() };
            let line = Messages::default().line(&Event::Changed { samples: &changed }, &dataset);
            let Some(Line::Warning(text)) = line else { panic!("no warning") };
            text
        };
        assert_eq!(said(1), "0.png has changed since its tokens were extracted");
        assert_eq!(said(2), "2 images have changed since their tokens were extracted: 0.png, 1.png");
        let many = said(5000);
        assert!(many.starts_with("5,000 images have changed") && many.ends_with("19.png, ..."), "{many}");
    }
}
