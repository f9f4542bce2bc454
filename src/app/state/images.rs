//! The images of the library, by id in the order they were added, and by path.

use std::collections::HashMap;
use std::ops::Deref;

use indexmap::{IndexMap, IndexSet};

use super::entries::{self, Entries};
use super::library::{Image, Label};
use crate::app::jobs::{DatasetId, ImageId};
use crate::model::data::ImageSource;

/// Images by id, in order, with an index by path. Dereferences to the map.
#[derive(Clone, Debug, Default)]
pub struct Images {
    all: IndexMap<ImageId, Image>,
    /// The first image of each path.
    by_source: HashMap<ImageSource, ImageId>,
    /// The images of no dataset, in order.
    loose: IndexSet<ImageId>,
    /// Incremented at every change.
    revision: u64,
}

/// What else they hold follows from the map, or from how it came about.
impl PartialEq for Images {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Deref for Images {
    type Target = IndexMap<ImageId, Image>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Images {
    /// The image of a path.
    pub fn at(&self, source: &ImageSource) -> Option<ImageId> {
        self.by_source.get(source).copied()
    }

    /// A number that changes whenever they, their order or their places in datasets change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The index of an image of no dataset among these.
    pub(super) fn loose_index(&self, id: ImageId) -> Option<usize> {
        self.loose.get_index_of(&id)
    }

    /// Appends an image.
    pub(super) fn insert(&mut self, id: ImageId, image: Image) {
        let source = image.source.clone();
        if image.label.is_none() {
            self.loose.insert(id);
        }
        // A damaged workspace may have an id twice.
        if let Some(before) = self.all.insert(id, image) {
            unindex(&mut self.by_source, id, &before);
        }
        self.by_source.entry(source).or_insert(id);
        self.revision += 1;
    }

    /// Replaces some images; returns their previous state ([`entries::swap`]).
    pub(super) fn swap(&mut self, wanted: Entries<ImageId, Image>) -> Entries<ImageId, Image> {
        if wanted.is_empty() {
            return wanted;
        }
        let was = entries::swap(&mut self.all, wanted);
        let Self { all, by_source, .. } = self;
        was.iter().for_each(|(id, entry)| entry.iter().for_each(|(_, image)| unindex(by_source, *id, image)));
        for (id, image) in was.keys().filter_map(|id| all.get_key_value(id)) {
            by_source.entry(image.source.clone()).or_insert(*id);
        }
        self.reindex();
        was
    }

    /// Sets an image's place in a dataset; [`sort`](Self::sort) follows.
    pub(super) fn label(&mut self, id: ImageId, label: Label) {
        self.all[&id].label = Some(label);
    }

    /// Brings the images of a dataset into its order, which those that were there before it lack: a reopened workspace has the shown
    /// image first. Other images keep their places, on which their random orders depend.
    pub(super) fn sort(&mut self, dataset: DatasetId) {
        let at = |image: &Image| image.label.filter(|label| label.dataset == dataset).map(|label| label.at);
        let own = self.all.iter().filter_map(|(id, image)| Some((at(image)?, *id)));
        let mut own: Vec<(usize, ImageId)> = own.collect();
        if own.is_sorted() {
            return self.reindex();
        }
        let mut places: HashMap<ImageId, usize> = self.all.keys().copied().zip(0..).collect();
        let free: Vec<usize> = own.iter().map(|(_, id)| places[id]).collect();
        own.sort_unstable();
        places.extend(own.into_iter().zip(free).map(|((_, id), place)| (id, place)));
        self.all.sort_by_cached_key(|id, _| places[id]);
        self.reindex();
    }

    /// Keeps the images for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(ImageId, &Image) -> bool) {
        let Self { all, by_source, .. } = self;
        all.retain(|id, image| {
            let keep = keep(*id, image);
            if !keep {
                unindex(by_source, *id, image);
            }
            keep
        });
        self.reindex();
    }

