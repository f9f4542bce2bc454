//! Opening files: the lists of a dataset, a run and its probes, images in folders. These jobs compute nothing, so that a
//! thread without an engine runs them.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::detached::{LOGS, lock};
use super::evaluate::EvalSplit;
use super::history::disk::{self, RunSnapshot};
use super::path_kind::{PathKind, kind_of};
use super::result_file::ResultFile;
use super::tasks::plan_file;
use super::{DatasetId, Event, JobError, JobId, Reporter, Unit, fetch, folder, received};
use crate::app::format::counted;
use crate::app::image_files::{images_below, is_probe};
use crate::app::jobs::user_error::UserError;
use crate::app::paths::expanded;
use crate::model::data::{self, DataError, Dataset, Split};
use crate::model::train::run::{Manifest, Run, RunError};

const IMAGES_PER_EVENT: usize = 1000;
const MAX_IMAGES: usize = 2_000_000;

/// Jobs of the thread that reads files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant says what its fields are")]
pub enum Files {
    /// List the probe files of a run's folder.
    OpenRun { folder: PathBuf },
    /// List image files; folders are searched recursively.
    OpenImages { paths: Vec<PathBuf> },
    /// Read the lists of a dataset.
    OpenDataset {
        entry: DatasetId,
        /// Its folder, or a table.
        path: PathBuf,
        /// Which split; the held-out one if absent.
        split: Option<Split>,
    },
    /// Recognise dropped files.
    Recognise {
        /// Files and folders; `~/` is the user's home.
        paths: Vec<PathBuf>,
    },
    /// List the entries of a folder.
    ListFolder {
        /// The folder; the user's home if empty.
        folder: PathBuf,
    },
    /// Save a file that is sent, and recognise it.
    Receive(ResultFile),
}

/// Runs a job and sends its events.
pub fn run(
    job: JobId,
    spec: &Files,
    reporter: &mut dyn Reporter,
    tell: &mut dyn FnMut(Event),
) -> Result<(), JobError> {
    match spec {
        Files::OpenRun { folder } => open_run(job, folder, tell)?,
        Files::OpenImages { paths } => list(job, paths, reporter, tell)?,
        Files::OpenDataset { entry, path, split } => {
            let part = Arc::new(EvalSplit::new(dataset(path, reporter)?, *split));
            reporter.cancel().check()?; // a table's lists are read without a look at it
            // Notes that matter only to a training are in its plan.
            for note in part.dataset.notes.iter().filter(|note| !data::is_of_training(note)) {
                reporter.warn(format!("{}: {note}", part.set.dataset));
            }
            tell(Event::DatasetOpened { job, entry: *entry, part });
        }
        Files::Recognise { paths } => {
            let paths = fetch::probes(paths, reporter)?;
            let whole = |path: &PathBuf| path.to_str().map_or_else(|| path.clone(), expanded);
            let found = paths.iter().map(whole).map(|path| (path.clone(), kind_of(&path))).collect();
            tell(Event::Recognised { job, found });
        }
        Files::ListFolder { folder } => {
            tell(Event::FolderListed { job, folder: Arc::new(folder::list(folder, reporter)?) });
        }
        Files::Receive(file) => {
            let path = received::keep(file)?;
            let kind = kind_of(&path);
            tell(Event::Recognised { job, found: vec![(path, kind)] });
        }
    }
    Ok(())
}

/// Opens the dataset at `path`, and reports how many of its images are found so far.
pub fn dataset(path: &Path, reporter: &mut dyn Reporter) -> Result<Dataset, JobError> {
    let found = data::open_watched(path, &mut |found| {
        reporter.progress("Listing images", found as u64, None, Unit::Items);
        reporter.cancel().flow()
    });
    Ok(found?)
}

/// The dataset that a file of earlier work names is not where it was.
#[derive(Debug, thiserror::Error)]
#[error("{recorded_in}: the dataset it names cannot be opened; give its new location with `--data DIR`")]
pub struct DatasetMoved {
    /// The file: `run.json` or `pretraining.json`.
    pub recorded_in: PathBuf,
    /// What is wrong with the dataset.
    pub source: DataError,
}

