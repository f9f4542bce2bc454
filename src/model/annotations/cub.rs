//! The annotations of CUB-200-2011 (Wah et al. 2011): `bounding_boxes.txt` (image, x, y, width, height), `parts/parts.txt` (part,
//! name), `parts/part_locs.txt` (image, part, x, y, visible); masks, from a separate archive, in `segmentations/`. In pixels.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::{Annotations, BOX, BOX_NUMBER, FIRST_NUMBER, Marks, Shape};
use crate::model::backbone::preprocess::Rect;
use crate::model::data::cub::list;
use crate::model::data::{DataError, walk};

const BOXES: &str = "bounding_boxes.txt";
const PARTS: &str = "parts/parts.txt";
const PART_LOCATIONS: &str = "parts/part_locs.txt";
const SEGMENTATIONS: &str = "segmentations";

/// Whether a folder is CUB's and has annotations.
pub(super) fn is_there(root: &Path) -> bool {
    root.join("images.txt").is_file()
        && ([BOXES, PART_LOCATIONS].iter().any(|name| root.join(name).is_file())
            || segmentations(root).is_some())
}

/// The folder of masks, in `root` or beside it.
fn segmentations(root: &Path) -> Option<PathBuf> {
    let beside = root.parent().map(|folder| folder.join(SEGMENTATIONS));
    [Some(root.join(SEGMENTATIONS)), beside].into_iter().flatten().find(|folder| folder.is_dir())
}

/// Reads the annotations of a folder; `None` if it is not CUB's.
pub(super) fn read(root: &Path) -> Result<Option<Annotations>, DataError> {
    if !is_there(root) {
        return Ok(None);
    }
    let images = list(&root.join("images.txt"))?;
    let (boxes, part_locations) = (root.join(BOXES), root.join(PART_LOCATIONS));
    let mut names = vec![(BOX_NUMBER, BOX.to_owned())];
    let (mut marks, mut unlisted) = (BTreeMap::<u64, Marks>::new(), 0);
    let mut add = |image: u64, mark| match images.contains_key(&image) {
        true => marks.entry(image).or_default().push(mark),
        false => unlisted += 1,
    };
    if boxes.is_file() {
        rows(&boxes, "an image, x, y, width and height", |[image, x, y, width, height]| {
            let (image, rect) = (whole(image)?, Rect { x, y, width, height });
            (width > 0.0 && height > 0.0).then(|| add(image, (0, Shape::Box(rect))))
        })?;
    }
    if part_locations.is_file() {
        let parts = list(&root.join(PARTS))?;
        let index: HashMap<u64, usize> = parts.keys().copied().zip(1..).collect();
        names.extend(parts.into_iter().map(|(number, (_, name))| {
            (FIRST_NUMBER.saturating_add(u32::try_from(number).unwrap_or(u32::MAX)), name)
        }));
        rows(
            &part_locations,
            "an image, a part of parts.txt, x, y, and 1 (visible) or 0",
            |[image, part, x, y, seen]| {
                let (image, part) = (whole(image)?, *index.get(&whole(part)?)?);
                if seen == 1.0 {
                    add(image, (part, Shape::Point(x, y)));
                }
                [0.0, 1.0].contains(&seen).then_some(())
            },
        )?;
    }
    let path = |image: &u64| PathBuf::from(images[image].1.as_str());
    let marks = marks.into_iter().map(|(image, marks)| (path(&image), marks)).collect();
    let masks = segmentations(root).map(|folder| (folder, HashMap::new()));
    Ok(Some(Annotations { masks, names, marks, unlisted }))
}

/// The number of an image or a part.
fn whole(x: f64) -> Option<u64> {
    (x >= 0.0 && x.fract() == 0.0).then_some(x as u64)
}

/// Calls `take` for every line of five numbers; a line for which it returns `None` is an error that says what was `expected`.
fn rows(file: &Path, expected: &str, mut take: impl FnMut([f64; 5]) -> Option<()>) -> Result<(), DataError> {
    for (at, line) in walk::lines(&walk::text(file)?) {
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        let row = numbers.and_then(|numbers| <[f64; 5]>::try_from(numbers).ok());
        let row = row.filter(|row| row.iter().all(|x| x.is_finite()));
        row.and_then(&mut take).ok_or_else(|| DataError::line(file, at, line, expected))?;
    }
    Ok(())
}
