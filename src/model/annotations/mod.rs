//! Regions that people marked on the images of a dataset, read and laid over the patches as the image itself is: resized and
//! cropped by the same preprocessing.
//!
//! | annotation | where | becomes |
//! |---|---|---|
//! | masks | a folder of PNG files that lie and are called as the images do; `masks/` beside a dataset's splits | `object`, or a region for every label |
//! | CUB's segmentations | `segmentations/` in or beside its folder | `object` |
//! | CUB's and Cars' boxes | `bounding_boxes.txt`; the devkit's annotations | `bounding box` |
//! | CUB's parts | `parts/parts.txt`, `parts/part_locs.txt` | the patch that holds the point; parts that are not visible are left out |
//!
//! The object as a whole is the mask, where there is none the box, where there is none all parts together.

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

/// What a mask of one region is of.
const OBJECT: &str = "object";
/// What a box is called.
const BOX: &str = "bounding box";
/// Number of the object, and of its box; parts and labels follow.
const OBJECT_NUMBER: u32 = 0;
const BOX_NUMBER: u32 = 1;
const FIRST: u32 = 2;
/// Folders of an image's path that its annotation may repeat.
const MAX_DEPTH: usize = 8;

/// Something marked by its coordinates, in pixels of the image.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Point(f64, f64),
    Box(Rect),
}

/// What is marked on one image: the index of its name, and where.
type Marks = Vec<(usize, Shape)>;

/// The annotations of a dataset.
#[derive(Debug)]
pub struct Annotations {
    /// Folder of masks, and what their labels are called.
    masks: Option<(PathBuf, HashMap<u8, String>)>,
    /// Number and name of everything that is marked by coordinates.
    names: Vec<(u32, String)>,
    /// By the end of the image's path.
    marks: HashMap<PathBuf, Marks>,
    /// Lines of images that the dataset does not list.
    pub unlisted: usize,
}

/// The ends of a path, the longest first; without its ending where `stem`.
fn ends(image: &Path, stem: bool) -> impl Iterator<Item = PathBuf> {
    let path = if stem { image.with_extension("") } else { image.to_owned() };
    // Without the root: what is joined to it leaves the folder of masks.
    let normal = path.components().filter(|part| matches!(part, Component::Normal(_)));
    let parts: Vec<_> = normal.map(|part| part.as_os_str().to_owned()).collect();
    let longest = parts.len().min(MAX_DEPTH);
    (0..longest).map(move |at| parts[parts.len() - longest + at..].iter().collect())
}

