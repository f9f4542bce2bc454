//! Tables as CSV and Parquet. A column of numbers is followed by one of standard deviations if any row has one.

use anyhow::Context;

use super::table::{Cell, Table};
use crate::model::io::columns::{self, Column, Values};

/// Renders the table as CSV, without title and notes.
pub fn render(table: &Table) -> String {
    String::from_utf8(columns::csv(&columns_of(table))).expect("made of strings")
}

/// Encodes the table as Parquet, with its title and notes as `title` and `notes` in the file's metadata.
///
/// # Errors
/// If the table cannot be encoded, which would be a bug.
pub fn parquet(table: &Table) -> anyhow::Result<Vec<u8>> {
    let notes = table.notes.join("\n");
    let metadata = [("title", table.title.as_str()), ("notes", notes.as_str())];
    columns::parquet(&columns_of(table), &metadata)
        .with_context(|| format!("{}: cannot be encoded as Parquet", table.id))
}

fn columns_of(table: &Table) -> Vec<Column> {
    let mut columns = Vec::new();
    for (c, column) in table.columns.iter().enumerate() {
        let cells = || table.rows.iter().map(|row| &row.cells[c]);
        if cells().any(|cell| matches!(cell, Cell::Text(_))) {
            let text = |cell: &Cell| match cell {
                Cell::None => None,
                // The mark of heads that are not in the paper is for people.
                Cell::Text(text) => Some(text.trim_end_matches(" †").to_owned()),
                Cell::Number(number) => Some(number.value.to_string()),
            };
            columns.push(Column::new(column.name(), Values::Text(cells().map(text).collect())));
            continue;
        }
        let number = |cell: &Cell| if let Cell::Number(number) = cell { Some(*number) } else { None };
        let values = cells().map(|cell| Some(number(cell)?.value)).collect();
        columns.push(Column::new(column.name(), Values::Float64(values)));
        let deviations: Vec<Option<f64>> = cells().map(|cell| number(cell)?.deviation).collect();
        if deviations.iter().any(Option::is_some) {
            columns.push(Column::new(format!("{} sd", column.name()), Values::Float64(deviations)));
        }
    }
    columns
}
