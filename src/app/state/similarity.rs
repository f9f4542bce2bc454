//! Similarity of images as a probe reads them: the worker prepares the vectors of an evaluation for comparison on first use,
//! and the latest are kept. Similarities to any image are then computed here, within a frame.

use std::sync::Arc;

use super::answers::Answers;
use super::jobs::JobKind;
use super::library::Label;
use super::{GalleryFilter, Requested, Scope, Sort, State};
use crate::app::jobs::similarity::SimilarityRequest;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{ColumnId, Compute, DatasetId, ImageId, JobId, Request};
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::VectorKind;

/// The known image spaces, and the job under way. A space of 50,000 images of 196 tokens takes 39 MB.
pub(super) type Similarities = Answers<Key, ImageSpace, 2>;

/// The inputs of a space: the evaluation (by identity), which of its vectors, and the similarity.
#[derive(Clone)]
pub(super) struct Key(Arc<Evaluation>, VectorKind, Similarity);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) && (self.1, self.2) == (other.1, other.2)
    }
}

impl State {
    fn similarity_key(&self, dataset: DatasetId, column: ColumnId) -> Option<Key> {
        let evaluation = self.evaluation_on(dataset, column)?.ok()?;
        let choice = &self.views.overview;
        Some(Key(evaluation.clone(), choice.vectors, choice.similarity))
    }

    /// The image space of a dataset as the probe of a column reads it, for the chosen vectors and similarity, and the job that
    /// prepares it. Neither if it was not requested yet, or the probe was not evaluated on the dataset.
    pub fn image_space(&self, dataset: DatasetId, column: ColumnId) -> Requested<'_, ImageSpace> {
        let key = self.similarity_key(dataset, column);
        key.map(|key| self.similarities.requested(&key)).unwrap_or_default()
    }

    /// The similarity of every image of an image's dataset to it, by index, as the probe of `column` reads them.
    pub fn similarities(&self, image: ImageId, column: ColumnId) -> Option<(DatasetId, Vec<f32>)> {
        let label = self.library.images.get(&image)?.label?;
        let space = self.image_space(label.dataset, column).0?.ok()?;
        Some((label.dataset, space.similarities(label.at, self.views.overview.flipped)))
    }

    /// Requests the space that [`image_space`](Self::image_space) returns, unless it is known or under way.
    pub(super) fn compare_images(&mut self, dataset: DatasetId, column: ColumnId) -> Vec<Request> {
        let Some(key) = self.similarity_key(dataset, column) else { return Vec::new() };
        if !matches!(self.similarities.requested(&key), (None, None)) {
            return Vec::new();
        }
        let vectors = match key.0.vectors_of(key.1) {
            Ok(vectors) => vectors.clone(),
            Err(why) => {
                self.similarities.keep(key, Err(UserError::new(why)));
                return Vec::new();
            }
        };
        let job = self.begin(JobKind::Similarity, format!("Comparing images of {}", key.0.set.dataset));
        let request = SimilarityRequest { vectors, grid: key.0.grid, similarity: key.2 };
        let older = self.similarities.begin(job, key);
        self.send_instead(older, Request::Compute(job, Compute::Similarity(request)))
    }

    /// Shows the images of an image's dataset in the gallery, the most similar first.
    pub(super) fn find_similar(&mut self, image: ImageId) -> Vec<Request> {
        let Some(known) = self.library.images.get(&image) else { return Vec::new() };
        let Some(Label { dataset, .. }) = known.label else { return Vec::new() };
        let text = format!("Images like {}", known.name());
        let sort = Sort::Similarity(image);
        let filter = GalleryFilter { sort, ..GalleryFilter::new(Scope::Dataset(dataset)) };
        self.choose_dataset(text, dataset, filter, Some(image))
    }

    /// The job has ended; without a result, the error is stored.
    pub(super) fn end_similarity(&mut self, job: JobId, error: Option<&UserError>) {
        let Some(key) = self.similarities.end(job) else { return };
        let ended = UserError::new("Comparing the images was stopped early")
            .remedy("Choose what to compare, or by what, to start again");
        if self.similarities.get(&key).is_none() {
            self.similarities.keep(key, Err(error.cloned().unwrap_or(ended)));
        }
    }
}