impl Annotations {
    /// That this is a folder which can be read: asked before long work.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(folder: &Path) -> Result<(), DataError> {
        if !folder.is_dir() {
            let why = "is no folder; expected a folder of masks with the images' names, or a dataset's";
            return Err(DataError::Absent { path: folder.to_owned(), why });
        }
        let unread = |source| DataError::Read { path: folder.to_owned(), source };
        std::fs::read_dir(folder).map(drop).map_err(unread)
    }

    /// Those in a folder: of a dataset of a known layout, or masks of images by their names.
    ///
    /// # Errors
    /// If there are none, or a list cannot be read.
    pub fn open(folder: &Path) -> Result<Self, DataError> {
        Self::check(folder)?;
        if let Some(found) = Self::of_dataset(folder)? {
            return Ok(found);
        }
        if walk::find(folder, MAX_DEPTH, &mask::is_mask).is_none() {
            let why =
                "holds no masks (*.png with the images' names) and no annotations of CUB or Stanford Cars";
            return Err(DataError::file(folder, why));
        }
        Self::of_masks(folder)
    }

    /// Those that a dataset brings along; nothing where it brings none.
    ///
    /// # Errors
    /// If a list cannot be read.
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

    /// The folder of the dataset that an image belongs to, where that brings annotations along.
    pub fn beside(image: &Path) -> Option<PathBuf> {
        let mut above =
            image.ancestors().skip(1).take(MAX_DEPTH).filter(|folder| !folder.as_os_str().is_empty());
        let own = |folder: &&Path| {
            let within = image.strip_prefix(folder).unwrap_or(image).with_extension("png");
            cub::is_there(folder) || cars::is_there(folder) || folder.join(MASKS).join(within).is_file()
        };
        above.find(own).map(Path::to_owned)
    }

    fn of_masks(folder: &Path) -> Result<Self, DataError> {
        let names = mask::names(folder)?;
        Ok(Self {
            masks: Some((folder.to_owned(), names)),
            names: Vec::new(),
            marks: HashMap::new(),
            unlisted: 0,
        })
    }

    /// How many images something is marked on by coordinates.
    pub fn marked(&self) -> usize {
        self.marks.len()
    }

    /// How often everything is marked by coordinates, by its name.
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for (name, _) in self.marks.values().flatten() {
            *counts.entry(self.names[*name].1.as_str()).or_default() += 1;
        }
        counts
    }

    /// The mask of an image, where there is one.
    fn mask(&self, image: &Path) -> Option<PathBuf> {
        let (folder, _) = self.masks.as_ref()?;
        ends(image, true).map(|end| with_png(folder.join(end))).find(|path| path.is_file())
    }

    /// The regions of an image, as `preprocessor` shows it to a backbone of this grid; nothing where nothing is marked on it.
    ///
    /// # Errors
    /// If the image or its mask cannot be read, or the mask is no mask of it.
    pub fn of_image(
        &self,
        image: &Path,
        preprocessor: &Preprocessor,
        grid: Grid,
    ) -> Result<Option<Regions>, String> {
        let mask = self.mask(image);
        let marks = ends(image, false).find_map(|end| self.marks.get(&end));
        if mask.is_none() && marks.is_none() {
            return Ok(None);
        }
        let size = dimensions(image).map_err(|error| error.to_string())?;
        let mut found = Regions::default();
        if let (Some(path), Some((_, names))) = (mask, &self.masks) {
            mask::read(&path, size, names)?.lay(preprocessor, grid, &mut found)?;
        }
        for (name, shape) in marks.into_iter().flatten() {
            let (number, name) = self.names[*name].clone();
            let cover = covered(shape, &image.display().to_string(), size, preprocessor, grid)?;
            if cover.iter().all(|&c| c == 0.0) {
                found.cropped.push(name.clone());
            }
            found.list.push(Region { number, name, cover });
        }
        found.list.sort_by_key(|region| region.number);
        found.object = object(&found.list, grid);
        Ok(Some(found))
    }
}

/// The same name with `.png`, whatever dots it has.
fn with_png(mut stem: PathBuf) -> PathBuf {
    stem.as_mut_os_string().push(".png");
    stem
}

/// The object as a whole: what is called so, else its box, else everything.
fn object(list: &[Region], grid: Grid) -> Vec<f64> {
    let of = |number: u32| list.iter().find(|region| region.number == number && number < FIRST);
    match of(OBJECT_NUMBER).or_else(|| of(BOX_NUMBER)) {
        Some(whole) => whole.cover.clone(),
        None => {
            (0..grid.len()).map(|i| list.iter().map(|region| region.cover[i]).sum::<f64>().min(1.0)).collect()
        }
    }
}

/// How much of every patch something marked covers.
fn covered(
    shape: &Shape,
    name: &str,
    size: (usize, usize),
    preprocessor: &Preprocessor,
    grid: Grid,
) -> Result<Vec<f64>, String> {
    let on = match *shape {
        Shape::Point(x, y) => Rect { x, y, width: 0.0, height: 0.0 },
        Shape::Box(rect) => rect,
    };
    let (rect, (width, height)) =
        preprocessor.prepared_rect(name, size, on).map_err(|error| error.to_string())?;
    // Patches are as large as the picture allows.
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
