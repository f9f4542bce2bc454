//! Tables as CSV (RFC 4180): one column for every number, a second for its deviation where any row has
//! one, all digits kept.

use super::table::{Cell, Table};
use crate::model::io::csv_cell::word;

/// The table, without title and notes.
pub fn render(table: &Table) -> String {
    let spread = |c: usize| {
        table.rows.iter().any(|row| matches!(&row.cells[c], Cell::Number(n) if n.deviation.is_some()))
    };
    let spread: Vec<bool> = (0..table.columns.len()).map(spread).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let heads = table.columns.iter().zip(&spread).flat_map(|(column, spread)| {
        std::iter::once(column.name()).chain(spread.then(|| format!("{} sd", column.name())))
    });
    write(&mut writer, heads.collect());
    for row in &table.rows {
        let cells = row.cells.iter().zip(&spread).flat_map(|(cell, spread)| {
            let (value, deviation) = match cell {
                Cell::None => (String::new(), None),
                // The mark of heads beyond the paper is for people.
                Cell::Text(text) => (word(text.trim_end_matches(" †")).into_owned(), None),
                Cell::Number(number) => (number.value.to_string(), number.deviation),
            };
            let deviation = spread.then(|| deviation.map_or(String::new(), |d| d.to_string()));
            std::iter::once(value).chain(deviation)
        });
        write(&mut writer, cells.collect());
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("made of strings")
}

fn write(writer: &mut csv::Writer<Vec<u8>>, record: Vec<String>) {
    writer.write_record(&record).expect("memory takes every record of one length");
}
