//! Datasets whose images have several classes each, where a probe is trained on one: PASCAL VOC and COCO as distributed. Their folders
//! of images lie side by side as those of classes do.

use std::path::Path;

use super::walk;

/// A folder of more folders holds classes.
const MAX_FOLDERS: usize = 16;

/// The name of such a dataset in `folder`.
fn known(folder: &Path) -> Option<&'static str> {
    // Not by its entries: a class may have a million images.
    let has = |name: &str| folder.join(name).is_dir();
    let of_year = |split: &str| ["2014", "2017"].iter().any(|year| has(&format!("{split}{year}")));
    if has("JPEGImages") && (has("Annotations") || has("ImageSets")) {
        return Some("PASCAL VOC");
    }
    (has("annotations") && (of_year("train") || of_year("val"))).then_some("COCO")
}

/// A note on folders that were read as classes, if those in `root`, or in one of them, are of such a dataset.
pub(super) fn note(root: &Path) -> Option<String> {
    let inside = walk::folders(root).ok().filter(|inside| inside.len() <= MAX_FOLDERS)?;
    let name = std::iter::once(root).chain(inside.iter().map(|inner| &**inner)).find_map(known)?;
    Some(format!(
        "these are the folders of {name}, read as classes, which they are not: its images have several classes each, and a probe is \
         trained on one; list each image with one class in a table with the columns path, label and split, and open that"
    ))
}
