//! Which images a probe reads alike: the vectors of its evaluation made ready to be compared, asked for when they are first
//! looked at; the latest are kept. How alike any image is to another follows here, within a frame.

use std::sync::Arc;

use super::jobs::JobKind;
use super::{GalleryFilter, Scope, Sort, State};
use crate::app::jobs::similarity::SimilarityRequest;
use crate::app::jobs::{ColumnId, Compute, DatasetId, ImageId, JobId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::VectorKind;

/// Spaces that are kept: 50,000 images of 196 tokens are 39 MB each.
const MAX_KEPT: usize = 2;

/// Spaces, and the one under way.
#[derive(Default)]
pub struct Similarities {
    running: Option<(JobId, Key)>,
    /// What each is of, the latest last.
    known: Vec<(Key, Result<Arc<ImageSpace>, UserError>)>,
}

/// What is compared: whose evaluation, which of its vectors, and how.
#[derive(Clone)]
struct Key(Arc<Evaluation>, VectorKind, Similarity);

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

    /// The images of a dataset as the probe of a column reads them, compared as it is chosen; nothing where that is yet to be
    /// asked for, or the probe was not asked about the dataset.
    pub fn image_space(
        &self,
        dataset: DatasetId,
        column: ColumnId,
    ) -> Option<Result<&Arc<ImageSpace>, &UserError>> {
        let wanted = self.similarity_key(dataset, column)?;
        let known = self.similarities.known.iter().find(|(own, _)| *own == wanted);
        known.map(|(_, space)| space.as_ref())
    }

    /// The job that makes it ready.
    pub fn comparing(&self, dataset: DatasetId, column: ColumnId) -> Option<JobId> {
        let wanted = self.similarity_key(dataset, column)?;
        self.similarities.running.as_ref().filter(|(_, own)| *own == wanted).map(|(job, _)| *job)
    }

    /// How alike the images of an image's dataset are to it, by their places, as the probe of `column` reads them.
    pub fn similarities(&self, image: ImageId, column: ColumnId) -> Option<(DatasetId, Vec<f32>)> {
        let label = self.library.images.get(&image)?.label?;
        let space = self.image_space(label.dataset, column)?.ok()?;
        Some((label.dataset, space.similarities(label.at, self.views.overview.flipped)))
    }

    /// Makes ready what [`image_space`](Self::image_space) gives, where it is neither there nor under way.
    pub(super) fn compare_images(&mut self, dataset: DatasetId, column: ColumnId) -> Vec<Request> {
        let Some(key) = self.similarity_key(dataset, column) else { return Vec::new() };
        if self.image_space(dataset, column).is_some() || self.comparing(dataset, column).is_some() {
            return Vec::new();
        }
        let vectors = match key.0.vectors_of(key.1) {
            Ok(vectors) => vectors.clone(),
            Err(why) => {
                self.similarities.keep(key, Err(UserError::new(why)));
                return Vec::new();
            }
        };
        let older = self.similarities.running.take();
        let mut requests: Vec<Request> = older.map(|(job, _)| self.replace_job(job)).into_iter().collect();
        let job = self.begin(JobKind::Similarity, format!("Comparing images of {}", key.0.asked.dataset));
        let request = SimilarityRequest { vectors, grid: key.0.grid, similarity: key.2 };
        self.similarities.running = Some((job, key));
        requests.push(Request::Compute(job, Compute::Similarity(request)));
        requests
    }

    /// Shows the images of an image's dataset, those that are most alike first.
    pub(super) fn find_similar(&mut self, image: ImageId) -> Vec<Request> {
        let Some(label) = self.library.images.get(&image).and_then(|image| image.label) else {
            return Vec::new();
        };
        let requests = self.select_image(image);
        self.look_at_dataset(label.dataset);
        let scope = Scope::Dataset(label.dataset);
        self.gallery_filter = GalleryFilter { sort: Sort::Similarity(image), ..GalleryFilter::new(scope) };
        requests
    }

    /// They are ready; too late where another choice has taken their place.
    pub(super) fn images_compared(&mut self, job: JobId, space: Arc<ImageSpace>) {
        if let Some((_, key)) = self.similarities.running.as_ref().filter(|(own, _)| *own == job) {
            self.similarities.keep(key.clone(), Ok(space));
        }
    }

    /// The job that makes them ready is over.
    pub(super) fn end_similarity(&mut self, job: JobId, error: Option<&UserError>) {
        let Some((_, key)) = self.similarities.running.take_if(|(own, _)| *own == job) else { return };
        let ended = UserError::new("Comparing the images was ended early")
            .remedy("Choose what is compared, or by what, to begin again");
        if !self.similarities.known.iter().any(|(own, _)| *own == key) {
            self.similarities.keep(key, Err(error.cloned().unwrap_or(ended)));
        }
    }
}

impl Similarities {
    /// Forgets why some could not be made, so that they are tried again.
    pub(super) fn forget_failures(&mut self) {
        self.known.retain(|(_, space)| space.is_ok());
    }

    fn keep(&mut self, key: Key, space: Result<Arc<ImageSpace>, UserError>) {
        self.known.retain(|(own, _)| *own != key);
        if self.known.len() >= MAX_KEPT {
            drop(self.known.remove(0));
        }
        self.known.push((key, space));
    }
}
