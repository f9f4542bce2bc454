//! Which images the gallery shows, and in which order.

use std::collections::HashSet;

use super::State;
use super::library::{Image, Label};
use crate::app::jobs::{ColumnId, ImageId};
use crate::model::explain::evaluation::{Evaluation, disagreement};

/// Right or wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Both.
    #[default]
    Any,
    /// Taken for what they are.
    Right,
    /// Taken for something else.
    Wrong,
}

/// What images are sorted by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// As they were opened.
    #[default]
    Opened,
    /// A measure of the chosen probe, by its name.
    Measure(String),
    /// How far the chosen probe and another differ.
    Disagreement(ColumnId),
}

/// What passes, and in which order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GalleryFilter {
    /// Part of a name, a folder or a note.
    pub text: String,
    /// A class of the dataset.
    pub class: Option<u32>,
    /// Only those with a star.
    pub starred: bool,
    /// What the chosen probe made of them.
    pub outcome: Outcome,
    /// The order.
    pub sort: Sort,
    /// Whether the largest come last.
    pub rising: bool,
    /// Only these, and what they are.
    pub only: Option<(String, Vec<ImageId>)>,
}

impl GalleryFilter {
    /// Whether all images pass, in their own order.
    pub fn is_open(&self) -> bool {
        *self == Self { rising: self.rising, ..Self::default() }
    }
}

impl State {
    /// The images that pass, in order. `focus` is the column whose probe is asked.
    pub fn gallery_images(&self, focus: Option<ColumnId>) -> Vec<ImageId> {
        let filter = &self.gallery_filter;
        let dataset = self.dataset().map(|(id, _)| id);
        let evaluation = |column: ColumnId| self.evaluation_of(column).and_then(Result::ok);
        let own = focus.and_then(evaluation);
        let text = filter.text.trim().to_lowercase();
        let only: Option<HashSet<ImageId>> =
            filter.only.as_ref().map(|(_, images)| images.iter().copied().collect());
        let label = |image: &Image| image.label.filter(|label| Some(label.dataset) == dataset);
        let passes = |id: &ImageId, image: &Image| {
            let note = self.notes.get(image);
            only.as_ref().is_none_or(|only| only.contains(id))
                && (!filter.starred || note.is_some_and(|note| note.starred))
                && (text.is_empty()
                    || image.name().to_lowercase().contains(&text)
                    || image.folder().to_lowercase().contains(&text)
                    || note.is_some_and(|note| note.text.to_lowercase().contains(&text)))
                && filter.class.is_none_or(|class| label(image).is_some_and(|label| label.class == class))
                && came_out(filter.outcome, label(image), own)
        };
        let passed = self.library.images.iter().filter(|(id, image)| passes(id, image));
        let other = match filter.sort {
            Sort::Disagreement(column) => evaluation(column),
            _ => None,
        };
        let value = |label: Option<Label>| -> f32 {
            let Some((label, own)) = label.zip(own) else { return f32::NAN };
            match &filter.sort {
                Sort::Opened => f32::NAN,
                Sort::Measure(name) => {
                    own.values(name).and_then(|v| v.get(label.at).copied()).unwrap_or(f32::NAN)
                }
                Sort::Disagreement(_) => other.map_or(f32::NAN, |other| disagreement(own, other, label.at)),
            }
        };
        let mut keyed: Vec<(f32, ImageId)> = passed.map(|(id, image)| (value(label(image)), *id)).collect();
        if filter.sort != Sort::Opened {
            // What has no number comes last either way.
            let sign = if filter.rising { 1.0 } else { -1.0 };
            let key = |value: f32| if value.is_nan() { f32::INFINITY } else { sign * value };
            keyed.sort_by(|a, b| key(a.0).total_cmp(&key(b.0)));
        }
        keyed.into_iter().map(|(_, id)| id).collect()
    }
}

/// Whether an image came out so; those nobody was asked about only where it does not matter.
fn came_out(outcome: Outcome, label: Option<Label>, evaluation: Option<&std::sync::Arc<Evaluation>>) -> bool {
    let right = || evaluation?.right(label?.at);
    match outcome {
        Outcome::Any => true,
        Outcome::Right => right() == Some(true),
        Outcome::Wrong => right() == Some(false),
    }
}
