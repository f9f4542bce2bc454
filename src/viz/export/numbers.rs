//! A table as CSV, for people and spreadsheets, and as NPZ, for NumPy; each with metadata on what it
//! shows, what it was made of and by which program.
//!
//! CSV begins with lines `# key: value`, which `pandas.read_csv(path, comment="#")`, `numpy.genfromtxt`
//! and R's `read.csv(path, comment.char = "#")` skip; a cell with `#` in it is quoted. NPZ has an array
//! `metadata` of one string, the same as JSON.

use std::io::{Cursor, Write as _};

use super::{ExportError, failed};
use crate::model::io::csv_cell::{escape_formula, unique_names};
use crate::viz::draw::table::{Column, Table};

/// The metadata of a file: what it shows, what it was made of and by which program.
fn metadata<'a>(title: &'a str, about: &'a str) -> [(&'static str, &'a str); 3] {
    [("title", title), ("made of", about), ("made by", super::MADE_BY)]
}

/// The lines of a table, headings first, with cells escaped that a spreadsheet would take for a formula.
fn escaped_lines(table: &Table) -> impl Iterator<Item = Vec<String>> {
    let lines = std::iter::once(table.heads()).chain((0..table.rows()).map(|at| table.row(at)));
    lines.map(|cells| cells.iter().map(|cell| escape_formula(cell).into_owned()).collect())
}

/// The table as tab-separated text, headings first, as a spreadsheet takes it from the clipboard.
pub fn tsv(table: &Table) -> String {
    let line = |cells: Vec<String>| {
        cells.iter().map(|cell| cell.replace(['\t', '\n', '\r'], " ")).collect::<Vec<_>>().join("\t") + "\n"
    };
    escaped_lines(table).map(line).collect()
}

/// The bytes of the table as CSV: metadata in comments, a header, one line for each row; each column of
/// the matrix is a column.
pub fn csv(table: &Table, title: &str, about: &str) -> Result<Vec<u8>, ExportError> {
    let mut lines = Vec::new();
    for (key, value) in metadata(title, about) {
        let value = value.split(char::is_control).collect::<Vec<_>>().join(" ");
        writeln!(lines, "# {key}: {value}").map_err(failed("CSV"))?;
    }
    let mut writer = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(lines);
    for line in escaped_lines(table) {
        writer.write_record(line).map_err(failed("CSV"))?;
    }
    writer.into_inner().map_err(failed("CSV"))
}

/// The bytes of the table as NPZ: columns of float64 or of strings and a float32 matrix, a repeated name with a number
/// after it. Metadata are in the array `metadata`, and partly in the archive's comment.
pub fn npz(table: &Table, title: &str, about: &str) -> Result<Vec<u8>, ExportError> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.set_comment(format!("{about}\n{}", super::MADE_BY)).map_err(failed("NPZ"))?;
    // A fixed time, so that the same numbers give the same bytes.
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let mut add = |name: &str, bytes: Vec<u8>| {
        archive.start_file(format!("{name}.npy"), options).map_err(failed("NPZ"))?;
        archive.write_all(&bytes).map_err(failed("NPZ"))
    };
    let names = std::iter::once("metadata").chain(table.columns.iter().map(|(name, _)| name.as_str()));
    let names = unique_names(names.chain(table.matrix.iter().map(|(name, _)| name.as_str())));
    for (name, (_, column)) in names[1..].iter().zip(&table.columns) {
        let array = match column {
            Column::Numbers(values) => {
                let data = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
                npy("<f8", &format!("({},)", values.len()), &data)
            }
            Column::Words(words) => npy_of_words(&format!("({},)", words.len()), words),
        };
        add(name, array)?;
    }
    if let (Some((_, m)), Some(name)) = (&table.matrix, names.last()) {
        let data = m.data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        add(name, npy("<f4", &format!("({}, {})", m.rows, m.cols), &data))?;
    }
    let pairs = metadata(title, about).map(|(key, value)| (key.replace(' ', "_"), value.into()));
    let text = serde_json::Value::Object(pairs.into_iter().collect()).to_string();
    add("metadata", npy_of_words("()", &[text]))?;
    archive.finish().map(Cursor::into_inner).map_err(failed("NPZ"))
}

/// A NumPy array of strings: UTF-32, each filled up with zeros to the length of the longest.
fn npy_of_words(shape: &str, words: &[String]) -> Vec<u8> {
    let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0).max(1);
    let chars = words.iter().flat_map(|word| word.chars().chain(std::iter::repeat('\0')).take(width));
    npy(&format!("<U{width}"), shape, &chars.flat_map(|c| u32::from(c).to_le_bytes()).collect::<Vec<u8>>())
}

/// A NumPy array, format 1.0: magic, header padded to a multiple of 64 bytes, data.
fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((length as u16).to_le_bytes());
    out.extend(format!("{header:<width$}\n", width = length - 1).bytes());
    out.extend(data);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::trace::Matrix;

    #[test]
    fn what_is_no_number_is_empty_in_columns_and_in_a_matrix() {
        let data = vec![0.5, f32::NAN, f32::INFINITY, 0.1];
        let table = Table::counted("token", 2).numbers("score", [f64::NAN, 1.0]);
        let bytes = csv(&table.matrix("plan", Matrix { rows: 2, cols: 2, data }), "t", "a").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().skip_while(|line| line.starts_with('#')).collect();
        assert_eq!(lines, ["token,score,plan_0,plan_1", "0,,0.5,", "1,1,,0.1"]);
    }

    #[test]
    fn a_spreadsheet_takes_it_line_by_line() {
        let matrix = Matrix { rows: 2, cols: 2, data: vec![0.5, 0.25, f32::NAN, 1.0] };
        let table = Table::counted("token", 2).words("@class", ["a\r\tb".into(), "=c".into()]);
        let expected = "token\t'@class\tplan_0\tplan_1\n0\ta  b\t0.5\t0.25\n1\t'=c\t\t1\n";
        assert_eq!(tsv(&table.matrix("plan", matrix)), expected);
    }

    #[test]
    fn names_that_are_there_already_get_a_number_and_formulas_are_guarded() {
        let table =
            Table::default().numbers("=cat", [-1.0]).numbers("=cat", [2.0]).numbers("metadata", [3.0]);
        let archive = zip::ZipArchive::new(Cursor::new(npz(&table, "t", "a").unwrap())).unwrap();
        let mut names: Vec<String> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, ["=cat 2.npy", "=cat.npy", "metadata 2.npy", "metadata.npy"]);
        let text = String::from_utf8(csv(&table, "t", "a").unwrap()).unwrap();
        assert!(text.ends_with("\n'=cat,'=cat,metadata\n-1,2,3\n"), "{text}");
    }

    #[test]
    fn words_name_the_rows_of_an_archive() {
        let table = Table::default().words("class", ["é".into(), "cat".into()]).numbers("images", [1.0, 2.0]);
        let mut archive = zip::ZipArchive::new(Cursor::new(npz(&table, "t", "a").unwrap())).unwrap();
        let mut array = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name("class.npy").unwrap(), &mut array).unwrap();
        assert!(array[10..].starts_with(b"{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }"));
        let expected: Vec<u8> = "é\0\0cat".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        assert!(array.ends_with(&expected), "{array:?}");
    }
}
