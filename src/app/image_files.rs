//! The walk that finds images, and which files are probes, by their names.

use std::io::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::model::data::image::is_named_image;

/// Whether a file is a probe, by its name.
pub fn is_probe(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
}

/// Hands the images in `folder` and below to `found`, in sorted order. Hidden entries are skipped,
/// and so are links to folders, which may lead in circles. `unread` is told of a folder below that
/// cannot be read; the walk goes on unless it breaks.
pub fn images_below(
    folder: &Path,
    found: &mut dyn FnMut(PathBuf) -> ControlFlow<()>,
    unread: &mut dyn FnMut(&Path, Error) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let listed = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = match listed {
        Ok(entries) => entries,
        Err(error) => return unread(folder, error),
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => images_below(&path, found, unread)?,
            Ok(kind) if is_named_image(&path) && (kind.is_file() || path.is_file()) => found(path)?,
            Ok(_) => {}
            Err(error) => unread(&path, error)?,
        }
    }
    ControlFlow::Continue(())
}
