//! Reading folders and text files, in a fixed order and up to fixed sizes and depths.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::{DataError, Watch, first_names};
use crate::model::data::image::{is_named_image, looks_like_image};
use crate::model::io::atomic_file;

/// Largest list or annotation file read, in bytes.
const TEXT_LIMIT: u64 = 1 << 28;
/// A folder of more entries holds images or classes, not the parts of a dataset.
const MAX_ENTRIES: usize = 100;
/// How deep folders inside a class folder are followed.
const MAX_DEPTH: usize = 8;

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DataError + '_ {
    |source| DataError::Read { path: path.into(), source }
}

/// Tells `watch` how many images of the dataset at `root` are found; an error if that stops the listing.
pub(super) fn tell(watch: &mut Watch<'_>, found: usize, root: &Path) -> Result<(), DataError> {
    if watch(found).is_break() { Err(DataError::Stopped { path: root.into() }) } else { Ok(()) }
}

/// The paths in a folder, sorted by name, and whether each is a folder; names that begin with a dot are left out. Only links are
/// looked at one by one: on a network file system, that takes minutes for a million images.
pub(super) fn listed(folder: &Path) -> Result<Vec<(PathBuf, bool)>, DataError> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let is_folder = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => path.is_dir(),
        };
        out.push((path, is_folder));
    }
    out.sort();
    Ok(out)
}

/// The paths in a folder, as [`listed()`].
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    Ok(listed(folder)?.into_iter().map(|(path, _)| path).collect())
}

/// The folders in a folder, sorted by name.
pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    Ok(listed(folder)?.into_iter().filter_map(|(path, is_folder)| is_folder.then_some(path)).collect())
}

/// An error if a link in a folder leads nowhere and `may_count`: what it stands for may be on a disk that is not there, and the
/// dataset would silently lack it. One that is named as an image is counted among these.
pub(super) fn check_links(folder: &Path, may_count: impl Fn(&Path) -> bool) -> Result<(), DataError> {
    let rest = listed(folder)?.into_iter().filter(|(path, is_folder)| !is_folder && !is_named_image(path));
    for (path, _) in rest.filter(|(path, _)| may_count(path) && path.is_symlink()) {
        if let Err(why) = path.metadata() {
            let why =
                format!("is a link that leads nowhere ({why}); mount the disk it leads to, or remove it");
            return Err(DataError::file(&path, why));
        }
    }
    Ok(())
}

/// Extensions of archives.
const ARCHIVES: [&str; 6] = ["zip", "tar", "gz", "tgz", "zst", "7z"];

/// What to do with a dataset as Hugging Face's `datasets` saves it, in whose `DatasetDict` only the splits have `to_parquet`.
const NOT_PARQUET: &str =
    "; in Python, write every split to a file such as train.parquet with to_parquet, not save_to_disk";

/// What a path that was taken for a dataset holds, for an error.
pub(super) fn contents(path: &Path) -> String {
    if path.is_file() {
        let ending = path.extension().unwrap_or_default();
        let is_archive = ARCHIVES.iter().any(|known| ending.eq_ignore_ascii_case(known));
        return if is_archive { "it is an archive: unpack it" } else { "it is a file" }.to_owned();
    }
    let (folders, files): (Vec<_>, Vec<_>) =
        listed(path).unwrap_or_default().into_iter().partition(|(_, is_folder)| *is_folder);
    let (images, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| is_named_image(path));
    let others: Vec<String> = others.iter().map(|(path, _)| name(path)).collect();
    let is_arrow = others.iter().any(|name| name == "dataset_dict.json" || name.ends_with(".arrow"));
    let arrow = if is_arrow { NOT_PARQUET } else { "" };
    let others =
        if others.is_empty() { String::new() } else { format!(", other files: {}", first_names(&others)) };
    format!("images directly in it: {}, folders: {}{others}{arrow}", images.len(), folders.len())
}

/// The last part of a path.
pub(super) fn name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// Extensions of raw photographs, which begin as a TIFF does and often lie beside the same picture as JPEG.
const RAW: [&str; 12] = ["3fr", "arw", "cr2", "dng", "erf", "iiq", "kdc", "mef", "nef", "nrw", "pef", "srw"];

/// Whether a file counts as an image: by its extension, or if that is unknown by its first bytes.
pub(super) fn is_image(path: &Path) -> bool {
    if is_named_image(path) {
        return true;
    }
    if path.extension().is_some_and(|ending| RAW.iter().any(|raw| ending.eq_ignore_ascii_case(raw))) {
        return false;
    }
    let mut start = Vec::with_capacity(16);
    let read = path.is_file().then(|| fs::File::open(path).ok()).flatten();
    read.is_some_and(|file| file.take(16).read_to_end(&mut start).is_ok() && looks_like_image(&start))
}