/// The folder that holds the probe files of `folder`: itself, or `probes` of a run; and whether it is a run.
pub fn probe_folder(folder: &Path) -> (PathBuf, bool) {
    match folder.join("run.json").is_file() {
        true => (folder.join("probes"), true),
        false => (folder.to_owned(), false),
    }
}

/// The probe files in a folder, sorted.
pub fn probe_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>)?;
    let mut paths: Vec<PathBuf> = listed.iter().map(std::fs::DirEntry::path).collect();
    paths.retain(|path| is_probe(path));
    paths.sort();
    Ok(paths)
}

/// The ending of the probe files of a run that are of the best epoch.
pub const BEST: &str = "-best.safetensors";

fn open_run(job: JobId, folder: &Path, tell: &mut dyn FnMut(Event)) -> Result<(), JobError> {
    let (probes, trained) = probe_folder(folder);
    let mut sources = Vec::new();
    let read = |snapshot: Result<RunSnapshot, RunError>| {
        let snapshot = snapshot.map(Arc::new).map_err(UserError::from_error);
        Event::RunRead { job: Some(job), folder: folder.to_owned(), snapshot }
    };
    if !trained && plan_file(folder).is_file() {
        tell(read(disk::read(folder)));
        return Ok(());
    }
    if trained {
        let run = Run::open(folder);
        sources = run.as_ref().map_or_else(|_| Vec::new(), trained_on);
        tell(read(run.and_then(|run| disk::read_run(&run))));
    }
    let unread = |error| {
        let error = anyhow::anyhow!("{}: the folder cannot be read: {error}", probes.display());
        UserError::from_file_error(&probes, error)
    };
    let mut paths = probe_files(&probes).map_err(unread)?;
    // The best of every seed first: they are what a run is opened for.
    paths.sort_by_key(|path| !path.to_string_lossy().ends_with(BEST));
    // A training that has just begun has none yet.
    if paths.is_empty() && !trained {
        if lock(folder).is_file() {
            let line = format!("{}: the training in it has not finished its first epoch", folder.display());
            let remedy =
                format!("If it is still running, open it again later; if not, its {} says why", LOGS[0]);
            return Err(UserError::new(line).remedy(remedy).into());
        }
        let line = format!("{}: contains no probe file (.safetensors)", folder.display());
        return Err(UserError::new(line).remedy("Choose the folder that contains the probe files").into());
    }
    tell(Event::ProbesListed { job, paths, sources });
    Ok(())
}

/// Backbone and dataset of a run, those that exist on this machine.
fn trained_on(run: &Run) -> Vec<(PathBuf, PathKind)> {
    let Manifest { backbone_source, dataset, .. } = &run.manifest;
    let places =
        [(PathBuf::from(backbone_source), PathKind::Backbone), (dataset.path.clone(), PathKind::Dataset)];
    places.into_iter().filter(|(path, kind)| kind_of(path) == *kind).collect()
}

