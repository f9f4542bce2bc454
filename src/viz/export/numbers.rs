//! A table as CSV, for people and spreadsheets, and as NPZ, for NumPy; each says what it shows, of what
//! it was made and by what.
//!
//! CSV begins with lines `# key: value`, which `pandas.read_csv(path, comment="#")`, `numpy.genfromtxt`
//! and R's `read.csv(path, comment.char = "#")` leave out; a cell with `#` in it is quoted. NPZ has an
//! array `metadata` of one string, the same as JSON.

use std::io::{Cursor, Write as _};

use super::ExportError;
use crate::model::io::csv_cell::word;
use crate::viz::draw::table::{Column, Table};

/// What a file says of itself: what it shows, what it was made of and by what.
fn metadata<'a>(title: &'a str, about: &'a str) -> [(&'static str, &'a str); 3] {
    [("title", title), ("made of", about), ("made by", super::MADE_BY)]
}

/// The table as CSV: what it is in comments, a header, one row a line; a matrix as one more column a
/// column.
///
/// # Errors
/// If the writer fails, which memory does not.
pub fn csv(table: &Table, title: &str, about: &str) -> Result<Vec<u8>, ExportError> {
    let failed = |e: &dyn std::fmt::Display| ExportError::Convert { format: "CSV", why: e.to_string() };
    let mut lines = Vec::new();
    for (key, value) in metadata(title, about) {
        let value = value.split(char::is_control).collect::<Vec<_>>().join(" ");
        writeln!(lines, "# {key}: {value}").map_err(|e| failed(&e))?;
    }
    let mut writer = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(lines);
    writer.write_record(table.heads()).map_err(|e| failed(&e))?;
    let words = |at: usize| matches!(table.columns.get(at), Some((_, Column::Words(_))));
    for at in 0..table.rows() {
        let cells = table.row(at).into_iter().enumerate();
        let cells = cells.map(|(at, cell)| if words(at) { word(&cell).into_owned() } else { cell });
        writer.write_record(cells).map_err(|e| failed(&e))?;
    }
    writer.into_inner().map_err(|e| failed(&e))
}

/// The numbers of the table as NPZ: float64 columns, a float32 matrix; words stay in the CSV. What it
/// is stands in `metadata`, and in the archive's comment.
///
/// # Errors
/// If the archive cannot be built.
pub fn npz(table: &Table, title: &str, about: &str) -> Result<Vec<u8>, ExportError> {
    let failed = |e: &dyn std::fmt::Display| ExportError::Convert { format: "NPZ", why: e.to_string() };
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.set_comment(format!("{about}\n{}", super::MADE_BY)).map_err(|e| failed(&e))?;
    // A fixed time, so that the same numbers are the same bytes.
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let mut add = |name: &str, bytes: Vec<u8>| {
        archive.start_file(format!("{name}.npy"), options).map_err(|e| failed(&e))?;
        archive.write_all(&bytes).map_err(|e| failed(&e))
    };
    for (name, column) in &table.columns {
        if let Column::Numbers(values) = column {
            let data = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            add(name, npy("<f8", &format!("({},)", values.len()), &data))?;
        }
    }
    if let Some((name, m)) = &table.matrix {
        let data = m.data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        add(name, npy("<f4", &format!("({}, {})", m.rows, m.cols), &data))?;
    }
    let pairs = metadata(title, about).map(|(key, value)| (key.replace(' ', "_"), value.into()));
    let text = serde_json::Value::Object(pairs.into_iter().collect()).to_string();
    let data: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    add("metadata", npy(&format!("<U{}", text.chars().count()), "()", &data))?;
    archive.finish().map(Cursor::into_inner).map_err(|e| failed(&e))
}

/// A NumPy array, format 1.0: magic, header padded to 64 bytes, data.
fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
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
}
