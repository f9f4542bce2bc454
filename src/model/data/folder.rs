//! The layout of torchvision's ImageFolder: one folder per class, named after it, either under
//! `train`, `val` and `test`, or directly in the dataset's folder; then the split is made here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::image::is_named_image;
use super::walk::LeftOut;
use super::{
    DataError, Dataset, Layout, MASKS, Split, UNTRAINABLE, Watch, first_names, several_classes, walk,
};

pub(super) const LAYOUT: Layout = Layout {
    id: "folder",
    what: "any of train/CLASS/IMAGE, val/CLASS/IMAGE, test/CLASS/IMAGE",
    recognise: |path| {
        splits(path).iter().any(|(_, folder)| walk::folders(folder).is_ok_and(|inside| !inside.is_empty()))
    },
    read: read_splits,
    official: false,
    splits: "put some under train/CLASS or test/CLASS",
};

pub(super) const SPLIT_HERE: Layout = Layout {
    id: "classes",
    what: "CLASS/IMAGE (two or more classes; part of each is held out)",
    recognise: |path| {
        let folders = walk::folders(path).unwrap_or_default();
        // Beside other classes, `train` is one of them: the vehicle of CIFAR-100 and COCO.
        splits(path).iter().all(|(split, _)| *split == Split::Train)
            && folders
                .iter()
                .filter(|class| Split::from_word(&walk::name(class)).is_none())
                .filter(|class| walk::find(class, 1, &|p| p.is_file() && walk::is_image(p)).is_some())
                .take(2)
                .count()
                == 2
    },
    read: read_classes,
    official: false,
    splits: "put more into the folders of the classes",
};

pub(super) fn splits(root: &Path) -> Vec<(Split, PathBuf)> {
    let folders = walk::folders(root).unwrap_or_default();
    folders.into_iter().filter_map(|path| Some((Split::from_word(&walk::name(&path))?, path))).collect()
}

fn read_splits(root: &Path, watch: &mut Watch<'_>) -> Result<Dataset, DataError> {
    walk::check_links(root, |path| Split::from_word(&walk::name(path)).is_some())?;
    let splits = splits(root);
    let mut dataset = gather(root, LAYOUT.id, &splits, watch)?;
    for (split, folder) in &splits {
        let inside = walk::listed(folder)?;
        let loose = inside.iter().filter(|(path, is_folder)| !is_folder && walk::is_image(path)).count();
        if loose > 0 {
            let note = format!("images in {} outside class folders were left out: {loose}", folder.display());
            dataset.notes.push(note);
        }
        if loose == 0 && dataset.count(*split) == 0 {
            dataset.notes.push(format!("{} contains no images", folder.display()));
        }
    }
    let is_other =
        |path: &PathBuf| Split::from_word(&walk::name(path)).is_none() && walk::name(path) != MASKS;
    let mut others: Vec<PathBuf> = walk::folders(root)?.into_iter().filter(is_other).collect();
    let trains = dataset.count(Split::Train) > 0;
    if trains {
        others.retain(|other| walk::find(other, 2, &is_named_image).is_some());
    }
    let names = first_names(&others.iter().map(|other| walk::name(other)).collect::<Vec<_>>());
    match (trains, names.as_str()) {
        (true, "") => {}
        (true, names) => {
            let note = format!(
                "folders with images that are called neither train, val nor test were left out: {names}"
            );
            dataset.notes.push(note);
        }
        (false, "") => dataset.notes.push(format!("there are no training images: {UNTRAINABLE}")),
        (false, names) => dataset.notes.push(format!(
            "there are no training images, which lie in `train` (other folders: {names}): {UNTRAINABLE}"
        )),
    }
    Ok(dataset)
}

/// The names of the folders in the folder of a class that hold `images` of it.
fn inner(class: &Path, images: &[PathBuf]) -> BTreeSet<String> {
    let inner = |image: &PathBuf| {
        let above = image.strip_prefix(class).ok()?.parent()?;
        above.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned())
    };
    images.iter().filter_map(inner).collect()
}

