//! Tables as Markdown, padded to equal width: numbers right-aligned, those marked as best in bold.

use super::table::{Cell, Table};
use crate::model::io::escape::shown;

/// Renders the table, its title as a heading, its notes as a list.
pub fn render(table: &Table) -> String {
    let mut rows: Vec<Vec<String>> = vec![table.columns.iter().map(|c| escape(&c.name())).collect()];
    rows.extend(table.merged_rows().iter().map(|row| row.cells.iter().map(cell).collect()));
    let width = |c: usize| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&table.columns).zip(&widths).map(|((text, column), &width)| {
            if column.numbers { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = table.columns.iter().zip(&widths).map(|(column, &width)| match column.numbers {
        true => format!("{}:", "-".repeat(width + 1)),
        false => "-".repeat(width + 2),
    });
    let mut text = format!("### {}\n\n{}", inert(&table.title), line(&rows[0]));
    text.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
    rows[1..].iter().for_each(|row| text.push_str(&line(row)));
    if !table.notes.is_empty() {
        text.push('\n');
        table.notes.iter().for_each(|note| text.push_str(&format!("* {}\n", inert(note))));
    }
    text
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => "–".into(),
        Cell::Text(text) => escape(text),
        Cell::Number(number) => {
            let deviation = number.deviation_text().map(|deviation| format!(" ± {deviation}"));
            let text = number.text() + &deviation.unwrap_or_default();
            if number.best { format!("**{text}**") } else { text }
        }
    }
}

/// Escapes text for a cell: a pipe would end the cell, and a line break the row.
fn escape(text: &str) -> String {
    inert(&text.replace(['\n', '\r'], " ")).replace("\\|", "\\\\|").replace('|', "\\|")
}

/// Text in which no HTML and no link begins: it may hold names from somebody else's files.
fn inert(text: &str) -> String {
    let text = shown(text).replace("](", "]\\(").replace("\\<", "\\\\<");
    let mut parts = text.split('<');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_tag = part.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c));
        out.push_str(if is_tag { "&lt;" } else { "<" });
        out.push_str(part);
    }
    out
}