    /// Updates the indices, after removed images have been taken out of the index by path. If two datasets contain the same file, each
    /// has an image of its own: that of the second is found once the first is closed. Paths are hashed only if one is missing, since
    /// hashing a million takes tenths of a second.
    fn reindex(&mut self) {
        let Self { all, by_source, loose, revision } = self;
        if by_source.len() < all.len() {
            for (id, image) in &*all {
                if !by_source.contains_key(&image.source) {
                    by_source.insert(image.source.clone(), *id);
                }
            }
        }
        *loose = all.iter().filter(|(_, image)| image.label.is_none()).map(|(id, _)| *id).collect();
        *revision += 1;
    }
}

/// Takes a removed image out of the index by path.
fn unindex(by_source: &mut HashMap<ImageSource, ImageId>, id: ImageId, image: &Image) {
    if by_source.get(&image.source) == Some(&id) {
        by_source.remove(&image.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(all: impl IntoIterator<Item = (u64, &'static str)>) -> Images {
        let mut images = Images::default();
        let image = |path: &str| Image::new(std::path::PathBuf::from(path));
        all.into_iter().for_each(|(id, path)| images.insert(ImageId(id), image(path)));
        images
    }

    fn label(images: &mut Images, ids: [u64; 3]) {
        for (at, id) in ids.map(ImageId).into_iter().enumerate() {
            images.label(id, Label { dataset: DatasetId(7), at, class: 0 });
        }
        images.sort(DatasetId(7));
    }

    #[test]
    fn an_image_is_found_by_its_place_for_as_long_as_it_is_there() {
        let [a, b] = ["a.png", "b.png"].map(|path| ImageSource::from(std::path::PathBuf::from(path)));
        let mut images = images([(1, "a.png"), (2, "b.png")]);
        assert_eq!((images.at(&a), images.at(&b)), (Some(ImageId(1)), Some(ImageId(2))));
        images.retain(|id, _| id != ImageId(1));
        assert_eq!((images.at(&a), images.len()), (None, 1));
        let gone = images.swap([(ImageId(3), Some((0, Image::new(a.clone()))))].into_iter().collect());
        assert_eq!((images.at(&a), images.get_index_of(&ImageId(3))), (Some(ImageId(3)), Some(0)));
        images.swap(gone);
        assert_eq!((images.at(&a), images.at(&b)), (None, Some(ImageId(2))));
        [4, 5, 6].into_iter().for_each(|id| images.insert(ImageId(id), Image::new(a.clone())));
        images.retain(|id, _| id != ImageId(4));
        assert_eq!(images.at(&a), Some(ImageId(5)));
        images.swap(entries::removed([ImageId(5)]));
        assert_eq!(images.at(&a), Some(ImageId(6)));
        images.insert(ImageId(6), Image::new(b.clone()));
        assert_eq!((images.at(&a), images.at(&b)), (None, Some(ImageId(2))), "an id twice");
    }

    #[test]
    fn images_of_a_dataset_are_in_its_order_whichever_was_there_before() {
        let mut images = images([(3, "3.png"), (9, "9.png"), (1, "1.png"), (2, "2.png")]);
        let before = images.revision();
        label(&mut images, [1, 2, 3]);
        assert!(images.keys().copied().eq([1, 9, 2, 3].map(ImageId)), "{:?}", images.keys());
        assert_ne!(images.revision(), before, "the gallery has another order");
    }

    #[test]
    fn images_of_no_dataset_are_counted_alone() {
        let mut images = images([(1, "1.png"), (2, "2.png"), (3, "3.png"), (4, "4.png"), (5, "5.png")]);
        label(&mut images, [1, 2, 3]);
        let index = |images: &Images| [3, 4, 5].map(|id| images.loose_index(ImageId(id)));
        assert_eq!(index(&images), [None, Some(0), Some(1)]);
        let gone = images.swap(entries::removed([ImageId(4)]));
        assert_eq!(index(&images), [None, None, Some(0)]);
        images.swap(gone);
        assert_eq!(index(&images), [None, Some(0), Some(1)]);
        images.retain(|id, _| id != ImageId(4));
        assert_eq!(index(&images), [None, None, Some(0)]);
    }
}