/// Whether a folder among those of the classes holds the masks of their images, in folders of the same names.
fn holds_masks(class: &Path, among: &Path) -> bool {
    let is_class = |inner: &PathBuf| among.join(walk::name(inner)).is_dir();
    walk::name(class) == MASKS && walk::folders(class).is_ok_and(|inside| inside.iter().any(is_class))
}

fn read_classes(root: &Path, watch: &mut Watch<'_>) -> Result<Dataset, DataError> {
    let mut dataset = gather(root, SPLIT_HERE.id, &[(Split::Train, root.into())], watch)?;
    if let Some(split) = dataset.classes.iter().find(|class| Split::from_word(class).is_some()) {
        let note = format!(
            "`{split}` was read as a class, like the folders beside it; if it is a split, put its images into folders of classes"
        );
        dataset.notes.push(note);
    }
    dataset.notes.extend(several_classes::note(root));
    Ok(dataset)
}

/// All images of the class folders in the folders of `splits`. A class is any folder with an image in it.
fn gather(
    root: &Path,
    layout: &'static str,
    splits: &[(Split, PathBuf)],
    watch: &mut Watch<'_>,
) -> Result<Dataset, DataError> {
    let (mut left_out, mut found, mut empty) = (LeftOut::default(), Vec::new(), Vec::new());
    // The folders that every class so far has.
    let mut shared: Option<BTreeSet<String>> = None;
    for (split, folder) in splits {
        walk::check_links(folder, |_| true)?;
        for class in walk::folders(folder)? {
            walk::tell(watch, found.len(), root)?;
            if holds_masks(&class, folder) {
                continue;
            }
            let images = walk::images(&class, &mut left_out)?;
            // Invalid bytes are all replaced by the same character, which could merge two classes.
            if !images.is_empty() && class.file_name().is_some_and(|name| name.to_str().is_none()) {
                let why = "is the folder of a class whose name is not UTF-8 text; rename it";
                return Err(DataError::file(&class, why));
            }
            if images.is_empty() {
                empty.push(class.display().to_string());
            } else if shared.as_ref().is_none_or(|shared| shared.len() > 1) {
                let own = inner(&class, &images);
                shared = Some(shared.map_or_else(|| own.clone(), |shared| &shared & &own));
            }
            found.extend(images.into_iter().map(|image| (walk::name(&class), *split, image)));
        }
    }
    let mut notes: Vec<String> = left_out.note().into_iter().collect();
    if !empty.is_empty() {
        let (count, names) = (empty.len(), first_names(&empty));
        notes.push(format!("folders without images were left out: {count} ({names})"));
    }
    let dataset = Dataset::from_images(root, layout, &[], found);
    let shared: Vec<String> = shared.into_iter().flatten().collect();
    // These may be severities, as in ImageNet-C, domains, or images and annotations.
    if dataset.classes.len() > 1 && shared.len() > 1 {
        let (classes, names) = (first_names(&dataset.classes), first_names(&shared));
        notes.push(format!(
            "every class ({classes}) has folders of the same names ({names}); if these are the classes, open one of the folders above them"
        ));
    }
    Ok(Dataset { skipped: left_out.files, notes, ..dataset })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir_all};
    use std::ops::ControlFlow;

    use crate::model::data::{DataError, open, open_watched};

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_in_that_of_a_class_is_told() {
        let root = tempfile::tempdir().unwrap();
        for class in ["cat", "dog"] {
            create_dir_all(root.path().join(class)).unwrap();
            File::create(root.path().join(class).join("0.png")).unwrap();
        }
        std::os::unix::fs::symlink("../dog", root.path().join("cat/more")).unwrap();
        let notes = open(root.path()).unwrap().notes;
        assert!(notes.iter().any(|note| note.contains("left out: 1") && note.contains("more)")), "{notes:?}");
    }

    #[test]
    fn a_class_may_be_called_train_and_no_other_split() {
        let classes = |folders: &[&str]| {
            let root = tempfile::tempdir().unwrap();
            for folder in folders {
                create_dir_all(root.path().join(folder)).unwrap();
                File::create(root.path().join(folder).join("0.png")).unwrap();
            }
            open(root.path()).map(|dataset| (dataset.layout, dataset.classes, dataset.notes))
        };
        let (layout, found, notes) = classes(&["train", "bus", "car"]).unwrap();
        assert!(notes.iter().any(|note| note.starts_with("`train` was read as a class")), "{notes:?}");
        assert_eq!((layout, &found[..]), ("classes", &["bus", "car", "train"].map(str::to_owned)[..]));
        let (layout, found, _) = classes(&["train/bus", "train/car", "bus", "car"]).unwrap();
        assert_eq!((layout, found.len()), ("folder", 2));
        for unlabelled in [&["train", "test"][..], &["train", "masks"], &["test", "bus", "car"]] {
            assert!(matches!(classes(unlabelled), Err(DataError::Layout { .. })), "{unlabelled:?}");
        }
    }

    #[test]
    fn folders_that_are_no_classes_or_splits_are_told() {
        let notes = |images: &[&str]| {
            let root = tempfile::tempdir().unwrap();
            for image in images.iter().map(|image| root.path().join(image)) {
                create_dir_all(image.parent().unwrap()).unwrap();
                File::create(image).unwrap();
            }
            open(root.path()).unwrap().notes.join("; ")
        };
        let severities = notes(&["1/cat/0.png", "1/dog/0.png", "1/owl/0.png", "3/cat/0.png", "3/dog/0.png"]);
        assert!(
            severities.contains("every class (1, 3) has folders of the same names (cat, dog)"),
            "{severities}"
        );
        for classes in [
            &["a/images/0.png", "b/images/0.png"][..], // of Tiny ImageNet
            &["a/left/0.png", "a/right/0.png", "b/0.png"],
            &["train/all/left/0.png", "train/all/right/0.png"],
        ] {
            assert!(!notes(classes).contains("same names"), "{classes:?}");
        }
        let unsplit = notes(&["train_mini/a/0.png", "val/a/0.png"]);
        assert!(unsplit.contains("which lie in `train` (other folders: train_mini): probes"), "{unsplit}");
        assert!(notes(&["val/a/0.png", "masks/a/0.png"]).contains("no training images: probes"));
        let unread =
            notes(&["train/a/0.png", "train/b/0.png", "dev/a/0.png", "masks/a/0.png", "lists/a.txt"]);
        assert!(unread.contains("neither train, val nor test were left out: dev; no split"), "{unread}");
    }

    #[cfg(unix)]
    #[test]
    fn a_class_or_a_split_on_a_disk_that_is_not_there_is_missed() {
        for (link, there) in [("train/cat", true), ("cat", true), ("val", true), ("notes", false)] {
            let root = tempfile::tempdir().unwrap();
            // Folders of classes directly in the dataset's, or in that of a split.
            let split = if link == "cat" { "" } else { "train" };
            for class in ["dog", "owl"].map(|class| root.path().join(split).join(class)) {
                create_dir_all(&class).unwrap();
                File::create(class.join("0.png")).unwrap();
                std::os::unix::fs::symlink("/not-there/1.png", class.join("1.png")).unwrap();
            }
            std::os::unix::fs::symlink("/not-there", root.path().join(link)).unwrap();
            match open(root.path()) {
                Ok(dataset) => assert!(!there && dataset.classes.len() == 2, "{link}: {:?}", dataset.classes),
                Err(refused) => {
                    let refused = refused.to_string();
                    assert!(
                        there && refused.contains(link) && refused.contains("leads nowhere"),
                        "{refused}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_listing_tells_how_many_images_it_has_found_and_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        for class in ["a", "b", "c"] {
            let class = folder.path().join("train").join(class);
            create_dir_all(&class).unwrap();
            File::create(class.join("0.png")).unwrap();
        }
        let mut told = Vec::new();
        let all = open_watched(folder.path(), &mut |found| {
            told.push(found);
            ControlFlow::Continue(())
        });
        assert_eq!((all.unwrap().samples.len(), told), (3, vec![0, 1, 2]));
        let stopped = open_watched(folder.path(), &mut |found| {
            if found == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(matches!(stopped, Err(DataError::Stopped { .. })));
    }
}
