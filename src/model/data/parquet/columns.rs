//! Which columns of a Parquet file hold images and labels, and what its labels are called. Hugging
//! Face writes its own description under the key `huggingface`; without it the columns are known by
//! their types and names.

use serde_json::Value;

use super::metadata::{Kind, Leaf, Metadata};

/// Names of image columns, the likeliest first.
const IMAGES: [&str; 5] = ["image", "img", "picture", "photo", "jpg"];
/// Names of label columns, the likeliest first.
const LABELS: [&str; 7] = ["label", "labels", "class", "fine_label", "category", "cls", "target"];

/// What the columns of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// Leaf column of the images' bytes.
    pub image: usize,
    /// Leaf column of the labels.
    pub label: usize,
    /// Name of the labels' column.
    pub label_name: String,
    /// Names of the classes by number, where the file says them.
    pub names: Option<Vec<String>>,
    /// Other columns that hold labels.
    pub others: Vec<String>,
}

/// Finds them, or says why not.
pub(super) fn find(metadata: &Metadata) -> Result<Columns, String> {
    let features = features(metadata);
    let told = |column: &str, kind: &str| {
        features.as_ref().and_then(|all| all.get(column)?.get("_type")?.as_str()).map(|found| found == kind)
    };
    let image = |leaf: &Leaf| match &leaf.path[..] {
        [column, part] => part == "bytes" && told(column, "Image").unwrap_or(true),
        [column] => told(column, "Image").unwrap_or(!leaf.text),
        _ => false,
    };
    let label = |leaf: &Leaf| {
        let [column] = &leaf.path[..] else { return false };
        let known = matches!(leaf.kind, Kind::Int32 | Kind::Int64) || leaf.text;
        known && (told(column, "ClassLabel") == Some(true) || LABELS.contains(&column.as_str()))
    };
    let named = |wanted: &dyn Fn(&Leaf) -> bool| -> Vec<(usize, String)> {
        let found = metadata.leaves.iter().enumerate().filter(|(_, leaf)| !leaf.repeated && wanted(leaf));
        found.map(|(at, leaf)| (at, leaf.path[0].clone())).collect()
    };
    let images = named(&|leaf| leaf.kind == Kind::Bytes && image(leaf));
    let labels = named(&label);
    let leaves = || metadata.leaves.iter().map(|leaf| leaf.path.join(".")).collect::<Vec<_>>().join(", ");
    let (image, _) = best(images, &IMAGES).ok_or_else(|| {
        format!("no column holds images: expected a structure with `bytes`, or bytes; found {}", leaves())
    })?;
    let (label, label_name) = best(labels.clone(), &LABELS).ok_or_else(|| {
        format!("no column holds labels: expected `label` with numbers or text; found {}", leaves())
    })?;
    let names = features.as_ref().and_then(|all| {
        let names = all.get(&label_name)?.get("names")?.as_array()?;
        names.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
    });
    let others = labels.into_iter().filter(|(at, _)| *at != label).map(|(_, name)| name).collect();
    Ok(Columns { image, label, label_name, names, others })
}

/// The candidate with the likeliest name; the first where none has one.
fn best(candidates: Vec<(usize, String)>, names: &[&str]) -> Option<(usize, String)> {
    let rank = |name: &str| names.iter().position(|known| *known == name).unwrap_or(names.len());
    candidates.into_iter().min_by_key(|(at, name)| (rank(name), *at))
}

/// The columns by name, as Hugging Face describes them.
fn features(metadata: &Metadata) -> Option<Value> {
    let mut told: Value = serde_json::from_str(metadata.huggingface.as_deref()?).ok()?;
    Some(told.get_mut("info")?.get_mut("features")?.take())
}
