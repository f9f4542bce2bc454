//! Thumbnails of images; the least recently used are dropped.

use std::sync::Arc;

use indexmap::IndexMap;

use super::{Known, State};
use crate::app::jobs::user_error::UserError;
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

/// Thumbnails by image.
#[derive(Default)]
pub struct Thumbnails {
    /// The most recently used last.
    known: IndexMap<ImageId, Result<Arc<Picture>, UserError>>,
    /// The images of the latest request that have no thumbnail yet.
    requested: Vec<ImageId>,
    /// How many workspaces were open before. An answer names an id alone, and images of two workspaces may have the same: requests
    /// are for [tickets](Self::ticket), which hold this number too.
    earlier: u64,
}

/// The first [`MAX_VISIBLE`] of these images.
fn first_visible(images: &[ImageId]) -> &[ImageId] {
    &images[..images.len().min(MAX_VISIBLE)]
}

impl Thumbnails {
    /// The thumbnail of an image.
    pub fn get(&self, image: ImageId) -> Known<'_, Picture> {
        self.known.get(&image).map(Result::as_ref)
    }

    /// Whether visible images lack thumbnails, and no request is under way.
    pub fn are_missing(&self, images: &[ImageId]) -> bool {
        self.requested.is_empty() && first_visible(images).iter().any(|image| !self.known.contains_key(image))
    }

    /// The number of thumbnails.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Whether an image could not be read.
    pub(super) fn has_failed(&self) -> bool {
        self.known.values().any(Result::is_err)
    }

    /// Forgets the failures, so that the visible images are requested again.
    pub(super) fn forget_failures(&mut self) {
        self.known.retain(|_, thumbnail| thumbnail.is_ok());
    }

    /// Forgets all of them, as another workspace is opened.
    pub(super) fn restart(&mut self) {
        *self = Self { earlier: self.earlier + 1, ..Self::default() };
    }

    /// The id under which an image is requested, and back.
    fn ticket(&self, image: ImageId) -> ImageId {
        ImageId(image.0 ^ (self.earlier << 48))
    }

    pub(super) fn forget(&mut self, image: ImageId) {
        self.known.shift_remove(&image);
    }
}

impl State {
    /// The number of images in the library, without those that are known to be unreadable.
    pub fn readable_images(&self) -> usize {
        let failed = self.thumbnails.known.values().filter(|thumbnail| thumbnail.is_err()).count();
        self.library.images.len() - failed // images that leave the library are forgotten
    }

    /// Stores the thumbnail that was requested by this ticket, if its image is still in the library, which those of an earlier workspace
    /// are not.
    pub(super) fn put_thumbnail(&mut self, ticket: ImageId, thumbnail: Result<Arc<Picture>, UserError>) {
        let thumbnails = &mut self.thumbnails;
        let image = thumbnails.ticket(ticket);
        thumbnails.requested.retain(|wanted| *wanted != image);
        if self.library.images.contains_key(&image) {
            thumbnails.forget(image);
            thumbnails.known.insert(image, thumbnail);
            if thumbnails.known.len() > MAX_THUMBNAILS {
                thumbnails.known.shift_remove_index(0);
            }
        }
    }

    /// Requests the thumbnails that visible images lack, unless the latest request includes them.
    pub(super) fn show_thumbnails(&mut self, images: &[ImageId]) -> Vec<Request> {
        let (thumbnails, library) = (&mut self.thumbnails, &self.library.images);
        let unknown = |image: &ImageId| {
            let source = &library.get(image).filter(|_| !thumbnails.known.contains_key(image))?.source;
            Some((*image, source.clone()))
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
        let wanted = wanted.into_iter().map(|(image, source)| (thumbnails.ticket(image), source)).collect();
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
        let tickets = ["a.png", "b.png"].map(|path| {
            let images = vec![SavedImage { id, source: std::path::PathBuf::from(path).into() }];
            state.restore(Workspace { images, ..Workspace::default() });
            match &state.show_thumbnails(&[id])[..] {
                [Request::Thumbnails { wanted, .. }] => wanted[0].0,
                requests => panic!("{requests:?}"),
            }
        });
        for (ticket, is_own) in tickets.into_iter().zip([false, true]) {
            state.put_thumbnail(ticket, Ok(Arc::default()));
            assert_eq!(state.thumbnails.get(id).is_some(), is_own);
            assert!(state.show_thumbnails(&[id]).is_empty(), "it is requested once");
        }
    }
}
