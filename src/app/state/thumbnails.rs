//! Thumbnails of images; the least recently used are dropped.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;

use super::State;
use crate::app::jobs::{ImageId, Request};
use crate::model::data::ImageSource;
use crate::model::trace::Picture;

/// Longest side, in pixels.
const SIDE_PX: u32 = 112;
/// Most thumbnails that are kept: at most 40 MB.
const MAX_THUMBNAILS: usize = 1024;
/// Most thumbnails of one request.
const MAX_REQUESTED: usize = 256;
/// Most visible images of a gallery that get thumbnails: two galleries may be open, and must not evict each other's.
const MAX_VISIBLE: usize = MAX_THUMBNAILS / 2;

/// A thumbnail, or why there is none.
#[derive(Clone, Debug)]
pub enum Thumbnail {
    /// The picture.
    Ready(Arc<Picture>),
    /// The error, in one line.
    Failed(String),
}

/// Thumbnails by image.
#[derive(Default)]
pub struct Thumbnails {
    /// The most recently used last.
    known: IndexMap<ImageId, Thumbnail>,
    /// The images of the latest request that have no thumbnail yet.
    requested: Vec<ImageId>,
    /// Images of an earlier workspace whose answer may still come; those of this one may have the same ids.
    stale: HashSet<ImageId>,
    /// How many of the known ones failed.
    failed: usize,
}

/// The first [`MAX_VISIBLE`] of these images.
fn first_visible(images: &[ImageId]) -> &[ImageId] {
    &images[..images.len().min(MAX_VISIBLE)]
}

impl Thumbnails {
    /// The thumbnail of an image, if it is known.
    pub fn get(&self, image: ImageId) -> Option<&Thumbnail> {
        self.known.get(&image)
    }

    /// Whether visible images lack thumbnails, and no request is under way.
    pub fn are_missing(&self, images: &[ImageId]) -> bool {
        self.requested.is_empty() && first_visible(images).iter().any(|image| !self.known.contains_key(image))
    }

    /// The number of thumbnails.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is no thumbnail.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether an image could not be read.
    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0
    }

    /// Forgets the failures, so that the visible images are requested again.
    pub(super) fn forget_failures(&mut self) {
        self.known.retain(|_, thumbnail| matches!(thumbnail, Thumbnail::Ready(_)));
        self.failed = 0;
    }

    /// Forgets all of them, as another workspace is opened.
    pub(super) fn restart(&mut self) {
        let Self { requested, stale, .. } = std::mem::take(self);
        self.stale = stale.into_iter().chain(requested).collect();
    }

    pub(super) fn forget(&mut self, image: ImageId) {
        if let Some(Thumbnail::Failed(_)) = self.known.shift_remove(&image) {
            self.failed -= 1;
        }
    }
}

impl State {
    /// The number of images in the library, without those that are known to be unreadable.
    pub fn readable_images(&self) -> usize {
        self.library.images.len() - self.thumbnails.failed // images that leave the library are forgotten
    }

    /// Stores the thumbnail of an image, if it is still in the library; one that may be of an earlier workspace's is requested again.
    pub(super) fn put_thumbnail(&mut self, image: ImageId, thumbnail: Thumbnail) {
        let thumbnails = &mut self.thumbnails;
        thumbnails.requested.retain(|wanted| *wanted != image);
        if !thumbnails.stale.remove(&image) && self.library.images.contains_key(&image) {
            thumbnails.forget(image);
            thumbnails.failed += usize::from(matches!(thumbnail, Thumbnail::Failed(_)));
            thumbnails.known.insert(image, thumbnail);
            if let Some(oldest) = thumbnails.known.keys().next().copied()
                && thumbnails.known.len() > MAX_THUMBNAILS
            {
                thumbnails.forget(oldest);
            }
        }
    }

    /// Requests the thumbnails that visible images lack, unless the latest request includes them.
    pub(super) fn show_thumbnails(&mut self, images: &[ImageId]) -> Vec<Request> {
        let (thumbnails, library) = (&mut self.thumbnails, &self.library.images);
        let unknown = |image: &ImageId| {
            let place = &library.get(image).filter(|_| !thumbnails.known.contains_key(image))?.place;
            Some((*image, place.clone()))
        };
        let wanted = first_visible(images).iter().filter_map(unknown).take(MAX_REQUESTED);
        let wanted: Vec<(ImageId, ImageSource)> = wanted.collect();
        for image in first_visible(images) {
            if let Some(index) = thumbnails.known.get_index_of(image) {
                // Marked as the latest used.
                thumbnails.known.move_index(index, thumbnails.known.len() - 1);
            }
        }
        if wanted.iter().all(|(image, _)| thumbnails.requested.contains(image)) {
            return Vec::new();
        }
        thumbnails.requested = wanted.iter().map(|(image, _)| *image).collect();
        vec![Request::Thumbnails { wanted, side: SIDE_PX }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::state::workspace::{SavedImage, Workspace};

    #[test]
    fn an_image_is_not_shown_as_that_of_the_same_id_in_the_workspace_before() {
        let id = ImageId(1);
        let mut state = State::default();
        for path in ["a.png", "b.png"] {
            let images = vec![SavedImage { id, place: std::path::PathBuf::from(path).into() }];
            state.restore(Workspace { images, ..Workspace::default() });
            assert_eq!(state.show_thumbnails(&[id]).len(), 1);
        }
        state.put_thumbnail(id, Thumbnail::Ready(Arc::default()));
        assert!(state.thumbnails.get(id).is_none(), "it is of a.png");
        assert_eq!(state.show_thumbnails(&[id]).len(), 1);
        state.put_thumbnail(id, Thumbnail::Ready(Arc::default()));
        assert!(state.thumbnails.get(id).is_some());
    }
}
