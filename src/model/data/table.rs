//! A table of images: CSV or TSV with a header that names the columns `path` (or `file_name`, as in a `metadata.csv` of the Hub), `label`
//! and perhaps `split` (train, val or test). Paths are relative to the table's folder, or absolute. Columns are separated by commas, by
//! semicolons (as Excel writes them where the decimal sign is a comma) or by tabs: by whichever comes first in the header.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{DataError, Dataset, Layout, Sample, Source, Split, walk};

pub(super) const LAYOUT: Layout = Layout {
    id: "table",
    what: "a CSV or TSV file with the columns path (or file_name), label and optionally split, or a folder with one such file",
    recognise: |path| table(path).is_some(),
    read: |root, _| read(root),
    official: false,
    splits: "mark images train or test in the table's `split` column",
};

/// The table at `path`: the file itself, or the only table in a folder.
fn table(path: &Path) -> Option<PathBuf> {
    let is_table = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        ["csv", "tsv"].iter().any(|known| ending.eq_ignore_ascii_case(known)) && path.is_file()
    };
    if path.is_file() {
        return is_table(path).then(|| path.into());
    }
    let inside = walk::entries(path).ok()?;
    let mut tables = inside.iter().filter(|path| is_table(path) && columns(path).is_ok());
    let first = tables.next()?;
    tables.next().is_none().then(|| first.clone())
}

struct Columns {
    path: usize,
    label: usize,
    split: Option<usize>,
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
        (Some(path), Some(label)) => Ok(Columns { path, label, split: find("split") }),
        _ => Err(DataError::line(file, 1, &first, "a header with the columns path and label")),
    }
}

/// The file that a cell names; backslashes separate folders, as on Windows, unless a file has them in its name.
fn located(folder: &Path, cell: &str) -> PathBuf {
    let path = folder.join(cell);
    if cell.contains('\\') && !path.exists() { folder.join(cell.replace('\\', "/")) } else { path }
}

fn read(root: &Path) -> Result<Dataset, DataError> {
    let file = table(root).ok_or_else(|| DataError::Layout { path: root.into() })?;
    let columns = columns(&file)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut rows = Vec::new();
    for record in reader(walk::text(&file)?).records() {
        let record = record.map_err(|error| DataError::file(&file, error.to_string()))?;
        let line = record.position().map_or(0, |at| at.line() as usize);
        let cell = |column: usize, name: &str| {
            record.get(column).filter(|cell| !cell.is_empty()).ok_or_else(|| {
                let found = record.iter().collect::<Vec<_>>().join(",");
                DataError::line(&file, line, &found, format!("a {name}"))
            })
        };
        let split = match columns.split {
            None => Split::Train,
            Some(column) => {
                let word = cell(column, "split")?;
                Split::from_word(word)
                    .ok_or_else(|| DataError::line(&file, line, word, "train, val or test"))?
            }
        };
        rows.push((
            located(folder, cell(columns.path, "path")?),
            cell(columns.label, "label")?.to_owned(),
            split,
        ));
    }
    let mut classes: Vec<String> = rows.iter().map(|(_, label, _)| label.clone()).collect();
    classes.sort();
    classes.dedup();
    // Integers are sorted by value: 2 before 10.
    if classes.iter().all(|label| label.parse::<i64>().is_ok()) {
        classes.sort_by_key(|label| label.parse::<i64>().unwrap_or_default());
    }
    let index: HashMap<&String, usize> = classes.iter().zip(0..).collect();
    let samples = rows.into_iter().map(|(path, label, split)| Sample {
        source: Source::File(path),
        class: index[&label],
        split,
    });
    let samples = samples.collect();
    Ok(Dataset::new(&file, LAYOUT.id, classes, samples, Vec::new()))
}
