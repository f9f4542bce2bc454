//! Finds images below a folder or by their names in a dataset, and tells probes and workspaces by their file names.

use std::io::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::model::data::image::is_named_image;

/// Whether a path has the extension of a probe (`.safetensors`).
pub fn is_probe(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"))
}

pub const WORKSPACE_EXTENSION: &str = "ssmprobe";

/// Whether a path has the extension of a workspace.
pub fn is_workspace(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(WORKSPACE_EXTENSION))
}

/// The index of the image `asked` among the `names` of a dataset: by its whole name, else by the end of one name alone, or by a path
/// that ends with one. The end begins after a `/`, and a name without a folder may be that of another image than the path's.
///
/// # Errors
/// If `whose` images have no such name, or several.
pub fn image_named(names: &[String], asked: &str, whose: &str) -> Result<usize, String> {
    if let Some(at) = names.iter().position(|name| name == asked) {
        return Ok(at);
    }
    let matches = |(_, name): &(usize, &String)| {
        let ends_so = name.strip_suffix(asked).is_some_and(|rest| rest.ends_with('/'));
        ends_so || name.contains('/') && Path::new(asked).ends_with(name)
    };
    let mut found = names.iter().enumerate().filter(matches);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => Ok(at),
        (Some((_, one)), Some((_, other))) => Err(format!(
            "--image {asked}: {whose} has several, such as {one} and {other}; give more of the name"
        )),
        (None, _) => {
            let (some, all) = (names[..names.len().min(3)].join(", "), names.len());
            Err(format!("--image {asked}: {whose} has no such image; its {all} images begin with {some}"))
        }
    }
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
    fn an_image_is_named_by_the_end_of_its_name_or_by_its_path() {
        let names = ["val/cat/1.png", "val/dog/1.png", "val/dog/11.png"].map(str::to_owned);
        for (asked, at) in
            [("val/dog/1.png", 1), ("dog/1.png", 1), ("../my photos/val/dog/1.png", 1), ("11.png", 2)]
        {
            assert_eq!(image_named(&names, asked, "the run"), Ok(at), "{asked}");
        }
        for (asked, said) in [
            ("1.png", "several, such as val/cat/1.png and val/dog/1.png"),
            ("og/1.png", "its 3 images begin"),
        ] {
            let refused = image_named(&names, asked, "the run").unwrap_err();
            assert!(refused.contains(said), "{asked}: {refused}");
        }
    }

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
