//! Which files are read, and what their results are called.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::super::fault::Usage;

/// Extensions of files a folder is searched for.
const EXTENSIONS: &[&str] = &["bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp"];
/// Names of results that the summary needs for itself.
const RESERVED: &[&str] = &["summary.csv"];

/// A file to read, and the name of its results: its stem, unless another has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as it was given or found.
    pub path: PathBuf,
    /// What its results are called.
    pub stem: String,
}

/// The images among `given`: files as they are, folders walked in sorted order. A file given twice
/// is read once.
pub fn images(given: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            walk(path, &mut files)?;
        } else if path.exists() {
            files.push(path.clone());
        } else {
            return Err(Usage(format!("--image {}: no such file or folder", path.display())).into());
        }
    }
    if files.is_empty() {
        let places: Vec<_> = given.iter().map(|path| path.display().to_string()).collect();
        let kinds = EXTENSIONS.join(", ");
        return Err(Usage(format!("--image {}: no image in there ({kinds})", places.join(" "))).into());
    }
    Ok(name(files, RESERVED))
}

/// The probe files `given`. A file given twice is read once.
pub fn probes(given: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    if let Some(path) = given.iter().find(|path| !path.is_file()) {
        return Err(Usage(format!("--probe {}: no such file", path.display())).into());
    }
    Ok(name(given.to_vec(), &[]))
}

/// Appends the images in `folder` and below. Hidden entries are skipped, and so are links to
/// folders, which may lead in circles.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let context = || format!("{}: the folder cannot be read", folder.display());
    let entries = std::fs::read_dir(folder).with_context(context)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(context)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type().with_context(context)?.is_dir() {
            walk(&path, files)?;
        } else if is_image(&path) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    extension.is_some_and(|e| EXTENSIONS.contains(&e.as_str()))
}

/// Names every file by its stem; `-2`, `-3`, ... for a stem that is taken, whatever its case.
fn name(files: Vec<PathBuf>, reserved: &[&str]) -> Vec<Source> {
    let mut taken: HashSet<String> = reserved.iter().map(|name| (*name).to_owned()).collect();
    let mut seen = HashSet::new();
    let fresh = files.into_iter().filter(|path| seen.insert(path.canonicalize().unwrap_or(path.clone())));
    fresh
        .collect::<Vec<_>>()
        .into_iter()
        .map(|path| {
            let own = stem(&path);
            let numbered = (2..).map(|number| format!("{own}-{number}"));
            let stem = std::iter::once(own.clone())
                .chain(numbered)
                .find(|name| taken.insert(name.to_lowercase()))
                .expect("an endless supply of names");
            Source { path, stem }
        })
        .collect()
}

/// The file name without its extension; never one that leads elsewhere (`...png` has the stem `..`).
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
    fn no_stem_leaves_the_output_folder() {
        assert_eq!(named(&["a/...png", "a/..png"]), ["...png", "..png"]);
    }
}
