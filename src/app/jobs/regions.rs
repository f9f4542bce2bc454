//! Where regions of images come from, and reading those of many.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::{JobError, Reporter, Unit};
use crate::app::format::counted;
use crate::model::annotations::{Annotations, RegionSet};
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::data::{DataError, Dataset};
use crate::model::grid::Grid;

/// Images whose regions are read at once.
const BATCH: usize = 64;

/// Where regions come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionSource {
    /// The dataset that an image belongs to, where that brings some along.
    #[default]
    Dataset,
    /// A folder of masks, or of another dataset's annotations.
    Folder(PathBuf),
    /// Nowhere.
    Nowhere,
}

impl RegionSource {
    /// A folder, or what datasets bring along.
    pub fn new(folder: Option<PathBuf>) -> Self {
        folder.map_or(Self::Dataset, Self::Folder)
    }

    /// The regions of an image.
    pub(super) fn of_image(
        &self,
        image: &Path,
        engine: &mut Engine,
    ) -> Result<Option<Arc<Annotations>>, DataError> {
        let folder = match self {
            Self::Nowhere => None,
            Self::Folder(folder) => Some(folder.clone()),
            Self::Dataset => Annotations::beside(image),
        };
        folder.map(|folder| engine.annotations(&folder)).transpose()
    }

    /// The regions of a dataset.
    pub fn of_dataset(&self, dataset: &Dataset) -> Result<Option<Annotations>, DataError> {
        match self {
            Self::Nowhere => Ok(None),
            Self::Folder(folder) => Annotations::open(folder).map(Some),
            Self::Dataset => Annotations::of_dataset(&dataset.root),
        }
    }
}

/// The regions of samples of a dataset; none of a sample that is not there. If `warns`, warns of what is missing or broken.
pub fn of_samples(
    engine: &mut Engine,
    (from, warns): (&RegionSource, bool),
    (dataset, samples): (&Dataset, &[Option<usize>]),
    preprocessor: &Preprocessor,
    grid: Grid,
    reporter: &mut dyn Reporter,
) -> Result<RegionSet, JobError> {
    let mut set = RegionSet::default();
    let Some(annotations) = from.of_dataset(dataset)? else { return Ok(set) };
    if warns && annotations.unlisted > 0 {
        let marks = counted(annotations.unlisted, "mark", "marks");
        reporter.warn(format!("left out: {marks} on images that the dataset does not list"));
    }
    let file = |sample: &Option<usize>| dataset.samples[(*sample)?].source.own_file();
    let files: Vec<Option<&Path>> = samples.iter().map(file).collect();
    let in_rows = samples.iter().flatten().any(|at| dataset.samples[*at].source.row.is_some());
    if warns && in_rows {
        let why = "images in Parquet files have no file names by which masks are found";
        reporter.warn(format!("left out: regions, as {why}"));
    }
    reporter.begin(0);
    for some in files.chunks(BATCH) {
        set.read(&annotations, some, preprocessor, grid);
        reporter.progress("Reading regions", set.of.len() as u64, Some(files.len() as u64), Unit::Items);
        reporter.pause(engine)?;
    }
    let warnings = set.warnings(*from != RegionSource::Dataset);
    warnings.into_iter().filter(|_| warns).for_each(|warning| reporter.warn(warning));
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::engine::WorkerEnv;
    use crate::app::jobs::reporter::Recorder;
    use crate::model::data::{self, Sample, Split};

    /// The regions of these samples, and the warnings.
    fn regions(
        from: &Path,
        dataset: &Dataset,
        samples: &[Option<usize>],
    ) -> (Option<RegionSet>, Vec<String>) {
        let as_is = Preprocessor { resize: None, crop: None, cut: None, rescale: None, normalise: None };
        let mut reporter = Recorder::default();
        let found = of_samples(
            &mut Engine::new(WorkerEnv::default()),
            (&RegionSource::Folder(from.to_owned()), true),
            (dataset, samples),
            &as_is,
            Grid::new(1, 1),
            &mut reporter,
        );
        (found.ok(), reporter.warned)
    }

    #[test]
    fn marks_without_an_image_and_images_without_marks_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let cub = folder.path().join("cub");
        std::fs::create_dir(&cub).unwrap();
        std::fs::write(cub.join("images.txt"), "1 a.png\n").unwrap();
        std::fs::write(cub.join("bounding_boxes.txt"), "2 0 0 1 1\n").unwrap();
        let sample = Sample { source: PathBuf::from("b.png").into(), class: 0, split: Split::Test };
        let dataset = Dataset { samples: [sample].into(), ..Dataset::default() };
        let unlisted = "left out: 1 mark on images that the dataset does not list";
        assert_eq!(regions(&cub, &dataset, &[Some(0)]).1, [unlisted, "an image has no mask or mark: b.png"]);
    }

    #[test]
    fn masks_of_images_in_parquet_files_are_told_to_be_left_out() {
        let masks = tempfile::tempdir().unwrap();
        std::fs::write(masks.path().join("a.png"), "a mask").unwrap();
        let hub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet/hub");
        let dataset = data::open(&hub).unwrap();
        let (found, warned) = regions(masks.path(), &dataset, &[Some(0), None]);
        assert_eq!(found.map(|regions| regions.known()), Some(0));
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].starts_with("left out: regions, as images in Parquet files"));
    }
}
