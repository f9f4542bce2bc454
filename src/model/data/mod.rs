//! Datasets: every layout on disk is read into the same plain list of samples. A layout is one file
//! of this folder and one entry of [`LAYOUTS`]; [`open`] detects which one a folder has.
//!
//! Samples are sorted by path, classes by the dataset's own numbering or else by name, so that the
//! same folder always yields the same list.

mod alike;
pub(in crate::model) mod cars;
pub(in crate::model) mod cub;
mod dark;
mod error;
mod folder;
mod holdout;
pub mod image;
mod image_source;
mod imagenet;
pub mod mat;
mod parquet;
mod report;
pub mod scenes;
mod several_classes;
pub mod synsets;
mod table;
pub mod token_cache;
pub(in crate::model) mod walk;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::model::data::image::FORMAT_NAMES;
pub use error::DataError;
pub use holdout::hold_out;
pub use image_source::ImageSource;
use report::first_names;
pub use report::{Check, Report, describe, leaked_pairs};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Folder of a dataset that holds the masks of its images, under the same relative paths.
pub const MASKS: &str = "masks";

listed! {
    /// What a sample is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Split {
        /// Probes are trained on it.
        Train: "train";
        /// Held out for model selection.
        Val: "val";
        /// Held out for the reported results.
        Test: "test";
    }
}

impl FromStr for Split {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::find(name).ok_or("expected train, val or test")
    }
}

impl Split {
    /// The split that a folder's name or a table's cell means, in any case; `None` for any other word.
    fn from_word(word: &str) -> Option<Self> {
        match word.trim().to_ascii_lowercase().as_str() {
            "train" | "training" => Some(Self::Train),
            "val" | "valid" | "validation" => Some(Self::Val),
            "test" | "testing" => Some(Self::Test),
            _ => None,
        }
    }
}

/// One labelled image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Where the image is.
    pub source: ImageSource,
    /// Index into [`Dataset::classes`].
    pub class: usize,
    /// What it is for.
    pub split: Split,
}

/// The end of a note on a dataset without training images.
pub const UNTRAINABLE: &str = "probes can be tested on it, not trained";

/// The end of a note on a dataset whose images are all of one class.
pub const ONE_CLASS: &str = "every probe trained on it is right";

/// The end of a note on classes of held-out images only.
pub const UNSEEN: &str = "every probe trained on it is wrong on these";

/// Whether a note matters only for training on a dataset, not for testing on it.
pub fn is_of_training(note: &str) -> bool {
    [UNTRAINABLE, ONE_CLASS, UNSEEN].iter().any(|end| note.ends_with(end))
}

/// A labelled set of images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    /// The folder's name.
    pub name: String,
    /// The folder it was found in: a subfolder of the opened one where an archive is nested.
    pub root: PathBuf,
    /// Id of the layout, one of [`LAYOUTS`].
    #[serde(deserialize_with = "layout_id")]
    pub layout: LayoutId,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// The images, sorted by path.
    pub samples: Vec<Sample>,
    /// Number of files among the images that are of no format that is read, and were left out.
    pub skipped: usize,
    /// Remarks for the user: missing labels, folders left out, a split made here.
    pub notes: Vec<String>,
}

/// Id of one of [`LAYOUTS`].
pub type LayoutId = &'static str;

/// Deserialises a layout's id; fails if no entry of [`LAYOUTS`] has it.
pub fn layout_id<'de, D: Deserializer<'de>>(from: D) -> Result<LayoutId, D::Error> {
    let id = String::deserialize(from)?;
    let known = LAYOUTS.iter().find(|layout| layout.id == id);
    known.map(|layout| layout.id).ok_or_else(|| D::Error::custom(format!("there is no layout {id}")))
}

impl Dataset {
    /// The dataset at `root` (a folder, or a table file), with no file skipped.
    fn new(
        root: &Path,
        layout: LayoutId,
        classes: Vec<String>,
        samples: Vec<Sample>,
        notes: Vec<String>,
    ) -> Self {
        let folder = if root.is_file() { root.parent().unwrap_or(Path::new("")) } else { root };
        let (name, root) = (name_of(root), folder.into());
        Self { name, root, layout, classes, samples, skipped: 0, notes }
    }

    /// The dataset of images `found` with the names of their classes, which are numbered in the order of
    /// their names; classes of `more` are numbered too, even if they have no image.
    fn from_images(
        root: &Path,
        layout: &'static str,
        more: &[String],
        found: Vec<(String, Split, PathBuf)>,
    ) -> Self {
        let names: BTreeSet<&String> = more.iter().chain(found.iter().map(|(class, ..)| class)).collect();
        let classes: Vec<String> = names.into_iter().cloned().collect();
        let sample = |(class, split, image): (String, Split, PathBuf)| {
            let class = classes.binary_search(&class).expect("every name is among them");
            Sample { source: image.into(), class, split }
        };
        let samples = found.into_iter().map(sample).collect();
        Self::new(root, layout, classes, samples, Vec::new())
    }

    /// The split that results are reported on: the test images, or the validation images where there
    /// are no others; nothing where all are for training.
    pub fn held_out(&self) -> Option<Split> {
        [Split::Test, Split::Val].into_iter().find(|split| self.count(*split) > 0)
    }

    /// How many samples a split has.
    pub fn count(&self, split: Split) -> usize {
        self.samples.iter().filter(|sample| sample.split == split).count()
    }

