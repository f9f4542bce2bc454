//! Tables as HTML, each column to be sorted by; a word that the row above has too is left out until then.

use super::escape;
use crate::app::report::table::{Cell, Column, Row, Table};

/// The table with its title and notes.
pub fn html(table: &Table) -> String {
    let heads: String = table.columns.iter().map(head).collect();
    let rows: String =
        table.rows.iter().zip(table.merged_rows()).map(|(row, read)| line(table, row, &read)).collect();
    let notes: String = table.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"small\">\n{notes}</ul>\n") };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n<caption>{title}</caption>\n\
         <thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{notes}",
        title = escape(&table.title),
    )
}

fn head(column: &Column) -> String {
    let class = if column.numbers { " class=\"number\"" } else { "" };
    format!(
        "<th scope=\"col\" aria-sort=\"none\"{class}><button type=\"button\">{}</button></th>",
        escape(&column.name())
    )
}

/// A row, in which `read` leaves out what is repeated.
fn line(table: &Table, row: &Row, read: &Row) -> String {
    let class = if row.ruled { " class=\"ruled\"" } else { "" };
    let cells = row.cells.iter().zip(&read.cells).zip(&table.columns).map(|((cell, read), column)| {
        let repeated = if cell == read { "" } else { " class=\"repeated\"" };
        match cell {
            Cell::None => "<td class=\"number\">–</td>".to_owned(),
            Cell::Text(text) if column.numbers => format!("<td class=\"number\">{}</td>", escape(text)),
            Cell::Text(text) => format!("<td><span{repeated}>{}</span></td>", escape(text)),
            Cell::Number(number) => {
                let best = if number.best { " best" } else { "" };
                let spread = number.deviation_text();
                let spread = spread.map_or_else(String::new, |spread| format!(" <small>± {spread}</small>"));
                let text = escape(&number.text());
                format!("<td class=\"number{best}\" data-value=\"{}\">{text}{spread}</td>", number.value)
            }
        }
    });
    format!("<tr{class}>{}</tr>\n", cells.collect::<String>())
}
