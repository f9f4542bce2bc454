//! Which images the gallery shows, and in which order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::State;
use super::library::{Image, Label};
use crate::app::jobs::{ColumnId, DatasetId, ImageId, Request};
use crate::model::data::ImageSource;
use crate::model::explain::evaluation::{Evaluation, disagreement};
use crate::viz::figures::dataset::folded;

/// Which part of the library the gallery shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All images.
    #[default]
    All,
    /// Images of a dataset.
    Dataset(DatasetId),
    /// Images of no dataset.
    Loose,
}

impl Scope {
    /// The dataset whose images alone are shown.
    pub fn dataset(self) -> Option<DatasetId> {
        if let Self::Dataset(id) = self { Some(id) } else { None }
    }
}

listed! {
    /// Whether the prediction is right.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Outcome {
        /// Either.
        #[default]
        Any: "Right and wrong";
        /// The predicted class is the true one.
        Right: "Right";
        /// The predicted class is another one.
        Wrong: "Wrong";
    }
}

/// What images are sorted by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The order in which they were opened.
    #[default]
    Opened,
    /// A measure of the focused probe's evaluation, by its name.
    Measure(String),
    /// How much the focused probe and another column's disagree.
    Disagreement(ColumnId),
    /// The similarity to this image, as the focused probe reads them.
    Similarity(ImageId),
}

/// The conditions that shown images meet, and their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GalleryFilter {
    /// The part of the library.
    pub scope: Scope,
    /// A part of the name of the image, its folder or its class, or of a finding's note, in any case.
    pub text: String,
    /// Only images of this class of the gallery's dataset.
    pub class: Option<u32>,
    /// Only starred images.
    pub starred: bool,
    /// Whether the focused probe's prediction is right.
    pub outcome: Outcome,
    /// The order.
    pub sort: Sort,
    /// Only images for which the focused probe and this column's predict different classes.
    pub differs: Option<ColumnId>,
    /// Whether the order is ascending.
    pub rising: bool,
    /// Only these images, with a description of them.
    pub only: Option<(String, Arc<[ImageId]>)>,
}

impl GalleryFilter {
    /// A filter that all images of a scope pass.
    pub fn new(scope: Scope) -> Self {
        Self { scope, ..Self::default() }
    }

    /// Whether all images of its scope pass, in the order in which they were opened.
    pub fn is_open(&self) -> bool {
        *self == Self { rising: self.rising, ..Self::new(self.scope) }
    }
}

impl State {
    /// The dataset whose images the gallery shows: the one of its scope, or the only one that is open.
    pub fn gallery_dataset(&self) -> Option<DatasetId> {
        match self.gallery_filter.scope {
            Scope::Dataset(id) => Some(id),
            Scope::Loose => None,
            Scope::All => {
                let mut all = self.library.datasets.keys();
                all.next().copied().filter(|_| all.next().is_none())
            }
        }
    }

    /// Sets the filter as an undoable step. Letters typed one after another are one step.
    pub(super) fn set_gallery_filter(&mut self, filter: GalleryFilter) -> Vec<Request> {
        let before = &self.gallery_filter;
        if filter == *before {
            return Vec::new();
        }
        let is_typed = *before == GalleryFilter { text: before.text.clone(), ..filter.clone() };
        let wanted = Some((self.evaluations.dataset, filter));
        match is_typed {
            true => self.slide("Filter images by text", |p| p.gallery = wanted),
            false => self.change("Filter images", |p| p.gallery = wanted),
        }
    }

    /// Whether an image is in the gallery's scope.
    pub(super) fn in_scope(&self, image: &Image) -> bool {
        match self.gallery_filter.scope {
            Scope::All => true,
            Scope::Dataset(id) => image.label.is_some_and(|label| label.dataset == id),
            Scope::Loose => image.label.is_none(),
        }
    }

    /// Changes the gallery's scope to one with this image, if it is not in scope: its dataset, or the images of none.
    pub(super) fn widen_gallery_to(&mut self, id: ImageId) {
        let Some(image) = self.library.images.get(&id).filter(|image| !self.in_scope(image)) else { return };
        match image.label {
            Some(label) => self.show_dataset(label.dataset),
            None => self.gallery_filter = GalleryFilter::new(Scope::Loose),
        }
    }

    /// The gallery's filter without what refers to a column that was removed since it was chosen.
    pub fn filter_in_effect(&self) -> GalleryFilter {
        let mut filter = self.gallery_filter.clone();
        filter.differs = filter.differs.filter(|column| self.columns.contains_key(column));
        if matches!(&filter.sort, Sort::Disagreement(column) if !self.columns.contains_key(column)) {
            filter.sort = Sort::Opened;
        }
        filter
    }

