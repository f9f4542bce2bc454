//! Small pictures of images, as many as a gallery shows; the oldest are forgotten.

use std::sync::Arc;

use indexmap::IndexMap;

use super::State;
use crate::app::jobs::{ImageId, Request};
use crate::model::data::ImageSource;
use crate::model::trace::Picture;

/// Longest side, in pixels.
const SIDE_PX: u32 = 112;
/// Pictures kept: 40 MB at most.
const MAX_THUMBNAILS: usize = 1024;
/// Pictures asked for at once.
const MAX_REQUESTED: usize = 256;
/// Images in sight whose pictures are asked for: two galleries may be, and what one is given must not be taken from the other.
const MAX_IN_SIGHT: usize = MAX_THUMBNAILS / 2;

/// A small picture, or that there is none.
#[derive(Clone, Debug)]
pub enum Thumbnail {
    /// This.
    Ready(Arc<Picture>),
    /// None; why, in one line.
    Failed(String),
}

/// Small pictures by image.
#[derive(Default)]
pub struct Thumbnails {
    /// The latest used last.
    known: IndexMap<ImageId, Thumbnail>,
    /// What was asked for last and is not answered.
    wanted: Vec<ImageId>,
}

/// Of these images those whose pictures are asked for.
fn first(images: &[ImageId]) -> &[ImageId] {
    &images[..images.len().min(MAX_IN_SIGHT)]
}

impl Thumbnails {
    /// The picture of an image, once it is there.
    pub fn get(&self, image: ImageId) -> Option<&Thumbnail> {
        self.known.get(&image)
    }

    /// Whether some of the images in sight are without a picture, and nothing is under way.
    pub fn are_missing(&self, images: &[ImageId]) -> bool {
        self.wanted.is_empty() && first(images).iter().any(|image| !self.known.contains_key(image))
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn put(&mut self, image: ImageId, thumbnail: Thumbnail) {
        if self.known.len() >= MAX_THUMBNAILS {
            self.known.shift_remove_index(0);
        }
        self.known.insert(image, thumbnail);
    }

    pub(super) fn forget(&mut self, image: ImageId) {
        self.known.shift_remove(&image);
    }
}

impl State {
    /// Takes the picture of an image that is still there.
    pub(super) fn put_thumbnail(&mut self, image: ImageId, thumbnail: Thumbnail) {
        self.thumbnails.wanted.retain(|wanted| *wanted != image);
        if self.library.images.contains_key(&image) {
            self.thumbnails.put(image, thumbnail);
        }
    }

    /// These images are in sight: asks for what is not known of them, if that has changed.
    pub(super) fn show_thumbnails(&mut self, images: &[ImageId]) -> Vec<Request> {
        let (thumbnails, library) = (&mut self.thumbnails, &self.library.images);
        let unknown = |image: &ImageId| {
            let place = &library.get(image).filter(|_| !thumbnails.known.contains_key(image))?.place;
            Some((*image, place.clone()))
        };
        let wanted = first(images).iter().filter_map(unknown).take(MAX_REQUESTED);
        let wanted: Vec<(ImageId, ImageSource)> = wanted.collect();
        for image in first(images) {
            if let Some(index) = thumbnails.known.get_index_of(image) {
                // Kept longest from now on.
                thumbnails.known.move_index(index, thumbnails.known.len() - 1);
            }
        }
        if wanted.iter().all(|(image, _)| thumbnails.wanted.contains(image)) {
            return Vec::new();
        }
        thumbnails.wanted = wanted.iter().map(|(image, _)| *image).collect();
        vec![Request::Thumbnails { wanted, side: SIDE_PX }]
    }
}