/// Lists images in several events. What cannot be read is a warning, unless nothing can.
fn list(
    job: JobId,
    paths: &[PathBuf],
    reporter: &mut dyn Reporter,
    tell: &mut dyn FnMut(Event),
) -> Result<(), JobError> {
    let mut part = Vec::with_capacity(IMAGES_PER_EVENT);
    let (count, unread) = (Cell::new(0_usize), Cell::new(0));
    let (mut first, mut empty) = (None, Vec::new());
    let mut found = |path: PathBuf| {
        part.push(path);
        count.update(|count| count + 1);
        if part.len() >= IMAGES_PER_EVENT {
            let paths = std::mem::replace(&mut part, Vec::with_capacity(IMAGES_PER_EVENT));
            tell(Event::ImagesListed { job, paths });
            reporter.progress("Listing images", count.get() as u64, None, Unit::Items);
        }
        let end = reporter.cancel().is_cancelled() || count.get() >= MAX_IMAGES;
        if end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut failed_at = |path: &Path, error: std::io::Error| {
        unread.update(|unread| unread + 1);
        first.get_or_insert_with(|| {
            UserError::from_file_error(path, anyhow::anyhow!("{}: cannot be read: {error}", path.display()))
        });
        ControlFlow::Continue(())
    };
    for path in paths {
        let before = (count.get(), unread.get());
        let flow = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => images_below(path, &mut found, &mut failed_at),
            Ok(_) => found(path.clone()),
            Err(error) => failed_at(path, error),
        };
        if flow.is_break() {
            break;
        }
        if (count.get(), unread.get()) == before {
            empty.push(path.display().to_string());
        }
    }
    reporter.cancel().check()?;
    let (count, unread) = (count.get(), unread.get());
    if !part.is_empty() {
        tell(Event::ImagesListed { job, paths: part });
    }
    if count >= MAX_IMAGES {
        reporter.warn(format!("Only the first {MAX_IMAGES} images are listed"));
    }
    if count > 0
        && let [place, ..] = empty.as_slice()
    {
        let places = counted(empty.len(), "folder contains", "folders contain");
        reporter.warn(format!("{places} no image; the first: {place}"));
    }
    match first {
        Some(error) if count == 0 => Err(error.into()),
        Some(error) => {
            let places = counted(unread, "file or folder", "files or folders");
            reporter.warn(format!("{places} left out; the first: {}", error.one_line()));
            Ok(())
        }
        None if count == 0 => Err(anyhow::anyhow!("{}: contains no image", empty.join(", ")).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::reporter::Recorder;

    #[test]
    fn of_folders_that_are_opened_those_without_an_image_are_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let [full, empty, gone] = ["full", "empty", "gone"].map(|name| folder.path().join(name));
        [&full, &empty].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        std::fs::write(full.join("1.png"), "").unwrap();
        let (mut told, mut reporter) = (0, Recorder::default());
        let spec = Files::OpenImages { paths: vec![empty.clone(), full, gone] };
        assert!(run(JobId(1), &spec, &mut reporter, &mut |_| told += 1).is_ok());
        let [of_empty, of_gone] = reporter.warned.as_slice() else { panic!("{:?}", reporter.warned) };
        assert_eq!(*of_empty, format!("1 folder contains no image; the first: {}", empty.display()));
        assert!(of_gone.starts_with("1 file or folder left out") && told == 1, "{of_gone}");
    }

    #[test]
    fn a_training_without_an_epoch_is_no_folder_of_images() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(lock(folder.path()), "").unwrap();
        assert_eq!(kind_of(folder.path()), PathKind::Run);
        let spec = Files::OpenRun { folder: folder.path().to_owned() };
        let ended = run(JobId(1), &spec, &mut Recorder::default(), &mut |_| {});
        let Err(JobError::Failed(error)) = ended else { panic!("it opens") };
        assert!(error.to_string().contains("its train.log says why"), "{error}");
    }

    #[test]
    fn a_dataset_whose_opening_was_cancelled_does_not_open() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["train/a/1.png", "train/b/2.png", "test/a/3.png", "test/b/4.png"] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let spec = Files::OpenDataset { entry: DatasetId(1), path: folder.path().to_owned(), split: None };
        let (mut told, reporter) = (0, &mut Recorder { cancels: true, ..Recorder::default() });
        let end = run(JobId(1), &spec, reporter, &mut |_| told += 1);
        assert!(matches!(end, Err(JobError::Cancelled)) && told == 0);
    }

    #[test]
    fn the_best_probes_of_all_seeds_come_before_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["gap-s0-best", "gap-s1-best", "gap-s0-last", "gap-s1-last"];
        let expected = names.map(|name| folder.path().join(format!("{name}.safetensors")));
        expected.iter().for_each(|path| std::fs::write(path, "").unwrap());
        let mut listed = Vec::new();
        let tell = &mut |event| {
            if let Event::ProbesListed { paths, .. } = event {
                listed = paths;
            }
        };
        assert!(open_run(JobId(1), folder.path(), tell).is_ok());
        assert_eq!(listed, expected);
    }
}
