//! The boxes of Stanford Cars (Krause et al. 2013): `cars_train_annos.mat` and `cars_test_annos.mat` of its devkit hold the
//! corners of one box per image, in pixels counted from 1, both inclusive.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Annotations, BOX, BOX_NUMBER, Marks, Shape};
use crate::model::backbone::preprocess::Rect;
use crate::model::data::cars::{DEPTH, has_devkit, variable};
use crate::model::data::mat::Value;
use crate::model::data::{DataError, walk};

const CORNERS: [&str; 4] = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"];

/// Whether a folder contains the devkit, in one of its usual places.
pub(super) fn is_there(root: &Path) -> bool {
    has_devkit(root, "cars_train_annos.mat")
}

/// Reads the boxes of the devkit in a folder; `None` if there is none.
pub(super) fn read(root: &Path) -> Result<Option<Annotations>, DataError> {
    if !is_there(root) {
        return Ok(None);
    }
    let mut marks = HashMap::<PathBuf, Marks>::new();
    for (folder, files) in [
        ("cars_train", &["cars_train_annos.mat"][..]),
        ("cars_test", &["cars_test_annos_withlabels.mat", "cars_test_annos.mat"]),
    ] {
        let found = files.iter().find_map(|name| walk::find_named(root, DEPTH, name));
        let Some(file) = found else { continue };
        let table = variable(&file, "annotations")?;
        let Value::Structs(_, elements) = &table else {
            return Err(DataError::file(&file, "`annotations` is not a structure array"));
        };
        for i in 0..elements.len() {
            let wrong = |what: &str| DataError::file(&file, format!("image {} has no {what}", i + 1));
            let name = table.field(i, "fname").and_then(Value::text).ok_or_else(|| wrong("file name"))?;
            let mut corners = [0.0; 4];
            for (corner, field) in corners.iter_mut().zip(CORNERS) {
                let found = table.field(i, field).and_then(Value::number).filter(|x| x.is_finite());
                *corner = found.ok_or_else(|| wrong(field))?;
            }
            let [x1, y1, x2, y2] = corners;
            if x2 < x1 || y2 < y1 {
                return Err(wrong("valid box: its second corner is before its first"));
            }
            let rect = Rect { x: x1 - 1.0, y: y1 - 1.0, width: x2 - x1 + 1.0, height: y2 - y1 + 1.0 };
            marks.insert(Path::new(folder).join(name), vec![(0, Shape::Box(rect))]);
        }
    }
    let names = vec![(BOX_NUMBER, BOX.to_owned())];
    Ok(Some(Annotations { names, marks, ..Annotations::default() }))
}
