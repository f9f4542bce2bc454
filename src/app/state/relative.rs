//! Paths relative to a folder, for files below it or beside it: they stay valid when the whole project moves.

use std::path::{Component, Path, PathBuf};

/// Components below the root that two paths must share for a relative path: fewer mean one disk, but not one project.
const MIN_SHARED: usize = 2;

/// The relative path from `folder` to `path`, both absolute; `path` itself if they share less than [`MIN_SHARED`].
pub(super) fn to(folder: &Path, path: &Path) -> PathBuf {
    // A path from the command line may hold `..`, which is one step up less, not one more.
    let [folder, resolved] = [folder, path].map(|path| joined(Path::new(""), path));
    if let Ok(below) = resolved.strip_prefix(&folder) {
        return below.to_owned();
    }
    let shared = folder.components().zip(resolved.components()).take_while(|(a, b)| a == b).count();
    let names = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if folder.components().take(shared).filter(names).count() < MIN_SHARED {
        return path.to_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(resolved.components().skip(shared)).collect()
}

/// Joins a relative path to `folder`, resolving `.` and `..` by the names alone.
pub(super) fn joined(folder: &Path, path: &Path) -> PathBuf {
    let mut place = folder.to_owned();
    for part in path.components() {
        match part {
            Component::ParentDir if place.file_name().is_some() => _ = place.pop(),
            Component::CurDir => {}
            part => place.push(part),
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_or_beside_is_told_from_the_folder_and_found_again() {
        let folder = Path::new("/home/ann/project/paper");
        for (path, expected) in [
            ("/home/ann/project/paper/a/b.png", "a/b.png"),
            ("/home/ann/project/data/b.png", "../data/b.png"),
            ("/home/ann/runs/one", "../../runs/one"),
            ("/home/bob/runs/one", "/home/bob/runs/one"),
            ("/data/b.png", "/data/b.png"),
        ] {
            let relative = to(folder, Path::new(path));
            assert_eq!(relative, Path::new(expected));
            assert_eq!(to(Path::new("/home/ann/project/drafts/../paper"), Path::new(path)), relative);
            let found = if relative.is_absolute() { relative } else { joined(folder, &relative) };
            assert_eq!(found, Path::new(path));
        }
        assert_eq!(to(folder, Path::new("/home/ann/project/../project/paper/b.png")), Path::new("b.png"));
        assert_eq!(joined(Path::new(""), Path::new("../b")), Path::new("../b"));
    }
}
