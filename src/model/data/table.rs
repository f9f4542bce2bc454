//! A table of images: CSV or TSV with a header that names the columns `path` (or `file_name`, as in a `metadata.csv` of the Hub), `label`
//! and perhaps `split` (train, val or test), without which it is that of the folders `train`, `val` and `test` if all images lie in these;
//! each of them may have its own `metadata.csv`, as on the Hub. Paths are relative to the table's folder, or absolute. Columns are
//! separated by commas, by semicolons (as Excel writes them where the decimal sign is a comma) or by tabs: by whichever comes first in
//! the header.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::{DataError, Dataset, Layout, Sample, Split, first_names, folder, walk};

pub(super) const LAYOUT: Layout = Layout {
    id: "table",
    what: "a CSV or TSV file with the columns path (or file_name), label and optionally split, or a folder with one such file, or with a metadata.csv in each of its folders train, val and test",
    recognise: |path| !tables(path).is_empty(),
    read: |root, _| read(root),
    official: false,
    splits: "mark images train or test in the table's `split` column",
};

/// The tables at `path`: the file itself, the only table in a folder, or the `metadata.csv` in each of its folders of splits.
fn tables(path: &Path) -> Vec<PathBuf> {
    let is_table = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        ["csv", "tsv"].iter().any(|known| ending.eq_ignore_ascii_case(known)) && path.is_file()
    };
    if path.is_file() {
        return if is_table(path) { vec![path.into()] } else { Vec::new() };
    }
    let is_known = |path: &PathBuf| is_table(path) && columns(path).is_ok();
    let inside: Vec<PathBuf> = walk::entries(path).unwrap_or_default().into_iter().filter(is_known).collect();
    if inside.len() == 1 {
        return inside;
    }
    let of_splits = folder::splits(path).into_iter().map(|(_, folder)| folder.join("metadata.csv"));
    of_splits.map(|table| is_known(&table).then_some(table)).collect::<Option<_>>().unwrap_or_default()
}

struct Columns {
    path: usize,
    label: usize,
    split: Option<usize>,
    /// Names of the other columns.
    others: Vec<String>,
}

fn reader(text: String) -> csv::Reader<std::io::Cursor<String>> {
    let mut header = text.bytes().take_while(|byte| !matches!(byte, b'\n' | b'\r'));
    let delimiter = header.find(|byte| b",;\t".contains(byte)).unwrap_or(b',');
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(delimiter).trim(csv::Trim::All);
    builder.from_reader(std::io::Cursor::new(text))
}

fn columns(file: &Path) -> Result<Columns, DataError> {
    let first = walk::first_line(file)?;
    let mut reader = reader(first.clone());
    let header = reader.headers().map_err(|error| DataError::file(file, error.to_string()))?;
    let find = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    match (find("path").or_else(|| find("file_name")), find("label")) {
        (Some(path), Some(label)) => {
            let split = find("split");
            let is_other = |(at, name): &(usize, &str)| {
                ![Some(path), Some(label), split].contains(&Some(*at)) && !name.is_empty()
            };
            let others = header.iter().enumerate().filter(is_other).map(|(_, name)| name.to_owned());
            Ok(Columns { path, label, split, others: others.collect() })
        }
        _ => Err(DataError::line(file, 1, &first, "a header with the columns path (or file_name) and label")),
    }
}

/// The file that a cell names; backslashes separate folders, as on Windows, unless a file has them in its name.
fn located(folder: &Path, cell: &str) -> PathBuf {
    let path = folder.join(cell);
    if cell.contains('\\') && !path.exists() { folder.join(cell.replace('\\', "/")) } else { path }
}

