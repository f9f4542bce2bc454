//! Finds images below a folder, and tells probes and workspaces by their file names.

use std::io::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::model::data::image::is_named_image;

/// Whether a path has the extension of a probe (`.safetensors`).
pub fn is_probe(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
}

/// The extension of workspace files.
pub const WORKSPACE_EXTENSION: &str = "ssmprobe";

/// Whether a path has the extension of a workspace.
pub fn is_workspace(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(WORKSPACE_EXTENSION))
}

/// Whether `path` ends with `name`, by which a dataset calls an image. A name without a folder may be that of another image there.
pub fn is_path_to(path: &str, name: &str) -> bool {
    name.contains('/') && Path::new(path).ends_with(name)
}

/// Passes every image in `folder` and below to `found`, in sorted order. Skips hidden entries, and symbolic links to
/// folders, which may form cycles. Calls `unread` for each entry that cannot be read. Stops as soon as a callback breaks.
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

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::model::io::atomic_file;

    #[test]
    fn links_to_images_are_images_and_links_to_folders_lead_nowhere() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        atomic_file::make_folder(&at("below")).unwrap();
        atomic_file::write(&at("below/a.png"), b"").unwrap();
        symlink(at("below/a.png"), at("link.png")).unwrap();
        symlink(folder.path(), at("below/circle")).unwrap();
        symlink(at("nothing"), at("torn.png")).unwrap();
        atomic_file::write(&at(".hidden.png"), b"").unwrap();
        assert!(fs::metadata(at("link.png")).unwrap().is_file());
        let mut found = Vec::new();
        let mut take = |path| {
            found.push(path);
            ControlFlow::Continue(())
        };
        let _ =
            images_below(folder.path(), &mut take, &mut |path, error| panic!("{}: {error}", path.display()));
        assert_eq!(found, [at("below/a.png"), at("link.png")]);
    }
}