    /// The number of images in scope.
    pub fn images_in_scope(&self) -> usize {
        self.library.images.values().filter(|image| self.in_scope(image)).count()
    }

    /// Selects the image `by` positions further in the gallery, clamped to the first and last.
    pub(super) fn step(&mut self, by: isize) -> Vec<Request> {
        let current = self.selection.image;
        let mut images = self.gallery_order(self.focus(), current);
        let from = images.iter().position(|(id, _)| Some(*id) == current);
        // One that does not pass the filter makes room for the next one.
        let hidden = from.filter(|from| !images[*from].1).map(|from| images.remove(from)).is_some();
        let by = if hidden && by > 0 { by - 1 } else { by };
        let Some(last) = images.len().checked_sub(1) else { return Vec::new() };
        let to = from.map_or(0, |from| from.saturating_add_signed(by).min(last));
        self.select_image(images[to].0)
    }

    /// The images that pass the filter, in order. `focus` is the column whose evaluation is used.
    pub fn gallery_images(&self, focus: Option<ColumnId>) -> Vec<ImageId> {
        self.gallery_order(focus, None).into_iter().map(|(id, _)| id).collect()
    }

    /// [`gallery_images`](Self::gallery_images) with one more image where the order places it; whether each passes the filter.
    fn gallery_order(&self, focus: Option<ColumnId>, more: Option<ImageId>) -> Vec<(ImageId, bool)> {
        let filter = self.filter_in_effect();
        let of_all = |column: ColumnId| -> HashMap<_, _> { self.evaluations_of(column).collect() };
        let evaluations_of = focus.map(of_all).unwrap_or_default();
        let own = |label: Option<Label>| evaluations_of.get(&label?.dataset).copied();
        let others_of = filter.differs.map(of_all).unwrap_or_default();
        let other = |label: Option<Label>| others_of.get(&label?.dataset).copied();
        let dataset = self.gallery_dataset();
        let text = folded(filter.text.trim());
        let only: Option<HashSet<ImageId>> =
            filter.only.as_ref().map(|(_, images)| images.iter().copied().collect());
        let class =
            |image: &Image| image.label.filter(|label| Some(label.dataset) == dataset).map(|l| l.class);
        let has_text = |words: &str| folded(words).contains(&text);
        let noted = self.findings.iter().filter(|(_, finding)| has_text(&finding.note));
        let noted: HashSet<&ImageSource> = noted.map(|(_, finding)| &finding.image).collect();
        let classes = self.library.datasets.iter().filter_map(|(id, dataset)| {
            let classes = &dataset.status.ready()?.set.classes;
            Some((*id, classes.iter().map(|class| has_text(class)).collect()))
        });
        let classes: HashMap<DatasetId, Vec<bool>> = classes.collect();
        let has_class = |Label { dataset, class, .. }: Label| {
            classes.get(&dataset).and_then(|classes| classes.get(class as usize)).is_some_and(|has| *has)
        };
        let passes = |id: &ImageId, image: &Image| {
            self.in_scope(image)
                && only.as_ref().is_none_or(|only| only.contains(id))
                && (!filter.starred || self.findings.is_starred(image))
                && (text.is_empty()
                    || has_text(&image.name())
                    || has_text(&image.folder())
                    || image.label.is_some_and(has_class)
                    || noted.contains(&image.source))
                && filter.class.is_none_or(|wanted| class(image) == Some(wanted))
                && has_outcome(filter.outcome, image.label, own(image.label))
                && (filter.differs.is_none() || differ(image.label, own(image.label), other(image.label)))
        };
        let other = match filter.sort {
            Sort::Disagreement(column) => of_all(column),
            _ => HashMap::new(),
        };
        let alike = match filter.sort {
            Sort::Similarity(image) => focus.and_then(|column| self.similarities(image, column)),
            _ => None,
        };
        let value = |label: Option<Label>| -> f32 {
            if let Some((dataset, alike)) = &alike {
                let own = label.filter(|label| label.dataset == *dataset);
                return own.and_then(|label| alike.get(label.at).copied()).unwrap_or(f32::NAN);
            }
            let Some((label, own)) = label.zip(own(label)) else { return f32::NAN };
            match &filter.sort {
                Sort::Opened | Sort::Similarity(_) => f32::NAN,
                Sort::Measure(name) => {
                    own.values(name).and_then(|v| v.get(label.at).copied()).unwrap_or(f32::NAN)
                }
                Sort::Disagreement(_) => {
                    let other = other.get(&label.dataset);
                    other.map_or(f32::NAN, |other| disagreement(own, other, label.at))
                }
            }
        };
        let keyed = self.library.images.iter().filter_map(|(id, image)| {
            let passes = passes(id, image);
            (passes || Some(*id) == more).then(|| (value(image.label), (*id, passes)))
        });
        let mut keyed: Vec<(f32, (ImageId, bool))> = keyed.collect();
        if filter.sort != Sort::Opened {
            // Images without a value come last in both directions.
            let sign = if filter.rising { 1.0 } else { -1.0 };
            let key = |value: f32| if value.is_nan() { f32::INFINITY } else { sign * value };
            keyed.sort_by(|a, b| key(a.0).total_cmp(&key(b.0)));
        }
        keyed.into_iter().map(|(_, image)| image).collect()
    }
}

