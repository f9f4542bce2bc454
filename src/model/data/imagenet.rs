//! ImageNet-1k (Russakovsky et al. 2015), or Tiny ImageNet, with its validation images in one flat folder, as the
//! archives unpack. Their classes come from the devkit (`ILSVRC2012_validation_ground_truth.txt`, one
//! number a line, and `meta.mat`, which says whose number it is), from Kaggle's `LOC_val_solution.csv` or from Tiny ImageNet's
//! `val_annotations.txt`. Classes are the WordNet ids, sorted, with the devkit's words for them; the training images, if there,
//! lie in folders named by the ids. With the validation images in such folders too it is a plain `folder`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::image::is_named_image;
use super::mat::Value;
use super::synsets::{self, Words, is_id};
use super::walk::LeftOut;
use super::{DataError, Dataset, Layout, Split, UNTRAINABLE, Watch, cars, walk};

const TRUTH: &str = "ILSVRC2012_validation_ground_truth.txt";
const SOLUTION: &str = "LOC_val_solution.csv";
const TINY: &str = "val_annotations.txt";
/// Depth to which folders are searched for the lists and the images: Kaggle has ILSVRC/Data/CLS-LOC/val.
const DEPTH: usize = 3;
/// The folder of the splits at Kaggle, in that of the whole archive and in the one below; the boxes beside it have splits, too.
pub(super) const KAGGLE: [&str; 2] = ["ILSVRC/Data/CLS-LOC", "Data/CLS-LOC"];
/// Most folders of classes that are searched for an image to tell that a folder is that of the training images.
const MAX_TRIED: usize = 10;

pub(super) const LAYOUT: Layout = Layout {
    id: "imagenet",
    what: "ImageNet-1k: a flat val/ with the devkit's ILSVRC2012_validation_ground_truth.txt and meta.mat or \
           Kaggle's LOC_val_solution.csv, or Tiny ImageNet's with val_annotations.txt, optionally train/WNID/IMAGE",
    recognise: |path| list_and_images(path).is_some(),
    read,
    official: true,
    splits: "training images are in train/WNID, the others in val",
};

/// The list of labels of the validation images and their flat folder. Kaggle's list lies above the folder where that is opened alone;
/// Tiny ImageNet's, in its `val`, is not searched for beside other datasets, whose training images would be taken.
fn list_and_images(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let is = |path: &Path, names: &[&str]| names.contains(&walk::name(path).as_str());
    if let Some(list) = walk::find(root, 1, &|path| is(path, &[TINY])) {
        let images = list.with_file_name("images");
        return walk::find(&images, 0, &is_named_image).is_some().then_some((list, images));
    }
    let mut above = synsets::folder_and_above(root).into_iter().map(|folder| folder.join(SOLUTION));
    let list = walk::find(root, DEPTH, &|path| is(path, &[SOLUTION, TRUTH]));
    let list = list.or_else(|| above.find(|list| list.is_file()))?;
    Some((list, flat(root)?))
}

/// The name of an image without what follows the first dot.
fn stem(path: &Path) -> String {
    path.file_prefix().unwrap_or_default().to_string_lossy().into_owned()
}

/// The number of a validation image, from a name such as `ILSVRC2012_val_00000001.JPEG`.
fn number(path: &Path) -> Option<usize> {
    stem(path).strip_prefix("ILSVRC2012_val_")?.parse().ok()
}

/// The flat folder of the validation images.
fn flat(root: &Path) -> Option<PathBuf> {
    // Kaggle's annotations lie in folders of the same names, before the images, as XML files.
    let image = |path: &Path| number(path).is_some() && is_named_image(path) && path.is_file();
    if let Some(found) = walk::entries(root).ok()?.into_iter().find(|path| image(path)) {
        return Some(found.parent()?.into());
    }
    let named = |path: &Path| {
        let name = walk::name(path).to_ascii_lowercase();
        ["val", "ilsvrc2012_img_val", "validation"].contains(&name.as_str()) && path.is_dir()
    };
    walk::find(root, DEPTH, &|path| {
        named(path) && walk::entries(path).is_ok_and(|inside| inside.iter().any(|path| image(path)))
    })
}

