//! Parquet files as Hugging Face's datasets have them: every row holds an image file's bytes and a
//! label. Splits are taken from the files' names (`train-00000-of-00002.parquet`) or their folder's
//! (`train/0000.parquet`), names of classes from the description Hugging Face stores in the file.

mod bounded_file;
mod columns;
mod pages;
mod shard;
mod thrift;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DataError, Dataset, ImageSource, Layout, Sample, Split, UNTRAINABLE, first_names, walk};
use rayon::prelude::*;
use shard::{Label, Shard};

/// Depth to which folders are searched for files: `data/`, or `CONFIGURATION/train/`.
const DEPTH: usize = 2;

pub(super) const LAYOUT: Layout = Layout {
    id: "parquet",
    what: "Hugging Face Parquet: an image (bytes) and a label in every row, files named like \
           train-00000-of-00002.parquet or train/0000.parquet",
    recognise: |path| is_parquet(path) || walk::find(path, DEPTH, &holds_images).is_some(),
    read: |root, _| read(root),
    official: false,
    splits: "name their files like train-00000-of-00001.parquet or test-00000-of-00001.parquet",
};

fn is_parquet(path: &Path) -> bool {
    // The name first: in a folder of a million images, asking the file system for each would take minutes.
    is_named_parquet(path) && path.is_file()
}

fn is_named_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
}

/// Whether a file belongs to a dataset and is no table of results; damaged ones count, so that reading reports the damage.
fn holds_images(path: &Path) -> bool {
    is_parquet(path) && !shard::is_table(path)
}

/// The split that a folder's name means; of large datasets the Hub converts only a part, in `partial-train`.
fn split_of(folder: &str) -> Option<Split> {
    Split::from_word(folder.strip_prefix("partial-").unwrap_or(folder))
}

/// What a file's name says: its split, and which part of it the file is.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    split: Option<Split>,
    /// The file's number, from 0, and the number of files.
    part: Option<(usize, usize)>,
}

impl Name {
    /// Parses a name such as `train-00000-of-00002-0123abcd.parquet`; the split may also be the folder's name.
    fn from_path(path: &Path) -> Self {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let word = stem.split(['-', '_', '.']).next().unwrap_or_default();
        let folder = path.parent().map(walk::name).unwrap_or_default();
        let split = Split::from_word(word).or_else(|| split_of(&folder));
        let parts: Vec<&str> = stem.split('-').collect();
        let part = parts.windows(3).find(|part| part[1] == "of").and_then(|part| {
            let (number, all) = (part[0].parse().ok()?, part[2].parse().ok()?);
            (number < all).then_some((number, all))
        });
        Self { split, part }
    }
}

/// A file of a dataset, and what its name says.
struct File {
    path: PathBuf,
    name: Name,
    /// Its metadata, or why it cannot be read.
    shard: Result<Arc<Shard>, String>,
}

impl File {
    fn open(path: PathBuf) -> Self {
        Self { name: Name::from_path(&path), shard: Shard::open(&path), path }
    }
}

/// What a row without an image says. The `to_parquet` of Hugging Face's `datasets` leaves images of local files out.
const NO_IMAGE: &str = "the row has no image; if it names a file, make a table of path and label, \
    or apply datasets.table.embed_table_storage before to_parquet";

/// The encoded bytes of the image in a row of a file, or why there are none.
pub(super) fn image(path: &Path, row: usize) -> Result<Vec<u8>, String> {
    Shard::known(path)?.image(row)?.ok_or_else(|| NO_IMAGE.into())
}

