//! Paths from a folder to what lies below it or beside it: a project that moves takes them along.

use std::path::{Component, Path, PathBuf};

/// Names from the root that two paths have to share for one to be told from the other: less is the same
/// disk and no project.
const SHARED: usize = 2;

/// The way from `folder` to `path`, both absolute; `path` itself where the two have little in common.
pub(super) fn to(folder: &Path, path: &Path) -> PathBuf {
    if let Ok(below) = path.strip_prefix(folder) {
        return below.to_owned();
    }
    let shared = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let names = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if folder.components().take(shared).filter(names).count() < SHARED {
        return path.to_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// The place to which the way `path` leads from `folder`; a `..` takes back the name before it.
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
            let told = to(folder, Path::new(path));
            assert_eq!(told, Path::new(expected));
            let found = if told.is_absolute() { told } else { joined(folder, &told) };
            assert_eq!(found, Path::new(path));
        }
        assert_eq!(joined(Path::new(""), Path::new("../b")), Path::new("../b"));
    }
}