fn read(root: &Path, watch: &mut Watch<'_>) -> Result<Dataset, DataError> {
    let (list, folder) = list_and_images(root).ok_or_else(|| DataError::Layout { path: root.into() })?;
    let (mut left_out, mut notes) = (LeftOut::default(), Vec::new());
    let mut found: Vec<(String, Split, PathBuf)> = Vec::new();
    let images = walk::images(&folder, &mut left_out)?;
    let (labels, words) = match walk::name(&list).as_str() {
        SOLUTION => (table(&list, 1, ',')?, Words::new()),
        TINY => (table(&list, 0, '\t')?, Words::new()),
        _ => ground_truth(root, &list)?,
    };
    let mut unlabelled = 0;
    for image in images {
        match labels.get(&stem(&image)).or_else(|| labels.get(&number(&image)?.to_string())) {
            Some(wnid) => found.push((wnid.clone(), Split::Val, image)),
            None => unlabelled += 1,
        }
    }
    if unlabelled > 0 {
        notes.push(format!(
            "validation images that have no label in {} were left out: {unlabelled}",
            list.display()
        ));
    }
    // Those of Tiny ImageNet lie a folder deeper, in `images`.
    let holds_image = |class: &PathBuf| walk::find(class, 1, &is_named_image).is_some();
    let train = |path: &Path| {
        ["train", "ILSVRC2012_img_train"].contains(&walk::name(path).as_str())
            && walk::folders(path).is_ok_and(|classes| classes.iter().take(MAX_TRIED).any(holds_image))
    };
    match walk::find(root, DEPTH, &train) {
        Some(train) => {
            walk::check_links(&train, |_| true)?;
            for class in walk::folders(&train)? {
                walk::tell(watch, found.len(), root)?;
                let images = walk::images(&class, &mut left_out)?;
                found.extend(images.into_iter().map(|image| (walk::name(&class), Split::Train, image)));
            }
        }
        None => notes.push(format!("there is no train folder: {UNTRAINABLE}")),
    }
    // Classes of all labels are numbered, so that a subset of the images keeps the numbering.
    let labels: Vec<String> = labels.into_values().collect();
    let mut dataset = Dataset::from_images(root, LAYOUT.id, &labels, found);
    synsets::name_by(&words, &mut dataset.classes);
    notes.extend(left_out.note());
    Ok(Dataset { skipped: left_out.files, notes, ..dataset })
}

/// WordNet id by image stem, from lines below a `header` that have an image, a separator and what begins with the id, as Kaggle's
/// `ImageId,PredictionString`.
fn table(file: &Path, header: usize, separator: char) -> Result<BTreeMap<String, String>, DataError> {
    let mut labels = BTreeMap::new();
    for (at, line) in walk::lines(&walk::text(file)?).filter(|(at, _)| *at > header) {
        let pair = line.split_once(separator);
        let pair = pair.and_then(|(image, rest)| Some((image, rest.split_whitespace().next()?)));
        let expected = format!("an image, {separator:?} and a WordNet id such as n01440764");
        let (image, wnid) =
            pair.filter(|(_, wnid)| is_id(wnid)).ok_or_else(|| DataError::line(file, at, line, expected))?;
        labels.insert(stem(Path::new(image)), wnid.to_owned());
    }
    Ok(labels)
}

/// What the devkit says: the WordNet id by image number (line `i` is the class of image `i`, as numbered in `meta.mat`), and the
/// words for each id.
fn ground_truth(root: &Path, file: &Path) -> Result<(BTreeMap<String, String>, Words), DataError> {
    let beside = file.with_file_name("meta.mat");
    let meta = if beside.is_file() { Some(beside) } else { walk::find_named(root, DEPTH, "meta.mat") };
    let meta = meta.ok_or_else(|| {
        let why =
            format!("is missing; the devkit has it next to {TRUTH}, whose numbers mean nothing without it");
        DataError::file(&file.with_file_name("meta.mat"), why)
    })?;
    let synsets = cars::variable(&meta, "synsets")?;
    let Value::Structs(_, elements) = &synsets else {
        return Err(DataError::file(&meta, "`synsets` is not a structure array"));
    };
    let (mut wnids, mut words) = (BTreeMap::new(), Words::new());
    for i in 0..elements.len() {
        let id = synsets.field(i, "ILSVRC2012_ID").and_then(Value::number);
        let wnid = synsets.field(i, "WNID").and_then(Value::text).filter(|wnid| is_id(wnid));
        let (Some(id), Some(wnid)) = (id, wnid) else {
            let why = format!("synset {} has no `ILSVRC2012_ID` and `WNID`", i + 1);
            return Err(DataError::file(&meta, why));
        };
        wnids.insert(id as u64, wnid.to_owned());
        let text = synsets.field(i, "words").and_then(Value::text).unwrap_or_default();
        words.insert(wnid.to_owned(), text.to_owned());
    }
    let mut labels = BTreeMap::new();
    for (at, line) in walk::lines(&walk::text(file)?) {
        let wnid = line.trim().parse().ok().and_then(|id: u64| wnids.get(&id));
        let wnid = wnid.ok_or_else(|| DataError::line(file, at, line, "a class number of meta.mat"))?;
        labels.insert(at.to_string(), wnid.clone());
    }
    Ok((labels, words))
}
