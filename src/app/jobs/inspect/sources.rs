//! Finds the image and probe files to read, and names their results.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Source;
use crate::app::format;
use crate::app::image_files::images_below;
use crate::app::jobs::user_error::refuse;
use crate::app::jobs::{check_there, open};
use crate::model::data::image::ENDINGS;
use crate::model::data::{MASKS, Split};

/// Names that no result may take, since the summary has them.
const RESERVED: &[&str] = &["summary.csv"];

/// The images among `given`: files as they are, and folders walked recursively in sorted order, skipping the masks
/// of a dataset. A file given twice is read once.
pub fn images(given: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let before = files.len();
            walk(path, &mut files)?;
            let masks = path.join(MASKS);
            // Skipped only in a dataset, which has its splits beside them; elsewhere masks are ordinary images.
            if Split::ALL.iter().any(|split| path.join(split.name()).is_dir()) {
                let found = files.split_off(before);
                files.extend(found.into_iter().filter(|file| !file.starts_with(&masks)));
            }
        } else {
            check_there("--image ", path)?;
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        let places: Vec<_> = given.iter().map(|path| path.display().to_string()).collect();
        let kinds = ENDINGS.join(", ");
        refuse!("--image {}: contains no image ({kinds})", places.join(" "));
    }
    Ok(name(files, RESERVED))
}

/// The probe files `given`, those in a folder, and the best ones of a run. A file given twice is read once.
pub fn probes(given: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    given.iter().try_for_each(|path| check_there("--probe ", path))?;
    Ok(name(probe_files(given)?, &[]))
}

/// The files `given`, each once, with the probes in a folder, or the best ones of a run, in place of the folder.
pub fn probe_files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let (folder, run) = open::probe_folder(path);
        let ending = if run { open::BEST } else { ".safetensors" };
        let unread = || format!("--probe {}: the folder cannot be read", folder.display());
        let mut found = open::probe_files(&folder).with_context(unread)?;
        found.retain(|file| !run || file.to_string_lossy().ends_with(ending));
        if found.is_empty() {
            refuse!("--probe {}: contains no probe (*{ending})", path.display());
        }
        files.extend(found);
    }
    Ok(distinct(files))
}

/// Appends the images in `folder` and below.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let mut failed = None;
    let mut found = |path| {
        files.push(path);
        ControlFlow::Continue(())
    };
    let mut unread = |path: &Path, error| {
        let said = format!("{}: the folder cannot be read", path.display());
        failed = Some(anyhow::Error::new(error).context(said));
        ControlFlow::Break(())
    };
    let _ = images_below(folder, &mut found, &mut unread);
    failed.map_or(Ok(()), Err)
}

/// The files without those that were given before, by whatever path.
fn distinct(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    files.into_iter().filter(|path| seen.insert(path.canonicalize().unwrap_or(path.clone()))).collect()
}

/// Drops repeated files and names the others; see [`stems`].
fn name(files: Vec<PathBuf>, reserved: &[&str]) -> Vec<Source> {
    let fresh = distinct(files);
    let stems = stems(fresh.iter().map(PathBuf::as_path), reserved);
    fresh.into_iter().zip(stems).map(|(path, stem)| Source { path, stem }).collect()
}

/// The stem of every file, which names its results, made distinct by [`numbered`].
pub fn stems<'a>(files: impl Iterator<Item = &'a Path>, reserved: &[&str]) -> Vec<String> {
    numbered(files.map(stem), reserved)
}

/// The names, made distinct from each other and from `reserved`, ignoring case, by appending `-2`, `-3`, ...
pub fn numbered(names: impl Iterator<Item = String>, reserved: &[&str]) -> Vec<String> {
    let mut taken: HashSet<String> = reserved.iter().map(|name| (*name).to_owned()).collect();
    names.map(|own| format::distinct(&own, |name| !taken.insert(name.to_lowercase()))).collect()
}

/// The file name without its extension; never a relative path component (`...png` has the stem `..`).
fn stem(path: &Path) -> String {
    let part = |part: Option<&std::ffi::OsStr>| part.map(|name| name.to_string_lossy().into_owned());
    match part(path.file_stem()) {
        Some(stem) if !stem.chars().all(|c| c == '.') => stem,
        _ => part(path.file_name()).unwrap_or_else(|| "image".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(paths: &[&str]) -> Vec<String> {
        let files = paths.iter().map(PathBuf::from).collect();
        name(files, RESERVED).into_iter().map(|source| source.stem).collect()
    }

    #[test]
    fn equal_stems_are_numbered_and_none_is_used_twice() {
        let paths = ["x/cat.png", "y/cat.jpg", "z/cat-2.png", "y/Cat.gif", "x/cat.png", "summary.csv.png"];
        assert_eq!(named(&paths), ["cat", "cat-2", "cat-2-2", "Cat-3", "summary.csv-2"]);
    }

    #[test]
    fn the_masks_of_a_dataset_are_no_photographs() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["val/cat/a.png", "masks/val/cat/a.png"] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "any").unwrap();
        }
        let found = |given: &Path| images(&[given.to_owned()]).unwrap().len();
        assert_eq!((found(folder.path()), found(&folder.path().join("masks"))), (1, 1));
    }

    #[test]
    fn a_file_that_several_paths_lead_to_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let direct = folder.path().join("cat.png");
        std::fs::write(&direct, "any").unwrap();
        let found =
            images(&[direct.clone(), folder.path().join("sub/../cat.png"), folder.path().into()]).unwrap();
        let found: Vec<_> = found.into_iter().map(|source| (source.path, source.stem)).collect();
        assert_eq!(found, [(direct, "cat".to_owned())]);
    }

    #[test]
    fn no_stem_leaves_the_output_folder() {
        assert_eq!(named(&["a/...png", "a/..png"]), ["...png", "..png"]);
    }
}