fn read(root: &Path) -> Result<Dataset, DataError> {
    let (files, mut notes) = chosen_files(root)?;
    let Rows { first, labelled, unlabelled } = rows(files)?;
    let columns = first.as_ref().map(|shard| &shard.columns);
    if let Some(columns) = columns.filter(|columns| !columns.others.is_empty()) {
        notes.push(format!(
            "labels are taken from column {}; other label columns: {}",
            columns.label_name,
            columns.others.join(", ")
        ));
    }
    if unlabelled > 0 {
        notes.push(format!("rows without a label were left out: {unlabelled}"));
    }
    let classes = classes(columns.and_then(|columns| columns.names.clone()), &labelled);
    let number: BTreeMap<&Label, usize> = classes.iter().map(|(label, _)| label).zip(0..).collect();
    let sample = |(source, label, split): LabelledRow| match number.get(&label) {
        Some(&class) => Ok(Sample { source, class, split }),
        None => {
            let expected = format!("one of the {} classes named in the file", classes.len());
            Err(DataError::line(
                &source.path,
                source.row.unwrap_or_default() + 1,
                &label.to_string(),
                expected,
            ))
        }
    };
    let samples = labelled.into_iter().map(sample).collect::<Result<Vec<Sample>, _>>()?;
    let classes: Vec<String> = classes.into_iter().map(|(_, name)| name).collect();
    if samples.iter().all(|sample| sample.split != Split::Train) {
        notes.push(format!("there are no training images: {UNTRAINABLE}"));
    }
    Ok(Dataset::new(root, LAYOUT.id, classes, samples, notes))
}

/// The files to read, and notes on those that are left out or missing.
fn chosen_files(root: &Path) -> Result<(Vec<File>, Vec<String>), DataError> {
    let (mut files, others) = files(root)?;
    let mut notes = Vec::new();
    if !others.is_empty() {
        let names = first_names(&others);
        notes.push(format!(
            "other folders with Parquet files were left out: {names}; open one of them to read it"
        ));
    }
    let known = files.iter().filter(|file| file.name.split.is_some()).count();
    if known > 0 && known < files.len() {
        let unknown = files.iter().filter(|file| file.name.split.is_none());
        let names: Vec<String> = unknown.map(|file| walk::name(&file.path)).collect();
        notes.push(format!("files whose names give no split were left out: {}", first_names(&names)));
        files.retain(|file| file.name.split.is_some());
    }
    notes.extend(missing(&files));
    Ok((files, notes))
}

type LabelledRow = (ImageSource, Label, Split);

/// The rows of all files of a dataset.
struct Rows {
    /// The first file; the others have the same classes.
    first: Option<Arc<Shard>>,
    labelled: Vec<LabelledRow>,
    unlabelled: usize,
}

fn rows(files: Vec<File>) -> Result<Rows, DataError> {
    let read_labels = |File { path, name, shard }: File| {
        let labels = shard.and_then(|shard| Ok((shard.labels()?, shard)));
        let failed = |why: String| {
            DataError::file(
                &path,
                format!("cannot be read as Parquet: {why}; if it is damaged, download it again"),
            )
        };
        (name, labels.map_err(failed), path)
    };
    let files: Vec<_> = files.into_par_iter().map(read_labels).collect();
    let mut rows = Rows { first: None, labelled: Vec::new(), unlabelled: 0 };
    for (name, labels, path) in files {
        let (labels, shard) = labels?;
        let first = rows.first.get_or_insert_with(|| shard.clone());
        let (own, expected) = (&shard.columns, &first.columns);
        if own.names != expected.names || own.label_name != expected.label_name {
            let why = format!("has other classes than {}; open one dataset at a time", first.path.display());
            return Err(DataError::file(&path, why));
        }
        let has_names = own.names.is_some();
        for (row, label) in labels.into_iter().enumerate() {
            match label {
                Some(Label::Number(..0)) if has_names => rows.unlabelled += 1, // negative: a hidden label
                Some(label) => {
                    let split = name.split.unwrap_or(Split::Train);
                    let source = ImageSource { path: path.clone(), row: Some(row) };
                    rows.labelled.push((source, label, split));
                }
                None => rows.unlabelled += 1,
            }
        }
    }
    Ok(rows)
}

