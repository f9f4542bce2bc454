//! Which columns of a Parquet file hold images and labels, and the names of the classes. Hugging Face stores a
//! description of the columns under the key `huggingface`; without it they are recognised by their types and names.

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use serde_json::Value;

/// Names of image columns, the most likely first.
const IMAGES: [&str; 5] = ["image", "img", "picture", "photo", "jpg"];
/// Names of label columns, the most likely first.
const LABELS: [&str; 7] = ["label", "labels", "class", "fine_label", "category", "cls", "target"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// Leaf column of the images' bytes.
    pub image: usize,
    /// Leaf column of the labels.
    pub label: usize,
    /// Name of the labels' column.
    pub label_name: String,
    /// Names of the classes by number, if the file has them.
    pub names: Option<Vec<String>>,
    /// Other columns that hold labels.
    pub others: Vec<String>,
}

/// Whether any column holds images: a table of results, for example, has none.
pub(super) fn has_images(metadata: &ParquetMetaData) -> bool {
    !images(metadata, features(metadata).as_ref()).is_empty()
}

pub(super) fn find(metadata: &ParquetMetaData) -> Result<Columns, String> {
    let schema = metadata.file_metadata().schema_descr();
    let features = features(metadata);
    let labels = schema.columns().iter().enumerate().filter_map(|(at, leaf)| {
        let [column] = leaf.path().parts() else { return None };
        let known = match leaf.physical_type() {
            Type::INT32 | Type::INT64 | Type::BOOLEAN => true,
            Type::BYTE_ARRAY => is_text(leaf),
            _ => false,
        };
        let declared = is_feature(features.as_ref(), column, "ClassLabel");
        let label = declared == Some(true) || LABELS.contains(&column.as_str());
        (known && is_flat(leaf) && label).then(|| (at, column.clone()))
    });
    let leaves = || schema.columns().iter().map(|leaf| leaf.path().string()).collect::<Vec<_>>().join(", ");
    let (image, _) = best(images(metadata, features.as_ref()), &IMAGES).ok_or_else(|| {
        format!("no image column: expected a structure with `bytes`, or bytes; found {}", leaves())
    })?;
    let labels: Vec<(usize, String)> = labels.collect();
    let (label, label_name) = best(labels.clone(), &LABELS).ok_or_else(|| {
        format!("no label column: expected `label` with numbers or text; found {}", leaves())
    })?;
    let names = features.as_ref().and_then(|all| {
        let names = all.get(&label_name)?.get("names")?.as_array()?;
        names.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
    });
    let others = labels.into_iter().filter(|(at, _)| *at != label).map(|(_, name)| name).collect();
    Ok(Columns { image, label, label_name, names, others })
}

/// Leaf columns that may hold images, and the names of their columns.
fn images(metadata: &ParquetMetaData, features: Option<&Value>) -> Vec<(usize, String)> {
    let leaves = metadata.file_metadata().schema_descr().columns().iter().enumerate();
    let image = |(at, leaf): (usize, &ColumnDescPtr)| {
        let parts = leaf.path().parts();
        let holds_bytes = leaf.physical_type() == Type::BYTE_ARRAY && is_flat(leaf);
        let image = match parts {
            [column, part] => part == "bytes" && is_feature(features, column, "Image").unwrap_or(true),
            [column] => is_feature(features, column, "Image").unwrap_or(!is_text(leaf)),
            _ => false,
        };
        (holds_bytes && image).then(|| (at, parts[0].clone()))
    };
    leaves.filter_map(image).collect()
}

/// Whether Hugging Face's description gives a column the feature type `kind`; `None` if it gives none.
fn is_feature(features: Option<&Value>, column: &str, kind: &str) -> Option<bool> {
    Some(features?.get(column)?.get("_type")?.as_str()? == kind)
}

fn is_flat(leaf: &ColumnDescriptor) -> bool {
    leaf.max_rep_level() == 0
}

/// The candidate whose name comes first in `names`; else the first candidate.
fn best(candidates: Vec<(usize, String)>, names: &[&str]) -> Option<(usize, String)> {
    let rank = |name: &str| names.iter().position(|known| *known == name).unwrap_or(names.len());
    candidates.into_iter().min_by_key(|(at, name)| (rank(name), *at))
}

fn is_text(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.logical_type_ref(), Some(LogicalType::String))
        || leaf.converted_type() == ConvertedType::UTF8
}

/// The columns as Hugging Face's description declares them, by name.
fn features(metadata: &ParquetMetaData) -> Option<Value> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let text = pairs.iter().find(|pair| pair.key == "huggingface")?.value.as_deref()?;
    let mut description: Value = serde_json::from_str(text).ok()?;
    Some(description.get_mut("info")?.get_mut("features")?.take())
}

#[cfg(test)]
mod tests {
    use super::{LABELS, best};

    #[test]
    fn of_several_columns_the_likeliest_name_counts_and_of_equals_the_first() {
        let columns =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).enumerate().collect::<Vec<_>>();
        let found = |names: &[&str]| best(columns(names), &LABELS).map(|(at, _)| at);
        assert_eq!(found(&["target", "fine_label", "label"]), Some(2));
        assert_eq!(found(&["coarse_label", "fine_label"]), Some(1));
        assert_eq!(found(&["shape", "colour"]), Some(0));
        assert_eq!(found(&[]), None);
    }
}
