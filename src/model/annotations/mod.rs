//! Regions annotated on the images of a dataset, mapped to the patches by the image's own preprocessing (resize and crop).
//!
//! | annotation | where | becomes |
//! |---|---|---|
//! | masks | a folder of PNG files with the images' relative paths and names; `masks/` beside a dataset's splits | `object`, or one region per label |
//! | CUB's segmentations | `segmentations/` in or beside its folder | `object` |
//! | CUB's and Cars' boxes | `bounding_boxes.txt`; the devkit's annotations | `bounding box` |
//! | CUB's parts | `parts/parts.txt`, `parts/part_locs.txt` | the patch that contains the point; parts that are not visible are left out |
//!
//! The object as a whole is the mask called `object`, else the box, else the union of all regions.

mod cars;
mod cub;
mod mask;
mod set;

use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};

pub use self::set::RegionSet;

use crate::model::backbone::preprocess::{Preprocessor, Rect};
use crate::model::data::image::dimensions;
use crate::model::data::{DataError, MASKS, walk};
use crate::model::grid::Grid;
use crate::model::regions::{Region, Regions};

/// Name of the region of a mask without labels.
const OBJECT: &str = "object";
/// Name of the region of a box.
const BOX: &str = "bounding box";
/// Region numbers of the object and of its box.
const OBJECT_NUMBER: u32 = 0;
const BOX_NUMBER: u32 = 1;
/// Added to the numbers of parts and to labels.
const FIRST_NUMBER: u32 = 2;
/// The extensions by which masks are looked up.
const ENDINGS: [&str; 2] = ["png", "PNG"];
/// Maximum number of trailing components of an image's path by which its annotation is looked up.
const MAX_DEPTH: usize = 8;

/// An annotation by coordinates, in pixels of the image.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Point(f64, f64),
    Box(Rect),
}

impl Shape {
    /// Whether it reaches more than a pixel, by which annotators are off, beyond an image of `size`, width and height.
    fn reaches_beyond(&self, (width, height): (usize, usize)) -> bool {
        let (right, bottom) = match *self {
            Self::Point(x, y) => (x, y),
            Self::Box(Rect { x, y, width, height }) => (x + width, y + height),
        };
        right > width as f64 + 1.0 || bottom > height as f64 + 1.0
    }
}

/// The coordinate annotations of one image: index into [`Annotations::names`] and shape.
type Marks = Vec<(usize, Shape)>;

/// The annotations of a dataset.
#[derive(Debug, Default)]
pub struct Annotations {
    /// Folder of masks, and the names of their labels.
    masks: Option<(PathBuf, HashMap<u8, String>)>,
    /// Number and name of every region annotated by coordinates.
    names: Vec<(u32, String)>,
    /// Coordinate annotations, by the trailing components of the image's path.
    marks: HashMap<PathBuf, Marks>,
    /// Number of annotations whose image the dataset does not list.
    pub unlisted: usize,
}

/// The last 8, 7, ..., 1 components of a path; without the file name's extension if `stem`.
fn suffixes(image: &Path, stem: bool) -> impl Iterator<Item = PathBuf> {
    let path = if stem { image.with_extension("") } else { image.to_owned() };
    // Without the root: joining an absolute path would leave the folder of masks.
    let normal = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let parts: Vec<_> = normal.map(|part| part.as_os_str().to_owned()).collect();
    let longest = parts.len().min(MAX_DEPTH);
    (0..longest).map(move |at| parts[parts.len() - longest + at..].iter().collect())
}

impl Annotations {
    /// Checks that this is a readable folder with annotations, before long work.
    pub fn check(folder: &Path) -> Result<(), DataError> {
        let absent = |why| Err(DataError::Absent { path: folder.to_owned(), why });
        if !folder.is_dir() {
            return absent(
                "is not a folder; expected a folder of masks with the images' names, or a dataset's",
            );
        }
        std::fs::read_dir(folder).map_err(|source| DataError::Read { path: folder.to_owned(), source })?;
        let is_dataset = cub::is_there(folder) || cars::is_there(folder) || folder.join(MASKS).is_dir();
        if !is_dataset && walk::find(folder, MAX_DEPTH, &mask::is_mask).is_none() {
            return absent(
                "contains no masks (*.png with the images' names) and no CUB or Stanford Cars annotations",
            );
        }
        Ok(())
    }

    /// Opens the annotations in a folder: those of a dataset of a known layout, or masks named like images.
    ///
    /// # Errors
    /// If there are none, or a list cannot be read.
    pub fn open(folder: &Path) -> Result<Self, DataError> {
        Self::check(folder)?;
        Self::of_dataset(folder)?.map_or_else(|| Self::of_masks(folder), Ok)
    }

    /// The annotations that a dataset contains; `None` if it has none.
    pub fn of_dataset(root: &Path) -> Result<Option<Self>, DataError> {
        if let Some(found) = cub::read(root)? {
            return Ok(Some(found));
        }
        if let Some(found) = cars::read(root)? {
            return Ok(Some(found));
        }
        let masks = root.join(MASKS);
        if masks.is_dir() { Self::of_masks(&masks).map(Some) } else { Ok(None) }
    }