/// The rows of a table: the image, its label, and its split if the table has a column of them.
fn rows(file: &Path) -> Result<Vec<(PathBuf, String, Option<Split>)>, DataError> {
    let columns = columns(file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut rows = Vec::new();
    for record in reader(walk::text(file)?).records() {
        let record = record.map_err(|error| DataError::file(file, error.to_string()))?;
        let line = record.position().map_or(0, |at| at.line() as usize);
        let cell = |column: usize, name: &str| {
            record.get(column).filter(|cell| !cell.is_empty()).ok_or_else(|| {
                let found = record.iter().collect::<Vec<_>>().join(",");
                DataError::line(file, line, &found, format!("a {name}"))
            })
        };
        let word = columns.split.map(|column| cell(column, "split")).transpose()?;
        let split = |word| {
            Split::from_word(word).ok_or_else(|| DataError::line(file, line, word, "train, val or test"))
        };
        rows.push((
            located(folder, cell(columns.path, "path")?),
            cell(columns.label, "label")?.to_owned(),
            word.map(split).transpose()?,
        ));
    }
    Ok(rows)
}

/// The split of the folder below `root` in which an image lies.
fn split_of_folder(root: &Path, image: &Path) -> Option<Split> {
    let parts = image.strip_prefix(root).ok()?.components();
    let mut parts = parts.skip_while(|part| *part == Component::CurDir); // `./train/a.png`, as `find` lists it
    Split::from_word(parts.next()?.as_os_str().to_str()?).filter(|_| parts.next().is_some())
}

/// A note on the columns of tables without one called `split`, which may say it by another name.
fn unread(tables: &[PathBuf]) -> Result<Option<String>, DataError> {
    let columns = tables.iter().map(|file| columns(file)).collect::<Result<Vec<_>, _>>()?;
    let others: Vec<String> = columns.iter().flat_map(|columns| columns.others.clone()).collect();
    let is_told = columns.iter().any(|columns| columns.split.is_some());
    Ok((!is_told && !others.is_empty()).then(|| {
        let names = first_names(&others);
        format!("columns that were not read: {names}; one that says train, val or test must be called split")
    }))
}

fn read(root: &Path) -> Result<Dataset, DataError> {
    let tables = tables(root);
    let [first, ..] = &tables[..] else { return Err(DataError::Layout { path: root.into() }) };
    let folder = if root.is_dir() { root } else { root.parent().unwrap_or(Path::new("")) };
    let rows = tables.iter().map(|file| rows(file)).collect::<Result<Vec<_>, _>>()?;
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    let all_lie_in_splits = rows.iter().all(|(image, ..)| split_of_folder(folder, image).is_some());
    let split = |image: &Path, own: Option<Split>| {
        own.or_else(|| split_of_folder(folder, image).filter(|_| all_lie_in_splits)).unwrap_or(Split::Train)
    };
    let mut classes: Vec<String> = rows.iter().map(|(_, label, _)| label.clone()).collect();
    classes.sort();
    classes.dedup();
    // Integers are sorted by value: 2 before 10.
    if classes.iter().all(|label| label.parse::<i64>().is_ok()) {
        classes.sort_by_key(|label| label.parse::<i64>().unwrap_or_default());
    }
    let index: HashMap<&String, usize> = classes.iter().zip(0..).collect();
    let samples = rows.into_iter().map(|(path, label, own)| Sample {
        class: index[&label],
        split: split(&path, own),
        source: path.into(),
    });
    let samples = samples.collect();
    let notes = if all_lie_in_splits { Vec::new() } else { unread(&tables)?.into_iter().collect() };
    let named = if tables.len() == 1 { first } else { folder };
    Ok(Dataset::new(named, LAYOUT.id, classes, samples, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn backslashes_separate_folders_unless_a_file_has_them_in_its_name() {
        let folder = tempfile::tempdir().unwrap();
        crate::model::io::atomic_file::write(&folder.path().join("a\\b.png"), b"").unwrap();
        let found = ["a\\b.png", "a\\c.png"].map(|cell| located(folder.path(), cell));
        assert_eq!(found, ["a\\b.png", "a/c.png"].map(|name| folder.path().join(name)));
    }

    #[test]
    fn an_image_lies_in_the_folder_of_a_split_however_it_is_named() {
        let split = |root: &str, image: &str| split_of_folder(Path::new(root), Path::new(image));
        for (root, image) in [("birds", "birds/train/a.png"), ("", "train/a.png"), ("", "./train/a.png")] {
            assert_eq!(split(root, image), Some(Split::Train), "{image}");
        }
        for (root, image) in
            [("birds", "train/a.png"), ("", "train"), ("", "/train/a.png"), ("", "a/train/a.png")]
        {
            assert_eq!(split(root, image), None, "{image}");
        }
    }
}
