//! Parquet datasets: files written by pyarrow, read row by row, and errors for broken ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ssmprobe::model::data::{Check, Dataset, Split, describe, open};
use ssmprobe::model::io::sha256;

use crate::run::root;

type Expected = BTreeMap<String, Vec<(serde_json::Value, Option<String>)>>;

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/parquet").join(name)
}

fn expected() -> Expected {
    crate::run::json(fixture("expected.json"))
}

/// File, row, label and SHA-256 of the image of every sample.
fn found(dataset: &Dataset) -> Vec<(String, usize, String, Option<String>)> {
    let samples = dataset.samples.iter().map(|sample| {
        let file = sample.source.path.strip_prefix(fixture("")).unwrap().to_string_lossy().replace('\\', "/");
        let print = sample.source.bytes().ok().map(|bytes| sha256::of_bytes(&bytes));
        (file, sample.source.row.expect("a row"), dataset.classes[sample.class].clone(), print)
    });
    samples.collect()
}

/// The expected result of [`found`] for some files: their rows that have a label.
fn rows(
    files: &[&str],
    name: impl Fn(&serde_json::Value) -> Option<String>,
) -> Vec<(String, usize, String, Option<String>)> {
    let expected = expected();
    let rows = files.iter().flat_map(|file| {
        expected[*file]
            .iter()
            .enumerate()
            .map(|(row, (label, image))| ((*file).to_owned(), row, name(label), image.clone()))
    });
    rows.filter_map(|(file, row, label, image)| Some((file, row, label?, image))).collect()
}

#[test]
fn shards_of_the_hub_are_one_dataset() {
    let dataset = open(fixture("hub")).unwrap();
    assert_eq!((dataset.layout, dataset.name.as_str()), ("parquet", "hub"));
    assert_eq!(dataset.classes, ["apple", "pear", "quince"]);
    assert_eq!((dataset.count(Split::Train), dataset.count(Split::Test)), (44, 5));
    let files = ["test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"];
    let files = files.map(|name| format!("hub/data/{name}.parquet"));
    let name = |label: &serde_json::Value| Some(dataset.classes.get(label.as_u64()? as usize)?.clone());
    let expected = rows(&files.each_ref().map(String::as_str), name);
    assert_eq!(found(&dataset), expected);
    assert!(
        dataset.notes.iter().any(|note| note == "rows without a label were left out: 3"),
        "{:?}",
        dataset.notes
    );
    let report = describe(&dataset, Check::Pixels, &|_, _| std::ops::ControlFlow::Continue(()));
    assert_eq!(report.unreadable.len(), 2, "the rows without an image: {:?}", report.unreadable);
    let why = &report.unreadable[0].1;
    assert!(why.contains("train-00000-of-00002.parquet, row 4: "), "{why}");
    assert!(why.contains("no image; if it names a file, make a table of path and label, or apply"), "{why}");

    assert_eq!(open(fixture("hub/data")).unwrap().samples, dataset.samples);
    let one = open(fixture("hub/data/train-00001-of-00002.parquet")).unwrap();
    assert_eq!(one.samples.len(), 22);
    let notes = one.notes.join("; ");
    assert!(notes.contains("only 1 of 2 files for train") && notes.contains("held out"), "{notes}");
}

#[test]
fn labels_may_be_text_or_bare_numbers() {
    let text = open(fixture("text")).unwrap();
    assert_eq!(text.classes, ["ant", "bee", "moth"]);
    assert_eq!(text.count(Split::Val), 18);
    assert_eq!(
        found(&text),
        rows(&["text/validation/0000.parquet"], |label| Some(label.as_str()?.to_owned()))
    );

    let plain = open(fixture("plain/things.parquet")).unwrap();
    assert_eq!(plain.classes, ["2", "10"], "in the order of numbers");
    assert_eq!((plain.count(Split::Train), plain.count(Split::Test)), (6, 2));
    assert_eq!(found(&plain), rows(&["plain/things.parquet"], |label| Some(label.to_string())));
}

/// As the Hub converts a large dataset of two configurations.
#[test]
fn a_part_of_a_split_counts_as_it_and_other_configurations_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for split in ["full/partial-train", "full/test", "tiny/train"] {
        let split = folder.path().join(split);
        std::fs::create_dir_all(&split).unwrap();
        std::fs::copy(fixture("text/validation/0000.parquet"), split.join("0000.parquet")).unwrap();
    }
    let dataset = open(folder.path()).unwrap();
    assert_eq!((dataset.count(Split::Train), dataset.count(Split::Test)), (18, 18));
    let told = |note: &String| {
        note == "other folders with Parquet files were left out: tiny; open one of them to read it"
    };
    assert!(dataset.notes.iter().any(told), "{:?}", dataset.notes);
    let own = open(folder.path().join("full")).unwrap();
    assert_eq!(own.samples, dataset.samples);
    assert!(!own.notes.concat().contains("other folders"), "{:?}", own.notes);
}

fn refused(path: &Path) -> String {
    open(path).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_read_says_why() {
    let why = refused(&fixture("packed"));
    assert!(why.contains("train.parquet") && why.contains("ZSTD") && why.contains("Snappy"), "{why}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.parquet");
    let whole = std::fs::read(fixture("hub/data/train-00000-of-00002.parquet")).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert!(refused(folder.path()).contains("truncated"), "{}", refused(folder.path()));
    std::fs::write(&file, b"PAR1").unwrap();
    assert!(refused(folder.path()).contains("truncated"));
    let mut long = whole.clone();
    let at = long.len() - 8;
    long[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    std::fs::write(&file, &long).unwrap();
    assert!(refused(folder.path()).contains("4294967295"), "{}", refused(folder.path()));

    std::fs::write(&file, &whole).unwrap();
    std::fs::copy(fixture("text/validation/0000.parquet"), folder.path().join("test.parquet")).unwrap();
    assert!(refused(folder.path()).contains("other classes than"), "{}", refused(folder.path()));
}