    /// Name of the image of sample `at`: its path relative to the dataset's folder, with `/` on every system.
    pub fn name_of_image(&self, at: usize) -> String {
        let ImageSource { path, row } = &self.samples[at].source;
        let path = path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        let name = ImageSource { path, row: *row }.to_string();
        if cfg!(windows) { name.replace('\\', "/") } else { name }
    }
}

/// Gets how many images have been found so far, and stops the listing by `Break`.
pub type Watch<'a> = dyn FnMut(usize) -> ControlFlow<()> + 'a;

/// One way to store a dataset on disk.
pub struct Layout {
    /// Its id.
    pub id: &'static str,
    /// The files it consists of, for display.
    pub what: &'static str,
    /// Whether a folder (or file) has this layout, judged by a few names.
    recognise: fn(&Path) -> bool,
    read: fn(&Path, &mut Watch<'_>) -> Result<Dataset, DataError>,
    /// Whether the dataset's authors defined the split, so that no other is made.
    official: bool,
    /// How a dataset of this layout declares its splits, for display.
    pub splits: &'static str,
}

impl Layout {
    /// Reads the dataset at `root`, which has this layout, in a fixed order, with its split and notes on what is odd.
    fn open(&self, root: &Path, watch: &mut Watch<'_>) -> Result<Dataset, DataError> {
        let mut dataset = (self.read)(root, watch)?;
        dataset.notes.extend(synsets::name_by_list(&dataset.root, &mut dataset.classes));
        dataset.samples.sort_by(|a, b| a.source.cmp(&b.source));
        if dataset.samples.is_empty() {
            let notes = dataset.notes.join("; ");
            let why = format!("contains no labelled images ({}) {notes}", self.what);
            return Err(DataError::file(root, why));
        }
        if !self.official {
            dataset.hold_out();
        }
        let twice = dataset.samples.windows(2).filter(|pair| pair[0].source == pair[1].source).count();
        if twice > 0 {
            dataset.notes.push(format!("images listed more than once: {twice}; remove their other lines"));
        }
        if dataset.samples.windows(2).all(|pair| pair[0].class == pair[1].class) {
            dataset.notes.push(format!("all images are of 1 class: {ONE_CLASS}"));
        }
        let odd = [dataset.unseen(), alike::note(&dataset.classes), dark::note(&dataset)];
        dataset.notes.extend(odd.into_iter().flatten());
        Ok(dataset)
    }
}

/// The layouts, the most specific first: almost anything is a folder of folders.
pub const LAYOUTS: &[Layout] = &[
    parquet::LAYOUT,
    table::LAYOUT,
    cub::LAYOUT,
    cars::LAYOUT,
    imagenet::LAYOUT,
    folder::LAYOUT,
    folder::SPLIT_HERE,
];

/// The layouts, one per line below the formats of images: for an error, and for help.
pub fn listed() -> String {
    let lines = LAYOUTS.iter().map(|layout| format!("\n  {}: {}", layout.id, layout.what));
    format!("with {FORMAT_NAMES} images:{}", lines.collect::<String>())
}

/// A folder with more subfolders than this is not searched for a nested dataset.
const MAX_NESTING: usize = 16;

/// Opens the dataset in a folder, or in its only subfolder of a known layout, because archives often hold one folder.
pub fn open(path: impl AsRef<Path>) -> Result<Dataset, DataError> {
    open_watched(path.as_ref(), &mut |_| ControlFlow::Continue(()))
}

/// As [`open`]; `watch` is called before each folder of a class, since a slow disk takes minutes to list a million images.
///
/// # Errors
/// Also [`DataError::Stopped`], if `watch` stops it.
pub fn open_watched(path: &Path, watch: &mut Watch<'_>) -> Result<Dataset, DataError> {
    std::fs::metadata(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => {
            let why = "cannot be read: no such file or folder; check the path";
            DataError::Absent { path: path.into(), why }
        }
        _ => DataError::Read { path: path.into(), source },
    })?;
    let mut nested = if path.is_dir() { walk::folders(path)? } else { Vec::new() };
    if nested.len() > MAX_NESTING {
        nested.clear();
    }
    nested.extend(imagenet::KAGGLE.map(|inner| path.join(inner)).into_iter().filter(|inner| inner.is_dir()));
    for layout in LAYOUTS {
        let root = if (layout.recognise)(path) {
            path
        } else if layout.id == folder::SPLIT_HERE.id {
            continue; // a folder of class folders is not taken for a nested archive of one
        } else {
            let inside: Vec<&PathBuf> = nested.iter().filter(|inner| (layout.recognise)(inner)).collect();
            match inside[..] {
                [one] => one,
                _ => continue,
            }
        };
        return layout.open(root, watch);
    }
    Err(DataError::Layout { path: path.into() })
}

/// Whether a few names in a path identify it as a labelled dataset. A folder of folders does not count:
/// it may hold unlabelled images.
pub fn labelled(path: &Path) -> bool {
    LAYOUTS.iter().any(|layout| layout.id != folder::SPLIT_HERE.id && (layout.recognise)(path))
}

/// The dataset's name: that of its folder, or of its table without the extension.
fn name_of(root: &Path) -> String {
    let canonical = root.canonicalize().unwrap_or_else(|_| root.into());
    let name = if canonical.is_file() { canonical.file_stem() } else { canonical.file_name() };
    name.map_or("dataset".into(), |name| name.to_string_lossy().into_owned())
}