/// All files of the dataset, opened, in the order of their paths; they lie in one folder, or in folders named after splits. The names
/// of the folders beside it that have others, as each configuration of a dataset has.
fn files(root: &Path) -> Result<(Vec<File>, Vec<String>), DataError> {
    if root.is_file() {
        return Ok((vec![File::open(root.into())], Vec::new()));
    }
    let first =
        walk::find(root, DEPTH, &holds_images).ok_or_else(|| DataError::Layout { path: root.into() })?;
    let folder = first.parent().unwrap_or(root);
    let (own, folders) = match (split_of(&walk::name(folder)), folder.parent()) {
        (Some(_), Some(above)) if folder != root => {
            let mut beside = walk::folders(above)?;
            beside.retain(|path| split_of(&walk::name(path)).is_some());
            (above, beside)
        }
        _ => (folder, vec![folder.into()]),
    };
    let mut others = match own.parent() {
        Some(above) if own != root => walk::folders(above)?,
        _ => Vec::new(),
    };
    others.retain(|path| path != own && walk::find(path, 1, &holds_images).is_some());
    let others = others.iter().map(|path| walk::name(path)).collect();
    let mut found = Vec::new();
    for folder in folders {
        walk::check_links(&folder, is_named_parquet)?; // the Hub's cache consists of links
        found.extend(walk::entries(&folder)?.into_iter().filter(|path| is_parquet(path)).map(File::open));
    }
    // The metadata of a file whose shard could be read is not read a second time.
    found.retain(|file| file.shard.is_ok() || holds_images(&file.path));
    Ok((found, others))
}

/// A note on files that are missing according to the names of the others; `None` if none is.
fn missing(files: &[File]) -> Option<String> {
    let mut parts: BTreeMap<(Option<Split>, usize), BTreeSet<usize>> = BTreeMap::new();
    for name in files.iter().map(|file| &file.name) {
        if let Some((number, all)) = name.part {
            parts.entry((name.split, all)).or_default().insert(number);
        }
    }
    let gaps = parts.iter().filter(|((_, all), there)| there.len() < *all).map(|((split, all), there)| {
        format!("{} of {all} files for {}", there.len(), split.map_or("the dataset", Split::name))
    });
    let gaps: Vec<String> = gaps.collect();
    (!gaps.is_empty())
        .then(|| format!("only {} are present; download the others for the whole dataset", gaps.join(", ")))
}

/// The labels in the order of the classes, each with its class's name.
fn classes(names: Option<Vec<String>>, rows: &[LabelledRow]) -> Vec<(Label, String)> {
    let Some(names) = names else {
        let labels: BTreeSet<&Label> = rows.iter().map(|(_, label, _)| label).collect();
        return labels.into_iter().map(|label| (label.clone(), label.to_string())).collect();
    };
    let as_text = matches!(rows.first(), Some((_, Label::Text(_), _)));
    let label = |number: usize, name: &String| {
        if as_text { Label::Text(name.clone()) } else { Label::Number(number as i64) }
    };
    names.into_iter().enumerate().map(|(number, name)| (label(number, &name), name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::io::columns::{Column, Values, parquet as write_table};

    #[test]
    fn a_name_tells_split_and_part() {
        let place = |name: &str| {
            let Name { split, part } = Name::from_path(Path::new(name));
            (split, part)
        };
        assert_eq!(place("data/train-00001-of-00042.parquet"), (Some(Split::Train), Some((1, 42))));
        assert_eq!(place("validation-00000-of-00001-9ab3.parquet"), (Some(Split::Val), Some((0, 1))));
        assert_eq!(place("default/test/0000.parquet"), (Some(Split::Test), None));
        assert_eq!(place("default/partial-train/0003.parquet"), (Some(Split::Train), None));
        assert_eq!(place("test.parquet"), (Some(Split::Test), None));
        assert_eq!(place("things.parquet"), (None, None));
        assert_eq!(place("train-00007-of-00002.parquet"), (Some(Split::Train), None));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_a_link_no_longer_leads_to_is_missed() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet/hub/data");
        let folder = tempfile::tempdir().expect("a folder");
        for (name, to) in [("train", "train-00000-of-00002"), ("test", "not-there")] {
            let to = fixtures.join(to).with_extension("parquet");
            std::os::unix::fs::symlink(to, folder.path().join(name).with_extension("parquet"))
                .expect("a link");
        }
        let refused = files(folder.path()).map(|_| ()).expect_err("without its test images").to_string();
        assert!(refused.contains("test.parquet: is a link that leads nowhere"), "{refused}");
    }

    #[test]
    fn a_table_of_more_rows_than_bytes_holds_no_images() {
        let rows = 1 << 20;
        let table = write_table(&[Column::new("accuracy", Values::Float64(vec![Some(0.5); rows]))], &[]);
        let table = table.expect("a table");
        assert!(table.len() < rows, "{} bytes", table.len());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.parquet");
        std::fs::write(&path, table).expect("a file");
        assert!(!holds_images(&path));
    }
}