/// Whether two probes predict different classes for an image that both could read.
fn differ(label: Option<Label>, one: Option<&Arc<Evaluation>>, other: Option<&Arc<Evaluation>>) -> bool {
    let predicted = |evaluation: &Evaluation, at| evaluation.readable(at).then(|| evaluation.predicted[at]);
    let both = || {
        let at = label?.at;
        Some((predicted(one?, at)?, predicted(other?, at)?))
    };
    both().is_some_and(|(one, other)| one != other)
}

/// Whether an image's prediction has the given outcome; without an evaluation only [`Outcome::Any`] matches.
fn has_outcome(outcome: Outcome, label: Option<Label>, evaluation: Option<&Arc<Evaluation>>) -> bool {
    let right = || evaluation?.is_correct(label?.at);
    match outcome {
        Outcome::Any => true,
        Outcome::Right => right() == Some(true),
        Outcome::Wrong => right() == Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::state::Dataset;
    use crate::app::state::command::Command;
    use crate::app::state::workspace::{SavedImage, Workspace};

    #[test]
    fn a_column_that_was_removed_filters_nothing() {
        let mut state = State::default();
        let source = std::path::PathBuf::from("a.png").into();
        let images = vec![SavedImage { id: ImageId(1), source }];
        state.restore(Workspace { images, ..Workspace::default() });
        state.gallery_filter.differs = Some(ColumnId(7));
        state.gallery_filter.sort = Sort::Disagreement(ColumnId(7));
        assert_eq!(state.gallery_images(None), [ImageId(1)]);
        assert!(state.filter_in_effect().is_open());
    }

    #[test]
    fn a_dataset_that_is_closed_leaves_the_gallery_of_another_as_it_is() {
        let mut state = State::default();
        let [shown, other] = [DatasetId(1), DatasetId(2)];
        let dataset = |id: DatasetId| (id, Dataset::new(format!("{}", id.0).into(), None));
        state.library.datasets = [shown, other].map(dataset).into_iter().collect();
        state.evaluations.dataset = Some(shown);
        let starred = GalleryFilter { starred: true, ..GalleryFilter::new(Scope::Dataset(shown)) };
        state.gallery_filter = starred.clone();
        state.dispatch(Command::CloseDataset(other));
        assert_eq!(state.gallery_filter, starred);
        state.dispatch(Command::CloseDataset(shown));
        assert_eq!(state.gallery_filter, GalleryFilter::default());
        state.dispatch(Command::Undo);
        assert_eq!((&state.gallery_filter, state.evaluations.dataset), (&starred, Some(shown)));
    }

    #[test]
    fn a_filter_is_undone_and_letters_typed_one_after_another_are_one_step() {
        let mut state = State::default();
        let lasso = |of: u64| Some((format!("images of the map, from {of}"), [ImageId(of)].into()));
        let drawn = |of: u64| GalleryFilter { only: lasso(of), ..GalleryFilter::default() };
        let typed = |text: &str| GalleryFilter { text: text.to_owned(), ..drawn(2) };
        let all = [drawn(1), drawn(2), typed("a"), typed("ab"), typed("abc"), typed("abc")];
        for filter in all {
            state.dispatch(Command::SetGalleryFilter(Box::new(filter)));
        }
        for left in [drawn(2), drawn(1), GalleryFilter::default()] {
            state.dispatch(Command::Undo);
            assert_eq!(state.gallery_filter, left);
        }
        assert_eq!(state.undo_text(), None, "the same filter again is no step");
        state.dispatch(Command::Redo);
        assert_eq!(state.gallery_filter, drawn(1));
    }
}
