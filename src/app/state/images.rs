//! The images of the library, by id in the order they were added, and by path.

use std::collections::HashMap;
use std::ops::Deref;

use indexmap::IndexMap;

use super::entries::{self, Entries};
use super::library::{Image, Label};
use crate::app::jobs::{DatasetId, ImageId};
use crate::model::data::ImageSource;

/// Images by id, in order, with an index by path. Dereferences to the map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images {
    all: IndexMap<ImageId, Image>,
    /// The first image of each path.
    by_source: HashMap<ImageSource, ImageId>,
}

impl Deref for Images {
    type Target = IndexMap<ImageId, Image>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Images {
    /// The image of a path.
    pub fn at(&self, place: &ImageSource) -> Option<ImageId> {
        self.by_source.get(place).copied()
    }

    /// Their number and the last one: with every image that is added or removed one of them changes, as no id is used twice.
    pub fn stamp(&self) -> (usize, Option<ImageId>) {
        (self.len(), self.last().map(|(id, _)| *id))
    }

    /// Appends an image.
    pub(super) fn insert(&mut self, id: ImageId, image: Image) {
        self.by_source.entry(image.place.clone()).or_insert(id);
        self.all.insert(id, image);
    }

    /// Replaces some images; returns their previous state ([`entries::swap`]).
    pub(super) fn swap(&mut self, wanted: Entries<ImageId, Image>) -> Entries<ImageId, Image> {
        let changes = !wanted.is_empty();
        let was = entries::swap(&mut self.all, wanted);
        if changes {
            self.reindex();
        }
        was
    }

    /// Sets an image's place in a dataset.
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
            return;
        }
        let mut places: HashMap<ImageId, usize> = self.all.keys().copied().zip(0..).collect();
        let free: Vec<usize> = own.iter().map(|(_, id)| places[id]).collect();
        own.sort_unstable();
        places.extend(own.into_iter().zip(free).map(|((_, id), place)| (id, place)));
        self.all.sort_by_cached_key(|id, _| places[id]);
    }

    /// Keeps the images for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(ImageId, &Image) -> bool) {
        self.all.retain(|id, image| keep(*id, image));
        self.reindex();
    }

    /// Brings the index up to date. Of two datasets with the same file each has an image of its own: that of the second is found once the
    /// first is closed.
    fn reindex(&mut self) {
        let Self { all, by_source } = self;
        by_source.retain(|place, id| all.get(id).is_some_and(|image| image.place == *place));
        for (id, image) in all {
            if !by_source.contains_key(&image.place) {
                by_source.insert(image.place.clone(), *id);
            }
        }
    }
}

impl FromIterator<(ImageId, Image)> for Images {
    fn from_iter<I: IntoIterator<Item = (ImageId, Image)>>(images: I) -> Self {
        let mut all = Self::default();
        images.into_iter().for_each(|(id, image)| all.insert(id, image));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_place_for_as_long_as_it_is_there() {
        let [a, b] = ["a.png", "b.png"].map(|path| ImageSource::from(std::path::PathBuf::from(path)));
        let mut images: Images =
            [(ImageId(1), Image::new(a.clone())), (ImageId(2), Image::new(b.clone()))].into_iter().collect();
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
    }

    #[test]
    fn images_of_a_dataset_are_in_its_order_whichever_was_there_before() {
        let image = |id: u64| {
            let place = ImageSource::from(std::path::PathBuf::from(format!("{id}.png")));
            (ImageId(id), Image::new(place))
        };
        let mut images: Images = [3, 9, 1, 2].map(image).into_iter().collect();
        for (at, id) in [1, 2, 3].map(ImageId).into_iter().enumerate() {
            images.label(id, Label { dataset: DatasetId(7), at, class: 0 });
        }
        images.sort(DatasetId(7));
        assert!(images.keys().copied().eq([1, 9, 2, 3].map(ImageId)), "{:?}", images.keys());
    }
}
