//! CUB-200-2011 (Wah et al. 2011) as distributed: `images.txt` (id, path), `image_class_labels.txt`
//! (id, class from 1), `train_test_split.txt` (id, 1 for training), `classes.txt` (class, name), `images/`.

use std::collections::BTreeMap;
use std::path::Path;

use super::{DataError, Dataset, Layout, Sample, Split, walk};

pub(super) const LAYOUT: Layout = Layout {
    id: "cub",
    what: "CUB-200-2011: images.txt, image_class_labels.txt, train_test_split.txt, classes.txt, images/",
    recognise: |path| {
        ["images.txt", "image_class_labels.txt", "train_test_split.txt"]
            .iter()
            .all(|name| path.join(name).is_file())
    },
    read: |root, _| read(root),
    official: true,
    splits: "its train_test_split.txt says which images are (1: training)",
};

fn read(root: &Path) -> Result<Dataset, DataError> {
    let folder = root.join("images");
    let (labels_file, split_file) = (root.join("image_class_labels.txt"), root.join("train_test_split.txt"));
    let classes = list(&root.join("classes.txt"))?;
    let (labels, splits) = (list(&labels_file)?, list(&split_file)?);
    // Classes are numbered without gaps in the distribution; a subset may have some.
    let index: BTreeMap<&u64, usize> = classes.keys().zip(0..).collect();
    let mut samples = Vec::new();
    for (id, (line, path)) in list(&root.join("images.txt"))? {
        let path = walk::below(&folder, &path)
            .ok_or_else(|| DataError::line(&root.join("images.txt"), line, &path, "a path inside images/"))?;
        let absent = |file: &Path| DataError::file(file, format!("has no line for image {id} of images.txt"));
        let (line, label) = labels.get(&id).ok_or_else(|| absent(&labels_file))?;
        let class = label.parse().ok().and_then(|class: u64| index.get(&class).copied());
        let class =
            class.ok_or_else(|| DataError::line(&labels_file, *line, label, "a class of classes.txt"))?;
        let split = match splits.get(&id).ok_or_else(|| absent(&split_file))? {
            (_, word) if word == "1" => Split::Train,
            (_, word) if word == "0" => Split::Test,
            (line, word) => {
                return Err(DataError::line(&split_file, *line, word, "1 (training) or 0 (test)"));
            }
        };
        samples.push(Sample { source: path.into(), class, split });
    }
    let mut notes = Vec::new();
    if !folder.is_dir() {
        notes.push(format!("{} is missing: the lists are complete, the images are not", folder.display()));
    }
    let classes = classes.into_values().map(|(_, name)| name).collect();
    Ok(Dataset::new(root, LAYOUT.id, classes, samples, notes))
}

/// Parses a file of `number value` lines: for every number its line, from 1, and its value.
pub(in crate::model) fn list(file: &Path) -> Result<BTreeMap<u64, (usize, String)>, DataError> {
    let mut out = BTreeMap::new();
    for (at, line) in walk::lines(&walk::text(file)?) {
        let wrong = |expected: &str| DataError::line(file, at, line, expected);
        let (number, value) =
            line.trim().split_once(char::is_whitespace).ok_or_else(|| wrong("a number and a value"))?;
        let number = number.parse().map_err(|_| wrong("a number first"))?;
        if out.insert(number, (at, value.trim().to_owned())).is_some() {
            return Err(wrong("each number once"));
        }
    }
    Ok(out)
}
