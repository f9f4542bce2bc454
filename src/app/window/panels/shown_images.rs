//! The images that the gallery shows: listed once for the toolbar, the library and the contact sheet.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::app::jobs::{ColumnId, DatasetId, ImageId};
use crate::app::state::{GalleryFilter, Sort, State};

/// The images that pass the filter, in order, and, if they are sorted by similarity to one of them, those similarities.
pub struct ShownImages {
    key: FilterKey,
    /// The images.
    pub ids: IndexSet<ImageId>,
    /// Number of images in the filter's scope.
    pub in_scope: usize,
    /// Whether the library has images of no dataset.
    pub loose: bool,
    /// The dataset of the image they are sorted by, and the similarity of each of its images.
    pub similarities: Option<(DatasetId, Vec<f32>)>,
}

impl ShownImages {
    /// The images that `state` shows; `known` if they are the same.
    pub fn from_state(state: &State, known: Option<Arc<Self>>) -> Arc<Self> {
        let key = FilterKey::from_state(state);
        known.filter(|known| known.key == key).unwrap_or_else(|| {
            let similarities = match key.filter.sort {
                Sort::Similarity(image) => key.focus.and_then(|column| state.similarities(image, column)),
                _ => None,
            };
            let ids = state.gallery_images(key.focus).into_iter().collect();
            let loose = state.library.images.values().any(|image| image.label.is_none());
            Arc::new(Self { key, ids, in_scope: state.images_in_scope(), loose, similarities })
        })
    }

    /// Similarity of an image to the one they are sorted by.
    pub fn similarity(&self, state: &State, id: ImageId) -> Option<f32> {
        let label = state.library.images.get(&id)?.label?;
        let (_, similarities) =
            self.similarities.as_ref().filter(|(dataset, _)| *dataset == label.dataset)?;
        similarities.get(label.at).copied()
    }
}

/// Everything that decides which images pass, and in which order.
#[derive(PartialEq)]
struct FilterKey {
    filter: GalleryFilter,
    focus: Option<ColumnId>,
    evaluations: u64,
    /// Addresses of the evaluations and the similarities that are used: they change with layer, size or seed.
    sources: Vec<usize>,
    flipped: bool,
    findings: u64,
    images: u64,
}

impl FilterKey {
    fn from_state(state: &State) -> Self {
        let (filter, focus, images) = (state.filter_in_effect(), state.focus(), &state.library.images);
        let space = |image: ImageId| {
            let dataset = images.get(&image)?.label?.dataset;
            state.image_space(dataset, focus?).0?.ok()
        };
        let (alike, other) = match filter.sort {
            Sort::Similarity(image) => (space(image), None),
            Sort::Disagreement(column) => (None, Some(column)),
            Sort::Opened | Sort::Measure(_) => (None, None),
        };
        let columns = [focus, other, filter.differs].into_iter().flatten();
        let evaluations = columns.flat_map(|column| state.evaluations_of(column));
        let addresses = evaluations.map(|(_, evaluation)| Arc::as_ptr(evaluation).addr());
        Self {
            focus,
            evaluations: state.evaluations.revision,
            sources: addresses.chain(alike.map(|space| Arc::as_ptr(space).addr())).collect(),
            flipped: state.views.overview.flipped,
            findings: state.findings.revision,
            images: images.revision(),
            filter,
        }
    }
}