/// What is left out below the folders of classes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Number of files that are no images.
    pub files: usize,
    /// Folders that are not followed.
    folders: Vec<String>,
}

impl LeftOut {
    /// A note on the folders.
    pub(super) fn note(&self) -> Option<String> {
        let (count, names) = (self.folders.len(), first_names(&self.folders));
        (count > 0).then(|| {
            format!("links to folders, and folders more than {MAX_DEPTH} deep, in those of classes were left out: {count} ({names})")
        })
    }
}

/// The images below a folder, sorted by path; adds what else is there to `left_out`. Links to folders are not followed: they might
/// form a cycle.
pub(super) fn images(folder: &Path, left_out: &mut LeftOut) -> Result<Vec<PathBuf>, DataError> {
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for (path, is_folder) in listed(&folder)? {
            if is_folder {
                match depth < MAX_DEPTH && !path.is_symlink() {
                    true => folders.push((path, depth + 1)),
                    false => left_out.folders.push(path.display().to_string()),
                }
            } else if is_image(&path) {
                found.push(path);
            } else {
                left_out.files += 1;
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The first file or folder for which `wanted` holds, in `folder` or at most `depth` folders deeper,
/// the shallowest first. Subfolders of a folder of over [`MAX_ENTRIES`] entries are not searched.
pub(in crate::model) fn find(folder: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut level = vec![folder.to_path_buf()];
    for _ in 0..=depth {
        let mut next = Vec::new();
        for folder in &level {
            let inside = listed(folder).unwrap_or_default();
            if let Some((found, _)) = inside.iter().find(|(path, _)| wanted(path)) {
                return Some(found.clone());
            }
            if inside.len() <= MAX_ENTRIES {
                next.extend(inside.into_iter().filter_map(|(path, is_folder)| is_folder.then_some(path)));
            }
        }
        level = next;
    }
    None
}

/// [`find`] by a name, ignoring ASCII case.
pub(in crate::model) fn find_named(folder: &Path, depth: usize, wanted: &str) -> Option<PathBuf> {
    find(folder, depth, &|path| name(path).eq_ignore_ascii_case(wanted))
}

/// The bytes of a list or annotation file.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    if !path.is_file() {
        let why = "is missing or not a regular file; it is in the dataset's archive";
        return Err(DataError::file(path, why));
    }
    atomic_file::read(path, TEXT_LIMIT).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            DataError::file(path, format!("is larger than {TEXT_LIMIT} bytes, too large for a list"))
        }
        _ => failed(path)(error),
    })
}

/// The text of a list, without a byte-order mark.
pub(in crate::model) fn text(path: &Path) -> Result<String, DataError> {
    decoded(path, bytes(path)?)
}

/// The lines of a text that are not blank, each with its number, from 1.
pub(in crate::model) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1_usize..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// The first line of a list, cut at 64 KiB, so that detecting a layout does not read whole files.
pub(super) fn first_line(path: &Path) -> Result<String, DataError> {
    let mut start = atomic_file::start(path, 64 << 10).map_err(failed(path))?;
    let end = start.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    start.truncate(end.unwrap_or(start.len()));
    decoded(path, start)
}

fn decoded(path: &Path, bytes: Vec<u8>) -> Result<String, DataError> {
    let text = String::from_utf8(bytes);
    let text =
        text.map_err(|error| DataError::file(path, format!("is not UTF-8 text: {error}; save it as UTF-8")))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// `folder` joined with a path that a list names; `None` if that would leave the folder.
pub(super) fn below(folder: &Path, relative: &str) -> Option<PathBuf> {
    let relative = Path::new(relative);
    let inside = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (inside && !relative.as_os_str().is_empty()).then(|| folder.join(relative))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn links_count_as_what_they_lead_to() {
        use super::{LeftOut, folders, fs, images, listed};
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("b")).unwrap();
        for name in ["a.png", ".hidden.png"] {
            fs::File::create(at(name)).unwrap();
        }
        for (to, name) in [("b", "c"), ("a.png", "d.png"), ("nothing", "e")] {
            symlink(at(to), at(name)).unwrap();
        }
        let expected = [("a.png", false), ("b", true), ("c", true), ("d.png", false), ("e", false)];
        assert_eq!(listed(folder.path()).unwrap(), expected.map(|(name, is_folder)| (at(name), is_folder)));
        assert_eq!(folders(folder.path()).unwrap(), [at("b"), at("c")]);
        let mut left_out = LeftOut::default();
        assert_eq!(images(folder.path(), &mut left_out).unwrap(), [at("a.png"), at("d.png")]);
        assert_eq!(left_out, LeftOut { files: 1, folders: vec![at("c").display().to_string()] });
        assert!(left_out.note().is_some_and(|note| note.starts_with("links to folders")));
    }
}
