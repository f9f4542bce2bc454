//! Stanford Cars (Krause et al. 2013) as distributed: `cars_train/`, `cars_test/` and a devkit of
//! MATLAB files, `cars_meta.mat` (class names), `cars_train_annos.mat` and `cars_test_annos.mat`.
//! The labels of the test images are in a separate file, `cars_test_annos_withlabels.mat`.
//! Mirrors nest these folders differently, so each is searched for by its name.

use std::path::{Path, PathBuf};

use super::mat::{self, Value};
use super::{DataError, Dataset, Layout, Sample, Split, walk};

/// Depth to which folders are searched for the devkit and the image folders.
pub(in crate::model) const DEPTH: usize = 3;

pub(super) const LAYOUT: Layout = Layout {
    id: "cars",
    what: "Stanford Cars: cars_train/, cars_test/, devkit/cars_meta.mat, devkit/cars_train_annos.mat, \
           cars_test_annos_withlabels.mat",
    recognise: |path| has_devkit(path, "cars_meta.mat"),
    read: |root, _| read(root),
    official: true,
    splits: "the devkit's annotation lists say which images are",
};

/// Whether a folder holds the devkit's file `name` in one of its usual places: searched less deep than when reading, so that a
/// folder of several datasets does not match.
pub(in crate::model) fn has_devkit(root: &Path, name: &str) -> bool {
    ["", "devkit", "car_devkit/devkit"].iter().any(|kit| root.join(kit).join(name).is_file())
}

fn read(root: &Path) -> Result<Dataset, DataError> {
    let find = |name: &str| walk::find_named(root, DEPTH, name);
    let must = |name: &str| {
        find(name).ok_or_else(|| DataError::file(&root.join(name), "is missing; it is in the devkit"))
    };
    let meta = must("cars_meta.mat")?;
    let classes = match variable(&meta, "class_names")? {
        Value::Cells(names) => {
            names.iter().map(|name| name.text().map(str::to_owned)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let classes =
        classes.ok_or_else(|| DataError::file(&meta, "`class_names` is not a cell array of names"))?;
    let (mut samples, mut notes) = (Vec::new(), Vec::new());
    let train = must("cars_train_annos.mat")?;
    let labelled = find("cars_test_annos_withlabels.mat");
    let test = labelled.clone().or_else(|| find("cars_test_annos.mat"));
    for (split, annotations, folder) in
        [(Split::Train, Some(train), "cars_train"), (Split::Test, test, "cars_test")]
    {
        let Some(annotations) = annotations else {
            notes.push("there is no cars_test_annos_withlabels.mat, so there are no test images".into());
            continue;
        };
        let table = variable(&annotations, "annotations")?;
        let Value::Structs(fields, elements) = &table else {
            return Err(DataError::file(&annotations, "`annotations` is not a structure array"));
        };
        if !fields.iter().any(|field| field == "class") {
            if split == Split::Train {
                return Err(DataError::file(&annotations, "`annotations` has no field `class`"));
            }
            notes.push(format!(
                "{} has no labels, so its {} test images were left out; put cars_test_annos_withlabels.mat \
                 next to it",
                annotations.display(),
                elements.len()
            ));
            continue;
        }
        let folder = image_folder(root, folder);
        if !folder.is_dir() {
            notes
                .push(format!("{} is missing: the labels are present, the images are not", folder.display()));
        }
        for i in 0..elements.len() {
            let wrong = |what: &str| DataError::file(&annotations, format!("image {} has no {what}", i + 1));
            let number = table.field(i, "class").and_then(Value::number);
            let is_class = |n: &f64| (1.0..=classes.len() as f64).contains(n) && n.fract() == 0.0;
            let class = number.filter(is_class).ok_or_else(|| wrong("class of cars_meta.mat"))? as usize - 1;
            let name =
                table.field(i, "fname").and_then(Value::text).and_then(|name| walk::below(&folder, name));
            let source = name.ok_or_else(|| wrong("file name"))?.into();
            samples.push(Sample { source, class, split });
        }
    }
    Ok(Dataset::new(root, LAYOUT.id, classes, samples, notes))
}

/// The image folder `name`, the inner one where it is nested in a folder of the same name; or the one
/// beside the devkit, if the devkit was opened.
fn image_folder(root: &Path, name: &str) -> PathBuf {
    let found = walk::find(root, DEPTH, &|path| walk::name(path).eq_ignore_ascii_case(name) && path.is_dir());
    match found {
        Some(outer) if outer.join(name).is_dir() => outer.join(name),
        Some(folder) => folder,
        None => [root.join(name), root.join("..").join(name)]
            .into_iter()
            .find(|p| p.is_dir())
            .unwrap_or(root.join(name)),
    }
}

/// The variable `name` of a MATLAB file.
pub(in crate::model) fn variable(file: &Path, name: &str) -> Result<Value, DataError> {
    let variables =
        mat::read(&walk::bytes(file)?).map_err(|error| DataError::file(file, error.to_string()))?;
    let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
    let found = variables.into_iter().find(|(variable, _)| variable == name);
    let missing = || DataError::file(file, format!("has no variable `{name}`, only {}", names.join(", ")));
    Ok(found.ok_or_else(missing)?.1)
}