    /// The folder of the dataset that an image belongs to, if that contains annotations.
    pub fn beside(image: &Path) -> Option<PathBuf> {
        let mut above =
            image.ancestors().skip(1).take(MAX_DEPTH).filter(|folder| !folder.as_os_str().is_empty());
        let own = |folder: &&Path| {
            let mask = folder.join(MASKS).join(image.strip_prefix(folder).unwrap_or(image));
            let mut masks = ENDINGS.iter().map(|ending| mask.with_extension(ending));
            cub::is_there(folder) || cars::is_there(folder) || masks.any(|mask| mask.is_file())
        };
        above.find(own).map(Path::to_owned)
    }

    fn of_masks(folder: &Path) -> Result<Self, DataError> {
        Ok(Self { masks: Some((folder.to_owned(), mask::names(folder)?)), ..Self::default() })
    }

    /// Number of images with coordinate annotations.
    pub fn marked(&self) -> usize {
        self.marks.len()
    }

    /// Number of coordinate annotations by region name.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (name, _) in self.marks.values().flatten() {
            *counts.entry(self.names[*name].1.as_str()).or_default() += 1;
        }
        counts
    }

    /// The path of an image's mask, if there is one.
    fn mask(&self, image: &Path) -> Option<PathBuf> {
        let (folder, _) = self.masks.as_ref()?;
        let masks = suffixes(image, true).map(|suffix| folder.join(suffix));
        let mut masks = masks.flat_map(|mask| ENDINGS.map(|ending| mask.with_added_extension(ending)));
        masks.find(|path| path.is_file())
    }

    /// The regions of an image, on the grid of patches of the picture that `preprocessor` makes of it; `None` without annotations.
    ///
    /// # Errors
    /// A message, if the image or its mask cannot be read, or the mask does not fit the image.
    pub fn of_image(
        &self,
        image: &Path,
        preprocessor: &Preprocessor,
        grid: Grid,
    ) -> Result<Option<Regions>, String> {
        let mask = self.mask(image);
        let marks = suffixes(image, false).find_map(|suffix| self.marks.get(&suffix));
        if mask.is_none() && marks.is_none() {
            return Ok(None);
        }
        let size = dimensions(image).map_err(|error| error.to_string())?;
        let mut found = Regions::default();
        if let (Some(path), Some((_, names))) = (mask, &self.masks) {
            mask::add_regions(mask::read(&path, size, names)?, preprocessor, grid, &mut found)?;
        }
        for (name, shape) in marks.into_iter().flatten() {
            let (number, name) = self.names[*name].clone();
            let cover = cover_of(shape, &image.display().to_string(), size, preprocessor, grid)?;
            if cover.iter().all(|&c| c == 0.0) {
                found.cropped.push(name.clone());
            }
            if shape.reaches_beyond(size) {
                found.beyond.push(name.clone());
            }
            found.list.push(Region { number, name, cover });
        }
        found.list.sort_by_key(|region| region.number);
        found.object = object(&found.list, grid);
        Ok(Some(found))
    }
}

/// The cover of the object as a whole: the region numbered so, else its box, else the sum of all regions, at most 1.
fn object(list: &[Region], grid: Grid) -> Vec<f64> {
    let of = |number: u32| list.iter().find(|region| region.number == number && number < FIRST_NUMBER);
    match of(OBJECT_NUMBER).or_else(|| of(BOX_NUMBER)) {
        Some(whole) => whole.cover.clone(),
        None => {
            (0..grid.len()).map(|i| list.iter().map(|region| region.cover[i]).sum::<f64>().min(1.0)).collect()
        }
    }
}

/// The share of every patch, 0 to 1, that a shape covers; for a point 1 for the patch that contains it.
fn cover_of(
    shape: &Shape,
    name: &str,
    size: (usize, usize),
    preprocessor: &Preprocessor,
    grid: Grid,
) -> Result<Vec<f64>, String> {
    let rect = match *shape {
        Shape::Point(x, y) => Rect { x, y, width: 0.0, height: 0.0 },
        Shape::Box(rect) => rect,
    };
    let (rect, (width, height)) =
        preprocessor.prepared_rect(name, size, rect).map_err(|error| error.to_string())?;
    // The size of a patch in pixels of the prepared picture.
    let (wide, high) = ((width / grid.cols.max(1)) as f64, (height / grid.rows.max(1)) as f64);
    let overlap = |from: f64, length: f64, at: usize, side: f64| {
        let (low, high) = (at as f64 * side, (at + 1) as f64 * side);
        match shape {
            Shape::Point(..) => f64::from(u8::from(from >= low && from < high)),
            Shape::Box(_) => ((from + length).min(high) - from.max(low)).max(0.0) / side,
        }
    };
    let patch = |i: usize| {
        let (row, column) = (i / grid.cols, i % grid.cols);
        overlap(rect.x, rect.width, column, wide) * overlap(rect.y, rect.height, row, high)
    };
    Ok((0..grid.len()).map(patch).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_parts_in_one_patch_cover_it_once() {
        let part = |number: u32| Region { number, name: String::new(), cover: vec![1.0, 0.0] };
        let parts = [part(FIRST_NUMBER), part(FIRST_NUMBER + 1)];
        assert_eq!(object(&parts, Grid::new(1, 2)), [1.0, 0.0]);
    }
}
